"""Engines of queried points: the posterior as a function of x, for spaces of which no list of candidates is made."""

from __future__ import annotations

from abc import abstractmethod

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.box.surface import SearchSurface
from scalable_bandits.posteriors.engine import OnDemandEngine
from scalable_bandits.spaces import Indices


class QueriedEngine(OnDemandEngine):
    """Posterior at any point; `argmax` is over the numbered points, not over the space.

    The numbered points are rows of `points`, which the owner replaces by a longer array before it uses new numbers.
    """

    @abstractmethod
    def surface(
        self, pending: Floats | None = None, noise_variances: float | Floats = 0.0, values: Floats | None = None
    ) -> SearchSurface:
        """Return the posterior as a function of x.

        Parameters
        ----------
        pending
            Pending points (q, d), treated as observed.
        noise_variances
            Noise variance of the pending points, one number or (q,), in squared units of y.
        values
            Values (p,) of the first pending points, in units of y; the others, or all for None, have their posterior
            means, which lower variances and keep means (Desautels, Krause & Burdick 2014).
        """

    @abstractmethod
    def covariance(self, x: Floats, other: Floats) -> Floats:
        """Return the posterior covariances (k, j) of f at points x (k, d) and at other ones (j, d)."""

    def at(self, candidates: Indices) -> tuple[Floats, Floats]:
        return self.surface().predict(self.points[candidates])

    def columns(self, candidates: Indices) -> Floats:
        return self.covariance(self.points[candidates], self.points)
