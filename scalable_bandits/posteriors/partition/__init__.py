"""The partition of a space into cells, each with a posterior of its own."""
