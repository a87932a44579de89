"""The fingerprint of a query, which is in the ids of its matches: what changes it, and what does not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import keuka
from keuka.plan.planner import plan
from keuka.query import prepare

S = pa.table({"t": pa.array([], pa.int64()), "a": pa.array([], pa.int64()), "b": pa.array([], pa.int64()), "s": pa.array([], pa.string())})


def fingerprint(query: str, table: pa.Table = S) -> bytes:
    """Of the last query, every stream of which has the columns of the table."""
    return plan(prepare(query, dict.fromkeys(keuka.cel(query).inputs, table), time="t").program).outputs[-1][2]


SAME = {
    "names that the query gives": ("SELECT a AS x, b FROM S", "SELECT a AS y, b AS z FROM S PUBLISH Other"),
    "the order of selected columns": ("SELECT a, b FROM S", "SELECT b, a FROM S"),
    "names inside": (
        "SELECT x FROM (SELECT a AS x FROM S) NEXT {$2.x > $1.x} (SELECT a AS x FROM S)",
        "SELECT y FROM (SELECT a AS y FROM S) NEXT {$2.y > $1.y} (SELECT a AS y FROM S)",
    ),
    "a stream published or in brackets": (
        "SELECT a FROM S NEXT (SELECT b AS c FROM FILTER {a > 1} (S))",
        "SELECT b AS c FROM FILTER {a > 1} (S) PUBLISH P; SELECT a FROM S NEXT P",
    ),
    "blanks and comments": ("SELECT a FROM FILTER {a > 1} (S)", "SELECT  a FROM FILTER {a>1} (S) -- twice"),
}


@pytest.mark.parametrize("what", SAME)
def test_the_fingerprint_does_not_depend_on(what: str):
    one, other = SAME[what]
    assert fingerprint(one) == fingerprint(other)


DIFFERENT = {
    "the stream": ("SELECT a FROM S", "SELECT a FROM T"),
    "a constant": ("SELECT a FROM FILTER {a > 1} (S)", "SELECT a FROM FILTER {a > 2} (S)"),
    "the type of a constant": ("SELECT a, 1 AS c FROM S", "SELECT a, '1' AS c FROM S"),
    "the column of a condition": ("SELECT a FROM FILTER {a > 1} (S)", "SELECT a FROM FILTER {b > 1} (S)"),
    "the side of a column": ("SELECT a FROM S NEXT {$2.a > $1.b} S", "SELECT a FROM S NEXT {$1.a > $2.b} S"),
    "which column is selected": ("SELECT a FROM S", "SELECT b FROM S"),
    "which input a selected column is of": ("SELECT a FROM S NEXT S", "SELECT a_1 FROM S NEXT S"),
    "skip or take": ("SELECT a FROM FILTER {a > 1} (S NEXT S)", "SELECT a FROM S NEXT {$2.a > 1} S"),
    "how a FOLD goes on": (
        "SELECT a FROM S FOLD {TRUE, TRUE, $.a + 1 AS a} S",
        "SELECT a FROM S FOLD {TRUE, TRUE, $.b + 1 AS a} S",
    ),
    "which of two columns that begin alike": (
        "SELECT x FROM (SELECT *, 1 AS x, 1 AS y FROM S) FOLD {TRUE, TRUE, $.x + 1 AS x} S",
        "SELECT y FROM (SELECT *, 1 AS x, 1 AS y FROM S) FOLD {TRUE, TRUE, $.x + 1 AS x} S",
    ),
    "how the columns of a UNION are paired": (
        "SELECT * FROM (SELECT a AS x, b AS y FROM S) UNION (SELECT a AS x, b AS y FROM S)",
        "SELECT * FROM (SELECT a AS x, b AS y FROM S) UNION (SELECT a AS y, b AS x FROM S)",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_fingerprint_depends_on(what: str):
    one, other = DIFFERENT[what]
    assert fingerprint(one) != fingerprint(other)


EVERY_OPERATOR = (
    "SELECT * FROM FILTER {a > 1} (S) PUBLISH P;"
    "SELECT * FROM (SELECT * FROM P FOLD {$2.s = $.s, $2.a > $.a, $.b + 1 AS b} S) UNION (SELECT * FROM P NEXT {$2.b = $1.a} S)"
)


def test_the_order_of_the_columns_of_a_source_does_not_count():
    for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
        assert fingerprint(EVERY_OPERATOR, S.select(order)) == fingerprint(EVERY_OPERATOR)


def test_a_column_that_nothing_reads_does_not_count():
    query = "SELECT a FROM FILTER {b > 1} (S) NEXT {$2.a > $1.b} S"
    assert fingerprint(query, S.drop_columns(["s"])) == fingerprint(query)
