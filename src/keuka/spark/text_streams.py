"""Files of CSV and of newline-delimited JSON as rows of Spark, with values, the texts behind them, and what is wrong with a row.

Spark reads texts alone, and `text_columns.py` makes values of them: Spark's own types would be guessed and converted by other rules, in
the zone of the session. Nothing leaves the JVM for that, and what a query does not read is not converted.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType, VariantType

from keuka.events.json_format import NOT_AN_OBJECT
from keuka.events.text_values import Csv, reason_parts
from keuka.spark import text_columns
from keuka.spark.schemas import spark_type

# Columns of the rows beside those of the stream, which have names by position: c0 (the value), o0 (the text), g0 (is there one?).
BROKEN, IS_BROKEN, BROKEN_REASON, N_BREAKS, BLANK, FILE, BLOCK, NUMBER, ORDER = (
    *("_broken", "_is_broken", "_broken_reason", "_n_breaks", "_blank"),
    *("_file", "_block", "_number", "_order"),
)
REPLACED = "\ufffd"  # what Spark reads for bytes that are not UTF-8
# An empty field is null, unless it is quoted: this text, which no file has, stands for null instead of the empty one.
CSV_OPTIONS = {
    "quote": '"',
    "escape": '"',
    "multiLine": "true",
    "mode": "PERMISSIVE",
    "enforceSchema": "false",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "nullValue": "\u0001",
    "emptyValue": "",
    "columnNameOfCorruptRecord": BROKEN,
}
JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "columnNameOfCorruptRecord": BROKEN,
}
NUMBERS = r"^(?:BIGINT|DOUBLE|DECIMAL.*)$"


@dataclass(frozen=True)
class TextFiles:
    """Files on the way to rows. The columns are those of the files in their order, then those that the names of directories hold."""

    format: str
    paths: tuple[str, ...]
    schema: pa.Schema
    n_fields: int  # of a row; the columns after them are those of directories
    csv: Csv
    converted: Mapping[str, Csv]  # by column: how its texts are converted

    @property
    def first_line(self) -> int:
        """The line on which the first row stands."""
        if self.format != "csv" or self.csv.header is not True:
            return 1
        names: list[str] = self.schema.names[: self.n_fields]
        return 2 + sum([name.count("\n") for name in names])

    def rows(self, spark: SparkSession, numbered: bool = False) -> DataFrame:
        """The rows; `numbered` ones have a number that grows within a piece of a file, blank lines included."""
        scanned = self._csv_texts(spark) if self.format == "csv" else self._json_lines(spark)
        if numbered:
            scanned = scanned.withColumn(NUMBER, sf.monotonically_increasing_id())
        values = self._csv_values(scanned) if self.format == "csv" else self._json_values(scanned)
        # Spark would copy the expressions of all values into every filter above. It moves none below a column that is not determined.
        return values.withColumn(ORDER, sf.monotonically_increasing_id()).where(sf.col(ORDER) >= 0)

    # -- CSV

    def _csv_texts(self, spark: SparkSession) -> DataFrame:
        options = {**CSV_OPTIONS, "sep": self.csv.separator, "header": "true" if self.csv.header is True else "false"}
        texts = StructType([StructField(name, StringType()) for name in (*self.schema.names, BROKEN)])
        read = spark.read.format("csv").options(**options).schema(texts).load(list(self.paths))
        whole = sf.col(BROKEN).isNull()
        n_fields = sf.regexp_count(BROKEN, sf.lit(_separators(self.csv.separator))) + 1
        breaks = functools.reduce(operator.add, [_count_breaks(_named(name)) for name in self.schema.names[: self.n_fields]])
        return read.select(
            *[sf.when(whole, _named(name)).alias(f"o{i}") for i, name in enumerate(self.schema.names)],
            BROKEN,
            (~whole).alias(IS_BROKEN),
            sf.when(~whole, sf.concat(n_fields, sf.lit(f" fields instead of {self.n_fields}"))).alias(BROKEN_REASON),
            sf.when(whole, breaks).otherwise(_count_breaks(sf.col(BROKEN))).alias(N_BREAKS),
            sf.lit(False).alias(BLANK),
            *places(),
        )

    def _csv_values(self, scanned: DataFrame) -> DataFrame:
        columns = []
        for i, field in enumerate(self.schema):
            own = self.converted[field.name]
            text = text_columns.drop_null_texts(sf.col(f"o{i}"), own)
            columns += [text_columns.convert(text, field.type, own).alias(f"c{i}"), text.isNotNull().alias(f"g{i}")]
        return scanned.select("*", *columns)

    # -- JSON

    def _json_lines(self, spark: SparkSession) -> DataFrame:
        folders = self.schema.names[self.n_fields :]
        texts = StructType([StructField(name, StringType()) for name in ("value", *folders)])
        read = spark.read.format("text").option("lineSep", "\n").schema(texts).load(list(self.paths))
        said = [_named(name).alias(f"p{self.n_fields + i}") for i, name in enumerate(folders)]
        line = sf.regexp_replace("value", "^\ufeff", "")
        return read.select(line.alias("line"), (sf.trim(line) == "").alias(BLANK), sf.lit(0).alias(N_BREAKS), *said, *places())

    def _json_values(self, scanned: DataFrame) -> DataFrame:
        """Lines are parsed into variants, which tell texts from numbers. Blank ones count where lines are numbered."""
        lines = scanned if NUMBER in scanned.columns else scanned.where(~sf.col(BLANK))
        own = self.schema.names[: self.n_fields]
        variants, texts = [
            StructType([*[StructField(name, kind()) for name in own], StructField(BROKEN, StringType())])
            for kind in (VariantType, StringType)
        ]
        parsed = lines.select("*", sf.from_json("line", variants, JSON_OPTIONS).alias("v"))
        is_object = sf.col("line").rlike(r"\}\s*\z") & sf.col(f"v.{BROKEN}").isNull() & ~sf.col("line").contains(REPLACED)
        parsed = parsed.select("*", (sf.col(BLANK) | is_object).alias("whole"))
        whole = sf.col("whole")
        # A step for each use of a value: Spark computes once what a step before names.
        own_variants = [sf.when(whole, sf.col("v").getField(name)).alias(f"v{i}") for i, name in enumerate(own)]
        parsed = parsed.select("*", *own_variants)
        kinds = [sf.schema_of_variant(f"v{i}").alias(f"k{i}") for i in range(len(own))]
        scalars = [_json_scalar(sf.col(f"v{i}"), self.schema.field(i).type).alias(f"s{i}") for i in range(len(own))]
        parsed = parsed.select("*", *kinds, *scalars)
        line_texts = sf.from_json("line", texts, JSON_OPTIONS)
        columns = []
        for i, field in enumerate(self.schema):
            if i < self.n_fields:
                value = _json_value(sf.col(f"s{i}"), sf.col(f"k{i}"), field.type, self.converted[field.name])
                is_given = sf.coalesce(sf.col(f"k{i}") != "VOID", sf.lit(False))
                text = sf.when(whole, line_texts.getField(field.name))
            else:
                text = sf.col(f"p{i}")
                value, is_given = text_columns.convert(text, field.type, self.converted[field.name]), text.isNotNull()
            columns += [value.alias(f"c{i}"), is_given.alias(f"g{i}"), text.alias(f"o{i}")]
        broken = [
            (~whole).alias(IS_BROKEN),
            sf.when(~whole, sf.col("line")).alias(BROKEN),
            sf.when(~whole, NOT_AN_OBJECT).alias(BROKEN_REASON),
        ]
        return parsed.select(*columns, *broken, *[name for name in (N_BREAKS, BLANK, FILE, BLOCK, NUMBER) if name in scanned.columns])

    # -- what is wrong

    def is_bad(self, columns: Sequence[str]) -> Column:
        """Has a row no values for these columns?"""
        bad = sf.col(IS_BROKEN)
        for i in [self.schema.get_field_index(name) for name in columns]:
            bad = bad | (sf.col(f"g{i}") & sf.col(f"c{i}").isNull())
            bad = bad | sf.coalesce(sf.col(f"o{i}").contains(REPLACED), sf.lit(False)) if self.format == "csv" else bad
        return bad

    def reason(self, columns: Sequence[str]) -> Column:
        """Why a row has no values for these columns; null if it has."""
        reasons = [sf.when(sf.col(IS_BROKEN), sf.col(BROKEN_REASON))]
        for name in columns:
            i = self.schema.get_field_index(name)
            before, after = reason_parts(name, self.schema.field(i).type)
            shown = sf.concat(sf.lit(before), sf.col(f"o{i}"), sf.lit(after))
            reasons += [sf.when(sf.col(f"o{i}").contains(REPLACED), f"`{name}` is not UTF-8")] if self.format == "csv" else []
            reasons.append(sf.when(sf.col(f"g{i}") & sf.col(f"c{i}").isNull(), shown))
        return sf.coalesce(*reasons)


def _separators(separator: str) -> str:
    """The separators outside quotes."""
    return rf'\Q{separator}\E(?=(?:[^"]*"[^"]*")*[^"]*\z)'


def _named(name: str) -> Column:
    return sf.col(f"`{name.replace('`', '``')}`")


def places() -> list[Column]:
    """Where a row is from: the file, and the piece of it, if Spark reads it in pieces."""
    path = sf.col("_metadata.file_path")
    local = sf.regexp_replace(sf.url_decode(sf.replace(path, sf.lit("+"), sf.lit("%2B"))), "^file:/+", "/")
    return [sf.when(path.startswith("file:"), local).otherwise(path).alias(FILE), sf.col("_metadata.file_block_start").alias(BLOCK)]


def _count_breaks(text: Column) -> Column:
    return sf.coalesce(sf.length(text) - sf.length(sf.replace(text, sf.lit("\n"), sf.lit(""))), sf.lit(0))


def _is_text(arrow: pa.DataType) -> bool:
    return any(is_kind(arrow) for is_kind in (pa.types.is_string, pa.types.is_timestamp, pa.types.is_date, pa.types.is_binary))


def _json_scalar(variant: Column, arrow: pa.DataType) -> Column:
    """The value in the column's type, whatever it is written as; times and dates are texts."""
    return sf.try_variant_get(variant, "$", "string" if _is_text(arrow) else spark_type(arrow).simpleString())


def _json_value(scalar: Column, kind: Column, arrow: pa.DataType, options: Csv) -> Column:
    """The value of a column, if it is written as JSON writes such values."""
    if _is_text(arrow):
        return sf.when(kind == "STRING", text_columns.convert(scalar, arrow, options))
    if pa.types.is_integer(arrow):
        return sf.when(kind == "BIGINT", scalar)
    if pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        return sf.when(kind.rlike(NUMBERS), scalar)
    return sf.when(kind == "BOOLEAN", scalar) if pa.types.is_boolean(arrow) else scalar
