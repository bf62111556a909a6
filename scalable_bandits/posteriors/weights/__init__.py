"""Posteriors of the weights of finitely many features."""
