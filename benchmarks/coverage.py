"""How often intervals of learned models hold f, beside those of the true prior."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

import scalable_bandits as sb
from benchmarks.measure import Line

LENGTHSCALE, UNIFORM = 0.3, 100
FACTOR = float(norm.ppf(0.975))


class Draw(NamedTuple):
    """A function drawn from the prior of learned models, and what was measured of it."""

    x: Any  # (m + 100, d) points measured, and uniform ones
    f: Any  # (m + 100,)
    measured: int  # m
    repeats: int
    noise: float  # standard deviation
    order: Any  # (n,) numbers of the points measured
    y: Any  # (n,)


def drawn(seed: int, noisy: bool) -> Draw:
    """Draw a function in one to four dimensions, measured at up to 8 (d + 1) points, 2 to 20 times each if noisy."""
    rng = np.random.default_rng(seed)
    d = 1 + seed % 4
    measured, repeats = (int(rng.integers(5, 8 + 8 * d)), int(rng.integers(2, 21))) if noisy else (10 * d, 1)
    x = rng.random((measured + UNIFORM, d))
    covariance = sb.Matern(LENGTHSCALE, nu=2.5).block(x)
    f = np.linalg.cholesky(covariance + 1e-10 * np.eye(len(x))) @ rng.standard_normal(len(x))
    noise = rng.uniform(0.05, 1.0) * float(np.ptp(f[:measured])) if noisy else 0.0
    order = rng.permutation(np.repeat(np.arange(measured), repeats))
    return Draw(x, f, measured, repeats, noise, order, f[order] + noise * rng.standard_normal(len(order)))


def true_posterior(draw: Draw) -> tuple[Any, Any]:
    """Return mean and standard deviation at all points, of the prior that the function was drawn from."""
    m = draw.measured
    covariance = sb.Matern(LENGTHSCALE, nu=2.5).block(draw.x)
    averages = np.bincount(draw.order, draw.y, m) / draw.repeats
    noisy = covariance[:m, :m] + (draw.noise**2 / draw.repeats + 1e-10) * np.eye(m)
    weights = np.linalg.solve(noisy, covariance[:m])
    variance = covariance.diagonal() - np.einsum("ij,ij->j", covariance[:m], weights)
    return weights.T @ averages, np.sqrt(np.maximum(variance, 1e-14))


def coverage(quick: bool) -> Iterator[Line]:
    """95 % intervals of f where the mean is in the better half of y, and two deviations of what is recommended."""
    for noisy in (True, False):
        hits: dict[str, list[bool]] = defaultdict(list)
        for seed in range(4 if quick else 200):
            draw = drawn(seed, noisy)
            policy = sb.GPEI(sb.Box([[0, 1]] * draw.x.shape[1]))
            policy.tell(draw.x[draw.order], draw.y)
            known = true_posterior(draw)
            for name, (mean, std) in (("ours", policy.posterior(draw.x)), ("true", known)):
                held, better = np.abs(draw.f - mean) <= FACTOR * std, mean >= np.median(draw.y)
                for where, part in (("measured", slice(draw.measured)), ("uniform", slice(draw.measured, None))):
                    hits[f"{name} {where}"] += held[part][better[part]].tolist()
                    hits[f"{name} {where}, worse"] += held[part][~better[part]].tolist()
            best = policy.best()
            at = int(np.argmin(np.abs(draw.x[: draw.measured] - best.x).sum(axis=1)))
            hits["best"].append(abs(best.mean - draw.f[at]) <= 2.0 * best.std)
        share = {name: float(np.mean(each)) for name, each in hits.items()}
        what, asked = ("noisy repeats", ".90 to .99") if noisy else ("without noise", "within .03 of the true prior's")
        for where in ("measured", "uniform"):
            for half, goal in (("", asked), (", worse", "")):
                ours, true = share[f"ours {where}{half}"], share[f"true {where}{half}"]
                yield Line(
                    f"{what}, {where} points{half or ', better'} half", f"{ours:.3f}", f"true prior {true:.3f}",
                    f"{ours - true:+.3f}", goal,
                )  # fmt: skip
        yield Line(f"{what}, recommended", f"{share['best']:.3f}", "", "", asked if noisy else "")
