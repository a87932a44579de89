"""Data as users have it, brought to Arrow: tables in memory, frames, rows, readers, files.

What lies in memory becomes one table (`memory.py`); everything else becomes a function that streams wanted columns in order of arrival.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import similar
from keuka.errors import DataError, data_error
from keuka.events.columns import Int64Array, cast_to
from keuka.events.csv_format import REJECT, doubtful
from keuka.events.directories import FoundFiles, add_partitions, add_partitions_apart, find_declared_files, find_files, partition_columns
from keuka.events.files import Chunk, File, Originals, place
from keuka.events.formats import INFERRED, open_file, read_chunks, read_file
from keuka.events.memory import MemoryTable, list_table, pandas_table, polars_table
from keuka.events.text_values import DEFAULT, Converted, Csv, cast_by_halves, reasons_for

# Rows are numbered (file number << FILE_SHIFT) + row in that file, both from 0, so that a number alone gives a place.
FILE_SHIFT = 40
N_TEXTS = 100  # of a column that are looked at for the form of their times

# The wanted columns, streamed: the number of the first row, and a batch.
Chunks = Callable[[Sequence[str]], Iterator[tuple[int, pa.RecordBatch]]]
# The same with bad rows apart: the number of the file, and rows of it.
Apart = Callable[[Sequence[str]], Iterator[tuple[int, Chunk]]]


@dataclass(frozen=True, eq=False)
class Data:
    """Columns in Arrow's types, either in memory (`table`) or to be streamed (`chunks`)."""

    schema: pa.Schema
    kind: str  # "pandas", "polars" or "arrow"
    n_rows: int | None  # about how many, if known
    table: pa.Table | MemoryTable | None = None
    chunks: Chunks | None = None
    files: tuple[str, ...] = ()
    apart: Apart | None = None  # of files
    originals: pa.Schema | None = None  # the columns as they stand in the source, if otherwise: text, or types before they were declared
    doubts: Mapping[str, Callable[[], DataError]] = field(default_factory=dict)  # columns that are an error if a query reads them
    first_texts: Callable[[str], list[str]] | None = None  # of a column of a CSV file
    first: File | None = None  # the file that decides the types of all
    each_file: Callable[[Sequence[str]], Iterator[File]] | None = (
        None  # all files, opened: each has these columns in the types of the first
    )

    def with_exact_types(self, columns: Collection[str]) -> Data:
        """The data, with the types of these columns no longer guessed."""
        if not isinstance(self.table, MemoryTable):
            return self
        table = self.table.with_exact_types(columns)
        return self if table is self.table else replace(self, schema=table.schema, table=table)


@dataclass(frozen=True, eq=False)
class Files:
    """Files of a declared format, at several paths: files, directories, patterns."""

    paths: tuple[str, ...]
    format: str  # as in `files.SUFFIXES`


@dataclass(frozen=True, eq=False)
class Declared:
    """What a user says of files."""

    csv: Csv = DEFAULT
    schema: pa.Schema | None = None  # types of some columns
    rejects: bool = False  # rows that are no rows of the schema are not errors


def to_arrow(name: str, data: Any, time: object, declared: Declared | None = None) -> Data:
    """The data of stream `name`. Its time columns are needed to know whether a pandas index is one of them."""
    declared = declared or Declared()
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, str | Path):
        return _of_files(name, find_files(name, os.fspath(data)), declared)
    if isinstance(data, Files):
        return _of_files(name, find_declared_files(name, data.paths, data.format), declared)
    option = "csv" if declared.csv != DEFAULT else "schema" if declared.schema is not None else None
    if option is not None:
        problem = f"`{option}=` is for files, but the data is a `{type(data).__name__}`, whose columns have types"
        raise data_error("K535", problem, "convert the columns instead", where=place(name, None))
    if module == "pandas" and hasattr(data, "columns"):
        return _of_table(pandas_table(name, data, time), "pandas")
    if module == "polars" and hasattr(data, "collect") and not hasattr(data, "__arrow_c_stream__"):
        data = data.collect()
    if module == "polars" and hasattr(data, "to_arrow") and hasattr(data, "columns"):
        return _of_table(polars_table(name, data), "polars")
    if isinstance(data, pa.Table):
        return _of_table(data, "arrow")
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]), "arrow")
    if isinstance(data, list | tuple):
        if data and all(isinstance(row, pa.RecordBatch) for row in data):
            return _of_table(pa.Table.from_batches([batch for _, batch in _alike(name, data[0].schema, data)]), "arrow")
        return _of_table(list_table(name, data), "arrow")
    if isinstance(data, pa.RecordBatchReader):
        return _of_reader(name, data)
    if hasattr(data, "__arrow_c_stream__"):
        return _of_reader(name, _foreign_reader(name, data))
    if isinstance(data, Iterable) and not isinstance(data, dict | bytes):
        return _of_iterable(name, data)
    raise _unknown_kind(name, data)


