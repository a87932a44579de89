"""Queries over the kernel: events of whole epochs in, matches as Arrow batches out.

A Runner holds the forest of all loaded queries, the machines that run it, and what the kernel's numbers stand for: strings,
values that only pass through, identities of events. `embedded.py` feeds it a bounded input, `engine.py` a live one. Nothing
here looks at single events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.automaton.assembler import AS_DECIMAL
from keuka.automaton.tables import OutputColumns, SourceColumns, Tables, damaged_tables
from keuka.automaton.writer import TYPE_CODES
from keuka.errors import KeukaError, data_error
from keuka.events.carried import CarriedColumn, check_type
from keuka.events.clocks import show_time
from keuka.events.columns import ByteArray, Int32Array, Int64Array, UnfitError, cast_to, check_text, damaged, from_kernel, to_kernel
from keuka.events.contributors import Contributors, Leaves
from keuka.events.files import place
from keuka.events.frontiers import BEGINNING
from keuka.events.matches import result_schema
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream
from keuka.kernel import batches, groups, lineage
from keuka.kernel.arrow import Words, match_batch
from keuka.kernel.forest import Forest
from keuka.kernel.loading import load
from keuka.kernel.machine import UNLIMITED, Machine, Overflow
from keuka.schema import Attribute, Schema, TimeAxis, Type

# A pass-through value is the number of its event below this bit and the number of its column above.
CARRIER_SHIFT = 40
CARRIED_NUMBER = (1 << CARRIER_SHIFT) - 1
# What is held for instances is looked through when it is twice what it was the last time, and never below these.
LEAST_CARRIED = 131_072
LEAST_STRINGS = 65_536
LEAST_TEXT_BYTES = 16_000_000

NO_BYTES: ByteArray = np.empty(0, np.uint8)
_STRING, _OTHER = 3, 5  # types of slots in the kernel's tables
_WORDS = (Type.INTEGER, Type.DOUBLE, Type.TIMESTAMP)


@dataclass(eq=False, slots=True)  # not frozen: every batch that is pushed makes one
class MatchBatch:
    """Matches of one output of a query, in the order of `_end`."""

    query: str
    output: str
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Usage:
    """What a query holds: partial matches that may still become matches, and the kernel's memory for them.

    `most_instances` is a bound on what was held at any time: the sum over the states of the automata. States and their memory that
    several queries share are counted for each of them. `n_results` are matches, its own or those of its parts, of the step at hand.
    """

    n_instances: int
    most_instances: int
    n_bytes: int
    n_results: int = 0


@dataclass(frozen=True)
class _Output:
    """A result of a loaded query: where the kernel has it, and what its rows look like."""

    columns: OutputColumns
    schema: pa.Schema
    tracks: bool
    to_convert: list[tuple[int, Attribute]]  # columns that are more than 64-bit values as the kernel has them


@dataclass(frozen=True)
class _Wanted:
    """What the kernel wants of a stream. Columns of 64-bit values are read all at once, where they have no nulls."""

    words: list[tuple[int, int]]  # number of the column, index in the batch
    others: list[tuple[int, str, Type]]
    all: list[tuple[int, str, Type]]

    def others_and(self, numbers: list[int]) -> list[tuple[int, str, Type]]:
        return [*self.others, *[column for column in self.all if column[0] in numbers]]


class Runner:
    def __init__(self, streams: Sequence[OpenStream], axis: TimeAxis, threads: int = 1) -> None:
        self.axis = axis
        self.forest = Forest()
        self.machines = [Machine(self.forest) for _ in range(threads)]
        self.machines[0].in_turns = threads == 1
        self.partition: Mapping[str, tuple[str, ...]] | None = None  # by stream: the key of all queries, if they have the same
        self.streams: dict[str, OpenStream] = {}
        self.n_seen: dict[str, int] = {}  # events given to the kernel, by stream
        self.contributors = Contributors()
        self.carriers: dict[tuple[str, str], int] = {}  # (stream, column) -> number of the carrier
        self.carried: list[CarriedColumn] = []
        self._published: dict[str, Schema] = {}
        self._outputs: dict[int, list[tuple[str, _Output]]] = {}  # by stream of the forest
        self._wanted: dict[str, _Wanted] = {}  # by stream
        self._wanted_version = -1
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._look_through_at = LEAST_CARRIED
        self._sweep_strings_at = LEAST_STRINGS
        self._sweep_text_at = LEAST_TEXT_BYTES
        for stream in streams:
            self.open(stream)

    # -- streams and queries -------------------------------------------------------------------------------------------------

    def open(self, stream: OpenStream) -> None:
        """A stream that queries may read; a second time is the same as once."""
        if stream.name not in self.streams:
            self.streams[stream.name] = stream
            self.n_seen[stream.name] = 0
            self.contributors.add(stream)

    def close(self, name: str) -> None:
        """Forget a stream that no query reads and that had no events."""
        if self.streams.pop(name, None) is not None:
            del self.n_seen[name], self.contributors.identities[name]
            self.carriers = {of: carrier for of, carrier in self.carriers.items() if of[0] != name}

    def load(self, query: str, tables: Tables, since: int = -(2**63), axis: TimeAxis | None = None) -> None:
        """Add a query between two steps. Its matches are those of events that ended after `since`; their times are shown on `axis`."""
        for source in tables.sources:
            self._check_fit(source)
            for name, type_ in zip(source.columns, source.types, strict=True):
                if type_ is Type.OTHER and source.name in self.streams:
                    self._add_carrier(source.name, name)
        sources = [(source.name, source.columns) for source in tables.sources]
        if not self.forest.queries:
            self.partition = tables.partition
        elif tables.partition != self.partition:
            self.partition = None
        assert len(self.machines) == 1 or self.partition is not None, "several machines need a key to divide the events by"
        load(self.forest, query, tables.arrays, tables.texts, sources, tables.streams, tables.fallible, since)
        tracks = tables.contributors
        for output in tables.outputs:
            stream = self.forest.outputs[query][output.operator]
            shown = axis or self.axis
            time = Attribute("", Type.TIMESTAMP, shown.arrow)
            attributes = [*output.schema.attributes, time, time]
            to_convert = [(i, a) for i, a in enumerate(attributes) if a.type not in _WORDS or pa.types.is_date(a.arrow)]
            made = _Output(output, result_schema(output.schema, shown, tracks), tracks, to_convert)
            self._outputs.setdefault(stream, []).append((query, made))

    def _check_fit(self, source: SourceColumns) -> None:
        """The stream must have the columns that the tables were compiled for: with another type, numbers would be taken for texts."""
        if source.name in self.streams:
            schema = self.streams[source.name].type.schema
        elif source.name in self._published:
            schema = self._published[source.name]
        else:
            schema = Schema(())
        for name, type_ in zip(source.columns, source.types, strict=True):
            attribute = schema.find(name)
            if attribute is None or TYPE_CODES[attribute.type] != TYPE_CODES[type_]:
                raise damaged_tables(f"they are for a stream `{source.name}` with other columns")

    def _add_carrier(self, stream: str, column: str) -> None:
        if (stream, column) not in self.carriers:
            attribute, where = self._attribute(stream, column), place(stream, None, None, column)
            check_type(attribute.arrow, where)
            self.carried.append(CarriedColumn(attribute.arrow, where))
            self.carriers[stream, column] = len(self.carried) - 1

    def unload(self, query: str) -> None:
        """Remove a query and the instances that are only its own."""
        self.forest.unload(query)
        self._outputs = {
            stream: kept for stream, outputs in self._outputs.items() if (kept := [(name, o) for name, o in outputs if name != query])
        }
        self._sweep_strings()
        self.look_through()

    def publish(self, name: str, query: str, output: OutputColumns) -> None:
        """Let later queries read an output as a stream."""
        self.forest.publish(name, query, output.operator, output.schema.names)
        self._published[name] = output.schema

    def withdraw(self, name: str) -> None:
        """Queries loaded from now on do not find the stream any more; those that read it go on."""
        del self.forest.published[name], self._published[name]

    def _attribute(self, stream: str, name: str) -> Attribute:
        return self.streams[stream].attribute(name)

    def columns(self) -> dict[str, tuple[str, ...]]:
        """What to read of each stream now: what queries need, or everything if events must be identified by their content.

        Of structs all is read; `EventBatch.column` takes their fields.
        """
        wanted = {}
        for name, stream in self.streams.items():
            columns = [stream.root(column) for _, column in self.forest.source_columns(name)]
            if self.forest.tracking:
                columns += stream.type.schema.names if stream.id is None else (stream.id,)
            wanted[name] = tuple(dict.fromkeys(columns))
        return wanted

    def fields(self, stream: str) -> tuple[str, ...]:
        """The fields of structs that queries read of a stream."""
        own = self.streams[stream]
        return tuple([column for _, column in self.forest.source_columns(stream) if own.root(column) != column])

    def usage(self, query: str) -> Usage:
        used = [machine.usage(*part) for machine in self.machines for part in self.forest.parts_of(query)]
        return Usage(sum([u[0] for u in used]), sum([u[1] for u in used]), sum([u[2] for u in used]))

    def usage_of_step(self, query: str) -> Usage:
        """What a query holds, the results of the step at hand included."""
        parts = self.usage_by_name(query).values()
        return Usage(
            sum([part.n_instances for part in parts]),
            sum([part.most_instances for part in parts]),
            sum([part.n_bytes for part in parts]),
            sum([part.n_results for part in parts]),
        )

    def usage_by_name(self, query: str) -> dict[str, Usage]:
        """What the parts of a query hold, the results of the step at hand included: by the names under which they are published."""
        by_name: dict[str, Usage] = {}
        for stream, parts in self.forest.operators_of(query):
            name = self.forest.names[stream].partition("#")[0]
            used = [machine.usage(*part) for machine in self.machines for part in parts]
            results = [machine.result_usage(stream) for machine in self.machines]
            before = by_name.get(name, Usage(0, 0, 0))
            by_name[name] = Usage(
                before.n_instances + sum([u[0] for u in used]),
                before.most_instances + sum([u[1] for u in used]),
                before.n_bytes + sum([u[2] for u in used]) + sum([n_bytes for _, n_bytes in results]),
                before.n_results + sum([n_rows for n_rows, _ in results]),
            )
        return by_name

    @property
    def n_bytes(self) -> int:
        """Memory held by all instances, their texts, contributors and pass-through values."""
        return int(sum([machine.n_bytes for machine in self.machines])) + self._n_other_bytes

    @property
    def n_allocated(self) -> int:
        """The same, and what was computed for the last batch. It is known without looking at every state."""
        if len(self.machines) == 1 and not self.carried and not self.forest.tracking:  # every push asks
            return int(self.machines[0].n_allocated + self.forest.strings.n_bytes)
        return int(sum([machine.n_allocated for machine in self.machines])) + self._n_other_bytes

    @property
    def _n_other_bytes(self) -> int:
        held = self.contributors.n_bytes + sum([column.n_bytes for column in self.carried])
        return int(self.forest.strings.n_bytes + held)

    def set_deadline(self, deadline: float) -> None:
        """Steps end with OutOfTime after this moment of the monotonic clock."""
        for machine in self.machines:
            machine.deadline = deadline

    # -- one step ----------------------------------------------------------------------------------------------------------

    def has_work(self, upto: int) -> bool:
        """Is there something to be done up to a tick without events: matches that come by themselves, events to be forgotten?"""
        # The beginning of time is before all of it.
        return upto >= BEGINNING and any(machine.has_work(upto) for machine in self.machines)

    def process(self, step: dict[str, EventBatch], upto: int, room: int = UNLIMITED) -> Iterator[list[MatchBatch]]:
        """Run whole epochs of all streams: all there is up to a tick, itself included. On one thread very many matches come in turns.

        `room`: what the step may take of memory. OutOfRoom, and OutOfTime after the deadline, leave it in the middle.
        """
        n_machines = len(self.machines)
        for machine in self.machines:
            machine.room = room // n_machines
        inputs = {}
        for name, batch in step.items():
            source = self.forest.source(name)
            if source is not None:
                inputs[source] = self._kernel_batch(name, batch)
        remembers = bool(self.carried) or self.forest.tracking
        first_nodes = [machine.n_nodes for machine in self.machines] if remembers else []
        try:
            self._run(inputs, upto)
            while self.machines[0].has_more:
                yield self._matches()
                if self.forest.tracking:
                    for machine in self.machines:
                        lineage.sweep_taken(machine)
                groups.go_on(self.machines[0])
        except Overflow as error:
            raise self._overflow(error, step) from None
        found = self._matches()
        if remembers:
            self._settle(step, first_nodes)
            self._forget_rows()
        self._forget_texts()
        yield found

    def _run(self, inputs: dict[int, tuple[object, ...]], upto: int) -> None:
        leader = self.machines[0]
        if self._pool is None:
            groups.process(leader, inputs, upto)
            return
        n = len(self.machines)
        owners = {source: self._owner_columns(self.forest.names[source]) for source in inputs}
        batches.prepare(leader, inputs, owners)
        self._together([partial(batches.compute, m, leader, i, n) for i, m in enumerate(self.machines)])
        self._together([partial(groups.run, m, leader, i, upto) for i, m in enumerate(self.machines)])

    def _owner_columns(self, stream: str) -> list[tuple[int, int]]:
        """The columns whose values say which machine runs a row; none if all rows may run anywhere."""
        assert self.partition is not None
        numbers = {column: number for number, column in self.forest.source_columns(stream)}
        return [(numbers[c], int(self._attribute(stream, c).type is Type.DOUBLE)) for c in self.partition.get(stream, ())]

    def _together(self, tasks: list[Any]) -> None:
        """Run tasks in threads. What ends one of them, or this thread, ends them all: Ctrl-C, no memory, a limit."""
        assert self._pool is not None
        futures: list[Future[None]] = []
        try:
            futures += [self._pool.submit(task) for task in tasks]
            for future in futures:
                future.result()
        except BaseException:
            for machine in self.machines:
                machine.interrupt()
            wait(futures)
            raise

    def _kernel_batch(self, name: str, batch: EventBatch) -> tuple[object, ...]:
        first, n = self.n_seen[name], len(batch)
        self.n_seen[name] += n
        wanted = self._wanted_columns(name, batch)
        words = Words(batch.pieces, wanted.words)
        columns = []
        for number, column_name, type_ in wanted.others if not words.left else wanted.others_and(words.left):
            try:
                column = batch.column(column_name)
                if type_ is Type.OTHER:
                    values, flags = self._carry(self.carriers[name, column_name], first, column), None
                else:
                    values, valid = self._to_kernel(column, type_)
                    flags = None if valid is None else _inverted(valid)
            except UnfitError as unfit:
                raise self.streams[name].unfit(unfit, batch.rows, column_name) from None
            columns.append((number, values, flags))
        numbers = None
        if self.forest.tracking:
            self.contributors.open(self.streams[name], first, batch)
            numbers = np.arange(first, first + n)
        return numbers, columns, words

    def _wanted_columns(self, stream: str, batch: EventBatch) -> _Wanted:
        """The columns that the kernel wants of a stream. Looked up once for every change of the forest."""
        if self._wanted_version != self.forest.version:
            self._wanted, self._wanted_version = {}, self.forest.version
        if stream not in self._wanted:
            columns = [(number, name, self._attribute(stream, name).type) for number, name in self.forest.source_columns(stream)]
            # All batches of a stream have the same columns in the same order.
            schema = batch.pieces[0][0].batch.schema
            plain = [column for column in columns if column[2] in _WORDS and column[1] in schema.names]
            words = [(number, schema.get_field_index(name)) for number, name, _ in plain]
            assert all(schema.field(index).type.bit_width == 64 for _, index in words), "columns are in their canonical types here"
            self._wanted[stream] = _Wanted(words, [column for column in columns if column not in plain], columns)
        return self._wanted[stream]

    def _carry(self, carrier: int, first: int, column: pa.Array) -> Int64Array:
        self.carried[carrier].open(first, column)
        return np.arange(first, first + len(column)) | (carrier << CARRIER_SHIFT)

    def _to_kernel(self, column: pa.Array, type_: Type) -> tuple[Int64Array, ByteArray | None]:
        if type_ is not Type.STRING:
            return to_kernel(column, type_, self.intern)
        n_texts = self.forest.strings.n_alive
        converted = to_kernel(column, type_, self.intern)
        if self.forest.strings.n_alive > n_texts:
            check_text(column)  # known texts were looked at when they came first
        return converted

    def intern(self, offsets: object, data: object, valid: ByteArray | None, n: int) -> Int64Array:
        codes = np.empty(n, np.int64)
        try:
            self.forest.strings.intern(offsets, data, NO_BYTES if valid is None else valid, codes)
        except ValueError as error:
            raise damaged(0, str(error)) from None
        return codes

    # -- results -----------------------------------------------------------------------------------------------------------

    def _matches(self) -> list[MatchBatch]:
        """The matches of all outputs by end, those of one end by start; in more than one batch if there are 2 GB of a column."""
        matches: list[MatchBatch] = []
        if len(self.machines) == 1:
            touched = self.machines[0].touched_streams()
        else:
            touched = {stream for machine in self.machines for stream in machine.touched_streams()}
        for stream in sorted(touched):
            if stream not in self._outputs:
                continue
            found = _output(self.machines, stream)
            for query, output in self._outputs[stream]:
                matches += [MatchBatch(query, output.columns.name, rows) for rows in self._batches(output, found)]
        return matches

    def _batches(self, output: _Output, found: _Found) -> list[pa.RecordBatch]:
        try:
            return [self._batch(output, found)]
        except (OverflowError, pa.ArrowInvalid):  # from the string table, from Arrow
            n = len(found)
            if n <= 1:
                problem = f"a match of `{output.columns.name}` has a text or another value of more than 2 GB"
                raise data_error("K514", problem, "leave such long values out of the query") from None
        halves = np.split(np.arange(n), [n // 2])
        return [batch for half in halves for batch in self._batches(output, found.chosen(half))]

    def _batch(self, output: _Output, found: _Found) -> pa.RecordBatch:
        n_columns = len(found.flags)
        arrays: dict[int, pa.Array] = {}
        for i, attribute in output.to_convert:
            is_time = i >= n_columns
            words = found.words[i - n_columns if is_time else i + 2]
            arrays[i] = self._column(words, None if is_time else found.flags[i], attribute)
        for i, flags in enumerate(found.flags):
            if flags is not None and i not in arrays:
                arrays[i] = self._column(found.words[i + 2], flags, output.columns.schema.attributes[i])
        if output.tracks:
            others = self.contributors.columns(output.columns.fingerprint, self._leaves(found), self.forest.names)
            arrays |= enumerate(others, n_columns + 2)
        return match_batch(found.words, arrays, output.schema)

    def _leaves(self, found: _Found) -> Leaves:
        """The source events behind matches. Every machine has its own nodes."""
        assert found.nodes is not None
        if len(self.machines) == 1:
            return Leaves(*lineage.contributors(self.machines[0], found.nodes))
        pieces = [lineage.contributors(m, found.nodes[found.machine == i]) for i, m in enumerate(self.machines)]
        lengths = np.empty(len(found.nodes), np.int64)
        for i, piece in enumerate(pieces):
            lengths[found.machine == i] = np.diff(piece[0])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        flat = [np.empty(offsets[-1], np.int64) for _ in range(3)]
        for i, piece in enumerate(pieces):
            mine = np.repeat(found.machine == i, lengths)
            for whole, part in zip(flat, piece[1:], strict=True):
                whole[mine] = part
        return Leaves(offsets, *flat)

    def _column(self, values: Int64Array, flags: ByteArray | None, attribute: Attribute) -> pa.Array:
        valid = None if flags is None else _inverted(flags)
        if attribute.type is Type.OTHER:
            return self._carried_values(values, valid, attribute)
        return from_kernel(values, valid, attribute, self.texts)

    def _carried_values(self, values: Int64Array, valid: ByteArray | None, attribute: Attribute) -> pa.Array:
        """Look values up by carrier and number; those of several carriers are put back in order."""
        carriers, numbers = values >> CARRIER_SHIFT, values & CARRIED_NUMBER
        present = np.ones(len(values), bool) if valid is None else valid.astype(bool)
        places = [np.flatnonzero(~present)]
        pieces = [pa.nulls(len(places[0]), attribute.arrow)]
        for carrier in np.unique(carriers[present]):
            chosen = np.flatnonzero(present & (carriers == carrier))
            self.machines[0].fit(2 * len(chosen) * self.carried[carrier].mean_bytes)
            try:
                pieces.append(cast_to(self.carried[carrier].take(numbers[chosen]), attribute.arrow))
            except pa.ArrowNotImplementedError as error:
                raise damaged_tables(str(error)) from None
            places.append(chosen)
        if len(pieces) == 2 and not len(places[0]):
            return pieces[1]
        try:
            return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))
        except pa.ArrowNotImplementedError as error:
            problem = f"Arrow cannot put values of type {attribute.arrow} together: {error}"
            raise data_error("K512", problem, "convert the column, or leave it out of the query") from None

    def texts(self, codes: Int64Array, valid: ByteArray | None) -> tuple[Int32Array, ByteArray]:
        offsets = np.empty(len(codes) + 1, np.int32)
        self.forest.strings.byte_lengths(codes, NO_BYTES if valid is None else _inverted(valid), offsets)
        self.machines[0].fit(int(offsets[-1]))
        data = np.empty(int(offsets[-1]), np.uint8)
        self.forest.strings.copy_texts(codes, offsets, data)
        return offsets, data

    # -- between steps -----------------------------------------------------------------------------------------------------

    def _settle(self, step: dict[str, EventBatch], first_nodes: list[int]) -> None:
        """Copy what instances took of the events of a step, so that its batches can go."""
        if self.carried:
            taken = np.concatenate([machine.taken_rows() for machine in self.machines])
            for carrier, column in enumerate(self.carried):
                column.settle(taken[taken >> CARRIER_SHIFT == carrier] & CARRIED_NUMBER)
        if self.forest.tracking:
            leaves = np.concatenate([lineage.leaves(m, first) for m, first in zip(self.machines, first_nodes, strict=True)])
            for name in step:
                source = self.forest.source(name)
                if source is not None:
                    self.contributors.settle(name, leaves[leaves[:, 0] == source, 1])

    def _forget_texts(self) -> None:
        """Let go of texts that no instance refers to."""
        strings = self.forest.strings
        if strings.n_alive >= self._sweep_strings_at or strings.n_text_bytes >= self._sweep_text_at:
            self._sweep_strings()

    def _forget_rows(self) -> None:
        """Let go of pass-through values and contributors that no instance refers to."""
        n_nodes = sum([machine.n_nodes for machine in self.machines])
        if n_nodes + len(self.contributors) + sum([len(column) for column in self.carried]) < self._look_through_at:
            return
        self.look_through()
        n_nodes = sum([machine.n_nodes for machine in self.machines])
        n_held = n_nodes + len(self.contributors) + sum([len(column) for column in self.carried])
        self._look_through_at = max(LEAST_CARRIED, 2 * n_held)

    def _sweep_strings(self) -> None:
        strings = self.forest.strings
        strings.sweep(np.concatenate([self.forest.text_codes(), *[m.live_slots(_STRING) for m in self.machines]]))
        self._sweep_strings_at = max(LEAST_STRINGS, 2 * strings.n_alive)
        self._sweep_text_at = max(LEAST_TEXT_BYTES, 2 * strings.n_text_bytes)

    def look_through(self) -> None:
        """Forget pass-through values and contributors that no instance holds."""
        alive = np.concatenate([machine.live_slots(_OTHER) for machine in self.machines])
        for carrier, column in enumerate(self.carried):
            column.forget_all_but(alive[alive >> CARRIER_SHIFT == carrier] & CARRIED_NUMBER)
        held = np.concatenate([lineage.sweep_nodes(machine) for machine in self.machines])
        for name in self.contributors.identities:
            source = self.forest.source(name)
            self.contributors.forget_all_but(name, held[held[:, 0] == (-1 if source is None else source), 1])

    def _overflow(self, error: Overflow, step: dict[str, EventBatch]) -> KeukaError:
        program, stream, row, tick = error.args
        name = self.forest.names[stream]
        if name in step:
            where = self.streams[name].where(int(step[name].rows[row]))
        else:
            query, _, part = name.partition("#")
            whose = f"a subquery of `{query}`" if part else f"`{query}`"
            where = f"an event of {whose} that ends at {show_time(tick, self.axis)}"
        text = self.forest.fallible[program]
        room = "the 18 digits of a decimal" if text.endswith(AS_DECIMAL) else "64 bits"
        return data_error(
            "K507",
            f"the result of {text.removesuffix(AS_DECIMAL)} does not fit into {room}",
            "make one operand a double (for example `1.0 * a`) to calculate in floating point",
            where=where,
        )


@dataclass(eq=False, slots=True)  # not frozen: every batch that is pushed makes one
class _Found:
    """What an operator gave for a step, in the order of end and start."""

    words: Int64Array  # starts, ends and columns: a row of it each
    machine: Int64Array | None  # which one found a match; None if there is one only
    nodes: Int64Array | None
    flags: list[ByteArray | None]

    def __len__(self) -> int:
        return int(self.words.shape[1])

    def chosen(self, rows: Int64Array) -> _Found:
        return _Found(
            self.words.take(rows, axis=1),
            None if self.machine is None else self.machine[rows],
            None if self.nodes is None else self.nodes[rows],
            [None if flags is None else flags[rows] for flags in self.flags],
        )


def _output(machines: list[Machine], stream: int) -> _Found:
    """What all machines found, by end, then by start, then as it was found; what one machine found of a sequence by end only."""
    if len(machines) == 1:
        words, nodes, flags = machines[0].output(stream)
        found = _Found(words, None, nodes, flags)
        return found if machines[0].is_in_order(stream) else found.chosen(np.lexsort(words[:2]))
    outputs = [machine.output(stream) for machine in machines]
    lengths = [words.shape[1] for words, _, _ in outputs]
    words = np.concatenate([words for words, _, _ in outputs], axis=1)
    nodes = None if outputs[0][1] is None else np.concatenate([nodes for _, nodes, _ in outputs])
    flags = []
    for columns in zip(*[flags for _, _, flags in outputs], strict=True):
        present = [np.zeros(n, np.uint8) if column is None else column for column, n in zip(columns, lengths, strict=True)]
        flags.append(np.concatenate(present))
    machine = np.repeat(np.arange(len(outputs)), lengths)
    return _Found(words, machine, nodes, flags).chosen(np.lexsort(words[:2]))


def _inverted(flags: ByteArray) -> ByteArray:
    """Arrow says which rows are valid, the kernel which are null."""
    return flags ^ np.uint8(1)
