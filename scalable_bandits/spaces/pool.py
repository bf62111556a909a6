"""Pools: long lists of candidates that are read chunk by chunk, never held.

x is the number of a candidate, or its label where candidates have labels; a model sees the candidate's coordinates.

    label "CCO" or number 4711      what `ask` returns and `tell` takes
       | parse  ^ argument
    point (1,)   [4711.0]           what is compared, numbered by visit, and stored
       | encode
    coordinates (D,)                what a model sees: words of 32 bits of a fingerprint, then numbers

With contexts x is a dict, a point has their values behind the number, and so have the coordinates:

    {"candidate": "CCO", "temperature": 80.0}   ->   [4711.0, 80.0]   ->   (D + 1,)

The rows come from a `Candidates` object; `store/pool.py` has the one that reads zarr arrays.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.base import SPREAD, Axis, FiniteSpace, Indices, Mask, Space
from scalable_bandits.specification import nearest

Available = Callable[[Indices], ArrayLike]  # from the numbers (k,) of candidates to a mask (k,)
MOST_TRIES = 1000  # random candidates that are tried before all that are left are listed
CANDIDATE = "candidate"  # name of the candidate in x, beside those of the contexts
WORD = 4  # bytes of a word of a fingerprint: as a float64, 32 bits are a whole number without rounding


class NoCandidateLeft(RuntimeError):
    """No candidate of a pool is left, or fewer than were asked for."""

    def __init__(self, message: str, left: int = 0):
        super().__init__(message, left)
        self.left = left  # number of candidates that could be chosen

    def __str__(self) -> str:
        return str(self.args[0])


class StoredRows(NamedTuple):
    """StoredRows of candidates as they are stored."""

    bits: NDArray[np.uint8] | None  # (k, bytes) packed bits
    numbers: NDArray[Any] | None  # (k, columns)
    context: tuple[float, ...] | None = None  # (c,) values of the contexts, the same for all; None without contexts

    def part(self, which: slice | Indices) -> StoredRows:
        """Return some of the rows."""
        bits, numbers = (None if rows is None else rows[which] for rows in (self.bits, self.numbers))
        return StoredRows(bits, numbers, self.context)


class Shape(NamedTuple):
    """Description of a list of candidates that is known without reading one."""

    size: int  # number n of candidates
    bits: int  # bytes of packed bits of a candidate; 0 for none
    numbers: int  # numbers of a candidate; 0 for none
    chunk: int  # number of candidates that are read together
    labelled: bool
    numeric_labels: bool  # whether some label is the text of a whole number, such as "1001"
    ranges: Floats | None  # (numbers, 2) smallest and largest of each; None if that is unknown
    identity: str  # text that differs between lists that differ


class StoredCandidates(Protocol):
    """List of candidates, read in parts."""

    @property
    def shape(self) -> Shape:
        """Number of candidates, and what each has."""

    def read(self, part: slice | Indices) -> StoredRows:
        """Read consecutive candidates, or some by number in ascending order."""

    def labels(self, numbers: Indices) -> list[str]:
        """Read the labels of some candidates, by number in ascending order."""

    def find(self, labels: Iterable[str]) -> dict[str, int]:
        """Look for labels among all; return the number of the first candidate with each that exists."""


class StoredPools(Protocol):
    """Module that opens and writes lists of candidates."""

    def opened(self, path: str, packed: bool | None) -> StoredCandidates:
        """Open a list of candidates for reading."""

    def write(
        self, path: str, rows: Any, *, packed: bool, label: str | None, chunk: int | None, total: int | None,
        progress: bool | None,
    ) -> None:  # fmt: skip
        """Write a list of candidates, or what is missing of one; see `Pool.write`."""


_stored: list[Callable[[], StoredPools]] = []


def register(stored: Callable[[], StoredPools]) -> None:
    """Register the function that returns the module of stored pools."""
    _stored[:] = [stored]


def to_path(path: Any) -> str:
    """Return an address as it is, and the path of a folder from the root on, since workers have their own folders."""
    checks.kind("path", path, (str, os.PathLike), "the path of a folder, or an address such as 's3://bucket/pool.zarr'")
    text = os.fspath(path).removeprefix("file://")
    return text if "://" in text else os.path.abspath(text)


def _to_contexts(given: Any) -> tuple[tuple[str, tuple[float, float]], ...]:
    """Convert a dict of names and bounds to pairs, which pass unchanged; ValueError for anything else."""
    if given is None or (isinstance(given, tuple) and not given):
        return ()
    pairs = tuple(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, tuple) or not pairs or not all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
        checks.refuse("contexts", given, 'None, or a dict of names and bounds, such as {"temperature": (20.0, 90.0)}')
    found = []
    for name, bounds in pairs:
        if not isinstance(name, str) or name in ("", CANDIDATE):
            checks.refuse("contexts", name, f"names that are strings, not empty, and other than {CANDIDATE!r}")
        ends = checks.finite(f"contexts[{name!r}]", bounds)
        if ends.shape != (2,) or not ends[0] < ends[1]:
            checks.refuse(f"contexts[{name!r}]", bounds, "a lower and a larger upper end")
        found.append((name, (float(ends[0]), float(ends[1]))))
    return tuple(found)


@attrs.frozen(repr=False)
class Pool(Space):
    """List of up to 10^9 candidates in a zarr array, which are read chunk by chunk and never held.

    The largest index is found by passes over all chunks, on as many processes as `on=` gives a policy. Opening a pool
    reads no candidate. `Pool.write` makes one.

    Parameters
    ----------
    path
        Folder or address of what `Pool.write` has written, or of a zarr array of candidates (n, d).
    packed
        Whether the array is one of bytes of packed bits (n, bytes), as of `numpy.packbits`: fingerprints. A pool that
        `Pool.write` has written knows it.
    repeats
        Whether a candidate may be chosen again that is pending or was measured. If not given, policies with the width
        of a theorem may, and others choose each candidate once. Candidates whose evaluation failed are never chosen
        again.
    identity
        Text that tells the pool from others, which specifications in stores have; it is found if not given.
    contexts
        Bounds, low < high, of c continuous variables by name, in units of x: conditions of a measurement that are given
        in every round, such as ``{"temperature": (20.0, 90.0)}``. Then x is a dict, ``{"candidate": 4711,
        "temperature": 80.0}``, each choice has a context (`ask`), and a model sees the D coordinates of the candidate,
        then the c values, in this order. None for a pool without contexts.

    Raises
    ------
    ValueError
        If nothing, or something else, is at the path, or a pool of another identity; if a context has no name, the name
        "candidate", or bounds that are not finite and ascending; `StoreDamaged` if writing has not been finished.

    Notes
    -----
    With contexts, "each candidate once" is meant in each context: a candidate that is pending or was measured may be
    chosen in another one, and values of contexts are equal only where they are the same numbers.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> import scalable_bandits as sb
    >>> folder = tempfile.mkdtemp()
    >>> pool = sb.Pool.write(f"{folder}/pool.zarr", np.random.default_rng(0).random((1000, 3)))
    >>> pool.size, pool.model_dimension
    (1000, 3)
    >>> policy = sb.GPEI(pool, sb.RBF(0.5), noise=0.1)
    >>> policy.ask(4).shape
    (4,)
    >>> assays = sb.Pool(pool.path, contexts={"temperature": (20.0, 90.0)})
    >>> policy = sb.GPEI(assays, noise=0.1)
    >>> x = policy.ask(context={"temperature": 80.0})
    >>> sorted(x), x["temperature"], assays.model_dimension
    (['candidate', 'temperature'], 80.0, 4)
    """

    scanned: ClassVar[bool] = True
    places: ClassVar[frozenset[str]] = frozenset(["path"])  # one that was moved is the same
    by_name: ClassVar[frozenset[str]] = frozenset(["contexts"])

    path: str = attrs.field(converter=to_path)
    packed: bool | None = attrs.field(default=None, kw_only=True)
    repeats: bool | None = attrs.field(default=None, kw_only=True)
    identity: str | None = attrs.field(default=None, kw_only=True)
    _contexts: tuple[tuple[str, tuple[float, float]], ...] = attrs.field(
        alias="contexts", default=None, converter=_to_contexts, kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        for name in ("packed", "repeats"):
            checks.kind(name, getattr(self, name), (bool, type(None)), "True, False or None")
        if self.identity not in (None, self.shape.identity):
            checks.refuse("identity", self.identity, f"{self.shape.identity!r}, of the pool that is now at {self.path}")
        object.__setattr__(self, "identity", self.shape.identity)

    def __repr__(self) -> str:
        contexts = f", contexts={self.contexts}" if self._contexts else ""
        return f"Pool(path={self.path!r}, packed={self.packed}, repeats={self.repeats}{contexts})"

    def parameters(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("path", "packed", "repeats", "identity")}
        return {**found, "contexts": self.contexts} if self._contexts else found

    @staticmethod
    def write(
        path: str | os.PathLike[str], rows: Any, *, packed: bool = False, label: str | None = None,
        chunk: int | None = None, total: int | None = None, progress: bool | None = None,
    ) -> Pool:  # fmt: skip
        """Write candidates, chunk by chunk, and return the pool; after an interruption, write what is missing.

        Parameters
        ----------
        path
            Folder or address. If it has a finished pool, ValueError; if it has an unfinished one, the same candidates
            are expected again, and those already written are compared with what is there.
        rows
            Array (n, d); or a dict with some of "bits" (n, bytes), "numbers" (n, d) and "labels" (n texts); or an
            iterable of arrays (k, d), or of dicts with the same keys, of any lengths k; or a function that returns such
            an iterable from the candidate on whose number it is given, with which nothing is compared; or a DataFrame,
            whose index is left out; or the path of a file that ends in .npy, .csv or .parquet.
        packed
            Whether arrays are bytes of packed bits, fingerprints, not numbers.
        label
            Column of a table that has the labels, which stay as they are in a file; all others have numbers.
        chunk
            Number of candidates in a chunk, which is read as a whole. If not given, about 8 MB, at most 65,536.
        total
            Number of candidates, for the progress line; known for arrays and .npy files.
        progress
            Whether to show a progress line; in terminals and notebooks if not given.

        Raises
        ------
        ValueError
            If rows differ in their lengths or types, a number is missing, masked or not finite, a label is empty or
            neither a text nor a number, a file cannot be read or has a column without a name, there are no rows, or
            rows differ from those in the unfinished pool.

        Notes
        -----
        Labels have at most 4,096 bytes, and should be distinct: a label that `tell` is given and `ask` never returned
        is that of the first candidate who has it. Where some label is a whole number, such as "1001", `tell` takes
        labels alone, as texts.
        """
        stored = _stored[0]()
        stored.write(to_path(path), rows, packed=packed, label=label, chunk=chunk, total=total, progress=progress)
        return Pool(path)

    # ---- what it has

    @functools.cached_property
    def _candidates(self) -> StoredCandidates:
        return _stored[0]().opened(self.path, self.packed)

    @property
    def shape(self) -> Shape:
        """Number of candidates, and what each has."""
        return self._candidates.shape

    @property
    def contexts(self) -> dict[str, tuple[float, float]] | None:
        """Bounds of the context variables by name, in units of x; None without any."""
        return dict(self._contexts) or None

    @property
    def named(self) -> bool:  # type: ignore[override]  # other spaces know it by their class
        """Whether x is a dict of named values: with contexts."""
        return bool(self._contexts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the values in x: of the candidate, and of the contexts."""
        return (CANDIDATE, *(name for name, _ in self._contexts))

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names (D + c,) of the coordinates that a model sees: x0, x1, ... are the words of a fingerprint."""
        words, numbers = (f"x{k}" for k in range(self.words)), (f"number {k}" for k in range(self.shape.numbers))
        return (*words, *numbers, *self.names[1:])

    @property
    def dimension(self) -> int:
        return 1 + len(self._contexts)

    @property
    def size(self) -> int:
        """Number n of candidates."""
        return self.shape.size

    @property
    def model_dimension(self) -> int:
        return self._own_dimension + len(self._contexts)

    @property
    def _own_dimension(self) -> int:
        """Number D of the coordinates of a candidate, without those of contexts."""
        return self.words + self.shape.numbers

    @property
    def _ends(self) -> Floats:
        """Bounds (2, c) of the contexts: all lower ends, then all upper ends."""
        return np.array([bounds for _, bounds in self._contexts]).reshape(-1, 2).T

    @property
    def words(self) -> int:
        """Number of the coordinates that are words of 32 bits of a fingerprint; they come first."""
        return -(-self.shape.bits // WORD)

    @property
    def side_lengths(self) -> Floats:
        """Extent along each coordinate (D + c,), in units of x; 1 for words of fingerprints."""
        ranges, (low, high) = self._ranges, self._ends
        return np.concatenate([np.ones(self.words), ranges[:, 1] - ranges[:, 0], high - low])

    @functools.cached_property
    def _ranges(self) -> Floats:
        """Smallest and largest number in each column of numbers; of the first chunk where the pool does not say."""
        if (known := self.shape.ranges) is not None:
            return known
        first = self.rows(0, min(self.size, self.shape.chunk))[:, self.words :]
        return np.column_stack([first.min(axis=0), first.max(axis=0)])

    @property
    def axes(self) -> tuple[Axis, ...]:
        contexts = (Axis(name, *bounds) for name, bounds in self._contexts)
        return (Axis(CANDIDATE, 0.0, max(self.size - 1.0, 0.0), ordered=False), *contexts)

    # ---- chunks

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.size // self.shape.chunk)

    def bounds(self, chunk: int) -> tuple[int, int]:
        """Return the number of a chunk's first candidate, and the one after its last."""
        return chunk * self.shape.chunk, min((chunk + 1) * self.shape.chunk, self.size)

    def raw(self, start: int, stop: int) -> StoredRows:
        """Read consecutive candidates as they are stored."""
        return self._candidates.read(slice(start, stop))

    def rows(self, start: int, stop: int) -> Floats:
        """Read the coordinates (k, D) of consecutive candidates, without those of contexts."""
        return coordinates_of(self.raw(start, stop))

    # ---- contexts

    def context(self, given: Mapping[Any, Any] | None) -> Floats | None:
        """Return the values (1 + c,) that a context fixes, NaN for the candidate; None on a pool without contexts.

        Parameters
        ----------
        given
            Values of all contexts by name, in units of x; None on a pool without contexts.

        Raises
        ------
        ValueError
            If a pool without contexts is given one, or one with contexts none; if a name is unknown or missing, or a
            value is out of its bounds.
        """
        if not self._contexts:
            if given is not None:
                allowed = "None on a pool without contexts=; available= chooses among its candidates"
                checks.refuse("context", given, allowed)
            return None
        names = self.names[1:]
        if not isinstance(given, Mapping):
            example = {name: low for name, (low, _) in self._contexts}
            checks.refuse("context", given, f"a dict such as {example}: on this pool every choice has a context")
        _check_keys("context", given, names)
        return np.append(np.nan, self._values("context", [given])[0])

    def _values(self, title: str, given: Iterable[Mapping[str, Any]]) -> Floats:
        """Return the values (k, c) of contexts in some dicts, with all names."""
        names = self.names[1:]
        return self._within_bounds(
            title, np.array([[checks.finite(f"{title}[{n!r}]", each[n], ndim=0) for n in names] for each in given])
        )

    def _within_bounds(self, title: str, values: Floats) -> Floats:
        """Return values (k, c) of contexts; ValueError if one is out of its bounds."""
        for (name, (low, high)), column in zip(self._contexts, values.T, strict=True):
            wrong = column[~((low <= column) & (column <= high))]
            if len(wrong):
                checks.refuse(f"{title}[{name!r}]", float(wrong[0]), f"a number from {low:.6g} to {high:.6g}")
        return values

    def at(self, fixed: Floats | None) -> PoolInContext:
        """Return the candidates in a context, of which `fixed` are the values (1 + c,) that `context` returned.

        Raises
        ------
        ValueError
            If the pool has contexts, and None is given.
        """
        if fixed is None:
            fixed = self.context(None)
        return PoolInContext(self, () if fixed is None else tuple(fixed[1:].tolist()))

    # ---- x

    @functools.cached_property
    def _seen(self) -> dict[int, Floats]:
        """Coordinates (D,) of the candidates that were asked for or told, by number."""
        return {}

    @functools.cached_property
    def _labels(self) -> dict[int, str]:
        """Labels of the candidates that were asked for, by number."""
        return {}

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        """Numbers of the candidates that were asked for or told, by label."""
        return {}

    def remember(self, numbers: Indices, coordinates: Floats) -> None:
        """Keep the coordinates (k, D) of candidates (k,), so that they are not read again; those of contexts are not.

        Parameters
        ----------
        numbers
            Numbers (k,) of the candidates.
        coordinates
            Coordinates (k, D) or (k, D + c).
        """
        self._seen.update(zip(numbers.tolist(), coordinates[:, : self._own_dimension], strict=True))

    def encode(self, points: Floats) -> Floats:
        """Return the coordinates (k, D + c) of points (k, 1 + c); candidates seen for the first time are read."""
        numbers = points[:, 0].astype(np.int64)
        seen = self._seen
        if new := sorted({number for number in numbers.tolist() if number not in seen}):
            self.remember(np.array(new), coordinates_of(self._candidates.read(np.array(new))))
        own, found = self._own_dimension, np.empty((len(numbers), self.model_dimension))
        for i, number in enumerate(numbers.tolist()):
            found[i, :own] = seen[number]
        found[:, own:] = points[:, 1:]
        return found

    def argument(self, point: Floats) -> Any:
        """Return the label of a point (1 + c,), or its number where candidates have none; with contexts a dict."""
        return self.arguments(point[None])[0]

    def arguments(self, points: NDArray[Any]) -> list[Any]:
        if not self._contexts:
            return self._names_of(np.asarray(points, dtype=np.int64).reshape(-1))
        rows = np.asarray(points, dtype=np.float64).reshape(-1, self.dimension)
        candidates, values = self._names_of(rows[:, 0].astype(np.int64)), rows[:, 1:].tolist()
        return [dict(zip(self.names, (c, *each), strict=True)) for c, each in zip(candidates, values, strict=True)]

    def _names_of(self, numbers: Indices) -> list[Any]:
        """Return the labels of candidates (k,), or their numbers where they have none."""
        if not self.shape.labelled:
            return numbers.tolist()
        labels = self._labels
        if new := sorted(set(numbers.tolist()) - labels.keys()):
            labels.update(zip(new, self._candidates.labels(np.array(new)), strict=True))
            pairs = []
            for number in new:
                before, self._numbers[labels[number]] = self._numbers.get(labels[number], number), number
                pairs += [(before, number)] if before != number else []
            if pairs:
                which = f"candidates {pairs[0][0]} and {pairs[0][1]} have one label, {labels[pairs[0][1]]!r}"
                checks.warn(f"pool: {which}; what is told by a label counts for one candidate: tell numbers")
        return [labels[number] for number in numbers.tolist()]

    def gather(self, values: list[Any]) -> Any:
        return values if self.shape.labelled or self._contexts else np.array(values, dtype=np.int64)

    def parse(self, x: ArrayLike) -> tuple[Floats, bool]:
        """Return points (k, 1 + c) of a number, a label or with contexts a dict, or of several, and whether it is one.

        With contexts, points (k, 1 + c) are accepted, too.

        Raises
        ------
        ValueError
            If a number is not that of a candidate, or may be meant as a label, or no candidate has the label; if a
            dict has another name, or not all of them, or a value of a context is out of its bounds.
        """
        if not self._contexts:
            return self._parsed(x)
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2 and x.shape[1] == self.dimension:
            numbers, _ = self._parsed(x[:, :1])
            return np.hstack([numbers, self._within_bounds("x", x[:, 1:])]), False
        single = isinstance(x, Mapping)
        given: Any = [x] if single else x
        if not isinstance(given, list | tuple) or not given or not all(isinstance(each, Mapping) for each in given):
            checks.refuse("x", x, f"a dict with {', '.join(self.names)}, or a list of such dicts")
        for each in given:
            _check_keys("x", each, self.names)
        numbers, _ = self._parsed([each[CANDIDATE] for each in given])
        return np.hstack([numbers, self._values("x", given)]), single

    def _parsed(self, x: ArrayLike) -> tuple[Floats, bool]:
        """Return points (k, 1) of the number or the label of a candidate, or of several, and whether it is one."""
        single = isinstance(x, str) or np.ndim(x) == 0
        given: list[Any] = [x] if single else list(x)  # type: ignore[arg-type]
        if texts := [each for each in given if isinstance(each, str)]:
            if self.shape.labelled and len(texts) < len(given):
                other = next(each for each in given if not isinstance(each, str))
                checks.refuse("x", other, "labels alone, which are texts, or numbers alone")
            return self._labelled(texts), single
        # Points are floats (k, 1): what the package itself tells, which no list of labels is.
        points = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2
        if given and self.shape.numeric_labels and not points:
            first = np.ravel(given).tolist()[0]
            texts_only = f"labels as texts, such as {str(first)!r}, since some labels of this pool are numbers"
            checks.refuse("x", first, f"{texts_only}; or places in the pool, an array of floats (k, 1)")
        array = checks.finite("x", x)
        if not array.size or array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
            checks.refuse("x", x, "the number of a candidate, or numbers (k,), at least one")
        numbers = array.reshape(-1)
        wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= self.size)
        if wrong.any():
            self._refuse(numbers[wrong][0].item())
        return numbers[:, None] + 0.0, single or array.shape == (1, 1)

    def _labelled(self, labels: list[str]) -> Floats:
        """Return points (k, 1) of labels; one that was not asked for is looked for among all."""
        if not self.shape.labelled:
            self._refuse(labels[0])
        if new := [label for label in labels if label not in self._numbers]:
            self._numbers.update(self._candidates.find(new))
        for label in labels:
            if label not in self._numbers:
                self._refuse(label)
        return np.array([[float(self._numbers[label])] for label in labels])

    def _refuse(self, x: Any) -> NoReturn:
        labels = ", or the label of one" if self.shape.labelled else "; they have no labels"
        checks.refuse("x", x, f"the number of a candidate, a whole one from 0 to {self.size - 1}{labels}")

    def check(self, x: ArrayLike) -> Floats:
        return self.parse(x)[0]

    def spread(self, uniform: Floats) -> Floats:
        low, high = self._ends
        numbers = np.minimum(np.floor(uniform[:, :1] * self.size), self.size - 1.0)
        return np.hstack([numbers, low + uniform[:, 1:] * (high - low)])

    def draw_other(self, rng: np.random.Generator, taken: Indices, available: Available | None = None) -> Floats:
        """Draw the number (1,) of a candidate uniformly from the available ones but those with numbers (k,)."""
        for _ in range(MOST_TRIES if 2 * len(taken) < self.size else 0):
            number = int(rng.integers(self.size))
            if not (taken == number).any() and (available is None or mask_of(available, np.array([number]))[0]):
                return np.array([float(number)])
        parts = []
        for chunk in range(self.chunks):
            numbers = np.setdiff1d(np.arange(*self.bounds(chunk)), taken)
            parts.append(numbers if available is None else numbers[mask_of(available, numbers)])
        if not len(left := np.concatenate(parts)):
            raise NoCandidateLeft(f"ask: {self.all_taken}")
        return np.array([float(rng.choice(left))])

    @property
    def all_taken(self) -> str:
        """Text of an error: there is no candidate to choose."""
        return f"all {self.size:,} candidates of the pool have been asked for or measured, failed, or are not available"

    def sample(self, seed: int) -> Floats:
        """Return points (k, 1 + c) of the first candidates, in contexts from the lowest to the highest.

        Other candidates would have to be read from as many chunks.
        """
        count, (low, high) = min(self.size, SPREAD), self._ends
        return np.hstack([np.arange(count, dtype=np.float64)[:, None], np.linspace(low, high, count)])

    def candidate_set(self, count: int, seed: int) -> FiniteSpace:
        """Raise ValueError: some `count` candidates, whatever the seed, would be a space of another x."""
        allowed = "none for a pool; a part of it as Points(pool.rows(start, stop)) is a space of its own"
        checks.refuse("candidates", count, allowed)


