"""What a pipeline reads on Spark: every stream as rows with columns by position, and why some of them are no events.

Text files get the types that Keuka's own readers give them (`text_streams.py`): those readers look at the files, or at the head of the
first one where only Spark can read it. All else Spark reads.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType
from pyspark.sql.window import Window

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError, data_error
from keuka.events.csv_format import REJECT, check_end, options_of
from keuka.events.directories import find_declared_files
from keuka.events.files import place
from keuka.events.rejection import FILE, LINE, NO_TIME, REASON, REVERSED, STREAM, TEXT, Counts
from keuka.events.sources import OpenStream, open_stream
from keuka.events.sources import read as read_rows
from keuka.events.tables import Files
from keuka.events.text_values import DEFAULT
from keuka.pipelines.checking import OF_FILES, arriving_options, declared_columns, described, files_of, plainly_read
from keuka.pipelines.values import FILE_FORMATS, Input
from keuka.schema import Header, Type, attribute_of
from keuka.spark import parquet_columns, text_streams
from keuka.spark.parquet_columns import ParquetColumn, unreadable
from keuka.spark.schemas import arrow_schema, spark_type
from keuka.spark.sent_rows import Times, is_wrong, wrong_time
from keuka.spark.sinks import UTC, with_defaults
from keuka.spark.text_streams import Head, TextFiles, load

# What Spark reads in its own way: a value that does not fit its column is an error; Spark alone would make it null.
READ_OPTIONS = {"csv": {"header": "true", "mode": "FAILFAST", "enforceSchema": "false"}, "json": {"mode": "FAILFAST"}}

N_TYPES, MOST_TYPES = 50, 1_000  # of all types that rows have: how many are offered, and how many are counted to find these


@dataclass(frozen=True)
class Read:
    """A stream that was looked at: text files, or a DataFrame."""

    schema: pa.Schema
    frame: DataFrame | None = None
    files: TextFiles | None = None
    opened: OpenStream | None = None  # the same files as Keuka reads them itself
    head: Head | None = None  # what it reads of files that only Spark can read
    has_files: bool = False  # does Spark know of which file a row is? Then the last column of the frame says so
    columns: tuple[ParquetColumn, ...] = ()  # of Parquet files that Keuka looked at; after them come those of directories

    def is_readable(self, i: int) -> bool:
        return i >= len(self.columns) or self.columns[i].spark is not None

    def file_type(self, i: int) -> pa.DataType:
        return self.columns[i].there if i < len(self.columns) else self.schema.field(i).type


def read(spark: SparkSession, name: str, stream: Input, rejects: bool, here: bool, goes_on: bool = False) -> Read:
    """Looks at the columns of a stream. `goes_on`: rows that come later are read, too."""
    arriving = arriving_options(stream) if goes_on else None
    text = _text_files(spark, name, stream, rejects, here, arriving)
    if text is not None:
        return text
    files = files_of(stream, here) if stream.format == "parquet" and stream.schema is None and plainly_read(stream) else None
    if files is not None:
        return _parquet_files(spark, name, stream, files, rejects, arriving)
    frame, has_files = _frame(spark, stream, arriving), stream.format in OF_FILES
    columns = frame.schema.fields[:-1] if has_files else frame.schema.fields
    return Read(arrow_schema(name, StructType(columns)), frame, has_files=has_files)


def _text_files(
    spark: SparkSession, name: str, stream: Input, rejects: bool, here: bool, arriving: Mapping[str, str] | None
) -> Read | None:
    """Text files, if nothing is said of them that only Spark understands."""
    if stream.format not in ("csv", "json") or not plainly_read(stream) or not stream.all_paths:
        return None
    if stream.schema is not None and declared_columns(stream) is None:
        return None
    files, head = files_of(stream, here), None
    if files is None:
        head = text_streams.fetch_head(spark, stream.format, stream.all_paths)
    looked_at = files if head is None else Files((head.copy,), FILE_FORMATS[stream.format])
    try:
        opened = open_stream(name, described(stream, looked_at, "reject" if rejects else None))
    except DataError as error:
        raise _located(error, head) from None
    first = opened.data.first
    assert first is not None  # of files there is always one that decides the types
    folders = pa.schema([]) if head is None else arrow_schema(name, head.folders)
    schema = pa.schema([*[_readable(field) for field in opened.data.schema], *folders])
    if files is not None and stream.format == "csv":  # Spark takes a quote that is never closed for the last value
        for path in find_declared_files(name, files.paths, files.format).paths:
            check_end(replace(first, path=path))
    options = {name: options_of(first, name) if name in first.schema.names else DEFAULT for name in schema.names}
    own = TextFiles(stream.format, stream.all_paths, schema, len(first.schema), first.csv, options, arriving)
    return Read(schema, files=own, opened=opened, head=head)


def _located(error: DataError, head: Head | None) -> DataError:
    """The error with the file that it is about instead of the copy of its head."""
    if head is None:
        return error
    return DataError(*[replace(found, label=found.label.replace(head.copy, head.file)) for found in error.diagnostics])


def _parquet_files(
    spark: SparkSession, name: str, stream: Input, files: Files, shows_all: bool, arriving: Mapping[str, str] | None
) -> Read:
    """Parquet files on this machine. Types are those of the first file, as in embedded runs."""
    opened = open_stream(name, described(stream, files))
    first, each_file = opened.data.first, opened.data.each_file
    assert first is not None  # of files there is always one that decides the types
    assert each_file is not None
    others = [file.schema for file in each_file(opened.header.times)] if shows_all else []
    columns = parquet_columns.columns_of(first.schema, others, spark)
    asked = StructType([StructField(column.name, column.spark) for column in columns if column.spark is not None])
    frame = load(spark, "parquet", UTC, asked, stream.all_paths, arriving, _with_file())
    folders = arrow_schema(name, StructType(frame.schema.fields[len(asked) : -1]))
    schema = pa.schema([*[(column.name, column.arrow) for column in columns], *folders])
    return Read(schema, frame, opened=opened, has_files=True, columns=columns)


def _readable(field: pa.Field) -> pa.Field:
    """The column in a type that Spark has, too."""
    attribute = attribute_of(field.name, field.type)
    known = attribute.type is not Type.OTHER or pa.types.is_nested(field.type)
    return pa.field(field.name, attribute.arrow if known or pa.types.is_decimal(field.type) else pa.string())


def _frame(spark: SparkSession, stream: Input, arriving: Mapping[str, str] | None) -> DataFrame:
    # Texts and directories (`day=2024-01-02`) hold times in one zone, whatever the zone of the session.
    defaults = READ_OPTIONS.get(stream.format, {}) | (UTC if stream.format in OF_FILES else {})
    options = {name: value for name, value in stream.options.items() if name not in arriving_options(stream)}
    shown = _with_file() if stream.format in OF_FILES else ["*"]
    read_ = functools.partial(load, spark, stream.format, with_defaults(options, defaults), paths=stream.all_paths, columns=shown)
    is_declared = stream.schema is not None
    declared = declared_columns(stream)
    if is_declared and (declared is None or stream.format not in ("parquet", "orc", "avro")):
        return read_(schema=stream.schema, arriving=arriving)
    if arriving is not None and stream.format not in OF_FILES:
        return read_(schema=None, arriving=arriving)  # what is no file says its columns itself
    infers = {"inferSchema": "true"} if stream.format == "csv" else {}
    there = load(spark, stream.format, {**with_defaults(options, defaults), **infers}, None, stream.all_paths, None, shown)
    if arriving is None and not is_declared:
        return there
    # Columns that are not declared are as they are.
    types = {column.name: spark_type(column.type) for column in declared or ()}
    own = there.schema.fields[: len(there.schema) - len(shown) + 1]
    return read_(schema=StructType([StructField(f.name, types.get(f.name, f.dataType)) for f in own]), arriving=arriving)


def _with_file() -> list[Column | str]:
    """All columns, and the file."""
    return ["*", text_streams.places()[0]]


# -- which rows are events -------------------------------------------------------------------------------------------------


# Of each piece of a text file with rejected rows: how far the line that a row stands on is from the number of the row.
Pieces = Mapping[tuple[str, int], int]

# Columns that say which rows are no events, and the names under which they are counted, in the order of `Counts`.
BAD, WRONG, FAILS = "_bad", "_wrong", "_fails"
COUNTED = ("read", "without_time", "reversed", "unreadable")
FREQUENT = "types"


@dataclass(frozen=True)
class Types:
    """The types that are read of a stream which has the events of all types."""

    column: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A stream whose queries are known: its rows, and which of them are no events."""

    name: str
    read: Read
    columns: tuple[str, ...]  # that the queries read
    header: Header
    rejects: bool
    is_read: bool  # does a query read it whose results somebody wants?

    @property
    def schema(self) -> pa.Schema:
        return self.read.schema

    @property
    def rejected_columns(self) -> pa.Schema:
        """Rejected rows of text files are shown as they stand there."""
        if self.read.files is not None:
            return pa.schema([(name, pa.string()) for name in self.schema.names])
        shown = {column.name: column.shown for column in self.read.columns}
        return pa.schema([(f.name, shown.get(f.name, f.type)) for i, f in enumerate(self.schema) if self.read.is_readable(i)])

    def rows(self, spark: SparkSession, numbered: bool = False) -> DataFrame:
        """Columns are known by position, because Spark's names ignore case."""
        if self.read.files is not None:
            return self.read.files.rows(spark, self.columns, numbered)
        assert self.read.frame is not None
        # r0 is what Spark reads, c0 the value.
        names = [f"r{i}" for i in range(len(self.schema)) if self.read.is_readable(i)]
        file = [] if self.read.has_files else [sf.lit(None).cast("string")]
        placed = self.read.frame.select("*", *file).toDF(*names, text_streams.FILE)
        return placed.select("*", *[self._value(i).alias(f"c{i}") for i in range(len(self.schema))])

    def _value(self, i: int) -> Column:
        if not self.read.is_readable(i):
            return sf.lit(None)
        return self.read.columns[i].value(sf.col(f"r{i}")) if i < len(self.read.columns) else sf.col(f"r{i}")

    @property
    def times(self) -> Times:
        return [(self.column(time), self.schema.field(time).type) for time in self.header.times]

    def is_bad(self) -> Column:
        """Has a row of text no values, or one with types a value for which there is no room?"""
        if self.read.files is not None:
            return self.read.files.is_bad(self.columns)
        # Nobody could say which row it is but a worker: that one is left to find it.
        reason = self._unfit_reason() if self.rejects or self.read.opened is not None else None
        return sf.lit(False) if reason is None else reason.isNotNull()

    def _unfit_reason(self) -> Column | None:
        wanted = [(name, self.schema.get_field_index(name)) for name in self.columns]
        reasons = [parquet_columns.unfit_reason(name, self.read.file_type(i), sf.col(f"r{i}")) for name, i in wanted]
        return parquet_columns.first_reason(reasons)

    def column(self, name: str) -> Column:
        return sf.col(f"c{self.schema.get_field_index(name)}")

    def events(self, spark: SparkSession, observed: Observation | str, names: Collection[str], types: Types | None = None) -> DataFrame:
        """The events, with these columns. Whatever job reads the rows counts them on the way, as `observed`.

        The first row that is no event ends that job, unless such rows are rejected. `types`: which types do rows have?
        """
        is_good = ~self.is_bad() & ~is_wrong(self.times)
        fails = sf.lit(None) if self.rejects else sf.when(~is_good, sf.raise_error(self._message()))
        # Columns are chosen below what is observed, because Spark reads all that it finds there.
        columns = [self.column(name) for name in self.schema.names if name in names]
        flags = [self.is_bad().alias(BAD), wrong_time(self.times).alias(WRONG), fails.cast("boolean").alias(FAILS)]
        rows = self.rows(spark).select(*columns, *flags).observe(observed, *_counts(), *self._types(types))
        events = rows.where(~sf.col(BAD) & sf.col(WRONG).isNull() & sf.col(FAILS).isNull())
        return events.select(*columns).toDF(*[name for name in self.schema.names if name in names])

    @property
    def readable(self) -> list[str]:
        """The columns for which Spark has a type."""
        return [name for i, name in enumerate(self.schema.names) if self.read.is_readable(i)]

    def _message(self) -> Column:
        """What is said of a row that is no event, as our own errors say it."""
        unfit = self._unreadable()
        code = sf.when(wrong_time(self.times) == NO_TIME, "K502").otherwise("K503")
        code = code if unfit is None else sf.when(unfit.isNotNull(), "K509").otherwise(code)
        file = sf.concat(sf.lit(", "), sf.col(text_streams.FILE))
        where = sf.concat(sf.lit(f"\n  {place(self.name, None)}"), sf.coalesce(file, sf.lit("")), sf.lit(f"\n = help: {REJECT}\n\n"))
        return sf.concat(sf.lit("error["), code, sf.lit("]: a row is no event: "), self._reason(), where)

    # -- counting

    def count(self, spark: SparkSession) -> Counts:
        """Counts the rows in a job of their own."""
        flags = [self.is_bad().alias(BAD), wrong_time(self.times).alias(WRONG)]
        (row,) = self.rows(spark).select(*flags).agg(*_counts()).collect()
        return counts_in(row.asDict())

    def pieces(self, spark: SparkSession) -> Pieces:
        """Finds the pieces of text files that have rejected rows, and where their lines begin. Reads the files again."""
        files = self.read.files
        if files is None:
            return {}
        of = [text_streams.FILE, text_streams.BLOCK]
        is_rejected = ~sf.col(text_streams.BLANK) & (self.is_bad() | is_wrong(self.times))
        rows = self.rows(spark, numbered=True).select(*of, text_streams.NUMBER, is_rejected.alias(BAD))
        counts = [sf.min(text_streams.NUMBER), sf.count(sf.lit(1)), sf.count_if(BAD)]
        return _pieces(rows.groupBy(*of).agg(*counts).orderBy(*of).collect(), files.first_line)

    def _types(self, types: Types | None) -> list[Column]:
        if types is None:
            return []
        # Bounded in memory, whatever the column holds; only the types that are read are counted exactly.
        column = self.column(types.column)
        frequent = sf.call_function("approx_top_k", column, sf.lit(N_TYPES), sf.lit(MOST_TYPES))
        return [frequent.alias(FREQUENT), *[sf.count_if(column == name).alias(f"type {i}") for i, name in enumerate(types.names)]]

    def error(self, spark: SparkSession, n_bad: int) -> DataError:
        """Keuka's own reader says which row of which file it was, if it can read so far; Spark says of which file."""
        opened, files = self.read.opened, self.read.files
        try:
            for _ in read_rows(opened, [name for name in self.columns if name in opened.data.schema.names]) if opened is not None else ():
                pass
        except DataError as error:
            return _located(error, self.read.head)
        if files is None:
            rows = "1 row is bad" if n_bad == 1 else f"{n_bad:,} rows are bad"
            problem = f"{rows}: values are not of the types of their columns, or fields are missing"
            return data_error("K509", problem, REJECT, where=place(self.name, None))
        bad = self.rows(spark).where(self.is_bad()).select(text_streams.FILE, files.reason(self.columns)).head()
        file, reason = bad if bad is not None else (None, "")
        others = {1: "", 2: ", and 1 more row is bad"}.get(n_bad, f", and {n_bad - 1:,} more rows are bad")
        return data_error("K509", f"{reason}{others}", REJECT, where=place(self.name, file))

    # -- rejected rows

    def rejected(self, spark: SparkSession, schema: pa.Schema, pieces: Pieces | None) -> DataFrame:
        """The rows that are no events, with the columns of all streams; without `pieces` nobody knows on which lines they stand."""
        files = self.read.files
        is_text = files is not None
        has_lines = is_text and pieces is not None
        rows = self.rows(spark, numbered=has_lines).withColumn("bad", self.is_bad() | is_wrong(self.times))
        if files is not None and pieces is not None:
            rows = _with_lines(rows.where(~sf.col(text_streams.BLANK)), pieces, files.format == "csv")
        own = {name: sf.col(f"o{i}") if is_text else self._shown(i) for i, name in enumerate(self.schema.names)}
        added = {STREAM: sf.lit(self.name), REASON: self._reason(), FILE: sf.col(text_streams.FILE)}
        added |= {TEXT: sf.col(text_streams.BROKEN)} if is_text else {}
        added |= {LINE: sf.col("line")} if has_lines else {}
        columns = [(own | added).get(column.name, sf.lit(None)).cast(spark_type(column.type)) for column in schema]
        bad = rows.where("bad") if files is None else files.with_texts(rows.where("bad"))
        return bad.select(*columns).toDF(*schema.names)

    def _reason(self) -> Column:
        """Why a row is no event."""
        unfit = self._unreadable()
        return wrong_time(self.times) if unfit is None else sf.coalesce(unfit, wrong_time(self.times))

    def _unreadable(self) -> Column | None:
        """Why a row has no values, or one without room; null if it has all."""
        return self._unfit_reason() if self.read.files is None else self.read.files.reason(self.columns)

    def _shown(self, i: int) -> Column:
        """A value as it stands in the file, as far as Spark has a type for that."""
        there = self.read.file_type(i)
        value = sf.col(f"r{i}" if pa.types.is_uint64(there) else f"c{i}")
        return sf.make_valid_utf8(value) if pa.types.is_string(there) or pa.types.is_large_string(there) else value


