"""Values at the ends of what the kernel can hold. Right answers here, and under `make sanitize` no undefined behaviour on the way."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

import keuka

LAST = 2**63 - 1  # tick, and integer
FIRST = -(2**63)


def test_instances_expire_at_the_last_tick_of_all():
    """So many begin there that those out of time are looked for, with the tick after it in mind."""
    ticks = pa.table({"t": [LAST - 1] * 10 + [LAST] * 3_000, "k": [*range(10), *range(3_000)]})
    matches = keuka.match("SELECT k FROM S NEXT {$2.k = $1.k AND DUR < 100} S", ticks, time="t")
    assert sorted(matches["k"].to_pylist()) == list(range(10))
    assert set(matches["_end"].to_pylist()) == {LAST}


@pytest.mark.parametrize(("window", "n_matches"), [(2, 0), (3, 2), (LAST - 1, 2), (LAST, 3)])
def test_windows_reach_from_the_first_tick_to_the_last(window: int, n_matches: int):
    """Neither a difference of ticks nor a window wraps round: between the middle two events lies more than 64 bits can say."""
    ticks = pa.table({"t": [FIRST, FIRST + 1, LAST - 1, LAST], "k": [1, 1, 1, 1]})
    query = "SELECT k FROM S NEXT {DUR < :window OR DUR = :last} S"
    matches = keuka.match(query, ticks, time="t", params={"window": window, "last": LAST if window == LAST else 0})
    assert matches.num_rows == n_matches


EMPTY = pa.table({"t": [1, 2, 3], "s": ["", "", None], "n": pa.array([None, "", ""], pa.string())})


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("concat(s, s)", ["", "", None]),
        ("upper(s)", ["", "", None]),
        ("lower(s)", ["", "", None]),
        ("substring(s, 1, 1)", ["", "", None]),
        ("length(s)", [0, 0, None]),
        ("s LIKE s", [True, True, None]),
        ("s < n", [None, False, None]),
        ("least(s, n)", ["", "", ""]),
    ],
)
def test_a_run_whose_only_text_is_empty(expression: str, values: list[object]):
    """The string table holds a text then, but no bytes."""
    assert keuka.match(f"SELECT {expression} AS x FROM S", EMPTY, time="t")["x"].to_pylist() == values


def test_empty_texts_survive_a_look_for_texts_nobody_holds():
    n = 200_000
    ticks = pa.table({"t": range(n), "s": [str(t) if t % 2 else "" for t in range(n)]})
    matches = keuka.match("SELECT s FROM S NEXT {$2.s = $1.s AND DUR < 4} S", keuka.Stream(ticks.to_reader(max_chunksize=1_000), time="t"))
    assert matches["s"].to_pylist() == [""] * (n // 2 - 1)


def test_texts_are_read_to_their_end_and_no_further():
    """Texts of every length up to three words, each the last one of its buffer."""
    for length in range(25):
        text = "abcdefghijklmnopqrstuvwxyz"[:length]
        data = pa.py_buffer(bytes(text, "ascii"))
        column = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, length)), data])
        found = keuka.match("SELECT s, length(s) AS n FROM S", pa.table({"t": [1], "s": column}), time="t").to_pylist()
        assert [(row["s"], row["n"]) for row in found] == [(text, length)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("floor(x)", "K507"),
        ("ceil(-x)", FIRST),
        ("ceil(-x - 2048.0)", "K507"),
        ("floor(x - 1024.0)", 2**63 - 1024),
        ("floor(-x)", FIRST),
        ("round(x, -400)", 0.0),
        ("round(n, -18)", 9 * 10**18),
        ("round(n, -19)", "K507"),
        ("round(n, :first)", 0),
        ("n % -1", 0),
        ("-n - 1", FIRST),
        ("abs(-n - 1)", "K507"),
        ("-n - 2", "K507"),
    ],
)
def test_numbers_that_just_fit_and_that_just_do_not(expression: str, value: object):
    numbers = pa.table({"t": [1], "x": [2.0**63], "n": [LAST]})
    query = f"SELECT {expression} AS y FROM S"
    params = {"first": FIRST + 1} if ":first" in expression else {}
    if isinstance(value, str):
        with pytest.raises(keuka.DataError, match=value):
            keuka.match(query, numbers, time="t", params=params)
    else:
        assert keuka.match(query, numbers, time="t", params=params)["y"].to_pylist() == [value]
