"""Tests of `scalable_bandits.execution`."""
