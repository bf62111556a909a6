"""Tests of `scalable_bandits.cli`."""
