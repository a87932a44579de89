"""SASE's rules of WHERE against an evaluator of their own, written from the words of docs/semantics.md, section 5: no algebra, no lowering.

Types lack attributes, ANY joins them, components are negated, values are null. With a type column every type has every attribute.
"""

from __future__ import annotations

import itertools
import math
import operator as signs
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

import keuka

Event = dict[str, Any]  # its attributes; those its type lacks are not among them
Formula = tuple[Any, ...]
SIGNS = {"=": signs.eq, "<>": signs.ne, "<": signs.lt, "<=": signs.le, ">": signs.gt, ">=": signs.ge}
ARROW = {"t": pa.int64(), "id": pa.int64(), "k": pa.int64(), "v": pa.int64(), "te": pa.timestamp("us", "UTC")}
TYPES = {"A": ("t", "id", "k", "v"), "B": ("t", "id", "v"), "C": ("t", "id", "k", "te"), "D": ("t", "id", "te")}


@dataclass(frozen=True)
class Component:
    types: tuple[str, ...]
    negated: bool


@dataclass(frozen=True)
class Query:
    components: tuple[Component, ...]
    where: Formula
    within: int | None
    one_table: bool  # all types in one table with a type column

    def has(self, component: int, attribute: str) -> bool:
        """Can an event of the component have the attribute?"""
        return self.one_table or any(attribute in TYPES[name] for name in self.components[component].types)

    def knows(self, attribute: str) -> bool:
        return any(self.has(i, attribute) for i in range(len(self.components)))

    @property
    def positive(self) -> list[int]:
        return [i for i, component in enumerate(self.components) if not component.negated]

    @property
    def negated(self) -> list[int]:
        return [i for i, component in enumerate(self.components) if component.negated]

    @property
    def text(self) -> str:
        of = [c.types[0] if len(c.types) == 1 else f"ANY({', '.join(c.types)})" for c in self.components]
        pattern = ", ".join([f"{'!' * c.negated}{name} e{i}" for i, (c, name) in enumerate(zip(self.components, of, strict=True))])
        window = "" if self.within is None else f" WITHIN {self.within}"
        return f"SEQ({pattern}) WHERE {written(self.where)}{window} RETURN {', '.join([f'e{i}.id' for i in self.positive])}"


# -- what is drawn -----------------------------------------------------------------------------------------------------------


@st.composite
def queries(draw: st.DrawFn) -> Query:
    n = draw(st.sampled_from([2, 3, 3, 4]))
    negated = [False] * n
    for i in draw(st.lists(st.integers(0, n - 1), max_size=2)):
        negated[i] = not any(negated[max(i - 1, 0) : i + 2]) and sum(negated) < n - 1
    chosen = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3, unique=True).map(tuple)
    components = tuple([Component(draw(chosen), one) for one in negated])
    query = Query(components, (), draw(st.integers(2, 7)) if negated[-1] or draw(st.booleans()) else None, draw(st.integers(0, 4)) == 0)
    return Query(components, draw(formulas(query)), query.within, query.one_table)


def formulas(query: Query) -> st.SearchStrategy[Formula]:
    def references(*names: str) -> st.SearchStrategy[tuple[int, str]]:
        known = [name for name in names if query.knows(name)]
        return st.tuples(st.integers(0, len(query.components) - 1), st.sampled_from(known))

    numbers = references("k", "v", "id") | st.integers(1, 3)
    equal = [st.tuples(st.just("[]"), st.just(name)) for name in ("k", "v") if query.knows(name)]
    leaves = [
        st.tuples(st.just("compare"), st.sampled_from([*SIGNS]), references("k", "v", "id"), numbers),
        st.tuples(st.just("between"), numbers, numbers, numbers),
        st.tuples(st.just("in"), references("k", "v", "id"), numbers, numbers),
        st.tuples(st.just("null"), references("k", "v", "id")),
        *equal,
        *equal,
        *[st.tuples(test, st.integers(1, 2)).map(lambda drawn: ("[=]", drawn[0][1], drawn[1])) for test in equal],
    ]
    if query.knows("te"):
        leaves.append(st.tuples(st.just("gap"), references("te"), references("te"), st.integers(0, 3)))
    leaf = st.one_of(leaves).filter(lambda one: len({i for i in named(one) if query.components[i].negated}) < 2)
    return st.recursive(
        leaf, lambda part: st.tuples(st.just("not"), part) | st.tuples(st.sampled_from(["and", "or"]), part, part), max_leaves=4
    )


