"""Policies inside other packages' tools, and runs in trackers; a module each, named after the package that it needs."""
