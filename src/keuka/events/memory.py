"""Frames and rows in memory as tables whose columns are brought to Arrow when they are read: others cost nothing, and cannot fail.

The names of the columns are known at once, and their types where the frame has one for each. The type of Python objects is guessed from the
first of them: who reads the column asks for the exact one first (`with_exact_types`). Pandas and polars are never imported here: their
objects bring what is needed along.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from keuka.errors import data_error
from keuka.events.files import place

GUESSED_ROWS = 1_000  # looked at to guess the type of Python objects

FAILURES = (pa.ArrowException, OverflowError, TypeError, ValueError)  # of Arrow, at values that it cannot convert


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """Columns that are converted when they are read. Offers what is used of a pyarrow Table."""

    schema: pa.Schema
    num_rows: int
    convert: Callable[[str], pa.ChunkedArray]
    guessed: frozenset[str]  # columns whose type is a guess
    converted: dict[str, pa.ChunkedArray] = field(default_factory=dict)

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self.converted:
            self.converted[name] = self.convert(name)
        return self.converted[name]

    def select(self, names: Sequence[str]) -> pa.Table:
        return pa.table([self.column(name) for name in names], names=list(names))

    def with_exact_types(self, names: Collection[str]) -> MemoryTable:
        unsure = self.guessed & {*names}
        if not unsure:
            return self
        fields = [f.with_type(self.column(f.name).type) if f.name in unsure else f for f in self.schema]
        return replace(self, schema=pa.schema(fields), guessed=self.guessed - unsure)


def _table(
    name: str, columns: Iterable[tuple[str, pa.DataType | None]], num_rows: int, convert: Callable[[str], pa.ChunkedArray], guess: Guess
) -> MemoryTable:
    """A table of columns whose types are known, or None."""
    fields, guessed = [], set()
    for column, arrow in columns:
        try:
            fields.append(pa.field(column, guess(column) if arrow is None else arrow))
        except UnicodeEncodeError as error:
            problem = f"the name of a column holds half a character (a lone surrogate), which no text can: {error.object!a}"
            raise data_error("K512", problem, "rename the column", where=place(name, None)) from None
        if arrow is None:
            guessed.add(column)
    return MemoryTable(pa.schema(fields), num_rows, convert, frozenset(guessed))


Guess = Callable[[str], pa.DataType]


def _type_of(values: list[Any], from_pandas: bool) -> pa.DataType:
    """The type of the first values of a column; text if they have none in common."""
    try:
        return pa.array(values, from_pandas=from_pandas).type
    except FAILURES:
        return pa.string()


def _check_names(name: str, columns: Sequence[str]) -> None:
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise data_error("K512", f"two columns have the name `{twice}`", "rename one of them", where=place(name, None))


# ---- pandas


def pandas_table(name: str, frame: Any, time: object) -> MemoryTable:
    """The frame's columns. The index is a column only if it holds times, has a name, and is asked for or the only time."""
    wanted = (time,) if isinstance(time, str) else time if isinstance(time, tuple | list) else ()
    index = frame.index
    timed = index.name is not None and index.name not in frame.columns and getattr(index.dtype, "kind", "") == "M"
    only_time = time is None and not any(getattr(dtype, "kind", "") == "M" for dtype in frame.dtypes)
    series = [frame.iloc[:, i] for i in range(frame.shape[1])]
    names = [str(column) for column in frame.columns]
    if timed and (index.name in wanted or only_time):
        series, names = [index.to_series(), *series], [str(index.name), *names]
    _check_names(name, names)
    by_name = dict(zip(names, series, strict=True))

    def convert(column: str) -> pa.ChunkedArray:
        try:
            return _arrow_of(by_name[column])
        except FAILURES as error:
            if by_name[column].dtype == object:
                _column(name, column, by_name[column].tolist(), from_pandas=True)
            problem = "the column cannot be converted to Arrow"
            raise data_error("K512", problem, f"pandas says: {error}", where=place(name, None, None, column)) from error

    def guess(column: str) -> pa.DataType:
        return _type_of(by_name[column].iloc[:GUESSED_ROWS].tolist(), from_pandas=True)

    return _table(name, [(column, _known_type(values)) for column, values in by_name.items()], len(frame), convert, guess)


