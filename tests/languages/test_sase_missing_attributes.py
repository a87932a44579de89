"""A comparison on an attribute that its event's type does not have is true: known from the type, or from the event with ANY."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keuka.algebra.operators import Alternative, Map, Sequence

from .cel import stream
from .sase import STREAMS, TIMESTAMPS, matches, mistake, operator, outline, program, where

B_OR_C = "NOT (n.#type IN (0)) OR"  # of ANY(B, C) only B has y


@pytest.mark.parametrize(
    ("condition", "alternatives"),
    [
        ("a.y = 1 AND a.x = 2", [["a.x = 2"]]),
        ("a.y = b.y AND a.x = 2", [["a.x = 2"]]),
        ("NOT a.y = 1 AND a.x = 2", [["a.x = 2"]]),
        ("NOT a.y IS NULL AND a.x = 2", [["a.x = 2"]]),
        ("a.y + a.x > 3 OR b.x = 1", [[""]]),
        ("b.y = 1 OR b.x = 1", [["b.y = 1 OR b.x = 1"]]),
    ],
)
def test_a_type_that_lacks_it_satisfies_the_comparison(condition, alternatives):
    assert where(f"SEQ(A a, B b) WHERE {condition}") == alternatives


def test_that_is_mentioned_once_for_each_attribute(caplog):
    where("SEQ(A a, B b) WHERE a.y = 1 AND (a.y = 2 OR a.y = b.y)")
    assert caplog.messages == ["a condition on `a.y` is always true: `A` has no such attribute"]


def test_in_the_condition_of_a_component_too():
    assert outline(operator("SEQ(A a (y > 3 AND x > 1), B b)")).splitlines()[2] == "    filter a.x > 1"
    assert outline(operator("SEQ(A a (y > 3), B b)")).splitlines()[2] == "    A"


def test_it_is_still_typed():
    assert mistake("SEQ(A a, B b) WHERE a.y = 1 + 'x'").code == "K205"


def test_an_attribute_that_nobody_has_is_a_mistake():
    finding = mistake("SEQ(A a, B b) WHERE a.yy = 1")
    assert (finding.code, finding.message) == ("K201", "`A` has no attribute `yy`")
    assert mistake("SEQ(A a, ANY(B, C) n) WHERE n.yy = 1").message == "none of `B`, `C` has an attribute `yy`"


@pytest.mark.parametrize(
    ("condition", "terms"),
    [
        ("n.y = 1", f"{B_OR_C} n.y = 1"),
        ("NOT n.y = 1", f"{B_OR_C} n.y <> 1"),
        ("n.x = 1", "n.x = 1"),
        ("[y]", f"{B_OR_C} n.y = b.y"),
        ("[y = 4]", f"{B_OR_C} n.y = 4; b.y = 4"),
        ("NOT [y]", "n.#type IN (0); n.y <> b.y"),
        ("NOT n.y BETWEEN 1 AND b.x", f"{B_OR_C} NOT (n.y >= 1 AND n.y <= b.x)"),
        ("n.y = 1 OR b.y = 2", f"{B_OR_C} n.y = 1 OR b.y = 2"),
    ],
)
def test_with_any_the_event_says_whether_it_has_it(condition, terms):
    assert where(f"SEQ(ANY(B, C) n, B b) WHERE {condition}") == [[terms]]


def test_a_comparison_with_events_of_several_types_names_them_all():
    assert where("SEQ(ANY(B, C) n, ANY(A, B) m) WHERE n.y = m.y") == [[f"{B_OR_C} NOT (m.#type IN (1)) OR n.y = m.y"]]


def test_two_attributes_that_no_type_has_together():
    streams = "SEQ(ANY(B, D) n, B b)"
    assert mistake(f"{streams} WHERE n.y = 1").code == "K303"
    renamed = "D d RETURN d.name, d.t PUBLISH E; SEQ(ANY(B, E) n, B b)"
    assert where(f"{renamed} WHERE n.y = 1 AND n.d_name = 'k'") == [
        ["NOT (n.#type IN (0)) OR n.y = 1; NOT (n.#type IN (1)) OR n.d_name = 'k'"]
    ]
    assert where(f"{renamed} WHERE CASE WHEN n.y = 1 THEN n.d_name = 'k' END") == [[""]]


def test_a_guard_is_no_alternative():
    assert where("SEQ(A a, !ANY(B, C) n, B b) WHERE n.y = 1") == [["", f"{B_OR_C} n.y = 1"]]
    query = "SEQ(A a, !ANY(B, C) n, D d) WHERE n.y = 1 RETURN a.x"
    assert matches(query, A="1:7", B="2:0,2", D="9:0") == [(7, 9)]
    assert matches(query, A="1:7", B="2:0,1", D="9:0") == []
    assert matches(query, A="1:7", C="2:0", D="9:0") == []


def test_an_event_that_has_it_as_null_does_not_lack_it():
    query = "SEQ(ANY(B, C) n, A a) WHERE n.y = 1 RETURN n.t"
    assert matches(query, B="1:0,- 2:0,1", C="3:0", A="9:0") == [(2, 9), (3, 9)]


def test_an_event_without_it_is_left_out_of_equivalence_tests():
    streams = {"B": "1:0,1 2:0,2 9:0,1", "C": "3:0"}
    assert matches("SEQ(ANY(B, C) n, B b) WHERE [y] AND b.t = 9 RETURN n.t", **streams) == [(1, 9), (3, 9)]
    assert matches("SEQ(ANY(B, C) n, B b) WHERE NOT [y] AND b.t = 9 RETURN n.t", **streams) == [(2, 9)]
    assert matches("SEQ(ANY(B, C) n, B b) WHERE [y = 1] AND b.t = 9 RETURN n.t", **streams) == [(1, 9), (3, 9)]
    assert matches("SEQ(ANY(B, C) n, B b) WHERE NOT [y = 1] AND b.t = 9 RETURN n.t", **streams) == [(2, 9)]
    assert matches("ANY(B, C) n WHERE NOT [y = 1] RETURN n.t", **streams) == [(2, 2)]


def test_a_missing_time_satisfies_the_comparison():
    streams = STREAMS | {"E": stream(TIMESTAMPS, ts=pa.timestamp("us"), te=pa.timestamp("us"))}
    for condition in ("s.te - e.te < 3 s", "e.te - s.te < 3 s", "e.te = s.te", "s.te = 5", "s.te - s.te < 3 s", "NOT e.te - s.te < 3 s"):
        found = program(f"SEQ(Stock s, E e) WHERE {condition}", streams=streams).outputs[0][1]
        assert isinstance(found, Map)
        assert isinstance(found.input, Sequence)
        assert found.input.alternatives == (Alternative((), ()),), condition


def test_an_attribute_of_several_types_is_tried_with_each():
    typed = "A a RETURN a.x AS v, a.t AS t PUBLISH P; D d RETURN d.name AS v, d.t AS t PUBLISH Q"
    for condition in ("c.v = 1", "c.v LIKE 'x'", "c.v + 1 = p.v", "concat(c.v, 'x') = q.v"):
        assert where(f"{typed}; SEQ(P p, Q q, C c) WHERE {condition}") == [[""]]
    assert mistake(f"{typed}; SEQ(P p, Q q, C c) WHERE c.v + 1 = 'x'").code == "K205"
