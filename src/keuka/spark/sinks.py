"""CSV and JSON sinks: what Spark's writers get, so that their files hold the values that embedded sinks (`events/sinks.py`) write.

Spark's own texts are others: times in the zone of the session and cut to milliseconds, doubles as the Java of the machine writes them. A
column of text is written as it is, so columns become text on workers, by the functions that embedded sinks use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from keuka.events.sinks import check_csv, json_value, python_values
from keuka.pipelines.values import N_SHOWN
from keuka.schema import RESULT
from keuka.spark.schemas import arrow_schema, spark_schema

# As Arrow writes CSV: a quote in a value is written twice, blanks are kept. As our JSON: every key in every line.
WRITE_OPTIONS = {
    "csv": {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    "json": {"ignoreNullFields": "false"},
}
# Who asks for a form of times gets it from Spark, in UTC unless another zone is named.
TIME_OPTIONS = {"timestampformat", "timestampntzformat", "dateformat", "timezone"}
UTC = {"timeZone": "UTC"}


def as_text(frame: DataFrame, format: str, options: Mapping[str, str]) -> tuple[DataFrame, dict[str, str]]:
    """The rows with columns that Spark writes as they are, and the options to write them with."""
    defaults = WRITE_OPTIONS.get(format, {})
    if format not in WRITE_OPTIONS or {name.lower() for name in options} & TIME_OPTIONS:
        return frame, with_defaults(options, {**defaults, **(UTC if format in WRITE_OPTIONS else {})})
    schema = arrow_schema("", frame.schema)
    if format == "csv":
        check_csv(schema)
    shown = pa.schema([(field.name, pa.string() if format == "csv" else json_type(field.type)) for field in schema])
    if not shown.equals(schema) or any(pa.types.is_floating(field.type) for field in schema):
        frame = frame.mapInArrow(_on_worker(format, schema, shown), spark_schema(shown))
    return frame, with_defaults(options, defaults)


def first_rows(frame: DataFrame) -> pa.Table:
    """What the console shows of the rows."""
    ordered = frame.orderBy(RESULT.end, RESULT.start) if {*RESULT.names} <= {*frame.columns} else frame
    return ordered.limit(N_SHOWN).toArrow().cast(arrow_schema("", frame.schema))  # Spark shows times in the zone of its session


def with_defaults(options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Spark's names of options ignore case."""
    given = {name.lower() for name in options}
    return {name: value for name, value in defaults.items() if name.lower() not in given} | dict(options)


def json_type(arrow: pa.DataType) -> pa.DataType:
    """The type of what `json_value` makes of a column."""
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", json_type(arrow.value_type)))
    if pa.types.is_struct(arrow):
        return pa.struct([(member.name, json_type(member.type)) for member in arrow])
    if pa.types.is_map(arrow):
        return pa.list_(pa.field("element", pa.string()))
    plain = pa.types.is_boolean(arrow) or pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_null(arrow)
    return arrow if plain else pa.string()


def shown_column(format: str, name: str, column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The column as the embedded sink of the format writes it. Times come in the zone of the session, which no file shows."""
    column = column.cast(arrow)
    wanted = pa.string() if format == "csv" else json_type(arrow)
    if format == "csv" or pa.types.is_string(arrow):
        return column.cast(wanted)
    if pa.types.is_floating(arrow):
        return pc.if_else(pc.is_finite(column), column, None)
    return column if wanted.equals(arrow) else pa.array([json_value(value) for value in python_values(name, column)], wanted)


def _on_worker(format: str, schema: pa.Schema, shown: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark.sinks import shown_column

        for batch in batches:
            columns = [shown_column(format, f.name, c, f.type) for f, c in zip(schema, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=shown)

    return run
