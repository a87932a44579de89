"""Queries over the kernel: events of whole epochs in, matches as Arrow batches out.

A Runner loads queries into one forest and steps its machines. What the kernel's numbers stand for is kept beside it: texts (`texts.py`),
values that only pass through and identities of events (`held_rows.py`). `embedded.py` feeds it a bounded input, `engine.py` a live
one. Nothing here looks at single events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from keuka.automaton.tables import OutputColumns, SourceColumns, Tables, damaged_tables
from keuka.automaton.writer import TYPE_CODES
from keuka.events.frontiers import BEGINNING
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream
from keuka.kernel import groups, lineage
from keuka.kernel.forest import Forest
from keuka.kernel.loading import load
from keuka.kernel.machine import UNLIMITED, Overflow
from keuka.run.held_rows import HeldRows
from keuka.run.inputs import Inputs
from keuka.run.machines import Machines
from keuka.run.overflows import explain_overflow
from keuka.run.results import MatchBatch, Results
from keuka.run.texts import Texts
from keuka.schema import Schema, TimeAxis, Type


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

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.n_instances + other.n_instances,
            self.most_instances + other.most_instances,
            self.n_bytes + other.n_bytes,
            self.n_results + other.n_results,
        )


NOTHING = Usage(0, 0, 0)


class Runner:
    def __init__(self, streams: Sequence[OpenStream], axis: TimeAxis, threads: int = 1) -> None:
        self.axis = axis
        self.forest = Forest()
        self._machines = Machines(self.forest, threads)
        self.machines = self._machines.all
        self.partition: Mapping[str, tuple[str, ...]] | None = None  # by stream: the key of all queries, if they have the same
        self.streams: dict[str, OpenStream] = {}
        self._published: dict[str, Schema] = {}
        self.texts = Texts(self.forest, self.machines)
        self.rows = HeldRows(self.forest, self.machines)
        self._inputs = Inputs(self.forest, self.streams, self.texts, self.rows)
        self._results = Results(self._machines, self.forest.names, self.texts, self.rows)
        for stream in streams:
            self.open(stream)

    # -- streams and queries -------------------------------------------------------------------------------------------------

    def open(self, stream: OpenStream) -> None:
        """A stream that queries may read; a second time is the same as once."""
        if stream.name not in self.streams:
            self.streams[stream.name] = stream
            self.rows.open(stream)

    def close(self, name: str) -> None:
        """Forget a stream that no query reads and that had no events."""
        if self.streams.pop(name, None) is not None:
            self.rows.close(name)

    def load(self, query: str, tables: Tables, since: int = -(2**63), axis: TimeAxis | None = None) -> None:
        """Add a query between two steps. Its matches are those of events that ended after `since`; their times are shown on `axis`."""
        for source in tables.sources:
            self._check_fit(source)
            for name, type_ in zip(source.columns, source.types, strict=True):
                if type_ is Type.OTHER and source.name in self.streams:
                    self.rows.carry(self.streams[source.name], name)
        sources = [(source.name, source.columns) for source in tables.sources]
        if not self.forest.queries:
            self.partition = tables.partition
        elif tables.partition != self.partition:
            self.partition = None
        assert len(self.machines) == 1 or self.partition is not None, "several machines need a key to divide the events by"
        load(self.forest, query, tables.arrays, tables.texts, sources, tables.streams, tables.fallible, since)
        for output in tables.outputs:
            self._results.add(query, self.forest.outputs[query][output.operator], output, axis or self.axis, tables.contributors)

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

    def unload(self, query: str) -> None:
        """Remove a query and the instances that are only its own."""
        self.forest.unload(query)
        self._results.remove(query)
        self.texts.sweep()
        self.rows.look_through()

    def publish(self, name: str, query: str, output: OutputColumns) -> None:
        """Let later queries read an output as a stream."""
        self.forest.publish(name, query, output.operator, output.schema.names)
        self._published[name] = output.schema

    def withdraw(self, name: str) -> None:
        """Queries loaded from now on do not find the stream any more; those that read it go on."""
        del self.forest.published[name], self._published[name]

    def columns(self) -> dict[str, tuple[str, ...]]:
        """What to read of each stream now: what queries need, or everything if events must be identified by their content.

        Of structs all is read; `EventBatch.column` takes their fields.
        """
        wanted = {}
        for name, stream in self.streams.items():
            columns = [stream.root(column) for _, column in self.forest.source_columns(name)]
            if self.forest.tracking:
                columns += stream.type.schema.names if stream.header.id is None else (stream.header.id,)
            wanted[name] = tuple(dict.fromkeys(columns))
        return wanted

    def fields(self, stream: str) -> tuple[str, ...]:
        """The fields of structs that queries read of a stream."""
        own = self.streams[stream]
        return tuple([column for _, column in self.forest.source_columns(stream) if own.root(column) != column])

    def usage(self, query: str) -> Usage:
        return self._usage(self.forest.parts_of(query))

    def _usage(self, parts: Iterable[tuple[int, int]]) -> Usage:
        return sum([Usage(*machine.usage(*part)) for machine in self.machines for part in parts], NOTHING)

    def usage_of_step(self, query: str) -> Usage:
        """What a query holds, the results of the step at hand included."""
        return sum(self.usage_by_name(query).values(), NOTHING)

    def usage_by_name(self, query: str) -> dict[str, Usage]:
        """What the parts of a query hold, the results of the step at hand included: by the names under which they are published."""
        by_name: dict[str, Usage] = {}
        for stream, parts in self.forest.operators_of(query):
            name = self.forest.names[stream].partition("#")[0]
            results = [machine.result_usage(stream) for machine in self.machines]
            of_step = sum([Usage(0, 0, n_bytes, n_rows) for n_rows, n_bytes in results], self._usage(parts))
            by_name[name] = by_name.get(name, NOTHING) + of_step
        return by_name

    @property
    def n_events(self) -> int:
        """How many events were given to the kernel."""
        return sum(self.rows.n_seen.values())

    @property
    def n_bytes(self) -> int:
        """Memory held by all instances, their texts, contributors and pass-through values."""
        return int(sum([machine.n_bytes for machine in self.machines]) + self.forest.strings.n_bytes + self.rows.n_bytes)

    @property
    def n_allocated(self) -> int:
        """The same, and what was computed for the last batch. It is known without looking at every state."""
        n_bytes = self.forest.strings.n_bytes
        for machine in self.machines:  # every push asks
            n_bytes += machine.n_allocated
        return int(n_bytes + self.rows.n_bytes if self.rows.columns or self.forest.tracking else n_bytes)

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
        for machine in self.machines:
            machine.room = room // len(self.machines)
        inputs = self._inputs.of_step(step)
        remembers = bool(self.rows.columns) or self.forest.tracking
        first_nodes = [machine.n_nodes for machine in self.machines] if remembers else []
        try:
            self._machines.run(inputs, upto, self._owner_columns)
            while self.machines[0].has_more:
                yield self._results.take()
                if self.forest.tracking:
                    for machine in self.machines:
                        lineage.sweep_taken(machine)
                groups.go_on(self.machines[0])
        except Overflow as error:
            raise explain_overflow(error, self.forest, step, self.axis) from None
        found = self._results.take()
        if remembers:
            self.rows.settle(step, first_nodes)
            self.rows.forget()
        self.texts.forget()
        yield found

    def _owner_columns(self, source: int) -> list[tuple[int, int]]:
        """The columns whose values say which machine runs a row; none if all rows may run anywhere."""
        assert self.partition is not None
        stream = self.streams[self.forest.names[source]]
        numbers = {column: number for number, column in self.forest.source_columns(stream.name)}
        return [(numbers[c], int(stream.attribute(c).type is Type.DOUBLE)) for c in self.partition.get(stream.name, ())]
