"""Runs a pipeline on Spark: streams as DataFrames, `jobs.results`, sinks through Spark's writers.

What Spark itself says is turned into errors of ours: those that workers raised are shown as if they had been raised here.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, count, count_if, lit, when

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError, InternalError, KeukaError, QueryError, data_error
from keuka.events.sources import open_stream
from keuka.events.tables import Files
from keuka.pipelines.checking import Bound, as_error, described, empty_tables, files_of, outputs_of, plainly_read, staged_path
from keuka.pipelines.pipeline import Pipeline
from keuka.pipelines.rejection import NO_TIME, REASON, REVERSED, STREAM, Counts, refused, rejected_schema
from keuka.pipelines.staging import Staging, staging
from keuka.pipelines.values import CONSOLE, LATE, METRICS, N_SHOWN, REJECTED, Input, Progress, Report, Sink, SparkSettings, metrics_table
from keuka.schema import Type, attribute_of
from keuka.spark.jobs import results, tick_of
from keuka.spark.probe import is_local
from keuka.spark.schemas import arrow_schema, spark_schema, spark_type
from keuka.spark.session import open_session, reason_of

try:
    from py4j.protocol import Py4JError
except ImportError:  # the package pyspark-client speaks to no JVM
    Py4JError = PySparkException

# A value that does not fit its column is an error, as everywhere in Keuka; Spark alone would make it null.
READ_OPTIONS = {"csv": {"header": "true", "mode": "FAILFAST", "enforceSchema": "false"}, "json": {"mode": "FAILFAST"}}
WRITE_OPTIONS = {"csv": {"header": "true"}}
POLLED_SECONDS = 0.2
NANOSECONDS = "write the files with microseconds: in pandas `to_parquet(..., coerce_timestamps='us')`"
# With Spark's default of 200 partitions, which are not joined once results are kept, the example of `keuka new` took 2,000 tasks and 45 s
# in a warm session; with one for so many rows it took 16 tasks and 9 s.
SHARD_ROWS = 250_000

# The first line of one of our messages, and the lines that can follow: an excerpt of a query, a place, a remedy.
MESSAGE = re.compile(r"error\[(K\d{3})\]: (.*(?:\n(?: *--> .*| *\d* \|.*| *= help: .*|  [^\s].*))*)")


def run(pipeline: Pipeline, bound: Bound, master: str | None, here: bool, on_progress: Callable[[Progress], None] | None) -> Report:
    """Reads, matches and writes; the session ends with the run if it began with it."""
    began = time.perf_counter()
    with _session(pipeline.spark, master) as spark, _reporting(spark, on_progress):
        here = here and is_local(spark)  # a session that was there before may have its workers elsewhere
        found: list[Diagnostic] = []
        frames = _frames(spark, bound, here, found)
        if not found:
            schemas = {name: arrow_schema(name, frame.schema) for name, frame in frames.items()}
            bound, _ = outputs_of(pipeline, bound, empty_tables(bound, schemas), found)
        if found:
            raise as_error(found)
        sources = {name: _source(name, bound.streams[name], frame, schemas[name]) for name, frame in frames.items()}
        return _run(spark, pipeline.spark, bound, sources, here, began)


def columns_on_spark(bound: Bound, settings: SparkSettings, here: bool, found: list[Diagnostic]) -> dict[str, pa.Schema | None]:
    """The columns of every stream, where Spark must be asked."""
    with _session(settings, None) as spark:
        return {name: arrow_schema(name, frame.schema) for name, frame in _frames(spark, bound, here, found).items()}


# -- reading ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A stream: its rows with columns named by position (Spark's names ignore case), and which of them are no events."""

    name: str
    schema: pa.Schema
    rows: DataFrame
    without_time: Column
    reversed: Column

    def counts(self) -> Counts:
        counted = self.rows.agg(count(lit(1)), count_if(self.without_time), count_if(self.reversed)).collect()
        return Counts(*[int(n) for n in counted[0]])

    def accepted(self) -> DataFrame:
        return self.rows.where(~(self.without_time | self.reversed)).toDF(*self.schema.names)

    def rejected(self, schema: pa.Schema) -> DataFrame:
        """The rows that are no events, with the columns of all streams."""
        own = {name: col(f"c{i}") for i, name in enumerate(self.schema.names)}
        added = {STREAM: lit(self.name), REASON: when(self.without_time, NO_TIME).otherwise(REVERSED)}
        columns = [(own | added).get(field.name, lit(None)).cast(spark_type(field.type)) for field in schema]
        return self.rows.where(self.without_time | self.reversed).select(*columns).toDF(*schema.names)


