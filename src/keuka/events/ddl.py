"""Schemas as Spark writes them (`ts TIMESTAMP, name STRING`), for runs and checks without Spark: flat columns only."""

from __future__ import annotations

import re

import pyarrow as pa

TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
NAME = r"\s*(?:`([^`]+)`|([A-Za-z_][A-Za-z0-9_]*))"
TYPE = r"([A-Za-z_]+)\s*(?:\((\d+)(?:\s*,\s*(\d+))?\))?"
COLUMN = re.compile(rf"{NAME}\s*:?\s+{TYPE}\s*(?:NOT\s+NULL\s*)?", re.IGNORECASE | re.ASCII)


# One column as it is written, up to the comma after it. Messages show no smaller part: it could be a part of a secret.
WRITTEN = re.compile(r"(?:`[^`]*`|\([^)]*\)|[^,])*")


def arrow_schema(text: str) -> pa.Schema:
    """The columns. A ValueError says what cannot be read here: a mistake, or a type that only Spark knows."""
    fields, begin = [], 0
    while True:
        column = COLUMN.match(text, begin)
        written = WRITTEN.match(text, begin)
        assert written is not None  # nothing is a column too
        shown = f"`{written[0].strip()}`"
        if column is None or column.end() != written.end():
            raise ValueError(f"{shown} is not a column and its type")
        fields.append(pa.field(column[1] or column[2], _type(shown, column[3].upper(), column[4], column[5])))
        if column.end() == len(text):
            return pa.schema(fields)
        begin = column.end() + 1


def column_name(name: str) -> str:
    """A name as a schema has it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII) else f"`{name}`"


def _type(column: str, name: str, precision: str | None, scale: str | None) -> pa.DataType:
    if name in ("DECIMAL", "DEC", "NUMERIC"):
        digits = int(precision or 10)
        if not 0 < digits <= 38 or int(scale or 0) > digits:
            raise ValueError(f"{column} has a number of digits that is not 1 to 38")
        return pa.decimal128(digits, int(scale or 0))
    if name in ("VARCHAR", "CHAR", "CHARACTER") and precision is not None:
        return pa.string()
    if name not in TYPES or precision is not None:
        raise ValueError(f"{column} has a type that Spark alone knows")
    return TYPES[name]
