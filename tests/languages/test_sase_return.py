"""RETURN and the default output: which columns a match has, and what they are called."""

from __future__ import annotations

import pyarrow as pa
import pytest

from .sase import mistake, mistakes, names, operator, outline


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SEQ(A a, B b)", "a_x a_t b_x b_y b_t"),
        ("SEQ(A, !B b, C)", "x1_x x1_t x3_x x3_t"),
        ("SEQ(A a, B b) RETURN *", "a_x a_t b_x b_y b_t"),
        ("SEQ(A a, B b) RETURN b.*, a.x", "b_x b_y b_t a_x"),
        ("SEQ(A a, B) RETURN $x1.x, $2.y, $x2.x AS x", "a_x x2_y x"),
        ("SEQ(A a, B b) RETURN (a.x), b.t - a.t AS `the gap`", "a_x the gap"),
        ("SEQ(A `my a`, B b) RETURN `my a`.x", "my a_x"),
        ("ANY(A, B) n RETURN n.*", "n_x n_t n_y"),
    ],
)
def test_names(text, columns):
    assert names(text) == columns


def test_the_columns_are_read_from_the_sequence():
    found = operator("SEQ(A a, !C n, B b) WHERE n.x = a.x RETURN b.y, a.x + b.x AS total")
    assert outline(found).splitlines()[0] == "map b_y, total = a_x + b_x"
    assert [item.index for item in found.items[:1]] == [3]


def test_columns_keep_their_types():
    arrow = [attribute.arrow for attribute in operator("SEQ(News n, News m) RETURN n.Tags, m.ts + 1 min AS later").schema.attributes]
    assert arrow == [pa.list_(pa.string()), pa.timestamp("us")]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SEQ(A a, !B b, C c) RETURN b.x", "K312", "b.x"),
        ("SEQ(A a, !B b, C c) RETURN a.x, b.*", "K312", "b.*"),
        ("SEQ(A a, B b) RETURN a.y", "K201", "a.y"),
        ("SEQ(A a, B b) RETURN x", "K203", "x"),
        ("SEQ(A a, B b) RETURN nothing AS n", "K201", "nothing"),
        ("SEQ(A a, B b) RETURN z.x", "K204", "z.x"),
        ("SEQ(A a, B b) RETURN z.*", "K204", "z.*"),
        ("SEQ(A a, B b) RETURN a.x, a.x", "K209", "a.x"),
        ("SEQ(A a, B b) RETURN a.x AS y, b.y AS y", "K209", "b.y AS y"),
        ("SEQ(A a, B b) RETURN DUR AS d", "K211", "DUR"),
        ("SEQ(A a, B b) RETURN NULL AS n", "K205", "NULL"),
        ("SEQ(A a, B b) RETURN a.x + 1", "K101", "a.x + 1"),
        ("SEQ(A a, B b) RETURN DUR", "K211", "DUR"),
        ("A a RETURN a.x AS x_x, a.t AS t PUBLISH P; SEQ(P a, A a_x)", "K208", "A a_x"),
    ],
)
def test_mistakes(text, code, place):
    finding = mistake(text)
    assert (finding.code, finding.span.text) == (code, place)


def test_a_plain_name_is_not_advised_to_be_that_of_an_absent_event():
    assert mistake("SEQ(A a, !B b, C c) RETURN x").help == ("write `a.x` or `c.x`",)


def test_all_mistakes_are_reported_at_once():
    text = "SEQ(A a (z > 1), !B b, C c) WHERE [q] AND a.nothing = 1 AND n.x = 2 RETURN b.x, c.nothing"
    assert [m.code for m in mistakes(text)] == ["K201", "K201", "K201", "K204", "K312", "K201"]
