"""What lowering carries along: streams, components whose types are known, and what is known of the program around them."""

from __future__ import annotations

from dataclasses import dataclass

from keuka.algebra.operators import Operator
from keuka.languages import language
from keuka.languages.sase import syntax
from keuka.schema import Attribute, Schema, TimeAxis


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


Context = language.Context[syntax.Query, Lowered]
