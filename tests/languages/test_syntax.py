"""The grammar: what belongs to what, what may be left out, and where nodes stand in the text."""

from __future__ import annotations

import pytest

from keuka.expressions import show
from keuka.languages.cel.syntax import Filter, Fold, Next, Query, Read, Union
from keuka.languages.values import Operation, walk

from .cel import condition, operator, outline, parsed


def stream_of(text: str):
    return parsed(f"FROM {text}").queries[0].stream


def test_binary_constructs_associate_to_the_left():
    assert (
        outline(operator("FROM Stock NEXT News NEXT Stock"))
        == """\
next TRUE
  next TRUE
    Stock
    News
  Stock"""
    )


def test_filter_applies_to_the_nearest_stream():
    stream = stream_of("FILTER {a} S NEXT T")
    assert isinstance(stream, Next)
    assert isinstance(stream.first, Filter)


def test_filters_can_be_stacked_without_parentheses():
    assert outline(operator("FROM FILTER {Price > 1} FILTER {Price < 2} Stock")) == "filter Price > 1.0\n  filter Price < 2.0\n    Stock"


def test_unions_in_a_row_are_one():
    stream = stream_of("A UNION B UNION C NEXT D UNION E")
    assert isinstance(stream, Union)
    assert len(stream.inputs) == 2
    assert isinstance(stream.inputs[0].first, Union)
    assert [part.name.text for part in stream.inputs[0].first.inputs] == ["A", "B", "C"]


def test_select_may_be_left_out():
    assert outline(operator("FROM Stock")) == outline(operator("SELECT * FROM Stock")) == "Stock"


def test_queries_end_with_a_semicolon_and_the_last_one_need_not():
    assert [q.publish.text for q in parsed("FROM S PUBLISH A; FROM S PUBLISH B;").queries] == ["A", "B"]
    assert [q.publish.text for q in parsed("FROM S PUBLISH A; FROM S PUBLISH B").queries] == ["A", "B"]


def test_subqueries_may_publish():
    (query,) = parsed("FROM (SELECT a FROM S PUBLISH A) NEXT ((FROM T PUBLISH B))").queries
    assert [node.publish.text for node in walk(query) if isinstance(node, Query) and node.publish] == ["A", "B"]


def test_fold_takes_any_number_of_assignments():
    stream = stream_of("S FOLD {p, q, $.a + 1 AS a, b AS `b c`} T")
    assert isinstance(stream, Fold)
    assert [a.name.text for a in stream.assignments] == ["a", "b c"]
    assert stream_of("S FOLD {p, q} T").assignments == ()


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Price > 1 OR Price < 2 AND Volume = 3", "Price > 1.0 OR Price < 2.0 AND Volume = 3"),
        ("NOT Price > 1 AND Volume = 3", "NOT (Price > 1.0) AND Volume = 3"),
        ("NOT (Price > 1 AND Volume = 3)", "NOT (Price > 1.0 AND Volume = 3)"),
        ("Volume + 2 * 3 = 7 - 1 - 2", "Volume + 2 * 3 = 7 - 1 - 2"),
        ("Volume - (2 - 1) = 0", "Volume - (2 - 1) = 0"),
        ("-Volume * 2 % 3 = 1", "-(Volume) * 2 % 3 = 1"),
        ("Name LIKE 'I%' AND Name NOT LIKE '%M'", "Name LIKE 'I%' AND NOT (Name LIKE '%M')"),
        ("Name IN ('a') OR Name NOT IN ('b', 'c')", "Name IN ('a') OR NOT (Name IN ('b', 'c'))"),
        (
            "Volume BETWEEN 1 AND 2 AND Price NOT BETWEEN 1 + 1 AND 3.5",
            "Volume >= 1 AND Volume <= 2 AND NOT (Price >= 1 + 1 AND Price <= 3.5)",
        ),
        ("Name IS NULL OR Price IS NOT NULL", "(Name) IS NULL OR NOT ((Price) IS NULL)"),
        ("Volume != 3 AND Volume <> 4", "Volume <> 3 AND Volume <> 4"),
        ("CASE WHEN Price > 1 THEN TRUE ELSE Volume > 2 END", "CASE WHEN Price > 1.0 THEN TRUE ELSE Volume > 2 END"),
        ("CASE Name WHEN 'a' THEN 1 WHEN 'b' THEN 2 END = 2", "CASE WHEN Name = 'a' THEN 1 WHEN Name = 'b' THEN 2 ELSE NULL END = 2"),
        ("UPPER(Name) = concat('a', lower(\"B\"))", "upper(Name) = concat('a', lower('B'))"),
    ],
)
def test_precedence(text, meaning):
    assert show(condition(text)) == meaning


def test_comparisons_can_be_compared_in_parentheses():
    equality = condition("(Price > 1) = (Volume > 2)")
    assert (equality.op, [side.op for side in equality.args]) == ("eq", ["gt", "gt"])


def test_conditions_joined_by_and_are_one_flat_operation():
    (query,) = parsed("FROM FILTER {a AND b AND (c AND d)} S").queries
    predicate = query.stream.predicate
    assert isinstance(predicate, Operation)
    assert len(predicate.operands) == 3


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Read, "Stock"),
        (Filter, "FILTER {Price>1} (Stock)"),
        (Next, "FILTER {Price>1} (Stock) NEXT {$2.Name = $1.Name} ( Stock )"),
    ],
)
def test_spans_of_streams(kind, text):
    (query,) = parsed(
        "SELECT Name /* n */ , -Volume * 2 AS v FROM FILTER {Price>1} (Stock) NEXT {$2.Name = $1.Name} ( Stock ) PUBLISH X ;"
    ).queries
    assert next(node for node in walk(query) if isinstance(node, kind)).span.text == text
    assert query.span.text.endswith("PUBLISH X")
    assert [item.span.text for item in query.items] == ["Name", "-Volume * 2 AS v"]


def test_spans_of_expressions_survive_lowering():
    predicate = condition("Price  >  1.05 * (Volume + 2) AND Name NOT IN ('a', 'b')")
    assert predicate.span.text == "Price  >  1.05 * (Volume + 2) AND Name NOT IN ('a', 'b')"
    comparison, negation = predicate.args
    assert comparison.span.text == "Price  >  1.05 * (Volume + 2)"
    assert negation.args[0].span.text == "Name NOT IN ('a', 'b')"
    assert comparison.args[0].span.text == "Price"
