"""A warning is never wrong: what is said never to hold is false or unknown for every event, and such windows have no matches."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

import keuka
from keuka.algebra.operators import Filter, Map
from keuka.algebra.semantics import Event
from keuka.algebra.semantics import evaluate as matches_of
from keuka.algebra.values import evaluate
from keuka.languages.sets import lower_texts
from keuka.plan.warnings import find_warnings, never_holds
from keuka.schema import StreamType, TimeAxis, schema_of

from . import expressions

KINDS = {"i": "integer", "j": "integer", "d": "double", "s": "string", "b": "boolean"}
ARROW = {"integer": pa.int64(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
SCHEMA = pa.schema([("t", pa.int64()), *[(name, ARROW[kind]) for name, kind in KINDS.items()]])
STREAM = StreamType(schema_of(SCHEMA), TimeAxis(None, pa.int64()))
REFERENCES = list(KINDS.items())
VALUES: dict[str, list[Any]] = {
    "integer": [None, -(2**63), -1, 0, 1, 2, 3, 4, 5, 2**53, 2**53 + 1, 2**63 - 1],
    "double": [None, -math.inf, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, float(2**53), math.inf, math.nan],
    "string": [None, "", "a", "ab", "b", "É"],
    "boolean": [None, True, False],
}
CONSTANTS = {
    "integer": ["-1", "0", "1", "2", "3", "1.5", "2.0", "9007199254740992", "9007199254740992.0", "NULL"],
    "double": ["-0.0", "0", "1", "1.5", "2.5", "NULL"],
    "string": ["''", "'a'", "'ab'", "'b'", "NULL"],
    "boolean": ["TRUE", "FALSE", "NULL"],
}
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


def a_test(draw: st.DrawFn) -> str:
    """A test of one column, or of constants."""
    name, kind = draw(st.sampled_from(REFERENCES))
    one, other, third = [draw(st.sampled_from(CONSTANTS[kind])) for _ in range(3)]
    sign = draw(st.sampled_from(COMPARISONS))
    forms = [
        f"{name} {sign} {one}", f"{one} {sign} {name}", f"{name} IN ({one}, {other}, {third})", f"{name} NOT IN ({one}, {other})",
        f"{name} BETWEEN {one} AND {other}", f"{name} NOT BETWEEN {one} AND {other}", f"{name} IS NULL", f"{name} IS NOT NULL",
        f"{one} {sign} {other}", "b", f"DUR {sign} {draw(st.sampled_from(['0', '1', '2']))}",
    ]  # fmt: skip
    return draw(st.sampled_from(["", "NOT "])) + draw(st.sampled_from(forms))


@st.composite
def conditions(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 3)) == 0:
        return expressions.of_type(draw, "boolean", REFERENCES, 3)
    tests = [a_test(draw) for _ in range(draw(st.integers(1, 5)))]
    text = tests[0]
    for test in tests[1:]:
        word = draw(st.sampled_from(["AND", "AND", "AND", "OR"]))
        text = draw(st.sampled_from([f"{text} {word} {test}", f"({text}) {word} {test}", f"NOT ({text}) {word} {test}"]))
    return text


@st.composite
def payloads(draw: st.DrawFn) -> tuple[Any, ...]:
    return (draw(st.integers(0, 9)), *[draw(st.sampled_from(VALUES[kind])) for kind in KINDS.values()])


@given(conditions(), st.lists(payloads(), min_size=1, max_size=20), st.integers(1, 4))
def test_what_never_holds_is_true_for_no_event(condition: str, events: list[tuple[Any, ...]], duration: int):
    try:
        program = lower_texts(keuka.cel(f"SELECT * FROM FILTER {{{condition}}} (S)").texts, {"S": STREAM}, {})
    except keuka.QueryError:
        return  # constants of types that cannot be compared
    operator = program.outputs[0][1]
    filter_ = operator.input if isinstance(operator, Map) else operator
    assert isinstance(filter_, Filter)
    found = find_warnings(program, {"S": STREAM})
    is_never = never_holds(filter_.predicate)
    is_conjunction = " OR " not in condition and "NOT" not in condition
    suspicious = [warning for warning in found if "always holds" not in warning.message]
    if is_never or (is_conjunction and suspicious):
        event("never holds")
        assert found
        assert all(evaluate(filter_.predicate, (payload,), duration) is not True for payload in events)
    if [warning for warning in found if "always holds" in warning.message] and is_conjunction and condition.count(" AND ") == 0:
        assert all(evaluate(filter_.predicate, (payload,), duration) is True for payload in events)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    n_components = draw(st.integers(1, 4))
    signs = [draw(st.sampled_from(["", "", "!"])) for _ in range(n_components)]
    signs = [sign if i == 0 or signs[i - 1] != sign else "" for i, sign in enumerate(signs)]
    if set(signs) == {"!"}:
        signs = [*signs, ""]
    parts = [f"{sign}S v{i}" for i, sign in enumerate(signs)]
    tests = [f"v{i}.i {draw(st.sampled_from(COMPARISONS))} {draw(st.integers(0, 2))}" for i in range(len(parts))]
    chosen = [test for test in tests + tests if draw(st.booleans())]
    where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
    return f"SEQ({', '.join(parts)}){where} WITHIN {draw(st.integers(1, 4))}"


@given(patterns(), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=8))
def test_sequences_that_never_match_have_no_matches(pattern: str, rows: list[tuple[int, int]]):
    try:
        program = lower_texts(keuka.sase(pattern).texts, {"S": STREAM}, {})
    except keuka.QueryError:
        return  # two components side by side that must not occur
    found = find_warnings(program, {"S": STREAM})
    events = [Event((time, value, None, None, None, None), time, time) for time, value in sorted(rows)]
    never = [warning for warning in found if "never matches" in warning.message]
    if never or ("!" not in pattern and found):
        event("never matches")
        assert matches_of(program.outputs[0][1], {"S": events}) == []
