"""Variables of the environment in the texts of a pipeline: `${NAME}`, or `${NAME:-what stands there otherwise}`.

A pipeline keeps its texts as they were written. Values are filled in when it is checked or run, and taken out again of every message.
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from keuka.diagnostics import HIDDEN, SECRET_NAME, Diagnostic, SourceText, Span, hide_credentials
from keuka.errors import KeukaError, unexpected
from keuka.events import ddl
from keuka.pipelines.places import Place, finding

if TYPE_CHECKING:
    from keuka.pipelines.pipeline import Pipeline

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
PLACEHOLDER = r"\$\{\w+(?::-[^}]*)?\}"
SHORT = 4  # characters; a shorter value is hidden where data is quoted, elsewhere only as a word: its letters are everywhere
QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|says: .*")  # parts of a message that are not ours
PATHS = ("path", "paths", "file", "files", "checkpoint")
# A literal in a pipeline file whose key says that it is a secret.
LITERAL = re.compile(rf"(?i)({SECRET_NAME}[\w.\"']*\s*=\s*)(?!.{PLACEHOLDER}[\"'])(\"[^\"\n]*\"|'[^'\n]*')")


@dataclass(frozen=True)
class Secrets:
    """Values that came from the environment, with the names that stand for them, and the texts that they are part of."""

    names: dict[str, str] = field(default_factory=dict)  # value -> name of its variable
    written: dict[str, str] = field(default_factory=dict)  # text with values, as messages may show it -> as it is written
    pieces: dict[str, str] = field(default_factory=dict)  # names of columns in a value -> name of its variable

    def hidden(self, text: str) -> str:
        """The text with names in place of values."""
        text = _replace(text, [(re.escape(filled), written) for filled, written in self.written.items()])
        text = QUOTED.sub(lambda part: self._hide_data(part[0]), text)
        return hide_credentials(_replace(text, [*self._long(), *[(_as_word(value), shown) for value, shown in self._short()]]))

    def _hide_data(self, text: str) -> str:
        columns = [(_as_word(column), _shown(name)) for column, name in self.pieces.items()]
        return _replace(text, [*self._long(), *[(f"(?i:{re.escape(value)})", shown) for value, shown in self._short()], *columns])

    def _long(self) -> list[tuple[str, str]]:
        # Spark and Keuka change the case of some texts.
        return [(f"(?i:{re.escape(value)})", _shown(name)) for value, name in self._spellings().items() if len(value) >= SHORT]

    def _short(self) -> list[tuple[str, str]]:
        return [(value, _shown(name)) for value, name in self._spellings().items() if len(value) < SHORT]

    def _spellings(self) -> dict[str, str]:
        """The values as they are and as URLs, JSON and Python write them; of several lines each, because messages show one."""
        found: dict[str, str] = {}
        for value, name in self.names.items():
            lines = [line for line in value.splitlines() if len(line.strip()) >= SHORT]
            escaped = [json.dumps(value)[1:-1], repr(value)[1:-1], value.encode(errors="backslashreplace").decode()]
            for spelling in (value, quote(value, errors="replace"), *escaped, *lines):
                found.setdefault(spelling, name)
        return found

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """What goes wrong inside, or is logged there, is said without the values, also by the exceptions behind an error."""
        log = logging.getLogger("keuka")
        log.addFilter(self._hide_record)
        try:
            with self._reworded():
                yield
        except KeukaError as error:
            # In place: a new error would have this one as its context.
            if any(self.hidden(str(other)) != str(other) for other in _behind(error)):
                error.__cause__ = error.__context__ = None
            error.diagnostics = tuple([self._without(diagnostic) for diagnostic in error.diagnostics])
            error.args = error.diagnostics
            raise
        finally:
            log.removeFilter(self._hide_record)

    @contextlib.contextmanager
    def _reworded(self) -> Iterator[None]:
        """An exception of others cannot be changed, so that of a bug takes its place if it shows a value."""
        try:
            yield
        except BaseException as error:
            if hasattr(error, "__notes__"):
                error.__notes__ = [self.hidden(note) for note in error.__notes__]
            shown = (error, *_behind(error))
            if not isinstance(error, Exception) or isinstance(error, KeukaError) or all(self.hidden(str(e)) == str(e) for e in shown):
                raise
            raise unexpected(f"{type(error).__name__}: {self.hidden(str(error))}") from None

    def _hide_record(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.hidden(record.getMessage()), ()
        return True

    def _without(self, diagnostic: Diagnostic) -> Diagnostic:
        span = diagnostic.span
        if span is not None:
            text = span.source.text
            # Only a text of the pipeline itself holds values; that of a file is as it was written.
            short = [(re.escape(value), shown) for value, shown in self._short()] if text in self.written else []
            before, inside = (len(self._hide_source(part, short)) for part in (text[: span.start], span.text))
            source = SourceText(self.hidden(span.source.name), self._hide_source(text, short))
            span = Span(source, before, before + inside)
        help = tuple([self.hidden(text) for text in diagnostic.help])
        return Diagnostic(diagnostic.code, self.hidden(diagnostic.message), span, self.hidden(diagnostic.label), help)

    def _hide_source(self, text: str, short: list[tuple[str, str]]) -> str:
        return hide_credentials(LITERAL.sub(rf'\1"{HIDDEN}"', _replace(text, [*self._long(), *short])))


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The exceptions that an exception keeps: its causes and contexts."""
    known = {id(error)}
    waiting = [error.__cause__, error.__context__]
    while waiting:
        other = waiting.pop()
        if other is not None and id(other) not in known:
            known.add(id(other))
            waiting += [other.__cause__, other.__context__]
            yield other


