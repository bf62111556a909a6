"""Tests of `scalable_bandits.store`."""
