"""Arrow columns to kernel columns and back, in every layout Arrow has for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keuka.events.columns import ByteArray, Int32Array, Int64Array, canonical, from_kernel, to_kernel
from keuka.schema import Attribute, Type, attribute_of


class Texts:
    """A table of strings as the kernel has one: codes in order of first use."""

    def __init__(self) -> None:
        self.codes: dict[bytes, int] = {}
        self.n_interned = 0

    def intern(self, offsets: Int32Array, data: ByteArray, valid: ByteArray | None, n: int) -> Int64Array:
        assert offsets.dtype == np.int32
        assert len(offsets) == n + 1
        self.n_interned += n
        codes = np.full(n, -1, dtype=np.int64)
        for i in range(n):
            if valid is None or valid[i]:
                codes[i] = self.codes.setdefault(data[offsets[i] : offsets[i + 1]].tobytes(), len(self.codes))
        return codes

    def strings(self, codes: Int64Array, valid: ByteArray | None) -> tuple[Int32Array, ByteArray]:
        known = list(self.codes)
        texts = [known[code] if valid is None or valid[i] else b"" for i, code in enumerate(codes)]
        offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        return offsets, np.frombuffer(b"".join(texts), dtype=np.uint8)


def round_trip(column: pa.Array) -> list[Any]:
    attribute = attribute_of("a", column.type)
    texts = Texts()
    values, valid = to_kernel(canonical(column, attribute), attribute.type, texts.intern)
    assert values.dtype == np.int64
    assert len(values) == len(column)
    assert valid is None or (valid.dtype == np.uint8 and set(valid.tolist()) <= {0, 1})
    back = from_kernel(values, valid, attribute, texts.strings)
    back.validate(full=True)
    assert back.type == attribute.arrow
    return list(back.to_pylist())


KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.string(), st.text(max_size=5)),
    (pa.large_string(), st.text(max_size=5)),
    (pa.string_view(), st.text(max_size=20)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from("abc")),
    (pa.dictionary(pa.uint32(), pa.large_string()), st.sampled_from("abc")),
    (pa.dictionary(pa.int32(), pa.int64()), st.integers(0, 3)),
]


@pytest.mark.parametrize(("arrow", "values"), KINDS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else "")
def test_any_slice_of_a_column_comes_back_as_it_went_in(arrow: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(st.none() | values, max_size=40), st.integers(0, 20), st.integers(0, 40))
    def check(items: list[Any], begin: int, length: int) -> None:
        if pa.types.is_dictionary(arrow):
            column = pa.array(items, arrow.value_type).dictionary_encode().cast(arrow)
        else:
            column = pa.array(items, arrow)
        assert round_trip(column.slice(begin, length)) == items[begin:][:length]

    check()


def test_timestamps_keep_their_zone() -> None:
    at = datetime(2024, 5, 1, 12, tzinfo=UTC)
    for unit in ("s", "ms", "us", "ns"):
        assert round_trip(pa.array([at, None], pa.timestamp(unit, "UTC"))) == [at, None]
    assert attribute_of("a", pa.timestamp("ns", "Asia/Tokyo")).arrow == pa.timestamp("us", "Asia/Tokyo")


def test_nan_is_a_value_and_not_null() -> None:
    first, second = round_trip(pa.array([math.nan, None]))
    assert math.isnan(first)
    assert second is None


def test_doubles_are_passed_as_their_bits() -> None:
    values, valid = to_kernel(pa.array([1.0, -0.0, math.inf]), Type.DOUBLE, Texts().intern)
    assert values.view(np.float64).tolist() == [1.0, -0.0, math.inf]
    assert valid is None


@pytest.mark.parametrize("column", [pa.array(np.arange(100)), pa.array(np.arange(100.0)), pa.array(np.arange(100), pa.timestamp("us"))])
def test_64_bit_columns_are_not_copied(column: pa.Array) -> None:
    attribute = attribute_of("a", column.type)
    values, _ = to_kernel(canonical(column, attribute)[10:], attribute.type, Texts().intern)
    assert values.__array_interface__["data"][0] == column.buffers()[1].address + 80


def test_strings_reach_the_kernel_where_they_lie() -> None:
    column = pa.array(["alpha", "beta", "gamma"])
    seen: list[tuple[int, int]] = []

    def intern(offsets: Int32Array, data: ByteArray, valid: ByteArray | None, n: int) -> Int64Array:
        seen.append((offsets.__array_interface__["data"][0], data.__array_interface__["data"][0]))
        return np.zeros(n, dtype=np.int64)

    to_kernel(column[1:], Type.STRING, intern)
    assert seen == [(column.buffers()[1].address + 4, column.buffers()[2].address)]


def test_only_the_dictionary_of_a_coded_column_is_interned() -> None:
    texts = Texts()
    column = pa.array(["a", "b", None] * 100).dictionary_encode()
    values, valid = to_kernel(column, Type.STRING, texts.intern)
    assert texts.n_interned == 2
    assert values[:2].tolist() == [0, 1]
    assert valid is not None
    assert valid.tolist() == [1, 1, 0] * 100


def test_a_short_slice_of_a_big_dictionary_interns_only_its_rows() -> None:
    texts = Texts()
    column = pa.array([f"key {i}" for i in range(1000)]).dictionary_encode()
    to_kernel(column[5:8], Type.STRING, texts.intern)
    assert list(texts.codes) == [b"key 5", b"key 6", b"key 7"]


def test_a_null_inside_a_dictionary_is_null() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array(["a", None]))
    assert round_trip(column) == ["a", None, "a", None]


def test_columns_in_chunks() -> None:
    chunked = pa.chunked_array([pa.array([1, 2]), pa.array([None, 4])])
    values, valid = to_kernel(chunked, Type.INTEGER, Texts().intern)
    assert valid is not None
    assert (values[[0, 1, 3]].tolist(), valid.tolist()) == ([1, 2, 4], [1, 1, 0, 1])
    none, _ = to_kernel(pa.chunked_array([], pa.string()), Type.STRING, Texts().intern)
    assert len(none) == 0


def test_a_column_without_values_is_text() -> None:
    attribute = Attribute("a", Type.STRING, pa.string())
    column = canonical(pa.nulls(3), attribute)
    values, valid = to_kernel(column, Type.STRING, Texts().intern)
    assert valid is not None
    assert valid.tolist() == [0, 0, 0]
    assert from_kernel(values, valid, attribute, Texts().strings).to_pylist() == [None] * 3


def test_results_of_type_null_and_dates() -> None:
    zeros = np.zeros(2, dtype=np.int64)
    texts: Callable[..., Any] = Texts().strings
    assert from_kernel(zeros, None, Attribute("a", Type.NULL, pa.null()), texts).to_pylist() == [None, None]
    day = np.array([86_400_000_000, 0], dtype=np.int64)
    dates = from_kernel(day, None, Attribute("_end", Type.TIMESTAMP, pa.date32()), texts)
    assert dates.to_pylist() == [date(1970, 1, 2), date(1970, 1, 1)]
    ticks = from_kernel(day, None, Attribute("_end", Type.TIMESTAMP, pa.int64()), texts)
    assert ticks.to_pylist() == [86_400_000_000, 0]
