"""
Eight evaluations in flight
===========================

Eight threads measure at once, on Branin's function. Each new setting takes the seven that are pending into account, so
that no two of them ask the same question. Numbers are the first sixteen settings in the order they were asked for.
"""

import scalable_bandits as sb

box = sb.Box([[-5, 10], [0, 15]])
branin = sb.Benchmark("branin", box, sb.GaussianNoise(1.0))
policy = sb.GPEI(box, 3600.0 * sb.Matern([4.0, 8.0], nu=2.5), noise=1.0, regularization=1.0)
found = sb.maximize(lambda x: branin.mean(x), policy, budget=48, parallel=8)

ax = sb.plots.posterior(policy, branin)
for number, x in enumerate(found.x[:16], start=1):
    ax.annotate(str(number), x, (4, 4), textcoords="offset points", color="white")