class PoolInContext(NamedTuple):
    """Candidates of a pool in one context, or of a pool without contexts: what a choice is made from."""

    pool: Pool
    context: tuple[float, ...]  # (c,) values of the contexts, in units of x; none without contexts

    @property
    def model_dimension(self) -> int:
        """Number D + c of the coordinates that a model sees."""
        return self.pool.model_dimension

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self.pool.chunks

    def bounds(self, chunk: int) -> tuple[int, int]:
        """Return the number of a chunk's first candidate, and the one after its last."""
        return self.pool.bounds(chunk)

    def raw(self, start: int, stop: int) -> StoredRows:
        """Read consecutive candidates as they are stored, with the context."""
        return self.put_into(self.pool.raw(start, stop))

    def put_into(self, rows: StoredRows) -> StoredRows:
        """Return stored rows with the context."""
        return rows._replace(context=self.context) if self.context else rows

    def point(self, number: int) -> Floats:
        """Return the point (1 + c,) of a candidate."""
        return np.array([float(number), *self.context])

    def numbers(self, points: Floats) -> Indices:
        """Return the numbers (k,) of the candidates at points (k, 1 + c); -1 for a point in another context."""
        numbers = points[:, 0].astype(np.int64)
        return np.where((points[:, 1:] == self.context).all(axis=1), numbers, -1) if self.context else numbers


