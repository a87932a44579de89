"""`$1.`, `$2.`, `$.` and names without them (docs/semantics.md, 4)."""

from __future__ import annotations

import pytest

from keuka.expressions import columns

from .cel import mistake, mistakes, operator, outline


def next_condition(text: str) -> str:
    return outline(operator(f"FROM Stock NEXT {{{text}}} News")).splitlines()[0]


def test_next_reads_both_inputs():
    assert next_condition("$1.Name = $2.Name") == "next $1.Name = $2.Name"
    assert columns(operator("FROM Stock NEXT {$1.Name = $2.Name AND Price > 1} News").skip) == {(0, 0), (1, 0), (0, 1)}


def test_a_name_of_one_input_needs_no_decorator():
    assert next_condition("Price > 1 AND Urgent") == "next $1.Price > 1.0 AND $2.Urgent"


def test_filter_takes_dollar_one():
    assert outline(operator("FROM FILTER {$1.Price > 1 AND Volume > 2} (Stock)")) == "filter Price > 1.0 AND Volume > 2\n  Stock"


def test_fold_reads_start_last_step_and_candidate():
    text = "FROM (SELECT *, 0 AS n FROM Stock) FOLD {$2.Price > $1.Price, $2.Price > $.Price, $.n + $1.n AS n} Stock"
    assert outline(operator(text)).splitlines()[0] == (
        "fold $2.Price > $1.Price; $2.Price > $.Price; $2.Name, $2.Price, $2.Volume, $2.ts, $.n + $1.n"
    )


def test_fold_reads_an_unassigned_name_of_the_first_input_without_a_decorator():
    text = "FROM (SELECT *, 0 AS n, 5 AS limit FROM Stock) FOLD {TRUE, $.n < limit, $.n + limit AS n} Stock"
    assert outline(operator(text)).splitlines()[0].startswith("fold TRUE; $.n < $1.limit; ")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("FROM Stock NEXT {Name = 'x'} News", "Name"),
        ("FROM Stock FOLD {Price > 1, TRUE} Stock", "Price"),
        ("FROM (SELECT *, 0 AS n FROM Stock) FOLD {TRUE, n < 3, $.n + 1 AS n} Stock", "n"),
        ("FROM (SELECT *, 0 AS n FROM Stock) FOLD {TRUE, TRUE, n + 1 AS n} Stock", "n"),
    ],
)
def test_ambiguous_names_must_be_decorated(text, name):
    finding = mistake(text)
    assert (finding.code, finding.span.text) == ("K203", name)
    assert f"`$1.{name}`" in finding.help[0]


@pytest.mark.parametrize(
    ("text", "decorated"),
    [
        ("SELECT $1.Price FROM Stock", "$1.Price"),
        ("SELECT $1.Price + 1 AS p FROM Stock", "$1.Price"),
        ("SELECT $.Price AS p FROM Stock", "$.Price"),
        ("FROM FILTER {$2.Price > 1} (Stock)", "$2.Price"),
        ("FROM FILTER {$.Price > 1} (Stock)", "$.Price"),
        ("FROM Stock NEXT {$.Price > 1} Stock", "$.Price"),
        ("FROM Stock NEXT {$3.Price > 1} Stock", "$3.Price"),
        ("FROM Stock FOLD {$0.Price > 1, TRUE} Stock", "$0.Price"),
    ],
)
def test_decorators_that_mean_nothing(text, decorated):
    finding = mistake(text)
    assert (finding.code, finding.span.text) == ("K204", decorated)


def test_unknown_names_list_what_exists():
    finding = mistake("FROM FILTER {Prise > 1} (Stock)")
    assert (finding.code, finding.span.text) == ("K201", "Prise")
    assert finding.help == ("did you mean `Price`?", "the filtered stream has `Name`, `Price`, `Volume`, `ts`")
    finding = mistake("FROM Stock NEXT {$2.Price > 1} News")
    assert finding.message == "the second input has no attribute `Price`"
    finding = mistake("FROM Stock NEXT {Prize > 1} News")
    assert finding.message == "neither input has an attribute `Prize`"
    assert len(finding.help) == 3


def test_all_mistakes_come_at_once():
    text = "SELECT a, b + 1 AS c FROM FILTER {d > 1} (Stock NEXT {$2.e = f} Nowhere) UNION FILTER {g = 1 AND $2.Name = Price} (Stock)"
    assert [(m.code, m.span.text) for m in mistakes(text)] == [("K202", "Nowhere"), ("K201", "g"), ("K204", "$2.Name")]
    text = "SELECT a, abs(b, c) AS d FROM FILTER {e > 1} (Stock)"
    assert [(m.code, m.span.text) for m in mistakes(text)] == [
        ("K201", "a"),
        ("K206", "abs(b, c)"),
        ("K201", "b"),
        ("K201", "c"),
        ("K201", "e"),
    ]


def test_a_wrong_column_is_reported_once():
    assert [m.code for m in mistakes("SELECT x + 1 AS y FROM (SELECT Prise AS x FROM Stock) NEXT {x > 'a'} News")] == ["K201"]
