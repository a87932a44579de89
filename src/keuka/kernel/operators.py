"""The kinds of operators: the one place that lists them.

A kind is a module, or several, with two halves. The forest's half is a class as `Kind` describes it: what is loaded of all queries. The
machine's half is compiled, an `Operators` (machine.pxd): what runs, and what is held. A new kind needs one line in KINDS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from keuka.kernel.arena import Unit
from keuka.kernel.combinations import Combinations
from keuka.kernel.held import Store
from keuka.kernel.states import States

if TYPE_CHECKING:
    from keuka.kernel.forest import Forest
    from keuka.kernel.loading import Loading


class Kind(Protocol):
    """The operators of one kind in a forest."""

    @property
    def part(self) -> str:
        """The first word of the keys of its parts: what queries hold, and `Machine.usage` is asked of."""

    @property
    def operators(self) -> Any:
        """The class of the machine's half."""

    def __init__(self, forest: Forest, kind: int) -> None:
        """`kind`: its place in KINDS."""

    def load(self, loading: Loading, which: int, ports: tuple[int, ...], result: int) -> None:
        """Load an operator of a query's tables, if it is of this kind. `loading.hold` takes its parts, and how they are dropped."""

    def units(self) -> list[Unit]:
        """What runs, in any order."""

    def rows(self) -> Any:
        """The arrays of all operators, for `Operators.place`: asked after every change of the forest, and then not changed any more."""

    def compact(self) -> None:
        """Write arrays anew without what dropped parts left behind. Numbers of parts stay."""

    def stores(self) -> list[Store]:
        """What machines hold, by part, in an order that does not depend on when they were loaded."""


KINDS: tuple[type[Kind], ...] = (States, Combinations)
