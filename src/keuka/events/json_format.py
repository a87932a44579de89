"""Newline-delimited JSON: its types are inferred from the beginning of the file, or declared, and hold for the whole file.

A later value of another kind is K509, a line that is no object K506; `json_chunks` gives both apart.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from keuka.errors import DataError, data_error
from keuka.events.columns import Int64Array
from keuka.events.csv_format import REJECT, misfit, not_utf8, typed_batch
from keuka.events.csv_guesses import widest
from keuka.events.files import BATCH_ROWS, BLOCK_BYTES, Broken, Chunk, File, Originals, estimated_rows, in_memory, open_bytes
from keuka.events.text_values import DEFAULT, convert, reason_parts, reasons_for

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_AN_OBJECT = "not a JSON object"


# ---- types


def learn_json(file: File) -> tuple[File, int | None]:
    """The file with the types of its columns, and about how many rows it has."""
    lines = file.head if len(file.head) < BLOCK_BYTES else file.head[: file.head.rfind(b"\n") + 1]
    lines = b"\n".join(_usable_lines(lines)) if file.rejects else lines
    declared = {field.name: field.type for field in file.declared or ()}
    types: dict[str, pa.DataType] = {}
    n_rows: int | None = 0
    if lines.strip():
        if file.rejects:
            lines, untyped = _typed_lines(lines)
            types = dict.fromkeys(untyped, pa.string())
        table = _parse_json(file, lines, None, 0)
        texts = [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_timestamp(f.type)]
        as_text = _parse_json(file, lines, pa.schema([(name, pa.string()) for name in texts]), 0)
        types |= {f.name: _time_or_text(as_text[f.name]) if f.name in texts else widest(table[f.name]) for f in table.schema}
        n_rows = estimated_rows(file, table.num_rows)
    # Arrow's reader knows neither dates nor times that have no zone where one is declared.
    as_written = [name for name, arrow in declared.items() if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow)]
    schema = pa.schema(list({**types, **declared}.items()))
    return replace(file, schema=schema, converted=dict.fromkeys(as_written, DEFAULT)), n_rows


def _usable_lines(lines: bytes) -> list[bytes]:
    """Lines that are objects, whose values are of the kind that most values of their columns are of."""
    objects = [(line, found) for line in lines.split(b"\n") if line.strip() and (found := _object(line)) is not None]
    kinds: dict[str, Counter[str]] = {}
    for _, found in objects:
        for name, value in found.items():
            kinds.setdefault(name, Counter())[_kind(value)] += value is not None
    usual = {name: counts.most_common(1)[0][0] for name, counts in kinds.items()}
    return [line for line, found in objects if all(value is None or _kind(value) == usual[name] for name, value in found.items())]


def _typed_lines(lines: bytes) -> tuple[bytes, list[str]]:
    """The lines without values that have no common type, such as lists of texts and numbers, and the columns that these stand in."""
    if _can_parse(lines.removeprefix(BYTE_ORDER_MARK), None):
        return lines, []
    rows = lines.split(b"\n")
    names = list(dict.fromkeys([name for line in rows for name in _object(line) or ()]))
    untyped = [name for name in names if not _can_parse(b"\n".join([_rewritten(line, [name]) for line in rows]), None)]
    return b"\n".join([_rewritten(line, [name for name in names if name not in untyped]) for line in rows]), untyped


class _Number(str):
    """A number as it is written."""


def _object(line: bytes) -> dict[str, Any] | None:
    """The object of a line, with numbers as texts of their own kind."""
    try:
        found = json.loads(line.removeprefix(BYTE_ORDER_MARK), parse_float=_Number, parse_int=_Number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _kind(value: object) -> str:
    """Numbers that are too large for 64 bits do not decide the type of a column, unless most are."""
    if isinstance(value, _Number):
        fits = -(2**63) <= int(value) < 2**63 if value.lstrip("-").isdigit() else abs(float(value)) < math.inf
        return "number" if fits else "large number"
    return type(value).__name__


def _rewritten(line: bytes, columns: Sequence[str] | None) -> bytes:
    """A line with these columns alone, or all, and of a key that occurs twice the last value; a line that is no object as it is. Arrow's
    reader refuses such keys, and some values of columns that nobody wants."""
    found = _object(line)
    if found is None:
        return line
    return _written({name: value for name, value in found.items() if columns is None or name in columns}).encode()


def _written(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join([f"{json.dumps(name)}: {_written(one)}" for name, one in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_written(one) for one in value]) + "]"
    return str(value) if isinstance(value, _Number) else json.dumps(value)


def _text(value: object) -> str | None:
    """A value as it stands in the table of rejected rows."""
    return value if value is None or isinstance(value, str) else json.dumps(json.loads(_written(value)))


def _time_or_text(column: pa.ChunkedArray) -> pa.DataType:
    """Arrow takes text for a timestamp only without fraction; we take every text that is ISO time throughout."""
    for arrow in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            column.cast(arrow)
        except pa.ArrowInvalid:
            continue
        return arrow if column.null_count < len(column) else pa.string()
    return pa.string()


# ---- rows


def _read_schema(file: File, columns: Sequence[str]) -> pa.Schema:
    """What Arrow's reader is to read: columns that are converted afterwards are text."""
    return pa.schema([(name, pa.string()) if name in file.converted else file.schema.field(name) for name in columns])


