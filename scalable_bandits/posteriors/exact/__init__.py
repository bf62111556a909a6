"""Exact posteriors on small finite spaces: the dense covariance, and the window of its latest updates."""
