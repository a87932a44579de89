"""Files of CSV and of newline-delimited JSON as rows of Spark, with values, the texts behind them, and what is wrong with a row.

Spark reads texts alone, and `text_columns.py` makes values of them: Spark's own types would be guessed and converted by other rules, in
the zone of the session. Nothing leaves the JVM for that, and what a query does not read is not converted.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import operator
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType, VariantType

from keuka.events.csv_format import last_row_end
from keuka.events.files import BLOCK_BYTES
from keuka.events.json_format import NOT_AN_OBJECT
from keuka.events.text_values import Csv, reason_parts
from keuka.spark import text_columns
from keuka.spark.schemas import spark_type

RAW = "_raw"  # the line of JSON that a row is
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
HEAD_LINES = 100_000  # of a file that is elsewhere; types are guessed from the first 4 MB of them, as of files on this machine
NUMBERS = r"^(?:BIGINT|DOUBLE|DECIMAL.*)$"
# How numbers, truth values, lists and objects are written in JSON. A text can look like that, too.
STRICT = {pa.int64(): LongType(), pa.float64(): DoubleType(), pa.bool_(): BooleanType()}
MAYBE_NO_TEXT = r"^(?:[\[{]|(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false)\z)"


@dataclass(frozen=True)
class TextFiles:
    """Files on the way to rows. The columns are those of the files in their order, then those that the names of directories hold."""

    format: str
    paths: tuple[str, ...]
    schema: pa.Schema
    n_fields: int  # of a row; the columns after them are those of directories
    csv: Csv
    converted: Mapping[str, Csv]  # by column: how its texts are converted
    arriving: Mapping[str, str] | None = None  # Spark's options about files that come later; None if only those are read that are there

    @property
    def first_line(self) -> int:
        """The line on which the first row stands."""
        if self.format != "csv" or self.csv.header is not True:
            return 1
        names: list[str] = self.schema.names[: self.n_fields]
        return 2 + sum([name.count("\n") for name in names])

    def rows(self, spark: SparkSession, columns: Sequence[str], numbered: bool = False) -> DataFrame:
        """The rows, of which these columns are read; `numbered` ones have a number that grows within a piece of a file, blank lines
        included."""
        scanned = self._csv_texts(spark) if self.format == "csv" else self._json_lines(spark)
        if numbered:
            scanned = scanned.withColumn(NUMBER, sf.monotonically_increasing_id())
        values = self._csv_values(scanned) if self.format == "csv" else self._json_values(scanned, columns)
        # Spark would copy the expressions of all values into every filter above. It moves none below a column that is not determined.
        return values.withColumn(ORDER, sf.spark_partition_id()).where(sf.col(ORDER) >= 0)

    # -- CSV

    def _csv_texts(self, spark: SparkSession) -> DataFrame:
        options = {**CSV_OPTIONS, "sep": self.csv.separator, "header": "true" if self.csv.header is True else "false"}
        texts = StructType([StructField(name, StringType()) for name in (*self.schema.names, BROKEN)])
        whole = sf.col(BROKEN).isNull()
        n_fields = sf.regexp_count(BROKEN, sf.lit(_separators(self.csv.separator))) + 1
        breaks = functools.reduce(operator.add, [_count_breaks(_named(name)) for name in self.schema.names[: self.n_fields]])
        columns: list[Column | str] = [
            *[sf.when(whole, _named(name)).alias(f"o{i}") for i, name in enumerate(self.schema.names)],
            BROKEN,
            (~whole).alias(IS_BROKEN),
            sf.when(~whole, sf.concat(n_fields, sf.lit(f" fields instead of {self.n_fields}"))).alias(BROKEN_REASON),
            sf.when(whole, breaks).otherwise(_count_breaks(sf.col(BROKEN))).alias(N_BREAKS),
            sf.lit(False).alias(BLANK),
            *places(),
        ]
        return load(spark, "csv", options, texts, self.paths, self.arriving, columns)

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
        said = [_named(name).alias(f"o{self.n_fields + i}") for i, name in enumerate(folders)]
        line = sf.regexp_replace("value", "^\ufeff", "")
        columns = [line.alias(RAW), (sf.trim(line) == "").alias(BLANK), sf.lit(0).alias(N_BREAKS), *said, *places()]
        return load(spark, "text", {"lineSep": "\n"}, texts, self.paths, self.arriving, columns)

    def _json_values(self, scanned: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Each line is parsed once, into the types of the columns that are read. Only where that does not prove all of them good, and for
        types that Spark's parser is lenient with, it is parsed into variants, which tell texts from numbers. Blank lines count where lines
        are numbered."""
        lines = scanned if NUMBER in scanned.columns else scanned.where(~sf.col(BLANK))
        own = range(self.n_fields)
        strict = [i for i in own if self.schema.names[i] in columns and _strict_type(self.schema.field(i).type) is not None]
        other = [i for i in own if i not in strict]
        # A step for each use of a value: Spark computes once what a step before names, and nothing that nobody asks for.
        parsed = lines.select("*", self._parse(sf.col(RAW), strict, _strict_type).alias("f"))
        parsed = parsed.select("*", *[self._strict_value(i).alias(f"f{i}") for i in strict])
        parsed = parsed.select("*", self._is_proven(strict).alias("proven"))
        proven, blank = sf.col("proven"), sf.col(BLANK)
        slow = [sf.when(~proven, self._parse_apart(strict)).alias("v"), self._parse_apart(other).alias("u")]
        parsed = parsed.select("*", *slow)
        parsed = parsed.select("*", (proven | blank | sf.col("v.whole")).alias("whole"))
        values = []
        for i, field in enumerate(self.schema):
            if i in strict:
                value = sf.when(proven, sf.col(f"f{i}")).otherwise(sf.col(f"v.c{i}"))
                is_given = sf.when(proven, sf.col(f"f{i}").isNotNull()).otherwise(sf.coalesce(f"v.g{i}", sf.lit(False)))
            elif i in other:
                value, is_given = sf.col(f"u.c{i}"), sf.coalesce(f"u.g{i}", sf.lit(False))
            else:
                text = sf.col(f"o{i}")
                value, is_given = text_columns.convert(text, field.type, self.converted[field.name]), text.isNotNull()
            values += [value.alias(f"c{i}"), is_given.alias(f"g{i}")]
        whole = sf.col("whole")
        broken = [
            (~whole).alias(IS_BROKEN),
            sf.when(~whole, sf.col(RAW)).alias(BROKEN),
            sf.when(~whole, NOT_AN_OBJECT).alias(BROKEN_REASON),
        ]
        return parsed.select(*values, *broken, *scanned.columns)

    def _parse_apart(self, fields: Sequence[int]) -> Column:
        """These fields of a line as variants say them: the values c0, whether they are given as g0, and whether the line is an object."""

        def of_line(line: Column) -> Column:
            variants = self._parse(line, fields, lambda _: VariantType())
            return text_columns.apart(variants, lambda parsed: of_variants(line, parsed))

        def of_variants(line: Column, parsed: Column) -> Column:
            whole = line.rlike(r"\}\s*\z") & parsed.getField(BROKEN).isNull() & ~line.contains(REPLACED)
            return sf.struct(whole.alias("whole"), *[part for i in fields for part in of_field(i, whole, parsed)])

        def of_field(i: int, whole: Column, parsed: Column) -> list[Column]:
            field = self.schema.field(i)
            variant = sf.when(whole, parsed.getField(field.name))
            value = text_columns.apart(variant, lambda given: _json_value(given, field.type, self.converted[field.name]))
            return [value.alias(f"c{i}"), (sf.schema_of_variant(variant) != "VOID").alias(f"g{i}")]

        return text_columns.apart(sf.col(RAW), of_line)

    def _parse(self, line: Column, fields: Sequence[int], type_of: Callable[[pa.DataType], DataType | None]) -> Column:
        """These fields of a line in these types. A key that occurs twice has its last value."""
        wanted = [StructField(self.schema.names[i], type_of(self.schema.field(i).type) or StringType()) for i in fields]
        # Spark would not look into the line if nothing were wanted.
        schema = StructType([*(wanted or [StructField("", StringType())]), StructField(BROKEN, StringType())])
        return sf.from_json(line, schema, JSON_OPTIONS)

    def _strict_value(self, i: int) -> Column:
        field = self.schema.field(i)
        parsed = sf.col("f").getField(field.name)
        is_time = pa.types.is_temporal(field.type) or pa.types.is_binary(field.type)
        return text_columns.convert(parsed, field.type, self.converted[field.name]) if is_time else parsed

    def _is_proven(self, fields: Sequence[int]) -> Column:
        """Is it certain that a line is an object, and that its values in these fields are of their types?"""
        line = sf.col(RAW)
        proofs = [sf.col(f"f.{BROKEN}").isNull(), line.endswith("}"), ~line.contains(REPLACED)]
        for i in fields:
            field = self.schema.field(i)
            value, text = sf.col(f"f{i}"), sf.col("f").getField(field.name)
            if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
                # Spark makes texts of all values.
                proofs.append(text.isNull() | ~text.rlike(MAYBE_NO_TEXT) | _is_quoted(field.name))
            elif pa.types.is_temporal(field.type):
                proofs.append(text.isNull() | value.isNotNull())
            elif pa.types.is_floating(field.type):
                proofs.append(value.isNull() | (sf.abs(value) < math.inf))
        return sf.coalesce(functools.reduce(operator.and_, proofs), sf.lit(False))

    def with_texts(self, rows: DataFrame) -> DataFrame:
        """Rows with the texts behind their values. Those of JSON have them from here only: lines are parsed again for them."""
        if self.format == "csv":
            return rows
        texts = self._parse(sf.col(RAW), range(self.n_fields), lambda _: StringType())
        parsed = rows.select("*", sf.when(~sf.col(IS_BROKEN), texts).alias("texts"))
        own = [sf.col("texts").getField(name).alias(f"o{i}") for i, name in enumerate(self.schema.names[: self.n_fields])]
        return parsed.select("*", *own)

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
            shown = sf.concat(sf.lit(before), self._text(i), sf.lit(after))
            reasons += [sf.when(sf.col(f"o{i}").contains(REPLACED), f"`{name}` is not UTF-8")] if self.format == "csv" else []
            reasons.append(sf.when(sf.col(f"g{i}") & sf.col(f"c{i}").isNull(), shown))
        return sf.coalesce(*reasons)

    def _text(self, i: int) -> Column:
        """The text behind a value. For that of a row of JSON its line is parsed again."""
        if self.format == "csv" or i >= self.n_fields:
            return sf.col(f"o{i}")
        return self._parse(sf.col(RAW), [i], lambda _: StringType()).getField(self.schema.names[i])