def _source(name: str, stream: Input, frame: DataFrame, schema: pa.Schema) -> _Source:
    times = open_stream(name, described(stream, schema.empty_table())).time
    start, end = (tick_of(col(f"c{schema.get_field_index(time)}"), schema.field(time).type) for time in (times[0], times[-1]))
    rows = frame.toDF(*[f"c{i}" for i in range(len(schema))])
    missing = start.isNull() | end.isNull()
    return _Source(name, schema, rows, missing, ~missing & (start > end))


def _frames(spark: SparkSession, bound: Bound, here: bool, found: list[Diagnostic]) -> dict[str, DataFrame]:
    frames: dict[str, DataFrame] = {}
    for name, stream in bound.streams.items():
        try:
            with _explained(f"read the stream `{name}`"):
                frame = _frame(spark, name, stream, here)
                frame.schema  # noqa: B018  over Connect nothing is looked at before this
                frames[name] = frame
        except KeukaError as error:
            found.extend(error.diagnostics)
    return frames


def _frame(spark: SparkSession, name: str, stream: Input, here: bool) -> DataFrame:
    reader = spark.read.format(stream.format).options(**_with_defaults(stream.options, READ_OPTIONS.get(stream.format, {})))
    paths = list(stream.all_paths) or None
    text = _text_columns(name, stream, here)
    if text is not None:
        every, wanted = text
        return reader.schema(spark_schema(every)).load(paths).select(*[col(f"`{column}`") for column in wanted])
    if stream.schema is not None:
        return reader.schema(stream.schema).load(paths)
    return (reader.option("inferSchema", "true") if stream.format == "csv" else reader).load(paths)