def _unknown_kind(name: str, data: object) -> DataError:
    return data_error(
        "K512",
        f"data of the kind `{type(data).__name__}` cannot be read as events",
        "give a pyarrow Table or RecordBatchReader, a pandas or polars frame, a list of dicts, or the path of a file",
        where=place(name, None),
    )


def _of_table(table: pa.Table | MemoryTable, kind: str) -> Data:
    return Data(table.schema, kind, table.num_rows, table=table)


# ---- streams of batches

# Readers that were read from, as long as they exist. A second run would silently see nothing, or the rest of the rows.
_BEGUN: weakref.WeakSet[Any] = weakref.WeakSet()


def check_shared(streams: Mapping[str, Any]) -> None:
    """A table may be the data of several streams. What can be read only once may not: each stream would get some of the rows."""
    names: dict[object, str] = {}
    for name, data in streams.items():
        is_standard_input = isinstance(data, str | Path) and os.fspath(data) == "-"
        if not (is_standard_input or isinstance(data, Iterator)):
            continue
        what = "standard input" if is_standard_input else f"one `{type(data).__name__}`"
        first = names.setdefault("-" if is_standard_input else id(data), name)
        if first != name:
            problem = f"{what} is given for both `{first}` and `{name}`, but it can be read only once"
            raise data_error("K512", problem, "read it into a table first, and give the table for both")


def _of_reader(name: str, reader: pa.RecordBatchReader) -> Data:
    if reader in _BEGUN:
        raise data_error(
            "K512",
            "the reader was already read by an earlier run, and can be read only once",
            "make a new reader, or read it into a table first: `reader.read_all()`",
            where=place(name, None),
        )
    return _of_batches(name, reader.schema, reader)


def _foreign_reader(name: str, data: Any) -> pa.RecordBatchReader:
    """What another library offers as a stream of Arrow batches. A polars series offers one column, which is no table."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException:
        raise _unknown_kind(name, data) from None


def _of_iterable(name: str, data: Iterable[Any]) -> Data:
    batches = iter(data)
    first = next(batches, None)
    if first is None:
        raise data_error(
            "K512",
            "there are no record batches, so the columns are unknown",
            "an iterator can be read only once; give a RecordBatchReader, which has a schema, where there may be none",
            where=place(name, None),
        )
    if not isinstance(first, pa.RecordBatch):
        raise _unknown_kind(name, data)
    return _of_batches(name, first.schema, chain([first], batches))


def _of_batches(name: str, schema: pa.Schema, batches: Iterable[Any]) -> Data:
    def chunks(columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        if isinstance(batches, pa.RecordBatchReader):
            _BEGUN.add(batches)
        for n_rows, batch in _alike(name, schema, batches):
            yield n_rows, batch.select(list(columns))

    return Data(schema, "arrow", None, chunks=chunks)


def _alike(name: str, schema: pa.Schema, batches: Iterable[Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches that have the schema of the first, with the number of rows before each."""
    n_rows = 0
    for batch in _guarded(name, batches):
        if not isinstance(batch, pa.RecordBatch):
            raise data_error(
                "K509", f"a `{type(batch).__name__}` comes among the record batches", where=f"{place(name, None)}, after row {n_rows}"
            )
        if not batch.schema.equals(schema):
            raise _other_schema(schema, batch.schema, f"{place(name, None)}, after row {n_rows}")
        yield n_rows, batch
        n_rows += batch.num_rows


