"""What kind of value each field of a pipeline's parts takes, written in a file or in Python, and the value it becomes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from keuka.errors import DataError
from keuka.events import declarations
from keuka.events.text_values import Csv
from keuka.run.limits import memory_bytes


class Kind(TypedDict):
    """What a field holds, in words, and the value it becomes; a ValueError if it is of another kind."""

    what: str
    convert: Callable[[Any], Any]


def _only(fits: Callable[[Any], bool], becomes: Callable[[Any], Any] = lambda value: value) -> Callable[[Any], Any]:
    """Takes the values that fit, and refuses others."""

    def convert(value: Any) -> Any:
        if not fits(value):
            raise ValueError
        return becomes(value)

    return convert


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and 0 < value < math.inf


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


def _duration(value: Any) -> str | int | float:
    """Texts are checked with the pipeline: they may hold variables."""
    return value if _is_duration(value) else _a_text(value)


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


TEXT = Kind(what="text", convert=_a_text)
PATH = Kind(what="text", convert=_a_path)
PATHS = Kind(what="a text or a list of texts", convert=_paths)
OPTIONS = Kind(what="a table of texts, numbers and booleans", convert=_options)
COUNT = Kind(what="a whole number from 1 on", convert=_only(lambda value: _is_whole(value) and value >= 1))
TIME = Kind(what="a column, or a list of two columns [start, end]", convert=_time)
LATENESS = Kind(what='a text such as "5 s", or a whole number of ticks', convert=_lateness)
DURATION = Kind(what='a text such as "10 s", or a number of seconds', convert=_duration)
CSV = Kind(what="a table of options such as `separator`", convert=_csv)
ON_BAD_ROW = Kind(what='"error" or "reject"', convert=_only(lambda value: value in declarations.ON_BAD_ROW, str))
PARAMS = Kind(what="a table of values by name", convert=_only(lambda value: isinstance(value, Mapping), dict))
LIMITS = {
    "memory": Kind(what='an amount such as "4 GB", or a whole number of bytes', convert=_memory),
    "seconds": Kind(what="a number above 0", convert=_only(_is_duration)),
    "matches": COUNT,
}
