"""Variables of the environment in the texts of a pipeline: `${NAME}`, or `${NAME:-what stands there otherwise}`.

A pipeline keeps its texts as they were written. Values are filled in when it is checked or run, and taken out again of every message.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from keuka.diagnostics import Diagnostic, SourceText, Span
from keuka.errors import KeukaError
from keuka.pipelines.places import Place, finding

if TYPE_CHECKING:
    from keuka.pipelines.pipeline import Pipeline

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
FEWEST_HIDDEN = 4  # characters; shorter values are no secrets, and their letters are everywhere


@dataclass(frozen=True)
class Secrets:
    """Values that came from the environment, with the names that stand for them."""

    names: dict[str, str]

    def hidden(self, text: str) -> str:
        """The text with names in place of values, the longest first: one may be part of another."""
        for value in sorted(self.names, key=len, reverse=True):
            text = text.replace(value, f"${{{self.names[value]}}}")
        return text

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """What goes wrong inside is said without the values."""
        try:
            yield
        except KeukaError as error:
            if self.hidden(str(error)) == str(error):
                raise
            raise type(error)(*[self._without(diagnostic) for diagnostic in error.diagnostics]) from None

    def _without(self, diagnostic: Diagnostic) -> Diagnostic:
        span = diagnostic.span
        if span is not None and self.hidden(span.source.text) != span.source.text:
            before = len(self.hidden(span.source.text[: span.start]))
            source = SourceText(span.source.name, self.hidden(span.source.text))
            span = Span(source, before, before + len(self.hidden(span.text)))
        help = tuple([self.hidden(text) for text in diagnostic.help])
        return Diagnostic(diagnostic.code, self.hidden(diagnostic.message), span, self.hidden(diagnostic.label), help)


def filled_in(pipeline: Pipeline, found: list[Diagnostic]) -> tuple[Pipeline, Secrets]:
    """The pipeline with the values of variables in its texts; what is missing is noted in `found`."""
    names: dict[str, str] = {}

    def fill(value: Any, place: Place) -> Any:
        if isinstance(value, str):
            return VARIABLE.sub(lambda variable: _value(variable, place), value)
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
        if name in os.environ and len(value) >= FEWEST_HIDDEN:
            names[value] = name
        return value

    parts = {name: fill(getattr(pipeline, name), (name,)) for name in ("streams", "queries", "sinks", "spark")}
    return replace(pipeline, **parts), Secrets(names)
