"""One program over one set of rows, by the reference evaluator and by the engine, as values that can be compared and shown.

An outcome is, for every output of the program, the bag of its results as (payload, start, end, contributors), or the code of
the error that it ended in. Contributors are compared as (stream, row) pairs, because equal rows are interchangeable.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

import keuka
from keuka.algebra.operators import Operator, Program
from keuka.algebra.semantics import evaluate
from keuka.automaton.compile import compile_tables
from keuka.errors import DataError, data_error
from keuka.events.files import BATCH_ROWS
from keuka.events.order import EventBatch
from keuka.events.sources import open_stream
from keuka.languages.sets import lower_texts
from keuka.plan.planner import output_names, plan
from keuka.run.embedded import last_end, run
from keuka.run.results import MatchBatch
from keuka.run.runner import Runner
from keuka.run.trace import trace
from keuka.schema import MAX_TICK

from .queries import Program as ProgramText
from .streams import SHAPES, Row, Rows, events, table

Result = tuple[Row, int, int, tuple[tuple[str, Row], ...]]
Bag = Counter[Result]
Outcome = Mapping[str, Bag | str]
Results = TypeVar("Results")

EVERY_ROW = keuka.cel("; ".join([f"FROM {stream} PUBLISH All-{stream}" for stream in SHAPES]))


def lowered(text: ProgramText | keuka.Query | str) -> Program:
    """The algebra of a program, which is CEL if it is only a text."""
    query = keuka.cel(text) if isinstance(text, str) else text if isinstance(text, keuka.Query) else text.query
    return lower_texts(query.texts, {stream: shape.type for stream, shape in SHAPES.items()}, {})


def processed(runner: Runner, step: dict[str, EventBatch]) -> list[MatchBatch]:
    """The matches of whole epochs; without any, those that come when time is over."""
    return [batch for found in runner.process(step, last_end(step) if step else MAX_TICK) for batch in found]


def by_reference(program: Program, rows: Rows) -> Outcome:
    """Each output is evaluated alone, so an overflow in one says nothing about the others."""

    def results(name: str, operator: Operator) -> Bag:
        found = evaluate(operator, events(rows))
        return bag_of([(e.payload, e.start, e.end, tuple([(s, rows[s][i]) for s, i in e.contributors])) for e in found])

    return _each(program, results)


def known_by(tick: int, found: Outcome) -> Outcome:
    """Without the matches that come later by themselves."""
    return {name: Counter({r: n for r, n in bag.items() if r[2] <= tick}) for name, bag in found.items() if not isinstance(bag, str)}


def by_match(program: Program, query: keuka.Query, rows: Rows) -> Outcome:
    """Each output by the public call, which also promises the order of `_end`."""
    streams = {s: keuka.Stream(table(s, rows[s]), time=SHAPES[s].time) for s in query.inputs}
    sources = rows_by_id(rows)

    def results(name: str, operator: Operator) -> Bag:
        found = keuka.match(query, streams, output=name or None, contributors=True)
        ends = found.column("_end").to_pylist()
        assert ends == sorted(ends), f"not in the order of `_end`: {ends}\n{query}\n{rows}"
        return bag_of_table(found, sources)

    return _each(program, results)


def by_plan(
    program: Program, rows: Rows, data: Callable[[str], Any] | None = None, chunk_rows: int = BATCH_ROWS, **options: Any
) -> Outcome:
    """Each output by a plan with the given options. `data` gives a stream as the engine is to read it: a table, a reader."""
    sources = rows_by_id(rows)

    def results(name: str, operator: Operator) -> Bag:
        batches = _run(name, operator, data or (lambda s: table(s, rows[s])), chunk_rows, **options)
        return bag_of_table(pa.Table.from_batches(batches), sources) if batches else Counter()

    return _each(program, results)


def by_trace(program: Program, rows: Rows, key: object = None) -> Outcome:
    """Each output by the interpreter behind `trace`, with everything written out."""

    def results(name: str, operator: Operator) -> Bag:
        planned = plan(Program(((name, operator),)))
        opened = [open_stream(s.stream, keuka.Stream(table(s.stream, rows[s.stream]), time=SHAPES[s.stream].time)) for s in planned.sources]
        found = trace(planned, opened, key, sys.maxsize)
        if "error[K507]" in found.text:
            raise data_error("K507", found.text)
        return bag_of([(e.payload, e.start, e.end, tuple([(s, rows[s][i]) for s, i in e.contributors])) for e in found.matches])

    return _each(program, results)


def ids_by_plan(program: Program, rows: Rows, chunk_rows: int = BATCH_ROWS, **options: Any) -> Mapping[str, list[str] | str]:
    """The ids of each output's results, sorted."""

    def results(name: str, operator: Operator) -> list[str]:
        batches = _run(name, operator, lambda s: table(s, rows[s]), chunk_rows, **options)
        return sorted([id_ for batch in batches for id_ in batch.column("_id").to_pylist()])

    return _each(program, results)