@st.composite
def streams(draw: st.DrawFn) -> dict[str, list[Event]]:
    value = st.sampled_from([1, 2, 1, 2, 3, None])
    found: dict[str, list[Event]] = {}
    number = itertools.count()
    for name, attributes in TYPES.items():
        ticks = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)))
        found[name] = [{a: t if a == "t" else next(number) if a == "id" else draw(value) for a in attributes} for t in ticks]
    return found


def named(leaf: Formula) -> set[int]:
    """The components a comparison names."""
    return {part[0] for part in leaf[1:] if isinstance(part, tuple)}


def written(formula: Formula) -> str:
    match formula:
        case ("and" | "or" as word, one, other):
            return f"({written(one)} {word.upper()} {written(other)})"
        case ("not", part):
            return f"NOT ({written(part)})"
        case ("[]", attribute):
            return f"[{attribute}]"
        case ("[=]", attribute, constant):
            return f"[{attribute} = {constant}]"
        case ("compare", sign, left, right):
            return f"{operand(left)} {sign} {operand(right)}"
        case ("between", value, low, high):
            return f"{operand(value)} BETWEEN {operand(low)} AND {operand(high)}"
        case ("in", value, *candidates):
            return f"{operand(value)} IN ({', '.join([operand(one) for one in candidates])})"
        case ("null", value):
            return f"{operand(value)} IS NULL"
        case ("gap", later, earlier, seconds):
            return f"{operand(later)} - {operand(earlier)} < {seconds} s"
    raise AssertionError(formula)


def operand(value: Any) -> str:
    return f"e{value[0]}.{value[1]}" if isinstance(value, tuple) else str(value)


# -- the rules ---------------------------------------------------------------------------------------------------------------

TESTS = ("[]", "[=]")
Bound = dict[int, Event]
Literal = tuple[Formula, bool]  # a comparison or a test, and whether it is to be false


def disjuncts(formula: Formula, negated: bool = False) -> list[list[Literal]]:
    match formula:
        case ("not", part):
            return disjuncts(part, not negated)
        case ("and" | "or" as word, one, other):
            left, right = disjuncts(one, negated), disjuncts(other, negated)
            return [a + b for a in left for b in right] if (word == "and") != negated else left + right
        case _:
            return [[(formula, negated)]]


def truth(leaf: Formula, bound: Bound) -> bool | None:
    """A comparison of events, True if an attribute is missing; None if it is unknown. Its opposite is the caller's affair."""
    values = [bound[part[0]][part[1]] if isinstance(part, tuple) else part for part in leaf[1:]]
    match leaf[0]:
        case "null":
            return values[0] is None
        case "compare":
            return None if None in values else SIGNS[values[0]](values[1], values[2])
        case "between":
            return conjunction([None if None in (values[0], low) else values[0] >= low for low in values[1:2]]
                               + [None if None in (values[0], high) else values[0] <= high for high in values[2:]])  # fmt: skip
        case "in":
            found = [None if None in (values[0], one) else values[0] == one for one in values[1:]]
            return True if True in found else None if None in found else False
        case _:
            return None if None in values else values[0] - values[1] < values[2]


