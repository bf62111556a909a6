"""Tests of `scalable_bandits.policies`."""
