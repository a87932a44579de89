"""What a plan asks of every operator that the kernel runs, and the plan itself, as `compile.py` and all others get it.

The algebra says what a stream means; a PlanOperator computes it. `plan/planner.py` chooses one for each stream and is the only place that
knows which there are; a trace follows automata alone. A new one is a module here with a class that answers all of this, and one in
`kernel/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from keuka.algebra.operators import Operator, Source
from keuka.automaton.keys import Flow, StateKeys
from keuka.automaton.model import Step
from keuka.automaton.writer import Writer
from keuka.schema import Schema, Type, shown_name

Ordinals = tuple[tuple[int, ...], ...]
Outputs = tuple[tuple[str, str, bytes], ...]  # (published name, stage, fingerprint of the meaning)


@dataclass(frozen=True)
class Description:
    """An operator for people: as plain values, and as lines of text."""

    facts: dict[str, Any]
    lines: list[str]


def quote_label(text: str) -> str:
    """A text as Graphviz wants it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class ShowTicks(Protocol):
    """A number of ticks as people write it, with its unit."""

    def __call__(self, n_ticks: int, unit: bool = False) -> str: ...


class PlanOperator(Protocol):
    """Which plan is made of a query changes its cost, never its result: every answer may only leave out what cannot matter."""

    kind: ClassVar[str]  # under which descriptions of plans list it

    @property
    def ports(self) -> tuple[str, ...]:
        """The streams it reads."""

    @property
    def schema(self) -> Schema: ...

    @property
    def by_history(self) -> bool:
        """Does it choose by history among simultaneous events?"""

    def for_columns(self, wanted: tuple[int, ...]) -> Self:
        """The same with these columns of its output alone, and with all that follows for what it must read and keep.

        The planner does it once, when it knows what all readers want; `reads` and everything below can be asked after that.
        """

    @property
    def reads(self) -> Mapping[str, set[int]]:
        """The columns it reads of every stream."""

    def pass_key(self, flows: Mapping[str, Flow]) -> tuple[Flow, tuple[StateKeys, ...]]:
        """By which keys its events may be divided: the flow of its output, and, by state, where the keys are compared."""

    def reach(self, can_fail: bool) -> int | None:
        """How many ticks before the end of a result, or of an error, the events that it depends on can end; None if there is no bound."""

    def can_mistake_absence(self, makes_streams: bool) -> bool:
        """Can it take something for absent that is not in one stretch of time? `makes_streams`: are there others that it could read?"""

    def places(self) -> Iterator[tuple[str, tuple[Step, ...]]]:
        """Where it reads streams: the stream, and the steps that an event must pass there to matter. Terms are over the event (FIRST)."""

    def write(self, writer: Writer, ordinals: Ordinals) -> None:
        """Adds its programs and rows. `ordinals`: by state, where the components of the plan's key stand among its hash keys."""

    def describe(self, name: str, show_ticks: ShowTicks) -> Description: ...

    def draw(self, prefix: str) -> list[str]:
        """Its nodes and edges for Graphviz, named with the prefix; `start` and `output` are there already."""


@dataclass(frozen=True)
class Partition:
    """Rows that differ in their keys are never part of one match, and none of them ends what the other began.

    columns: for each source the columns of its key, one a component; a component has one type in all sources. Rows of a source that
        is not named meet no others, and go anywhere. Without any component this is true of all sources.
    types: of the components.
    ordinals: for each stage, for each of its states, where the components stand among the state's hash keys (`Conditions.keys`
        in model.py). A sequence has one key, and then there is one component.

    Null equals nothing: a row with a null in its key meets no other and goes anywhere, but must go somewhere. Keys are equal where `=`
    says so: whoever hashes doubles must take -0.0 for 0.0, and every NaN for the same. Where matches have ids, equal rows must stay
    together, because ids count them.
    """

    columns: Mapping[str, tuple[str, ...]]
    types: tuple[Type, ...]
    ordinals: Mapping[str, Ordinals]

    def __str__(self) -> str:
        """`Name`, or `Stock.Name = News.Symbol` where streams call it differently."""
        shown = []
        for names in zip(*self.columns.values(), strict=True):
            names = tuple([shown_name(name) for name in names])
            each = [f"{stream}.{name}" for stream, name in zip(self.columns, names, strict=True)]
            shown.append(names[0] if len(set(names)) == 1 else " = ".join(each))
        return ", ".join(shown)


@dataclass(frozen=True)
class Stage:
    """One stream of the plan: what it means, the operator that computes it, and the rules that changed it."""

    name: str
    operator: Operator
    physical: PlanOperator
    trace: tuple[tuple[str, Operator], ...]


@dataclass(frozen=True)
class Plan:
    sources: tuple[Source, ...]
    stages: tuple[Stage, ...]  # in the order they run
    outputs: Outputs
    wanted: Mapping[str, tuple[int, ...]]  # of every source and stage: the columns that anything reads, all of them for results
    contributors: bool
    partition: Partition | None  # by which its sources may be divided

    @property
    def by_history(self) -> bool:
        return any(stage.physical.by_history for stage in self.stages)
