"""What a draw is made of: linear maps of standard normals, taken apart exactly instead of by statistics."""

import itertools

import numpy as np


class Impulse:
    """In the place of numpy's generator: zeros, but for a one as the number `position` drawn."""

    def __init__(self, position):
        self.left = position

    def standard_normal(self, count):
        """The next `count` numbers."""
        out = np.zeros(count)
        if 0 <= self.left < count:
            out[self.left] = 1.0
        self.left -= count
        return out


def impulse_responses(draw):
    """Draws a_j for a one as the j-th normal, (j, n): a draw is sum_j z_j a_j, with covariance sum_j a_j a_j'."""
    responses = []
    for position in itertools.count():
        impulse = Impulse(position)
        responses.append(draw(impulse))
        if impulse.left >= 0:  # fewer numbers were drawn: that was the draw without any
            np.testing.assert_allclose(responses.pop(), 0, atol=1e-11)
            return np.array(responses).reshape(len(responses), -1)
