"""Sequences of all combinations (automaton/stacks.py) as the forest knows them; `sequences.py` is the machine's side."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from keuka.kernel import layout
from keuka.kernel.arena import Array, Unit, row_of, spare
from keuka.kernel.held import Held, Keys, Part, Store, Values, Words, check_nodes, check_times, no_words, pack, require, slot_name, unpack
from keuka.kernel.rows import Reading
from keuka.kernel.sequences import Sequences
from keuka.kernel.stacks import DTYPES, EVENT_END, EVENT_HEADER, EVENT_KEY, EVENT_NODE, EVENT_START, EVENT_TAG, WAITS, WITHOUT_KEY

if TYPE_CHECKING:
    from keuka.kernel.forest import Forest, PartKey
    from keuka.kernel.loading import Loading
    from keuka.kernel.machine import Machine

NEVER = 2**63 - 1  # ticks
DOUBLE = 2  # a column_type of layout.py
PRUNED = 4  # a setting of a sequence (automaton/stack_code.py)
KEY = "key"  # the column with the key of stacked events


@dataclass(eq=False)
class SequenceArrays:
    """A sequence with the forest's numbers. Rows are described in stacks.pxd; every array has a row to spare, so that a pointer to the
    first exists."""

    stream: int
    within: int
    settings: int
    n_alternatives: int
    key_type: int
    program: int
    n_items: int
    n_components: int
    n_positive: int
    n_ports: int
    n_feeds: int
    n_slots: int
    components: Array
    feeds: Array
    feed_columns: Array
    levels: Array
    tests: Array
    absences: Array
    items: Array
    ports: Array
    slot_types: Array
    slots: list[list[tuple[int, int]]]  # by component: (type, identity)
    programs: list[int]  # that it holds
    serial: int
    is_read: bool = False  # do other operators read its matches?


class Combinations:
    part = "sequence"
    operators = Sequences

    def __init__(self, forest: Forest, kind: int) -> None:
        self.forest: Forest = weakref.proxy(forest)  # which holds this: a circle would keep both for longer
        self.kind = kind
        self.sequences: list[SequenceArrays | None] = []  # None where a number is free

    def at(self, number: int) -> SequenceArrays:
        arrays = self.sequences[number]
        assert arrays is not None, "there is no such sequence"
        return arrays

    def name_of(self, number: int) -> str:
        """What a sequence is, the same in every process."""
        return hashlib.blake2b(self.forest.origins[self.at(number).stream].encode(), digest_size=16).hexdigest()

    def stores(self) -> list[Store]:
        tracked = {part for query in self.forest.tracking for part in self.forest.parts_of(query)}
        numbers = [number for number, arrays in enumerate(self.sequences) if arrays is not None]
        return [_Stacked(self, number, (self.kind, number) in tracked) for number in sorted(numbers, key=self.name_of)]

    # -- what machines run -------------------------------------------------------------------------------------------------

    def units(self) -> list[Unit]:
        depths = self.forest.stream["depth"]
        return [
            Unit(number, int(depths[arrays.stream]), tuple(arrays.ports[: arrays.n_ports].tolist()), arrays.stream)
            for number, arrays in enumerate(self.sequences)
            if arrays is not None
        ]

    def rows(self) -> list[SequenceArrays | None]:
        read = self.forest.streams_read()
        for arrays in self.sequences:
            if arrays is not None:
                arrays.is_read = arrays.stream in read
        return list(self.sequences)

    def compact(self) -> None:
        """Each sequence has arrays of its own, which go with it."""

    # -- loading -----------------------------------------------------------------------------------------------------------

    def load(self, loading: Loading, which: int, ports: tuple[int, ...], result: int) -> None:
        for sequence in loading.rows["sequence"]:
            if sequence.operator == which:
                self.forest.stream["any_start"][result] = 1
                needs = self._needs(loading, sequence)
                loading.hold(("sequence", result), partial(self._add, loading, sequence, ports, result), self._drop, needs)

    def _needs(self, loading: Loading, sequence: layout.Sequence) -> list[PartKey | int]:
        needs: list[PartKey | int] = []
        for _, feed, columns in _feeds(loading, sequence):
            needs += [column for column in (feed.gate, feed.key, *columns) if column >= 0]
            if feed.key >= 0:
                needs.append(loading.hold_hash(feed.stream, _hashed(feed, sequence.key_type), -1))
        return needs

    def _add(self, loading: Loading, sequence: layout.Sequence, ports: tuple[int, ...], result: int) -> int:
        programs: list[int] = []

        def program(number: int) -> int:
            if number < 0:
                return -1
            programs.append(loading.add_program(number, loading.relocated(number, None, 0)))
            return programs[-1]

        components: list[layout.Component] = loading.slice("component", sequence)
        slots: list[list[layout.Slot]] = [loading.slice("slot", component) for component in components]
        feeds: list[tuple[int, ...]] = []
        feed_columns: list[int] = []
        for component, feed, columns in _feeds(loading, sequence):
            own = {name: getattr(feed, name) for name in ("stream", "gate", "key", "tag")}
            own |= {"port": ports.index(feed.stream), "first_column": len(feed_columns), "component": component}
            own |= {"hash": -1 if feed.key < 0 else self.forest.number(("hash", feed.stream, _hashed(feed, sequence.key_type), -1))}
            feeds.append(row_of(DTYPES["feed"], **own, is_primitive=feed.reading & Reading.PRIMITIVE))
            feed_columns += columns
        levels: list[tuple[int, ...]] = []
        tests: list[tuple[int, ...]] = []
        absences: list[tuple[int, ...]] = []
        for level in loading.slice("level", sequence):
            levels.append(row_of(DTYPES["level"], **level._replace(first_test=len(tests), first_absence=len(absences))._asdict()))
            for test in loading.slice("test", level):
                tests.append(row_of(DTYPES["test"], **test._replace(program=program(test.program))._asdict()))
            for absence in loading.slice("absence", level):
                absences.append(row_of(DTYPES["absence"], **absence._replace(program=program(absence.program))._asdict()))
        arrays = SequenceArrays(
            stream=result,
            within=sequence.within,
            settings=sequence.settings,
            n_alternatives=sequence.n_alternatives,
            key_type=sequence.key_type,
            program=program(sequence.program),
            n_items=sequence.n_items,
            n_components=len(components),
            n_positive=sum([not component.is_negated for component in components]),
            n_ports=len(ports),
            n_feeds=len(feeds),
            n_slots=sum([component.n_slots for component in components]),
            components=spare(_component_rows(sequence, components), DTYPES["component"]),
            feeds=spare(feeds, DTYPES["feed"]),
            feed_columns=spare(feed_columns),
            levels=spare(levels, DTYPES["level"]),
            tests=spare(tests, DTYPES["test"]),
            absences=spare(absences, DTYPES["absence"]),
            items=spare(loading.slice("item", sequence)),
            ports=spare(ports),
            slot_types=spare([slot.type for of_component in slots for slot in of_component]),
            slots=[[(slot.type, slot.identity) for slot in of_component] for of_component in slots],
            programs=programs,
            serial=self.forest.new_serial(),
        )
        number = self.sequences.index(None) if None in self.sequences else len(self.sequences)
        self.sequences[number : number + 1] = [arrays]
        return number

    def _drop(self, number: int, _: int) -> None:
        for program in self.at(number).programs:
            self.forest.drop_program(program)
        self.sequences[number] = None


def _feeds(loading: Loading, sequence: layout.Sequence) -> Iterator[tuple[int, layout.Feed, list[int]]]:
    """(component, feed, columns of its slots), with the forest's numbers of streams and columns."""
    for number, component in enumerate(loading.slice("component", sequence)):
        for feed in loading.slice("feed", component):
            slots = loading.rows["feed_column"][feed.first_column : feed.first_column + component.n_slots]
            numbers = {"stream": loading.streams[feed.stream], "gate": loading.column(feed.gate), "key": loading.column(feed.key)}
            yield number, feed._replace(**numbers), loading.columns[slots].tolist()


