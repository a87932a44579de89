"""From a pipeline file (TOML) to the values of `values.py`. Every unknown key and every value of a wrong kind is found in one go."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from keuka.diagnostics import Diagnostic, SourceText, Span, listing, similar
from keuka.errors import PipelineError
from keuka.pipelines.kinds import LIMITS
from keuka.pipelines.places import Place, finding
from keuka.pipelines.values import Input, Queries, RunSettings, Sink, SparkSettings
from keuka.run.limits import Limits

TABLES = ("streams", "queries", "sinks", "run", "spark", "limits")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a Pipeline."""
    source = SourceText(str(path), _text(Path(path)))
    try:
        tables = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(_syntax(source, error)) from None
    except RecursionError:
        raise PipelineError(Diagnostic("K601", f"the tables of the pipeline file `{path}` are nested too deeply")) from None
    found: list[Diagnostic] = []
    fields = _Reader(source, found).fields(tables)
    if found:
        raise PipelineError(*found)
    return {**fields, "folder": str(Path(path).absolute().parent), "source": source}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = "it does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise PipelineError(Diagnostic("K601", f"the pipeline file `{path}` cannot be read: {why}")) from error
    except UnicodeDecodeError as error:
        raise PipelineError(Diagnostic("K601", f"the pipeline file `{path}` is not UTF-8 text", help=(str(error),))) from error


def _syntax(source: SourceText, error: tomllib.TOMLDecodeError) -> Diagnostic:
    """tomllib says the place in words, at the end of its message."""
    message = re.sub(r" \(at .*\)$", "", str(error))
    found = re.search(r"at line (\d+), column (\d+)", str(error))
    lines = source.text.splitlines(keepends=True)
    offset = sum(map(len, lines[: int(found[1]) - 1])) + int(found[2]) - 1 if found else len(source.text.rstrip())
    offset = min(offset, max(0, len(source.text) - 1))
    span = Span(source, offset, offset + 1) if source.text else None
    return Diagnostic("K601", f"the pipeline file is not TOML: {message[:1].lower()}{message[1:]}", span)


class _Reader:
    """Takes tables apart and notes what is wrong in them."""

    def __init__(self, source: SourceText, found: list[Diagnostic]) -> None:
        self.source = source
        self.found = found

    def note(self, code: str, message: str, place: Place, *help: str) -> None:
        self.found.append(finding(self.source, code, message, place, *help))

    def fields(self, tables: dict[str, Any]) -> dict[str, Any]:
        for name in tables:
            if name not in TABLES:
                self.note("K602", f"`{name}` is no table of a pipeline", (name,), *similar(name, TABLES), f"there are {listing(TABLES)}")
        streams = tables.get("streams", {})
        if not isinstance(streams, Mapping) or not all(isinstance(one, Mapping) for one in streams.values()):
            self.note("K603", "`streams` must hold a table for each stream", ("streams",), "write `[streams.NAME]`")
            streams = {}
        return {
            "streams": {name: self.part(Input, table, ("streams", name)) for name, table in streams.items()},
            "queries": tuple([self.part(Queries, table, place) for place, table in self.array(tables, "queries")]),
            "sinks": tuple([self.part(Sink, table, place) for place, table in self.array(tables, "sinks")]),
            "run_settings": self.part(RunSettings, tables.get("run", {}), ("run",)),
            "spark": self.part(SparkSettings, tables.get("spark", {}), ("spark",)),
            "limits": Limits(**self.values(tables.get("limits", {}), LIMITS, ("limits",))),
        }

    def array(self, tables: dict[str, Any], name: str) -> list[tuple[Place, Any]]:
        array = tables.get(name, [])
        if not isinstance(array, list) or not all(isinstance(table, Mapping) for table in array):
            self.note("K603", f"`{name}` must be an array of tables", (name,), f"write `[[{name}]]` with two brackets, once for each")
            return []
        return [((name, i), table) for i, table in enumerate(array)]

    def part(self, made: type[Input | Queries | Sink | RunSettings | SparkSettings], table: Any, place: Place) -> Any:
        return made(**self.values(table, {field.name: field.metadata for field in fields(made)}, place))

    def values(self, table: Any, kinds: Mapping[str, Mapping[str, Any]], place: Place) -> dict[str, Any]:
        if not isinstance(table, Mapping):
            self.note("K603", f"`{place[-1]}` must be a table", place, f"write `[{place[-1]}]`")
            return {}
        values: dict[str, Any] = {"format": ""} if "format" in kinds else {}
        if "format" in kinds and "format" not in table and set(table) <= set(kinds):  # else it may be there, misspelt
            self.note("K603", "the format is missing", place, 'add it, for example `format = "parquet"`')
        for key, value in table.items():
            if key not in kinds:
                self.note("K602", f"there is no key `{key}` here", (*place, key), *similar(key, kinds), f"the keys are {listing(kinds)}")
                continue
            try:
                values[key] = kinds[key]["convert"](value)
            except ValueError:
                self.note("K603", f"`{key}` must be {kinds[key]['what']}", (*place, key))
        return values
