"""Random functions from a posterior: finite features of a kernel, and sample paths."""
