"""The grammar: what may be left out, what may be written how, and where nodes stand in the text."""

from __future__ import annotations

import pytest

from keuka.languages.sase.syntax import Component
from keuka.languages.values import Operation, Reference, walk

from .sase import operator, outline, parsed, where


def only(text: str):
    (query,) = parsed(text).queries
    return query


def test_all_clauses():
    query = only("SEQ(A a, !ANY(B, C-D) n (x > 3), E) WHERE [x] WITHIN 3 hours RETURN a.x, n.* PUBLISH found-it")
    assert [[name.text for name in component.types] for component in query.components] == [["A"], ["B", "C-D"], ["E"]]
    assert [component.negated for component in query.components] == [False, True, False]
    assert [component.name and component.name.text for component in query.components] == ["a", "n", None]
    assert (query.ordered, query.window.digits, query.window.unit, query.publish.text) == (True, "3", "hours", "found-it")
    assert [item.variable for item in query.items] == ["", "n"]


def test_all_clauses_may_be_left_out():
    query = only("UNORDERED(A, B)")
    assert (query.ordered, query.where, query.window, query.items, query.publish) == (False, None, None, None, None)


@pytest.mark.parametrize(
    "text", ["seq(A a,B b) where [x] within 5 return a.x", "Seq ( A a , B b )\nWhere[x]\n-- five\nWithin 5 /* ticks */ Return a.x;"]
)
def test_keywords_in_any_case_and_any_blanks(text):
    assert outline(operator(text)) == "map a_x\n  sequence a, b within 5\n    A\n    B"


def test_names_in_backticks_may_be_anything():
    query = only("SEQ(`my type` `where`, `SEQ` s (`a b` = 1)) WHERE `where`.`x y` = s.z AND [`a b`]")
    assert [component.types[0].text for component in query.components] == ["my type", "SEQ"]
    references = [node for node in walk(query.where) if isinstance(node, Reference)]
    assert [(r.qualifier, r.name) for r in references] == [("where", "x y"), ("s", "z"), ("", "a b")]


def test_queries_end_with_a_semicolon_and_the_last_one_need_not():
    assert len(parsed("A; SEQ(A, B); ANY(A, B);").queries) == len(parsed("A; SEQ(A, B); ANY(A, B)").queries) == 3


def test_equivalence_tests_bind_like_comparisons():
    query = only("SEQ(A a, B b) WHERE NOT [x] OR [y, z = 'k'] AND (a.x = 1)")
    assert isinstance(query.where, Operation)
    assert query.where.operator == "or"
    assert [operand.operator for operand in query.where.operands] == ["not", "and"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a.x = 1 OR b.x = 2 AND b.y = 3", "a.x = 1 OR b.x = 2 AND b.y = 3"),
        ("a.x-b.x*2 > 0", "a.x - b.x * 2 > 0"),
        ("$x1.x - $2.y > 0", "a.x - b.y > 0"),
        ("a.x = .5 AND a . x = 1", "a.x = 0.5; a.x = 1"),
        ("least(a.x, b.x) IN (1, 2)", "least(a.x, b.x) IN (1, 2)"),
        ("CASE WHEN a.x > 1 THEN b.y END = 3", "CASE WHEN a.x > 1 THEN b.y ELSE NULL END = 3"),
    ],
)
def test_values(text, terms):
    assert where(f"SEQ(A a, B b) WHERE {text}") == [[terms]]


def test_spans():
    query = only(
        "SEQ(A a , ! ANY( B, C ) n (x > 3), D (y=1)) WHERE [ x , y = 3 ] AND $x1.x = a . x RETURN a.x, n . *, a.x+1 AS b PUBLISH P ;"
    )
    components = [node.span.text for node in walk(query) if isinstance(node, Component)]
    assert components == ["A a", "! ANY( B, C ) n (x > 3)", "D (y=1)"]
    assert [operand.span.text for operand in query.where.operands] == ["[ x , y = 3 ]", "$x1.x = a . x"]
    assert [item.span.text for item in query.items] == ["a.x", "n . *", "a.x+1 AS b"]
    assert query.span.text.endswith("PUBLISH P")


def test_spans_survive_lowering():
    found = operator("SEQ(A a, B b) WHERE a.x  =  b.y AND [x]")
    first, second = found.input.alternatives[0].terms
    assert (first.span.text, second.span.text, second.args[0].span.text) == ("a.x  =  b.y", "[x]", "x")
