"""Runs tables over opened streams in this process: events in order, kernel, matches as Arrow batches.

The event path of ARCHITECTURE.md in one function. Nothing here looks at single events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import OutputColumns, Tables
from keuka.errors import KeukaError, data_error
from keuka.events.carried import CarriedColumn
from keuka.events.clocks import show_time
from keuka.events.columns import ByteArray, Int32Array, Int64Array, UnfitError, check_text, damaged, from_kernel, to_kernel
from keuka.events.contributors import Contributors
from keuka.events.files import place
from keuka.events.matches import result_schema
from keuka.events.order import EventBatch, common_axis, in_order
from keuka.events.sources import OpenStream
from keuka.kernel import upkeep
from keuka.kernel.machine import Machine, Overflow
from keuka.schema import Attribute, TimeAxis, Type

# A pass-through value is the number of its event below this bit and the number of its column above.
CARRIER_SHIFT = 40
# Carried events are looked through when twice as many are held as were needed the last time, and never for fewer than this.
LEAST_CARRIED = 131_072

# A query can have many more matches than events. Steps are cut so that one call of the kernel gives about this many at the
# most: the number of events grows from FEWEST_ROWS to MOST_ROWS while matches are few, and shrinks when they are not.
MANY_MATCHES = 500_000
FEWEST_ROWS, MOST_ROWS = 4_096, 65_536

NO_BYTES: ByteArray = np.empty(0, np.uint8)


@dataclass(frozen=True)
class MatchBatch:
    """Matches of one output, in the order of `_end`."""

    output: str
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Progress:
    """How far a run is, and what it holds: partial matches that may still become matches, and the kernel's memory for them.

    `most_instances` is a bound on what was held at any time: the sum over the states of the automata.
    """

    n_events: int
    n_instances: int
    most_instances: int
    n_bytes: int


def run(
    tables: Tables,
    opened: Sequence[OpenStream],
    *,
    on_progress: Callable[[Progress], None] | None = None,
    chunk_rows: int | None = None,
) -> Iterator[MatchBatch]:
    """All matches, as the input goes by. `on_progress` is called after every step."""
    by_name = {stream.name: stream for stream in opened}
    inputs = [by_name[source.name] for source in tables.sources]
    run_ = _Run(tables, inputs, common_axis(inputs))
    steps = in_order(inputs, run_.columns()) if chunk_rows is None else in_order(inputs, run_.columns(), chunk_rows)
    n_rows = FEWEST_ROWS
    for step in steps:
        while step:
            piece, step = cut(step, n_rows)
            found = run_.process(piece)
            if on_progress is not None:
                on_progress(run_.progress())
            yield from found
            n_found = sum([batch.rows.num_rows for batch in found])
            n_rows = min(2 * n_rows, MOST_ROWS) if n_found < MANY_MATCHES else max(n_rows // 4, 1)


def cut(step: dict[str, EventBatch], n_rows: int) -> tuple[dict[str, EventBatch], dict[str, EventBatch]]:
    """The first epochs of a step, about `n_rows` events of its longest stream, and the rest."""
    longest = max(step.values(), key=len)
    if len(longest) <= n_rows:
        return step, {}
    last = longest.end[n_rows - 1]
    bounds = {name: int(np.searchsorted(batch.end, last, side="right")) for name, batch in step.items()}
    before = {name: batch.slice(0, bounds[name]) for name, batch in step.items() if bounds[name] > 0}
    after = {name: batch.slice(bounds[name], len(batch)) for name, batch in step.items() if bounds[name] < len(batch)}
    return before, after


class _Run:
    """The kernel of one run, and what its numbers stand for."""

    def __init__(self, tables: Tables, inputs: Sequence[OpenStream], axis: TimeAxis) -> None:
        self.tables = tables
        self.inputs = inputs
        self.axis = axis
        self.machine = Machine(tables.arrays, list(tables.texts))
        self.tracks = bool(tables.arrays["settings"][2])
        self.n_seen = [0] * len(inputs)  # events given to the kernel, by source
        self.carriers: dict[tuple[int, str], int] = {}  # (source, column) -> number of the carrier
        self.carried: list[CarriedColumn] = []
        for i, source in enumerate(tables.sources):
            for name, type_ in zip(source.columns, source.types, strict=True):
                if type_ is Type.OTHER:
                    self.carriers[i, name] = len(self.carried)
                    self.carried.append(CarriedColumn(self._attribute(i, name).arrow, place(source.name, None, None, name)))
        self.contributors = Contributors(inputs) if self.tracks else None
        self.look_through_at = LEAST_CARRIED
        self.schemas = {o.name: result_schema(o.schema, axis, self.tracks) for o in tables.outputs}

    def _attribute(self, source: int, name: str) -> Attribute:
        schema = self.inputs[source].type.schema
        index = schema.index(name)
        assert index is not None
        return schema[index]

    def columns(self) -> dict[str, tuple[str, ...]]:
        """What to read of each stream: what the plan needs, or everything if events must be identified by their content."""
        wanted = {source.name: source.columns for source in self.tables.sources}
        if self.contributors is not None:
            for stream in self.inputs:
                extra = stream.type.schema.names if stream.id is None else (*wanted[stream.name], stream.id)
                wanted[stream.name] = tuple(dict.fromkeys(extra))
        return wanted

    def progress(self) -> Progress:
        instances = self.machine.instances()
        live, most = sum([now for now, _ in instances]), sum([most for _, most in instances])
        return Progress(sum(self.n_seen), live, most, self.machine.n_bytes)

    # -- one step ----------------------------------------------------------------------------------------------------------

    def process(self, step: dict[str, EventBatch]) -> list[MatchBatch]:
        batches = [self._kernel_batch(i, step.get(stream.name)) for i, stream in enumerate(self.inputs)]
        try:
            self.machine.process(batches)
        except Overflow as error:
            raise self._overflow(error, step) from None
        found = [MatchBatch(output.name, rows) for output in self.tables.outputs for rows in self._matches(output)]
        self._forget()
        return [batch for batch in found if batch.rows.num_rows]

    def _kernel_batch(self, i: int, batch: EventBatch | None) -> tuple[object, ...]:
        if batch is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), None, [], []
        first, n = self.n_seen[i], len(batch)
        self.n_seen[i] += n
        values: list[Int64Array] = []
        flags: list[ByteArray | None] = []
        for name, type_ in zip(self.tables.sources[i].columns, self.tables.sources[i].types, strict=True):
            column = batch.table.column(name)
            if type_ is Type.OTHER:
                numbers, valid = self._carry(self.carriers[i, name], first, column)
            else:
                try:
                    numbers, valid = self._to_kernel(column, type_)
                except UnfitError as unfit:
                    raise self.inputs[i].unfit(unfit, batch.rows, name) from None
            values.append(np.ascontiguousarray(numbers))
            flags.append(None if valid is None else _inverted(valid))
        if self.contributors is not None:
            self.contributors.append(i, first, batch)
        return np.ascontiguousarray(batch.start), np.ascontiguousarray(batch.end), np.arange(first, first + n), values, flags

    def _carry(self, carrier: int, first: int, column: pa.Array) -> tuple[Int64Array, ByteArray | None]:
        self.carried[carrier].append(first, column)
        return np.arange(first, first + len(column)) | (carrier << CARRIER_SHIFT), None

    def _to_kernel(self, column: pa.Array, type_: Type) -> tuple[Int64Array, ByteArray | None]:
        n_texts = self.machine.strings.n_alive
        converted = to_kernel(column, type_, self._intern)
        if type_ is Type.STRING and self.machine.strings.n_alive > n_texts:
            check_text(column)  # known texts were looked at when they came first
        return converted

    def _intern(self, offsets: object, data: object, valid: ByteArray | None, n: int) -> Int64Array:
        codes = np.empty(n, np.int64)
        try:
            self.machine.strings.intern(offsets, data, NO_BYTES if valid is None else valid, codes)
        except ValueError as error:
            raise damaged(0, str(error)) from None
        return codes

    # -- results -----------------------------------------------------------------------------------------------------------

    def _matches(self, output: OutputColumns) -> Iterator[pa.RecordBatch]:
        """The matches of an output, in more than one batch if there are 2 GB of a column."""
        found = self.machine.output(output.operator)
        waiting = [(0, len(found[0]))]
        while waiting:
            begin, stop = waiting.pop()
            try:
                yield self._batch(output, found, slice(begin, stop))
            except (OverflowError, pa.ArrowInvalid):  # from the string table, from Arrow
                if stop - begin <= 1:
                    problem = f"a match of `{output.name}` has a text or another value of more than 2 GB"
                    raise data_error("K514", problem, "leave such long values out of the query") from None
                middle = (begin + stop) // 2
                waiting += [(middle, stop), (begin, middle)]

    def _batch(self, output: OutputColumns, found: tuple[Any, ...], rows: slice) -> pa.RecordBatch:
        starts, ends, nodes, values, flags = found
        columns = [self._column(v[rows], f[rows], a) for v, f, a in zip(values, flags, output.schema.attributes, strict=True)]
        time = Attribute("", Type.TIMESTAMP, self.axis.arrow)
        columns += [from_kernel(ticks[rows], None, time, self._texts) for ticks in (starts, ends)]
        if self.contributors is not None:
            offsets, sources, numbers, tags = upkeep.contributors(self.machine, nodes[rows])
            columns += self.contributors.columns(output.fingerprint, offsets, sources, numbers, tags)
        return pa.RecordBatch.from_arrays(columns, schema=self.schemas[output.name])

    def _column(self, values: Int64Array, flags: ByteArray, attribute: Attribute) -> pa.Array:
        valid = _inverted(flags) if flags.any() else None
        if attribute.type is Type.OTHER:
            return self._carried_values(values, valid, attribute)
        return from_kernel(values, valid, attribute, self._texts)

    def _carried_values(self, values: Int64Array, valid: ByteArray | None, attribute: Attribute) -> pa.Array:
        """Look values up by carrier and number; those of several carriers are put back in order."""
        carriers, numbers = values >> CARRIER_SHIFT, values & ((1 << CARRIER_SHIFT) - 1)
        present = np.ones(len(values), bool) if valid is None else valid.astype(bool)
        pieces, places = [pa.nulls(int((~present).sum()), attribute.arrow)], [np.flatnonzero(~present)]
        for carrier in np.unique(carriers[present]):
            chosen = np.flatnonzero(present & (carriers == carrier))
            pieces.append(self.carried[carrier].take(numbers[chosen]).cast(attribute.arrow))
            places.append(chosen)
        return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))

    def _texts(self, codes: Int64Array, valid: ByteArray | None) -> tuple[Int32Array, ByteArray]:
        offsets = np.empty(len(codes) + 1, np.int32)
        self.machine.strings.byte_lengths(codes, NO_BYTES if valid is None else _inverted(valid), offsets)
        data = np.empty(int(offsets[-1]), np.uint8)
        self.machine.strings.copy_texts(codes, offsets, data)
        return offsets, data

    # -- between steps -----------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Let go of texts, pass-through values and contributors that no instance refers to."""
        upkeep.sweep_strings(self.machine)
        n_held = sum([len(column) for column in self.carried])
        n_held += len(self.contributors) if self.contributors is not None else 0
        if n_held + self.machine.n_nodes < self.look_through_at:
            return
        alive = upkeep.live_slots(self.machine, 5)
        for carrier, column in enumerate(self.carried):
            column.forget_all_but(alive[alive >> CARRIER_SHIFT == carrier] & ((1 << CARRIER_SHIFT) - 1))
        n_held = sum([len(column) for column in self.carried])
        if self.contributors is not None:
            held = upkeep.sweep_nodes(self.machine)
            self.contributors.forget_all_but(held[:, 0], held[:, 1])
            n_held += len(self.contributors)
        self.look_through_at = max(LEAST_CARRIED, 2 * (n_held + self.machine.n_nodes))

    def _overflow(self, error: Overflow, step: dict[str, EventBatch]) -> KeukaError:
        program, stream, row, tick = error.args
        name = self.tables.streams[stream]
        if stream < len(self.inputs):
            where = self.inputs[stream].where(int(step[name].rows[row]))
        else:
            query, _, part = name.partition("#")
            whose = f"a subquery of `{query}`" if part else f"`{query}`"
            where = f"an event of {whose} that ends at {show_time(tick, self.axis)}"
        return data_error(
            "K507",
            f"the result of {self.tables.fallible[program]} does not fit into 64 bits",
            "make one operand a decimal number (for example `1.0 * a`) to calculate in floating point",
            where=where,
        )


def _inverted(flags: ByteArray) -> ByteArray:
    """Arrow says which rows are valid, the kernel which are null."""
    return flags ^ np.uint8(1)