def _arrow_of(series: Any) -> pa.ChunkedArray:
    return pa.Table.from_pandas(series.to_frame(), preserve_index=False).column(0)


def _known_type(series: Any) -> pa.DataType | None:
    """The type of a column that has one of its own, without a look at its values."""
    try:
        return None if series.dtype == object else _arrow_of(series.iloc[:0]).type
    except FAILURES:
        return None


# ---- polars


def polars_table(name: str, frame: Any) -> MemoryTable:
    polars = sys.modules["polars"]
    # The oldest layout has no views, which Arrow can neither reorder nor the kernel read in place.
    layout = polars.CompatLevel.oldest()
    failures = (*FAILURES, polars.exceptions.PolarsError, polars.exceptions.PanicException)

    def arrow_of(column: str, n_rows: int) -> pa.ChunkedArray:
        return frame.get_column(column).head(n_rows).to_frame().to_arrow(compat_level=layout).column(0)

    def known_type(column: str) -> pa.DataType | None:
        try:
            return None if frame.schema[column] == polars.Object else arrow_of(column, 0).type
        except failures:
            return None

    def convert(column: str) -> pa.ChunkedArray:
        if frame.schema[column] == polars.Object:  # of which polars exports the addresses
            problem = "the column holds Python objects, which Arrow has no type for"
            raise data_error("K512", problem, "convert the column to one type", where=place(name, None, None, column))
        try:
            return arrow_of(column, frame.height)
        except failures as error:
            problem = "the column cannot be converted to Arrow"
            raise data_error("K512", problem, f"polars says: {error}", where=place(name, None, None, column)) from error

    return _table(name, [(column, known_type(column)) for column in frame.columns], frame.height, convert, lambda _: pa.string())


# ---- lists


def list_table(name: str, rows: Sequence[Any]) -> MemoryTable:
    if not rows:
        raise data_error(
            "K512", "the list is empty, so its columns are unknown", "give a table with a schema instead", where=place(name, None)
        )
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise data_error("K512", f"a row is a `{type(row).__name__}`, not a dict", where=place(name, None, i))
    keys = list(dict.fromkeys(key for row in rows for key in row))
    _check_names(name, [str(key) for key in keys])
    by_name = {str(key): key for key in keys}

    def convert(column: str) -> pa.ChunkedArray:
        return pa.chunked_array([_column(name, column, [row.get(by_name[column]) for row in rows], from_pandas=False)])

    def guess(column: str) -> pa.DataType:
        return _type_of([row.get(by_name[column]) for row in rows[:GUESSED_ROWS]], from_pandas=False)

    return _table(name, [(column, None) for column in by_name], len(rows), convert, guess)


def _column(name: str, column: str, values: list[Any], from_pandas: bool) -> pa.Array:
    """One column of Python values; the message names the first row that does not go with those before it."""
    try:
        return pa.array(values, from_pandas=from_pandas)
    except OverflowError:
        big = (i for i, v in enumerate(values) if isinstance(v, int) and not -(2**63) <= v < 2**63)
        row = next(big, None)
        code, problem = "K514", "the integer does not fit 64 bits" if row is None else f"{values[row]} does not fit a signed 64-bit integer"
        raise data_error(code, problem, "convert the column to text or to doubles", where=place(name, None, row, column)) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        row = bisect_left(range(1, len(values)), True, key=lambda n: _cannot_convert(values[:n], from_pandas))
        before = next((type(v).__name__ for v in values if v is not None), "")
        problem = f"the column holds a `{type(values[row]).__name__}` after values of the kind `{before}`"
        if type(values[row]).__name__ == before:
            problem = f"the column holds values of a kind that Arrow cannot convert: {str(error).splitlines()[0]}"
        raise data_error("K512", problem, "convert the column to one type", where=place(name, None, row, column)) from error


def _cannot_convert(values: list[Any], from_pandas: bool) -> bool:
    try:
        pa.array(values, from_pandas=from_pandas)
    except FAILURES:
        return True
    return False
