"""ANY: an event of one of several types, with the attributes of all of them."""

from __future__ import annotations

import pytest

from keuka.algebra.operators import Union

from .sase import matches, mistakes, names, operator, outline, sequence


def test_the_attributes_are_those_of_all_types():
    assert names("ANY(A, B) n") == "n_x n_t n_y"
    assert matches("ANY(A, B) n", A="1:1", B="2:2,3") == [(1, 1, None, 1), (2, 2, 3, 2)]


def test_a_hidden_attribute_says_which_type_it_was():
    assert (
        outline(operator("ANY(A, B) (x > 1)"))
        == """\
map x1_x, x1_t, x1_y
  sequence x1
    filter $x1.x > 1
      union
        map x, t, y = NULL, #type = 0
          A
        map x, t, y, #type = 1
          B"""
    )
    assert sequence("ANY(A, B)").schema.names == ("x1_x", "x1_t", "x1_y", "x1_#type")


def test_types_with_the_same_attributes_need_none():
    assert outline(operator("ANY(A, C)")) == "map x1_x, x1_t\n  sequence x1\n    union\n      A\n      C"


def test_one_type_is_no_choice():
    assert outline(operator("ANY(A)")) == outline(operator("A"))


def test_the_hidden_attribute_cannot_be_named():
    assert {m.code for m in mistakes("ANY(A, B) n WHERE n.`#type` = 1 RETURN n.`#type`")} == {"K201"}


def test_the_first_type_decides_on_the_order():
    found = sequence("ANY(B, A) n").components[0].input
    assert isinstance(found, Union)
    assert found.schema.names == ("x", "y", "t", "#type")


def test_conditions_on_one_event_stand_behind():
    assert matches("SEQ(ANY(A, B) n (x > 1), C c) RETURN n.x", A="1:1 2:2", B="3:3,0", C="5:0") == [(2, 5), (3, 5)]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("ANY(A, A)", "K312", "A"),
        ("ANY(B, D)", "K303", "D"),
        ("ANY(A, Stock)", "K511", "Stock"),
        ("SEQ(A, Stock)", "K511", "Stock"),
        ("ANY(A, Nothing)", "K202", "Nothing"),
        ("A a RETURN a.x AS `#type`, a.t PUBLISH P; ANY(P, A)", "K208", "P"),
    ],
)
def test_types_that_do_not_go_together(text, code, place):
    assert [(m.code, m.span.text) for m in mistakes(text)] == [(code, place)]
