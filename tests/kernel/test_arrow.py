"""Record batches in and out of the kernel by Arrow's C data interface."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keuka.kernel.arrow import Chunk, Words, match_batch

SCHEMA = pa.schema({"n": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us"), "k": pa.string()})


def rows(n: int, *, null_at: int | None = None) -> pa.RecordBatch:
    n_values = [None if i == null_at else 10 * i for i in range(n)]
    columns = [n_values, [float(i) for i in range(n)], list(range(n)), [str(i) for i in range(n)]]
    return pa.record_batch([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def test_times_are_read_from_a_column_of_any_slice():
    chunk = Chunk(rows(10).slice(3, 4), 2)
    assert (chunk.n_rows, chunk.has_times, chunk.is_point, chunk.is_ascending()) == (4, True, True, True)
    assert chunk.ends().tolist() == chunk.starts().tolist() == [3, 4, 5, 6]
    assert [chunk.end_at(i) for i in range(4)] == [3, 4, 5, 6]
    for row in (-1, 4):
        with pytest.raises(IndexError):
            chunk.end_at(row)


def test_times_may_be_given():
    starts, ends = np.array([0, 0, 3]), np.array([1, 2, 1])
    chunk = Chunk(rows(3), -1, starts, ends)
    assert (chunk.is_point, chunk.is_ascending()) == (False, False)
    assert (chunk.starts().tolist(), chunk.ends().tolist()) == ([0, 0, 3], [1, 2, 1])
    with pytest.raises(ValueError, match="differ in length"):
        Chunk(rows(3), -1, starts, ends[:2])


def test_a_time_column_with_nulls_is_left_to_others():
    chunk = Chunk(rows(3, null_at=1), 0)
    assert not chunk.has_times
    with pytest.raises(IndexError):
        chunk.end_at(0)
    with pytest.raises(IndexError):
        chunk.n_before(5, 0, 1)
    with pytest.raises(IndexError):
        Words([(chunk, 0, 1)], [])


def test_a_batch_without_rows_and_a_batch_without_columns():
    assert Chunk(rows(0), 2).ends().tolist() == []
    times = np.array([4, 5])
    nothing = Chunk(pa.RecordBatch.from_arrays([], names=[]), -1, times, times)
    assert (nothing.n_rows, nothing.n_before(5, 0, 2)) == (2, 1)
    assert Words([(nothing, 0, 2)], []).left == []


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8), st.data())
def test_rows_before_a_frontier_are_counted(ends: list[int], data: st.DataObject):
    array = np.array(sorted(ends), np.int64)
    chunk = Chunk(pa.record_batch({"n": array}), -1, array, array)
    first = data.draw(st.integers(0, len(ends)))
    last = data.draw(st.integers(first, len(ends)))
    frontier = data.draw(st.one_of(st.sampled_from([*ends, -(2**63), 2**63]), st.integers(-(2**63), 2**63)))
    assert chunk.n_before(frontier, first, last) == sum([end < frontier for end in sorted(ends)[first:last]])


def test_rows_and_columns_that_do_not_exist_are_refused():
    chunk = Chunk(rows(3), 2)
    for first, last in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(IndexError):
            chunk.n_before(0, first, last)
        with pytest.raises(IndexError):
            Words([(chunk, first, last)], [(0, 0)])
    for index in (-1, 4):
        with pytest.raises(IndexError):
            Words([(chunk, 0, 3)], [(0, index)])
    with pytest.raises(ValueError, match="64-bit values"):
        Words([(chunk, 0, 3)], [(0, 3)])  # text has three buffers
    for index in (-2, 4):
        with pytest.raises((IndexError, TypeError)):
            Chunk(rows(3), index)


def test_of_wide_batches_single_columns_are_read():
    """As much as those of narrow ones, from slices as well."""
    wide = pa.record_batch({f"c{i}": pa.array([None if i == 7 and t == 1 else 100 * i + t for t in range(5)]) for i in range(60)})
    chunk = Chunk(wide.slice(1, 3), 40)
    assert (chunk.n_rows, chunk.has_times, chunk.ends().tolist()) == (3, True, [4001, 4002, 4003])
    assert [chunk.end_at(i) for i in range(3)] == [4001, 4002, 4003]
    assert Words([(chunk, 0, 3)], [(1, 59), (2, 7), (3, 40)]).left == [2]
    assert not Chunk(wide, 7).has_times
    for index in (-1, 60):
        with pytest.raises(IndexError):
            Words([(chunk, 0, 3)], [(0, index)])


def test_columns_with_nulls_are_left():
    whole, broken = Chunk(rows(3), 2), Chunk(rows(3, null_at=0), 2)
    assert Words([(whole, 0, 3)], [(7, 0), (8, 1)]).left == []
    assert Words([(broken, 0, 3)], [(7, 0), (8, 1)]).left == [7]
    assert Words([(whole, 1, 2), (broken, 0, 3)], [(7, 0), (8, 1)]).left == [7]


def test_a_batch_shares_the_memory_of_its_columns_and_keeps_it():
    words = np.arange(16).reshape(4, 4)
    schema = pa.schema({"a": pa.int64(), "c": pa.string(), "start": pa.timestamp("us"), "end": pa.int64(), "d": pa.bool_()})
    texts, flags = pa.array(["p", None, "q", "r"]), pa.array([True, False, None, True])
    batch = match_batch(words, [2, 3, 0, 1], {1: texts, 4: flags}, schema)
    batch.validate(full=True)
    assert [batch.column(1), batch.column(4)] == [texts, flags]
    assert batch.column(2).cast(pa.int64()).to_pylist() == [0, 1, 2, 3]
    assert batch.column(3).to_pylist() == [4, 5, 6, 7]
    words[2, 0] = 99
    column = batch.column(0)
    del batch, words
    gc.collect()
    assert column.to_pylist() == [99, 9, 10, 11]
    again = match_batch(np.empty((3, 0), np.int64), [2, 0, 1], {}, pa.schema({"a": pa.int64(), "start": pa.int64(), "end": pa.int64()}))
    assert again.num_rows == 0
    again.validate(full=True)


def test_columns_that_do_not_fit_a_batch_are_refused_and_let_go():
    words = np.arange(12).reshape(3, 4)
    schema = pa.schema({"a": pa.int64(), "start": pa.int64(), "end": pa.int64(), "b": pa.int64()})
    for arrays in ({}, {3: pa.array([1, 2, 3])}, {3: pa.array([1.0, 2.0, 3.0, 4.0])}):
        with pytest.raises(ValueError, match="a column of a batch"):
            match_batch(words, [2, 0, 1], arrays, schema)
    for row in (-1, 3):
        with pytest.raises(ValueError, match="a column of a batch"):
            match_batch(words, [2, 0, row], {3: pa.array([1, 2, 3, 4])}, schema)
    for other in (np.arange(24).reshape(3, 8)[:, ::2], np.arange(12.0).reshape(3, 4)):
        with pytest.raises(ValueError, match=r"contiguous|mismatch"):
            match_batch(other, [2, 0, 1], {3: pa.array([1, 2, 3, 4])}, schema)
