"""Exact posteriors of large finite spaces, whose candidates are updated tile by tile."""
