"""One door to all file formats: the schema of a file, and its rows in batches of the wanted columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from keuka.errors import DataError, data_error
from keuka.events.arrow_formats import ipc_batches, learn_ipc, learn_parquet, parquet_batches
from keuka.events.columns import Int64Array, taken
from keuka.events.csv_format import csv_batches, csv_chunks, learn_csv
from keuka.events.files import Chunk, File, Originals, identify
from keuka.events.json_format import json_batches, json_chunks, learn_json
from keuka.events.text_values import DEFAULT, Csv

# The file with its schema, and about how many rows (None: unknown); then the batches.
Learn = Callable[[File], tuple[File, int | None]]
Batches = Callable[[File, list[str]], Iterator[pa.RecordBatch]]

FORMATS: dict[str, tuple[Learn, Batches]] = {
    "CSV": (learn_csv, csv_batches),
    "JSON": (learn_json, json_batches),
    "Parquet": (learn_parquet, parquet_batches),
    "Arrow IPC": (learn_ipc, ipc_batches),
}
CHUNKS = {"CSV": csv_chunks, "JSON": json_chunks}  # bad rows apart, where a format can have rows that are no rows of its schema
INFERRED = ("CSV", "JSON")  # formats that do not say what types their columns have
UNREADABLE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)  # the last for names of columns


def open_file(
    stream: str, path: str, csv: Csv = DEFAULT, declared: pa.Schema | None = None, rejects: bool = False
) -> tuple[File, int | None]:
    """The file with its schema, and about how many rows it has. Only of standard input is anything taken away."""
    file = replace(identify(stream, path), csv=csv, declared=declared, rejects=rejects)
    if csv != DEFAULT and file.format != "CSV":
        problem = f"options of CSV are given (`csv=`), but the data is {file.format}"
        raise data_error("K535", problem, "leave them out", where=file.where())
    try:
        return FORMATS[file.format][0](file)
    except UNREADABLE as error:
        raise _unreadable(file, None, error) from error


def read_file(file: File, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The file's rows, never more than a few batches of them in memory. The columns are in the order asked for."""
    n_rows = 0
    try:
        for batch in FORMATS[file.format][1](file, list(columns)):
            yield batch.select(list(columns))
            n_rows += batch.num_rows
    except UNREADABLE as error:
        raise _unreadable(file, n_rows, error) from error


def read_chunks(file: File, columns: Sequence[str]) -> Iterator[Chunk]:
    """The same with bad rows apart; of formats with types, which have none, every column is read to show them."""
    if file.format in CHUNKS:
        try:
            yield from CHUNKS[file.format](file, list(columns))
        except UNREADABLE as error:
            raise _unreadable(file, None, error) from error
        return
    n_rows = 0
    shown = replace(file, unread=frozenset(file.schema.names) - {*columns})
    for batch in read_file(shown, file.schema.names):
        yield typed_chunk(batch, n_rows, columns)
        n_rows += batch.num_rows


def typed_chunk(batch: pa.RecordBatch, first: int, columns: Sequence[str]) -> Chunk:
    """Rows that have the types of their columns."""

    def originals(indices: Int64Array) -> Originals:
        return Originals(taken(batch, indices), [None] * len(indices))

    return Chunk(np.arange(first, first + batch.num_rows), batch.select(list(columns)), None, originals)


def _unreadable(file: File, n_rows: int | None, error: Exception) -> DataError:
    reason = str(error).strip().split("\n")[0].rstrip(".")
    return data_error(
        "K506",
        f"the data cannot be read as {file.format}: it is damaged, cut short, or of another format",
        f"the reader says: {reason}",
        where=file.where() + ("" if n_rows is None else f", after row {n_rows}"),
    )
