"""Matches on their way out: in the kind of table the events came in, and with identities (docs/semantics.md, 1, "Ids").

An id is two 64-bit lanes of a fixed hash, computed with wrapping arithmetic on whole columns. Nothing here may ever change
what an id is: ids outlive processes, plans and versions.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keuka.errors import data_error
from keuka.events.columns import ByteArray, Int32Array, Int64Array, UnfitError, string_layout, text_pieces, validity
from keuka.events.files import place
from keuka.events.order import EventBatch
from keuka.schema import FIELD, RESULT, TRACKED, Schema, TimeAxis

UInt64Array = npt.NDArray[np.uint64]

# Per lane: where hashing begins, and the odd base of the polynomial over contributors.
SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))
BASES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
NULL = np.uint64(0xA4093822299F31D0)
CONTRIBUTORS = "_contributors"
CONTRIBUTOR = pa.struct([pa.field("stream", pa.string()), pa.field("id", pa.string())])
CANONICAL_NAN = np.uint64(0x7FF8000000000000)


def result_schema(schema: Schema, axis: TimeAxis, contributors: bool) -> pa.Schema:
    """The columns of a result table: the query's, then the header."""
    header = [*TRACKED.fields(axis.arrow), pa.field(CONTRIBUTORS, pa.list_(CONTRIBUTOR))] if contributors else RESULT.fields(axis.arrow)
    return pa.schema([*[pa.field(a.name, a.arrow) for a in schema.attributes], *header])


def header_names(contributors: bool) -> tuple[str, ...]:
    """The columns that results have of their own."""
    return (*TRACKED.names, CONTRIBUTORS) if contributors else RESULT.names


