"""State as named arrays: what a posterior or a policy is at one moment, to be saved and restored bit for bit.

A class that derives from `Stateful` declares once what its state is made of. Checkpoints and restoring follow from
the declaration:

    class Window(Stateful):
        STATE = (array("gram", "(r, r)"), array("shift", "(r,)"), number("rank", int))

`state` returns arrays by name; `restore` puts them into an object made from the same specification. Numbers are arrays
without dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from scalable_bandits import checks
from scalable_bandits.specification import is_own

State = dict[str, NDArray[Any]]


class StateEntry(NamedTuple):
    """One entry of a state, or a group of entries."""

    name: str  # name in the state; of a group the prefix of its names, "" for none
    shape: str  # such as "(n, d)"; "" for a group
    dtype: DTypeLike | None  # None: as `read` returns it
    read: Callable[[Any], Any]  # returns the value of an object: an array, a number, or the state of a group
    write: Callable[[Any, Any], None]  # restores such a value


def array(
    attribute: str, shape: str, dtype: DTypeLike = np.float64, *, name: str = "", used: str | tuple[str, ...] = ()
) -> StateEntry:
    """Declare an array, which is filled in place when it is restored.

    Parameters
    ----------
    attribute
        Attribute that holds the array; a dotted name reaches into a member.
    shape
        Shape of the part in use, such as "(n, d)".
    dtype
        Data type.
    name
        Name in the state; the attribute's, without underscores and members in front, if not given.
    used
        Attributes with the lengths in use of the leading axes, for an array that has room for more; dotted names reach
        into members. All of the array if not given.
    """
    lengths = [attrgetter(length) for length in ((used,) if isinstance(used, str) else used)]
    entry, held_by = name or attribute.rpartition(".")[2].lstrip("_"), attrgetter(attribute)

    def read(owner: Any) -> Any:
        return held_by(owner)[tuple(slice(length(owner)) for length in lengths)]

    def write(owner: Any, value: Any) -> None:
        held, value = held_by(owner), np.asarray(value)
        held = held[tuple(map(slice, value.shape))] if used else held
        if value.shape not in ((), held.shape):
            checks.refuse(f"state: {entry}", f"shape {value.shape}", f"{held.shape}, {shape}")
        held[...] = value

    return StateEntry(entry, shape, dtype, read, write)


def number(attribute: str, kind: type, *, name: str = "") -> StateEntry:
    """Declare a number or a truth value.

    Parameters
    ----------
    attribute
        Attribute that holds the number.
    kind
        Type: float, int or bool.
    name
        Name in the state; the attribute's, without underscores in front, if not given.
    """

    def write(owner: Any, value: Any) -> None:
        setattr(owner, attribute, kind(value))

    return StateEntry(name or attribute.lstrip("_"), "()", kind, attrgetter(attribute), write)


def listed(attribute: str, dtype: DTypeLike, *, name: str = "") -> StateEntry:
    """Declare a list of numbers, which is replaced when it is restored.

    Parameters
    ----------
    attribute
        Attribute that holds the list.
    dtype
        Data type.
    name
        Name in the state; the attribute's, without underscores in front, if not given.
    """

    def write(owner: Any, held: Any) -> None:
        setattr(owner, attribute, held.tolist())

    return StateEntry(name or attribute.lstrip("_"), "(n,)", dtype, attrgetter(attribute), write)


def value(
    name: str, shape: str, dtype: DTypeLike | None, read: Callable[[Any], ArrayLike],
    write: Callable[[Any, Any], None] = lambda owner, held: None,
) -> StateEntry:  # fmt: skip
    """Declare a value that is not an array in the object, such as a dict or a list.

    Parameters
    ----------
    name
        Name in the state.
    shape
        Shape of the value as an array, such as "(k, d)".
    dtype
        Data type; None: as `read` returns it.
    read
        Function that returns the array (...,) of an object.
    write
        Function that restores such an array; not given for an array that the object restores with others.
    """
    return StateEntry(name, shape, dtype, read, write)


def member(attribute: str, *, name: str = "", prefix: bool = True) -> StateEntry:
    """Declare an attribute that has a state of its own.

    Parameters
    ----------
    attribute
        Attribute that holds the object; None where there is no object.
    name
        Prefix of the names in the state; the attribute's name, without underscores in front, if not given.
    prefix
        Whether the names of its entries begin with ``name.``; if not, they stand among those of the owner.
    """

    def read(owner: Any) -> State:
        held = getattr(owner, attribute)
        return {} if held is None else held.state()

    def write(owner: Any, state: State) -> None:
        held = getattr(owner, attribute)
        if held is not None:
            held.restore(state)

    return group((name or attribute.lstrip("_")) if prefix else "", read, write)


def group(name: str, read: Callable[[Any], State], write: Callable[[Any, State], None]) -> StateEntry:
    """Declare entries whose names or number differ between objects of the class.

    Parameters
    ----------
    name
        Prefix: the names of the entries begin with ``name.``; "": they stand among those of the owner.
    read
        Function that returns the arrays (...,) of an object by name, without the prefix.
    write
        Function that restores such arrays; without a prefix it receives the owner's whole state.
    """
    return StateEntry(name, "", None, read, write)


class Stateful:
    """An object whose state is a declared list of arrays, numbers and members.

    Attributes
    ----------
    STATE : tuple of StateEntry
        Entries that the class adds to those of its bases.
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = ()

    @classmethod
    def state_fields(cls) -> tuple[StateEntry, ...]:
        """Return all entries of the state, those of base classes first."""
        return tuple(entry for base in reversed(cls.__mro__) for entry in vars(base).get("STATE", ()))

    def state(self) -> State:
        """Return the arrays (...,) of the state by name; they may be views of arrays that the object changes later."""
        found: State = {}
        for entry in self.state_fields():
            held = entry.read(self)
            if entry.shape:
                found[entry.name] = np.asarray(held, dtype=entry.dtype)
            else:
                found.update(nested(**{entry.name: held}) if entry.name else held)
        return found

    def restore(self, state: State) -> None:
        """Restore from arrays (...,) that `state` returned, of an object of the same specification.

        Raises
        ------
        ValueError
            If an entry is missing, which is noticed before the object's own entries change, or has another shape.
        """
        entries = self.state_fields()
        missing = [entry.name for entry in entries if entry.shape and entry.name not in state]
        if missing:
            checks.refuse("state", sorted(state), f"a state of {type(self).__name__}, which has {', '.join(missing)}")
        self.before_restore(state)
        for entry in entries:
            if entry.shape:
                entry.write(self, state[entry.name])
            else:
                entry.write(self, part(state, entry.name) if entry.name else state)
        self.after_restore()

    def before_restore(self, state: State) -> None:
        """Make room for the arrays (...,) of a state, or refuse it, before any entry is restored."""

    def after_restore(self) -> None:
        """Recompute what follows from the state."""


