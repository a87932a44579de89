"""What kind of value each field of a pipeline's parts takes, written in a file or in Python, and the value it becomes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from keuka.errors import DataError
from keuka.events.declarations import ON_BAD_ROW
from keuka.events.text_values import Csv
from keuka.run.limits import memory_bytes

# What a field holds, in words, and the value it becomes; a ValueError if it is of another kind.
Kind = tuple[str, Callable[[Any], Any]]


def _only(fits: Callable[[Any], bool], becomes: Callable[[Any], Any] = lambda value: value) -> Callable[[Any], Any]:
    """Takes the values that fit, and refuses others."""

    def convert(value: Any) -> Any:
        if not fits(value):
            raise ValueError
        return becomes(value)

    return convert


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _a_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _a_path(value: Any) -> str:
    return _a_text(os.fspath(value) if isinstance(value, os.PathLike) else value)


def _paths(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple([_a_path(one) for one in values])


def _time(value: Any) -> str | tuple[str, str]:
    if isinstance(value, list | tuple) and len(value) == 2:
        return _a_text(value[0]), _a_text(value[1])
    return _a_text(value)


def _lateness(value: Any) -> str | int:
    return value if _is_whole(value) else _a_text(value)


def _memory(value: Any) -> str | int:
    try:
        memory_bytes(value)
    except DataError:
        raise ValueError from None
    return str(value) if isinstance(value, str) else int(value)


def _options(value: Any) -> dict[str, str]:
    """Spark takes every option as text. A name with dots but without quotes is a table in a table to TOML."""
    if not isinstance(value, Mapping):
        raise ValueError
    options: dict[str, str] = {}
    for name, one in value.items():
        if isinstance(one, Mapping):
            options |= {f"{name}.{inner}": text for inner, text in _options(one).items()}
        elif isinstance(one, str | int | float):
            options[name] = str(one).lower() if isinstance(one, bool) else str(one)
        else:
            raise ValueError
    return options


def _csv(value: Any) -> Any:
    """A Csv, or its fields. What they mean is checked with the pipeline: texts may hold variables."""
    if not isinstance(value, Csv | Mapping):
        raise ValueError
    return value if isinstance(value, Csv) else dict(value)


TEXT: Kind = ("text", _a_text)
PATH: Kind = ("text", _a_path)
PATHS: Kind = ("a text or a list of texts", _paths)
OPTIONS: Kind = ("a table of texts, numbers and booleans", _options)
COUNT: Kind = ("a whole number from 1 on", _only(lambda value: _is_whole(value) and value >= 1))

INPUT: dict[str, Kind] = {
    "format": TEXT,
    "path": PATH,
    "paths": PATHS,
    "schema": TEXT,
    "options": OPTIONS,
    "time": ("a column, or a list of two columns [start, end]", _time),
    "unit": TEXT,
    "lateness": ('a text such as "5 s", or a whole number of ticks', _lateness),
    "id": TEXT,
    "type_column": TEXT,
    "csv": ("a table of options such as `separator`", _csv),
    "on_bad_row": ('"error" or "reject"', _only(lambda value: value in ON_BAD_ROW, str)),
}
QUERIES: dict[str, Kind] = {
    "text": TEXT,
    "file": PATH,
    "files": PATHS,
    "language": TEXT,
    "params": ("a table of values by name", _only(lambda value: isinstance(value, Mapping), dict)),
}
SINK: dict[str, Kind] = {"format": TEXT, "of": TEXT, "path": PATH, "mode": TEXT, "options": OPTIONS}
SPARK: dict[str, Kind] = {"master": TEXT, "conf": OPTIONS, "shards": COUNT}
LIMITS: dict[str, Kind] = {
    "memory": ('an amount such as "4 GB", or a whole number of bytes', _memory),
    "seconds": ("a number above 0", _only(lambda n: (_is_whole(n) or isinstance(n, float)) and 0 < n < math.inf)),
    "matches": COUNT,
}
