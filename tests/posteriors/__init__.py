"""Tests of `scalable_bandits.posteriors`."""
