"""A sequence of all combinations in the form that explain shows: active instance stacks (the SASE paper, sections 3 and 4).

It comes from a Sequence, with a Map above it or not, and becomes tables (`stack_code.py`). Events are *scanned*: those that are
events of a component, by type and simple predicates, go onto the component's stack, which is divided by the value of one equivalence
test. The event that can complete matches *constructs* them: it goes back through the stacks, component by component, and tests every
comparison at the level where the last of its variables is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as List
from dataclasses import dataclass, replace
from itertools import chain

from keuka.algebra.operators import MOST_ALTERNATIVES, MOST_FEEDS, Filter, Map, Operator, Published, Sequence, Source, Union
from keuka.automaton.build import n_leaves, stream_name
from keuka.automaton.model import Bind, Keep, Step
from keuka.automaton.statistics import Statistics
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.expressions import FIRST, Call, Column, Expression, can_fail, sides, substitute
from keuka.schema import MAX_TICK, Schema, Type

EVERY = -1  # in place of an alternative: all of them


@dataclass(frozen=True)
class StackRules:
    """What makes stacks fast; switching one off changes the cost, never the result."""

    stacks: bool = True  # an event remembers where the stack before its own ended (RIP), and is dropped if that stack is empty
    partition: bool = True  # stacks are divided by the value of an equivalence test
    construction: bool = True  # comparisons and absences are tested as soon as their variables are bound
    scan: bool = True  # simple predicates are tested before an event goes onto a stack
    window: bool = True  # stacks are pruned, and searched no further than the window goes


ALL_RULES = StackRules()


@dataclass(frozen=True)
class Feed:
    """Where events of a component come from, and the steps that make them the component's."""

    port: int
    steps: tuple[Step, ...]
    tag: int  # which occurrence of a source in the query this is, for contributors


@dataclass(frozen=True)
class StackComponent:
    name: str
    negated: bool
    feeds: tuple[Feed, ...]
    schema: Schema
    scanned: tuple[Expression, ...]  # predicates on the event alone (FIRST)
    key: int | None  # the attribute by which the stack is divided
    as_double: bool = False  # the key is an integer that is compared with doubles, and so as one of them
    first_only: bool = False  # the earliest event says all that later ones of its key could


@dataclass(frozen=True)
class Test:
    """Terms that must hold, of one alternative or of EVERY one."""

    terms: tuple[Expression, ...]
    alternative: int


@dataclass(frozen=True)
class Absence:
    """No event of a negated component that satisfies the terms is in its scope.

    `bounds`: it asks for nothing else, so it only limits how far back the search of its level may go.
    """

    component: int
    terms: tuple[Expression, ...]
    alternative: int
    bounds: bool


@dataclass(frozen=True)
class Level:
    """A step of construction: the component whose event is bound, and what can be tested then."""

    component: int
    tests: tuple[Test, ...]
    absences: tuple[Absence, ...]


@dataclass(frozen=True)
class Stacks:
    """`searches`: the levels of construction from the event that completes a match on; one search, or, in any order, one a component."""

    ports: tuple[str, ...]
    primitive: tuple[bool, ...]
    components: tuple[StackComponent, ...]
    searches: tuple[tuple[Level, ...], ...]
    n_alternatives: int
    within: int
    ordered: bool
    items: tuple[Expression, ...]  # the payload of a match, over the components
    schema: Schema
    rules: StackRules
    negated_before: tuple[int | None, ...]  # by component: the negated one right before it

    @property
    def waits(self) -> bool:
        """Does a match wait for the end of its window, because nothing may follow?"""
        return self.components[-1].negated

    @property
    def key_type(self) -> Type | None:
        """One for all components that have the key."""
        return next((Type.DOUBLE if c.as_double else c.schema[c.key].type for c in self.components if c.key is not None), None)

    @property
    def positive(self) -> tuple[int, ...]:
        return tuple([i for i, component in enumerate(self.components) if not component.negated])


