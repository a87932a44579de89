"""Streams to write CEL against, and short ways to lower a text, to print an operator and to ask what is wrong with a query."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Program, Published, Sequence, Source, inputs
from keuka.diagnostics import Diagnostic, SourceText
from keuka.errors import QueryError
from keuka.expressions import Expression, show
from keuka.languages.cel.lower import LANGUAGE
from keuka.languages.cel.syntax import Query, parse
from keuka.languages.parsing import File
from keuka.schema import MAX_TICK, StreamType, TimeAxis, schema_of

TIMESTAMPS = TimeAxis(1, pa.timestamp("us"))
SECONDS = TimeAxis(1_000_000, pa.int64())
TICKS = TimeAxis(None, pa.int64())


def stream(axis: TimeAxis = TIMESTAMPS, **columns: pa.DataType) -> StreamType:
    return StreamType(schema_of(pa.schema(list(columns.items()))), axis)


STOCK = stream(Name=pa.string(), Price=pa.float64(), Volume=pa.int64(), ts=pa.timestamp("us"))
STREAMS = {
    "Stock": STOCK,
    "Volumes": stream(Volume=pa.int64(), Name=pa.string(), ts=pa.timestamp("us"), Price=pa.float64()),  # Stock in another order
    "News": stream(Name=pa.string(), Title=pa.string(), Urgent=pa.bool_(), at=pa.timestamp("us", tz="Europe/Paris")),
    "Ticks": stream(TICKS, Name=pa.string(), Level=pa.int64(), t=pa.int64()),
    "Seconds": stream(SECONDS, Name=pa.string(), Level=pa.int64(), t=pa.int64(), seen=pa.timestamp("us")),
    "Odd": stream(Name=pa.string(), Tags=pa.list_(pa.string()), ts=pa.timestamp("us")),
    "SHELF-READING": stream(TagId=pa.int64(), ts=pa.timestamp("us")),
}


def parsed(text: str, name: str = "<query>") -> File[Query]:
    return parse(SourceText(name, text))


def program(*texts: str, params: dict[str, Any] | None = None, streams: dict[str, StreamType] | None = None) -> Program:
    return LANGUAGE.lower(tuple([parsed(text) for text in texts]), STREAMS if streams is None else streams, params or {})


def operator(text: str, **params: Any) -> Operator:
    """What the last query of the text means."""
    return program(text, params=params).outputs[-1][1]


def names(text: str) -> str:
    return " ".join(operator(text).schema.names)


def condition(text: str, stream: str = "Stock", **params: Any) -> Expression:
    """The predicate of a FILTER with this condition."""
    found = operator(f"FROM FILTER {{{text}}} ({stream})", **params)
    assert isinstance(found, Filter)
    return found.predicate


def value(text: str, stream: str = "Stock", **params: Any) -> Expression:
    """The expression of a SELECT with this column."""
    found = operator(f"SELECT {text} AS result FROM {stream}", **params)
    assert isinstance(found, Map)
    return found.items[0]


def mistakes(*texts: str, params: dict[str, Any] | None = None) -> tuple[Diagnostic, ...]:
    try:
        program(*texts, params=params)
    except QueryError as error:
        return error.diagnostics
    raise AssertionError(f"nothing is wrong with {texts}")


def mistake(*texts: str, **params: Any) -> Diagnostic:
    (only,) = mistakes(*texts, params=params)
    return only


def outline(operator: Operator, level: int = 0) -> str:
    """One operator a line, inputs indented below it."""
    lines = ["  " * level + _line(operator)]
    return "\n".join(lines + [outline(part, level + 1) for part in inputs(operator)])


def _line(operator: Operator) -> str:
    match operator:
        case Source():
            return operator.stream
        case Published():
            return f"published {operator.name}"
        case Filter():
            return f"filter {show(operator.predicate)}"
        case Map():
            pairs = zip(operator.schema.names, [show(item) for item in operator.items], strict=True)
            return "map " + ", ".join([item if item == name else f"{name} = {item}" for name, item in pairs])
        case Next():
            assert operator.skip == operator.take
            return f"next {show(operator.skip, sided=True)}"
        case Fold():
            update = ", ".join([show(item, sided=True) for item in operator.update])
            return f"fold {show(operator.skip, sided=True)}; {show(operator.step, sided=True)}; {update}"
        case Sequence():
            parts = ", ".join(["!" * component.negated + component.name for component in operator.components])
            window = "" if operator.within == MAX_TICK else f" within {operator.within}"
            return f"{'sequence' if operator.ordered else 'unordered'} {parts}{window}"
        case _:
            return "union"
