"""Data as users have it, brought to Arrow: tables in memory, frames, rows, readers, files.

What lies in memory becomes one table; everything else becomes a function that streams wanted columns in order of arrival.
Pandas and polars are never imported here: their objects bring what is needed along.
"""

from __future__ import annotations

import glob
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from keuka.diagnostics import similar
from keuka.errors import DataError, data_error
from keuka.events.columns import cast_to
from keuka.events.files import File, cannot_open, check_regular, format_of, is_possible, place
from keuka.events.formats import INFERRED, open_file, read_file

# Rows are numbered (file number << FILE_SHIFT) + row in that file, both from 0, so that a number alone gives a place.
FILE_SHIFT = 40

# The wanted columns, streamed: the number of the first row, and a batch.
Chunks = Callable[[Sequence[str]], Iterator[tuple[int, pa.RecordBatch]]]


@dataclass(frozen=True, eq=False)
class Data:
    """Columns in Arrow's types, either in memory (`table`) or to be streamed (`chunks`)."""

    schema: pa.Schema
    kind: str  # "pandas", "polars" or "arrow"
    n_rows: int | None  # about how many, if known
    table: pa.Table | None = None
    chunks: Chunks | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Files:
    """Files of a declared format, at several paths: files, directories, patterns. `schema`: the wanted columns and their types."""

    paths: tuple[str, ...]
    format: str  # as in `files.SUFFIXES`
    schema: pa.Schema | None = None


def to_arrow(name: str, data: Any, time: object) -> Data:
    """The data of stream `name`. Its time columns are needed to know whether a pandas index is one of them."""
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, str | Path):
        return _of_files(name, _paths(name, os.fspath(data)))
    if isinstance(data, Files):
        return _of_files(name, _declared_paths(name, data), data.schema)
    if module == "pandas" and hasattr(data, "columns"):
        return _of_table(_pandas_table(name, data, time), "pandas")
    if module == "polars" and hasattr(data, "collect") and not hasattr(data, "__arrow_c_stream__"):
        data = data.collect()
    if module == "polars" and hasattr(data, "to_arrow") and hasattr(data, "columns"):
        return _of_table(_polars_table(name, data), "polars")
    if isinstance(data, pa.Table):
        return _of_table(data, "arrow")
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]), "arrow")
    if isinstance(data, list | tuple):
        return _of_table(_list_table(name, data), "arrow")
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


def _of_table(table: pa.Table, kind: str) -> Data:
    return Data(table.schema, kind, table.num_rows, table=table)


# ---- pandas


def _pandas_table(name: str, frame: Any, time: object) -> pa.Table:
    """The frame's columns. The index is a column only if it holds times, has a name, and is asked for or the only time."""
    wanted = (time,) if isinstance(time, str) else time if isinstance(time, tuple | list) else ()
    index = frame.index
    timed = index.name is not None and index.name not in frame.columns and getattr(index.dtype, "kind", "") == "M"
    only_time = time is None and not any(getattr(dtype, "kind", "") == "M" for dtype in frame.dtypes)
    if timed and (index.name in wanted or only_time):
        frame = frame.reset_index()
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        for position, column in enumerate(frame.columns):
            values = frame.iloc[:, position]
            if values.dtype == object:
                _column(name, str(column), values.tolist(), from_pandas=True)
        raise data_error("K512", "the frame cannot be converted to Arrow", f"pandas says: {error}", where=place(name, None)) from error


# ---- polars


