"""CSV: text whose types are guessed from the beginning of the file, or declared.

The types hold for the whole file. Values are parsed by Arrow's typed reader where it means what `text_values.py` means, and are converted
from text elsewhere. A value of another kind is K509, a row that cannot be divided into fields K506; `csv_chunks` gives both apart.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from keuka.errors import DataError, data_error
from keuka.events.columns import Int64Array
from keuka.events.csv_guesses import check_header, check_separator, look
from keuka.events.ddl import column_name
from keuka.events.files import BLOCK_BYTES, Broken, Chunk, Doubt, File, Originals, end_of, estimated_rows, in_memory, lent, open_bytes
from keuka.events.text_values import DOUBLE, TIMESTAMP, ZONED, Csv, convert, decode, nouns_of, reasons_for
from keuka.events.time_formats import similar_formats

REJECT = 'to go on without such rows, reject them: `on_bad_row="reject"`'


class _NotTypedError(Exception):
    """Arrow's typed reader met a text that is no value of its type."""


def reading(
    file: File,
    types: dict[str, pa.DataType] | None,
    columns: Sequence[str],
    on_broken: Callable[[pa.csv.InvalidRow], str] | None = None,
    other: pa.DataType | None = None,
) -> dict[str, Any]:
    """Options of Arrow's reader. An empty field is null and nothing else is; a quoted empty field is the empty text. Quoted values may
    span lines. `other`: the type of columns that `types` does not have; inferred if None."""
    if on_broken is None and file.rejects:
        on_broken = lent(lambda row: "skip")
    return {
        # Rows are counted by a reader without threads only.
        "read_options": pa.csv.ReadOptions(block_size=BLOCK_BYTES, column_names=_names(file), use_threads=on_broken is None),
        "parse_options": pa.csv.ParseOptions(delimiter=file.csv.separator, newlines_in_values=True, invalid_row_handler=on_broken),
        "convert_options": pa.csv.ConvertOptions(
            column_types=types,
            include_columns=list(columns),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            **({} if other is None else {"default_column_type": other}),
        ),
    }


def _names(file: File) -> list[str] | None:
    """The names of the columns of a file without a header."""
    if file.csv.header is True:
        return None
    if file.csv.header is not False:
        return list(file.csv.header)
    if file.declared is None:
        problem = "the file has no header, so its columns need names"
        raise data_error(
            "K535", problem, 'name them all with their types, in order: `keuka.Stream(..., schema="at TIMESTAMP, ...")`', where=file.where()
        )
    return list(file.declared.names)


# ---- types


def learn_csv(file: File) -> tuple[File, int | None]:
    """The file with the types of its columns, and about how many rows it has."""
    if not file.head.strip():
        raise data_error("K506", "the file is empty: CSV needs a header line with the names of the columns", where=file.where())
    whole = file.head if len(file.head) < BLOCK_BYTES else file.head[: last_row_end(file.head)]
    check_separator(file)
    if b"\n" not in whole:
        _check_line_break(file, whole, 0)  # Arrow calls a header alone an empty file
    # A header without rows has no batch to infer from, which `read_csv` (unlike `open_csv`) takes as columns of nulls.
    try:
        table = pa.csv.read_csv(in_memory(whole), **reading(file, None, []))
    except pa.ArrowInvalid as error:
        raise _csv_error(file, 0, error) from error
    if whole is file.head:
        _check_line_break(file, whole, table.num_rows)
    try:
        names = table.column_names
    except UnicodeDecodeError:
        raise not_utf8(f"{file.where()}, header") from None
    for name, arrow in zip(names, table.schema.types, strict=True):
        if pa.types.is_binary(arrow) and not file.rejects:
            raise not_utf8(file.where(None, name))

    def texts(columns: Sequence[str]) -> pa.Table:
        read = pa.csv.read_csv(in_memory(whole), **reading(file, dict.fromkeys(columns, pa.binary()), columns))
        return pa.table([decode(read[name].combine_chunks()) for name in columns], names=list(columns))

    file = look(file, table, texts, whole)
    if table.num_rows:
        check_header(file)
    return file, estimated_rows(file, table.num_rows)


def not_utf8(where: str) -> DataError:
    return data_error("K514", "text that is not UTF-8", "save the file in the encoding UTF-8", where=where)


def last_row_end(head: bytes) -> int:
    """Where the last complete row ends: after a line break that is not inside quotes."""
    end = head.rfind(b"\n") + 1
    while end > 0 and head.count(b'"', 0, end) % 2:
        end = head.rfind(b"\n", 0, end - 1) + 1
    return end or len(head)


# ---- rows


