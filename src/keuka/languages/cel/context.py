"""What lowering carries along: an operator with the origin of its names, and what is known of the program around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keuka.algebra.operators import Operator
from keuka.diagnostics import Diagnostic, Span
from keuka.languages.cel import syntax
from keuka.languages.cel.naming import Chain
from keuka.languages.cel.scopes import Lookup
from keuka.languages.parameters import Given
from keuka.languages.published import Publications
from keuka.languages.typing import Scope
from keuka.schema import Schema, StreamType, TimeAxis


@dataclass(frozen=True)
class Lowered:
    """An operator, how its attributes came by their names, and the clock its events run by."""

    operator: Operator
    chain: Chain
    axis: TimeAxis

    @property
    def schema(self) -> Schema:
        return self.operator.schema


@dataclass(frozen=True)
class Context:
    streams: Mapping[str, StreamType]
    parameters: Mapping[str, Given]
    published: Publications[syntax.Query]
    outputs: dict[int, Lowered]  # the outputs lowered so far, by the identity of their query
    findings: list[Diagnostic]

    def scope(self, column: Lookup, axis: TimeAxis, no_duration: str = "") -> Scope:
        return Scope(column, self.parameters, axis.tick_us, no_duration, self.findings)

    def note(self, code: str, message: str, span: Span, label: str = "", *help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, label, help))
