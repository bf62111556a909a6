"""Tests of `scalable_bandits.runs`."""
