"""Tests of `scalable_bandits.formulas`."""
