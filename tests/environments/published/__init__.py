"""Tests of `scalable_bandits.environments.published`: each data set against another reading of its file."""
