"""What the operators of a forest hold, as columns: all of it, or that of chosen keys. It is taken, put into another machine, dropped.

How the words of what an operator holds are used is known to its kind, nowhere else. The names of
parts and of their columns are the same in every process, so that what is held fits into any machine whose forest has the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from keuka.kernel.forest import Forest
    from keuka.kernel.machine import Machine

Words = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Values:
    """A column of values of the kernel, whose type is a column_type of layout.py."""

    type: int
    words: Words
    nulls: Flags


@dataclass(frozen=True)
class Part:
    """A state of an operator, or what corresponds to it: what it is, and the columns of what it holds.

    Queries that keep other values may have a part of the same name each; `number` tells them apart.
    """

    name: str
    number: str
    numbers: Mapping[str, int]  # plain columns: word of the header
    node: str  # the column with the contributors
    values: Mapping[str, int]  # columns of values: type


@dataclass(frozen=True)
class Held:
    numbers: Mapping[str, Words]  # by the names of the part
    values: Mapping[str, Values]

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))


@dataclass(frozen=True)
class Keys:
    """Keys as the kernel has them: a row for each, a column for each component."""

    words: Words
    nulls: Flags


class Store(Protocol):
    """What one operator holds."""

    @property
    def parts(self) -> Sequence[Part]: ...

    def take(self, machine: Machine, keys: Keys | None) -> list[Held]:
        """By part; nothing changes."""

    def put(self, machine: Machine, held: Sequence[Held | None]) -> None:
        """Add what `take` gave. `check` it first."""

    def drop(self, machine: Machine, keys: Keys | None) -> None: ...

    def check(self, held: Sequence[Held | None], time: int, n_nodes: int) -> None:
        """ValueError if it is not what such an operator can hold after all events that ended before `time`, with so many nodes."""


def stores(forest: Forest) -> list[Store]:
    """Every part of every kind of operators, in an order that does not depend on when they were loaded."""
    return [store for kind in forest.kinds for store in kind.stores()]


def slot_name(type_: int, identity: int) -> str:
    return f"slot {identity} type {type_}"


def check_times(starts: Words, ends: Words, time: int) -> None:
    """What was processed is over, and did not end before it began."""
    require(len(ends) == 0 or int(ends.max()) < time, "an event is of a time that is still to come")
    require(bool((starts <= ends).all()), "an event ends before it starts")


def check_nodes(nodes: Words, least: int, n_nodes: int) -> None:
    require(len(nodes) == 0 or least <= nodes.min() <= nodes.max() < n_nodes, "contributors are missing")


# -- words: a header, slots, a flag byte for each slot -------------------------------------------------------------------------


def unpack(rows: Words, part: Part, slots: Sequence[str], n_header: int) -> Held:
    behind = np.ascontiguousarray(rows[:, n_header + len(slots) :])
    nulls = behind.view(np.uint8).reshape(len(rows), 8 * behind.shape[1]) != 0
    values = {
        name: Values(part.values[name], np.ascontiguousarray(rows[:, n_header + slot]), nulls[:, slot]) for slot, name in enumerate(slots)
    }
    return Held({name: np.ascontiguousarray(rows[:, word]) for name, word in part.numbers.items()}, values)


def pack(held: Held, part: Part, slots: Sequence[str], n_header: int) -> Words:
    rows = no_words(len(slots), n_header, len(held))
    flags = np.zeros((len(held), 8 * ((len(slots) + 7) // 8)), np.uint8)
    for slot, name in enumerate(slots):
        rows[:, n_header + slot] = np.where(held.values[name].nulls, 0, held.values[name].words)
        flags[:, slot] = held.values[name].nulls
    rows[:, n_header + len(slots) :] = flags.view(np.int64)
    for name, word in part.numbers.items():
        rows[:, word] = held.numbers[name]
    return rows


def no_words(n_slots: int, n_header: int, n_rows: int = 0) -> Words:
    return np.zeros((n_rows, n_header + n_slots + (n_slots + 7) // 8), np.int64)


def require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)