# -- files that only Spark can read


@dataclass(frozen=True)
class Head:
    """The beginning of the first of several files, copied to this machine, where Keuka's own reader learns the types from it."""

    file: str
    copy: str
    folders: StructType  # the columns that names of directories hold
    _kept: tempfile.TemporaryDirectory[str]  # until nobody needs the copy


def fetch_head(spark: SparkSession, format: str, paths: Sequence[str]) -> Head:
    """Spark finds the files, takes their compression away, and sends the first lines."""
    there = spark.read.format("text").options(lineSep="\n", timeZone="UTC").load(list(paths))
    file = re.sub("^([^:]+):/+", r"\1:/", min(there.inputFiles(), default=""))
    # Spark writes `file:///a` here and `file:/a` there.
    own = sf.regexp_replace("_metadata.file_path", "^([^:]+):/+", "$1:/")
    at_first = (own == file) & (sf.col("_metadata.file_block_start") == 0)
    lines = there.where(at_first).select("value").limit(HEAD_LINES + 1)
    sizes = [size for (size,) in lines.select(sf.octet_length("value") + 1).collect()]
    n_lines = max(1, sum([end <= BLOCK_BYTES for end in itertools.accumulate(sizes[:HEAD_LINES])]))
    content = "".join([f"{line.value}\n" for line in lines.limit(n_lines).collect()]).encode()
    if format == "csv" and n_lines < len(sizes):
        content = content[: last_row_end(content)]
    kept = tempfile.TemporaryDirectory(prefix="keuka-head-")
    copy = os.path.join(kept.name, f"head.{format}")
    Path(copy).write_bytes(content)
    return Head(file, copy, StructType([field for field in there.schema if field.name != "value"]), kept)


