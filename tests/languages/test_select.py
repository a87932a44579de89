"""SELECT: columns, their names and types, DUR and what is refused (docs/semantics.md, 4)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from .cel import mistake, mistakes, names, operator, outline, parsed


def test_star_and_more():
    assert names("SELECT *, Price * 2 AS double, Name AS n FROM Stock") == "Name Price Volume ts double n"


def test_an_attribute_in_parentheses_keeps_its_name():
    assert names("SELECT (Price), ((Name)) FROM Stock") == "Price Name"


def test_computed_columns_need_names():
    finding = mistake("SELECT Price * 2 FROM Stock")
    assert (finding.code, finding.span.text) == ("K101", "Price * 2")
    assert finding.help == ("write `Price * 2 AS name`",)


@pytest.mark.parametrize(
    ("column", "code"), [("DUR", "K211"), ("2 * (DUR + 1)", "K211"), ("sum(Price)", "K206"), ("1 + lenght(Name)", "K206")]
)
def test_a_name_is_not_advised_where_it_would_not_help(column, code):
    assert mistake(f"SELECT {column} FROM Stock").code == code


def test_text_in_place_of_a_column_may_be_a_name_in_the_wrong_quotes():
    finding = mistake("SELECT 'Last Price' FROM Stock")
    assert finding.help == ("text in quotes is a string; a name stands in backticks: `Last Price`", "write `'Last Price' AS name`")


def test_names_are_distinct():
    assert [(m.code, m.span.text) for m in mistakes("SELECT *, Price, Name AS a, Volume AS a FROM Stock")] == [
        ("K209", "Price"),
        ("K209", "Volume AS a"),
    ]
    assert {m.message for m in mistakes("SELECT *, * FROM Volumes")} == {
        f"two columns are named `{n}`" for n in ("Name", "Price", "Volume", "ts")
    }


def test_types_of_columns():
    schema = operator("SELECT Name, Price, Volume / 2 AS half, Price > 1 AS high, ts - ts AS zero, ts + 1 s AS later FROM Stock").schema
    assert [a.type.value for a in schema.attributes] == ["string", "double", "double", "boolean", "integer", "timestamp"]


def test_computed_times_keep_their_zone():
    schema = operator("SELECT at, at + 1 s AS later, '2024-01-01' < at AS b, coalesce('2024-01-01', at) AS c FROM News").schema
    paris = pa.timestamp("us", tz="Europe/Paris")
    assert [a.arrow for a in schema.attributes] == [paris, paris, pa.bool_(), paris]


def test_columns_of_other_types_pass_through_unchanged():
    found = operator("SELECT Tags, Tags AS t FROM (SELECT * FROM Odd)")
    assert [a.arrow for a in found.schema.attributes] == [pa.list_(pa.string())] * 2


@pytest.mark.parametrize("text", ["Tags = Tags", "Tags IS NULL", "coalesce(Tags, Tags) IS NULL", "length(Tags) = 1"])
def test_columns_of_other_types_cannot_be_computed_with(text):
    assert {(m.code, m.span.text) for m in mistakes(f"FROM FILTER {{{text}}} (Odd)")} == {("K205", "Tags")}


def test_a_column_needs_a_type():
    assert mistake("SELECT NULL AS x FROM Stock").code == "K205"
    assert mistake("SELECT coalesce(NULL, :p) AS x FROM Stock", p=None).code == "K205"
    assert operator("SELECT CASE WHEN FALSE THEN 0 END AS x FROM Stock").schema[0].type.value == "integer"


def test_dur_is_for_predicates():
    finding = mistake("SELECT DUR AS d FROM Stock")
    assert (finding.code, finding.span.text) == ("K211", "DUR")
    assert outline(operator("FROM FILTER {DUR > 5} (Stock NEXT {DUR < 10} News)")).splitlines()[:2] == ["filter DUR > 5", "  next DUR < 10"]


def test_selecting_everything_is_no_operator():
    assert outline(operator("SELECT * FROM (SELECT * FROM (FROM Stock))")) == "Stock"


def test_a_missing_name_is_found_before_anything_else():
    assert [query.items[0].name.text for query in parsed("SELECT a FROM S; SELECT b AS c FROM S").queries] == ["a", "c"]
