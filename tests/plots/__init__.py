"""Tests of `scalable_bandits.plots`."""
