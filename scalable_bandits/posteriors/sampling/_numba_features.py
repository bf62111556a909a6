"""Sums of cosines, the inner loop of sample paths, on arrays and scalars."""

import math

from scalable_bandits._numba_compile import njit


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_waves(x, frequencies, shifts, amplitudes, turns, out):
    """Add the sum over j of amplitudes[j] cos(2 pi (frequencies[j]'x[:, i] + shifts[j])) to out[i], for x (d, k).

    `turns` (k,) is scratch space. The cosine is computed as its Taylor series after whole turns are subtracted (error
    below 4e-16), because loops without calls are vectorised.
    """
    d, k = x.shape
    for j in range(frequencies.shape[0]):
        for i in range(k):
            turns[i] = shifts[j]
        for c in range(d):
            f = frequencies[j, c]
            for i in range(k):
                turns[i] += f * x[c, i]
        a = amplitudes[j]
        for i in range(k):
            r = turns[i] - math.floor(turns[i] + 0.5)
            s = 39.47841760435743447 * r * r  # (2 pi r)^2
            p = 1.0 - s * (1.0 / 756.0)
            p = 1.0 - s * (1.0 / 650.0) * p
            p = 1.0 - s * (1.0 / 552.0) * p
            p = 1.0 - s * (1.0 / 462.0) * p
            p = 1.0 - s * (1.0 / 380.0) * p
            p = 1.0 - s * (1.0 / 306.0) * p
            p = 1.0 - s * (1.0 / 240.0) * p
            p = 1.0 - s * (1.0 / 182.0) * p
            p = 1.0 - s * (1.0 / 132.0) * p
            p = 1.0 - s * (1.0 / 90.0) * p
            p = 1.0 - s * (1.0 / 56.0) * p
            p = 1.0 - s * (1.0 / 30.0) * p
            p = 1.0 - s * (1.0 / 12.0) * p
            out[i] += a * (1.0 - s * (1.0 / 2.0) * p)
