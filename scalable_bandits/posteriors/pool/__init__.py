"""Largest index of a pool: chunks of candidates scored one by one, a queue from which batches come, and draws."""
