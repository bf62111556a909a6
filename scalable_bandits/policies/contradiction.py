"""Whether the observations contradict a policy's model.

e_i = (y_i - mu_{-i}(x_i)) / sqrt(s2_{-i}(x_i) + lambda_i)     normalised leave-one-out errors,
which a model that fits makes about 1 in size (Rasmussen & Williams 2006, eqs. 5.10-5.12)
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.models.model import Model
from scalable_bandits.posteriors.regression import covariances, positive_factor


class ContradictedModel(UserWarning):
    """Observations do not fit the noise, the kernel or the scale that a policy was given."""


class AllMeasured(UserWarning):
    """Every point of a space has been measured, without noise: further measurements tell nothing new."""


FIRST_CHECK = 20  # number of observations at the first check; the next ones are at twice as many
FEWEST_POINTS, MOST_POINTS = 10, 2000  # numbers of distinct points of a check
TOO_LARGE, TOO_SMALL = 4.0, 0.05  # size of the errors (root mean square) that no chance explains


def leave_one_out_errors(kernel: Kernel, x: Floats, residuals: Floats, noise_variances: Floats) -> Floats:
    """Compute the normalised leave-one-out errors (m,) of a Gaussian process.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y.
    x
        (m, d) distinct points.
    residuals
        (m,) averages of y minus the prior mean, in units of y.
    noise_variances
        (m,) noise variances of the averages, in squared units of y.
    """
    factor = positive_factor(covariances(kernel, x, x), noise_variances)
    inverse = cho_solve((factor, True), np.eye(len(x)))
    return np.asarray((inverse @ residuals) / np.sqrt(inverse.diagonal()))


def left_out_errors(model: Model) -> Floats | None:
    """Compute the normalised leave-one-out errors (m,) of a model; None if it forgets, or has few or very many points.

    Parameters
    ----------
    model
        Model with its observations.
    """
    kernel = model.kernel  # first: it brings a learned model up to date
    if model.forgets or kernel.epsilon:
        return None
    numbers, averages, noise_variances = model.observations.collapsed()
    if not FEWEST_POINTS <= len(numbers) <= MOST_POINTS:
        return None
    x = model.domain.coordinates(numbers)
    return leave_one_out_errors(kernel, x, averages - model.prior_mean(x), noise_variances)


def contradiction(model: Model, noise: float, rounds: int) -> str | None:
    """Return in words how the observations contradict a model; None if they do not.

    Parameters
    ----------
    model
        Model with its observations.
    noise
        Standard deviation R of the noise that was given, in units of y.
    rounds
        Number of observations.
    """
    errors = left_out_errors(model)
    if errors is None:
        return None
    values = model.averages()[1]
    spread = float(values.std())
    if len(values) == rounds and noise > spread > 0.0:  # averages of repeats have less noise
        return f"noise={noise:.3g} is larger than the spread of y, {spread:.3g}"
    size = float(np.sqrt(np.mean(errors**2)))
    if TOO_SMALL <= size <= TOO_LARGE:
        return None
    reason = "noise or output scale are too small" if size > 1.0 else "noise or output scale are too large"
    return f"left-out values differ from their predictions by {size:.2g} times what is expected: {reason}"
