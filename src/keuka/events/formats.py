"""One door to all file formats: the schema of a file, and its rows in batches of the wanted columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from keuka.errors import DataError, data_error
from keuka.events.arrow_formats import ipc_batches, ipc_schema, parquet_batches, parquet_schema
from keuka.events.files import File, identify
from keuka.events.text_formats import csv_batches, csv_schema, json_batches, json_schema

# Schema and about how many rows (None: unknown); then the batches.
Learn = Callable[[File], tuple[pa.Schema, int | None]]
Batches = Callable[[File, list[str]], Iterator[pa.RecordBatch]]

FORMATS: dict[str, tuple[Learn, Batches]] = {
    "CSV": (csv_schema, csv_batches),
    "JSON": (json_schema, json_batches),
    "Parquet": (parquet_schema, parquet_batches),
    "Arrow IPC": (ipc_schema, ipc_batches),
}
INFERRED = ("CSV", "JSON")  # formats that do not say what types their columns have
UNREADABLE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)  # the last for names of columns


def open_file(stream: str, path: str) -> tuple[File, int | None]:
    """The file with its schema, and about how many rows it has. Only of standard input is anything taken away."""
    file = identify(stream, path)
    try:
        schema, n_rows = FORMATS[file.format][0](file)
    except UNREADABLE as error:
        raise _unreadable(file, None, error) from error
    return replace(file, schema=schema), n_rows


def read_file(file: File, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The file's rows, never more than a few batches of them in memory. The columns are in the order asked for."""
    batches = FORMATS[file.format][1](file, list(columns))
    n_rows = 0
    while True:
        try:
            batch = next(batches, None)
        except UNREADABLE as error:
            raise _unreadable(file, n_rows, error) from error
        if batch is None:
            return
        yield batch.select(list(columns))
        n_rows += batch.num_rows


def _unreadable(file: File, n_rows: int | None, error: Exception) -> DataError:
    reason = str(error).strip().split("\n")[0].rstrip(".")
    return data_error(
        "K506",
        f"the data cannot be read as {file.format}: it is damaged, cut short, or of another format",
        f"the reader says: {reason}",
        where=file.where() + ("" if n_rows is None else f", after row {n_rows}"),
    )
