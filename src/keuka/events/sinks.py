"""Writes batches of matches to a file or to standard output, in the format the file's name says.

Batches come from a run one after the other and are written at once. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from keuka.errors import DataError, data_error
from keuka.events.clocks import show_time
from keuka.events.files import SUFFIXES
from keuka.events.parts import claim, claimed, locked, new_part, parts_of, resolve
from keuka.schema import TimeAxis


class Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def write_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: str, suffix: str | None = None) -> int:
    """Writes every batch and returns the number of rows. `path` and `suffix` are as in `writing`."""
    n_rows = 0
    with writing(schema, path, suffix) as write:
        for batch in batches:
            write(batch)
            n_rows += batch.num_rows
    return n_rows


@contextlib.contextmanager
def writing(schema: pa.Schema, path: str, suffix: str | None = None) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """A function that writes one batch after the other.

    The suffix says the format; without it the path's own does. `-` is standard output, which gets JSON if nothing is said.
    """
    format = format_of(path, suffix)
    if format == "CSV":
        check_csv(schema)
    with opened(path) as file, contextlib.ExitStack() as stack:
        with _explained(path, format):
            sink = stack.enter_context(contextlib.closing(writer(schema, file, format, whole=path != "-")))

        def write(batch: pa.RecordBatch) -> None:
            with _explained(path, format):
                sink.write_batch(batch)

        yield write
        with _explained(path, format):
            stack.close()
            file.flush()


def check_csv(schema: pa.Schema) -> None:
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise data_error("K517", f"CSV cannot hold the lists of column `{nested[0]}`", "write Parquet, Arrow IPC or JSON instead")


@contextlib.contextmanager
def _explained(path: str, format: str) -> Iterator[None]:
    """Types that a format has no room for, and disks that are full."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise data_error("K517", f"the matches cannot be written as {format}", f"the writer says: {reason}") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: str, error: OSError) -> DataError:
    return data_error("K513", f"`{path}` cannot be written: {error.strerror or error}")


def format_of(path: str, suffix: str | None) -> str:
    suffix = suffix or (".ndjson" if path == "-" else Path(path).suffix.lower())
    if suffix not in SUFFIXES:
        known = ", ".join(f"`{known}`" for known in SUFFIXES)
        raise data_error("K517", f"the name `{path}` does not say in which format to write", f"end it in one of {known}")
    return SUFFIXES[suffix]


def writer(schema: pa.Schema, file: IO[bytes], format: str, whole: bool) -> Writer:
    """`whole`: the output is a file, so the IPC format that can be read from any place serves better than the stream format."""
    sink: Writer = NdjsonWriter(file)
    if format == "Parquet":
        sink = pa.parquet.ParquetWriter(file, schema)
    elif format == "CSV":
        sink = pa.csv.CSVWriter(file, schema)
    elif format == "Arrow IPC":
        sink = pa.ipc.new_file(file, schema) if whole else pa.ipc.new_stream(file, schema)
    return sink


class NdjsonWriter:
    """One JSON object per line; times in ISO form, NaN and the infinities as null because JSON has none."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def write_batch(self, batch: pa.RecordBatch) -> None:
        lines = [json.dumps(json_value(row), ensure_ascii=False) + "\n" for row in python_rows(batch)]
        self.file.write("".join(lines).encode())

    def close(self) -> None:
        self.file.flush()


def python_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [python_values(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(name: str, column: pa.Array) -> list[Any]:
    """Values of Python; times that it has no value for (years beyond 9999, unknown zones) as text."""
    try:
        return list(column.to_pylist())
    except (ArithmeticError, LookupError, ValueError) as error:
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            return [_time(scalar) for scalar in column]
        raise data_error("K517", f"values of column `{name}` cannot be shown: {error}", "write Parquet or Arrow IPC instead") from error


def _time(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ArithmeticError, LookupError, ValueError):
        if pa.types.is_timestamp(scalar.type):
            return show_time(scalar.value, TimeAxis(1, scalar.type))
        return str(np.datetime64(scalar.value, "D" if pa.types.is_date32(scalar.type) else "ms").astype("datetime64[D]"))


def json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file to write to. It is made beside its place and moved there at the end, so that an error leaves no half a file."""
    if path == "-":
        yield sys.stdout.buffer
        return
    if _is_direct(path):
        with _opened(path, Path(path), "wb") as file:
            yield file
        return
    target = resolve(path)
    with contextlib.ExitStack() as stack:
        with locked([target.parent]), claimed(parts_of(target.parent, target.name)) as abandoned:
            for part in abandoned:
                with contextlib.suppress(OSError):  # a directory: a pipeline was to write there
                    part.unlink()
            place = new_part(target.parent, target.name)
            file = stack.enter_context(_opened(path, place, "xb"))
            stack.callback(place.unlink, missing_ok=True)
            descriptor = claim(place)
            if descriptor is not None:
                stack.callback(os.close, descriptor)
        yield file
        try:
            file.flush()
            os.fsync(file.fileno())
            os.replace(place, target)  # under the lock, without which another run would remove the file
        except OSError as error:
            raise _cannot_write(path, error) from error


def _is_direct(path: str) -> bool:
    """A pipe or a device cannot be moved to; /dev/stdout and its like are other names of open files."""
    folder = f"{os.path.dirname(os.path.abspath(path))}/"
    names_open_file = folder in ("/dev/", "/dev/fd/") or folder.startswith("/proc/")
    return os.path.exists(path) and (names_open_file or not os.path.isfile(path))


@contextlib.contextmanager
def _opened(path: str, place: Path, mode: str) -> Iterator[IO[bytes]]:
    try:
        file = place.open(mode)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        yield file
        file.close()
    finally:
        with contextlib.suppress(OSError):  # what was wrong with the file has been said
            file.close()
