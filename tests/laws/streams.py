"""The streams of the laws: three fixed schemas, random rows, and the same rows as events for the reference and as tables for the engine.

`S` and `Q` are point streams of one schema, `I` is an interval stream that shares some names with them. Ticks are few, so
simultaneous and overlapping events are common; keys are few, so that conditions between events are often met.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from keuka.algebra.semantics import Event
from keuka.schema import StreamType, TimeAxis, schema_of

Row = tuple[Any, ...]
Rows = Mapping[str, list[Row]]  # by stream, in the order of `end`


@dataclass(frozen=True)
class StreamShape:
    arrow: pa.Schema
    time: str | tuple[str, str]  # as `keuka.Stream` takes it

    def ticks(self, row: Row) -> tuple[int, int]:
        start, end = (self.time, self.time) if isinstance(self.time, str) else self.time
        return row[self.arrow.get_field_index(start)], row[self.arrow.get_field_index(end)]

    def end(self, row: Row) -> int:
        return self.ticks(row)[1]

    @property
    def type(self) -> StreamType:
        return StreamType(schema_of(self.arrow), TimeAxis(None, pa.int64()))


_POINTS = StreamShape(pa.schema([("t", pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("b", pa.bool_())]), "t")
_INTERVALS = StreamShape(
    pa.schema([("s", pa.int64()), ("e", pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("y", pa.float64()), ("z", pa.binary())]),
    ("s", "e"),
)
SHAPES: Mapping[str, StreamShape] = {"S": _POINTS, "Q": _POINTS, "I": _INTERVALS}

KEYS = ("a", "b", "ab")
_TEXTS = st.sampled_from(["a", "b", "a", "b", "a", *KEYS, *KEYS, "", "a%b", "É", None])
_SMALL = [*range(6)] * 3 + [None, -7, 0] * 2
_INTEGERS = st.sampled_from(_SMALL)
_WIDE_INTEGERS = st.sampled_from([*_SMALL * 2, *[2**62, 2**63 - 1, -(2**63), 2**53 + 1] * 4])
_DOUBLES = st.sampled_from([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, -0.0, -1.5, math.nan, math.inf, -math.inf, None])
_BYTES = st.sampled_from([b"", b"\0", b"z", None])  # of a type that only passes through
_TRUTHS = st.sampled_from([True, True, False, None])
_GAPS = st.sampled_from([1, 0, 1, 2])


@st.composite
def rows(draw: st.DrawFn, max_events: int = 25, wide: bool = False) -> dict[str, list[Row]]:
    """Rows of every stream, each stream in the order of `end`. Integers near 2^63 are in one example of four, or `wide` in all."""
    integers = _WIDE_INTEGERS if wide else draw(st.sampled_from([_INTEGERS, _INTEGERS, _INTEGERS, _WIDE_INTEGERS]))
    return {stream: draw(_rows_of(shape, integers, max_events)) for stream, shape in SHAPES.items()}


def _rows_of(shape: StreamShape, integers: st.SearchStrategy[int | None], max_events: int) -> st.SearchStrategy[list[Row]]:
    # Half the time of a law is spent on drawing values, so a row is one flat tuple of plain choices.
    is_point = isinstance(shape.time, str)
    row = st.tuples(_GAPS, _TEXTS, integers, _DOUBLES, *([_TRUTHS] if is_point else [_BYTES, st.integers(0, 3)]))
    # Lists that may be empty are short on average; most examples want enough events to match something.
    least = st.sampled_from([0, *[min(8, max_events)] * 7])
    return least.flatmap(lambda n: st.lists(row, min_size=n, max_size=max_events)).map(_placed)


def _placed(drawn: list[Row]) -> list[Row]:
    """Rows from (ticks since the last one, four values, ticks since its own start if it has a start)."""
    ends = itertools.accumulate([gap for gap, *_ in drawn])
    return [(*[end - length for length in row[5:]], end, *row[1:5]) for end, row in zip(ends, drawn, strict=True)]


def events(all_rows: Rows) -> dict[str, list[Event]]:
    return {
        stream: [Event(row, *SHAPES[stream].ticks(row), ((stream, i),)) for i, row in enumerate(stream_rows)]
        for stream, stream_rows in all_rows.items()
    }


def table(stream: str, stream_rows: list[Row]) -> pa.Table:
    schema = SHAPES[stream].arrow
    return pa.table([pa.array([row[i] for row in stream_rows], field.type) for i, field in enumerate(schema)], schema=schema)
