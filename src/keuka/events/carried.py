"""Columns that only pass through a query: kept here by the number of their event while an instance may still refer to it.

The kernel carries the numbers; matches look the values up. What no instance refers to any more is forgotten between batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keuka.errors import data_error
from keuka.events.columns import Int64Array


class CarriedColumn:
    """A column of a stream by event number, with the events nobody needs left out."""

    def __init__(self, arrow: pa.DataType, where: str) -> None:
        """`where` names the stream and the column in messages."""
        _check_type(arrow, where)
        self._arrow = arrow
        self._where = where
        self._numbers: list[Int64Array] = []
        self._values: list[pa.Array] = []

    def __len__(self) -> int:
        return sum([len(numbers) for numbers in self._numbers])

    def append(self, first_number: int, values: pa.Array) -> None:
        """Add the column of a batch; numbers only ever grow."""
        self._numbers.append(np.arange(first_number, first_number + len(values)))
        self._values.append(values)

    def take(self, numbers: Int64Array) -> pa.Array:
        """The values of events by their numbers; all of them must still be here."""
        known, values = self._joined()
        return values.take(pa.array(np.searchsorted(known, numbers)))

    def forget_all_but(self, numbers: Int64Array) -> None:
        kept = np.unique(numbers)
        values = self.take(kept)
        self._numbers, self._values = [kept], [values]

    def _joined(self) -> tuple[Int64Array, pa.Array]:
        if len(self._values) != 1:
            empty = np.empty(0, np.int64)
            try:
                self._values = [pa.concat_arrays([pa.nulls(0, self._arrow), *self._values])]
            except pa.ArrowInvalid:
                help = "leave the column out of the query, or bound how long matches may take (`DUR < 10 min`)"
                raise data_error("K514", "more than 2 GB of a column must be held for matches to come", help, where=self._where) from None
            self._numbers = [np.concatenate([empty, *self._numbers])]
        return self._numbers[0], self._values[0]


def _check_type(arrow: pa.DataType, where: str) -> None:
    """Arrow has types that it can neither join nor pick from; said before a run begins, not when the first match is there."""
    try:
        pa.concat_arrays([pa.nulls(1, arrow), pa.nulls(1, arrow)]).take(pa.array([1, 0])).cast(arrow)
    except pa.ArrowException:
        problem = f"a column of type {arrow} cannot pass through a query"
        raise data_error("K512", problem, "convert the column, or leave it out of the query", where=where) from None