def _run(name: str, operator: Operator, data: Callable[[str], Any], chunk_rows: int, **options: Any) -> list[pa.RecordBatch]:
    tables = compile_tables(plan(Program(((name, operator),)), contributors=True, **options))
    opened = [open_stream(s.name, keuka.Stream(data(s.name), time=SHAPES[s.name].time)) for s in tables.sources]
    return [batch.rows for batch in run(tables, opened, chunk_rows=chunk_rows)]


def by_match_all(query: keuka.Query, rows: Rows) -> Outcome | str:
    """All outputs in one pass; an overflow in one of them is the end of all."""
    streams = {s: keuka.Stream(table(s, rows[s]), time=SHAPES[s].time) for s in query.inputs}
    sources = rows_by_id(rows)
    try:
        results = keuka.match_all(query, streams, contributors=True)
    except DataError as error:
        return error.code
    return {name: bag_of_table(found, sources) for name, found in results.items()}


def _each(program: Program, results: Callable[[str, Operator], Results]) -> dict[str, Results | str]:
    found: dict[str, Results | str] = {}
    for output, (name, operator) in zip(output_names(program), program.outputs, strict=True):
        try:
            found[output] = results(name, operator)
        except DataError as error:
            found[output] = error.code
    return found


def rows_by_id(rows: Rows) -> dict[tuple[str, str], Row]:
    """What the engine calls each row; equal rows have different ids."""
    streams = {s: keuka.Stream(table(s, rows[s]), time=SHAPES[s].time) for s in SHAPES}
    found = keuka.match_all(EVERY_ROW, streams, contributors=True)
    return {
        (stream, row["_contributors"][0]["id"]): tuple([row[name] for name in SHAPES[stream].arrow.names])
        for stream in SHAPES
        for row in found[f"All-{stream}"].to_pylist()
    }


def bag_of_table(results: pa.Table, sources: Mapping[tuple[str, str], Row], with_ids: bool = False) -> Bag:
    """The rows of a result; with ids, that of a match stands after its contributors."""
    columns = [results.column(i).to_pylist() for i in range(results.num_columns)]
    found = []
    for *payload, start, end, id_, contributors in zip(*columns, strict=True):
        behind = [(c["stream"], sources[c["stream"], c["id"]]) for c in contributors]
        behind += [("_id", (id_,))] if with_ids else []
        found.append((tuple(payload), start, end, tuple(behind)))
    return bag_of(found)


def bag_without_contributors(results: pa.Table) -> Bag:
    columns = [results.column(i).to_pylist() for i in range(results.num_columns)]
    return bag_of([(tuple(payload), start, end, ()) for *payload, start, end in zip(*columns, strict=True)])


def without_contributors(found: Outcome) -> Outcome:
    """As it is where nobody asks for contributors."""

    def plain(bag: Bag) -> Bag:
        plain_bag: Bag = Counter()
        for (payload, start, end, _), n in bag.items():
            plain_bag[payload, start, end, ()] += n
        return plain_bag

    return {name: bag if isinstance(bag, str) else plain(bag) for name, bag in found.items()}


def bag_of(results: Iterable[Result]) -> Bag:
    return Counter([(_plain(payload), start, end, tuple([(s, _plain(r)) for s, r in rows])) for payload, start, end, rows in results])


def _plain(row: Iterable[Any]) -> Row:
    """NaN equals itself and the zeros each other, as in the engine; but 1, 1.0 and True differ."""
    return tuple([(type(v).__name__, "NaN" if isinstance(v, float) and math.isnan(v) else v) for v in row])


def check(text: str, rows: Rows, expected: Outcome, actual: Outcome) -> None:
    """Fail unless the outcomes agree, with the program, the streams as rows, and what is missing from or alien to each output."""
    if expected == actual:
        return
    lines = ["", text]
    for stream, stream_rows in rows.items():
        lines += [f"{stream}({', '.join(SHAPES[stream].arrow.names)}):", *[f"    {row}" for row in stream_rows]]
    for name in sorted({*expected, *actual}):
        lines += _output_difference(name, expected.get(name, Counter()), actual.get(name, Counter()))
    raise AssertionError("\n".join(lines))


def _output_difference(name: str, expected: Bag | str, actual: Bag | str) -> list[str]:
    if expected == actual:
        return []
    if isinstance(expected, str) or isinstance(actual, str):
        return [f"output `{name}`: expected {_shown(expected)}, actual {_shown(actual)}"]
    missing, alien = expected - actual, actual - expected
    return [
        f"output `{name}`: expected {expected.total()} results, actual {actual.total()}",
        *[f"    missing {n} of {_row(r)}" for r, n in missing.items()],
        *[f"    alien   {n} of {_row(r)}" for r, n in alien.items()],
    ]


def _shown(outcome: Bag | str) -> str:
    return outcome if isinstance(outcome, str) else f"{outcome.total()} results: {[_row(r) for r in outcome.elements()]}"


def _row(result: Result) -> str:
    payload, start, end, contributors = result
    sources = " ".join([f"{stream}{tuple([v for _, v in row])}" for stream, row in contributors])
    return f"{tuple([v for _, v in payload])} from {start} to {end} by {sources}"
