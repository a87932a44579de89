"""CSV and newline-delimited JSON: text whose types are inferred from the beginning of the file.

The types hold for the whole file: a later value of another kind is K509, a row that cannot be taken apart K506, each with
its row.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from keuka.errors import DataError, data_error
from keuka.events.files import BATCH_ROWS, BLOCK_BYTES, File, end_of, estimated_rows, in_memory, lent, open_bytes

# ---- CSV


def _csv_options(types: dict[str, pa.DataType] | None, columns: list[str]) -> dict[str, Any]:
    """An empty field is null and nothing else is; a quoted empty field is the empty text. Quoted values may span lines."""
    return {
        "read_options": pa.csv.ReadOptions(block_size=BLOCK_BYTES),
        "parse_options": pa.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pa.csv.ConvertOptions(
            column_types=types,
            include_columns=columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def csv_schema(file: File) -> tuple[pa.Schema, int | None]:
    if not file.head.strip():
        raise data_error("K506", "the file is empty: CSV needs a header line with the names of the columns", where=file.where())
    whole = file.head if len(file.head) < BLOCK_BYTES else file.head[: _last_row_end(file.head)]
    if b"\n" not in whole:
        _check_line_break(file, whole, 0)  # Arrow calls a header alone an empty file
    # A header without rows has no batch to infer from, which `read_csv` (unlike `open_csv`) takes as columns of nulls.
    try:
        table = pa.csv.read_csv(in_memory(whole), **_csv_options(None, []))
    except pa.ArrowInvalid as error:
        raise _csv_error(file, {}, 0, error) from error
    if whole is file.head:
        _check_line_break(file, whole, table.num_rows)
    try:
        names = table.column_names
    except UnicodeDecodeError:
        raise _not_utf8(f"{file.where()}, header") from None
    for name, arrow in zip(names, table.schema.types, strict=True):
        if pa.types.is_binary(arrow):
            raise _not_utf8(file.where(None, name))
    return pa.schema([pa.field(f.name, _widest(table[i])) for i, f in enumerate(table.schema)]), estimated_rows(file, table.num_rows)


def _not_utf8(where: str) -> DataError:
    return data_error("K514", "text that is not UTF-8", "save the file in the encoding UTF-8", where=where)


def _last_row_end(head: bytes) -> int:
    """Where the last complete row ends: after a line break that is not inside quotes."""
    end = head.rfind(b"\n") + 1
    while end > 0 and head.count(b'"', 0, end) % 2:
        end = head.rfind(b"\n", 0, end - 1) + 1
    return end or len(head)


def _widest(column: pa.ChunkedArray) -> pa.DataType:
    """The type to read a whole text column with, of which these are the first values.

    Fractions of seconds may come later, so timestamps are read in microseconds (in nanoseconds if a value needs them);
    columns without a value are text.
    """
    arrow = column.type
    if pa.types.is_null(arrow):
        return pa.string()
    if pa.types.is_timestamp(arrow):
        microseconds = pa.timestamp("us", tz=arrow.tz)
        try:
            column.cast(microseconds)
        except pa.ArrowInvalid:
            return arrow
        return microseconds
    return arrow


def csv_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    types = {field.name: field.type for field in file.schema}
    n_rows = 0
    last: pa.RecordBatch | None = None  # one row, kept until another follows it or the end is known to be no cut
    # The last value tells whether its quote was closed, and a pipe can be read only once.
    read = list(dict.fromkeys([*columns, file.schema.names[-1]])) if file.path == "-" else columns
    try:
        with open_bytes(file) as source, pa.csv.open_csv(source, **_csv_options(types, read)) as reader:
            for batch in reader:
                if batch.num_rows == 0:
                    continue
                if last is not None:
                    yield last
                if batch.num_rows > 1:
                    yield batch.slice(0, batch.num_rows - 1)
                last = batch.slice(batch.num_rows - 1)
                n_rows += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _csv_error(file, types, n_rows, error) from error
    _check_csv_end(file, last, n_rows)
    if last is not None:
        yield last


def _check_csv_end(file: File, last: pa.RecordBatch | None, n_rows: int) -> None:
    """Is the last row cut? Arrow takes what there is for a row if the number of fields is right."""
    end = end_of(file)
    _check_line_break(file, end, n_rows)
    if last is None or not _may_end_in_quotes(end):
        return
    name = file.schema.names[-1]
    if not pa.types.is_string(file.schema.field(name).type):
        return  # an open quote is no value of another type
    value = last.column(name)[0].as_py() if name in last.schema.names else _last_text(file, name)
    text = b'"' + (value or "").encode().replace(b'"', b'""')
    if end.endswith(text) and end[: -len(text)][-1:] in SEPARATORS:
        problem = "a quote is opened and never closed: the row is cut, or has swallowed those after it"
        raise data_error("K506", problem, "close the quote, or write the file again", where=file.where(n_rows - 1, name))


def _check_line_break(file: File, end: bytes, n_rows: int) -> None:
    """A file may end without a line break, a pipe may not: nothing else tells a last value from the beginning of one."""
    if file.path != "-" or end.endswith((b"\n", b"\r")):
        return
    problem = "standard input ends in the middle of a row: there is no line break at its end"
    help = "what writes the rows may have failed; if the last row is complete, end it with a line break"
    raise data_error("K506", problem, help, where=file.where(n_rows - 1) if n_rows else f"{file.where()}, header")


SEPARATORS = (b",", b"\n", b"\r", b"")  # before a value, also before the first one


def _may_end_in_quotes(end: bytes) -> bool:
    """Could the last quotes of the file open a value, or stand in one that is open? A quote in a value is written twice."""
    begin, _, after = end.rpartition(b'"')
    before = begin.rstrip(b'"')
    n_quotes = len(end) - len(after) - len(before)
    return n_quotes > 0 and (n_quotes % 2 == 0 or before[-1:] in SEPARATORS)


def _last_text(file: File, column: str) -> str | None:
    last: str | None = None
    with open_bytes(file) as source:
        for batch in pa.csv.open_csv(source, **_csv_options({column: pa.string()}, [column])):
            if batch.num_rows:
                last = batch.column(0)[-1].as_py()
    return last


def _csv_error(file: File, types: dict[str, pa.DataType], n_rows: int, error: pa.ArrowInvalid) -> DataError:
    """Arrow's message says what is wrong but not in which row; of a file on disk the row is found by reading it again."""
    text = str(error)
    if found := re.search(r"Expected (\d+) columns, got (\d+)", text):
        row = _csv_ragged_row(file)
        return data_error(
            "K506",
            f"a row has {found.group(2)} fields, the header {found.group(1)}: the row is damaged or the file ends in the middle of it",
            where=file.where(row) if row is not None else f"{file.where()}, after row {n_rows}",
        )
    found = re.search(r"In CSV column #(\d+): .*?(?:invalid value|zone offset in) '(.*?)'(?:\.|$)", text, re.DOTALL)
    if not found:
        problem = "a row is longer than a few megabytes; perhaps a quote is never closed" if "straddling" in text else text.split("\n")[0]
        return data_error("K506", problem, where=f"{file.where()}, after row {n_rows}")
    column, value = file.schema.names[int(found.group(1))], found.group(2)
    row = _csv_row_of(file, column, value, n_rows)
    return _misfit(file, row, n_rows, column, f"`{value}`", types[column])


