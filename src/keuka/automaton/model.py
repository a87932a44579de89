"""An event automaton in the form that can be drawn (the algebra paper, section 3.2).

It comes from a linear-plus expression (`build.py`) and becomes programs over flat tables (`code.py`). A state waits for
candidates of one port. Its filter edge is taken unless a candidate satisfies `skip`; a rebind edge exists for FOLD; the
forward edge leads on through `steps`. Predicates of an edge apply to the tuple made so far (side 0).
"""

from __future__ import annotations

from dataclasses import dataclass

from keuka.expressions import Expression
from keuka.schema import MAX_TICK, Schema

OUTPUT = -1


@dataclass(frozen=True)
class Keep:
    """Go on only if the predicate holds of the tuple."""

    predicate: Expression


@dataclass(frozen=True)
class Bind:
    """Replace the tuple by these expressions over it."""

    items: tuple[Expression, ...]


Step = Keep | Bind


@dataclass(frozen=True)
class Edge:
    """A forward edge: what happens to a tuple on its way to a state or to the output."""

    steps: tuple[Step, ...]
    target: int  # index of a state, or OUTPUT


@dataclass(frozen=True)
class Start:
    """Every event of the port enters the automaton along the edge."""

    port: int
    edge: Edge
    tag: int  # which occurrence of a source in the query this is, for contributors


@dataclass(frozen=True)
class Conditions:
    """The terms of a state's `skip`, by how they are tested."""

    static: tuple[Expression, ...]  # on the candidate alone
    keys: tuple[tuple[Expression, Expression], ...]  # equal: (over the candidate, over the instance)
    residual: tuple[Expression, ...]


@dataclass(frozen=True)
class State:
    """Instances waiting for their next candidate. `update` is None for NEXT; for FOLD it rebinds the current values."""

    port: int
    candidate: tuple[Step, ...]  # from the port's event to the candidate
    first: Schema  # what an instance binds (for FOLD: twice, as it was and as it is now)
    second: Schema
    skip: Expression
    conditions: Conditions  # of `skip`
    take: Expression  # FOLD's step
    update: tuple[Expression, ...] | None
    edge: Edge
    tag: int
    by_history: bool = False  # of simultaneous candidates, are only those with the earliest history the next?
    window: int = MAX_TICK  # a candidate that makes DUR larger leads to no result


@dataclass(frozen=True)
class Automaton:
    """States are numbered so that an edge leads to a smaller number; ports name the streams that are read."""

    ports: tuple[str, ...]
    primitive: tuple[bool, ...]  # by port: are its events primitive ones, or parts of a query that was cut?
    starts: tuple[Start, ...]
    states: tuple[State, ...]
    schema: Schema
    indices: bool  # are instances found by hash keys?


def state_name(automaton: Automaton, index: int) -> str:
    """States are lettered along the way of an event; the tables number them from the output."""
    if index == OUTPUT:
        return "output"
    position = len(automaton.states) - 1 - index
    return chr(ord("A") + position) if position < 26 else f"S{position}"
