"""Tests of `scalable_bandits.studies`."""
