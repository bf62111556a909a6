"""Kernels learned from data: marginal likelihood, priors on hyperparameters, and when to refit."""
