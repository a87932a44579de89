"""Matches from words of the kernel to Arrow batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import OutputColumns
from keuka.errors import data_error
from keuka.events.columns import from_kernel, inverted
from keuka.events.matches import result_schema
from keuka.kernel.arrow import END_WORD, HEADER_WORDS, START_WORD, match_batch
from keuka.run.held_rows import HeldRows
from keuka.run.machines import Found, Machines
from keuka.run.texts import Texts
from keuka.schema import WORD_TYPES, Attribute, TimeAxis, Type


@dataclass(eq=False, slots=True)  # not frozen: every batch that is pushed makes one
class MatchBatch:
    """Matches of one output of a query, in the order of `_end`."""

    query: str
    output: str
    rows: pa.RecordBatch


@dataclass(frozen=True)
class _Output:
    """A result of a loaded query: where the kernel has it, and what its rows look like."""

    query: str
    columns: OutputColumns
    schema: pa.Schema
    tracks: bool
    rows: list[int]  # by column: its row of the kernel's words
    attributes: list[Attribute]  # of these columns
    to_convert: list[int]  # those that are more than 64-bit values as the kernel has them


class Results:
    def __init__(self, machines: Machines, names: Mapping[int, str], texts: Texts, rows: HeldRows) -> None:
        """`names` are those of the forest's streams."""
        self._machines = machines
        self._names = names
        self._texts = texts
        self._rows = rows
        self._outputs: dict[int, list[_Output]] = {}  # by stream of the forest

    def add(self, query: str, stream: int, columns: OutputColumns, axis: TimeAxis, tracks: bool) -> None:
        """An output of a query, which the forest has as a stream; its times are shown on `axis`."""
        time = Attribute("", Type.TIMESTAMP, axis.arrow)
        rows = [*range(HEADER_WORDS, HEADER_WORDS + len(columns.schema)), START_WORD, END_WORD]
        attributes = [*columns.schema.attributes, time, time]
        to_convert = [i for i, a in enumerate(attributes) if a.type not in WORD_TYPES or pa.types.is_date(a.arrow)]
        output = _Output(query, columns, result_schema(columns.schema, axis, tracks), tracks, rows, attributes, to_convert)
        self._outputs.setdefault(stream, []).append(output)

    def remove(self, query: str) -> None:
        kept = {stream: [output for output in outputs if output.query != query] for stream, outputs in self._outputs.items()}
        self._outputs = {stream: outputs for stream, outputs in kept.items() if outputs}

    def take(self) -> list[MatchBatch]:
        """The matches of all outputs by end, those of one end by start; in more than one batch if there are 2 GB of a column."""
        matches: list[MatchBatch] = []
        for stream in self._machines.touched_streams():
            if stream in self._outputs:
                found = self._machines.output(stream)
                for output in self._outputs[stream]:
                    for rows in self._batches(output, found):  # a comprehension would be one more call in every push
                        matches.append(MatchBatch(output.query, output.columns.name, rows))
        return matches

    def _batches(self, output: _Output, found: Found) -> list[pa.RecordBatch]:
        try:
            return [self._batch(output, found)]
        except (OverflowError, pa.ArrowInvalid):  # from the string table, from Arrow
            n = len(found)
            if n <= 1:
                problem = f"a match of `{output.columns.name}` has a text or another value of more than 2 GB"
                raise data_error("K514", problem, "leave such long values out of the query") from None
        halves = np.split(np.arange(n), [n // 2])
        return [batch for half in halves for batch in self._batches(output, found.chosen(half))]

    def _batch(self, output: _Output, found: Found) -> pa.RecordBatch:
        arrays: dict[int, pa.Array] = {}
        for i in output.to_convert:
            arrays[i] = self._column(found, i, output)
        for i, flags in enumerate(found.flags):
            if flags is not None and i not in arrays:
                arrays[i] = self._column(found, i, output)
        if output.tracks:
            others = self._rows.contributors.columns(output.columns.fingerprint, self._machines.leaves(found), self._names)
            arrays |= enumerate(others, len(output.rows))
        return match_batch(found.words, output.rows, arrays, output.schema)

    def _column(self, found: Found, i: int, output: _Output) -> pa.Array:
        values, attribute = found.words[output.rows[i]], output.attributes[i]
        flags = found.flags[i] if i < len(found.flags) else None  # times are never null
        valid = None if flags is None else inverted(flags)
        if attribute.type is Type.OTHER:
            return self._rows.look_up(values, valid, attribute)
        return from_kernel(values, valid, attribute, self._texts.copy)