def _counts() -> list[Column]:
    """What is counted of rows with the columns BAD and WRONG."""
    event, wrong = ~sf.col(BAD), sf.col(WRONG)
    counts = [sf.count(sf.lit(1)), sf.count_if(event & (wrong == NO_TIME)), sf.count_if(event & (wrong == REVERSED)), sf.count_if(BAD)]
    return [count.alias(name) for count, name in zip(counts, COUNTED, strict=True)]


def counts_in(observed: Mapping[str, Any]) -> Counts:
    """The counts of rows that Spark observed; zeros if it read none."""
    return Counts(*[observed.get(name) or 0 for name in COUNTED])


def types_in(observed: Mapping[str, Any], types: Types) -> list[str]:
    """The most frequent types that Spark observed, and those that are asked for and occur."""
    names = [name for i, name in enumerate(types.names) if observed.get(f"type {i}")]
    return [*[item.item for item in observed.get(FREQUENT) or ()], *names]


def _pieces(rows: Sequence[Any], first_line: int) -> Pieces:
    pieces = {}
    lines: dict[str, int] = {}
    for file, block, first_row, n_lines, n_rejected in rows:
        line = lines.setdefault(file, first_line)
        lines[file] += n_lines
        if n_rejected:
            pieces[file, block] = line - first_row
    return pieces


