"""Values given for the parameters `:name` of a query, as literals. A timedelta stays one until the stream's tick is known.

A list is a tuple of literals, each of them once and in an order of their own: ids of matches must not depend on the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from keuka.diagnostics import SURROGATE, Diagnostic, listing, similar
from keuka.expressions import Literal
from keuka.languages.coercion import as_decimal, days, microseconds
from keuka.languages.values import Parameter
from keuka.schema import MAX_TICK, Type

Given = Literal | timedelta | tuple[Literal, ...]


def read_parameters(used: Sequence[Parameter], given: Mapping[str, object], findings: list[Diagnostic]) -> dict[str, Given]:
    """The values of the parameters a query uses; missing, superfluous and unsuitable ones are noted in `findings`."""
    if not isinstance(given, Mapping):
        raise TypeError(f"params must be a dict from name to value, not {type(given).__name__}")
    first_uses = {p.name: p for p in reversed(used)}
    values: dict[str, Given] = {}
    for name in dict.fromkeys([p.name for p in used]):
        span = first_uses[name].span
        if name not in given:
            help = (*similar(name, set(given) - set(first_uses)), f'give it one: `params={{"{name}": ...}}`')
            findings.append(Diagnostic("K207", f"the parameter `:{name}` has no value", span, help=help))
            continue
        several = elements(given[name])
        value = _literal(given[name]) if several is None else _literals(several)
        if isinstance(value, str):
            findings.append(Diagnostic("K207", f"the parameter `:{name}` {value}", span, help=(_KINDS,)))
        else:
            values[name] = value
    findings += superfluous(given, tuple(first_uses))
    return values


def superfluous(given: Iterable[str], known: Sequence[str]) -> list[Diagnostic]:
    """Values for parameters that no query has."""
    remedy = f"its parameters: {listing(known)}" if known else "it has none"
    unknown = [name for name in given if name not in known]
    return [Diagnostic("K207", f"the query has no parameter `:{name}`", help=(*similar(name, known), remedy)) for name in unknown]


_KINDS = "a parameter is a bool, int, float, Decimal, str, datetime, date, timedelta or None; or a list without durations for `IN :name`"


def elements(value: object) -> list[object] | None:
    """The values of a list, tuple or set, of an Arrow array, or of a one-dimensional array of numpy or pandas; None of a single value."""
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return list(value.to_pylist())
    return list(value) if getattr(value, "ndim", None) == 1 and isinstance(value, Iterable) else None


def _literals(values: Sequence[object]) -> tuple[Literal, ...] | str:
    literals = [_literal(value) for value in values]
    for value, literal in zip(values, literals, strict=True):
        if not isinstance(literal, Literal):
            return f"is a list with {value!r} in it, which {'is a duration' if isinstance(literal, timedelta) else literal}"
    distinct = {(literal.type.value, repr(literal.value)): literal for literal in literals if isinstance(literal, Literal)}
    return tuple([distinct[key] for key in sorted(distinct)])


def _literal(value: object) -> Literal | timedelta | str:
    """The literal a Python value becomes, or what is wrong with the value."""
    value = _plain(value)
    if value is None or (isinstance(value, datetime) and value != value):  # pandas' NaT is a datetime unequal to itself
        return Literal(None, Type.NULL)
    if isinstance(value, bool):
        return Literal(value, Type.BOOLEAN)
    if isinstance(value, int):
        return Literal(value, Type.INTEGER) if -MAX_TICK - 1 <= value <= MAX_TICK else "does not fit into 64 bits"
    if isinstance(value, float):
        return Literal(value, Type.DOUBLE)
    if isinstance(value, str):
        return "holds half a character (a lone surrogate), which no text can" if SURROGATE.search(value) else Literal(value, Type.STRING)
    if isinstance(value, datetime):
        return Literal(microseconds(value), Type.TIMESTAMP, written=value if value.tzinfo is None else None)
    if isinstance(value, date):
        return Literal(days(value), Type.DATE)
    if isinstance(value, Decimal):
        number = as_decimal(value)
        return "is a decimal of more than 18 digits" if number is None else Literal(number, Type.DECIMAL)
    if isinstance(value, timedelta):
        return value
    return f"has a value of the type `{type(value).__name__}`, which no query type fits"


def _plain(value: object) -> object:
    """A numpy scalar as the Python value it stands for; times in nanoseconds would become bare integers, so in microseconds."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("M", "m") and hasattr(value, "astype"):
        value = value.astype(f"{'datetime' if kind == 'M' else 'timedelta'}64[us]")
    if kind and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value
