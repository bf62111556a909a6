"""Models of policies: a prior, an engine, observations, and a search for the largest index."""
