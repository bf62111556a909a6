"""Posteriors of functions that change over rounds: a Kalman filter, a sliding window, weights."""
