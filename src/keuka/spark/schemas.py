"""Spark's types and Arrow's: what a DataFrame holds, as the query path sees it, and results on the way back.

pyspark has such a mapping of its own, which is not public and differs from version to version.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import types

from keuka.errors import data_error
from keuka.events.files import place

ARROW_OF: dict[type[types.DataType], pa.DataType] = {
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", tz="UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
    types.DayTimeIntervalType: pa.duration("us"),
    types.NullType: pa.null(),
}
SPARK_OF = {arrow: spark() for spark, arrow in ARROW_OF.items()}


def arrow_schema(stream: str, schema: types.StructType) -> pa.Schema:
    """The columns of a DataFrame. Spark's timestamps are instants, so they are in UTC here, whatever the zone of the session."""
    fields = []
    for field in schema.fields:
        arrow = arrow_type(field.dataType)
        if arrow is None:
            problem = f"column `{field.name}` is {field.dataType.simpleString()}, which cannot be passed to Python"
            raise data_error("K512", problem, "convert it, or leave it out: `df.drop(...)`", where=place(stream, None))
        fields.append(pa.field(field.name, arrow))
    return pa.schema(fields)


def arrow_type(of: types.DataType) -> pa.DataType | None:
    """None where there is none."""
    if isinstance(of, types.DecimalType):
        return pa.decimal128(of.precision, of.scale)
    if isinstance(of, types.ArrayType):
        element = arrow_type(of.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(of, types.MapType):
        key, value = arrow_type(of.keyType), arrow_type(of.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(of, types.StructType):
        members = [(field.name, arrow_type(field.dataType)) for field in of.fields]
        return None if any(arrow is None for _, arrow in members) else pa.struct(members)
    # Text of a declared length is text.
    return next((arrow for spark, arrow in ARROW_OF.items() if isinstance(of, spark)), None)


def spark_schema(schema: pa.Schema) -> types.StructType:
    """The columns of a result."""
    return types.StructType([types.StructField(field.name, spark_type(field.type)) for field in schema])


def plain_type(arrow: pa.DataType) -> types.DataType:
    """Of a type that is not made of others; a LookupError where there is none."""
    if pa.types.is_decimal(arrow):
        return types.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return types.TimestampNTZType() if arrow.tz is None else types.TimestampType()
    return SPARK_OF[arrow]


def spark_type(arrow: pa.DataType, plain: Callable[[pa.DataType], types.DataType] = plain_type) -> types.DataType:
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return types.ArrayType(spark_type(arrow.value_type, plain))
    if pa.types.is_map(arrow):
        return types.MapType(spark_type(arrow.key_type, plain), spark_type(arrow.item_type, plain))
    if pa.types.is_struct(arrow):
        return types.StructType([types.StructField(member.name, spark_type(member.type, plain)) for member in arrow])
    return plain(arrow)
