"""Runs of a policy: simulated, maximising a function, recorded in a store, resumed from it."""
