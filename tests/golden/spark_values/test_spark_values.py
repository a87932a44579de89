"""Expressions are worth what Spark SQL says (golden.jsonl, written by make.py): in the reference evaluator and in the engine."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keuka
from keuka.algebra.operators import Map
from keuka.algebra.values import evaluate, same
from keuka.diagnostics import SourceText
from keuka.languages.cel.lower import LANGUAGE
from keuka.languages.cel.syntax import parse
from keuka.schema import ARROW_OF, Schema, StreamType, TimeAxis, Type, attribute_of, decimal_type

Row = tuple[Any, ...]


def read() -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines()]
    for entry in entries:
        types = [*entry["arguments"].values(), entry["result"]]
        entry["rows"] = [tuple([decoded(v, t) for v, t in zip(row, types, strict=True)]) for row in entry["rows"]]
    return entries


def decoded(value: Any, kind: str) -> Any:
    if value is None:
        return None
    of_text = {"double": float, "date": date.fromisoformat}.get(kind, Decimal if kind.startswith("decimal") else None)
    return value if of_text is None else of_text(value)


def arrow_of(kind: str) -> pa.DataType:
    return decimal_type(int(kind.split()[1])) if kind.startswith("decimal") else ARROW_OF[Type(kind)]


def as_reference(value: Any) -> Any:
    """As the reference evaluator has it: dates are days since 1970."""
    return value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else value


GOLDEN = read()


def groups() -> list[list[dict[str, Any]]]:
    """Entries over the same argument rows, which one query can evaluate together."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in GOLDEN:
        found[repr((entry["arguments"], [row[:-1] for row in entry["rows"]]))].append(entry)
    return list(found.values())


def stream_type(arguments: dict[str, str]) -> StreamType:
    attributes = [attribute_of(n, arrow_of(t)) for n, t in {"ts": "integer", **arguments}.items()]
    return StreamType(Schema(tuple(attributes)), TimeAxis(None, pa.int64()))


def agrees(value: Any, expected: Any) -> bool:
    return type(value) is type(expected) and (value is None or same(value, expected))


def query(entries: list[dict[str, Any]]) -> str:
    return "SELECT " + ", ".join([f"{entry['expression']} AS r{i}" for i, entry in enumerate(entries)]) + " FROM S"


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: entry["expression"])
def test_the_reference_evaluator_agrees_with_spark(entry: dict[str, Any]):
    source = SourceText("<query>", query([entry]))
    ((_, operator),) = LANGUAGE.lower((parse(source),), {"S": stream_type(entry["arguments"])}, {}).outputs
    assert isinstance(operator, Map)
    assert operator.schema[0].type is Type(entry["result"].split()[0])
    for row in entry["rows"]:
        *arguments, expected = [as_reference(value) for value in row]
        value = evaluate(operator.items[0], ((0, *arguments),))
        assert agrees(value, expected), f"{entry['expression']} on {arguments}: {value!r}, Spark: {expected!r}"


@pytest.mark.parametrize("entries", groups(), ids=lambda entries: entries[0]["expression"])
def test_the_engine_agrees_with_spark(entries: list[dict[str, Any]]):
    rows = entries[0]["rows"]
    columns = {"ts": pa.array(range(len(rows)), pa.int64())}
    for i, (name, kind) in enumerate(entries[0]["arguments"].items()):
        columns[name] = pa.array([row[i] for row in rows], arrow_of(kind))
    result = keuka.match(query(entries), {"S": keuka.Stream(pa.table(columns), time="ts")}, language="cel")
    for i, entry in enumerate(entries):
        assert result.schema.field(f"r{i}").type == arrow_of(entry["result"])
        for row, value in zip(entry["rows"], result[f"r{i}"].to_pylist(), strict=True):
            assert agrees(value, row[-1]), f"{entry['expression']} on {row[:-1]}: {value!r}, Spark: {row[-1]!r}"


def test_the_table_reaches_the_corners():
    values = [value for entry in GOLDEN for row in entry["rows"] for value in row]
    assert len(GOLDEN) > 140
    assert any(isinstance(v, float) and math.isnan(v) for v in values)
    assert None in values
    assert 2**63 - 1 in values
