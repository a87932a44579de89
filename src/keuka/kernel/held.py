"""What the operators of a forest hold, as columns: all of it, or that of chosen keys. It is taken, put into another machine, dropped.

How the words of an instance or of a stacked event are used is known here and in the compiled modules, nowhere else. The names of
parts and of their columns are the same in every process, so that what is held fits into any machine whose forest has the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from keuka.kernel import upkeep
from keuka.kernel.forest import Forest
from keuka.kernel.instances import BORN, FINISH, HEADER, LINEAGE, START
from keuka.kernel.machine import Machine
from keuka.kernel.stacks import EVENT_END, EVENT_HEADER, EVENT_KEY, EVENT_NODE, EVENT_START, EVENT_TAG, WITHOUT_KEY

Words = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
KEY = "key"  # the column with the key of stacked events
DOUBLE = 2  # a column_type of layout.py


@dataclass(frozen=True)
class Values:
    """A column of values of the kernel, whose type is a column_type of layout.py."""

    type: int
    words: Words
    nulls: Flags


@dataclass(frozen=True)
class Part:
    """A state, or a component of a sequence: what it is, and the columns of what it holds.

    Queries that keep other values have a state of the same name each; `number` tells them apart.
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
    """Every state and every sequence, in an order that does not depend on when they were loaded."""
    states = sorted(forest.signatures, key=forest.state_name)
    sequences = [number for number, arrays in enumerate(forest.sequences) if arrays is not None]
    tracked = {number for query in forest.tracking for number in forest.sequences_of(query)}
    found: list[Store] = [_Instances(forest, state) for state in states]
    return found + [_Stacked(forest, number, number in tracked) for number in sorted(sequences, key=forest.sequence_name)]


def slot_name(type_: int, identity: int) -> str:
    return f"slot {identity} type {type_}"


class _Instances:
    """Of a state."""

    def __init__(self, forest: Forest, state: int) -> None:
        self.state = state
        self.slots = [slot_name(*value) for value in forest.identities[state]]
        self.key_slots = np.asarray(forest.key_slots[state], np.int64)
        values = {slot_name(*value): value[0] for value in forest.identities[state]}
        # The mark concerns one epoch, and is not kept.
        numbers = {"start": START, "finish": FINISH, "born": BORN, "lineage": LINEAGE}
        self.parts = [Part(f"state/{forest.state_name(state)}", f"/{state}", numbers, "lineage", values)]

    def take(self, machine: Machine, keys: Keys | None) -> list[Held]:
        rows = upkeep.instances(machine, self.state, *self._arguments(keys))
        return [_unpacked(rows, self.parts[0], self.slots, HEADER)]

    def check(self, held: Sequence[Held | None], time: int, n_nodes: int) -> None:
        if held[0] is not None:
            numbers = held[0].numbers
            _check_times(numbers["start"], numbers["finish"], time)
            _check_times(numbers["born"], numbers["finish"], time)
            _check_nodes(numbers["lineage"], -1, n_nodes)

    def put(self, machine: Machine, held: Sequence[Held | None]) -> None:
        if held[0] is not None:
            upkeep.put_instances(machine, self.state, _packed(held[0], self.parts[0], self.slots, HEADER))

    def drop(self, machine: Machine, keys: Keys | None) -> None:
        upkeep.drop_instances(machine, self.state, *self._arguments(keys))

    def _arguments(self, keys: Keys | None) -> tuple[Words | None, Words | None]:
        if keys is None:
            return None, None
        if len(self.key_slots) != keys.words.shape[1]:
            raise ValueError("the queries have no common key of that many components")
        # A null in its key equals nothing: no such instance is kept.
        return self.key_slots, np.ascontiguousarray(keys.words[~keys.nulls.any(axis=1)])


