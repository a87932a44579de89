"""PUBLISH: queries that read each other's output, in one file or several, nested or not; circles and double names."""

from __future__ import annotations

import pytest

from keuka.algebra.operators import Published

from .cel import mistake, mistakes, operator, outline, program


def outputs(*texts: str) -> list[str]:
    return [name for name, _ in program(*texts).outputs]


def test_outputs_come_in_the_order_of_the_text():
    assert outputs("FROM Stock PUBLISH B; FROM B; FROM Stock PUBLISH A") == ["B", "", "A"]


def test_a_nested_publication_comes_before_the_query_around_it():
    assert outputs("FROM (FROM (FROM Stock PUBLISH C) PUBLISH B) NEXT (FROM Stock PUBLISH D) PUBLISH A; FROM C") == ["C", "B", "D", "A", ""]


def test_a_query_can_read_what_is_published_later_in_the_text():
    assert (
        outline(program("FROM FILTER {Price > 1} (High); FROM FILTER {Price > 2} (Stock) PUBLISH High").outputs[0][1])
        == """\
filter Price > 1.0
  published High
    filter Price > 2.0
      Stock"""
    )


def test_files_see_each_others_streams():
    first, second = "FROM High NEXT {$1.Name = $2.Name} Low", "SELECT Name FROM Stock PUBLISH High; FROM News PUBLISH Low"
    assert outputs(first, second) == ["", "High", "Low"]
    assert outputs(second, first) == ["High", "Low", ""]


def test_a_nested_publication_is_in_place_and_available_to_others():
    found = program("FROM (SELECT Name AS A FROM Stock PUBLISH Names) NEXT Names; FROM Names")
    assert (
        outline(found.outputs[1][1])
        == """\
next TRUE
  published Names
    map A = Name
      Stock
  published Names
    map A = Name
      Stock"""
    )
    assert isinstance(found.outputs[2][1], Published)
    assert found.outputs[1][1].schema.names == ("A_1", "A")


def test_a_published_name_points_at_where_it_is_read():
    assert operator("FROM Stock PUBLISH Mine; FROM Mine").span.text == "Mine"


@pytest.mark.parametrize(
    ("texts", "message", "label"),
    [
        (("FROM A PUBLISH A",), "`A` reads itself", "`A` -> `A`"),
        (("FROM B PUBLISH A; FROM A PUBLISH B",), "`A` reads itself by way of `B`", "`A` -> `B` -> `A`"),
        (
            ("FROM B PUBLISH A", "FROM C NEXT Stock PUBLISH B; FROM FILTER {TRUE} A PUBLISH C"),
            "`A` reads itself by way of `B`, `C`",
            "`A` -> `B` -> `C` -> `A`",
        ),
        (("FROM (FROM A PUBLISH B) PUBLISH A",), "`B` reads itself by way of `A`", "`B` -> `A` -> `B`"),
    ],
)
def test_circles_are_refused_by_name(texts, message, label):
    finding = mistake(*texts)
    assert (finding.code, finding.message, finding.label) == ("K305", message, label)


def test_reading_a_stream_twice_is_no_circle():
    assert outputs("FROM B NEXT B PUBLISH A; FROM Stock PUBLISH B; FROM A UNION (FROM B NEXT B)") == ["A", "B", ""]


def test_a_name_is_published_once():
    finding = mistake("FROM Stock PUBLISH A; FROM News PUBLISH A")
    assert (finding.code, finding.span.start) == ("K306", 40)
    assert finding.help == ("the first one is at <query>:1:20",)
    assert [m.code for m in mistakes("FROM (FROM Stock PUBLISH A) PUBLISH A; FROM A PUBLISH A")] == ["K306", "K306"]


def test_the_name_of_an_input_cannot_be_published():
    assert [m.code for m in mistakes("FROM FILTER {Price > 1} (Stock) PUBLISH Stock")] == ["K306"]


def test_unknown_streams_offer_known_ones():
    finding = mistake("FROM Stock PUBLISH Rebound; FROM Rebounds NEXT Stock")
    assert (finding.code, finding.span.text) == ("K202", "Rebounds")
    assert finding.help[0] == "did you mean `Rebound`?"


def test_a_wrong_query_does_not_make_its_readers_wrong():
    assert [m.span.text for m in mistakes("FROM FILTER {x > 1} (Nowhere) PUBLISH A; SELECT y FROM A; FROM A NEXT A")] == ["Nowhere"]


def test_streams_of_one_operator_share_a_clock():
    assert [
        (m.code, m.span.text)
        for m in mistakes("FROM Stock NEXT Ticks; FROM Ticks; FROM (SELECT Name FROM Stock) UNION (SELECT Name FROM Ticks)")
    ] == [
        ("K511", "NEXT"),
        ("K511", "(SELECT Name FROM Ticks)"),
    ]