def _with_defaults(options: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Spark's names of options ignore case."""
    given = {name.lower() for name in options}
    return {name: value for name, value in defaults.items() if name.lower() not in given} | dict(options)


def _text_columns(name: str, stream: Input, here: bool) -> tuple[pa.Schema, list[str]] | None:
    """All columns of text files on this machine, and the wanted ones: a pipeline gives them the same types on Spark and without it."""
    if stream.format not in ("csv", "json") or not plainly_read(stream):
        return None
    files = files_of(stream, here)
    if files is None or (stream.schema is not None and files.schema is None):
        return None
    try:
        inferred = open_stream(name, described(stream, Files(files.paths, files.format))).data.schema
    except DataError:
        if files.schema is None:
            raise
        return files.schema, files.schema.names
    declared = {field.name: field for field in files.schema or ()}
    fields = {field.name: declared.get(field.name, _readable(field)) for field in inferred} | declared
    return pa.schema(list(fields.values())), list(declared or fields)


def _readable(field: pa.Field) -> pa.Field:
    """The column in a type that Spark has, too."""
    attribute = attribute_of(field.name, field.type)
    known = attribute.type is not Type.OTHER or pa.types.is_date32(field.type) or pa.types.is_nested(field.type)
    return pa.field(field.name, attribute.arrow if known else pa.string())


# -- running ---------------------------------------------------------------------------------------------------------------


def _run(spark: SparkSession, settings: SparkSettings, bound: Bound, sources: Mapping[str, _Source], here: bool, began: float) -> Report:
    with _explained("read the streams"):
        counts = {name: source.counts() for name, source in sources.items()}
    if not bound.has_sink(REJECTED) and (error := refused(counts)):
        raise error
    streams = {name: described(bound.streams[name], source.accepted()) for name, source in sources.items()}
    options = {"type_column": bound.type_column, "params": bound.params}
    shards = settings.shards or max(1, math.ceil(sum([n.n_read for n in counts.values()]) / SHARD_ROWS))
    with _explained("plan the queries"):
        found = results(
            bound.query, streams, outputs=bound.outputs, contributors=False, shards=shards, options=options, limits=bound.limits
        )
    rejected = {name: n.n_rejected for name, n in counts.items()}
    found.frame.persist()
    try:
        with _explained("run the queries"):
            matches = {name: found.output(name).count() for name in bound.outputs}
        frames = {name: found.output(name) for name in bound.outputs} | _side_outputs(spark, bound, sources)
        n_rows = matches | {REJECTED: sum(rejected.values()), LATE: 0}
        shown: dict[str, tuple[pa.Table, int]] = {}
        read = {name: n.n_read for name, n in counts.items()}
        seconds = time.perf_counter() - began
        with staging([sink for sink in bound.sinks if sink.format != CONSOLE]) as staged:
            # What Spark commits by itself comes late, because it cannot be taken back.
            # Metrics last, because they tell how long the rest took.
            for sink in sorted(bound.sinks, key=lambda sink: (sink.of == METRICS, staged_path(sink, here) is None)):
                assert sink.of is not None  # filled in with the outputs
                seconds = time.perf_counter() - began
                if sink.of == METRICS:
                    table = metrics_table(read, rejected, matches, seconds)
                    frames[METRICS], n_rows[METRICS] = spark.createDataFrame(table), table.num_rows
                with _explained(f"write the sink of `{sink.of}`"):
                    if sink.format == CONSOLE:
                        shown[sink.of] = _first_rows(frames[sink.of]), n_rows[sink.of]
                    else:
                        _write(frames[sink.of], sink, here, staged)
    finally:
        with contextlib.suppress(PySparkException, Py4JError):  # after an interrupt Spark may be gone
            found.frame.unpersist()
    return Report(read, rejected, matches, seconds, shown)


def _side_outputs(spark: SparkSession, bound: Bound, sources: Mapping[str, _Source]) -> dict[str, DataFrame]:
    schema = rejected_schema([source.schema for source in sources.values()])
    nothing = spark.createDataFrame([], spark_schema(schema))
    rejected = nothing
    if bound.has_sink(REJECTED):
        for source in sources.values():
            rejected = rejected.union(source.rejected(schema))
    return {REJECTED: rejected, LATE: nothing}


def _first_rows(frame: DataFrame) -> pa.Table:
    ordered = frame.orderBy("_end", "_start") if {"_end", "_start"} <= {*frame.columns} else frame
    return ordered.limit(N_SHOWN).toArrow()


def _write(frame: DataFrame, sink: Sink, here: bool, staged: Staging) -> None:
    """Directories on this machine are written beside their places, and moved there when every sink is complete."""
    writer = frame.write.format(sink.format).options(**_with_defaults(sink.options, WRITE_OPTIONS.get(sink.format, {})))
    local = staged_path(sink, here)
    if local is not None:
        writer.save(f"file://{staged.stage(sink, local)}")
    else:
        writer.mode(sink.mode).save(sink.path)
        staged.visible.append(sink)


# -- the session -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _session(settings: SparkSettings, master: str | None) -> Iterator[SparkSession]:
    """The active session, or one that ends with the run."""
    try:
        active = SparkSession.active()  # also that of another thread
    except PySparkException:
        active = None
    if active is not None:
        yield active
        return
    with _explained("start"):
        spark = open_session(master or settings.master, settings.conf, "keuka")
    try:
        with contextlib.suppress(PySparkException):  # over Connect the log is elsewhere
            spark.sparkContext.setLogLevel("OFF")  # what workers raise is shown by us, and once is enough
        yield spark
    finally:
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            spark.sparkContext.cancelAllJobs()
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            spark.stop()


@contextlib.contextmanager
def _reporting(spark: SparkSession, on_progress: Callable[[Progress], None] | None) -> Iterator[None]:
    """Tells in the background how many tasks are done, of all that are known so far."""
    try:
        tracker: Any = None if on_progress is None else spark.sparkContext.statusTracker()
    except PySparkException:  # Connect has no tracker
        tracker = None
    if on_progress is None or tracker is None:
        yield
        return
    ended = threading.Event()

    def poll() -> None:
        stages: dict[int, tuple[int, int]] = {}
        while not ended.wait(POLLED_SECONDS):
            try:
                active = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
            except (PySparkException, Py4JError, OSError):
                return
            stages = {stage: (n_tasks, n_tasks) for stage, (_, n_tasks) in stages.items()}
            stages |= {stage: (info.numCompletedTasks, info.numTasks) for stage, info in active.items() if info is not None}
            on_progress(Progress("tasks", sum([done for done, _ in stages.values()]), sum([n for _, n in stages.values()])))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Spark's exceptions as errors of ours. Their chain may hold values of variables, so it is left out."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise error_in(str(error)) or _failed(what, reason_of(error)) from None


def error_in(text: str) -> KeukaError | None:
    """The error of ours that a worker raised, found in what Spark says of it."""
    found = MESSAGE.search(text)
    if found is None:
        return None
    diagnostic = Diagnostic(found[1], found[2])
    if found[1][1] in "1234":
        return QueryError(diagnostic)
    return InternalError(diagnostic) if found[1].startswith("K9") else DataError(diagnostic)


def _failed(what: str, reason: str) -> DataError:
    return data_error("K608", f"Spark cannot {what}", f"Spark says: {reason}", *([NANOSECONDS] if "NANOS" in reason else []))
