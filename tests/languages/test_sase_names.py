"""Variables: by position, by name, and the mistakes one makes with them. Types and attributes in backticks."""

from __future__ import annotations

import pytest

from .sase import mistake, mistakes, where


@pytest.mark.parametrize("text", ["$x2.x = 1", "$2.x = 1", "b.x = 1", "`b`.`x` = 1"])
def test_a_component_has_a_position_and_perhaps_a_name(text):
    assert where(f"SEQ(A, B b) WHERE {text}") == [["b.x = 1"]]


def test_positions_count_absent_events():
    assert where("SEQ(A, !B, C) WHERE $x3.x = $x2.x") == [["", "$x3.x = $x2.x"]]


def test_a_name_like_a_position_must_be_the_right_one():
    assert where("SEQ(A x1, B) WHERE x1.x = $x1.t") == [["x1.x = x1.t"]]
    finding = mistake("SEQ(A x2, B)")
    assert (finding.code, finding.span.text) == ("K312", "x2")
    assert mistake("SEQ(A `$x2`, B)").code == "K312"


def test_variables_may_be_called_like_types_and_units():
    assert where("SEQ(A B, B A, C s) WHERE B.x = A.y AND s.x = 1") == [["B.x = A.y; s.x = 1"]]


@pytest.mark.parametrize(
    ("condition", "help"),
    [
        ("item.x = 1", "did you mean `items`?"),
        ("x1.x = 1", "by position it is `$x1`"),
        ("A.x = 1", "that is a type; give it a variable, `A a`, and write `a.`"),
        ("$x4.x = 1", "did you mean `$x3`?"),
        ("$x0.x = 1", "did you mean `$x3`?"),
        ("$.x = 1", "the components are `items`, `b`, `$x3`"),
    ],
)
def test_unknown_variables(condition, help):
    finding = mistake(f"SEQ(A items, B b, C) WHERE {condition}")
    assert (finding.code, finding.help[0]) == ("K204", help)
    assert finding.help[-1] == "the components are `items`, `b`, `$x3`"


def test_a_variable_is_given_once():
    finding = mistake("SEQ(A a, B b, C a) WHERE a.nothing = 1")
    assert (finding.code, finding.span.start) == ("K312", 16)


def test_an_attribute_without_a_variable():
    finding = mistake("SEQ(A a, B) WHERE x = 1")
    assert (finding.code, finding.help) == ("K203", ("write `a.x` or `$x2.x`", "if all events are to agree on it, that is `[x]`"))
    assert mistake("SEQ(A a, B) WHERE nothing = 1").code == "K201"


def test_the_condition_of_a_component_is_about_it_alone():
    finding = mistake("SEQ(A a, B b (y > a.x))")
    assert (finding.code, finding.span.text, finding.help) == ("K204", "a.x", ("compare it in WHERE: `WHERE a.x = b.x`",))


def test_similar_attributes_are_offered():
    finding = mistake("SEQ(SHELF-READING s, EXIT-READING e) WHERE s.shelfid = 1")
    assert finding.help == ("did you mean `shelf_id`?", "it has `id`, `t`, `shelf_id`")
    assert mistake("SEQ(A a, B b) WHERE a._end > 3").help == ("results get this column; a query uses the time column, `e.ts - s.ts`",)


def test_unknown_streams_are_all_reported():
    assert [m.span.text for m in mistakes("SEQ(Nothing n, ANY(A, SHELF_READING) s)")] == ["Nothing", "SHELF_READING"]
    assert mistakes("SHELF_READING")[0].help[0] == "did you mean `SHELF-READING`?"


@pytest.mark.parametrize("variable", ["x²", "x٣", "$²", "$x²", "x" + "9" * 5000, "$" + "9" * 5000, "xⅣ"])
def test_digits_that_are_no_position_name_no_component(variable):
    assert mistake(f"SEQ(A a, B b) WHERE {variable}.x = 1").code == "K204"
