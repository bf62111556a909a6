"""Tests of `scalable_bandits.spaces`."""
