"""Why a query matches, or why not: events in order through the interpreter, and everything that happened to them as text.

In come a plan, its opened streams and a key if only some events are to be shown; out comes a Trace. `interpreter.py` says what
happens, `trace_text.py` how that is written. Slow, and meant for few events: those of one key, up to a limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keuka.algebra.semantics import Event
from keuka.algebra.values import Value
from keuka.automaton.automata import AutomatonOperator
from keuka.automaton.contract import Plan
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.events.order import EventBatch, common_axis, in_order
from keuka.events.sources import OpenStream
from keuka.run.interpreter import Epoch, Interpreter, UnfitValueError, interpreters
from keuka.run.trace_key import Choice, Mask, choose
from keuka.run.trace_text import Report
from keuka.schema import Attribute, Schema, Type


@dataclass(frozen=True)
class Trace:
    """What happened, as a text that a notebook shows as it is; `matches` are those that the trace came to."""

    text: str
    matches: tuple[Event, ...]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Arrival:
    stream: str
    event: Event
    chosen: bool  # is it one of those to be shown?


def trace(plan: Plan, opened: Sequence[OpenStream], key: object, limit: int) -> Trace:
    """The first output of a plan, event by event, until `limit` events were shown and their epoch is over."""
    by_name = {stream.name: stream for stream in opened}
    inputs = [by_name[source.stream] for source in plan.sources]
    choice = choose(plan.partition, inputs, key)
    schemas = {source.stream: source.schema for source in plan.sources}
    automata = _automata(plan)
    machines = interpreters({name: operator.automaton for name, operator in automata.items()})
    report = Report(plan, automata, common_axis(inputs), f"{plan.outputs[0][0]}{choice}")
    shown: set[tuple[str, int]] = set()

    def is_shown(event: Event) -> bool:
        return any(contributor in shown for contributor in event.contributors)

    n_more = 0
    for step in in_order(inputs, {s.name: _columns(s, schemas[s.name], plan.wanted[s.name], choice) for s in inputs}):
        masks = {name: choice.mask(name, batch) for name, batch in step.items()}
        n_more += sum([int(mask.sum()) for mask in masks.values()])
        if report.n_events >= limit:
            continue
        arrivals = [
            a for name, batch in step.items() for a in _arrivals(schemas[name], batch, plan.wanted[name], masks[name], choice.divides)
        ]
        for epoch in _epochs(arrivals):
            chosen = [arrival.event.contributors[0] for arrival in epoch if arrival.chosen]
            shown.update(chosen)
            n_more -= len(chosen)
            if not _process(machines, epoch, report, is_shown):
                return Trace(report.text(), tuple(report.matches))
            if report.n_events >= limit:
                break
    waiting = [(name, instance) for name, machine in machines.items() for instance in machine.instances if is_shown(instance.event)]
    report.ending(waiting, n_more)
    return Trace(report.text(), tuple(report.matches))


def _automata(plan: Plan) -> dict[str, AutomatonOperator]:
    found = {}
    for stage in plan.stages:
        if not isinstance(stage.physical, AutomatonOperator):
            message = f"`{stage.name.partition('#')[0]}` is a sequence of all combinations, which a trace cannot follow event by event"
            help = "`contributors=True` shows the events behind each match, `explain` where each condition is tested"
            raise QueryError(Diagnostic("K404", message, stage.operator.span, help=(help,)))
        found[stage.name] = stage.physical
    return found


def _epochs(arrivals: list[Arrival]) -> Iterator[list[Arrival]]:
    """Simultaneous events together, in the order of their ends."""
    ordered = sorted(arrivals, key=lambda arrival: arrival.event.end)
    for _, epoch in itertools.groupby(ordered, key=lambda arrival: arrival.event.end):
        yield list(epoch)


def _process(machines: Mapping[str, Interpreter], arrivals: list[Arrival], report: Report, is_shown: Callable[[Event], bool]) -> bool:
    """One epoch through all automata, and into the report. False if an overflow is the end of everything."""
    events: dict[str, list[Event]] = {}
    for arrival in arrivals:
        events.setdefault(arrival.stream, []).append(arrival.event)
    records: dict[str, Epoch] = {}
    failed = None
    for name, machine in machines.items():
        records[name] = Epoch()
        try:
            machine.process(arrivals[0].event.end, events, records[name])
        except UnfitValueError as error:
            failed = error
            break
        events[name] = records[name].results
    report.epoch([(arrival.stream, arrival.event) for arrival in arrivals], records, is_shown)
    if failed is not None:
        report.overflow(failed.expression)
    return failed is None


def _columns(stream: OpenStream, schema: Schema, wanted: Sequence[int], choice: Choice) -> tuple[str, ...]:
    """What to read of a stream: what the plan needs and what the choice looks at."""
    names = [schema[i].name for i in wanted]
    return tuple(dict.fromkeys([stream.root(name) for name in (*names, *[name for name, _ in choice.columns.get(stream.name, ())])]))


def _arrivals(schema: Schema, batch: EventBatch, wanted: Sequence[int], mask: Mask, only_chosen: bool) -> list[Arrival]:
    """The events of a batch, with the attributes that the plan gives their source; columns that nobody reads are null in them."""
    stream = batch.stream
    rows = np.flatnonzero(mask) if only_chosen else np.arange(len(batch))
    columns = {i: _values(batch.column(schema[i].name), schema[i], rows) for i in wanted}
    start, end = batch.start, batch.end
    found = []
    for n, row in enumerate(rows):
        payload = tuple([columns[i][n] if i in columns else None for i in range(len(schema))])
        event = Event(payload, int(start[row]), int(end[row]), ((stream.name, int(batch.rows[row])),))
        found.append(Arrival(stream.name, event, bool(mask[row])))
    return found


def _values(column: pa.Array, attribute: Attribute, rows: np.ndarray) -> list[Value]:
    """The values as the algebra has them: times are microseconds, dates are days. What Python has no value for is text."""
    chosen = column.take(pa.array(rows))
    if attribute.type in (Type.TIMESTAMP, Type.DATE):
        return list(chosen.cast(pa.int64() if attribute.type is Type.TIMESTAMP else pa.int32()).to_pylist())
    try:
        return list(chosen.to_pylist())
    except (ArithmeticError, LookupError, ValueError):
        return [str(scalar) for scalar in chosen]
