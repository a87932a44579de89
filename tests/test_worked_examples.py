"""Every worked example of the papers and of the semantics: a query, its streams as CSV, its plan, and the matches of each output.

`tests/golden/worked_examples/<name>/` holds query.cel or query.sase, one CSV per stream, explain.txt and one matches file per output.
`pytest --rewrite-goldens` writes the last two anew; read the difference before committing it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import keuka
from keuka.algebra.semantics import Event, evaluate
from keuka.plan.planner import output_names
from keuka.query import prepare

FOLDER = Path(__file__).parent / "golden" / "worked_examples"
CASES = sorted([path.name for path in FOLDER.iterdir()])


def streams(case: Path) -> dict[str, pa.Table]:
    return {path.stem: pyarrow.csv.read_csv(path) for path in sorted(case.glob("*.csv")) if not path.name.startswith("matches")}


def query_of(case: Path) -> keuka.Query:
    (path,) = case.glob("query.*")
    return keuka.query(path)


def time_of(tables: dict[str, pa.Table]) -> object:
    return ("start", "end") if any("start" in table.column_names for table in tables.values()) else "Time"


def as_csv(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes().decode()


def events(table: pa.Table, time: object) -> list[Event]:
    """The rows as the reference evaluator takes them; timestamps are microseconds there."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            table = table.set_column(i, field.name, table[field.name].cast(pa.timestamp("us")).cast(pa.int64()))
    start, end = time if isinstance(time, tuple) else (time, time)
    return [Event(tuple(row.values()), row[start], row[end]) for row in table.to_pylist()]


@pytest.mark.parametrize("name", CASES)
def test_worked_example_gives_the_matches_of_the_paper(name: str, rewrite_goldens: bool):
    case = FOLDER / name
    tables = streams(case)
    time = time_of(tables)
    query = query_of(case)
    results = keuka.match_all(query, tables, time=time)
    written = {"explain.txt": query.explain(tables, time=time)}
    written |= {f"matches.{output}.csv": as_csv(table) for output, table in results.items()}
    for file, text in written.items():
        if rewrite_goldens:
            (case / file).write_text(text)
        assert (case / file).read_text() == text, file


@pytest.mark.parametrize("name", CASES)
def test_worked_example_agrees_with_the_reference_evaluator(name: str):
    tables = streams(FOLDER / name)
    time = time_of(tables)
    query = query_of(FOLDER / name)
    prepared = prepare(query, tables, time=time)
    rows = {stream: events(table, time) for stream, table in tables.items()}
    results = keuka.match_all(query, tables, time=time)
    for output, (_, operator) in zip(output_names(prepared.program), prepared.program.outputs, strict=True):
        expected = Counter([(*e.payload, e.start, e.end) for e in evaluate(operator, rows)])
        found = events(results[output], ("_start", "_end"))
        assert Counter([(*e.payload,) for e in found]) == expected


def test_figure_1_of_the_sase_paper_operator_by_operator():
    """Sequence construction gives seven sequences, selection leaves three, the window two (so many as the optimised plan constructs),
    negation one (sections 3.1 and 4.4)."""
    tables = {name: keuka.Stream(table, id="Time") for name, table in streams(FOLDER / "sase_query_1_on_figure_1").items()}
    where = "WHERE [attr1, attr2] AND a.attr3 = 1 AND a.attr4 < d.attr4"

    def sequences(text: str) -> list[str]:
        query = keuka.sase(text)
        found = keuka.match(query, {name: tables[name] for name in query.inputs}, time="Time", contributors=True)
        return sorted([" ".join([f"{c['stream'].lower()}{c['id']}" for c in row["_contributors"]]) for row in found.to_pylist()])

    construction = ["a1 b3 d5", "a1 b3 d8", "a1 b3 d9", "a1 b6 d8", "a1 b6 d9", "a4 b6 d8", "a4 b6 d9"]
    assert sequences("SEQ(A a, B b, D d)") == construction
    assert sequences("SEQ(A a, B b, D d (Time = 9)) WHERE [attr1]") == ["a4 b6 d9"]  # one of three, section 4.2.1
    assert sequences(f"SEQ(A a, B b, D d) {where}") == ["a1 b3 d5", "a1 b3 d8", "a4 b6 d9"]
    assert sequences(f"SEQ(A a, B b, D d) {where} WITHIN 6") == ["a1 b3 d5", "a4 b6 d9"]
    assert sequences(f"SEQ(A a, B b, !C c, D d) {where} WITHIN 6") == ["a1 b3 d5"]