def _shown(name: str) -> str:
    return f"${{{name}}}"


def _as_word(text: str) -> str:
    """Only where no letter or digit is beside it."""
    return rf"(?<![^\W_]){re.escape(text)}(?![^\W_])"


def _replace(text: str, patterns: list[tuple[str, str]]) -> str:
    """Puts what is to be shown in the place of each pattern, the longest first: one may be part of another. Variables stay."""
    ordered = sorted(patterns, key=lambda pattern: len(pattern[0]), reverse=True)
    whole = re.compile("|".join([PLACEHOLDER, *[f"({pattern})" for pattern, _ in ordered]]))
    return whole.sub(lambda found: found[0] if found.lastindex is None else ordered[found.lastindex - 1][1], text)


def filled_in(pipeline: Pipeline, found: list[Diagnostic]) -> tuple[Pipeline, Secrets]:
    """The pipeline with the values of variables in its texts; what is missing is noted in `found`."""
    secrets = Secrets()

    def fill(value: Any, place: Place) -> Any:
        if isinstance(value, str):
            filled = VARIABLE.sub(lambda variable: _value(variable, place), value)
            written = VARIABLE.sub(lambda variable: _shown(variable[1]) if variable[1] in os.environ else variable[2] or "", value)
            if filled != written:
                secrets.written.update(dict.fromkeys(_forms(filled, place, pipeline.folder), written))
            return filled
        if isinstance(value, tuple | list):
            inside = [fill(one, (*place, i) if is_dataclass(one) else place) for i, one in enumerate(value)]
            return type(value)(inside)
        if isinstance(value, Mapping):
            return {key: fill(one, (*place, key)) for key, one in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: fill(getattr(value, f.name), (*place, f.name)) for f in fields(value)})
        return value

    def _value(variable: re.Match[str], place: Place) -> str:
        name, default = variable[1], variable[2]
        value: str | None = os.environ.get(name, default)
        if value is None:
            message = f"`{place[-1]}` needs the environment variable `{name}`, which is not set"
            help = (f"set it before the run: `export {name}=...`", f"or say what stands there otherwise: `${{{name}:-...}}`")
            found.append(finding(pipeline.source, "K604", message, place, *help))
            return variable[0]
        if name in os.environ and value:
            secrets.names[value] = name
            if place[-1] == "schema":
                columns = [word for word in re.split(r"[\s,:()`]+", value) if word and word.upper() not in ddl.TYPES]
                secrets.pieces.update(dict.fromkeys(columns, name))
        return value

    parts = {name: fill(getattr(pipeline, name), (name,)) for name in ("streams", "queries", "sinks", "run_settings", "spark")}
    return replace(pipeline, **parts), secrets


def _forms(filled: str, place: Place, folder: str) -> list[str]:
    """A text with values as messages may show it: a path also from the root, resolved, from the working directory, and its files."""
    if not any(key in PATHS for key in place) or "\0" in filled:
        return [filled] if len(filled) >= SHORT else []
    local = os.path.join(folder or os.getcwd(), filled.removeprefix("file://"))
    paths = [filled, local, os.path.normpath(local), os.path.realpath(local), os.path.relpath(local)]
    found = glob.glob(local, recursive=True) if glob.has_magic(local) else []
    return [path for path in dict.fromkeys([*paths, *found, *map(os.path.normpath, found)]) if len(path) >= SHORT]