def _hashed(feed: layout.Feed, key_type: int) -> tuple[tuple[int, int], ...]:
    return ((feed.key, int(key_type == DOUBLE)),)


def _component_rows(sequence: layout.Sequence, components: list[layout.Component]) -> list[tuple[int, ...]]:
    positive = [i for i, component in enumerate(components) if not component.is_negated]
    rows: list[tuple[int, ...]] = []
    first_slot = 0
    for i, c in enumerate(components):
        before = max([k for k in positive if k < i], default=-1)
        # A match that waits for the end of its window looks for what came before its first event that much later.
        kept_for = sequence.within if not (sequence.settings & WAITS and i < positive[0]) else min(2 * sequence.within, NEVER)
        kept_for = kept_for if sequence.settings & PRUNED else NEVER
        own = c._replace(first_slot=first_slot)._asdict()
        rows.append(row_of(DTYPES["component"], **own, positive_before=before, kept_for=kept_for))
        first_slot += c.n_slots
    return rows


class _Stacked:
    """What a sequence holds, a part for each component. Links are made anew where events are put."""

    def __init__(self, combinations: Combinations, number: int, is_tracked: bool) -> None:
        """`is_tracked`: does a query want to know the contributors of everything that is stacked?"""
        arrays = combinations.at(number)
        self.kind = combinations.kind
        self.number = number
        self.is_tracked = is_tracked
        self.slots = [[slot_name(*slot) for slot in slots] for slots in arrays.slots]
        self.is_keyed = arrays.components["is_keyed"][: arrays.n_components].tolist()
        numbers = {"end": EVENT_END, "start": EVENT_START, "node": EVENT_NODE, "tag": EVENT_TAG}
        self.parts = []
        for component, slots in enumerate(arrays.slots):
            values = {slot_name(*slot): slot[0] for slot in slots}
            values |= {KEY: arrays.key_type} if self.is_keyed[component] else {}
            self.parts.append(Part(f"stack/{combinations.name_of(number)}/{component}", "", numbers, "node", values))

    def take(self, machine: Machine, keys: Keys | None) -> list[Held]:
        found = []
        for component, rows in enumerate(machine.kind(self.kind).stacked(self.number, self._arguments(keys))):
            held = unpack(rows, self.parts[component], self.slots[component], EVENT_HEADER)
            if self.is_keyed[component]:
                own = Values(self.parts[component].values[KEY], rows[:, EVENT_KEY], rows[:, EVENT_TAG] & WITHOUT_KEY != 0)
                held = Held(held.numbers, {**held.values, KEY: own})
            found.append(held)
        return found

    def check(self, held: Sequence[Held | None], time: int, n_nodes: int) -> None:
        for component, each in enumerate(held):
            if each is None:
                continue
            check_times(each.numbers["start"], each.numbers["end"], time)
            check_nodes(each.numbers["node"], 0 if self.is_tracked else -1, n_nodes)
            if self.is_keyed[component]:
                is_null = each.numbers["tag"] & WITHOUT_KEY != 0
                require(bool((is_null == each.values[KEY].nulls).all()), "a key is null")
                require(not is_null.any() or self.is_keyed[component] == 2, "an event has no key")

    def put(self, machine: Machine, held: Sequence[Held | None]) -> None:
        arriving = []
        for component, each in enumerate(held):
            slots = self.slots[component]
            rows = pack(each, self.parts[component], slots, EVENT_HEADER) if each is not None else no_words(len(slots), EVENT_HEADER)
            if each is not None and self.is_keyed[component]:
                key = each.values[KEY]
                words = _canonical_doubles(key.words) if key.type == DOUBLE else key.words
                rows[:, EVENT_KEY] = np.where(key.nulls, 0, words)
            arriving.append(rows)
        if any(len(rows) for rows in arriving):
            machine.kind(self.kind).put_stacked(self.number, arriving)

    def drop(self, machine: Machine, keys: Keys | None) -> None:
        machine.kind(self.kind).drop_stacked(self.number, self._arguments(keys))

    def _arguments(self, keys: Keys | None) -> list[tuple[int, bool]] | None:
        if keys is None:
            return None
        if not all(self.is_keyed) or keys.words.shape[1] != 1:
            raise ValueError("a sequence has no key of that many components")
        return list(zip(keys.words[:, 0].tolist(), keys.nulls[:, 0].tolist(), strict=True))


def _canonical_doubles(words: Words) -> Words:
    """As the kernel compares keys: the zeros of either sign are one, and so are all NaN."""
    doubles = words.view(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view(np.int64)
