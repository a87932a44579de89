"""Parquet and Arrow IPC: binary formats that bring their types along."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from keuka.errors import data_error
from keuka.events.columns import UnfitError, check_text, column_names, is_text
from keuka.events.files import BATCH_ROWS, File, open_bytes


def _parquet(file: File) -> pa.parquet.ParquetFile:
    # Without a buffer size, or with pre_buffer, Arrow keeps whole column chunks: 940 MB for a file of 1 GB with one row group
    # instead of 180 MB.
    # Times of 96 bits have nanoseconds, but are of the years 1 to 9999; 64-bit nanoseconds would silently be other times before 1677.
    return pa.parquet.ParquetFile(file.path, pre_buffer=False, buffer_size=1 << 20, coerce_int96_timestamp_unit="us")


def learn_parquet(file: File) -> tuple[File, int | None]:
    with _parquet(file) as source:
        instants = {leaf.path for leaf in map(source.schema.column, range(len(source.schema.names))) if leaf.physical_type == "INT96"}
        column_names(source.schema_arrow, file.where())
        fields = [f.with_type(INSTANT) if f.name in instants else f for f in source.schema_arrow]
        return replace(file, schema=pa.schema(fields)), source.metadata.num_rows


INSTANT = pa.timestamp("us", tz="UTC")  # what times of 96 bits are to those who write them: Spark, Hive and Impala


def parquet_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with _parquet(file) as source:
        n_rows = 0
        for batch in source.iter_batches(BATCH_ROWS, columns=columns):
            checked = _checked(file, batch, n_rows)
            instants = [
                column.cast(INSTANT) if file.schema.field(name).type.equals(INSTANT) else column
                for name, column in zip(checked.schema.names, checked.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(instants, names=batch.schema.names)
            n_rows += batch.num_rows


MAGIC = b"ARROW1\0\0"  # begins Arrow's file format, which is its stream format and a table of contents


def learn_ipc(file: File) -> tuple[File, int | None]:
    if not _has_contents(file):
        head = file.head.removeprefix(MAGIC)
        with io.BytesIO(head) if head else open_bytes(file) as source, pa.ipc.open_stream(source) as stream:
            column_names(stream.schema, file.where())
            return replace(file, schema=stream.schema), None
    with pa.OSFile(file.path) as source, pa.ipc.open_file(source) as contents:
        column_names(contents.schema, file.where())
        first = contents.get_batch(0).num_rows if contents.num_record_batches else 0
        return replace(file, schema=contents.schema), first * contents.num_record_batches


def ipc_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(included_fields=[file.schema.get_field_index(name) for name in columns])
    n_rows = 0
    for batch in _ipc_file_batches(file, options) if _has_contents(file) else _ipc_stream_batches(file, options):
        yield _checked(file, batch, n_rows)
        n_rows += batch.num_rows


def _has_contents(file: File) -> bool:
    if file.path == "-":
        return False
    with pa.OSFile(file.path) as source:
        return bool(source.read(len(MAGIC)) == MAGIC)


def _ipc_file_batches(file: File, options: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(file.path) as source, pa.ipc.open_file(source, options=options) as contents:
        for i in range(contents.num_record_batches):
            yield contents.get_batch(i)


def _ipc_stream_batches(file: File, options: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
    with open_bytes(file) as source:
        if file.head.startswith(MAGIC):
            source.read(len(MAGIC))
        with pa.ipc.open_stream(source, options=options) as stream:
            yield from stream


def _checked(file: File, batch: pa.RecordBatch, n_rows: int) -> pa.RecordBatch:
    """Arrow does not look where the offsets and indices of a damaged file lead, nor whether text is text; 4 ns for each text."""
    try:
        batch.validate(full=True)
        return batch
    except pa.ArrowInvalid:
        batch.validate()  # of a column without its buffers no text can be read
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, column in columns.items():
            if name in file.unread and is_text(column.type):
                columns[name] = _shown_text(column)
            elif is_text(column.type):
                _check_text(file, name, column, n_rows)
        shown = pa.RecordBatch.from_pydict(columns)
        shown.validate(full=True)
        return shown


def _shown_text(column: pa.Array) -> pa.Array:
    """Text that need not be UTF-8, with a sign in the place of what is not: a column that no query reads fails no run."""
    as_bytes = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    return pa.array([None if value is None else value.decode(errors="replace") for value in as_bytes.to_pylist()], column.type)


def _check_text(file: File, name: str, column: pa.Array, n_rows: int) -> None:
    try:
        check_text(column)
    except UnfitError as unfit:
        raise data_error(unfit.code, unfit.problem, unfit.remedy, where=file.where(n_rows + unfit.index, name)) from None
