"""Arrow columns to the kernel's columns and back.

`canonical` brings a column into the one Arrow type its attribute has inside Keuka and finds values that do not fit.
`to_kernel` turns a canonical column into 64-bit values and one byte of validity per row, without a copy where Arrow's
layout is already that; `from_kernel` turns a column of matches back. Columns of type OTHER never pass through here.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keuka.errors import data_error
from keuka.schema import MOST_DAYS, MOST_DECIMAL, MOST_DIGITS, Attribute, Type

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]

# intern(offsets, data, valid, n): codes of n strings; string i is data[offsets[i]:offsets[i + 1]].
Intern = Callable[[Int32Array, ByteArray, ByteArray | None, int], Int64Array]
# strings(codes, valid): the same layout back, offsets beginning at 0; strings that are not valid are empty.
Strings = Callable[[Int64Array, ByteArray | None], tuple[Int32Array, ByteArray]]


MOST_TEXT = 2**31 - 1  # bytes of text that 32-bit offsets, the kernel's and those of Arrow's strings, can reach


class UnfitError(Exception):
    """Row `index` of a column holds a value the engine has no room for."""

    def __init__(self, index: int, code: str, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.index, self.code, self.problem, self.remedy = index, code, problem, remedy


def damaged(index: int, reason: str) -> UnfitError:
    """A batch that another program made wrongly. Arrow does not look where offsets and indices lead: all of them would be 4 ns a text."""
    return UnfitError(index, "K506", f"the batch is damaged: {reason}", "`validate(full=True)` of Arrow says more")


def canonical(array: pa.Array, attribute: Attribute) -> pa.Array:
    """The column as bool, int64, double, string, large_string, dictionary of one of these, timestamp[us], date32, decimal128 of at least
    18 digits, or its OTHER type.

    Raises UnfitError for the first value that cannot be represented.
    """
    if attribute.type not in (Type.OTHER, Type.DATE, Type.DECIMAL) and array.type.equals(attribute.arrow):
        return array  # most columns: a reader of small batches spends its time here
    array = joinable(array)
    arrow = array.type
    if attribute.type is Type.DATE:
        return _dates(array)
    if attribute.type is Type.DECIMAL:
        return _decimals(array, attribute.arrow)
    if attribute.type is Type.OTHER or arrow.equals(attribute.arrow):
        return array
    if attribute.type is Type.STRING and (pa.types.is_dictionary(arrow) or pa.types.is_large_string(arrow)):
        return array
    try:
        return array.cast(attribute.arrow)
    except pa.ArrowInvalid:
        raise _unfit(array) from None


def _dates(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        least, most = pc.min_max(array.cast(pa.int32())).as_py().values()
    else:
        least, most = pc.min_max(pc.divide(array.cast(pa.int64()), 86_400_000)).as_py().values()
    if least is not None and (least < -MOST_DAYS or most > MOST_DAYS):
        raise _unfit(array)
    # The time of day that a date64 may hold, against Arrow's rules, goes.
    return array if pa.types.is_date32(array.type) else array.cast(pa.date32(), safe=False)


def _decimals(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Decimals of up to 18 digits, whatever the column has room for."""
    scale = arrow.scale
    try:
        wide = array if array.type.equals(arrow) else array.cast(pa.decimal128(38, scale))
    except pa.ArrowInvalid:
        raise _too_many_digits(array) from None
    words = decimal_words(wide)
    low, high = words[:, 0], words[:, 1]
    if not ((high == low >> 63) & (low <= MOST_DECIMAL) & (low >= -MOST_DECIMAL))[_present(wide)].all():
        raise _too_many_digits(wide)
    return wide if wide.type.equals(arrow) else wide.cast(arrow)


def _too_many_digits(array: pa.Array) -> UnfitError:
    limit = pa.scalar(decimal.Decimal(10**MOST_DIGITS).scaleb(-array.type.scale), pa.decimal256(76, array.type.scale))
    large = pc.greater_equal(pc.abs(array.cast(pa.decimal256(76, array.type.scale))), limit)
    index = _first(large)
    problem = f"{array[index].as_py()} has more than {MOST_DIGITS} digits"
    return UnfitError(index, "K514", problem, "convert the column to doubles or to text, or round it to fewer digits")


def _present(array: pa.Array) -> npt.NDArray[np.bool_] | slice:
    valid = validity(array)
    return slice(None) if valid is None else valid.astype(bool)