class _Stacked:
    """Of a sequence, a part for each component. Links are made anew where events are put."""

    def __init__(self, forest: Forest, number: int, is_tracked: bool) -> None:
        """`is_tracked`: does a query want to know the contributors of everything that is stacked?"""
        arrays = forest.sequence(number)
        self.number = number
        self.is_tracked = is_tracked
        self.slots = [[slot_name(*slot) for slot in slots] for slots in arrays.slots]
        self.is_keyed = arrays.components["is_keyed"][: arrays.n_components].tolist()
        numbers = {"end": EVENT_END, "start": EVENT_START, "node": EVENT_NODE, "tag": EVENT_TAG}
        self.parts = []
        for component, slots in enumerate(arrays.slots):
            values = {slot_name(*slot): slot[0] for slot in slots}
            values |= {KEY: arrays.key_type} if self.is_keyed[component] else {}
            self.parts.append(Part(f"stack/{forest.sequence_name(number)}/{component}", "", numbers, "node", values))

    def take(self, machine: Machine, keys: Keys | None) -> list[Held]:
        found = []
        for component, rows in enumerate(upkeep.stacked(machine, self.number, self._arguments(keys))):
            held = _unpacked(rows, self.parts[component], self.slots[component], EVENT_HEADER)
            if self.is_keyed[component]:
                own = Values(self.parts[component].values[KEY], rows[:, EVENT_KEY], rows[:, EVENT_TAG] & WITHOUT_KEY != 0)
                held = Held(held.numbers, {**held.values, KEY: own})
            found.append(held)
        return found

    def check(self, held: Sequence[Held | None], time: int, n_nodes: int) -> None:
        for component, each in enumerate(held):
            if each is None:
                continue
            _check_times(each.numbers["start"], each.numbers["end"], time)
            _check_nodes(each.numbers["node"], 0 if self.is_tracked else -1, n_nodes)
            if self.is_keyed[component]:
                is_null = each.numbers["tag"] & WITHOUT_KEY != 0
                _require(bool((is_null == each.values[KEY].nulls).all()), "a key is null")
                _require(not is_null.any() or self.is_keyed[component] == 2, "an event has no key")

    def put(self, machine: Machine, held: Sequence[Held | None]) -> None:
        arriving = []
        for component, each in enumerate(held):
            slots = self.slots[component]
            rows = _packed(each, self.parts[component], slots, EVENT_HEADER) if each is not None else _no_words(len(slots), EVENT_HEADER)
            if each is not None and self.is_keyed[component]:
                key = each.values[KEY]
                words = _canonical_doubles(key.words) if key.type == DOUBLE else key.words
                rows[:, EVENT_KEY] = np.where(key.nulls, 0, words)
            arriving.append(rows)
        if any(len(rows) for rows in arriving):
            upkeep.put_stacked(machine, self.number, arriving)

    def drop(self, machine: Machine, keys: Keys | None) -> None:
        upkeep.drop_stacked(machine, self.number, self._arguments(keys))

    def _arguments(self, keys: Keys | None) -> list[tuple[int, bool]] | None:
        if keys is None:
            return None
        if not all(self.is_keyed) or keys.words.shape[1] != 1:
            raise ValueError("a sequence has no key of that many components")
        return list(zip(keys.words[:, 0].tolist(), keys.nulls[:, 0].tolist(), strict=True))


def _check_times(starts: Words, ends: Words, time: int) -> None:
    """What was processed is over, and did not end before it began."""
    _require(len(ends) == 0 or int(ends.max()) < time, "an event is of a time that is still to come")
    _require(bool((starts <= ends).all()), "an event ends before it starts")


def _check_nodes(nodes: Words, least: int, n_nodes: int) -> None:
    _require(len(nodes) == 0 or least <= nodes.min() <= nodes.max() < n_nodes, "contributors are missing")


# -- words: a header, slots, a flag byte for each slot -------------------------------------------------------------------------


def _unpacked(rows: Words, part: Part, slots: Sequence[str], n_header: int) -> Held:
    behind = np.ascontiguousarray(rows[:, n_header + len(slots) :])
    nulls = behind.view(np.uint8).reshape(len(rows), 8 * behind.shape[1]) != 0
    values = {
        name: Values(part.values[name], np.ascontiguousarray(rows[:, n_header + slot]), nulls[:, slot]) for slot, name in enumerate(slots)
    }
    return Held({name: np.ascontiguousarray(rows[:, word]) for name, word in part.numbers.items()}, values)


def _packed(held: Held, part: Part, slots: Sequence[str], n_header: int) -> Words:
    rows = _no_words(len(slots), n_header, len(held))
    flags = np.zeros((len(held), 8 * ((len(slots) + 7) // 8)), np.uint8)
    for slot, name in enumerate(slots):
        rows[:, n_header + slot] = np.where(held.values[name].nulls, 0, held.values[name].words)
        flags[:, slot] = held.values[name].nulls
    rows[:, n_header + len(slots) :] = flags.view(np.int64)
    for name, word in part.numbers.items():
        rows[:, word] = held.numbers[name]
    return rows


def _canonical_doubles(words: Words) -> Words:
    """As the kernel compares keys: the zeros of either sign are one, and so are all NaN."""
    doubles = words.view(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view(np.int64)


def _no_words(n_slots: int, n_header: int, n_rows: int = 0) -> Words:
    return np.zeros((n_rows, n_header + n_slots + (n_slots + 7) // 8), np.int64)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)
