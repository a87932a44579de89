"""Batches of events as the kernel takes them: the columns that its queries read, as 64-bit values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keuka.events.columns import UnfitError, inverted, to_kernel
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream
from keuka.kernel.arrow import Words
from keuka.kernel.forest import Forest
from keuka.run.held_rows import HeldRows
from keuka.run.texts import Texts
from keuka.schema import WORD_TYPES, Type

KernelBatch = tuple[object, ...]  # as `kernel/groups.py` takes it


@dataclass(frozen=True)
class _Wanted:
    """What the kernel wants of a stream. Columns of 64-bit values are read all at once, where they have no nulls."""

    words: list[tuple[int, int]]  # number of the column, index in the batch
    others: list[tuple[int, str, Type]]
    all: list[tuple[int, str, Type]]

    def others_and(self, numbers: list[int]) -> list[tuple[int, str, Type]]:
        return [*self.others, *[column for column in self.all if column[0] in numbers]]


class Inputs:
    def __init__(self, forest: Forest, streams: Mapping[str, OpenStream], texts: Texts, rows: HeldRows) -> None:
        self._forest = forest
        self._streams = streams
        self._texts = texts
        self._rows = rows
        self._wanted: dict[str, _Wanted] = {}  # by stream
        self._version = -1  # of the forest, for which that was looked up

    def of_step(self, step: Mapping[str, EventBatch]) -> dict[int, KernelBatch]:
        """By number of the stream; those that no query reads are left out."""
        inputs = {}
        for name, batch in step.items():
            source = self._forest.source(name)
            if source is not None:
                inputs[source] = self._batch(name, batch)
        return inputs

    def _batch(self, name: str, batch: EventBatch) -> KernelBatch:
        stream = self._streams[name]
        wanted = self._wanted[name] if self._version == self._forest.version and name in self._wanted else self._look_up(stream, batch)
        words = Words(batch.pieces, wanted.words)
        columns = []
        for number, column_name, type_ in wanted.others if not words.left else wanted.others_and(words.left):
            valid = None
            try:
                column = batch.column(column_name)
                if type_ is Type.OTHER:
                    values = self._rows.open_column(name, column_name, column)
                elif type_ is Type.STRING:
                    values, valid = self._texts.column_codes(column)
                else:
                    values, valid = to_kernel(column, type_, self._texts.intern)
            except UnfitError as unfit:
                raise stream.unfit(unfit, batch.rows, column_name) from None
            columns.append((number, values, None if valid is None else inverted(valid)))
        return self._rows.number_events(stream, batch), columns, words

    def _look_up(self, stream: OpenStream, batch: EventBatch) -> _Wanted:
        """The columns that the kernel wants of a stream. Looked up once for every change of the forest."""
        if self._version != self._forest.version:
            self._wanted, self._version = {}, self._forest.version
        columns = [(number, name, stream.attribute(name).type) for number, name in self._forest.source_columns(stream.name)]
        # All batches of a stream have the same columns in the same order.
        schema = batch.pieces[0][0].batch.schema
        plain = [column for column in columns if column[2] in WORD_TYPES and column[1] in schema.names]
        words = [(number, schema.get_field_index(name)) for number, name, _ in plain]
        assert all(schema.field(index).type.bit_width == 64 for _, index in words), "columns are in their canonical types here"
        self._wanted[stream.name] = _Wanted(words, [column for column in columns if column not in plain], columns)
        return self._wanted[stream.name]
