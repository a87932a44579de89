"""What lowering carries along: an operator with the origin of its names, and what is known of the program around it."""

from __future__ import annotations

from dataclasses import dataclass

from keuka.algebra.operators import Operator
from keuka.languages import language
from keuka.languages.cel import syntax
from keuka.languages.cel.naming import Chain
from keuka.schema import Schema, TimeAxis


@dataclass(frozen=True)
class Lowered:
    """An operator, how its attributes came by their names, and the clock its events run by."""

    operator: Operator
    chain: Chain
    axis: TimeAxis

    @property
    def schema(self) -> Schema:
        return self.operator.schema


Context = language.Context[syntax.Query, Lowered]
