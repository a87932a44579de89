"""WHERE: NOT pushed into comparisons, and the alternatives that a condition on an absent event is divided into."""

from __future__ import annotations

import pytest

from .sase import matches, mistake, where


@pytest.mark.parametrize(
    ("condition", "terms"),
    [
        ("a.x = 1 AND (c.x = 2 AND a.t > c.t)", "a.x = 1; c.x = 2; a.t > c.t"),
        ("a.x = 1 OR c.x = 2 AND a.t > c.t", "a.x = 1 OR c.x = 2 AND a.t > c.t"),
        ("NOT (a.x = 1 OR c.x < 2)", "a.x <> 1; c.x >= 2"),
        ("NOT (a.x <> 1 AND c.x <= 2)", "a.x = 1 OR c.x > 2"),
        ("NOT NOT a.x > 1", "a.x > 1"),
        ("NOT a.x >= 1", "a.x < 1"),
        ("NOT a.x IS NULL", "NOT ((a.x) IS NULL)"),
        ("NOT (a.x NOT IN (1, 2))", "a.x IN (1, 2)"),
        ("NOT a.x IN (1, 2)", "NOT (a.x IN (1, 2))"),
        ("a.x BETWEEN 1 AND 2", "a.x >= 1; a.x <= 2"),
        ("NOT a.x BETWEEN 1 AND 2", "NOT (a.x >= 1 AND a.x <= 2)"),
        ("a.x = 1 AND 1 = a.x AND a.x < c.x AND c.x > a.x", "a.x = 1; a.x < c.x"),
        ("TRUE", ""),
    ],
)
def test_without_absent_events_there_is_one_alternative(condition, terms):
    assert where(f"SEQ(A a, C c) WHERE {condition}") == [[terms]]


@pytest.mark.parametrize(
    ("condition", "alternatives"),
    [
        # What names no absent event stays one term.
        ("(a.x = 1 OR c.x = 2) AND b.x = 3", [["a.x = 1 OR c.x = 2", "b.x = 3"]]),
        ("a.x = 1 OR b.x = 3 OR c.x = 2 AND a.t > 0", [["a.x = 1 OR c.x = 2 AND a.t > 0", ""], ["", "b.x = 3"]]),
        ("a.x = 1 OR b.x = 3", [["a.x = 1", ""], ["", "b.x = 3"]]),
        ("a.x = 1 OR c.x = 2 AND b.x = a.x", [["a.x = 1", ""], ["c.x = 2", "b.x = a.x"]]),
        (
            "(b.x = 1 OR b.x = 2) AND (b.y = 3 OR c.x = 4)",
            [["", "b.x = 1; b.y = 3"], ["c.x = 4", "b.x = 1"], ["", "b.x = 2; b.y = 3"], ["c.x = 4", "b.x = 2"]],
        ),
        ("NOT (b.x = 1 AND c.x = 2)", [["", "b.x <> 1"], ["c.x <> 2", ""]]),
        ("b.x = 1 OR 1 = b.x", [["", "b.x = 1"]]),
        ("b.x BETWEEN a.x AND c.x", [["", "b.x >= a.x; b.x <= c.x"]]),
        ("a.x BETWEEN b.x AND c.x", [["", "a.x >= b.x AND a.x <= c.x"]]),
        ("c.x BETWEEN 1 AND b.x AND a.x = 2", [["a.x = 2", "c.x >= 1 AND c.x <= b.x"]]),
        ("NOT a.x BETWEEN b.x AND c.x", [["", "NOT (a.x >= b.x AND a.x <= c.x)"]]),
    ],
)
def test_alternatives(condition, alternatives):
    assert where(f"SEQ(A a, !B b, C c) WHERE {condition}") == alternatives


def test_each_alternative_is_judged_by_itself_and_gives_one_result():
    query = "SEQ(A a, !B b, C c) WHERE b.x = 1 OR b.x = 2 RETURN a.x"
    assert matches(query, A="1:7", C="9:0") == [(7, 9)]
    assert matches(query, A="1:7", B="2:1", C="9:0") == [(7, 9)]
    assert matches(query, A="1:7", B="2:1 3:2", C="9:0") == []


def test_an_alternative_without_the_absent_event_wants_none_of_them():
    query = "SEQ(A a, !B b, C c) WHERE b.x = 1 OR a.x = 7 RETURN a.x"
    assert matches(query, A="1:7", B="2:2", C="9:0") == [(7, 9)]
    assert matches(query, A="1:7", B="2:1", C="9:0") == []
    assert matches(query, A="1:8", B="2:2", C="9:0") == [(8, 9)]


def test_too_many_alternatives_are_refused():
    choice = "(b.x = {0} OR b.y = {0})"
    assert len(where("SEQ(A a, !B b, C c) WHERE " + " AND ".join([choice.format(i) for i in range(6)]))) == 64
    finding = mistake("SEQ(A a, !B b, C c) WHERE " + " AND ".join([choice.format(i) for i in range(70)]))
    assert finding.code == "K401"
    assert finding.message == f"this condition has {2**70} alternatives, more than 64"


def test_ten_thousand_terms_work():
    text = " OR ".join([f"a.x = {i}" for i in range(10_000)])
    assert where(f"SEQ(A a, !B b, C c) WHERE {text}")[0][0].count(" OR ") == 9_999


@pytest.mark.parametrize("text", ["(" * 5000 + "a.x" + ")" * 5000 + " = 3", "NOT " * 5000 + "TRUE"])
def test_five_thousand_levels_are_refused(text):
    assert mistake(f"A a WHERE {text}").code == "K103"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SEQ(A a, B b) WHERE a.x", "K205", "a.x"),
        ("SEQ(A a, B b) WHERE a.x = 1 AND b.x + 1", "K205", "b.x + 1"),
        ("SEQ(A a, D d) WHERE NOT a.x = d.name", "K205", "d.name"),
        ("SEQ(A a, B b) WHERE DUR > 3", "K211", "DUR"),
        ("A a (DUR > 3)", "K211", "DUR"),
        ("SEQ(A a, B b) WHERE a.x = :p", "K207", ":p"),
        ("SEQ(A a, B b) WHERE nothing(a.x)", "K206", "nothing"),
        ("SEQ(A a, B b) WHERE b.t - a.t < 3 min", "K210", "3 min"),
    ],
)
def test_conditions_are_typed(text, code, place):
    finding = mistake(text)
    assert (finding.code, finding.span.text) == (code, place)


def test_integers_are_compared_with_doubles():
    assert len(matches("SEQ(A a, D d) WHERE a.x = d.x", A="1:2", D="2:2,k 3:3,k")) == 1
