"""Names after NEXT and FOLD, in chains and across parentheses (docs/semantics.md, 4)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from .cel import STREAMS, mistake, mistakes, names, operator, outline, program, stream

AB = "(SELECT Name AS A, Price AS B FROM Stock)"
AC = "(SELECT Name AS A, Volume AS C FROM Stock)"
A = "(SELECT Name AS A FROM Stock)"
B = "(SELECT Price AS B FROM Stock)"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (f"{A} NEXT {B}", "A B"),
        (f"{AB} NEXT {AC}", "A_1 B A C"),
        (f"{AB} NEXT {AB}", "A_1 B_1 A B"),
        # Chains: the n-th input's attribute is A_n, the last one's is A.
        (f"{A} NEXT {A} NEXT {A}", "A_1 A_2 A"),
        (f"{A} NEXT {A} NEXT {A} NEXT {A}", "A_1 A_2 A_3 A"),
        (f"{A} NEXT {B} NEXT {A}", "A_1 B A"),
        (f"{A} NEXT {A} NEXT {B}", "A_1 A B"),
        (f"{B} NEXT {A} NEXT {A}", "B A_2 A"),
        (f"{AB} NEXT {AC} NEXT {AB}", "A_1 B_1 A_2 C A B"),
        # FILTER and plain parentheses are part of the chain, whichever side they stand on.
        (f"FILTER {{TRUE}} ({A} NEXT {A}) NEXT {A}", "A_1 A_2 A"),
        (f"(({A} NEXT {A})) NEXT (({A}))", "A_1 A_2 A"),
        (f"{A} NEXT ({A} NEXT {A})", "A_1 A_2 A"),
        (f"{B} NEXT FILTER {{TRUE}} ({A} NEXT {A})", "B A_2 A"),
        (f"({A} NEXT {A}) NEXT ({A} NEXT {A})", "A_1 A_2 A_3 A"),
        # FOLD: every attribute of the first input as it was, then as it is after the latest step.
        (f"{AB} FOLD {{TRUE, TRUE}} {AB}", "A_1 B_1 A B"),
        (f"{AB} FOLD {{TRUE, TRUE}} {A}", "A_1 B_1 A B"),
        (f"{A} FOLD {{TRUE, TRUE}} {A} NEXT {A}", "A_1 A_2 A"),
        (f"{A} NEXT ({A} FOLD {{TRUE, TRUE}} {A})", "A_1 A_2 A"),
        (f"{A} FOLD {{TRUE, TRUE}} {A} FOLD {{TRUE, TRUE}} {A}", "A_1 A_2 A"),
        (f"{A} NEXT {A} FOLD {{TRUE, TRUE}} {A}", "A_1 A_2 A"),
        (f"{AB} NEXT {AC} FOLD {{TRUE, TRUE}} {A}", "A_1 B_1 A_2 C_2 B A C"),
        # A query starts afresh, and so do a UNION and a stream read by name.
        (f"(SELECT A AS X, A_1 AS Y FROM {A} NEXT {A}) NEXT {A}", "X Y A"),
        (f"({A} UNION {A}) NEXT {A}", "A_1 A"),
    ],
)
def test_names(stream, expected):
    assert names(f"FROM {stream}") == expected


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        (f"(SELECT Name AS A, Name AS A_1 FROM Stock) NEXT {A}", "A_1"),
        (f"{A} NEXT (SELECT Name AS A, Name AS A_1 FROM Stock)", "A_1"),
        (f"{A} NEXT {A} NEXT (SELECT Name AS A_1 FROM Stock)", "A_1"),
        (f"(SELECT * FROM {A} NEXT {A}) NEXT {A}", "A_1"),
        (f"(FROM {A} NEXT {A}) NEXT {A}", "A_1"),
        (f"(SELECT Name AS A, Name AS A_1 FROM Stock) FOLD {{TRUE, TRUE}} {A}", "A_1"),
        (f"{A} NEXT {A} FOLD {{TRUE, TRUE, $.A_1 AS A_1}} {A}", "A_1"),
    ],
)
def test_collisions_with_a_users_own_name_are_refused(stream, name):
    finding = mistake(f"FROM {stream}")
    assert finding.code == "K208"
    assert finding.message == f"two attributes would be named `{name}` here"
    assert finding.span.text in ("NEXT", "FOLD")
    assert "SELECT" in finding.help[0]


def test_two_collisions_are_one_finding():
    text = "FROM (SELECT Name AS A, Name AS A_1, Name AS B, Name AS B_1 FROM Stock) NEXT (SELECT Name AS A, Name AS B FROM Stock)"
    finding = mistake(text)
    assert finding.message.endswith("`A_1` here")
    assert finding.help[-1] == "so would `B_1`"


def test_a_deep_chain_has_as_many_findings_as_steps_that_collide():
    columns = ", ".join([f"Name AS A{i}, Name AS A{i}_1" for i in range(50)])
    step = f"(SELECT {columns} FROM Stock)"
    assert len(mistakes("FROM " + " NEXT ".join([step] * 6))) == 5


def test_a_published_stream_starts_afresh():
    assert names("FROM Stock NEXT Stock PUBLISH Pairs; SELECT Name_1 AS N, Price FROM Pairs PUBLISH P; FROM P NEXT News") == (
        "N Price Name Title Urgent at"
    )
    assert mistake("FROM Stock NEXT Stock PUBLISH Pairs; FROM Pairs NEXT (SELECT Name FROM Stock)").code == "K208"


def test_a_numbered_attribute_that_no_step_changes_is_kept_once():
    assert (
        outline(operator(f"FROM {A} NEXT {B} NEXT {A} FOLD {{TRUE, TRUE}} {A}"))
        == """\
map A_1, B_2, A_3, B, A
  fold TRUE; TRUE; $.A_1, $.B, $2.A
    next TRUE
      next TRUE
        map A = Name
          Stock
        map B = Price
          Stock
      map A = Name
        Stock
    map A = Name
      Stock"""
    )


def test_columns_of_a_chain_can_be_read_above_it():
    text = "SELECT Price_1 AS a, Price_2 AS b, Price AS c FROM FILTER {Price_1 < Price_2 AND Price_2 < Price} (Stock NEXT Stock NEXT Stock)"
    assert outline(operator(text)).splitlines()[:2] == [
        "map a = Price_1, b = Price_2, c = Price",
        "  filter Price_1 < Price_2 AND Price_2 < Price",
    ]
    assert [item.index for item in operator(text).items] == [1, 5, 9]


def test_output_keeps_arrow_types_under_new_names():
    streams = {**STREAMS, "Zoned": stream(at=pa.timestamp("us", tz="Asia/Tokyo"), x=pa.list_(pa.int64()))}
    schema = program("FROM Zoned NEXT Zoned", streams=streams).outputs[0][1].schema
    assert [(a.name, a.arrow) for a in schema.attributes] == [
        ("at_1", pa.timestamp("us", tz="Asia/Tokyo")),
        ("x_1", pa.list_(pa.int64())),
        ("at", pa.timestamp("us", tz="Asia/Tokyo")),
        ("x", pa.list_(pa.int64())),
    ]