def csv_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows; the first bad one is an error."""
    typed = {name: file.schema.field(name).type for name in columns if name not in file.converted}
    n_rows = 0
    try:
        for batch in _read(file, columns, typed):
            yield batch
            n_rows += batch.num_rows
        return
    except _NotTypedError:
        pass
    # The same rows as text, which says which value it was.
    yield from _read(file, columns, {}, skip=n_rows)


def _read(file: File, columns: list[str], typed: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
    """Rows from `skip` on. Columns that are not `typed` are read as text and converted."""
    n_rows = 0
    last: pa.RecordBatch | None = None  # one row, kept until another follows it or the end is known to be no cut
    # The last value tells whether its quote was closed, and a pipe can be read only once.
    read = list(dict.fromkeys([*columns, file.schema.names[-1]])) if file.path == "-" else columns
    types = {name: typed.get(name, pa.string()) for name in read}
    try:
        with open_bytes(file) as source, pa.csv.open_csv(source, **reading(file, types, read)) as reader:
            for batch in reader:
                first, n_rows = n_rows, n_rows + batch.num_rows
                if n_rows <= skip:
                    continue
                if first < skip:
                    batch, first = batch.slice(skip - first), skip
                if last is not None:
                    yield last
                batch = typed_batch(file, batch, first, [name for name in columns if name not in typed])
                if batch.num_rows > 1:
                    yield batch.slice(0, batch.num_rows - 1)
                last = batch.slice(batch.num_rows - 1)
    except pa.ArrowInvalid as error:
        if "conversion error" in str(error) and typed and file.path != "-":
            raise _NotTypedError from None
        raise _csv_error(file, n_rows, error) from error
    _check_csv_end(file, last, n_rows)
    if last is not None:
        yield last


def typed_batch(file: File, batch: pa.RecordBatch, first: int, texts: Collection[str]) -> pa.RecordBatch:
    """The batch, whose first row has this number, with these columns converted from text; the first bad value is an error."""
    arrays = batch.columns
    for i, name in enumerate(batch.schema.names):
        if name in texts:
            converted = convert(arrays[i], file.schema.field(name).type, options_of(file, name))
            if pc.any(converted.bad).as_py():
                index = int(pc.index(converted.bad, True).as_py())
                raise misfit(file, file.where(first + index), name, arrays[i][index].as_py())
            arrays[i] = converted.values
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def options_of(file: File, column: str) -> Csv:
    """How texts of a column are converted. What Arrow's typed reader reads has ISO times, with a zone throughout or without."""
    return file.converted.get(column) or replace(file.csv, time_format=None, zone=None)


def check_end(file: File) -> None:
    """Is the last row cut? For a file whose rows another reader reads; reads it only if its last bytes leave that open."""
    if _may_end_in_quotes(file, end_of(file)):
        for _ in csv_chunks(file, []):
            pass


def _check_csv_end(file: File, last: pa.RecordBatch | None, n_rows: int) -> None:
    """Is the last row cut? Arrow takes what there is for a row if the number of fields is right."""
    end = end_of(file)
    _check_line_break(file, end, n_rows)
    if last is None or not _may_end_in_quotes(file, end):
        return
    name = file.schema.names[-1]
    if not pa.types.is_string(file.schema.field(name).type):
        return  # an open quote is no value of another type
    value = last.column(name)[0].as_py() if name in last.schema.names else _last_text(file, name)
    text = b'"' + (value or "").encode().replace(b'"', b'""')
    if end.endswith(text) and end[: -len(text)][-1:] in _before_value(file):
        problem = "a quote is opened and never closed: the row is cut, or has swallowed those after it"
        raise data_error("K506", problem, "close the quote, or write the file again", where=file.where(n_rows - 1, name))


def _check_line_break(file: File, end: bytes, n_rows: int) -> None:
    """A file may end without a line break, a pipe may not: nothing else tells a last value from the beginning of one."""
    if file.path != "-" or end.endswith((b"\n", b"\r")):
        return
    problem = "standard input ends in the middle of a row: there is no line break at its end"
    help = "what writes the rows may have failed; if the last row is complete, end it with a line break"
    raise data_error("K506", problem, help, where=file.where(n_rows - 1) if n_rows else f"{file.where()}, header")


def _before_value(file: File) -> tuple[bytes, ...]:
    """What may stand before a value, also before the first one."""
    return (file.csv.separator.encode(), b"\n", b"\r", b"")


def _may_end_in_quotes(file: File, end: bytes) -> bool:
    """Could the last quotes of the file open a value, or stand in one that is open? A quote in a value is written twice."""
    begin, _, after = end.rpartition(b'"')
    before = begin.rstrip(b'"')
    n_quotes = len(end) - len(after) - len(before)
    return n_quotes > 0 and (n_quotes % 2 == 0 or before[-1:] in _before_value(file))


def _last_text(file: File, column: str) -> str | None:
    last: str | None = None
    with open_bytes(file) as source:
        for batch in pa.csv.open_csv(source, **reading(file, {column: pa.string()}, [column])):
            if batch.num_rows:
                last = batch.column(0)[-1].as_py()
    return last


