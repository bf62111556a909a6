"""Learning a kernel: marginal likelihood, priors on hyperparameters, when to refit."""
