"""Runs of a policy: simulation, maximisation of a function, recording in a store, resuming from it."""