# ---- errors


def _csv_error(file: File, n_rows: int, error: pa.ArrowInvalid) -> DataError:
    """Arrow's message says what is wrong but not in which row; of a file on disk the row is found by reading it again."""
    text = str(error)
    if found := re.search(r"Expected (\d+) columns, got (\d+)", text):
        row = _ragged_row(file)
        return data_error(
            "K506",
            _ragged(file, int(found[1]), int(found[2])),
            REJECT,
            where=file.where(row) if row is not None else f"{file.where()}, after row {n_rows}",
        )
    if "invalid UTF8" in text:
        return not_utf8(f"{file.where()}, after row {n_rows}")
    found = re.search(r"In CSV column #(\d+): .*?(?:invalid value|zone offset in) '(.*?)'(?:\.|$)", text, re.DOTALL)
    if not found:
        problem = "a row is longer than a few megabytes; perhaps a quote is never closed" if "straddling" in text else text.split("\n")[0]
        return data_error("K506", problem, where=f"{file.where()}, after row {n_rows}")
    return misfit(file, f"{file.where()}, after row {n_rows}", file.schema.names[int(found[1])], found[2])


def _ragged(file: File, n_expected: int, n_found: int) -> str:
    if file.csv.header is not True:
        return f"a row has {n_found} fields, but {n_expected} columns are named"
    return f"a row has {n_found} fields, the header {n_expected}: the row is damaged or the file ends in the middle of it"


def misfit(file: File, at: str, column: str, value: str) -> DataError:
    """A value that is not of the type of its column."""
    arrow = file.schema.field(column).type
    remedies = _remedies(file, column, value)
    problem = f"`{value}` is not of the type {arrow} that the first values of column `{column}` have"
    if file.is_declared(column):
        problem = f"`{value}` is not of the declared type {arrow}"
        formats = similar_formats([value])[:2] if file.format == "CSV" and pa.types.is_timestamp(arrow) else ()
        if formats:
            remedies = (*[f'are times written so: `keuka.Stream(..., csv={{"time_format": "{format}"}})`?' for format in formats], REJECT)
    return data_error("K509", problem, *remedies, where=f"{at}, column `{column}`")


def _remedies(file: File, column: str, value: str) -> tuple[str, ...]:
    """What a user can do about a value that does not fit."""
    if file.format != "CSV":
        return ("write all values of a column alike, or use a format with types such as Parquet", REJECT)
    name = column_name(column)
    if re.search(DOUBLE, value) and pa.types.is_integer(file.schema.field(column).type):
        return (f'if the column holds numbers of this kind, declare that: `keuka.Stream(..., schema="{name} DOUBLE")`', REJECT)
    as_text = f'if the column is text, declare that: `keuka.Stream(..., schema="{name} STRING")`'
    if any(re.search(pattern, value) for pattern in (DOUBLE, TIMESTAMP, ZONED)):
        return (as_text, REJECT)
    return (as_text, f'if `{value}` means that there is no value, say so: `keuka.Stream(..., csv={{"nulls": ["{value}"]}})`', REJECT)


def doubtful(file: File, doubt: Doubt) -> DataError:
    """Texts in a column that is nearly all of another type."""
    if doubt.n_odd == 1:
        count = f"it is the only one of {doubt.n_values:,} values that were looked at"
    else:
        count = f"{doubt.n_odd:,} of {doubt.n_values:,} values that were looked at are odd"
    return data_error(
        "K536",
        f"`{doubt.value}` stands in column `{doubt.column}` among {nouns_of(doubt.arrow)}: {count}",
        *_remedies(file, doubt.column, doubt.value),
        where=file.where(column=doubt.column, line=line_of(file, doubt.row)),
    )


def _ragged_row(file: File) -> int | None:
    if file.path == "-":
        return None
    try:
        for _, _, broken in _texts(replace(file, rejects=True), [], in_ascii=True):
            if broken:
                return broken[0].row
    except pa.ArrowInvalid:
        pass
    return None