def _misfit(file: File, row: int | None, n_rows: int, column: str, value: str, arrow: pa.DataType) -> DataError:
    at = file.where(row) if row is not None else f"{file.where()}, after row {n_rows}"
    return data_error(
        "K509",
        f"{value} is not of the type {arrow} that the first values of column `{column}` have",
        "write all values of a column alike, or use a format with types such as Parquet",
        where=f"{at}, column `{column}`",
    )


def _csv_ragged_row(file: File) -> int | None:
    if file.path == "-":
        return None
    rows: list[int] = []

    def note(row: pa.csv.InvalidRow) -> str:
        rows.append(row.number - 2)  # counted from 1 by Arrow, header included
        return "error"

    options = _csv_options({}, [])
    options["read_options"] = pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)  # threads do not count rows
    options["parse_options"] = pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lent(note))
    options["convert_options"] = pa.csv.ConvertOptions(default_column_type=pa.string())
    try:
        with open_bytes(file) as source, pa.PythonFile(lent(_Ascii(source)), mode="r") as plain:
            for _ in pa.csv.open_csv(plain, **options):
                pass
    except pa.ArrowInvalid:
        pass
    return rows[0] if rows else None


class _Ascii(io.RawIOBase):
    """A file with `?` for all that is not ASCII: rows stay where they are, and Arrow, which shows them to a handler, can decode each."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def read_buffer(self, size: int = -1) -> npt.NDArray[np.uint8]:
        return lent(np.frombuffer(self._source.read(size).translate(bytes(range(128)) + b"?" * 128), np.uint8))


def _csv_row_of(file: File, column: str, value: str, begin: int) -> int | None:
    """The first row from `begin` on whose field in the column is this text."""
    if file.path == "-":
        return None
    n_rows = 0
    with open_bytes(file) as source:
        for batch in pa.csv.open_csv(source, **_csv_options({column: pa.string()}, [column])):
            n_before = max(0, begin - n_rows)
            found = batch.column(0)[n_before:].index(value).as_py()
            if found >= 0:
                return n_rows + n_before + int(found)
            n_rows += batch.num_rows
    return None


# ---- newline-delimited JSON

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def json_schema(file: File) -> tuple[pa.Schema, int | None]:
    lines = file.head if len(file.head) < BLOCK_BYTES else file.head[: file.head.rfind(b"\n") + 1]
    if not lines.strip():
        return pa.schema([]), 0
    table = _parse_json(file, lines, None, 0)
    texts = [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_timestamp(f.type)]
    as_text = _parse_json(file, lines, pa.schema([(name, pa.string()) for name in texts]), 0)
    fields = [(f.name, _time_or_text(as_text[f.name]) if f.name in texts else _widest(table[f.name])) for f in table.schema]
    return pa.schema(fields), estimated_rows(file, table.num_rows)


def _time_or_text(column: pa.ChunkedArray) -> pa.DataType:
    """Arrow takes text for a timestamp only without fraction; we take every text that is ISO time throughout."""
    for arrow in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            column.cast(arrow)
        except pa.ArrowInvalid:
            continue
        return arrow if column.null_count < len(column) else pa.string()
    return pa.string()


def json_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([file.schema.field(name) for name in columns])
    n_rows = 0
    with open_bytes(file) as source:
        for lines in _line_blocks(source):
            table = _parse_json(file, lines, schema, n_rows)
            yield from table.to_batches(BATCH_ROWS)
            n_rows += table.num_rows


def _line_blocks(source: pa.NativeFile) -> Iterator[bytes]:
    """The file in pieces that end with a line, as far as it goes."""
    begun: list[bytes] = []  # of a line longer than a block
    while block := source.read(BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*begun, block[:cut]])
            begun = []
        if cut < len(block):
            begun.append(block[cut:])
    if any(piece.strip() for piece in begun):
        yield b"".join(begun)


def _parse_json(file: File, lines: bytes, schema: pa.Schema | None, n_rows: int) -> pa.Table:
    if not lines.strip():
        return schema.empty_table() if schema is not None else pa.table({})
    lines = lines.removeprefix(BYTE_ORDER_MARK) if n_rows == 0 else lines
    _check_lines(file, lines, n_rows)
    try:
        return _json_table(lines, schema)
    except pa.ArrowInvalid as error:
        raise _json_error(file, lines, schema, n_rows, error) from error


def _check_lines(file: File, lines: bytes, n_rows: int) -> None:
    """What Arrow's reader does not look at: text must be UTF-8, and every line an object (it crashes if the first is `null`)."""
    if not lines.isascii():
        try:
            lines.decode()
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":  # a file cut in the middle of a character has another message
                raise _not_utf8(file.where(n_rows + _n_rows(lines[: lines.rfind(b"\n", 0, error.start) + 1]))) from None
    characters = np.frombuffer(lines, dtype=np.uint8)
    begins = np.concatenate([[0], np.flatnonzero(characters[:-1] == ord("\n")) + 1])
    ends = np.concatenate([begins[1:], [len(lines)]])
    for i in np.flatnonzero(characters[begins] != ord("{")):  # few: blank and indented lines
        line = lines[begins[i] : ends[i]].lstrip()
        if line and not line.startswith(b"{"):
            raise _not_json(file.where(n_rows + _n_rows(lines[: begins[i]])), "a line is not a JSON object")


