"""Policies inside other packages' tools; a module each, named after the package that it needs."""
