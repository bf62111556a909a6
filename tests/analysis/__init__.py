"""Tests of `scalable_bandits.analysis`."""