def is_feed(operator: Operator) -> bool:
    """Can it be read as a component: filters, projections and unions over streams?"""
    if isinstance(operator, Union):
        return all(is_feed(i) for i in operator.inputs)
    if isinstance(operator, Filter | Map):
        return is_feed(operator.input)
    return isinstance(operator, Source | Published)


def build_stacks(operator: Sequence | Map, rules: StackRules, statistics: Statistics) -> Stacks:
    """The stacks of a sequence. What is known of the columns decides which key divides them."""
    sequence = operator.input if isinstance(operator, Map) else operator
    assert isinstance(sequence, Sequence)
    assert len(sequence.alternatives) <= MOST_ALTERNATIVES, "languages refuse more"
    ports = _Ports()
    components = []
    tag = 0
    for c in sequence.components:
        components.append(StackComponent(c.name, c.negated, ports.feeds(c.input, tag), c.input.schema, (), None))
        tag += n_leaves(c.input)
    if sum([len(c.feeds) for c in components]) > MOST_FEEDS:
        raise _too_many(sequence, f"the sequence reads its streams more than {MOST_FEEDS} times", "use fewer components and types")
    conditions = _Conditions.of(sequence)
    if rules.partition:
        keys = _choose_key(sequence, conditions, lambda place: _most_distinct(components, ports.names, place, statistics))
        conditions = conditions.without(lambda term: _is_implied(term, keys))
        components = [c if i not in keys else replace(c, key=keys[i][0], as_double=keys[i][1]) for i, c in enumerate(components)]
    if rules.scan:
        scanned = {i: conditions.scanned(i, sequence) for i in range(len(components))}
        conditions = conditions.without(lambda term: any(term in terms for terms in scanned.values()))
        components = [replace(c, scanned=_on_the_event(scanned[i])) for i, c in enumerate(components)]
    searches = tuple([_search(sequence, order, conditions, rules) for order in _orders(sequence)])
    absences = [a for search in searches for level in search for a in level.absences]
    unbounded = sequence.within == MAX_TICK
    components = [
        replace(c, first_only=unbounded and c.negated and i == 0 and not any(a.terms for a in absences if a.component == i))
        for i, c in enumerate(components)
    ]
    places = [
        Column(i, k, attribute.type, f"{components[i].name}.{attribute.name}", arrow=attribute.arrow)
        for i in sequence.positive
        for k, attribute in enumerate(components[i].schema.attributes)
    ]
    items = tuple(places) if not isinstance(operator, Map) else tuple([substitute(e, lambda c: places[c.index]) for e in operator.items])
    before = tuple([i - 1 if i > 0 and components[i - 1].negated else None for i in range(len(components))])
    return Stacks(
        tuple(ports.names), tuple(ports.primitive), tuple(components), searches, len(sequence.alternatives), sequence.within,
        sequence.ordered, items, operator.schema, rules, before,
    )  # fmt: skip


def _too_many(sequence: Sequence, message: str, help: str) -> QueryError:
    return QueryError(Diagnostic("K401", message, sequence.span, help=(help,)))