# Methods that only return something, such as the width of an index; in others a class may change what it keeps.
RETURNING = frozenset(["acquisition", "allowance", "width_formula", "width_of"])
BEGINNING = frozenset(["__init__", "__attrs_post_init__"])


def undeclared(kind: type) -> type | None:
    """Return a class among a class and its bases, from outside the package, whose state is not known; None without any.

    Such a class may change what it keeps, in a method that the package calls, and has no `STATE`, not even an empty
    one.

    Parameters
    ----------
    kind
        Class of an object whose state is to be saved.
    """
    for place, each in enumerate(kind.__mro__):
        if not issubclass(each, Stateful) or is_own(each) or "STATE" in vars(each):
            continue
        inherited = {name for base in kind.__mro__[place + 1 :] for name in vars(base) if not name.startswith("__")}
        own = {name for name, held in vars(each).items() if isinstance(held, FunctionType)}
        if own & ((inherited | BEGINNING) - RETURNING):
            return each
    return None


def copied(state: Mapping[str, NDArray[Any]]) -> State:
    """Copy a state, so that it stays as it is when its object changes.

    Parameters
    ----------
    state
        Arrays (...,) by name.
    """
    return {name: np.array(held) for name, held in state.items()}


def arrays(**values: ArrayLike) -> State:
    """Return the state of some numbers and arrays.

    Parameters
    ----------
    values
        Numbers, or arrays (...,) of any shape, by name.
    """
    return {name: np.asarray(value) for name, value in values.items()}


def nested(**parts: Mapping[str, NDArray[Any]]) -> State:
    """Return the state of an object's parts, each under its name.

    Parameters
    ----------
    parts
        States by name of the part; their arrays (...,) are not copied.
    """
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def part(state: Mapping[str, NDArray[Any]], name: str) -> State:
    """Return the state of one part of what `nested` put together; empty if there is no such part.

    Parameters
    ----------
    state
        State that `nested` returned, arrays (...,) by name.
    name
        Name of the part.
    """
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)}
