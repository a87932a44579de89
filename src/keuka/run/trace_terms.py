"""Conditions and values as a trace writes them: the text of the query, and beside it the same with values in place of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from keuka.algebra.values import ERROR, Value, evaluate
from keuka.events.clocks import show_duration, show_time
from keuka.expressions import FIRST, Call, Column, Duration, Expression, Literal, show
from keuka.run.interpreter import Term
from keuka.schema import TimeAxis, Type

LONGEST = 60  # characters of a condition or a value that are shown

_LOGICAL = ("and", "or", "not")
_PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge", "like", "in", "is_null")


def written(expression: Expression, beside: Sequence[Expression]) -> str:
    """The term as it stands in the query; by its meaning where it has no text of its own, as the two halves of a BETWEEN."""
    spans = [other.span for other in beside]
    if expression.span is None or spans.count(expression.span) > 1:
        return shortened(show(expression, sided=True))
    return shortened(" ".join(expression.span.text.split()))


def seen(term: Term, axis: TimeAxis) -> str:
    """The term with the values it saw: both sides of a comparison computed, and/or/not as they are."""

    def with_values(expression: Expression) -> Expression:
        if isinstance(expression, Call) and expression.op in _LOGICAL:
            return replace(expression, args=tuple([with_values(a) for a in expression.args]))
        if isinstance(expression, Call) and expression.op in _PREDICATES:
            in_time = any(isinstance(a, Duration) for a in expression.args)
            return replace(expression, args=tuple([as_name(a, in_time) for a in expression.args]))
        return as_name(expression, False)

    def as_name(expression: Expression, in_time: bool) -> Expression:
        value = evaluate(expression, term.sides, term.duration)
        if isinstance(expression, Duration):
            text = show_dur(value, axis)
        elif in_time and isinstance(expression, Literal) and isinstance(value, int):
            text = show_duration(value, axis)
        else:
            text = show_value(value, expression.type, axis)
        return Column(FIRST, 0, expression.type, text)

    return shortened(show(with_values(term.expression)))


def show_value(value: Value, type: Type, axis: TimeAxis) -> str:
    if value is None:
        return "NULL"
    if value is ERROR:
        return "overflow"
    if type is Type.TIMESTAMP:
        return show_time(value, axis if pa.types.is_timestamp(axis.arrow) else TimeAxis(1, pa.timestamp("us")))
    if type is Type.OTHER:
        return shortened(str(value))
    return shortened(show(Literal(value, type)))


def show_dur(n_ticks: int, axis: TimeAxis) -> str:
    """DUR counts the first and the last tick: for people it is the time between them, and one tick."""
    if axis.tick_us is None or n_ticks == 1:
        return show_duration(n_ticks, axis)
    return f"{show_duration(n_ticks - 1, axis)} + {show_duration(1, axis)}"


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
