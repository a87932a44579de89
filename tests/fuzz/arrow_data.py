"""Arrow columns at random: every type that pyarrow can make, nested, sliced, chunked, with odd names."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa


class Plain(pa.ExtensionType):
    """An extension type as a user would write one; nobody registers it."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "fuzz.plain")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Plain:
        return cls()


ZONES = (None, "UTC", "Europe/Paris", "+05:30", "-00:01", "Foo/Bar", "", "é", "UTC\0x")
NAMES = ("t", "k", "x", "n", "", " ", "a b", "`", "``", "é", "_start", "_end", "_query", "_id", "_contributors", "$1.a", "x_1", "k_1",
         "FROM", "\0", "x" * 400, "#type", "K", "T", "a.b", "a/b", "[1]", "\u202e", "stream", "value")  # fmt: skip
INTEGERS = (0, 1, 2, 3, -1, 127, 2**31, 2**62, 2**63 - 1, -(2**63))
DATES = (datetime.date(2024, 5, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31))


def simple_types(random: Random) -> pa.DataType:
    unit = random.choice(("s", "ms", "us", "ns"))
    return random.choice(
        (pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
         pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
         pa.binary_view(), pa.binary(3), pa.date32(), pa.date64(), pa.timestamp(unit, random.choice(ZONES)), pa.timestamp(unit),
         pa.duration(unit), pa.time32(random.choice(("s", "ms"))), pa.time64(random.choice(("us", "ns"))), pa.month_day_nano_interval(),
         pa.decimal32(4, 2), pa.decimal64(10, 0), pa.decimal128(38, 10), pa.decimal256(50, -2))
    )  # fmt: skip


def any_type(random: Random, depth: int = 2) -> pa.DataType:
    if depth == 0 or random.random() < 0.6:
        return simple_types(random)
    inner = lambda: any_type(random, depth - 1)  # noqa: E731
    index = random.choice((pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()))
    fields = [pa.field(random.choice(("a", "b", "a", "")), inner()) for _ in range(random.randrange(4))]
    makers: list[Callable[[], pa.DataType]] = [
        lambda: pa.list_(inner()),
        lambda: pa.large_list(inner()),
        lambda: pa.list_(inner(), random.randrange(3)),
        lambda: pa.list_view(inner()),
        lambda: pa.large_list_view(inner()),
        lambda: pa.struct(fields),
        lambda: pa.map_(pa.string(), inner()),
        lambda: pa.dictionary(index, random.choice((pa.string(), pa.string(), simple_types(random)))),
        lambda: pa.run_end_encoded(random.choice((pa.int16(), pa.int32(), pa.int64())), simple_types(random)),
        lambda: pa.dense_union(fields or [pa.field("a", pa.int64())]),
        lambda: pa.sparse_union(fields or [pa.field("a", pa.int64())]),
        lambda: random.choice(
            (Plain(), pa.uuid(), pa.json_(), pa.bool8(), pa.opaque(pa.null(), "a", "b"), pa.fixed_shape_tensor(pa.int8(), [2]))
        ),
    ]
    return random.choice(makers)()


def python_value(arrow: pa.DataType, random: Random) -> Any:
    """A value that pa.array may take for the type; it is asked again if not."""
    if random.random() < 0.15 or pa.types.is_null(arrow):
        return None
    for is_of, values in (
        (pa.types.is_boolean, (True, False)),
        (pa.types.is_integer, INTEGERS[: random.choice((4, 6, 10))]),
        (pa.types.is_floating, (0.0, -0.0, 1.5, float("nan"), float("inf"), 1e300)),
        (pa.types.is_decimal, (decimal.Decimal("1.5"), decimal.Decimal(0), decimal.Decimal("-99"))),
        (pa.types.is_date, DATES),
        (pa.types.is_timestamp, (datetime.datetime(2024, 5, 1, 1, 2, 3, 4), 0, 1, -1, 2**40, 2**63 - 1)),
        (pa.types.is_duration, (datetime.timedelta(seconds=5), 0, 2**62)),
        (pa.types.is_time, (datetime.time(1, 2, 3), datetime.time(0))),
        (lambda t: "interval" in str(t), ((1, 2, 3), (0, 0, -1))),
        (lambda t: "string" in str(t), ("a", "b", "", "é", "\0", "x" * 50)),
        (lambda t: "binary" in str(t), (b"abc", b"\xff\xfe\x00")),
    ):
        if is_of(arrow):
            return random.choice(values)
    return None


