"""Largest index of a pool: chunks of candidates scored one by one, and a queue of the best from which batches come."""
