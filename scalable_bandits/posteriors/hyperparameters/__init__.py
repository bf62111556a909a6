"""Priors learned from data: marginal likelihood, kernels refitted every few rounds, models without a given kernel."""
