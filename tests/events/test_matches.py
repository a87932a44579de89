"""Results in the kind the data came in, and identities that never change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keuka.events.frontiers import event_batch
from keuka.events.matches import BASES, _polynomial, convert, match_ids, source_ids
from keuka.events.order import EventBatch, in_order
from keuka.events.sources import Stream, open_stream

QUERY = bytes(range(16))

# Ids are written down in other people's data: if one of these changes, that is a mistake. They were also computed by a
# plain program with Python's own integers, value by value.
GOLDEN_EVENTS = ["f0d651b3987e8032280e798a16ffc33a", "52660b575572b3644243be86d014f502"]
GOLDEN_IDS = ["0cb313fa6da49e91d051b22707aaf2f2", "9e871b099bc6d19ea556d7f6fe142ae7"]
GOLDEN_MATCHES = ["05f738aabab58ba2ba5106238aa0233a", "41b79026294ec79c3c37e82b1c7c1fcf", "23e051f27cf1ae5d08eb1bb971e87036"]


def batches(data: Any, id: str | None = None, chunk_rows: int = 65_536) -> list[EventBatch]:
    stream = open_stream("S", Stream(data, time="n", id=id))
    return [step["S"] for step in in_order([stream], {"S": stream.type.schema.names}, chunk_rows)]


def ids(data: Any, stream: str = "S", id: str | None = None, chunk_rows: int = 65_536) -> list[tuple[int, int]]:
    """One id per event, in event-time order."""
    both = [source_ids(stream, batch, id) for batch in batches(data, id, chunk_rows)]
    return [pair for lo, hi in both for pair in zip(lo.tolist(), hi.tolist(), strict=True)]


def table(n: Sequence[int], **columns: Any) -> pa.Table:
    return pa.table({"n": pa.array(n, pa.int64()), **columns})


# ---- kinds of tables

RESULT = pa.table(
    {
        "at": pa.array([datetime(2024, 1, 1), None], pa.timestamp("us", "UTC")),
        "n": [2**62 + 1, None],
        "m": [1, 2],
        "flag": [True, None],
        "p": [1.5, None],
        "s": ["a", None],
        "list": [["x"], None],
    }
)


def test_pandas_results_keep_integers_and_booleans_with_nulls_exact() -> None:
    frame = convert(RESULT, "pandas")
    assert isinstance(frame, pd.DataFrame)
    assert frame.dtypes.astype(str).drop("s").to_dict() == {
        "at": "datetime64[us, UTC]",
        "n": "Int64",
        "m": "int64",
        "flag": "boolean",
        "p": "float64",
        "list": "object",
    }
    assert frame["n"][0] == 2**62 + 1
    assert frame["n"].isna().tolist() == [False, True]
    assert frame["s"].tolist() == ["a", None]
    assert list(convert(RESULT.slice(0, 0), "pandas").columns) == RESULT.column_names


def test_polars_and_arrow_results() -> None:
    frame = convert(RESULT, "polars")
    assert isinstance(frame, pl.DataFrame)
    assert frame.rows() == [tuple(row.values()) for row in RESULT.to_pylist()]
    assert convert(RESULT, "arrow") is RESULT


# ---- ids of source events


def test_the_ids_of_events_are_the_same_in_every_version() -> None:
    data = table([1, 1], s=["some text of more than eight bytes", None], p=[0.5, math.nan], b=[True, None], day=[date(2024, 1, 1), None])
    assert [f"{lo:016x}{hi:016x}" for lo, hi in ids(data)] == GOLDEN_EVENTS
    assert [f"{lo:016x}{hi:016x}" for lo, hi in ids(data, id="s")] == GOLDEN_IDS


def test_ids_do_not_depend_on_batches_layout_or_order_of_columns() -> None:
    rng = np.random.default_rng(1)
    n = 300
    data = table(
        np.sort(rng.integers(0, 40, n)),
        s=[None if i % 7 == 0 else "x" * int(i) for i in rng.integers(0, 30, n)],
        p=rng.integers(0, 2, n) / 2,
        k=pa.array(rng.integers(0, 2, n), pa.int8()),
    )
    expected = ids(data)
    assert len(set(expected)) == n
    for chunk_rows in (1, 7, 100):
        assert ids(data, chunk_rows=chunk_rows) == expected
        assert ids(data.to_reader(max_chunksize=11), chunk_rows=chunk_rows) == expected
    assert ids(data.select(["p", "k", "n", "s"])) == expected
    other = data.set_column(1, "s", data["s"].dictionary_encode()).set_column(3, "k", data["k"].cast(pa.int64()))
    assert ids(other) == expected
    assert ids(data.set_column(1, "s", data["s"].cast(pa.large_string()))) == expected
    shuffled = data.take(pa.array(rng.permutation(n)))
    assert sorted(ids(shuffled)) == sorted(expected)


def test_equal_rows_are_told_apart_and_equal_values_are_not() -> None:
    assert len(set(ids(table([1, 1, 1], s=["a", "a", "b"])))) == 3
    zeros = ids(table([1], p=[0.0])) + ids(table([1], p=[-0.0]))
    assert zeros[0] == zeros[1]
    quiet = float(np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0])
    assert ids(table([1], p=[math.nan])) == ids(table([1], p=[quiet]))


def test_ids_tell_streams_columns_values_and_nulls_apart() -> None:
    rows = [
        ids(table([1], s=["a"])),
        ids(table([1], s=["a"]), stream="T"),
        ids(table([1], t=["a"])),
        ids(table([2], s=["a"])),
        ids(table([1], s=["a\0"])),
        ids(table([1], s=[""])),
        ids(table([1], s=pa.array([None], pa.string()))),
        ids(table([1], s=["a" * 8])),
        ids(table([1], s=["a" * 16])),
        ids(table([1], s=["b" * 8 + "a" * 8])),
        ids(table([1], s=["a" * 8 + "b" * 8])),
        ids(table([1], s=["a"], t=["b"])),
        ids(table([1], s=["b"], t=["a"])),
    ]
    assert len({pair for (pair,) in rows}) == len(rows)


@given(st.lists(st.text(max_size=20), min_size=2, max_size=30))
def test_texts_have_equal_ids_exactly_if_they_are_equal(texts: list[str]) -> None:
    (batch,) = batches(table([1] * len(texts), s=texts))
    for column in (batch.table, batch.table.slice(1)):
        got = column.column("s").to_pylist()
        part = event_batch(batch.stream, batch.start[: len(got)], batch.end[: len(got)], batch.rows[: len(got)], column)
        lo, hi = source_ids("S", part, "s")
        assert len(set(zip(lo.tolist(), hi.tolist(), strict=True))) == len(set(got))


def test_columns_that_pass_through_count_in_ids() -> None:
    values = {
        "list": [[1], [2], None],
        "record": [{"a": 1, "b": 2}, {"a": 1, "b": 3}, None],
        "raw": [b"\xff", b"\xfe", None],
        "amount": [Decimal("1.50"), Decimal("1.51"), None],
        "day": [date(2024, 1, 1), date(2024, 1, 2), None],
        "length": [timedelta(1), timedelta(2), None],
    }
    for name, column in values.items():
        assert len(set(ids(table([1, 1, 1], **{name: column})))) == 3, name
        first, second = ids(table([1, 1], **{name: [column[0], column[0]]}))
        assert first != second


def test_an_id_column_alone_makes_the_id() -> None:
    first = table([1, 2], key=["a", "b"], p=[1, 2])
    second = table([5, 6], key=["a", "b"], p=[8, 9])
    assert ids(first, id="key") == ids(second, id="key")
    assert len(set(ids(first, id="key"))) == 2
    assert ids(first, id="key") != ids(first, id="key", stream="T")


# ---- ids of matches


def leaves(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    lo, hi = rng.integers(0, 2**64, (2, n), dtype=np.uint64)
    return lo, hi, rng.integers(0, 3, n)


def test_the_ids_of_matches_are_the_same_in_every_version() -> None:
    offsets = np.array([0, 1, 3, 3])
    lo, hi, tags = np.arange(3, dtype=np.uint64), np.arange(3, 6, dtype=np.uint64), np.array([0, 1, 0])
    assert match_ids(QUERY, offsets, lo, hi, tags).to_pylist() == GOLDEN_MATCHES


def test_a_match_is_known_by_query_contributors_tags_and_their_order() -> None:
    lo, hi, tags = leaves(3)
    offsets = np.array([0, 3])

    def one(query: bytes = QUERY, order: Sequence[int] = (0, 1, 2), tags: Any = tags) -> str:
        at = np.array(order)
        (id,) = match_ids(query, np.array([0, len(at)]), lo[at], hi[at], tags[at]).to_pylist()
        return id

    different = [
        one(),
        one(query=bytes(16)),
        one(order=(1, 0, 2)),
        one(order=(0, 1)),
        one(order=(0, 1, 2, 2)),
        one(tags=tags + 1),
        one(tags=tags[::-1] + np.array([0, 1, 0])),
    ]
    assert len(set(different)) == len(different)
    assert match_ids(QUERY, offsets, lo, hi, tags).to_pylist() == [one()]
    assert all(len(id) == 32 and set(id) <= set("0123456789abcdef") for id in different)


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 2**32))
def test_ids_do_not_depend_on_the_matches_beside_them(lengths: list[int], seed: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    lo, hi, tags = leaves(int(offsets[-1]), seed)
    together = match_ids(QUERY, offsets, lo, hi, tags).to_pylist()
    alone = []
    for begin, end in pairwise(offsets):
        alone += match_ids(QUERY, np.array([0, end - begin]), lo[begin:end], hi[begin:end], tags[begin:end]).to_pylist()
    assert together == alone


@pytest.mark.parametrize("cut", [0, 1, 3, 5])
def test_the_value_of_a_concatenation_follows_from_its_parts(cut: int) -> None:
    digits, _, _ = leaves(5)
    for base in BASES:

        def value(part: Any, base: np.uint64 = base) -> int:
            offsets = np.array([0, len(part)])
            return int(_polynomial(part, offsets, np.diff(offsets), base)[0])

        first, second = digits[:cut], digits[cut:]
        assert value(digits) == (value(first) * int(base) ** len(second) + value(second)) % 2**64
