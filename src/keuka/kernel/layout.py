"""The tables of a query: what each array holds. They are the only form in which a query reaches the kernel.

`automaton/tables.py` writes them, `checks.py` tests every number of tables that come from outside, `loading.py` brings them into a
forest. Sources come first in `stream`, then one output per operator. Columns are numbered over all streams, derived ones behind all
others. Signatures and labels say what is the same in two sets of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

VERSION = 4
OLDEST = 2  # tables without sequences, which are read as tables with none; those of version 3 have no functions of time and no casts

IntArray = npt.NDArray[np.integer[Any]]
Arrays = Mapping[str, IntArray]


class Stream(NamedTuple):
    first_column: int
    n_columns: int


class Derived(NamedTuple):
    """A column computed per batch."""

    stream: int
    program: int
    must_hold: int  # is an error in any row raised?


class Operator(NamedTuple):
    first_port: int
    n_ports: int
    first_state: int
    n_states: int
    first_start: int
    n_starts: int
    signature_low: int
    signature_high: int


class Start(NamedTuple):
    stream: int
    gate: int  # derived column, false where the edge need not be looked at; -1: none
    edge: int
    reading: int


class State(NamedTuple):
    stream: int
    program: int
    gate: int
    first_slot: int
    n_slots: int
    first_key: int
    n_keys: int
    window: int
    edge: int
    signature_low: int
    signature_high: int
    reading: int  # bits, as Reading in rows.pxd


class Edge(NamedTuple):
    program: int
    target: int  # a state, or -1: the operator's output
    label_low: int
    label_high: int


class Slot(NamedTuple):
    type: int  # as column_type
    identity: int  # which value it holds


class Key(NamedTuple):
    """An equality that finds instances."""

    column: int
    slot: int
    is_double: int
    component: int  # of the plan's key, or -1


class Sequence(NamedTuple):
    """All combinations of events (automaton/stacks.py). Levels: those of search after search, one for each positive component."""

    operator: int
    first_component: int
    n_components: int
    first_level: int
    n_levels: int
    within: int
    settings: int
    n_alternatives: int
    key_type: int
    program: int
    first_item: int
    n_items: int


class Component(NamedTuple):
    is_negated: int
    is_keyed: int
    first_only: int
    negated_before: int
    first_slot: int
    n_slots: int
    first_feed: int
    n_feeds: int


class Feed(NamedTuple):
    """A stream as a component reads it."""

    stream: int
    gate: int  # -1: none
    key: int  # -1: none
    first_column: int  # in feed_column
    tag: int
    reading: int


class Level(NamedTuple):
    component: int
    first_test: int
    n_tests: int
    first_absence: int
    n_absences: int


class Test(NamedTuple):
    program: int
    alternative: int  # -1 for every one


class Absence(NamedTuple):
    component: int
    scope: int  # 0 between two, 1 before the first, 2 after the last
    alternative: int
    program: int
    bounds: int


class Program(NamedTuple):
    first_instruction: int
    n_instructions: int
    n_registers: int


class Instruction(NamedTuple):
    op: int
    dst: int
    a: int
    b: int
    c: int


class Set(NamedTuple):
    """Constants of an IN list."""

    first: int
    n: int
    is_double: int


# array -> its rows; None: plain numbers.
ARRAYS: Mapping[str, type[Any] | None] = {
    "stream": Stream,
    "column_type": None,  # by column: 0 boolean, 1 integer, 2 double, 3 string, 4 timestamp, 5 other (a row handle), 6 date, 7 decimal
    "derived": Derived,
    "operator": Operator,
    "port": None,  # streams that an operator reads
    "start": Start,
    "state": State,
    "edge": Edge,
    "slot": Slot,
    "key": Key,
    "sequence": Sequence,
    "component": Component,
    "feed": Feed,
    "feed_column": None,  # by feed: the columns that become the slots of its component
    "level": Level,
    "test": Test,
    "absence": Absence,
    "item": None,  # registers of the sequence's program, or slots of its components if it has none; the first are the output's columns
    "program": Program,
    "code": Instruction,  # 32-bit
    "operand": None,  # registers of EMIT, 32-bit
    "constant": None,
    "constant_text": None,  # by constant: index of its text, or -1
    "set": Set,
    "settings": None,  # [version, number of sources, lineage: bit 0 for contributors, bit 1 for histories]
}
NARROW = ("code", "operand")


def as_array(name: str, values: list[Any]) -> IntArray:
    """Rows as an array of the tables: a column for each field."""
    array = np.asarray(values, dtype=np.int32 if name in NARROW else np.int64)
    row = ARRAYS[name]
    return np.ascontiguousarray(array.reshape(-1) if row is None else array.reshape(-1, len(row._fields)))


def fields(name: str, array: IntArray) -> Any:
    """The same array with the names of its fields."""
    row = ARRAYS[name]
    if row is None:
        return array
    dtype = np.dtype([(field, array.dtype) for field in row._fields])
    return np.ascontiguousarray(array).view(dtype).reshape(-1)


def rows(name: str, array: IntArray) -> list[Any]:
    """The rows of an array as values."""
    row = ARRAYS[name]
    return array.tolist() if row is None else [row._make(values) for values in array.tolist()]
