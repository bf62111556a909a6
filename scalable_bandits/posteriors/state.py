"""State as named arrays: what a posterior or a policy is at one moment, to be kept and put back bit for bit.

A class that derives from `Stateful` declares once what its state is made of. Checkpoints, restoring, copies and sizes
follow from the declaration:

    class Window(Stateful):
        STATE = (array("gram", "(r, r)"), array("shift", "(r,)"), number("rank", int))

`state` returns arrays by name; `restore`, on an object made from the same specification, puts them back. Numbers are
arrays without dimensions. The names are those in checkpoints on disk: renaming one makes older checkpoints unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

State = dict[str, NDArray[Any]]


class Field(NamedTuple):
    """One entry of a state."""

    name: str  # name in the state
    shape: str  # such as "(n, d)"; "" for parts that have a state of their own
    dtype: DTypeLike | None  # None: that of the array, or a part
    read: Callable[[Any], Any]  # value of an object: an array, a number, or the state of a part
    write: Callable[[Any, Any], None]  # puts such a value back
    default: Any = None  # value where an older state has no such entry; None: it has one


def array(
    attribute: str, shape: str, dtype: DTypeLike = np.float64, *, name: str = "", used: str = "", default: Any = None
) -> Field:
    """Declare an array, which is filled in place when it is restored.

    Parameters
    ----------
    attribute
        Attribute that holds the array.
    shape
        Shape, such as "(n, d)".
    dtype
        Data type.
    name
        Name in the state; the attribute's, without underscores in front, if not given.
    used
        Attribute with the number of rows that are in use; the array has room for more. All rows, if not given.
    default
        Value where an older state has no such entry.
    """

    def read(owner: Any) -> Any:
        held = getattr(owner, attribute)
        return held[: getattr(owner, used)] if used else held

    def write(owner: Any, value: Any) -> None:
        held = getattr(owner, attribute)
        (held[: len(value)] if used else held)[...] = value

    return Field(name or attribute.lstrip("_"), shape, dtype, read, write, default)


def number(attribute: str, kind: type, *, name: str = "", default: Any = None) -> Field:
    """Declare a number or a truth value.

    Parameters
    ----------
    attribute
        Attribute that holds the number.
    kind
        float, int or bool.
    name, default
        As of `array`.
    """

    def write(owner: Any, value: Any) -> None:
        setattr(owner, attribute, kind(value))

    return Field(name or attribute.lstrip("_"), "()", kind, lambda owner: getattr(owner, attribute), write, default)


def value(
    name: str, shape: str, dtype: DTypeLike, read: Callable[[Any], ArrayLike], write: Callable[[Any, Any], None],
    default: Any = None,
) -> Field:  # fmt: skip
    """Declare what is no array in the object, such as a dict or a list: how it becomes an array, and back.

    Parameters
    ----------
    name
        Name in the state.
    shape, dtype, default
        As of `array`.
    read
        Returns the array (...,) of an object.
    write
        Puts such an array back.
    """
    return Field(name, shape, dtype, read, write, default)


def member(attribute: str, *, name: str = "") -> Field:
    """Declare an attribute that has a state of its own; its entries come under ``name.``.

    Parameters
    ----------
    attribute
        Attribute that holds the object, or None where there is none.
    name
        As of `array`.
    """

    def read(owner: Any) -> State:
        held = getattr(owner, attribute)
        return {} if held is None else held.state()

    def write(owner: Any, state: State) -> None:
        held = getattr(owner, attribute)
        if held is not None:
            held.restore(state)

    return Field(name or attribute.lstrip("_"), "", None, read, write)


class Stateful:
    """An object whose state is a declared list of arrays, numbers and members.

    Attributes
    ----------
    STATE : tuple of Field
        Entries that the class adds to those of its bases.
    """

    STATE: ClassVar[tuple[Field, ...]] = ()

    @classmethod
    def state_fields(cls) -> tuple[Field, ...]:
        """All entries of the state, those of base classes first."""
        return tuple(field for kind in reversed(cls.__mro__) for field in vars(kind).get("STATE", ()))

    def state(self) -> State:
        """Return the arrays (...,) of the state by name; they may be the object's own, which change as it goes on."""
        found: State = {}
        for field in self.state_fields():
            held = field.read(self)
            if field.shape:
                found[field.name] = np.asarray(held, dtype=field.dtype)
            else:
                found.update(nested(**{field.name: held}))
        return found

    def restore(self, state: State) -> None:
        """Put back arrays (...,) that `state` returned, on an object of the same specification."""
        self.before_restore(state)
        for field in self.state_fields():
            if not field.shape:
                field.write(self, part(state, field.name))
            elif field.name in state or field.default is None:
                field.write(self, state[field.name])
            else:
                field.write(self, field.default)
        self.after_restore()

    def before_restore(self, state: State) -> None:
        """Make room for the arrays (...,) of a state, or refuse it, before any entry is put back."""

    def after_restore(self) -> None:
        """Compute again what follows from the state."""

    def nbytes(self) -> int:
        """Size of the state in bytes."""
        return sum(held.nbytes for held in self.state().values())


def copied(state: Mapping[str, NDArray[Any]]) -> State:
    """Copy a state, so that it stays as it is while its object goes on.

    Parameters
    ----------
    state
        Arrays (...,) by name.
    """
    return {name: np.array(held) for name, held in state.items()}


def arrays(**values: ArrayLike) -> State:
    """State of some numbers and arrays.

    Parameters
    ----------
    values
        Numbers, or arrays (...,) of any shape, by name.
    """
    return {name: np.asarray(value) for name, value in values.items()}


def nested(**parts: Mapping[str, NDArray[Any]]) -> State:
    """State of an object's parts, each under its name.

    Parameters
    ----------
    parts
        States by name of the part; their arrays (...,) stay as they are.
    """
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def part(state: Mapping[str, NDArray[Any]], name: str) -> State:
    """State of one part of what `nested` put together; empty if the part had none.

    Parameters
    ----------
    state
        State that `nested` returned, arrays (...,) by name.
    name
        Name of the part.
    """
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)}
