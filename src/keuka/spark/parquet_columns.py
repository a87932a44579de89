"""Columns of Parquet files as Spark reads them, in the types that Keuka's own reader gives them.

Left alone, Spark takes the types from any one of the files, refuses them all because of a column for which it has no type, though nobody
reads it, and makes decimals of 64-bit integers without a sign. Keuka says instead as what Spark is to read each column, and makes values
of that. Columns that Spark has no type for are left out: a query that reads one is an error that names it.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, SparkSession, types
from pyspark.sql import functions as sf

from keuka.diagnostics import Diagnostic
from keuka.events.files import place
from keuka.schema import MOST_DIGITS, Type, attribute_of
from keuka.spark.schemas import arrow_type, plain_type, spark_type

BEYOND = decimal.Decimal(2**63)  # the first integer without room in 64 bits; Spark takes no such literal but as a decimal
CASE = "spark.sql.caseSensitive"
# As Spark itself reads what stands inside of lists, structs and maps, where it has no such type.
INSIDE: dict[pa.DataType, types.DataType] = {
    pa.uint8(): types.ShortType(),
    pa.uint16(): types.IntegerType(),
    pa.uint32(): types.LongType(),
    pa.uint64(): types.DecimalType(20, 0),
    **dict.fromkeys((pa.large_string(), pa.string_view()), types.StringType()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), types.BinaryType()),
    pa.date64(): types.DateType(),
}


@dataclass(frozen=True)
class ParquetColumn:
    """A column of the files: its type there and in queries, and as what Spark reads it (None: not at all, for the reason given)."""

    name: str
    there: pa.DataType
    arrow: pa.DataType
    spark: types.DataType | None
    remedy: str = ""

    def value(self, read: Column) -> Column:
        """What queries get of what Spark read."""
        if _is_nanoseconds(self.there):
            n_us = sf.call_function("div", read, sf.lit(1_000))
            since_1970 = n_us * sf.expr("INTERVAL '0.000001' SECOND")
            return sf.timestamp_micros(n_us) if self.there.tz else sf.lit("1970-01-01").cast("timestamp_ntz") + since_1970
        return sf.when(read < BEYOND, read).cast("bigint") if pa.types.is_uint64(self.there) else read

    @property
    def shown(self) -> pa.DataType:
        """The type in rejected rows. Only of a column that Spark can read."""
        return pa.decimal128(20, 0) if pa.types.is_uint64(self.there) else self.arrow


def columns_of(schema: pa.Schema, others: Sequence[pa.Schema], spark: SparkSession) -> tuple[ParquetColumn, ...]:
    """The columns of files of which the first has this schema, and the others these."""
    lower = [name.lower() for name in schema.names]
    tells_case = str(spark.conf.get(CASE)).lower() == "true"
    columns = []
    for field in schema:
        column = _column(field)
        if not tells_case and lower.count(field.name.lower()) > 1:
            remedy = f'another column differs from it only in case: set `"{CASE}" = "true"` in `[spark.conf]`, or rename one of them'
            column = replace(column, spark=None, remedy=remedy)
        if any(field.name in other.names and not other.field(field.name).type.equals(field.type) for other in others):
            column = replace(column, spark=None, remedy="write it in one type to all files")
        columns.append(column)
    return tuple(columns)


def _column(field: pa.Field) -> ParquetColumn:
    there = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    spark = _spark_type(there)
    if spark is None:
        remedy = f"convert it to another type, or run with `--embedded`: Spark has no type for {there}"
        return ParquetColumn(field.name, there, there, None, remedy)
    if attribute_of(field.name, there).type is Type.TIMESTAMP:
        return ParquetColumn(field.name, there, pa.timestamp("us", tz="UTC" if there.tz else None), spark)
    arrow = pa.int64() if pa.types.is_integer(there) else arrow_type(spark)
    assert arrow is not None
    return ParquetColumn(field.name, there, arrow, spark)


def _is_nanoseconds(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) and arrow.unit == "ns")


def _spark_type(arrow: pa.DataType) -> types.DataType | None:
    """As what Spark reads a column. It widens numbers itself, and takes nanoseconds for the integers that they are in the file."""
    if pa.types.is_null(arrow):
        return types.NullType()
    if _is_nanoseconds(arrow) or (pa.types.is_integer(arrow) and not pa.types.is_uint64(arrow)):
        return types.LongType()
    if pa.types.is_float32(arrow):
        return types.DoubleType()
    try:
        return spark_type(arrow, _type_inside)
    except LookupError:
        return None


def _type_inside(arrow: pa.DataType) -> types.DataType:
    if _is_nanoseconds(arrow) or pa.types.is_null(arrow) or (pa.types.is_decimal(arrow) and arrow.precision > 38):
        raise LookupError
    if pa.types.is_fixed_size_binary(arrow):
        return types.BinaryType()
    return INSIDE[arrow] if arrow in INSIDE else plain_type(arrow)


def unreadable(stream: str, column: ParquetColumn) -> Diagnostic:
    """What is said to a query that reads a column that Spark cannot."""
    problem = f"Spark cannot read column `{column.name}`, which is {column.there} in the files"
    return Diagnostic("K608", problem, label=place(stream, None), help=(column.remedy,))


def unfit_reason(name: str, there: pa.DataType, read: Column) -> Column | None:
    """Why a value has no room in the engine, as `events/columns.py` says it; None if all values of the type have."""
    if _is_nanoseconds(there):
        is_unfit, problem = sf.pmod(read, sf.lit(1_000)) != 0, " ns since 1970 has a fraction of a microsecond"
    elif pa.types.is_uint64(there):
        is_unfit, problem = read >= BEYOND, " does not fit a signed 64-bit integer"
    elif pa.types.is_decimal(there) and there.precision > MOST_DIGITS:
        is_unfit, problem = sf.abs(read) >= decimal.Decimal(10**MOST_DIGITS).scaleb(-there.scale), f" has more than {MOST_DIGITS} digits"
    else:
        return None
    return sf.when(is_unfit, sf.concat(sf.lit(f"`{name}`: "), read.cast("string"), sf.lit(problem)))


def first_reason(reasons: Sequence[Column | None]) -> Column | None:
    known = [reason for reason in reasons if reason is not None]
    return sf.coalesce(*known) if known else None
