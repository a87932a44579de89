"""Streams to write SASE against, and short ways to lower a text, to evaluate it by the definitions and to ask what is wrong with it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from keuka.algebra.operators import Map, Operator, Program, Sequence
from keuka.algebra.semantics import Event, evaluate
from keuka.diagnostics import Diagnostic, SourceText
from keuka.errors import QueryError
from keuka.expressions import show
from keuka.languages.parsing import File
from keuka.languages.sase.lower import LANGUAGE
from keuka.languages.sase.syntax import Query, parse
from keuka.schema import StreamType

from .cel import SECONDS, TICKS, TIMESTAMPS, outline, stream

__all__ = ["SECONDS", "STREAMS", "TICKS", "TIMESTAMPS", "outline"]

READING = {"id": pa.int64(), "t": pa.int64()}
STREAMS = {
    "A": stream(TICKS, x=pa.int64(), t=pa.int64()),
    "B": stream(TICKS, x=pa.int64(), y=pa.int64(), t=pa.int64()),
    "C": stream(TICKS, x=pa.int64(), t=pa.int64()),
    "D": stream(TICKS, x=pa.float64(), name=pa.string(), t=pa.int64()),
    "SHELF-READING": stream(SECONDS, **READING, shelf_id=pa.int64()),
    "COUNTER-READING": stream(SECONDS, **READING),
    "EXIT-READING": stream(SECONDS, **READING),
    "MEDICINETAKEN": stream(SECONDS, name=pa.string(), medicine=pa.string(), amount=pa.int64(), t=pa.int64()),
    "Stock": stream(Name=pa.string(), Price=pa.float64(), ts=pa.timestamp("us")),
    "News": stream(Name=pa.int64(), Tags=pa.list_(pa.string()), ts=pa.timestamp("us")),
}


def parsed(text: str, name: str = "<query>") -> File[Query]:
    return parse(SourceText(name, text))


def program(*texts: str, params: dict[str, Any] | None = None, streams: dict[str, StreamType] | None = None) -> Program:
    return LANGUAGE.lower(tuple([parsed(text) for text in texts]), STREAMS if streams is None else streams, params or {})


def operator(text: str, **params: Any) -> Operator:
    """What the last query of the text means."""
    return program(text, params=params).outputs[-1][1]


def sequence(text: str, **params: Any) -> Sequence:
    found = operator(text, **params)
    assert isinstance(found, Map)
    assert isinstance(found.input, Sequence)
    return found.input


def names(text: str) -> str:
    return " ".join(operator(text).schema.names)


def where(text: str, **params: Any) -> list[list[str]]:
    """The alternatives of a query: for each its terms, and those of each negated component in turn."""
    found = sequence(text, **params).alternatives
    return [[_terms(part) for part in (alternative.terms, *alternative.absent)] for alternative in found]


def matches(text: str, **events: str) -> list[tuple[Any, ...]]:
    """What the last query finds, as its values and its end. Events are `tick:value,value`, separated by blanks; `-` is NULL."""
    found = operator(text)
    given = {name.replace("_", "-"): _events(name.replace("_", "-"), text) for name, text in events.items()}
    return [(*event.payload, event.end) for event in evaluate(found, {name: given.get(name, []) for name in STREAMS})]


def mistakes(*texts: str, params: dict[str, Any] | None = None) -> tuple[Diagnostic, ...]:
    try:
        program(*texts, params=params)
    except QueryError as error:
        return error.diagnostics
    raise AssertionError(f"nothing is wrong with {texts}")


def mistake(*texts: str, **params: Any) -> Diagnostic:
    (only,) = mistakes(*texts, params=params)
    return only


def _terms(terms: tuple[Any, ...]) -> str:
    return "; ".join([show(term) for term in terms])


def _events(stream: str, text: str) -> list[Event]:
    """The time is the attribute `t`, wherever it stands."""
    attributes = STREAMS[stream].schema.names
    events = []
    for row, piece in enumerate(text.split()):
        tick, _, values = piece.partition(":")
        given = [_value(value) for value in values.split(",") if value]
        payload = [given.pop(0) if name != "t" and given else None for name in attributes]
        payload[attributes.index("t")] = int(tick)
        events.append(Event(tuple(payload), int(tick), int(tick), ((stream, row),)))
    return events


def _value(text: str) -> Any:
    return None if text == "-" else int(text) if text.lstrip("-").isdigit() else text
