"""UNION: the same names and types in any order; the first side's order counts."""

from __future__ import annotations

from keuka.algebra.operators import Map, Union

from .cel import mistake, mistakes, names, operator, outline


def test_sides_are_brought_into_the_order_of_the_first():
    union = operator("FROM Stock UNION Volumes UNION Stock")
    assert isinstance(union, Union)
    assert (
        outline(union)
        == """\
union
  Stock
  map Name, Price, Volume, ts
    Volumes
  Stock"""
    )
    assert isinstance(union.inputs[1], Map)
    assert [item.index for item in union.inputs[1].items] == [1, 3, 0, 2]
    assert names("FROM Volumes UNION Stock") == "Volume Name ts Price"


def test_a_union_can_be_an_input():
    assert names("FROM (Stock UNION Volumes) NEXT {$2.Name = $1.Name} (News UNION News)") == ("Name_1 Price Volume ts Name Title Urgent at")


def test_different_attributes_are_listed():
    finding = mistake("FROM Stock UNION (SELECT Name, Volume AS Price, ts, ts AS at FROM Stock)")
    assert finding.code == "K303"
    assert finding.span.text.startswith("(SELECT Name")
    assert finding.help[:3] == (
        "it lacks `Volume`",
        "only it has `at`",
        "`Price` is a double on the first side and an integer here",
    )


def test_every_wrong_side_is_reported():
    assert [m.span.text for m in mistakes("FROM Stock UNION News UNION Volumes UNION Odd")] == ["News", "Odd"]