def json_batches(file: File, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows; the first bad one is an error."""
    schema = _read_schema(file, columns)
    n_rows = 0
    with open_bytes(file) as source:
        for lines in _line_blocks(source):
            table = _parse_json(file, lines, schema, n_rows)
            for batch in table.to_batches(BATCH_ROWS):
                yield typed_batch(file, batch, n_rows, file.converted) if file.converted.keys() & columns else batch
                n_rows += batch.num_rows


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
    except pa.ArrowInvalid:
        lines = b"\n".join([_rewritten(line, None if schema is None else schema.names) for line in lines.split(b"\n")])
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
                raise not_utf8(file.where(n_rows + _n_rows(lines[: lines.rfind(b"\n", 0, error.start) + 1]))) from None
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
    return data_error("K506", problem, "write one object per line, without brackets or commas around them", REJECT, where=where)


def _json_table(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore")
    # One block: blocks of their own would be inferred apart from each other.
    return pa.json.read_json(in_memory(lines), pa.json.ReadOptions(block_size=len(lines) + 1), options)


def _can_parse(lines: bytes, schema: pa.Schema | None) -> bool:
    try:
        _json_table(lines, schema)
    except pa.ArrowInvalid:
        return False
    return True


def _json_error(file: File, block: bytes, schema: pa.Schema | None, n_rows: int, error: pa.ArrowInvalid) -> DataError:
    """Finds the first line that does not fit: the shortest beginning of the block that cannot be parsed ends with it."""
    lines = [line for line in block.split(b"\n") if line.strip()]
    good = bisect_left(range(1, len(lines)), True, key=lambda n: not _can_parse(b"\n".join(lines[:n]), schema))
    where = file.where(n_rows + good)
    try:
        table = _json_table(lines[good], None)
    except pa.ArrowInvalid:
        cut = good == len(lines) - 1 and not block.endswith(b"\n") and lines[good].lstrip().startswith(b"{")
        return _not_json(where, "the file ends in the middle of a line" if cut else "a line is not a JSON object")
    read = [f for f in schema or () if f.name in table.column_names]
    wrong = next((f for f in read if not _can_parse(lines[good], pa.schema([f]))), None)
    if wrong is None:
        reason = str(error).split(" in row ")[0]
        problem = "a line does not have the types of the lines before it"
        return data_error("K509", problem, f"the reader says: {reason}", REJECT, where=where)
    return misfit(file, where, wrong.name, str(table[wrong.name][0].as_py()))


# ---- bad rows apart


def json_chunks(file: File, columns: list[str]) -> Iterator[Chunk]:
    """The rows, good and bad; lines are parsed together as long as all of them can be."""
    schema = _read_schema(file, columns)
    n_rows, n_lines = 0, 0
    with open_bytes(file) as source:
        for block in _line_blocks(source):
            block = block.removeprefix(BYTE_ORDER_MARK) if n_lines == 0 else block
            try:
                _check_lines(file, block, 0)
                table = _json_table(block, schema) if block.strip() else schema.empty_table()
            except (pa.ArrowInvalid, DataError):
                chunk = _sifted(file, columns, schema, block, n_rows, n_lines)
            else:
                rows = np.arange(n_rows, n_rows + table.num_rows)
                chunk = _chunk(file, columns, table, rows, partial(_lines, block, n_lines), ())
            yield chunk
            n_rows += len(chunk.rows) + len(chunk.broken)
            n_lines += block.count(b"\n")


Lines = Callable[[], list[tuple[int, bytes]]]  # looked for only if one is wanted


def _lines(block: bytes, n_before: int) -> list[tuple[int, bytes]]:
    """Those that are not blank, each with its number in the file, from 1."""
    return [(n_before + i, line) for i, line in enumerate(block.split(b"\n"), 1) if line.strip()]


def _chunk(file: File, columns: list[str], table: pa.Table, rows: Int64Array, lines: Lines, broken: tuple[Broken, ...]) -> Chunk:
    arrays, reasons = [], None
    for name in columns:
        column = table[name].combine_chunks()
        if name in file.converted:
            arrow = file.schema.field(name).type
            converted = convert(column, arrow, file.converted[name])
            reasons = reasons_for(name, arrow, column, column, converted, reasons)
            column = converted.values
        arrays.append(column)

    def originals(indices: Int64Array) -> Originals:
        first = int(min([*rows[:1], *[each.row for each in broken[:1]]]))
        every = lines()
        chosen = [every[int(rows[i]) - first] for i in indices]
        objects = [_object(line) or {} for _, line in chosen]
        texts = [pa.array([_text(found.get(name)) for found in objects], pa.string()) for name in file.schema.names]
        return Originals(pa.RecordBatch.from_arrays(texts, names=file.schema.names), [number for number, _ in chosen])

    return Chunk(rows, pa.RecordBatch.from_arrays(arrays, names=columns), reasons, originals, broken)


def _sifted(file: File, columns: list[str], schema: pa.Schema, block: bytes, n_rows: int, n_lines: int) -> Chunk:
    """A block with lines that cannot be parsed: they are found by halves."""
    every = _lines(block, n_lines)
    good: list[int] = []

    def sift(begin: int, end: int) -> None:
        if begin < end and _fit(every[begin:end], schema):
            good.extend(range(begin, end))
        elif end - begin > 1:
            middle = (begin + end) // 2
            sift(begin, middle)
            sift(middle, end)
        elif begin < end:
            read = every[begin][0], _rewritten(every[begin][1], schema.names)
            if _fit([read], schema):
                every[begin] = read
                good.append(begin)

    sift(0, len(every))
    is_bad = np.ones(len(every), dtype=bool)
    is_bad[good] = False
    broken = tuple([_broken(file, schema, n_rows + int(i), *every[i]) for i in np.flatnonzero(is_bad)])
    table = _json_table(b"\n".join([every[i][1] for i in good]), schema) if good else schema.empty_table()
    rows = n_rows + np.array(good, dtype=np.int64)
    return _chunk(file, columns, table, rows, partial(_lines, block, n_lines), broken)


def _fit(lines: Sequence[tuple[int, bytes]], schema: pa.Schema) -> bool:
    # Arrow's reader crashes at lines that are no objects, and does not look whether text is UTF-8.
    if not all(line.lstrip().startswith(b"{") for _, line in lines):
        return False
    together = b"\n".join([line for _, line in lines])
    try:
        together.decode()
    except UnicodeDecodeError:
        return False
    return _can_parse(together, schema)


def _broken(file: File, schema: pa.Schema, row: int, line: int, text: bytes) -> Broken:
    shown = text.decode(errors="replace")
    found = _object(text)
    if found is None:
        return Broken(row, line, NOT_AN_OBJECT, shown)
    for field in schema:
        if found.get(field.name) is not None and not _can_parse(_rewritten(text, [field.name]), pa.schema([field])):
            value = _text(found[field.name])
            before, after = reason_parts(field.name, file.schema.field(field.name).type)
            return Broken(row, line, f"{before}{value}{after}", None, {name: _text(value) for name, value in found.items()})
    return Broken(row, line, NOT_AN_OBJECT, shown)