class _Ascii(io.RawIOBase):
    """A file with `?` for all that is not ASCII: rows stay where they are, and Arrow, which shows them to a handler, can decode each."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def read_buffer(self, size: int = -1) -> npt.NDArray[np.uint8]:
        return lent(np.frombuffer(self._source.read(size).translate(bytes(range(128)) + b"?" * 128), np.uint8))


# ---- bad rows apart


def _texts(file: File, columns: Sequence[str], in_ascii: bool = False) -> Iterator[tuple[Int64Array, pa.RecordBatch | None, list[Broken]]]:
    """Rows as bytes: their numbers, and the broken rows before or among them. No columns are all columns.

    `in_ascii`: for places in the file alone. Values are not the file's, and neither are the names of columns.
    """
    n_before = 1 if file.csv.header is True else 0
    found: list[Broken] = []

    def note(row: pa.csv.InvalidRow) -> str:
        # Counted from 1 by Arrow, header included. The line is that of a file whose values have no line breaks.
        number = row.number - 1 - n_before
        found.append(Broken(number, 0, f"{row.actual_columns} fields instead of {row.expected_columns}", row.text))
        return "skip"

    next_row = 0
    options = reading(file, dict.fromkeys(columns, pa.binary()), columns, lent(note), other=pa.binary())
    with open_bytes(file) as source, pa.PythonFile(lent(_Ascii(source)), mode="r") if in_ascii else source as plain:
        for batch in pa.csv.open_csv(plain, **options):
            broken = [each.row for each in found if each.row >= next_row]
            rows = np.setdiff1d(np.arange(next_row, next_row + batch.num_rows + len(broken)), broken)[: batch.num_rows]
            next_row = int(rows[-1]) + 1 if len(rows) else next_row
            before = [each for each in found if each.row < next_row]
            found[:] = found[len(before) :]
            yield rows, batch, before
    if found:
        yield np.arange(0), None, found


def csv_chunks(file: File, columns: list[str]) -> Iterator[Chunk]:
    """The rows, good and bad; of broken ones the text."""
    lines = _Lines(1 + (0 if file.csv.header is not True else 1 + sum([name.count("\n") for name in file.schema.names])))
    waiting: Chunk | None = None  # until the end is known to be no cut
    names = file.schema.names
    try:
        for rows, batch, broken in _texts(file, names):
            lines.count(rows, batch, broken)
            placed = tuple([replace(each, line=lines.of(each.row)) for each in broken])
            if waiting is not None:
                yield waiting
            waiting = _chunk(file, columns, rows, batch, placed, lines)
    except pa.ArrowInvalid as error:
        raise _csv_error(file, 0 if waiting is None else int(waiting.rows.max(initial=0)), error) from error
    if waiting is not None:
        # Only the last row of the file is looked at.
        last = waiting.originals(np.arange(len(waiting.rows))[-1:]).columns if len(waiting.rows) else None
        _check_csv_end(file, last, int(waiting.rows.max(initial=0)) + 1)
        yield waiting


def _chunk(
    file: File, columns: list[str], rows: Int64Array, batch: pa.RecordBatch | None, broken: tuple[Broken, ...], lines: _Lines
) -> Chunk:
    if batch is None:
        batch = pa.RecordBatch.from_arrays([pa.array([], pa.binary()) for _ in file.schema], names=file.schema.names)
    texts = {name: decode(batch.column(name)) for name in batch.schema.names}
    values, reasons = {}, None
    for name in columns:
        arrow = file.schema.field(name).type
        converted = convert(texts[name], arrow, options_of(file, name))
        values[name] = converted.values
        reasons = reasons_for(name, arrow, batch.column(name), texts[name], converted, reasons)

    def originals(indices: Int64Array) -> Originals:
        chosen = [array.take(pa.array(indices)) for array in texts.values()]
        return Originals(pa.RecordBatch.from_arrays(chosen, names=list(texts)), [lines.of(int(rows[i])) for i in indices])

    return Chunk(rows, pa.RecordBatch.from_arrays(list(values.values()), names=list(values)), reasons, originals, broken)


class _Lines:
    """On which line of a file a row begins: after the header, the rows before it, and the line breaks in their quoted values."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.rows: list[int] = []  # that have line breaks, in order,
        self.n_breaks: list[int] = []  # and how many

    def count(self, rows: Int64Array, batch: pa.RecordBatch | None, broken: Sequence[Broken]) -> None:
        found = {each.row: each.text.count("\n") for each in broken if each.text and "\n" in each.text}
        for column in batch.columns if batch is not None else ():
            counts = pc.count_substring(column, b"\n").fill_null(0).to_numpy(zero_copy_only=False)
            for i in np.flatnonzero(counts):
                found[int(rows[i])] = found.get(int(rows[i]), 0) + int(counts[i])
        self.rows += sorted(found)
        self.n_breaks += [found[row] for row in sorted(found)]

    def of(self, row: int) -> int:
        n_before = int(np.searchsorted(self.rows, row)) if self.rows else 0
        return self.first + row + sum(self.n_breaks[:n_before])


def line_of(file: File, row: int) -> int | None:
    """The line on which a row begins; None if it cannot be found any more."""
    if file.path == "-" and len(file.head) >= BLOCK_BYTES:
        return None
    lines = _Lines(1 + (0 if file.csv.header is not True else 1 + sum([name.count("\n") for name in file.schema.names])))
    for rows, batch, broken in _texts(replace(file, rejects=True), [], in_ascii=True):
        lines.count(rows, batch, broken)
        if len(rows) and rows[-1] >= row:
            break
    return lines.of(row)
