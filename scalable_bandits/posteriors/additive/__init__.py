"""Posteriors of functions that are sums of functions of a few dimensions each."""