def column(arrow: pa.DataType, n: int, random: Random) -> pa.Array:
    """An array of the type; of null where pyarrow cannot be told otherwise."""
    try:
        return _made(arrow, n, random)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError, NotImplementedError):
        return pa.nulls(n, arrow)


def _made(arrow: pa.DataType, n: int, random: Random) -> pa.Array:
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.wrap_array(column(arrow.storage_type, n, random))
    if pa.types.is_dictionary(arrow):
        words = column(arrow.value_type, random.randrange(1, 5), random)
        return pa.DictionaryArray.from_arrays(pa.array([random.randrange(len(words)) for _ in range(n)], arrow.index_type), words)
    if pa.types.is_run_end_encoded(arrow):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array([n] if n else [], arrow.run_end_type), column(arrow.value_type, 1 if n else 0, random)
        )
    if pa.types.is_union(arrow):
        children = [column(field.type, n, random) for field in arrow]
        codes = pa.array([random.randrange(len(children)) for _ in range(n)], pa.int8())
        if arrow.mode == "sparse":
            return pa.UnionArray.from_sparse(codes, children, [field.name for field in arrow])
        return pa.UnionArray.from_dense(codes, pa.array(range(n), pa.int32()), children, [field.name for field in arrow])
    if pa.types.is_struct(arrow):
        return pa.StructArray.from_arrays([column(field.type, n, random) for field in arrow], fields=list(arrow))
    if pa.types.is_nested(arrow) and not pa.types.is_map(arrow):
        n_each = arrow.list_size if pa.types.is_fixed_size_list(arrow) else random.randrange(3)
        values = column(arrow.value_type, n * n_each, random)
        if pa.types.is_fixed_size_list(arrow):
            return pa.FixedSizeListArray.from_arrays(values, n_each)
        plain = pa.ListArray.from_arrays(pa.array([i * n_each for i in range(n + 1)], pa.int32()), values)
        return plain if pa.types.is_list(arrow) else plain.cast(arrow)
    return pa.array([python_value(arrow, random) for _ in range(n)], arrow)


def time_column(n: int, random: Random) -> pa.Array:
    """Mostly something that can be a time, in order; now and then not."""
    kind = random.random()
    if kind < 0.5:
        return pa.array(sorted([random.randrange(8) for _ in range(n)]), pa.int64())
    if kind < 0.8:
        unit = random.choice(("s", "ms", "us", "ns"))
        ticks = sorted([random.randrange(8) * (1000 if unit == "ns" else 1) for _ in range(n)])
        return pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, random.choice(ZONES[:5])))
    return column(random.choice((pa.date32(), pa.date64(), pa.int8(), pa.uint64(), pa.timestamp("ns"), any_type(random))), n, random)


def table(random: Random) -> pa.Table:
    n, skipped = random.choice((0, 1, 2, 3, 5, 8)), random.randrange(3)
    size = n + skipped + random.randrange(2)
    fields: list[tuple[str, pa.Array]] = []
    if random.random() < 0.95:
        fields.append(("t", time_column(size, random)))
    if random.random() < 0.8:
        fields.append(
            ("k", column(random.choice((pa.int64(), pa.string(), pa.dictionary(pa.int8(), pa.string()), any_type(random))), size, random))
        )
    if random.random() < 0.8:
        fields.append(("x", column(random.choice((pa.int64(), pa.float64(), pa.int32(), any_type(random))), size, random)))
    for _ in range(random.randrange(4)):
        fields.append((random.choice(NAMES), column(any_type(random), size, random)))
    if random.random() < 0.02:
        fields = []
    random.shuffle(fields)
    made = pa.Table.from_arrays([array for _, array in fields], names=[name for name, _ in fields]).slice(skipped, n)
    if made.num_rows > 1 and random.random() < 0.3:
        cut = random.randrange(made.num_rows)
        made = pa.concat_tables([made.slice(0, cut), made.slice(cut)])
    return made
