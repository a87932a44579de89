"""Equivalence tests: `[a]` compares every pair of events that have it, `[a = c]` each of them with a constant."""

from __future__ import annotations

import pytest

from .sase import matches, mistake, mistakes, where

KNOWN = "NOT ((a.x) IS NULL); NOT ((b.x) IS NULL); NOT ((c.x) IS NULL)"


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("SEQ(A a, B b, C c) WHERE [x]", [["a.x = b.x; a.x = c.x; b.x = c.x"]]),
        ("SEQ(A a, !B b, C c) WHERE [x]", [["a.x = c.x", "a.x = b.x; b.x = c.x"]]),
        ("SEQ(!A a, B b, !C c) WHERE [x] WITHIN 3", [["", "a.x = b.x", "b.x = c.x"]]),
        ("SEQ(A a, B b, B c) WHERE [y]", [["b.y = c.y"]]),
        ("SEQ(A a, B b, C c) WHERE [y]", [[""]]),
        ("SEQ(A, B) WHERE [x, t]", [["$x1.x = $x2.x; $x1.t = $x2.t"]]),
        ("SEQ(A a, B b) WHERE [x = 3, y = :p]", [["a.x = 3; b.x = 3; b.y = 9"]]),
        ("SEQ(A a, !B b, C c) WHERE [x = 1 + 2]", [["a.x = 1 + 2; c.x = 1 + 2", "b.x = 1 + 2"]]),
        ("SEQ(A a, B b) WHERE NOT [x]", [["a.x <> b.x"]]),
        ("SEQ(A a, B b, C c) WHERE NOT [x] AND a.t > 0", [[f"{KNOWN}; a.x <> b.x OR a.x <> c.x OR b.x <> c.x; a.t > 0"]]),
        ("SEQ(A a, B b, C c) WHERE NOT [y]", [["FALSE"]]),
        ("SEQ(A a, B b) WHERE NOT [x, t]", [["a.x <> b.x OR a.t <> b.t"]]),
        ("SEQ(A a, !B b) WHERE NOT [x] WITHIN 3", [["", "a.x <> b.x"]]),
        ("SEQ(A a, !B b) WHERE NOT [y] WITHIN 3", [["FALSE", ""]]),
        ("A a WHERE NOT [x = 3]", [["a.x <> 3"]]),
        ("SEQ(A a, !B b) WHERE NOT [x = 3] WITHIN 3", [["NOT ((a.x) IS NULL); a.x <> 3", ""], ["NOT ((a.x) IS NULL)", "b.x <> 3"]]),
        ("SEQ(A a, B b) WHERE ([x] OR [t]) AND a.x > 0", [["a.x = b.x OR a.t = b.t; a.x > 0"]]),
        ("SEQ(A a, D d) WHERE [x]", [["a.x = d.x"]]),
    ],
)
def test_what_a_test_stands_for(text, alternatives):
    params = {"p": 9} if ":p" in text else {}
    assert where(text, **params) == alternatives


def test_events_with_one_key_match():
    found = matches("SEQ(A a, !B b, C c) WHERE [x] RETURN a.x", A="1:1 2:2 3:-", B="4:2,0 4:-,0", C="5:1 5:2 5:-")
    assert found == [(1, 5)]


@pytest.mark.parametrize("test", ["[x]", "[x = 1]"])
def test_a_null_makes_a_test_and_its_opposite_unknown(test):
    streams = {"A": "1:1", "B": "2:2,0", "C": "3:- 4:1"}
    assert matches(f"SEQ(A a, B b, C c) WHERE {test} RETURN c.t", **streams) == []
    assert matches(f"SEQ(A a, B b, C c) WHERE NOT {test} RETURN c.t", **streams) == [(4, 4)]


def test_the_opposite_asks_for_no_event_that_differs_from_one_that_occurs():
    query = "SEQ(A a, !B b, C c) WHERE NOT [x] RETURN a.x, c.x"
    assert matches(query, A="1:1", B="2:1,0 2:-,0", C="3:1 4:2 5:-") == [(1, 1, 3), (1, 2, 4)]
    assert matches(query, A="1:1", B="2:3,0", C="3:1 4:2 5:-") == []
    assert matches(query, A="1:1", C="3:1 4:2 5:-") == [(1, 1, 3), (1, 2, 4)]


def test_events_with_one_value_match():
    assert matches("SEQ(A a, B b) WHERE [x = 2] RETURN a.x, a.t", A="1:1 2:2", B="3:2,0 4:1,0") == [(2, 2, 3)]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SEQ(A a, B b) WHERE [nothing]", "K201", "nothing"),
        ("SEQ(A a, B b) WHERE [nothing = 3]", "K201", "nothing"),
        ("SEQ(Stock s, News n) WHERE [Name]", "K205", "Name"),
        ("SEQ(News s, News n) WHERE [Tags]", "K205", "Tags"),
        ("SEQ(A a, B b) WHERE [x = 'three']", "K205", "'three'"),
        ("SEQ(A a, B b) WHERE [x = a.x]", "K101", "x = a.x"),
        ("SEQ(A a, B b) WHERE [x > 3]", "K101", "x > 3"),
        ("SEQ(A a, B b) WHERE abs([x]) > 3", "K312", "[x]"),
        ("SEQ(A a, B b ([x]))", "K312", "[x]"),
        ("SEQ(A a, B b) RETURN [x] AS same", "K312", "[x]"),
    ],
)
def test_mistakes(text, code, place):
    found = mistakes(text)
    assert {(finding.code, finding.span.text) for finding in found} == {(code, place)}


def test_the_types_that_differ_are_named():
    assert mistake("SEQ(Stock s, News n) WHERE [Name]").label == "a string in `s`, an integer in `n`"