def conjunction(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def satisfied(leaf: Formula, negated: bool, bound: Bound) -> bool:
    if any(part[1] not in bound[part[0]] for part in leaf[1:] if isinstance(part, tuple)):
        return True
    return truth(leaf, bound) is (not negated)


def agree(test: Formula, events: list[Event]) -> bool | None:
    """`[a]` or `[a = c]` of some events: those without the attribute are left out, a null makes it unknown."""
    values = [one[test[1]] for one in events if test[1] in one]
    if test[0] == "[]" and len(values) < 2:
        return True
    return None if None in values else len({*values, *test[2:]}) < 2


def expanded(disjunct: list[Literal], query: Query) -> Iterator[list[tuple[Literal, int | None]]]:
    """The literals with the negated component each is about, None for those about events that occur.

    A test compares the events that occur with each other, and the candidates of a negated component with each of them. Its opposite is
    that one of these comparisons is false.
    """
    choices: list[list[list[tuple[Literal, int | None]]]] = []
    for leaf, negated in disjunct:
        absent = [i for i in query.negated if leaf[0] in TESTS and query.has(i, leaf[1])]
        if leaf[0] not in TESTS:
            of_negated = [i for i in named(leaf) if query.components[i].negated]
            choices.append([[((leaf, negated), of_negated[0] if of_negated else None)]])
        elif not negated:
            choices.append([[((leaf, False), i) for i in (None, *absent)]])
        elif leaf[0] == "[=]":
            choices.append([[((leaf, True), i)] for i in (None, *absent)])
        else:
            pairs = [((("[]", leaf[1], i), True), n) for n in absent for i in query.positive]
            choices.append([[one] for one in (((leaf, True), None), *pairs)])
    for choice in itertools.product(*choices):
        yield list(itertools.chain.from_iterable(choice))


def holds(literals: list[tuple[Literal, int | None]], query: Query, bound: Bound, events: dict[int, list[Event]]) -> bool:
    occurring = list(bound.values())
    for (leaf, negated), about in literals:
        if leaf[0] in TESTS:
            of_occurring = agree(leaf[:2] if leaf[0] == "[]" else leaf, occurring)
            is_left_out = negated and leaf[0] == "[]" and about is not None and leaf[1] not in bound[leaf[2]]
            if of_occurring is None or is_left_out or (about is None and of_occurring is negated):
                return False
        elif about is None and not satisfied(leaf, negated, bound):
            return False
    return not any(in_the_way(one, i, literals, bound) for i in query.negated for one in candidates(query, i, bound, events[i]))


def in_the_way(candidate: Event, component: int, literals: list[tuple[Literal, int | None]], bound: Bound) -> bool:
    for (leaf, negated), about in literals:
        if about != component:
            continue
        if leaf[0] == "[]":
            compared = [bound[leaf[2]]] if negated else bound.values()
            is_met = agree(leaf[:2], [candidate, *compared]) is (not negated)
        elif leaf[0] == "[=]":
            is_met = agree(leaf, [candidate]) is (not negated)
        else:
            is_met = satisfied(leaf, negated, bound | {component: candidate})
        if not is_met:
            return False
    return True


def candidates(query: Query, component: int, bound: Bound, events: list[Event]) -> list[Event]:
    first, last = bound[query.positive[0]]["t"], bound[query.positive[-1]]["t"]
    window = math.inf if query.within is None else query.within
    before = [bound[i]["t"] for i in query.positive if i < component]
    after = [bound[i]["t"] for i in query.positive if i > component]
    low = before[-1] if before else last - window
    high = after[0] if after else first + window
    return [one for one in events if low < one["t"] < high]


def expected(query: Query, given: dict[str, list[Event]]) -> Counter[tuple[int, ...]]:
    if query.one_table:
        given = {name: [dict.fromkeys(ARROW) | one for one in events] for name, events in given.items()}
    events = {i: [one for name in component.types for one in given[name]] for i, component in enumerate(query.components)}
    alternatives = [literals for disjunct in disjuncts(query.where) for literals in expanded(disjunct, query)]
    found: Counter[tuple[int, ...]] = Counter()
    for chosen in itertools.product(*[events[i] for i in query.positive]):
        ticks = [one["t"] for one in chosen]
        in_window = query.within is None or ticks[-1] - ticks[0] < query.within
        bound = dict(zip(query.positive, chosen, strict=True))
        if in_window and all(a < b for a, b in itertools.pairwise(ticks)) and any(holds(one, query, bound, events) for one in alternatives):
            end = ticks[0] + (query.within or 0) - 1 if query.components[-1].negated else ticks[-1]
            found[(*[one["id"] for one in chosen], end)] += 1
    return found


# -- the engine --------------------------------------------------------------------------------------------------------------


def table(names: tuple[str, ...], events: list[Event], **more: list[str]) -> pa.Table:
    def shown(name: str, value: int | None) -> Any:
        return value if name != "te" or value is None else datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=value)

    columns = {name: pa.array([shown(name, one.get(name)) for one in events], ARROW[name]) for name in names}
    return pa.table(columns | {name: pa.array(values, pa.string()) for name, values in more.items()})


def actual(query: Query, given: dict[str, list[Event]]) -> Counter[tuple[int, ...]]:
    if query.one_table:
        rows = sorted([(one["t"], one["id"], name, one) for name, events in given.items() for one in events])
        data = table(tuple(ARROW), [row[3] for row in rows], type=[row[2] for row in rows])
        matches = keuka.match(query.text, data, language="sase", time="t", type_column="type")
    else:
        read = {name for component in query.components for name in component.types}
        data = {name: table(TYPES[name], given[name]) for name in sorted(read)}
        matches = keuka.match(query.text, data, language="sase", time="t")
    columns = [matches.column(name).to_pylist() for name in matches.column_names if name != "_start"]
    return Counter(zip(*columns, strict=True))


@given(streams(), queries())
def test_conditions_hold_as_the_rules_say(given_streams: dict[str, list[Event]], query: Query) -> None:
    found = expected(query, given_streams)
    event("matches" if found else "no matches")
    assert actual(query, given_streams) == found, query.text