def _with_lines(rows: DataFrame, pieces: Pieces, has_breaks: bool) -> DataFrame:
    """The lines that rows stand on: the first of their piece, the rows before, and the line breaks in their values."""
    file, block = sf.col(text_streams.FILE), sf.col(text_streams.BLOCK)
    offset = sf.when(sf.lit(False), 0)
    for (path, begin), n_lines in pieces.items():
        offset = offset.when((file == path) & (block == begin), n_lines)
    line = sf.col(text_streams.NUMBER) + offset
    if has_breaks:
        rows = rows.where(sf.col("bad") | (sf.col(text_streams.N_BREAKS) > 0))
        before = Window.partitionBy(file, block).orderBy(text_streams.NUMBER).rowsBetween(Window.unboundedPreceding, -1)
        line = line + sf.coalesce(sf.sum(text_streams.N_BREAKS).over(before), sf.lit(0))
    return rows.withColumn("line", line)


def source(name: str, stream: Input, looked_at: Read, columns: Sequence[str] | None, rejects: bool) -> Source:
    """`columns`: those that queries read; None if no query reads the stream whose results somebody wants."""
    opened = open_stream(name, described(stream, looked_at.schema.empty_table()))
    wanted = tuple(dict.fromkeys([*(columns or ()), *opened.header.times]))
    return Source(name, looked_at, wanted, opened.header, rejects or stream.on_bad_row == "reject", columns is not None)


def doubts(sources: Mapping[str, Source]) -> list[Diagnostic]:
    """Columns that queries read, and of whose texts some are odd, or that Spark cannot read."""
    found = []
    for name, each in sources.items():
        opened = each.read.opened
        for _ in opened.data.each_file(each.columns) if each.read.columns and opened is not None and opened.data.each_file else ():
            pass
        found += [unreadable(name, column) for column in each.read.columns if column.spark is None and column.name in each.columns]
        said = {} if opened is None or each.rejects else opened.data.doubts
        errors = [_located(said[column](), each.read.head) for column in each.columns if column in said]
        found += [diagnostic for error in errors for diagnostic in error.diagnostics]
    return found
