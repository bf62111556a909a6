"""Tests of `scalable_bandits.report`."""
