"""What lowering carries along: streams, components whose types are known, and what is known of the program around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from keuka.algebra.operators import Operator
from keuka.diagnostics import Diagnostic, Span
from keuka.expressions import Column
from keuka.languages.parameters import Given
from keuka.languages.published import Publications
from keuka.languages.sase import syntax
from keuka.languages.sase.hints import NO_DUR
from keuka.languages.typing import Scope
from keuka.languages.values import Reference
from keuka.schema import Attribute, Schema, StreamType, TimeAxis


@dataclass(frozen=True)
class Lowered:
    """An operator and the clock its events run by."""

    operator: Operator
    axis: TimeAxis


@dataclass(frozen=True)
class Part:
    """A component and the stream of its events.

    `types` are the schemas of its types in the order of the text. Where not all of them have the same attributes, the operator's schema
    ends with one more that says which type an event has.
    """

    index: int  # among all components, from 0
    component: syntax.Component
    operator: Operator
    axis: TimeAxis
    types: tuple[Schema, ...]

    @property
    def label(self) -> str:
        """What the names of its columns begin with."""
        return self.component.name.text if self.component.name is not None else f"x{self.index + 1}"

    @property
    def variable(self) -> str:
        """How a query refers to it."""
        return self.label if self.component.name is not None else f"$x{self.index + 1}"

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Those a query can use."""
        own = self.operator.schema.attributes
        return own[:-1] if self.is_marked else own

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([attribute.name for attribute in self.attributes])

    @property
    def is_marked(self) -> bool:
        return any(set(schema.names) != set(self.types[0].names) for schema in self.types)

    def having(self, attribute: str) -> tuple[int, ...]:
        """The positions of its types that have the attribute."""
        return tuple([i for i, schema in enumerate(self.types) if schema.index(attribute) is not None])


@dataclass(frozen=True)
class Context:
    streams: Mapping[str, StreamType]
    parameters: Mapping[str, Given]
    published: Publications[syntax.Query]
    outputs: dict[int, Lowered]  # the outputs lowered so far, by the identity of their query
    findings: list[Diagnostic]

    def scope(self, column: Callable[[Reference], Column], axis: TimeAxis) -> Scope:
        return Scope(column, self.parameters, axis.tick_us, NO_DUR, self.findings)

    def note(self, code: str, message: str, span: Span, label: str = "", *help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, label, help))