def _separators(separator: str) -> str:
    """The separators outside quotes."""
    return rf'\Q{separator}\E(?=(?:[^"]*"[^"]*")*[^"]*\z)'


def _named(name: str) -> Column:
    return sf.col(f"`{name.replace('`', '``')}`")


def load(
    spark: SparkSession,
    format: str,
    options: Mapping[str, str],
    schema: StructType | str | None,
    paths: Sequence[str],
    arriving: Mapping[str, str] | None,
    columns: Sequence[Column | str] = ("*",),
) -> DataFrame:
    """The rows of all paths: those that are there, or with `arriving` also those that come later.

    Of a union nobody knows which file a row is of, so `columns` are those of each path. Spark knows streaming sources by their order,
    which is that of the paths' names: the order in a file may change.
    """
    if arriving is None:
        reader = spark.read.format(format).options(**options)
        return (reader if schema is None else reader.schema(schema)).load(list(paths) or None).select(*columns)
    streams = []
    for path in sorted(paths) or (None,):
        stream = spark.readStream.format(format).options(**options, **arriving)
        rows = (stream if schema is None else stream.schema(schema)).load(path if path is None else _streamed(path))
        streams.append(rows.select(*columns))
    return functools.reduce(DataFrame.union, streams)


def _streamed(path: str) -> str:
    """Spark streams directories and what fits patterns: a single file is written as a pattern that fits nothing else."""
    return f"{path[:-1]}[{path[-1]}]" if os.path.isfile(path.removeprefix("file://")) else path


