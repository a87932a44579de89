"""The files behind a path: one file, a directory, a pattern; and the columns that names of directories hold (`day=2024-03-01/`).

Directories are divided as Hive writes them and Spark reads them: `name=value` at every level, percent-encoded, and
`__HIVE_DEFAULT_PARTITION__` for null. A column is of the first type that all of its values are of, as in Spark: integer, double, date,
time, else text.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa

from keuka.diagnostics import similar
from keuka.errors import data_error
from keuka.events.columns import Int64Array
from keuka.events.files import Chunk, Originals, cannot_open, check_regular, format_of, is_possible, place
from keuka.events.text_values import convert

NULL = "__HIVE_DEFAULT_PARTITION__"
TYPES = (pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us", tz="UTC"))


@dataclass(frozen=True)
class FoundFiles:
    """Files in the order of their names, and what the names of their directories say: texts by column, one for each file."""

    paths: tuple[str, ...]
    partitions: Mapping[str, tuple[str | None, ...]]


@dataclass(frozen=True, eq=False)
class Partition:
    """A column whose value the directory of a file says."""

    texts: tuple[str | None, ...]  # one for each file
    values: pa.Array


def find_files(name: str, path: str) -> FoundFiles:
    """The files a path stands for; in a directory those whose names say their format."""
    if path != "-" and is_possible(path) and os.path.isdir(path):
        found = [entry for entry in _walk(path) if format_of(entry)]
        if not found:
            raise data_error("K513", f"the directory `{path}` has no CSV, Parquet, Arrow IPC or JSON files", where=place(name, None))
        return _partitioned(name, path, found)
    return FoundFiles(_plain_paths(name, path), {})


def find_declared_files(name: str, paths: Sequence[str], format: str) -> FoundFiles:
    """All files of a declared format; in a directory every visible one counts, whatever its name."""
    parts = []
    for path in paths:
        if os.path.isdir(path):
            _check_folders(name, path)
            parts.append(_partitioned(name, path, list(_walk(path)) or list(find_files(name, path).paths)))
        else:
            parts.append(FoundFiles(_plain_paths(name, path), {}))
    found = tuple([path for part in parts for path in part.paths])
    for path in found:
        if (own := format_of(path)) not in (None, format):
            raise data_error("K512", f"the file is {own}, but {format} is declared", where=place(name, path))
    columns = list(dict.fromkeys([column for part in parts for column in part.partitions]))
    for part in parts:
        if part.paths and list(part.partitions) != columns:
            raise _unlike(name, part.paths[0], columns)
    return FoundFiles(found, {column: tuple([text for part in parts for text in part.partitions[column]]) for column in columns})


def _is_visible(entry: os.DirEntry[str]) -> bool:
    """Spark passes over names that begin so, but for columns that do."""
    return not entry.name.startswith(".") and (not entry.name.startswith("_") or (entry.is_dir() and "=" in entry.name))


def _walk(path: str) -> Iterator[str]:
    """The visible files of a directory and of its partitions, in the order of their names."""
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if _is_visible(entry) and entry.is_file():
            yield os.path.join(path, entry.name)
        elif _is_visible(entry) and entry.is_dir() and "=" in entry.name:
            yield from _walk(os.path.join(path, entry.name))


def _check_folders(name: str, path: str) -> None:
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if not _is_visible(entry) or not entry.is_dir():
            continue
        if "=" not in entry.name:
            problem = f"the directory `{path}` has a directory `{entry.name}` in it, whose name is not of the form `column=value`"
            raise data_error("K512", problem, "name each directory: `paths`", where=place(name, None))
        _check_folders(name, os.path.join(path, entry.name))


def _partitioned(name: str, folder: str, paths: Sequence[str]) -> FoundFiles:
    said: list[dict[str, str | None]] = []
    for path in paths:
        levels = os.path.relpath(path, folder).split(os.sep)[:-1]
        texts = {unquote(column): unquote(text) for column, _, text in [level.partition("=") for level in levels]}
        said.append({column: None if text == NULL else text for column, text in texts.items()})
        if list(said[-1]) != list(said[0]):
            raise _unlike(name, path, list(said[0]))
    columns = list(said[0]) if said else []
    return FoundFiles(tuple(paths), {column: tuple([texts[column] for texts in said]) for column in columns})


def _unlike(name: str, path: str, columns: Sequence[str]) -> Exception:
    there = ", ".join([f"`{column}=...`" for column in columns]) or "no columns"
    problem = "the file is not in directories for the same columns as the files before it"
    return data_error("K512", problem, f"those have {there}", where=place(name, path))


def _plain_paths(name: str, path: str) -> tuple[str, ...]:
    """A file, or those that fit a pattern, in the order of their names."""
    if path == "-":
        return (path,)
    if not is_possible(path):
        raise data_error("K513", f"{path!a} cannot be opened: the name of a file is text without NUL", where=place(name, None))
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


# ---- their columns


def partition_columns(found: FoundFiles, declared: pa.Schema | None) -> dict[str, Partition]:
    """The columns that names of directories hold, in their types."""
    columns: dict[str, Partition] = {}
    for name, texts in found.partitions.items():
        given = pa.array(texts, pa.string())
        if declared is not None and name in declared.names:
            types: tuple[pa.DataType, ...] = (declared.field(name).type,)
        else:
            types = TYPES if given.null_count < len(given) else ()
        converted = [convert(given, arrow) for arrow in types]
        fitting = [each.values for each in converted if not any(each.bad.to_pylist())]
        columns[name] = Partition(texts, fitting[0] if fitting else given)
    return columns


def add_partitions(batch: pa.RecordBatch, partitions: Mapping[str, Partition], file_idx: int, columns: Sequence[str]) -> pa.RecordBatch:
    """The wanted columns of a file, with those of its directories."""
    if not partitions:
        return batch
    arrays = [
        pa.repeat(partitions[name].values[file_idx], batch.num_rows) if name in partitions else batch.column(name) for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def add_partitions_apart(
    chunk: Chunk, partitions: Mapping[str, Partition], file_idx: int, columns: Sequence[str], all_columns: Sequence[str], as_text: bool
) -> Chunk:
    """The same for rows whose bad ones are wanted apart."""
    if not partitions:
        return chunk
    shown = {name: Partition(p.texts, pa.array(p.texts, pa.string())) if as_text else p for name, p in partitions.items()}

    def originals(indices: Int64Array) -> Originals:
        found = chunk.originals(indices)
        return replace(found, columns=add_partitions(found.columns, shown, file_idx, all_columns))

    said = {name: p.texts[file_idx] for name, p in partitions.items()}
    broken = tuple([replace(each, values={**each.values, **said}) for each in chunk.broken])
    return replace(chunk, values=add_partitions(chunk.values, partitions, file_idx, columns), originals=originals, broken=broken)