def decimal_words(array: pa.Array) -> Int64Array:
    """The values of a decimal128 column as pairs of 64-bit words, the lower one first."""
    return _fixed(array, n_words=2).reshape(-1, 2)


def joinable(array: pa.Array) -> pa.Array:
    """The same values in a type whose arrays Arrow can join and reorder.

    Dictionaries of text get indices that have room for the words of other batches; all other dictionaries are decoded.
    Raises UnfitError for an index or a type that is none.
    """
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if _has_union(array.type):
        try:
            array.validate(full=True)  # Arrow finds out itself where a value should be and is not, but only when it is asked for
        except pa.ArrowInvalid as error:
            raise damaged(0, str(error)) from None
    if not pa.types.is_dictionary(array.type):
        return array
    indices, words = array.indices, joinable(array.dictionary)
    least, most = pc.min_max(indices).as_py().values()
    if least is not None and (least < 0 or most >= len(words)):
        raise damaged(_first(pc.or_(pc.less(indices, 0), pc.greater_equal(indices, len(words)))), "an index leads out of its dictionary")
    if not is_text(words.type):
        try:
            return pa.DictionaryArray.from_arrays(indices, words).dictionary_decode()
        except pa.ArrowNotImplementedError:
            problem = f"Arrow cannot look up words of type {words.type}, and these are in a dictionary"
            raise UnfitError(0, "K512", problem, "convert the column, or leave it out") from None
    narrow = indices.type.bit_width < 32
    if not narrow and words is array.dictionary:
        return array
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()) if narrow else indices, words)


def struct_field(column: pa.Array | pa.ChunkedArray, path: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """What a path of fields leads to; null where a struct on the way is."""
    if not path:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type) if isinstance(column, pa.ChunkedArray) else column.dictionary_decode()
    return pc.struct_field(column, list(path))


