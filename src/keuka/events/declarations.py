"""What a user declares about data, checked: the options of CSV (`csv=`), types (`schema=`), what becomes of bad rows (`on_bad_row=`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa

from keuka.diagnostics import listing, similar
from keuka.errors import DataError, data_error
from keuka.events import ddl
from keuka.events.text_values import DEFAULT, Csv, is_zone
from keuka.events.time_formats import parse_format

ON_BAD_ROW = ("error", "reject")
OPTIONS = tuple([field.name for field in fields(Csv)])
FORBIDDEN = ('"', "\n", "\r", "\0")  # have a meaning of their own in a CSV file


def csv_options(given: object, where: str) -> Csv:
    """The options, given as a Csv or as a dict with the names of its fields."""
    if given is None:
        return DEFAULT
    if not isinstance(given, Csv | Mapping):
        raise _wrong(f'`csv=` must be a keuka.Csv or a dict such as {{"separator": ";"}}, not {given!r}', where=where)
    values = given if isinstance(given, Mapping) else {name: getattr(given, name) for name in OPTIONS}
    for name in values:
        if name not in OPTIONS:
            raise _wrong(f"CSV has no option `{name}`", *similar(name, OPTIONS), f"there are {listing(OPTIONS)}", where=where)
    _check_separator(values.get("separator", ","), where)
    _check_time_format(values.get("time_format"), where)
    zone = values.get("zone", "UTC")
    if zone is not None and not (isinstance(zone, str) and is_zone(zone)):
        raise _wrong(f"{zone!r} is not a time zone", "name one as in `Europe/Paris` or `+05:45`", where=where)
    header = values.get("header", True)
    return Csv(**{**values, "header": header if isinstance(header, bool) else _texts("header", header, where), **_nulls(values, where)})


def _nulls(values: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    return {"nulls": _texts("nulls", values.get("nulls", ()), where)}


def _wrong(problem: str, *help: str, where: str) -> DataError:
    return data_error("K535", problem, *help, where=where)


def _check_separator(separator: object, where: str) -> None:
    if not isinstance(separator, str) or len(separator.encode(errors="replace")) != 1 or separator in FORBIDDEN:
        raise _wrong(f"the separator must be one ASCII character, not {separator!r}", where=where)


def _check_time_format(time_format: object, where: str) -> None:
    if time_format is None:
        return
    try:
        if not isinstance(time_format, str):
            raise ValueError("it must be a text")
        parse_format(time_format)
    except ValueError as error:
        example = "write it as in `%d/%m/%Y %H:%M`"
        raise _wrong(f"the time format {time_format!r} cannot be understood: {error}", example, where=where) from None


def _texts(name: str, given: object, where: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
        kind = "True, False or a list of names" if name == "header" else "a list of texts"
        raise _wrong(f"`{name}` must be {kind}, not {given!r}", where=where)
    twice = next((text for text in given if given.count(text) > 1), None)
    if name == "header" and twice is not None:
        raise _wrong(f"`header` names two columns `{twice}`", where=where)
    return tuple(given)


def declared_schema(given: object, where: str) -> pa.Schema | None:
    """The columns whose types are declared, as Spark writes them or as Arrow has them."""
    if given is None or isinstance(given, pa.Schema):
        return given
    if not isinstance(given, str):
        raise _wrong(f'`schema=` must be a text such as "at TIMESTAMP, code STRING" or a pyarrow schema, not {given!r}', where=where)
    try:
        return ddl.arrow_schema(given)
    except ValueError as error:
        raise _wrong(f"the schema cannot be read: {error}", "write `column TYPE, column TYPE`", where=where) from None


def rejects_rows(on_bad_row: object, where: str) -> bool:
    if on_bad_row not in (None, *ON_BAD_ROW):
        raise _wrong(f"`on_bad_row=` must be {listing(ON_BAD_ROW)}, not {on_bad_row!r}", *similar(on_bad_row, ON_BAD_ROW), where=where)
    return on_bad_row == "reject"
