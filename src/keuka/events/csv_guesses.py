"""What the beginning of a CSV file says of it: the types of its columns, and whether it is written otherwise than declared.

Comes in: the first rows, with the types that Arrow infers. Goes out: the file with its types, and what is doubtful about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import similar
from keuka.errors import data_error
from keuka.events.files import Doubt, File
from keuka.events.text_values import DATE, DOUBLE, INTEGER, TIMESTAMP, ZONED, Csv, guess

SEPARATORS = (",", ";", "\t", "|")
SHOWN = {"\t": "\\t"}


def look(file: File, table: pa.Table, texts: Callable[[Sequence[str]], pa.Table], head: bytes) -> File:
    """The file with the type of every column: declared, or inferred by Arrow where its inference is ours, or guessed from the texts."""
    names = table.column_names
    if len(set(names)) < len(names):
        return replace(file, schema=table.schema)  # refused as soon as the columns of the stream are looked at
    declared = {field.name: field.type for field in file.declared or ()}
    for name in declared:
        if name not in names:
            problem = f"column `{name}` of the declared schema is not there"
            raise data_error("K509", problem, *similar(name, names), where=file.where())
    has_codes = _may_have_codes(head, file.csv.separator)
    plain = replace(file.csv, separator=",", header=True) == Csv()
    looked = [name for i, name in enumerate(names) if name not in declared and not (plain and _is_sure(table.schema.types[i], has_codes))]
    words = texts(looked) if looked else pa.table({})
    types: dict[str, pa.DataType] = {}
    converted: dict[str, Csv] = {}
    doubts: dict[str, Doubt] = {}
    for i, name in enumerate(names):
        own = file.csv
        if name in declared:
            types[name] = declared[name]
        elif name in looked:
            column = words[name].combine_chunks()
            guessed = guess(column, file.csv)
            types[name], own = guessed.arrow, guessed.options
            if guessed.odd is not None:
                row = int(pc.index(guessed.odd, True).as_py())
                n_odd = int(pc.sum(guessed.odd).as_py())
                doubts[name] = Doubt(name, guessed.arrow, column[row].as_py(), row, n_odd, guessed.n_values)
        else:
            types[name] = widest(table.column(i))
            own = replace(own, zone=None)
        if not _is_typed_by_arrow(types[name], own):
            converted[name] = own
    return replace(file, schema=pa.schema(list(types.items())), converted=converted, doubts=doubts)


def _is_sure(arrow: pa.DataType, has_codes: bool) -> bool:
    """Is the inferred type what `guess` would say? Texts may be nearly of a type, and numbers codes such as 007."""
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return not has_codes
    return bool(pa.types.is_boolean(arrow) or pa.types.is_date(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_null(arrow))


def _may_have_codes(head: bytes, separator: str) -> bool:
    """Does a field begin with a zero and another digit, or an x? Looking at bytes costs 3 % of what looking at texts does."""
    characters = np.frombuffer(head, dtype=np.uint8)
    second = characters[1:]
    follows = ((second >= ord("0")) & (second <= ord("9"))) | (second == ord("x")) | (second == ord("X"))
    places = np.flatnonzero((characters[:-1] == ord("0")) & follows)
    places = places[places >= 2]  # after the header
    begins = np.frombuffer(b'"\n\r' + separator.encode(), dtype=np.uint8)
    signs = np.frombuffer(b"+- \t", dtype=np.uint8)
    before, one_more = characters[places - 1], characters[places - 2]
    return bool((np.isin(before, begins) | (np.isin(before, signs) & np.isin(one_more, begins))).any())


def _is_typed_by_arrow(arrow: pa.DataType, options: Csv) -> bool:
    """Does Arrow's typed reader mean the same as `convert`?"""
    if options.nulls or pa.types.is_decimal(arrow):
        return False  # it takes nulls only without quotes, and decimals of more digits than the type has
    if pa.types.is_timestamp(arrow):
        return options.time_format is None and (arrow.tz is None or options.zone is None)
    return True


def widest(column: pa.ChunkedArray) -> pa.DataType:
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


# ---- files that are written otherwise than declared


def check_separator(file: File) -> None:
    """A header with another separator in it would be one column of a strange name."""
    lines = file.head.split(b"\n", 2)[:2]
    if file.csv.separator.encode() in lines[0]:
        return
    for separator in SEPARATORS:
        if all(separator.encode() in line for line in lines if line.strip()):
            shown = SHOWN.get(separator, separator)
            header = lines[0].decode(errors="replace").strip()
            problem = f"the first line, `{header}`, has no `{file.csv.separator}` in it, but `{shown}`"
            raise data_error(
                "K538", problem, f'say what separates fields: `keuka.Stream(..., csv={{"separator": "{shown}"}})`', where=file.where()
            )


def check_header(file: File) -> None:
    """Names that are themselves values of their columns are a row."""
    if file.csv.header is not True or not any(_is_value(name, None) for name in file.schema.names):
        return
    if all(_is_value(field.name, field.type) for field in file.schema):
        row = file.csv.separator.join(file.schema.names)
        problem = f"the first line, `{row}`, looks like a row, not like the names of the columns"
        help = (
            'if the file has no header, say so: `keuka.Stream(..., csv={"header": False})`',
            'and name the columns, in order, with their types: `keuka.Stream(..., schema="at TIMESTAMP, ...")`',
        )
        raise data_error("K539", problem, *help, where=file.where())


def _is_value(name: str, arrow: pa.DataType | None) -> bool:
    """Is the name of a column a value of its type? None: of any type but text."""
    if arrow is None:
        return any(re.search(pattern, name) for pattern in (INTEGER, DOUBLE, DATE, TIMESTAMP, ZONED) if name.lower() not in ("nan", "inf"))
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow):
        return bool(re.search(DOUBLE, name))
    if pa.types.is_date(arrow) or pa.types.is_timestamp(arrow):
        return bool(re.search(TIMESTAMP, name) or re.search(ZONED, name))
    if pa.types.is_boolean(arrow):
        return name.lower() in ("true", "false", "0", "1")
    return True
