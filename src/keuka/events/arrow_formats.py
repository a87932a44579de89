"""Parquet and Arrow IPC: binary formats that bring their types along."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from keuka.errors import data_error
from keuka.events.columns import UnfitError, check_text
from keuka.events.files import BATCH_ROWS, File, open_bytes


def _parquet(file: File) -> pa.parquet.ParquetFile:
    # Without a buffer size, or with pre_buffer, Arrow keeps whole column chunks: 940 MB for a file of 1 GB with one row group
    # instead of 180 MB.
    return pa.parquet.ParquetFile(file.path, pre_buffer=False, buffer_size=1 << 20)


def learn_parquet(file: File) -> tuple[File, int | None]:
    with _parquet(file) as source:
        return replace(file, schema=source.schema_arrow), source.metadata.num_rows


def parquet_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with _parquet(file) as source:
        n_rows = 0
        for batch in source.iter_batches(BATCH_ROWS, columns=columns):
            _check(file, batch, n_rows)
            yield batch
            n_rows += batch.num_rows


MAGIC = b"ARROW1\0\0"  # begins Arrow's file format, which is its stream format and a table of contents


def learn_ipc(file: File) -> tuple[File, int | None]:
    if not _has_contents(file):
        head = file.head.removeprefix(MAGIC)
        with io.BytesIO(head) if head else open_bytes(file) as source, pa.ipc.open_stream(source) as stream:
            return replace(file, schema=stream.schema), None
    with pa.OSFile(file.path) as source, pa.ipc.open_file(source) as contents:
        first = contents.get_batch(0).num_rows if contents.num_record_batches else 0
        return replace(file, schema=contents.schema), first * contents.num_record_batches


def ipc_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(included_fields=[file.schema.get_field_index(name) for name in columns])
    n_rows = 0
    for batch in _ipc_file_batches(file, options) if _has_contents(file) else _ipc_stream_batches(file, options):
        _check(file, batch, n_rows)
        yield batch
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


def _check(file: File, batch: pa.RecordBatch, n_rows: int) -> None:
    """Arrow does not look where the offsets and indices of a damaged file lead, nor whether text is text; 4 ns for each text."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        batch.validate()  # of a column without its buffers no text can be read
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                _check_text(file, name, column, n_rows)
        raise


def _check_text(file: File, name: str, column: pa.Array, n_rows: int) -> None:
    try:
        check_text(column)
    except UnfitError as unfit:
        raise data_error(unfit.code, unfit.problem, unfit.remedy, where=file.where(n_rows + unfit.index, name)) from None
