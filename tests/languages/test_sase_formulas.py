"""Random conditions mean what three-valued logic says, with NOT pushed inwards and comparisons on missing attributes true."""

from __future__ import annotations

import operator as signs
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keuka.algebra.semantics import Event, evaluate

from .sase import operator

SIGNS = {"=": signs.eq, "<>": signs.ne, "<": signs.lt, ">=": signs.ge, ">": signs.gt, "<=": signs.le}
ATTRIBUTES = ["n.x", "n.y", "a.x", "a.y"]
# The first component is an event of B, which has x and y, or of C, which has x alone, as the second one has.
COMPARISON = st.tuples(st.sampled_from([*SIGNS]), st.sampled_from(ATTRIBUTES), st.sampled_from([*ATTRIBUTES, "1"]))
NULL_TEST = st.tuples(st.just("IS NULL"), st.sampled_from(ATTRIBUTES))
FORMULA = st.recursive(
    COMPARISON | NULL_TEST,
    lambda part: st.tuples(st.just("NOT"), part) | st.tuples(st.sampled_from(["AND", "OR"]), part, part),
    max_leaves=6,
)
B = [Event((x, y, 1), 1, 1, (("B", 0),)) for x in (None, 1, 2) for y in (None, 1)]
C = [Event((x, 1), 1, 1, (("C", 0),)) for x in (None, 1, 2)]
A = [Event((x, 2), 2, 2, (("A", 0),)) for x in (None, 1, 2)]


def text(formula: Any) -> str:
    match formula:
        case ("AND" | "OR" as word, one, other):
            return f"({text(one)} {word} {text(other)})"
        case ("NOT", part):
            return f"NOT {text(part)}"
        case ("IS NULL", attribute):
            return f"{attribute} IS NULL"
        case (sign, left, right):
            return f"{left} {sign} {right}"


def truth(formula: Any, values: dict[str, int | None], negated: bool = False) -> bool | None:
    """`values` has the attributes that are there."""
    match formula:
        case ("AND" | "OR" as word, one, other):
            found = [truth(one, values, negated), truth(other, values, negated)]
            deciding = (word == "OR") != negated
            return deciding if deciding in found else None if None in found else not deciding
        case ("NOT", part):
            return truth(part, values, not negated)
        case ("IS NULL", attribute):
            return True if attribute not in values else (values[attribute] is None) != negated
        case (sign, left, right):
            if not {left, right} <= values.keys():
                return True
            known = None not in (values[left], values[right])
            return SIGNS[sign](values[left], values[right]) != negated if known else None


@given(FORMULA)
def test_conditions_on_events_that_may_lack_an_attribute(formula):
    found = evaluate(operator(f"SEQ(ANY(B, C) n, A a, B) WHERE {text(formula)}"), {"A": A, "B": [*B, Event((0, 0, 3), 3, 3)], "C": C})
    expected = []
    for n, names in [(n, "xy") for n in B] + [(n, "x") for n in C]:
        for a in A:
            values = {"1": 1, "a.x": a.payload[0], **{f"n.{name}": n.payload[i] for i, name in enumerate(names)}}
            if truth(formula, values):
                expected.append((n.payload[0], n.payload[1] if names == "xy" else None, a.payload[0]))
    assert sorted([(e.payload[0], e.payload[1], e.payload[3]) for e in found], key=repr) == sorted(expected, key=repr)
