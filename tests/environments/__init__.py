"""Tests of `scalable_bandits.environments`."""
