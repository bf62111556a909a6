"""Approximate posteriors of large finite spaces, on a random dictionary of observed points."""
