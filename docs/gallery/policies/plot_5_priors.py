"""
Priors that are rejected
========================

PE-GP-UCB begins with several priors and rejects those whose prediction errors are too large. A bar ends with a cross
where its prior was rejected; its dark parts are the rounds that used the prior.
"""

import scalable_bandits as sb

space = sb.Grid([[0, 1]], 50)
priors = [
    sb.Prior("far too high", 0.1 * sb.RBF(0.2), mean=4.0),
    sb.Prior("too high", 0.1 * sb.RBF(0.2), mean=2.0),
    sb.Prior("rising", 0.1 * sb.RBF(0.2), mean=lambda x, t: x[:, 0]),
    sb.Prior("true", 0.1 * sb.RBF(0.2)),
]
function = sb.GPSample(space, 0.1 * sb.RBF(0.2), sb.GaussianNoise(0.1), seed=1)
policy = sb.PEGPUCB(space, priors, noise=0.1, regularization=0.01)
run = sb.simulate(policy, function, horizon=300)
sb.plots.prior_timeline(policy, run)