def convert(table: pa.Table, kind: str) -> Any:
    """The result as a pandas or polars frame, or as it is.

    In pandas, times are datetime64[us], text is object (or pandas' own text type where that is the default), and integers
    and booleans are int64 and bool, or the nullable Int64 and boolean in a column that has nulls.
    """
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    if kind == "pandas":
        import pandas

        nullable = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
        return pandas.DataFrame(
            {
                name: column.to_pandas(types_mapper=nullable.get if column.null_count else None)
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        )
    return table


def source_ids(stream: str, batch: EventBatch, id_column: str | None) -> tuple[UInt64Array, UInt64Array]:
    """Both lanes of every event's id: of its id column, else of all its columns and how many equal rows came before it.

    Without an id column the batch must hold all columns of the stream and only whole epochs. The order of the columns does
    not count, their names do. Fields of structs that stand by themselves count with their structs.
    """
    columns = [name for name in batch.pieces[0][0].batch.schema.names if FIELD not in name]
    names = columns if id_column is None else [id_column]
    lanes = []
    for lane, seed in enumerate(SEEDS):
        total = np.full(len(batch), _name_hash(stream, lane), dtype=np.uint64)
        for name in names:
            salt = _name_hash(name, lane) if id_column is None else seed
            total += _mixed(_source_hash(stream, name, batch.column(name), seed) + salt)
        lanes.append(_mixed(total))
    if id_column is None:
        ordinal = _ordinals(lanes[0], lanes[1])
        lanes = [_mixed(lane + ordinal * base) for lane, base in zip(lanes, BASES, strict=True)]
    return lanes[0], lanes[1]


def id_texts(column: pa.Array) -> pa.Array:
    """The texts of an id column. In a zone that Arrow does not know, times are shown as UTC."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us", "UTC")).cast(pa.string())


def match_ids(query: bytes, offsets: Int64Array, leaf_lo: UInt64Array, leaf_hi: UInt64Array, leaf_tags: Int64Array) -> pa.Array:
    """Ids of matches as 32 hexadecimal digits, from the 16-byte hash of the query and the ids of their contributors.

    Match m has the leaves offsets[m] to offsets[m + 1], in order; a tag says which input or side of a union a leaf came
    through. Per lane the leaves are digits of a number in base b, so a concatenation is
    `value(xy) = value(x) * b ** len(y) + value(y)`: ids can be extended without the leaves before.
    """
    lengths = np.diff(offsets)
    hashed = []
    for lane, leaves in enumerate((leaf_lo, leaf_hi)):
        digits = _mixed(leaves + _mixed(leaf_tags.astype(np.uint64) + SEEDS[lane]))
        value = _polynomial(digits, offsets, lengths, BASES[lane])
        salt = np.uint64(int.from_bytes(query[8 * lane : 8 * lane + 8], "little"))
        hashed.append(_mixed(value + _mixed(lengths.astype(np.uint64) + salt)))
    return hex_texts(hashed[0], hashed[1])


def hex_texts(low: UInt64Array, high: UInt64Array) -> pa.Array:
    """Both lanes as 32 hexadecimal digits."""
    digits = np.column_stack([low, high]).astype(">u8").tobytes().hex().encode()
    offsets = np.arange(0, 32 * len(low) + 1, 32, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(low), [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _polynomial(digits: UInt64Array, offsets: Int64Array, lengths: Int64Array, base: np.uint64) -> UInt64Array:
    longest = int(lengths.max(initial=0))
    powers = np.ones(max(1, longest), dtype=np.uint64)
    powers[1:] = base
    powers = np.multiply.accumulate(powers)
    exponents = np.repeat(offsets[1:], lengths) - 1 - np.arange(len(digits))
    return _segment_sums(digits * powers[exponents], offsets)


def _segment_sums(terms: UInt64Array, offsets: Int64Array) -> UInt64Array:
    """Sums of terms[offsets[i]:offsets[i + 1]] modulo 2^64, by differences of one running sum."""
    running = np.zeros(len(terms) + 1, dtype=np.uint64)
    np.cumsum(terms, out=running[1:])
    sums: UInt64Array = running[offsets[1:]] - running[offsets[:-1]]
    return sums


def _mixed(values: UInt64Array) -> UInt64Array:
    """Every bit of the result depends on every bit of the value (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _name_hash(name: str, lane: int) -> np.uint64:
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return np.uint64(int.from_bytes(digest[8 * lane : 8 * lane + 8], "little"))


def _ordinals(lo: UInt64Array, hi: UInt64Array) -> UInt64Array:
    """How many equal rows stand before each row of the batch. The time is a column too, so equal rows are of one epoch."""
    ordinals = np.zeros(len(lo), dtype=np.uint64)
    ascending = np.sort(lo)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated) == 0:  # the usual case: 36 ns a row, sorting by both lanes 180
        return ordinals
    rows = np.flatnonzero(np.isin(lo, repeated))
    rows = rows[np.lexsort((hi[rows], lo[rows]))]
    position = np.arange(len(rows))
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (lo[rows[1:]] != lo[rows[:-1]]) | (hi[rows[1:]] != hi[rows[:-1]])
    ordinals[rows] = position - np.maximum.accumulate(np.where(new, position, 0))
    return ordinals


def _source_hash(stream: str, name: str, column: pa.Array, seed: np.uint64) -> UInt64Array:
    try:
        return _column_hash(column, seed)
    except UnfitError as unfit:
        raise data_error(unfit.code, unfit.problem, unfit.remedy, where=place(stream, None, None, name)) from None
    except (ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowNotImplementedError) as error:
        # Python has no value for some of Arrow's: years beyond 9999 inside a struct, two fields of one name, unknown zones.
        problem = f"events are known by their content here, but values of column `{name}` have no text: {error}"
        raise data_error("K512", problem, "name a column that identifies events: `id=`", where=place(stream, None)) from None


def _column_hash(column: pa.Array, seed: np.uint64) -> UInt64Array:
    """A hash of every value of a canonical column. Values that are equal in queries (0.0 and -0.0) have equal hashes."""
    arrow = column.type
    if pa.types.is_dictionary(arrow):
        return _column_hash(column.dictionary_decode(), seed)
    if pa.types.is_boolean(arrow) or pa.types.is_integer(arrow) or pa.types.is_timestamp(arrow):
        hashed = _mixed(column.cast(pa.int64()).fill_null(0).to_numpy().astype(np.uint64) + seed)
    elif pa.types.is_floating(arrow):
        doubles = column.fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
        hashed = _mixed(np.where(np.isnan(doubles), CANONICAL_NAN, doubles.view(np.uint64)) + seed)
    else:
        hashed = np.concatenate([_text_hash(*string_layout(piece), seed) for piece in text_pieces(_as_text(column))])
    valid = validity(column)
    return hashed if valid is None else np.where(valid.astype(bool), hashed, NULL)


def _as_text(column: pa.Array) -> pa.Array:
    """Types without a 64-bit form are hashed as text: Arrow's where it has one, else JSON's with keys in order."""
    arrow = column.type
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return column
    if pa.types.is_date(arrow) or pa.types.is_decimal(arrow) or pa.types.is_time(arrow) or pa.types.is_duration(arrow):
        return column.cast(pa.string())
    # Nested values have no columnar text, so this is the one loop over rows; they are rare and ids are on request.
    texts = [None if value is None else json.dumps(value, default=repr, sort_keys=True) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _text_hash(offsets: Int32Array, data: ByteArray, seed: np.uint64) -> UInt64Array:
    """Sums of the mixed eight-byte words of each text, each with its position, then the length."""
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    n_words = (lengths + 7) // 8
    word_offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(n_words)])
    position = np.arange(word_offsets[-1]) - np.repeat(word_offsets[:-1], n_words)
    padded = np.concatenate([data, np.zeros(8, dtype=np.uint8)])
    at_every_byte = np.ndarray(len(padded) - 7, dtype="<u8", buffer=padded, strides=(1,))
    words = at_every_byte[np.repeat(starts, n_words) + 8 * position]
    n_over = np.maximum(0, 8 * (position + 1) - np.repeat(lengths, n_words)).astype(np.uint64)  # bytes beyond the text
    words &= np.uint64(2**64 - 1) >> (np.uint64(8) * n_over)
    terms = _mixed(words + _mixed(position.astype(np.uint64) + seed))
    return _mixed(_segment_sums(terms, word_offsets) + lengths.astype(np.uint64) + seed)
