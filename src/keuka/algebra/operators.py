"""The event algebra as frozen values (docs/semantics.md, 3). Languages build these, the plan rewrites them, `semantics.py` defines them.

Every operator has an output schema and the piece of text it came from. Expressions use sides (see `expressions.py`);
after lowering, names matter only to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import is_

from keuka.diagnostics import Span
from keuka.expressions import Expression
from keuka.schema import Meaning, Schema


@dataclass(frozen=True)
class Source:
    """The events of an input stream, or of a stream that another rule publishes. A stream has one `meaning` at a time."""

    stream: str
    schema: Schema
    span: Span | None = field(default=None, compare=False, repr=False)
    meaning: Meaning | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Published:
    """The output of another query, read under the name it was published by. Its meaning is that of `input`.

    Names are unique within a program, so they alone count in comparisons: queries that read each other many times over would
    otherwise be compared as often as they could be expanded.
    """

    name: str
    input: Operator = field(compare=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    named: bool = True  # by a query; False for a part of a query that the plan cuts out: its events are no primitive ones

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Filter:
    """The events whose predicate is true."""

    input: Operator
    predicate: Expression
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Map:
    """Each event with its payload replaced: one expression per attribute of `schema`."""

    input: Operator
    items: tuple[Expression, ...]
    schema: Schema
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Union:
    """Bag union; all inputs have the same types in the same order, the names are those of `schema`."""

    inputs: tuple[Operator, ...]
    schema: Schema
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Next:
    """Each first event with the first events that follow it and satisfy `skip`, kept if they satisfy `take`.

    Payload: the first input's attributes, then the second's. `skip` and `take` use sides 0 and 1 and DUR. Of simultaneous events all
    are the first, unless `by_history` says that those with the earliest history are (docs/semantics.md, 3).
    """

    first: Operator
    second: Operator
    skip: Expression
    take: Expression
    schema: Schema
    span: Span | None = field(default=None, compare=False, repr=False)
    by_history: bool = False


@dataclass(frozen=True)
class Fold:
    """Runs of the second input that an event of the first starts.

    Payload: the first input's attributes as they were, then the same attributes after the latest step. `skip`, `step` and
    `update` use sides 0 (the starting event), 1 (the candidate), 2 (the values after the previous step) and DUR (in predicates).
    `update` has one expression per attribute of the first input. `by_history` as for Next.
    """

    first: Operator
    second: Operator
    skip: Expression
    step: Expression
    update: tuple[Expression, ...]
    schema: Schema
    span: Span | None = field(default=None, compare=False, repr=False)
    by_history: bool = False


@dataclass(frozen=True)
class Component:
    """One part of a Sequence: an event that must be there, or, `negated`, one that must not."""

    input: Operator
    name: str = field(compare=False)  # for people
    negated: bool = False


MOST_FEEDS = 64  # streams that the components of a sequence read, each as often as it is read
MOST_ALTERNATIVES = 64  # of a sequence: the kernel keeps them as the bits of a word


@dataclass(frozen=True)
class Alternative:
    """One way to satisfy a Sequence; its conditions are conjunctions over the sides that are components.

    `terms` are over the positive components. `absent` has, for each negated component in turn, what an event of it must satisfy to be
    one that is in the way; any does if nothing is said.
    """

    terms: tuple[Expression, ...] = ()
    absent: tuple[tuple[Expression, ...], ...] = ()


@dataclass(frozen=True)
class Sequence:
    """All combinations of one event of each positive component that satisfy an alternative (docs/semantics.md, 5).

    Side i of an expression is component i, negated ones counted. Payload: the attributes of the positive components one after the
    other. `within` is a number of ticks, MAX_TICK without a window. Not `ordered`: the events may occur in any order, no component is
    negated.
    """

    components: tuple[Component, ...]
    alternatives: tuple[Alternative, ...]
    within: int
    schema: Schema
    ordered: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)
    window: Span | None = field(default=None, compare=False, repr=False)  # where `within` is written

    @property
    def positive(self) -> tuple[int, ...]:
        """The numbers of the components that occur."""
        return tuple([i for i, component in enumerate(self.components) if not component.negated])

    @property
    def negated(self) -> tuple[int, ...]:
        return tuple([i for i, component in enumerate(self.components) if component.negated])


Operator = Source | Published | Filter | Map | Union | Next | Fold | Sequence


def inputs(operator: Operator) -> tuple[Operator, ...]:
    """The operators it reads, first input first."""
    if isinstance(operator, Source):
        return ()
    if isinstance(operator, Union):
        return operator.inputs
    if isinstance(operator, Next | Fold):
        return (operator.first, operator.second)
    if isinstance(operator, Sequence):
        return tuple([component.input for component in operator.components])
    return (operator.input,)


def with_inputs(operator: Operator, new: list[Operator]) -> Operator:
    """The operator over other inputs, in the order of `inputs`; leaves of a plan's expression stay as they are."""
    if isinstance(operator, Source | Published) or all(map(is_, inputs(operator), new)):
        return operator
    if isinstance(operator, Union):
        return replace(operator, inputs=tuple(new))
    if isinstance(operator, Next | Fold):
        return replace(operator, first=new[0], second=new[1])
    if isinstance(operator, Sequence):
        return replace(operator, components=tuple([replace(c, input=i) for c, i in zip(operator.components, new, strict=True)]))
    return replace(operator, input=new[0])


def expressions(operator: Operator) -> tuple[Expression, ...]:
    """All that it computes of its events; side i is input i, and side 2 of a Fold its first input again."""
    match operator:
        case Filter():
            return (operator.predicate,)
        case Map():
            return operator.items
        case Next():
            return (operator.skip, operator.take)
        case Fold():
            return (operator.skip, operator.step, *operator.update)
        case Sequence():
            return tuple([e for a in operator.alternatives for terms in (a.terms, *a.absent) for e in terms])
        case _:
            return ()


def map_expressions(operator: Operator, change: Callable[[Expression], Expression]) -> Operator:
    """The operator with every expression changed."""

    def each(parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple([change(part) for part in parts])

    match operator:
        case Filter():
            return replace(operator, predicate=change(operator.predicate))
        case Map():
            return replace(operator, items=each(operator.items))
        case Next():
            return replace(operator, skip=change(operator.skip), take=change(operator.take))
        case Fold():
            return replace(operator, skip=change(operator.skip), step=change(operator.step), update=each(operator.update))
        case Sequence():
            changed = [Alternative(each(a.terms), tuple([each(terms) for terms in a.absent])) for a in operator.alternatives]
            return replace(operator, alternatives=tuple(changed))
        case _:
            return operator


def boundaries(operator: Operator) -> tuple[Operator, ...]:
    """Its inputs, none for a leaf of a plan's expression."""
    return () if isinstance(operator, Source | Published) else inputs(operator)


def leaves(operator: Operator) -> list[Source | Published]:
    """The streams an expression of the plan reads, from left to right."""
    if isinstance(operator, Source | Published):
        return [operator]
    return [leaf for i in inputs(operator) for leaf in leaves(i)]


def walk(operator: Operator) -> Iterator[Operator]:
    """The operator and everything below it, each occurrence once, parents first."""
    stack = [operator]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(inputs(node)))


@dataclass(frozen=True)
class Program:
    """What a query text means: named output streams in the order of the text; an unnamed query has the name `''`."""

    outputs: tuple[tuple[str, Operator], ...]
