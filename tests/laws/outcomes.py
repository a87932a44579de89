"""One program over one set of rows, by the reference evaluator and by the engine, as values that can be compared and shown.

An outcome is, for every output of the program, the bag of its results as (payload, start, end, contributors), or the code of
the error that it ended in. Contributors are compared as (stream, row) pairs, because equal rows are interchangeable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import keuka
import pyarrow as pa
from keuka.algebra.operators import Program
from keuka.algebra.semantics import evaluate
from keuka.diagnostics import SourceText
from keuka.errors import DataError
from keuka.languages.cel.lower import lower
from keuka.languages.cel.syntax import parse
from keuka.plan.planner import compile_tables, output_name, plan
from keuka.run.embedded import run

from .streams import SHAPES, Row, Rows, events, table

Result = tuple[Row, int, int, tuple[tuple[str, Row], ...]]
Outcome = Mapping[str, Counter[Result] | str]


def lowered(text: str) -> Program:
    return lower((parse(SourceText("<query>", text)),), {stream: shape.type for stream, shape in SHAPES.items()}, {})


def by_reference(program: Program, rows: Rows) -> Outcome:
    """Each output is evaluated alone, so an overflow in one says nothing about the others."""
    found: dict[str, Counter[Result] | str] = {}
    for i, (name, operator) in enumerate(program.outputs):
        try:
            results = evaluate(operator, events(rows))
        except DataError as error:
            found[output_name(i, name)] = error.code
        else:
            found[output_name(i, name)] = bag([(e.payload, e.start, e.end, tuple([(s, rows[s][i]) for s, i in e.contributors])) for e in results])
    return found


def by_match(program: Program, text: str, rows: Rows) -> Outcome:
    """Each output by the public call."""
    streams = {s: keuka.Stream(table(s, rows[s]), time=SHAPES[s].time) for s in keuka.cel(text).inputs}
    found: dict[str, Counter[Result] | str] = {}
    for i, (name, _) in enumerate(program.outputs):
        try:
            results = keuka.match(text, streams, language="cel", output=name or None, contributors=True)
        except DataError as error:
            found[output_name(i, name)] = error.code
        else:
            found[output_name(i, name)] = _bag_of_table(results, _rows_by_id(rows))
    return found


def by_plan(
    program: Program, data: Mapping[str, Any], rows: Rows, *, together: bool = False, chunk_rows: int | None = None, **options: Any
) -> Outcome:
    """Each output, or all `together`, by a plan with the given options. `data` are the rows as the engine is to read them.

    Together, an overflow in one output is one in all.
    """
    names = [output_name(i, name) for i, (name, _) in enumerate(program.outputs)]
    found: dict[str, Counter[Result] | str] = {}
    for wanted in [names] if together else [[name] for name in names]:
        tables = compile_tables(plan(program, wanted, contributors=True, **options))
        opened = [open_stream(s.name, keuka.Stream(data[s.name], time=SHAPES[s.name].time)) for s in tables.sources]
        try:
            batches = list(run(tables, opened, chunk_rows=chunk_rows))
        except DataError as error:
            found |= dict.fromkeys(wanted, error.code)
        else:
            for name in wanted:
                ...
    return found


def bag(results: Iterable[Result]) -> Counter[Result]:
    return Counter([(_plain(payload), start, end, tuple([(s, _plain(r)) for s, r in rows])) for payload, start, end, rows in results])


def _plain(row: Iterable[Any]) -> Row:
    """NaN equals itself and the zeros each other, as in the engine; but 1, 1.0 and True differ."""
    return tuple([(type(v).__name__, "NaN" if isinstance(v, float) and math.isnan(v) else v) for v in row])


def difference(text: str, rows: Rows, expected: Outcome, actual: Outcome) -> str:
    """Empty if the outcomes agree; else the program, the streams as rows, and what is missing from or alien to each output."""
    if expected == actual:
        return ""
    lines = ["", text]
    for stream, stream_rows in rows.items():
        lines += [f"{stream}({', '.join(SHAPES[stream].arrow.names)}):", *[f"    {row}" for row in stream_rows]]
    for name in sorted({*expected, *actual}):
        lines += _output_difference(name, expected.get(name, Counter()), actual.get(name, Counter()))
    return "\n".join(lines)


def _output_difference(name: str, expected: Counter[Result] | str, actual: Counter[Result] | str) -> list[str]:
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


def _shown(outcome: Counter[Result] | str) -> str:
    return outcome if isinstance(outcome, str) else f"{outcome.total()} results: {[_row(r) for r in outcome.elements()]}"


def _row(result: Result) -> str:
    payload, start, end, contributors = result
    sources = " ".join([f"{stream}{tuple(v for _, v in row)}" for stream, row in contributors])
    return f"{tuple(v for _, v in payload)} from {start} to {end} by {sources}"