def _check_keys(title: str, given: Mapping[Any, Any], names: tuple[str, ...]) -> None:
    """Raise ValueError unless a dict has exactly some names."""
    for key in given:
        if key not in names:
            checks.refuse(title, key, f"names of values; {nearest(str(key), names)}")
    for name in names:
        if name not in given:
            checks.refuse(title, f"a dict without {name!r}", f"one with {', '.join(names)}")


def mask_of(available: Available, numbers: Indices) -> Mask:
    """Return the mask (k,) of the candidates that are available; ValueError if the function returns no mask."""
    found = np.asarray(available(numbers))
    if found.shape != numbers.shape or found.dtype != np.bool_:
        given = f"{found.dtype} {found.shape} for {len(numbers)} candidates"
        checks.refuse("available", given, "a function that returns a mask (k,) of candidates, given their numbers (k,)")
    return found


def coordinates_of(rows: StoredRows) -> Floats:
    """Return the coordinates (k, D + c) of stored rows: the words of their bits, their numbers, and their context."""
    parts = []
    if rows.bits is not None:
        short = -rows.bits.shape[1] % WORD
        padded = np.pad(rows.bits, ((0, 0), (0, short))) if short else rows.bits
        parts.append(np.ascontiguousarray(padded).view("<u4"))
    if rows.numbers is not None:
        parts.append(rows.numbers)
    if rows.context:
        parts.append(np.broadcast_to(rows.context, (len(parts[0]), len(rows.context))))
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0], dtype=np.float64)
    return np.concatenate(parts, axis=1, dtype=np.float64)
