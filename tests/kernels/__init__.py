"""Tests of `scalable_bandits.kernels`."""