def taken(batch: pa.RecordBatch, indices: Int64Array) -> pa.RecordBatch:
    """Some rows of a batch, also where Arrow does not take values of a type, as it does not of text in views."""
    try:
        return batch.take(pa.array(indices))
    except pa.ArrowNotImplementedError:
        columns = [pa.array([column[i].as_py() for i in indices.tolist()], column.type) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def widened(array: pa.Array) -> pa.Array:
    """Text with offsets of 64 bits; other columns as they are."""
    if pa.types.is_string(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, widened(array.dictionary))
    return array


def bytes_of(values: pa.Array | pa.RecordBatch) -> int:
    """How many bytes the values take; which of them are null counts as nothing.

    Columns of one width are not left to Arrow, whose count takes 20 us a column: of a reader with small batches that was a tenth.
    """
    return sum(map(_array_bytes, values.columns)) if isinstance(values, pa.RecordBatch) else _array_bytes(values)


def _array_bytes(values: pa.Array) -> int:
    """Arrow crashes when it counts a slice with a dense union in it; then its whole buffers count."""
    if pa.types.is_primitive(values.type):
        return len(values) * int(values.type.bit_width) // 8
    return int(values.get_total_buffer_size() if _has_union(values.type) else values.nbytes)


def _has_union(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_union(arrow)) or any(_has_union(arrow.field(i).type) for i in range(arrow.num_fields))


def cast_to(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The array in this type. A cast to its own type is left out: Arrow breaks lists of structs of nothing but nulls by one."""
    return array if array.type.equals(arrow) else array.cast(arrow)


def is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _unfit(array: pa.Array) -> UnfitError:
    """Which value made the cast fail. Only 64-bit unsigned integers, timestamps and dates can fail."""
    if pa.types.is_integer(array.type):
        index = _first(pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())))
        return UnfitError(
            index, "K514", f"{array[index].as_py()} does not fit a signed 64-bit integer", "convert the column to text or to doubles"
        )
    unit = array.type.unit if pa.types.is_timestamp(array.type) else "days" if pa.types.is_date32(array.type) else "ms"
    if unit == "ns":
        nanoseconds = array.cast(pa.int64())
        index = _first(pc.not_equal(pc.multiply(pc.divide(nanoseconds, 1000), 1000), nanoseconds))
        problem = f"{nanoseconds[index].as_py()} ns since 1970 has a fraction of a microsecond"
        return UnfitError(index, "K510", problem, 'round the column to microseconds first (in pandas: `frame[column].dt.floor("us")`)')
    whole = array.cast(pa.int32()).cast(pa.int64()) if unit == "days" else array.cast(pa.int64())
    limit = (2**63 - 1) // {"days": 86_400_000_000, "s": 1_000_000, "ms": 1_000}[unit]
    index = _first(pc.or_(pc.greater(whole, limit), pc.less(whole, -limit)))
    problem = f"{whole[index].as_py()} {unit} since 1970 does not fit 64-bit microseconds"
    # A date is looked at only where it is the time of events, which cannot be null.
    remedy = "correct or remove such rows" if pa.types.is_date(array.type) else "replace such far dates by null"
    return UnfitError(index, "K514", problem, remedy)


def _first(condition: pa.BooleanArray) -> int:
    return int(pc.index(condition, True).as_py())


def ticks(array: pa.Array) -> Int64Array:
    """The ticks of a canonical time column without nulls; dates become midnight UTC. Raises UnfitError for dates too far away."""
    if pa.types.is_date(array.type):
        try:
            array = array.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            raise _unfit(array) from None
    return _fixed(array)


def to_kernel(column: pa.Array | pa.ChunkedArray, type: Type, intern: Intern) -> tuple[Int64Array, ByteArray | None]:
    """Values and validity (1 = valid; None: all are) of a canonical column.

    The values of null rows mean nothing. The arrays may share memory with the column. Raises UnfitError for a text too long.
    """
    array = _short(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    valid = validity(array)
    if type is Type.STRING:
        return _codes(array, valid, intern), valid
    if type is Type.BOOLEAN:
        return _bits(array.buffers()[1], array.offset, len(array)).astype(np.int64), valid
    if type is Type.DECIMAL:
        return np.ascontiguousarray(decimal_words(array)[:, 0]), valid
    if type is Type.DATE:
        return _fixed(array, np.int32).astype(np.int64), valid
    return _fixed(array), valid


def _short(array: pa.Array) -> pa.Array:
    """A slice of a big dictionary-encoded column still carries all of its values; most are not in this batch.

    A null among the dictionary's values is rare enough not to have a path of its own.
    """
    long = pa.types.is_dictionary(array.type) and (len(array.dictionary) > len(array) or array.dictionary.null_count)
    return array.dictionary_decode() if long else array


def inverted(flags: ByteArray) -> ByteArray:
    """Arrow says which rows are valid, the kernel which are null."""
    return flags ^ np.uint8(1)


def validity(array: pa.Array) -> ByteArray | None:
    """One byte per row, 1 where it is not null; None if no row is."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def _bits(bitmap: pa.Buffer | None, offset: int, n: int) -> ByteArray:
    if bitmap is None:
        return np.zeros(n, dtype=np.uint8)
    begin, skip = divmod(offset, 8)
    packed = np.frombuffer(bitmap, dtype=np.uint8, count=(skip + n + 7) // 8, offset=begin)
    return np.unpackbits(packed, count=skip + n, bitorder="little")[skip:]


def _fixed(array: pa.Array, word: type[np.int64 | np.int32] = np.int64, n_words: int = 1) -> npt.NDArray[Any]:
    """The values of a column as they lie in memory, each so many words: numbers, bits of doubles, ticks, days, decimals."""
    buffer, n = array.buffers()[1], len(array)
    if buffer is None or n == 0:
        return np.zeros(n * n_words, word)
    return np.frombuffer(buffer, word, count=n * n_words, offset=array.offset * n_words * word(0).itemsize)


def _codes(array: pa.Array, valid: ByteArray | None, intern: Intern) -> Int64Array:
    if not pa.types.is_dictionary(array.type):
        return _interned(array, valid, intern)
    dictionary = array.dictionary
    if len(dictionary) == 0:
        return np.zeros(len(array), dtype=np.int64)
    indices = array.indices if valid is None else array.indices.fill_null(0)
    positions: Int64Array = indices.to_numpy()
    try:
        return _interned(dictionary, None, intern)[positions]
    except UnfitError as unfit:
        raise UnfitError(int((positions == unfit.index).argmax()), unfit.code, unfit.problem, unfit.remedy) from None


def _interned(array: pa.Array, valid: ByteArray | None, intern: Intern) -> Int64Array:
    codes, n = [], 0
    for piece in text_pieces(array):
        codes.append(intern(*string_layout(piece), None if valid is None else valid[n : n + len(piece)], len(piece)))
        n += len(piece)
    return codes[0] if len(codes) == 1 else np.concatenate(codes)


def text_pieces(array: pa.Array) -> Iterator[pa.Array]:
    """A string or large_string column in pieces that 32-bit offsets can reach: nearly always the whole of it."""
    begin = 0
    if pa.types.is_large_string(array.type) and len(array) and array.buffers()[1] is not None:
        ends = np.frombuffer(array.buffers()[1], dtype=np.int64, count=len(array) + 1, offset=8 * array.offset)
        while ends[-1] - ends[begin] > MOST_TEXT:
            stop = int(np.searchsorted(ends, ends[begin] + MOST_TEXT, side="right")) - 1
            if stop <= begin:
                length = int(ends[begin + 1] - ends[begin])
                raise UnfitError(begin, "K514", f"a text has {length:,} bytes, more than 2 GB", "shorten it, or replace it by null")
            yield array.slice(begin, stop - begin)
            begin = stop
    yield array.slice(begin) if begin else array


def string_layout(array: pa.Array) -> tuple[Int32Array, ByteArray]:
    """32-bit offsets (n + 1 of them, into the data) and the bytes of a string column, or of a piece of a large_string column."""
    n = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.zeros(0, dtype=np.uint8)
    if n == 0 or offset_buffer is None:
        return np.zeros(n + 1, dtype=np.int32), data
    if pa.types.is_large_string(array.type):
        wide = np.frombuffer(offset_buffer, dtype=np.int64, count=n + 1, offset=8 * array.offset)
        return (wide - wide[0]).astype(np.int32), data[wide[0] : wide[-1]]
    return np.frombuffer(offset_buffer, dtype=np.int32, count=n + 1, offset=4 * array.offset), data


def column_names(schema: pa.Schema, where: str) -> list[str]:
    """The names of columns. Arrow decodes a name when somebody first looks at it."""
    try:
        return list(schema.names)
    except UnicodeDecodeError:
        raise data_error("K514", "the name of a column is not UTF-8", "rename the column", where=where) from None


def check_text(array: pa.Array) -> None:
    """Raises UnfitError for the first text that is not UTF-8, which neither Arrow nor the kernel looks for.

    0.1 ns a row for ASCII, 4 to 12 for other text.
    """
    array = _short(array)
    coded = pa.types.is_dictionary(array.type)
    broken = _first_broken(array.dictionary if coded else array)
    if broken is not None:
        row = max(0, _first(pc.equal(array.indices, broken))) if coded else broken
        raise UnfitError(row, "K514", "text that is not UTF-8", "convert the column to UTF-8")


def _first_broken(array: pa.Array) -> int | None:
    data = array.buffers()[2]
    if len(array) == 0 or data is None or data.size == 0:
        return None
    width = 8 if pa.types.is_large_string(array.type) else 4
    ends = np.frombuffer(array.buffers()[1], dtype=f"i{width}", count=len(array) + 1, offset=width * array.offset)
    text = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]
    if len(text) == 0 or text.max() < 128:
        return None
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        found = re.search(r"at string index (\d+)", str(error))
        return int(found.group(1)) if found else None
    return None


def from_kernel(values: Int64Array, valid: ByteArray | None, attribute: Attribute, strings: Strings) -> pa.Array:
    """A column of results in its attribute's Arrow type. It shares memory with `values`, which must stay as they are."""
    n = len(values)
    if attribute.type is Type.NULL:
        return pa.nulls(n)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if attribute.type is Type.STRING:
        offsets, data = strings(values, valid)
        return pa.Array.from_buffers(pa.string(), n, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
    if attribute.type is Type.BOOLEAN:
        bits = np.packbits(values.astype(np.uint8), bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), n, [bitmap, pa.py_buffer(bits)])
    if attribute.type is Type.DECIMAL:
        words = np.stack([values, values >> 63], axis=1)
        return pa.Array.from_buffers(attribute.arrow, n, [bitmap, pa.py_buffer(words)])
    if attribute.type is Type.DATE:
        return pa.Array.from_buffers(pa.date32(), n, [bitmap, pa.py_buffer(values.astype(np.int32))])
    plain = pa.timestamp("us") if pa.types.is_date(attribute.arrow) else attribute.arrow
    array = pa.Array.from_buffers(plain, n, [bitmap, pa.py_buffer(np.ascontiguousarray(values))])
    return array if plain is attribute.arrow else array.cast(attribute.arrow, safe=False)