def _guarded(name: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow's own readers can fail inside; errors of a user's generator are the user's."""
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise data_error("K506", "the reader failed before its end", f"the reader says: {reason}", where=place(name, None)) from error


def _other_schema(expected: pa.Schema, schema: pa.Schema, where: str) -> DataError:
    """Names the first column in which two schemas differ."""
    for column in expected:
        if column.name not in schema.names:
            return _missing_column(column.name, where)
        arrow = schema.field(column.name).type
        if not arrow.equals(column.type):
            return data_error("K509", f"column `{column.name}` is {arrow}, which was {column.type} before", where=where)
    new = next((n for n in schema.names if n not in expected.names), None)
    problem = f"column `{new}` was not there before" if new else "the columns come in another order than before"
    return data_error("K509", problem, where=where)


def _missing_column(column: str, where: str) -> DataError:
    return data_error("K509", f"column `{column}` is missing, which was there before", where=where)


# ---- files


def _of_files(name: str, found: FoundFiles, declared: Declared) -> Data:
    paths = found.paths
    first, n_rows = _first_file(name, paths, replace(declared, schema=_without(declared.schema, found.partitions)))
    if n_rows and len(paths) > 1:
        n_rows = n_rows * sum(os.path.getsize(p) for p in paths) // os.path.getsize(first.path)
    own = _with_declared(first)
    partitions = partition_columns(found, declared.schema)
    said = [(column, partition.values.type) for column, partition in partitions.items()]
    schema = pa.schema([*[f for f in own if f.name not in partitions], *said])

    def opened(columns: Sequence[str]) -> Iterator[tuple[int, File, list[str]]]:
        """Each file, and what is to be read of it: at least one column, to know how many rows there are."""
        wanted = [column for column in columns if column not in partitions] or first.schema.names[:1]
        for file_idx, each in enumerate(paths):
            yield file_idx, first if each == first.path else _further_file(name, each, first, wanted), wanted

    def chunks(columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for file_idx, file, wanted in opened(columns):
            row = 0
            for batch in read_file(file, wanted):
                typed = batch if file.format in INFERRED else _as_declared(file, batch, own, row)
                yield (file_idx << FILE_SHIFT) + row, add_partitions(typed, partitions, file_idx, columns)
                row += batch.num_rows

    def apart(columns: Sequence[str]) -> Iterator[tuple[int, Chunk]]:
        for file_idx, file, wanted in opened(columns):
            for chunk in read_chunks(file, wanted):
                typed = chunk if file.format in INFERRED else _cast_apart(_shown_alike(chunk, first.schema), own)
                yield file_idx, add_partitions_apart(typed, partitions, file_idx, columns, schema.names, file.format in INFERRED)

    def each_file(columns: Sequence[str]) -> Iterator[File]:
        for _, file, _ in opened(columns):
            yield file

    doubts = {} if declared.rejects else {column: partial(doubtful, first, doubt) for column, doubt in first.doubts.items()}
    first_texts = (lambda column: _first_texts(first, column)) if first.format == "CSV" else None
    if first.format in INFERRED:
        originals = pa.schema([(name, pa.string()) for name in schema.names])
    else:
        own_fields = {f.name: f for f in first.schema}  # a name may stand twice, which is refused later
        originals = pa.schema([f if f.name in partitions else own_fields[f.name] for f in schema])
    return Data(schema, "arrow", n_rows, None, chunks, paths, apart, originals, doubts, first_texts, first, each_file)


def _without(schema: pa.Schema | None, names: Collection[str]) -> pa.Schema | None:
    return None if schema is None else pa.schema([column for column in schema if column.name not in names])


def _first_texts(file: File, column: str) -> list[str]:
    batch = next(read_file(file, [column]), None)
    return [] if batch is None else [text for text in batch.column(0)[:N_TEXTS].to_pylist() if text is not None]


def _with_declared(file: File) -> pa.Schema:
    """The columns of the file in their declared types. Text is read in them; other formats are converted."""
    declared = file.declared
    if declared is None or file.format in INFERRED:
        return file.schema
    for wanted in declared:
        if wanted.name not in file.schema.names:
            problem = f"column `{wanted.name}` of the declared schema is not there"
            raise data_error("K509", problem, *similar(wanted.name, file.schema.names), where=file.where())
    return pa.schema([declared.field(f.name) if f.name in declared.names else f for f in file.schema])


def _as_declared(file: File, batch: pa.RecordBatch, schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        wanted = schema.field(name).type
        try:
            arrays.append(column if not file.is_declared(name) else cast_to(column, wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            where = f"{file.where()}, after row {n_rows}, column `{name}`"
            reason = str(error).split("\n")[0]
            problem = f"values cannot be read as the declared {wanted}"
            raise data_error("K509", problem, f"Arrow says: {reason}", REJECT, where=where) from error
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _cast_apart(chunk: Chunk, schema: pa.Schema) -> Chunk:
    """The rows in their declared types; those with a value that cannot be converted are bad."""
    arrays, reasons = [], chunk.reasons
    for name, column in zip(chunk.values.schema.names, chunk.values.columns, strict=True):
        wanted = schema.field(name).type
        if column.type.equals(wanted):
            arrays.append(column)
            continue
        values = cast_by_halves(column, wanted, cast_to)
        arrays.append(values)
        if values.null_count > column.null_count:
            bad = pc.and_(pc.is_valid(column), pc.is_null(values))
            shown = pa.array([None if value is None else str(value) for value in column.filter(bad).to_pylist()], pa.string())
            texts = pc.replace_with_mask(pa.nulls(len(column), pa.string()), bad, shown)
            reasons = reasons_for(name, wanted, texts, texts, Converted(values, bad), reasons)
    return replace(chunk, values=pa.RecordBatch.from_arrays(arrays, names=chunk.values.schema.names), reasons=reasons)


def _shown_alike(chunk: Chunk, schema: pa.Schema) -> Chunk:
    """The rows of a further file, shown with the columns of the first: one that no query reads may be missing there, or of another type."""

    def originals(indices: Int64Array) -> Originals:
        found = chunk.originals(indices)
        there = {f.name: column for f, column in zip(found.columns.schema, found.columns.columns, strict=True)}
        known = [there[f.name] if f.name in there and there[f.name].type.equals(f.type) else pa.nulls(len(indices), f.type) for f in schema]
        return replace(found, columns=pa.RecordBatch.from_arrays(known, names=schema.names))

    return replace(chunk, originals=originals)


def _first_file(name: str, paths: tuple[str, ...], declared: Declared) -> tuple[File, int | None]:
    """The first file that says what the columns are: text without rows does not, unless they are declared."""
    for path in paths:
        file, n_rows = open_file(name, path, declared.csv, declared.schema, declared.rejects)
        is_known = declared.schema is not None and set(file.schema.names) <= set(declared.schema.names)
        if n_rows != 0 or file.format not in INFERRED or is_known:
            return file, n_rows
    raise data_error(
        "K512",
        "there are no rows, so the types of the columns are unknown",
        'declare the columns, as in `keuka.Stream(..., schema="at TIMESTAMP, price DOUBLE")`, where there may be no rows',
        where=place(name, paths[0] if len(paths) == 1 else None),
    )


def _further_file(name: str, path: str, first: File, columns: Collection[str]) -> File:
    """A file after the first. Text gets the types inferred there; other formats must bring the same ones along for what is read."""
    file, _ = open_file(name, path, first.csv, first.declared, first.rejects)
    if file.format in INFERRED:
        missing = next((column for column in first.schema.names if column not in file.schema.names), None)
        if file.format == "CSV" and missing is not None:
            raise _missing_column(missing, file.where())
        return replace(file, schema=first.schema, converted=first.converted)
    read = pa.schema([column for column in first.schema if column.name in columns])
    if not all(column.name in file.schema.names and file.schema.field(column.name).type.equals(column.type) for column in read):
        raise _other_schema(read, file.schema, file.where())
    return file
