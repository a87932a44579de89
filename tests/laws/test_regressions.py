"""Small cases that once failed, or that random examples meet too rarely: by the public call and by every kind of plan."""

from __future__ import annotations

from typing import Any

import pytest

import keuka

from .outcomes import by_match, by_plan, by_reference, check, lowered
from .streams import Row, Rows

SMALLEST, LARGEST = -(2**63), 2**63 - 1


def point(t: int, k: str | None = "a", n: int | None = 0, x: float | None = 0.0, b: bool | None = True) -> Row:
    return (t, k, n, x, b)


def interval(s: int, e: int, k: str | None = "a", n: int | None = 0, y: float | None = 0.0, z: bytes | None = b"z") -> Row:
    return (s, e, k, n, y, z)


# (text, rows of S, rows of I); Q is empty.
CASES: dict[str, tuple[str, list[Row], list[Row]]] = {
    "a position far before the beginning of a text": (
        "SELECT substring(k, n, 1) AS v, substring(k, n) AS w, substring(k, 2, n) AS u FROM S",
        [point(1, "b", SMALLEST), point(2, "abc", LARGEST), point(3, "abc", SMALLEST + 1)],
        [],
    ),
    "overflow behind the deciding epoch is never met": (
        "FROM S NEXT {$2.n + 9223372036854775807 > 0} I",
        [point(1)],
        [interval(2, 2, n=0), interval(3, 3, n=5)],
    ),
    "overflow inside the deciding epoch is met": (
        "FROM S NEXT {$2.n + 9223372036854775807 > 0} I",
        [point(1)],
        [interval(2, 2, n=0), interval(2, 2, n=5)],
    ),
    "overflow of a candidate that does not follow is not met": (
        "FROM S NEXT {$2.n + 9223372036854775807 > 0} I",
        [point(3)],
        [interval(2, 5, n=5), interval(4, 6, n=0)],
    ),
    "overflow in an attribute that nobody reads": (
        "SELECT k FROM (SELECT k, n + 9223372036854775807 AS large FROM S)",
        [point(1, n=1)],
        [],
    ),
    "overflow in an attribute of an event that a later filter drops": (
        "FROM FILTER {k = 'b'} (SELECT k, n + 9223372036854775807 AS large FROM S)",
        [point(1, n=1)],
        [],
    ),
    "overflow of an event that an earlier filter drops is not met": (
        "SELECT n + 9223372036854775807 AS large FROM FILTER {n = 0} S",
        [point(1, n=1), point(2, n=0)],
        [],
    ),
    "overflow beside an unknown term is unknown": (
        "FROM FILTER {b AND n + 9223372036854775807 > 0} S",
        [point(1, n=1, b=None), point(2, n=1, b=False), point(3, n=0, b=True)],
        [],
    ),
    "overflow in an update is not met where step fails": (
        "FROM S FOLD {TRUE, $2.k = 'a', $.n + 9223372036854775807 AS n} S",
        [point(1, n=0), point(2, "b", n=1), point(3, n=1)],
        [],
    ),
    "overflow in the second step of a run": (
        "FROM S FOLD {TRUE, TRUE, $.n + 9223372036854775807 AS n} (SELECT k FROM I)",
        [point(1, n=0)],
        [interval(2, 2), interval(3, 3)],
    ),
    "a filter above a NEXT does not choose another event": (
        "FROM FILTER {n > 3} (S NEXT {$2.k = $1.k} I)",
        [point(1)],
        [interval(2, 2, n=1), interval(3, 3, n=5), interval(2, 3, n=5)],
    ),
    "simultaneous events of both streams in a chain": (
        "FROM S NEXT {$2.k = $1.k} S NEXT I NEXT {$2.n >= $1.n_2} S",
        [point(t, k, n) for t in (1, 2, 2, 3, 3, 5) for k, n in (("a", 1), ("b", 2), ("a", 2))],
        [interval(s, e, n=e) for s, e in ((2, 3), (3, 3), (3, 4), (4, 4), (4, 4))],
    ),
    "equal rows stay apart": (
        "FROM S FOLD {$2.k = $.k, TRUE} S",
        [point(1), point(1), point(2), point(2), point(3)],
        [],
    ),
    "keys that are null, NaN or a zero of either sign": (
        "FROM S NEXT {$2.x = $1.x AND $2.k = $1.k} S",
        [point(t, k, x=x) for t, (k, x) in enumerate([("a", -0.0), (None, 0.0), ("a", 0.0), ("a", float("nan")), ("a", None)] * 2)],
        [],
    ),
    "runs over intervals that overlap": (
        "FROM I FOLD {$2.k = $1.k, $2.n >= $.n, $.n + $2.n AS n} (SELECT k, n FROM I)",
        [],
        [interval(s, e, "ab"[s % 2], s) for s, e in ((0, 1), (1, 1), (2, 3), (1, 3), (2, 4), (4, 4), (5, 6), (4, 6), (7, 7))],
    ),
    "a published stream on both sides": (
        "SELECT k, n FROM S NEXT {$2.k = $1.k} S PUBLISH P;\nFROM P NEXT {$2.n > $1.n} P PUBLISH R;\nFROM R UNION (FROM P NEXT P)",
        [point(t, k, n) for t, k, n in ((1, "a", 1), (2, "a", 2), (2, "b", 3), (4, "a", 4), (5, "b", 5), (6, "a", 3), (7, "b", 9))],
        [],
    ),
    "two inputs that are computed alike": (
        "FROM S FOLD {TRUE, TRUE} S PUBLISH P;\nFROM (SELECT t_1 AS a FROM P) NEXT (SELECT t_1 AS g FROM P) PUBLISH R;\n"
        "FROM S NEXT (SELECT t_1 AS g FROM P) NEXT (SELECT t_1 AS h FROM P)",
        [point(t) for t in range(1, 6)],
        [],
    ),
    "an event without a key, and absences that have one": (
        "SEQ(!S a, S b) WHERE [k]",
        [point(1, "a"), point(2, "a"), point(3, None), point(4, None), point(5, "b")],
        [],
    ),
    "an event without a key that waits for the end of its window": (
        "SEQ(S a, !I b) WHERE [k] WITHIN 3",
        [point(1, "a"), point(2, None), point(3, "b"), point(6, None)],
        [interval(2, 2, "a"), interval(3, 3, None)],
    ),
    "values of a type that only passes through and that some types lack": (
        "SEQ(ANY(S, I) a, S b)",
        [point(1), point(2), point(3)],
        [interval(2, 2)],
    ),
}

PLANS: list[dict[str, Any]] = [{}, {"rules": ()}, {"linear": False}, {"indices": False}, {"chunk_rows": 1}]


@pytest.mark.parametrize("name", CASES)
def test_the_engine_agrees_with_the_definitions(name: str):
    text, points, intervals = CASES[name]
    rows: Rows = {"S": points, "Q": [], "I": intervals}
    query = keuka.sase(text) if text.startswith("SEQ") else keuka.cel(text)
    program = lowered(query)
    expected = by_reference(program, rows)
    check(text, rows, expected, by_match(program, query, rows))
    for options in PLANS:
        check(f"{text}\nwith {options}", rows, expected, by_plan(program, rows, **options))