def _n_rows(lines: bytes) -> int:
    return sum(1 for line in lines.split(b"\n") if line.strip())


def _not_json(where: str, problem: str) -> DataError:
    return data_error("K506", problem, "write one object per line, without brackets or commas around them", where=where)


def _json_table(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore")
    # One block: blocks of their own would be inferred apart from each other.
    return pa.json.read_json(in_memory(lines), pa.json.ReadOptions(block_size=len(lines) + 1), options)


def _json_error(file: File, block: bytes, schema: pa.Schema | None, n_rows: int, error: pa.ArrowInvalid) -> DataError:
    """Finds the first line that does not fit: the shortest beginning of the block that cannot be parsed ends with it."""
    lines = [line for line in block.split(b"\n") if line.strip()]
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _json_table(b"\n".join(lines[:middle]), schema)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    where = file.where(n_rows + good)
    try:
        table = _json_table(lines[good], None)
    except pa.ArrowInvalid:
        cut = good == len(lines) - 1 and not block.endswith(b"\n") and lines[good].lstrip().startswith(b"{")
        return _not_json(where, "the file ends in the middle of a line" if cut else "a line is not a JSON object")
    wrong = next((f for f in schema or () if f.name in table.column_names and _json_misfits(lines[good], f)), None)
    if wrong is None:
        reason = str(error).split(" in row ")[0]
        return data_error("K509", "a line does not have the types of the lines before it", f"the reader says: {reason}", where=where)
    return _misfit(file, n_rows + good, n_rows, wrong.name, f"`{table[wrong.name][0].as_py()}`", wrong.type)


def _json_misfits(line: bytes, field: pa.Field) -> bool:
    try:
        _json_table(line, pa.schema([field]))
    except pa.ArrowInvalid:
        return True
    return False
