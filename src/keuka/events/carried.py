"""The row store: values of events that instances hold, by the number of the event.

The kernel carries numbers; matches look the values up. While a batch runs its values are read in place; when it is done,
those that an instance took are copied and the batch is let go. What no instance refers to any more is forgotten now and then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keuka.errors import data_error
from keuka.events.columns import Int64Array, bytes_of, cast_to


class CarriedColumn:
    """A column of a stream by event number: the batch at hand, and what is held of those before."""

    def __init__(self, arrow: pa.DataType, where: str) -> None:
        """`where` names the stream and the column in messages."""
        self._arrow = arrow
        self._where = where
        self._numbers: list[Int64Array] = []  # ascending
        self._values: list[pa.Array] = []
        self._first = 0  # number of the first event of the batch
        self._batch: pa.Array = pa.nulls(0, arrow)

    def __len__(self) -> int:
        """How many values are held beyond the batch at hand."""
        return sum([len(numbers) for numbers in self._numbers])

    @property
    def n_bytes(self) -> int:
        return int(sum([bytes_of(values) for values in self._values])) + 8 * len(self)

    @property
    def mean_bytes(self) -> int:
        """About how much one value takes."""
        arrays = [*self._values, self._batch]
        return sum([bytes_of(values) for values in arrays]) // max(1, sum([len(values) for values in arrays])) + 1

    def open(self, first_number: int, values: pa.Array) -> None:
        """The column of a batch; numbers only ever grow."""
        self._first, self._batch = first_number, values

    def settle(self, numbers: Int64Array) -> None:
        """Let the batch go, but for the values of these events; numbers of earlier batches are here already."""
        chosen = np.unique(numbers[numbers >= self._first])
        if len(chosen):
            self._numbers.append(chosen)
            self._values.append(self._batch.take(pa.array(chosen - self._first)))
        self._first, self._batch = self._first + len(self._batch), pa.nulls(0, self._arrow)

    def take(self, numbers: Int64Array) -> pa.Array:
        """The values of events by their numbers; all of them must still be here."""
        here = numbers >= self._first
        if here.all():
            return self._batch.take(pa.array(numbers - self._first))
        known, values = self._held()
        held = values.take(pa.array(np.searchsorted(known, numbers[~here])))
        if not here.any():
            return held
        order = np.argsort(np.concatenate([np.flatnonzero(~here), np.flatnonzero(here)]), kind="stable")
        return pa.concat_arrays([held, self._batch.take(pa.array(numbers[here] - self._first))]).take(pa.array(order))

    def forget_all_but(self, numbers: Int64Array) -> None:
        """Between batches."""
        kept = np.unique(numbers)
        values = self.take(kept)
        self._numbers, self._values = [kept], [values]

    def restore(self, held: pa.Table) -> None:
        """Hold what another run held: the columns `number`, larger than all before, and `value`."""
        for batch in held.to_batches():
            self._numbers.append(batch.column("number").to_numpy())
            self._values.append(cast_to(batch.column("value"), self._arrow))
            self._first = max(self._first, int(self._numbers[-1].max(initial=-1)) + 1)

    def _held(self) -> tuple[Int64Array, pa.Array]:
        if len(self._values) != 1:
            numbers = np.concatenate([np.empty(0, np.int64), *self._numbers])
            try:
                values = pa.concat_arrays([pa.nulls(0, self._arrow), *self._values])
            except pa.ArrowInvalid:
                help = "leave the column out of the query, or bound how long matches may take (`DUR < 10 min`)"
                raise data_error("K514", "more than 2 GB of a column must be held for matches to come", help, where=self._where) from None
            self._numbers, self._values = [numbers], [values]  # both or, after Ctrl-C, neither: a snapshot comes by here
        return self._numbers[0], self._values[0]


def check_type(arrow: pa.DataType, where: str) -> None:
    """Arrow has types that it can neither join nor pick from; said before a run begins, not when the first match is there."""
    try:
        pa.concat_arrays([pa.nulls(1, arrow), pa.nulls(1, arrow)]).take(pa.array([1, 0])).cast(arrow)
    except (pa.ArrowException, KeyError):  # KeyError: pyarrow has no class for columns of this type, such as intervals of months
        problem = f"a column of type {arrow} cannot pass through a query"
        raise data_error("K512", problem, "convert the column, or leave it out of the query", where=where) from None
