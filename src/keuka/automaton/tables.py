"""The plan as flat arrays, and as bytes: the only form in which a query reaches the kernel.

Comes after `compile.py`; `kernel/layout.py` says what each array holds. Bytes are a fixed head (magic, version, checksum), a
JSON part with names and shapes, and the arrays. Loading refuses what is damaged (K402) or newer (K403).
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.automaton.writer import TYPE_CODES
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.kernel.checks import Malformed, check
from keuka.kernel.layout import ARRAYS, NARROW, OLDEST, VERSION, IntArray, as_array
from keuka.schema import Schema, Type, attribute_of

_HEAD = struct.Struct("<8sIIQ")  # magic, version, checksum of what follows, length of the JSON part
_MAGIC = b"KEUKATAB"


@dataclass(frozen=True)
class SourceColumns:
    """The columns the plan reads of an input stream, in the order the kernel gets them."""

    name: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True)
class OutputColumns:
    """A published result: the operator that computes it, what its rows look like, and the fingerprint of its meaning."""

    name: str
    operator: int
    schema: Schema
    fingerprint: bytes


@dataclass(frozen=True)
class Tables:
    arrays: dict[str, IntArray]
    texts: tuple[str, ...]
    sources: tuple[SourceColumns, ...]
    outputs: tuple[OutputColumns, ...]
    streams: tuple[str, ...]  # names of all streams, operators' included
    fallible: tuple[str, ...]  # by program: the expressions in it that can overflow, for messages
    partition: Mapping[str, tuple[str, ...]] | None  # by source: the key that divides its rows; a source left out is divided at will

    @property
    def contributors(self) -> bool:
        """Do results have the columns `_id` and `_contributors`?"""
        return bool(self.arrays["settings"][2] & 1)


def to_bytes(tables: Tables) -> bytes:
    names = list(ARRAYS)
    meta = {
        "arrays": [[name, list(tables.arrays[name].shape)] for name in names],
        "texts": tables.texts,
        "sources": [[s.name, s.columns, [t.value for t in s.types]] for s in tables.sources],
        "outputs": [[o.name, o.operator, _schema_text(o.schema), o.fingerprint.hex()] for o in tables.outputs],
        "streams": tables.streams,
        "fallible": tables.fallible,
        "partition": tables.partition,
    }
    text = json.dumps(meta, separators=(",", ":")).encode()
    body = text + b"".join([tables.arrays[name].tobytes() for name in names])
    return _HEAD.pack(_MAGIC, VERSION, zlib.crc32(body), len(text)) + body


def from_bytes(data: bytes) -> Tables:
    """Tables as `to_bytes` wrote them; QueryError K402 or K403 for anything else."""
    if len(data) < _HEAD.size or data[:8] != _MAGIC:
        raise damaged_tables("they do not begin as tables do")
    _, version, checksum, n_text = _HEAD.unpack_from(data)
    if version > VERSION:
        message = f"the tables have version {version}; this Keuka reads up to version {VERSION}"
        raise QueryError(Diagnostic("K403", message, help=("update Keuka, or compile the query with this version",)))
    body = data[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise damaged_tables("the checksum does not fit; they were cut short or changed")
    try:
        tables = _upgraded(_read(json.loads(body[:n_text]), body[n_text:]), version)
        check(tables.arrays, list(tables.texts))
        _check_names(tables)
    except (Malformed, ValueError, KeyError, TypeError, IndexError, ArithmeticError, OSError, RecursionError, pa.ArrowException) as error:
        raise damaged_tables(str(error)) from error
    return tables


def _upgraded(tables: Tables, version: int) -> Tables:
    """What an older version wrote, as this one has it."""
    if not OLDEST <= version < VERSION:
        return tables
    arrays = {name: tables.arrays[name] if name in tables.arrays else as_array(name, []) for name in ARRAYS}
    settings = arrays["settings"].copy()
    if len(settings) and settings[0] == version:
        settings[0] = VERSION
    return replace(tables, arrays=arrays | {"settings": settings})


def _check_names(tables: Tables) -> None:
    """What stands beside the arrays must fit them: a wrong type would let numbers be taken for codes of texts."""
    stream, column_type = tables.arrays["stream"], tables.arrays["column_type"]
    n_sources = len(tables.sources)
    described = [(i, [TYPE_CODES[t] for t in source.types], len(source.columns)) for i, source in enumerate(tables.sources)]
    if len({output.name for output in tables.outputs}) < len(tables.outputs):
        raise Malformed("two outputs have one name")
    for output in tables.outputs:
        if not 0 <= output.operator < len(tables.arrays["operator"]):
            raise Malformed("an output has no operator")
        types = [TYPE_CODES[a.type] for a in output.schema.attributes]
        described.append((n_sources + output.operator, types, len(types)))
    if (
        tables.arrays["settings"][1] != n_sources
        or len(tables.streams) != len(stream)
        or len(tables.fallible) != len(tables.arrays["program"])
    ):
        raise Malformed("names and arrays do not fit")
    for index, types, n_columns in described:
        first, n = stream[index].tolist()
        if len(types) != n_columns or column_type[first : first + n].tolist() != types:
            raise Malformed("the types of a stream are not those of its columns")


def damaged_tables(why: str) -> QueryError:
    return QueryError(Diagnostic("K402", "the compiled tables are damaged", label=why, help=("compile the query again",)))


def _read(meta: dict[str, Any], data: bytes) -> Tables:
    arrays: dict[str, IntArray] = {}
    offset = 0
    for name, shape in meta["arrays"]:
        dtype = np.dtype(np.int32 if name in NARROW else np.int64)
        size = int(np.prod(shape)) * dtype.itemsize
        arrays[name] = np.frombuffer(data, dtype, count=size // dtype.itemsize, offset=offset).reshape(shape)
        offset += size
    sources = [SourceColumns(_text(name), _texts(columns), tuple([Type(t) for t in types])) for name, columns, types in meta["sources"]]
    outputs = [OutputColumns(_text(n), op, _schema_of_text(s), bytes.fromhex(f)) for n, op, s, f in meta["outputs"]]
    names = _texts(meta["streams"]), _texts(meta["fallible"])
    key = meta["partition"]
    if key is not None and not isinstance(key, dict):
        raise Malformed("the key of the plan does not name streams")
    partition = None if key is None else {_text(name): _texts(columns) for name, columns in key.items()}
    return Tables(arrays, _texts(meta["texts"]), tuple(sources), tuple(outputs), *names, partition)


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise Malformed("names are not a list")
    return tuple([_text(value) for value in values])


def _text(value: Any) -> str:
    """JSON can write in place of a text what is none: a number, or half of a surrogate pair."""
    if not isinstance(value, str):
        raise Malformed("a name is not text")
    value.encode()
    return value


def _schema_text(schema: Schema) -> str:
    arrow = pa.schema([pa.field(a.name, a.arrow) for a in schema.attributes])
    return base64.b64encode(arrow.serialize().to_pybytes()).decode()


def _schema_of_text(text: str) -> Schema:
    arrow = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    arrow.empty_table()  # Arrow reads types of which it cannot make a column
    return Schema(tuple([attribute_of(f.name, f.type) for f in arrow]))