def places() -> list[Column]:
    """Where a row is from: the file, and the piece of it, if Spark reads it in pieces."""
    path = sf.col("_metadata.file_path")
    local = sf.regexp_replace(sf.url_decode(sf.replace(path, sf.lit("+"), sf.lit("%2B"))), "^file:/+", "/")
    return [sf.when(path.startswith("file:"), local).otherwise(path).alias(FILE), sf.col("_metadata.file_block_start").alias(BLOCK)]


def _count_breaks(text: Column) -> Column:
    return sf.coalesce(sf.length(text) - sf.length(sf.replace(text, sf.lit("\n"), sf.lit(""))), sf.lit(0))


def _is_text(arrow: pa.DataType) -> bool:
    return any(is_kind(arrow) for is_kind in (pa.types.is_string, pa.types.is_timestamp, pa.types.is_date, pa.types.is_binary))


def _strict_type(arrow: pa.DataType) -> DataType | None:
    """The type in which Spark's parser takes only values that JSON writes as such, or text for the text of any; None if there is none."""
    return StringType() if _is_text(arrow) else STRICT.get(arrow)


def _is_quoted(name: str) -> Column:
    """Is it certain that the value of this key is a text? The key must stand in the line once, and nothing may be written otherwise."""
    key, line = json.dumps(name, ensure_ascii=False), sf.col(RAW)
    n_removed = sf.length(line) - sf.length(sf.replace(line, sf.lit(key), sf.lit("")))
    return ~line.contains("\\") & (n_removed == len(key)) & line.rlike(rf"\Q{key}\E\s*:\s*\"")


def _json_value(variant: Column, arrow: pa.DataType, options: Csv) -> Column:
    """The value of a column, if it is written as JSON writes such values."""
    kind = sf.schema_of_variant(variant)
    if _is_text(arrow):
        return sf.when(kind == "STRING", text_columns.convert(sf.try_variant_get(variant, "$", "string"), arrow, options))
    value = sf.try_variant_get(variant, "$", spark_type(arrow).simpleString())
    if pa.types.is_integer(arrow):
        return sf.when(kind == "BIGINT", value)
    if pa.types.is_floating(arrow):
        return sf.when(kind.rlike(NUMBERS) & (sf.abs(value) < math.inf), value)
    if pa.types.is_decimal(arrow):
        return sf.when(kind.rlike(NUMBERS), value)
    return sf.when(kind == "BOOLEAN", value) if pa.types.is_boolean(arrow) else value
