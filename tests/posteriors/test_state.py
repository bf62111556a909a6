"""Declared states: saved, restored and copied bit for bit, and refused where they do not fit."""

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.kernels import RBF
from scalable_bandits.posteriors.forgetting.weighted import WeightedEngine
from scalable_bandits.posteriors.state import Stateful, array, copied, group, member, number, value


class Rows(Stateful):
    """Rows that grow: a count, the rows in use, and a square corner in use."""

    STATE = (
        number("count", int),
        array("_rows", "(count, 3)", used="count"),
        array("square", "(count, count)", used=("count", "count"), name="corner"),
    )

    def __init__(self, room=4):
        self.count, self._rows, self.square = 0, np.full((room, 3), np.nan), np.full((room, room), np.nan)

    def add(self, row):
        self._rows[self.count] = row
        self.count += 1
        self.square[: self.count, : self.count] = np.sum(row)

    def before_restore(self, state):
        count = len(state["rows"])
        if count > len(self._rows):
            self._rows, self.square = np.empty((count, 3)), np.empty((count, count))


class Whole(Stateful):
    """One field of each kind."""

    STATE = (
        array("weights", "(2,)"),
        array("numbers", "(2,)", np.int64),
        number("scale", float),
        number("ready", bool),
        array("beside.wide", "(2,)"),
        value("names", "(k,)", np.int64, lambda own: list(own.names), lambda own, names: own.rename(names)),
        member("_rows"),
        member("absent"),
        member("beside", prefix=False),
        group(
            "each", lambda own: {str(i): one for i, one in enumerate(own.each)}, lambda own, found: own.refill(found)
        ),
    )

    def __init__(self):
        self.weights, self.numbers, self.scale, self.ready, self.names = np.zeros(2), np.zeros(2, int), 1.0, False, {}
        self._rows, self.absent, self.beside, self.each, self.recomputed = Rows(), None, Beside(), [], 0

    def rename(self, names):
        self.names = dict.fromkeys(names.tolist())

    def refill(self, found):
        self.each = [found[str(i)].copy() for i in range(len(found))]

    def after_restore(self):
        self.recomputed += 1


class Beside(Stateful):
    STATE = (number("height", int),)

    def __init__(self):
        self.height, self.wide = 0, np.array([1.0, 2.0])


class More(Whole):
    """Adds an entry to those of its base."""

    STATE = (number("late", int),)

    def __init__(self):
        super().__init__()
        self.late = 1


def filled():
    one = More()
    one.weights[:], one.numbers[:], one.scale, one.ready, one.late = [1 / 3, -0.0], [2**60 + 1, 4], 1e-300, True, 2
    one.names, one.beside.height, one.each = {9: None, 3: None}, 8, [np.arange(2.0), np.zeros((0, 4))]
    for row in range(6):
        if row == 4:  # more rows than a new object has room for
            one._rows.__init__(9)
        one._rows.add([row, row / 3, np.nan])
    return one


def bits(state):
    return {name: (held.shape, held.dtype, held.tobytes()) for name, held in state.items()}


class TestStateful:
    def test_names_shapes_and_types(self):
        state = filled().state()
        assert {name: (held.shape, held.dtype.kind) for name, held in state.items()} == {
            "weights": ((2,), "f"), "numbers": ((2,), "i"), "scale": ((), "f"), "ready": ((), "b"),
            "wide": ((2,), "f"), "names": ((2,), "i"), "rows.count": ((), "i"), "rows.rows": ((2, 3), "f"),
            "rows.corner": ((2, 2), "f"), "height": ((), "i"), "each.0": ((2,), "f"), "each.1": ((0, 4), "f"),
            "late": ((), "i"),
        }  # fmt: skip

    @pytest.mark.parametrize("count", [0, 3, 4, 9])
    def test_restored_bit_for_bit(self, count):
        """Whatever the object was before, with room or without; reading a state changes nothing."""
        one, other = filled(), filled()
        one._rows.__init__(9)
        for row in range(count):
            one._rows.add([row, row / 3, -0.0])
        state = bits(one.state())
        other.weights[:], other.beside.wide[:], other.names, other.scale = 5.0, 6.0, {1: None}, 2.0
        other.restore(one.state())
        assert bits(other.state()) == state == bits(one.state())
        assert list(other.names) == [9, 3]
        assert (other.scale, other.ready, other.late, other.recomputed) == (1e-300, True, 2, 1)
        assert (type(other.scale), type(other.ready), type(other._rows.count)) == (float, bool, int)

    def test_a_copy_stays_as_it_is(self):
        one = filled()
        before = bits(one.state())
        state, own = copied(one.state()), one.state()
        one.weights[0], one._rows._rows[0, 0], one.each[0][0] = 7.0, 7.0, 7.0
        assert bits(state) == before
        assert own["weights"][0] == own["rows.rows"][0, 0] == own["each.0"][0] == 7.0  # these are views
        other = More()
        other.restore(state)
        state["weights"][0], state["rows.rows"][0, 0], state["each.0"][0] = 8.0, 8.0, 8.0
        assert bits(other.state()) == before  # and a restored object has its own arrays

    def test_a_state_of_something_else_is_refused(self):
        """Before anything is changed, as far as the entries of its own tell."""
        state, other = filled().state(), filled()
        del state["scale"], state["names"]
        state["weights"] = np.full(2, 9.0)
        before = bits(other.state())
        with pytest.raises(ValueError, match=r"^state: got .*; allowed: a state of More, which has scale, names$"):
            other.restore(state)
        assert bits(other.state()) == before

    @pytest.mark.parametrize("name", ["weights", "rows.rows"])
    def test_another_shape_is_refused(self, name):
        state = filled().state()
        state[name] = np.zeros((1, 4)) if "." in name else np.zeros(1)
        with pytest.raises(ValueError, match=rf"^state: {name.split('.')[-1]}: got 'shape .*; allowed: "):
            filled().restore(state)


@pytest.mark.parametrize("prior_mean", [0.0, np.cos])
def test_of_a_model_that_is_refitted(prior_mean):
    """A mean that is constant is learned with the kernel."""
    given, grid = 1.0 * RBF(0.3), sb.Grid([[0, 1]], 12)
    mean = prior_mean if prior_mean == 0.0 else lambda x: prior_mean(x[:, 0])
    one, other = (sb.GPEI(grid, given, noise=0.1, prior_mean=mean, refit=10).model for _ in range(2))
    for i in range(12):
        one.observe(i, np.sin(0.5 * i) + 3.0, 0.01)
    one.after_round(9)
    assert (one.kernel, one.constant_mean) == (given, 0.0 if prior_mean == 0.0 else None)
    one.after_round(10)
    other.restore(one.state())
    assert (other.kernel, other.constant_mean) == (one.kernel, one.constant_mean)
    assert one.kernel != given
    assert (one.constant_mean is None) == (prior_mean != 0.0)
    np.testing.assert_array_equal(other.engine.mean(), one.engine.mean())


def test_of_a_weighted_engine_does_not_depend_on_what_was_read():
    """The posterior is computed when it is needed; when that was makes no difference to anything."""
    points = np.linspace(0.0, 1.0, 40)[:, None]
    one, other, restored = (WeightedEngine(RBF(0.3), points, np.zeros(40), 0.9) for _ in range(3))
    for t in range(30):
        for engine in (one, other):
            engine.observe(7 * t % 40, np.sin(t), 1e-9)
            engine.advance()
        assert one.mean() is one.mean()
        one.state()
    restored.restore(other.state())
    assert bits(one.state()) == bits(other.state()) == bits(restored.state())
    np.testing.assert_array_equal(one.variance(), restored.variance())
