"""Growing arrays of rows under the names of their fields: how a forest keeps what machines read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FREE = -2  # in place of the first field: the row is not in use

Array = npt.NDArray[Any]
Dtypes = Mapping[str, np.dtype[Any]]  # by kind of row


class Unit(NamedTuple):
    """Operators of one kind that run together."""

    number: int  # among the units of the kind
    depth: int  # units run in the order of depth, so that what they read is complete
    ports: tuple[int, ...]  # streams that are read
    stream: int  # the output, if the unit can stop in the middle when nobody reads that; -1: it cannot


class Arena:
    """Rows of a growing array. Single rows are given out again after `remove`; runs of rows stay until everything is compacted."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.rows: Array = np.zeros(16, dtype)
        self.size = 0
        self.free: list[int] = []

    def __getitem__(self, name: str) -> Array:
        """A field of all rows."""
        column: Array = self.rows[name]
        return column

    def extend(self, rows: Sequence[Any] | Array) -> int:
        """Append rows; the number of the first comes back."""
        first = self.size
        self.size += len(rows)
        # One spare row, so that a pointer to the first always exists.
        if self.size >= len(self.rows):
            grown = np.zeros(2 * self.size + 1, self.rows.dtype)
            grown[:first] = self.rows[:first]
            self.rows = grown
        if len(rows):
            self.rows[first : self.size] = rows if isinstance(rows, np.ndarray) else list(rows)
        return first

    def add(self, **fields: int) -> int:
        number = self.free.pop() if self.free else self.extend(self.rows[:1])
        self.set(number, fields)
        return number

    def set(self, number: int, fields: Mapping[str, int]) -> None:
        self.rows[number] = row_of(self.rows.dtype, **fields)

    def remove(self, number: int) -> None:
        """The first field of a free row is FREE."""
        self.rows[number][0] = FREE
        self.free.append(number)


def row_of(dtype: np.dtype[Any], **fields: int) -> tuple[int, ...]:
    """A row in the order of its fields."""
    return tuple([fields[name] for name in dtype.names or ()])


def spare(rows: Sequence[Any], dtype: npt.DTypeLike = np.int64) -> Array:
    """Rows with one more, so that a pointer to the first exists."""
    array: Array = np.zeros(len(rows) + 1, dtype)
    if len(rows):
        array[:-1] = rows
    return array