def _polars_table(name: str, frame: Any) -> pa.Table:
    polars = sys.modules["polars"]
    try:
        # The oldest layout has no views, which Arrow can neither reorder nor the kernel read in place.
        table: pa.Table = frame.to_arrow(compat_level=polars.CompatLevel.oldest())
        return table
    except (pa.ArrowException, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise data_error("K512", "the frame cannot be converted to Arrow", f"polars says: {error}", where=place(name, None)) from error


# ---- lists


def _list_table(name: str, rows: Sequence[Any]) -> pa.Table:
    if not rows:
        raise data_error(
            "K512", "the list is empty, so its columns are unknown", "give a table with a schema instead", where=place(name, None)
        )
    if all(isinstance(row, pa.RecordBatch) for row in rows):
        return pa.Table.from_batches([batch for _, batch in _alike(name, rows[0].schema, rows)])
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise data_error("K512", f"a row is a `{type(row).__name__}`, not a dict", where=place(name, None, i))
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = [_column(name, str(key), [row.get(key) for row in rows], from_pandas=False) for key in keys]
    try:
        return pa.Table.from_arrays(columns, names=[str(key) for key in keys])
    except UnicodeEncodeError as error:
        problem = f"the name of a column holds half a character (a lone surrogate), which no text can: {error.object!a}"
        raise data_error("K512", problem, "rename the column", where=place(name, None)) from None


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
        row = _first_misfit(values, from_pandas)
        before = next((type(v).__name__ for v in values if v is not None), "")
        problem = f"the column holds a `{type(values[row]).__name__}` after values of the kind `{before}`"
        if type(values[row]).__name__ == before:
            problem = f"the column holds values of a kind that Arrow cannot convert: {str(error).splitlines()[0]}"
        raise data_error("K512", problem, "convert the column to one type", where=place(name, None, row, column)) from error


def _first_misfit(values: list[Any], from_pandas: bool) -> int:
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pa.array(values[:middle], from_pandas=from_pandas)
            good = middle
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            bad = middle
    return good


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
    for field in expected:
        if field.name not in schema.names:
            return _missing_column(field.name, where)
        arrow = schema.field(field.name).type
        if not arrow.equals(field.type):
            return data_error("K509", f"column `{field.name}` is {arrow}, which was {field.type} before", where=where)
    new = next((n for n in schema.names if n not in expected.names), None)
    problem = f"column `{new}` was not there before" if new else "the columns come in another order than before"
    return data_error("K509", problem, where=where)


def _missing_column(column: str, where: str) -> DataError:
    return data_error("K509", f"column `{column}` is missing, which was there before", where=where)


# ---- files


def _of_files(name: str, paths: tuple[str, ...], declared: pa.Schema | None = None) -> Data:
    first, n_rows = _first_file(name, paths) if declared is None else _typed_file(name, paths[0], declared)
    if n_rows and len(paths) > 1:
        n_rows = n_rows * sum(os.path.getsize(p) for p in paths) // os.path.getsize(first.path)

    def chunks(columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for file_idx, each in enumerate(paths):
            row = file_idx << FILE_SHIFT
            file = first if each == first.path else _further_file(name, each, first)
            for batch in read_file(file, columns):
                yield row, batch if declared is None else _as_declared(file, batch, declared, row & ((1 << FILE_SHIFT) - 1))
                row += batch.num_rows

    return Data(first.schema if declared is None else declared, "arrow", n_rows, chunks=chunks, files=paths)


def _declared_paths(name: str, files: Files) -> tuple[str, ...]:
    """All files; in a directory every visible one counts, whatever its name."""
    found: list[str] = []
    for path in files.paths:
        entries = sorted(os.listdir(path)) if os.path.isdir(path) else []
        visible = [os.path.join(path, entry) for entry in entries if not entry.startswith((".", "_"))]
        if folder := next((entry for entry in visible if os.path.isdir(entry)), None):
            problem = f"the directory `{path}` has a directory `{os.path.basename(folder)}` in it"
            raise data_error(
                "K512", problem, "name each directory: `paths`; columns in names of directories need Spark", where=place(name, None)
            )
        found += visible or _paths(name, path)
    for path in found:
        if (format := format_of(path)) not in (None, files.format):
            raise data_error("K512", f"the file is {format}, but {files.format} is declared", where=place(name, path))
    return tuple(found)


def _typed_file(name: str, path: str, declared: pa.Schema) -> tuple[File, int | None]:
    """The first file, with the declared types where its format has none of its own."""
    file, n_rows = open_file(name, path)
    missing = [field for field in declared if field.name not in file.schema.names]
    if missing and file.format != "JSON":  # whose lines may leave anything out
        problem = f"column `{missing[0].name}` of the declared schema is not there"
        raise data_error("K509", problem, *similar(missing[0].name, file.schema.names), where=file.where())
    if file.format in INFERRED:
        file = replace(file, schema=pa.schema([*[_typed(field, declared) for field in file.schema], *missing]))
    return file, n_rows


def _typed(field: pa.Field, declared: pa.Schema) -> pa.Field:
    """Text may say the zone of a time or not, whatever is declared, so times are read as they are and converted afterwards."""
    if field.name not in declared.names:
        return field
    wanted = declared.field(field.name)
    return field if pa.types.is_timestamp(field.type) and pa.types.is_timestamp(wanted.type) else wanted


def _as_declared(file: File, batch: pa.RecordBatch, declared: pa.Schema, n_rows: int) -> pa.RecordBatch:
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        wanted = declared.field(name).type
        try:
            arrays.append(cast_to(column, wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            where = f"{file.where()}, after row {n_rows}, column `{name}`"
            reason = str(error).split("\n")[0]
            raise data_error("K509", f"values cannot be read as the declared {wanted}", f"Arrow says: {reason}", where=where) from error
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _first_file(name: str, paths: tuple[str, ...]) -> tuple[File, int | None]:
    """The first file that says what the columns are: text without rows does not."""
    for path in paths:
        file, n_rows = open_file(name, path)
        if n_rows != 0 or file.format not in INFERRED:
            return file, n_rows
    raise data_error(
        "K512",
        "there are no rows, so the types of the columns are unknown",
        "give a table with a schema, or a Parquet file, where there may be no rows",
        where=place(name, paths[0] if len(paths) == 1 else None),
    )


def _further_file(name: str, path: str, first: File) -> File:
    """A file after the first. Text gets the types inferred there; other formats must bring the same ones along."""
    file, _ = open_file(name, path)
    if file.format in INFERRED:
        missing = next((column for column in first.schema.names if column not in file.schema.names), None)
        if file.format == "CSV" and missing is not None:
            raise _missing_column(missing, file.where())
        return replace(file, schema=first.schema)
    if not all(field.name in file.schema.names and file.schema.field(field.name).type.equals(field.type) for field in first.schema):
        raise _other_schema(first.schema, file.schema, file.where())
    return file


def _paths(name: str, path: str) -> tuple[str, ...]:
    """The files a path stands for, in the order of their names."""
    if path == "-":
        return (path,)
    if not is_possible(path):
        raise data_error("K513", f"{path!a} cannot be opened: the name of a file is text without NUL", where=place(name, None))
    if os.path.isdir(path):
        entries = (os.path.join(path, entry) for entry in sorted(os.listdir(path)) if not entry.startswith((".", "_")))
        found = tuple(entry for entry in entries if os.path.isfile(entry) and format_of(entry))
        if not found:
            raise data_error("K513", f"the directory `{path}` has no CSV, Parquet, Arrow IPC or JSON files", where=place(name, None))
        return found
    if not os.path.exists(path) and glob.has_magic(path):
        found = tuple(sorted(entry for entry in glob.glob(path) if os.path.isfile(entry)))
        if not found:
            raise data_error("K513", f"no file fits the pattern `{path}`", where=place(name, None))
        return found
    check_regular(name, path)
    try:
        with open(path, "rb"):
            return (path,)
    except FileNotFoundError:
        folder, missing = os.path.split(path)
        stem = os.path.splitext(missing)[0]
        there = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        near = similar(missing, [entry for entry in there if similar(stem, [os.path.splitext(entry)[0]])])
        raise data_error("K513", f"there is no file `{path}`", *near, where=place(name, None)) from None
    except OSError as error:
        raise cannot_open(name, path, error) from error