class _Ports:
    """The streams that are read, numbered in the order of first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.primitive: list[bool] = []

    def feeds(self, operator: Operator, tag: int, steps: tuple[Step, ...] = ()) -> tuple[Feed, ...]:
        if isinstance(operator, Filter):
            return self.feeds(operator.input, tag, (Keep(operator.predicate), *steps))
        if isinstance(operator, Map):
            return self.feeds(operator.input, tag, (Bind(operator.items), *steps))
        if isinstance(operator, Union):
            found: tuple[Feed, ...] = ()
            for side in operator.inputs:
                found += self.feeds(side, tag, steps)
                tag += n_leaves(side)
            return found
        assert isinstance(operator, Source | Published), "the planner cuts at every other input"
        name = stream_name(operator)
        if name not in self.names:
            self.names.append(name)
            self.primitive.append(isinstance(operator, Source) or operator.named)
        return (Feed(self.names.index(name), steps, tag),)


# -- conditions --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Conditions:
    """Terms by alternative, those of every alternative apart; `absent` by alternative and negated component."""

    every: tuple[Expression, ...]
    terms: tuple[tuple[Expression, ...], ...]
    absent: tuple[Mapping[int, tuple[Expression, ...]], ...]

    @staticmethod
    def of(sequence: Sequence) -> _Conditions:
        alternatives = sequence.alternatives
        every = _common([alternative.terms for alternative in alternatives])
        rest = tuple([tuple([t for t in alternative.terms if t not in every]) for alternative in alternatives])
        absent = tuple([dict(zip(sequence.negated, alternative.absent, strict=True)) for alternative in alternatives])
        return _Conditions(every, rest, absent)

    def without(self, is_tested: Callable[[Expression], bool]) -> _Conditions:
        """Terms that are tested otherwise go. In `terms` there are none: what only one alternative asks for cannot be."""

        def left(terms: tuple[Expression, ...]) -> tuple[Expression, ...]:
            return tuple([term for term in terms if not is_tested(term)])

        return _Conditions(left(self.every), self.terms, tuple([{i: left(t) for i, t in each.items()} for each in self.absent]))

    def absent_everywhere(self, component: int) -> tuple[Expression, ...]:
        return _common([each[component] for each in self.absent])

    def scanned(self, component: int, sequence: Sequence) -> tuple[Expression, ...]:
        """What can be tested before an event goes onto its stack. Not what can fail: only events of matches may do that."""
        terms = self.absent_everywhere(component) if sequence.components[component].negated else self.every
        return tuple([term for term in terms if sides(term) == {component} and not can_fail(term)])


def _common(all_terms: Iterable[tuple[Expression, ...]]) -> tuple[Expression, ...]:
    first, *others = all_terms
    return tuple([term for term in first if all(term in terms for terms in others)])


def _on_the_event(terms: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return tuple([substitute(term, lambda c: replace(c, side=FIRST)) for term in terms])


# -- the key -----------------------------------------------------------------------------------------------------------------

Place = tuple[int, int, bool]  # (component, attribute, as a double?)
Keys = dict[int, tuple[int, bool]]  # component -> attribute, as a double?


def _choose_key(sequence: Sequence, conditions: _Conditions, n_distinct: Callable[[Place], float]) -> Keys:
    """The equivalence test that divides the stacks: of those that most components take part in the one with most values.

    One that compares integers with doubles comes after the others: events cannot be dealt out to threads by it (`plan/partition.py`).
    """
    classes = _classes(conditions.every)
    for i in sequence.negated:
        for left, right in _equalities(conditions.absent_everywhere(i)):
            of_negated, other = (left, right) if left[0] == i else (right, left)
            if not any(other in one for one in classes):
                classes.append([other])
            for one in classes:
                if other in one and not any(place[0] == i for place in one):
                    one.append(of_negated)
    candidates: list[Keys] = []
    for places in classes:
        keys: Keys = {}
        for component, attribute, as_double in places:
            keys.setdefault(component, (attribute, as_double))
        if _begins_a_search(sequence) <= keys.keys():
            candidates.append(keys)
    most = [keys for keys in candidates if len(keys) == max(map(len, candidates))]
    plain = [keys for keys in most if not any(as_double for _, as_double in keys.values())] or most
    if len(plain) < 2:
        return plain[0] if plain else {}
    return max(plain, key=lambda keys: max([n_distinct((component, *key)) for component, key in keys.items()]))


def _begins_a_search(sequence: Sequence) -> set[int]:
    """The components that must have the key, so that a search knows which stacks are its own."""
    if not sequence.ordered:
        return set(sequence.positive)
    return {sequence.positive[0] if sequence.components[-1].negated else sequence.positive[-1]}


def _classes(terms: tuple[Expression, ...]) -> list[list[Place]]:
    """Places that the terms make equal, in the order of the text."""
    classes: list[list[Place]] = []
    for places in _equalities(terms):
        touched = [one for one in classes if any(place in one for place in places)]
        merged = list(dict.fromkeys([*chain.from_iterable(touched), *places]))
        classes = [*[one for one in classes if one not in touched], merged]
    for one in classes:
        # Integers that equal each other do as doubles, too.
        integers = [(component, attribute, False) for component, attribute, as_double in one if as_double]
        equal = chain.from_iterable([other for other in classes if any(place in other for place in integers)])
        one += [place for component, attribute, _ in list(equal) if (place := (component, attribute, True)) not in one]
    return classes


def _equalities(terms: tuple[Expression, ...]) -> list[tuple[Place, Place]]:
    found = []
    for term in terms:
        if isinstance(term, Call) and term.op == "eq":
            left, right = [_place(arg) for arg in term.args]
            if left is not None and right is not None and left[0] != right[0]:
                found.append((left, right))
    return found


def _place(expression: Expression) -> Place | None:
    """The attribute that is compared: itself, or, an integer beside a double, as a double."""
    as_double = isinstance(expression, Call) and expression.op == "to_double"
    column = expression.args[0] if isinstance(expression, Call) and as_double else expression
    return (column.side, column.index, as_double) if isinstance(column, Column) else None


def _is_implied(term: Expression, keys: Keys) -> bool:
    return any(all(keys.get(place[0]) == place[1:] for place in places) for places in _equalities((term,)))


def _most_distinct(components: list[StackComponent], ports: List[str], place: Place, statistics: Statistics) -> float:
    """Of the columns of streams that an attribute of a component is."""
    component = components[place[0]]
    names = [(ports[feed.port], _column_name(feed, component, place[1])) for feed in component.feeds]
    return max([0, *[statistics.n_distinct(stream, name) for stream, name in names if name is not None]])


def _column_name(feed: Feed, component: StackComponent, attribute: int) -> str | None:
    """The name in the stream of what is an attribute of the component; None if it is computed."""
    name: str | None = component.schema[attribute].name
    index = attribute
    for step in reversed(feed.steps):
        if isinstance(step, Bind):
            item = step.items[index]
            if not isinstance(item, Column):
                return None
            index, name = item.index, item.name
    return name


# -- construction ------------------------------------------------------------------------------------------------------------


def _orders(sequence: Sequence) -> list[tuple[int, ...]]:
    """The components in the order they are bound: backwards from the last, or from the one whose event came last."""
    if sequence.ordered:
        return [tuple(reversed(sequence.positive))]
    return [(i, *[k for k in sequence.positive if k != i]) for i in sequence.positive]


def _search(sequence: Sequence, order: tuple[int, ...], conditions: _Conditions, rules: StackRules) -> tuple[Level, ...]:
    level_of = {component: level for level, component in enumerate(order)}
    last = len(order) - 1

    def level(needed: Iterable[int]) -> int:
        return max([level_of[i] for i in needed], default=0) if rules.construction else last

    tests: dict[tuple[int, int], list[Expression]] = {}
    for number, terms in ((EVERY, conditions.every), *enumerate(conditions.terms)):
        for term in terms:
            tests.setdefault((level(sides(term)), number), []).append(term)
    absences: list[tuple[int, Absence]] = []
    for i in sequence.negated:
        asked = [each[i] for each in conditions.absent]
        same = all(terms == asked[0] for terms in asked)
        for number, terms in [(EVERY, asked[0])] if same else list(enumerate(asked)):
            at = level([*_neighbours(sequence, i), *[s for term in terms for s in sides(term) if s != i]])
            bounds = not terms and number == EVERY and i > 0 and rules.construction
            absences.append((at, Absence(i, terms, number, bounds)))
    return tuple(
        [
            Level(
                component,
                tuple([Test(tuple(terms), number) for (at, number), terms in tests.items() if at == k]),
                tuple([absence for at, absence in absences if at == k]),
            )
            for k, component in enumerate(order)
        ]
    )


def _neighbours(sequence: Sequence, negated: int) -> list[int]:
    """The positive components that limit where an event of a negated one is in the way."""
    before = [i for i in sequence.positive if i < negated]
    after = [i for i in sequence.positive if i > negated]
    if not before:
        return [sequence.positive[0], sequence.positive[-1]]
    return [before[-1], after[0]] if after else [before[-1]]
