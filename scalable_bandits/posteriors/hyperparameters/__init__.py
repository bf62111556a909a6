"""Priors learned from data: marginal likelihood, and all that models without a given kernel learn."""
