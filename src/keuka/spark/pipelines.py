"""Runs a pipeline on Spark: streams as DataFrames, `jobs.results`, sinks through Spark's writers.

What Spark itself says is turned into errors of ours: those that workers raised are shown as if they had been raised here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from keuka.diagnostics import Diagnostic, render
from keuka.errors import KeukaError
from keuka.events.rejection import Rejections, refused, rejected_schema
from keuka.events.types_seen import TypesSeen
from keuka.pipelines.checking import Bound, as_error, described, empty_tables, outputs_of, staged_path
from keuka.pipelines.pipeline import Pipeline
from keuka.pipelines.staging import Staging, staging
from keuka.pipelines.values import CONSOLE, LATE, METRICS, N_SHOWN, REJECTED, Batch, Progress, Report, Sink, SparkSettings, metrics_table
from keuka.query import prepare
from keuka.schema import RESULT
from keuka.spark import streaming_pipelines
from keuka.spark.failures import Py4JError, explained
from keuka.spark.inputs import Counted, Read, Source, doubts, read, source
from keuka.spark.jobs import results
from keuka.spark.probe import is_local
from keuka.spark.schemas import arrow_schema, spark_schema
from keuka.spark.session import open_session
from keuka.spark.sinks import as_text

log = logging.getLogger("keuka")

POLLED_SECONDS = 0.2
# With Spark's default of 200 partitions, which are not joined once results are kept, the example of `keuka new` took 2,000 tasks and 45 s
# in a warm session; with one for so many rows it took 16 tasks and 9 s.
SHARD_ROWS = 250_000


def run(
    pipeline: Pipeline,
    bound: Bound,
    master: str | None,
    here: bool,
    on_progress: Callable[[Progress], None] | None,
    on_batch: Callable[[Batch], None] | None,
) -> Report:
    """Reads, matches and writes; the session ends with the run if it began with it."""
    began = time.perf_counter()
    with _session(pipeline.spark, master) as spark, _reporting(spark, on_progress):
        here = here and is_local(spark)  # a session that was there before may have its workers elsewhere
        found: list[Diagnostic] = []
        streams = _read(spark, bound, here, found, pipeline.is_streaming)
        if not found:
            bound, _ = outputs_of(pipeline, bound, empty_tables(bound, _schemas(streams)), found)
        if found:
            raise as_error(found)
        sources = _sources(bound, streams)
        if pipeline.is_streaming:
            return streaming_pipelines.run(spark, pipeline.spark, bound, sources, here, began, on_batch)
        return _run(spark, pipeline.spark, bound, sources, here, began)


def columns_on_spark(bound: Bound, settings: SparkSettings, here: bool, found: list[Diagnostic]) -> dict[str, pa.Schema | None]:
    """The columns of every stream, where Spark must be asked."""
    with _session(settings, None) as spark:
        return dict(_schemas(_read(spark, bound, here, found)))


# -- reading ---------------------------------------------------------------------------------------------------------------


def _read(spark: SparkSession, bound: Bound, here: bool, found: list[Diagnostic], goes_on: bool = False) -> dict[str, Read]:
    """Every stream, looked at."""
    streams: dict[str, Read] = {}
    for name, stream in bound.streams.items():
        try:
            with explained(f"read the stream `{name}`"):
                streams[name] = read(spark, name, stream, bound.has_sink(REJECTED), here, goes_on)
        except KeukaError as error:
            found.extend(error.diagnostics)
    return streams


def _sources(bound: Bound, streams: Mapping[str, Read]) -> dict[str, Source]:
    """The streams with the columns that the queries read."""
    empty = {name: described(bound.streams[name], table) for name, table in empty_tables(bound, _schemas(streams)).items()}
    prepared = prepare(bound.query, empty, type_column=bound.type_column, params=bound.params, outputs=bound.outputs)
    columns = {of.name: of.columns for of in prepared.tables.sources}
    rejects = bound.has_sink(REJECTED)
    sources = {name: source(name, bound.streams[name], streams[name], columns.get(name, ()), rejects) for name in streams}
    if found := doubts(sources):
        raise as_error(found)
    return sources


def _schemas(streams: Mapping[str, Read]) -> dict[str, pa.Schema]:
    return {name: stream.schema for name, stream in streams.items()}


# -- running ---------------------------------------------------------------------------------------------------------------


def _run(spark: SparkSession, settings: SparkSettings, bound: Bound, sources: Mapping[str, Source], here: bool, began: float) -> Report:
    with explained("read the streams"):
        kept = bound.has_sink(REJECTED)
        counted = {name: each.count(spark, kept, bound.type_column, bound.query.inputs) for name, each in sources.items()}
    counts = {name: each.counts for name, each in counted.items()}
    if error := refused({name: each for name, each in counts.items() if not sources[name].rejects}):
        raise error
    streams = {name: described(bound.streams[name], each.accepted(spark, counts[name])) for name, each in sources.items()}
    options: dict[str, Any] = {"type_column": bound.type_column, "params": bound.params}
    shards = settings.shards or max(1, math.ceil(sum([n.n_read for n in counts.values()]) / SHARD_ROWS))
    with explained("plan the queries"):
        found = results(bound.query, streams, outputs=bound.outputs, shards=shards, limits=bound.limits, **options)
    rejected = {name: n.n_rejected for name, n in counts.items()}
    found.frame.persist()
    try:
        with explained("run the queries"):
            matches = {name: found.output(name).count() for name in bound.outputs}
        _warn_of_types(found.types, counted)
        frames = {name: found.output(name) for name in bound.outputs} | _side_outputs(spark, bound, sources, counted)
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
                with explained(f"write the sink of `{sink.of}`"):
                    if sink.format == CONSOLE:
                        shown[sink.of] = _first_rows(frames[sink.of]), n_rows[sink.of]
                    else:
                        _write(frames[sink.of], sink, here, staged)
    finally:
        with contextlib.suppress(PySparkException, Py4JError):  # after an interrupt Spark may be gone
            found.frame.unpersist()
    if not bound.has_sink(REJECTED):
        rejections = Rejections()
        rejections.counts = counts
        rejections.warn()
    return Report(read, rejected, matches, seconds, shown)


def _warn_of_types(seen: TypesSeen | None, counted: Mapping[str, Counted]) -> None:
    for name, each in counted.items():
        if seen is not None:
            seen.n_rows += each.counts.n_read
            seen.add(each.types)
            for warning in seen.warnings(name):
                log.warning("%s", render(warning))


def _side_outputs(spark: SparkSession, bound: Bound, sources: Mapping[str, Source], counted: Mapping[str, Counted]) -> dict[str, DataFrame]:
    schema = rejected_schema([each.rejected_columns for each in sources.values()])
    nothing = spark.createDataFrame([], spark_schema(schema))
    wanted = sources if bound.has_sink(REJECTED) else {}
    rejected = [each.rejected(spark, schema, counted[name].pieces) for name, each in wanted.items()]
    return {REJECTED: functools.reduce(DataFrame.union, rejected, nothing), LATE: nothing}


def _first_rows(frame: DataFrame) -> pa.Table:
    ordered = frame.orderBy(RESULT.end, RESULT.start) if {*RESULT.names} <= {*frame.columns} else frame
    return ordered.limit(N_SHOWN).toArrow().cast(arrow_schema("", frame.schema))  # Spark shows times in the zone of its session


def _write(frame: DataFrame, sink: Sink, here: bool, staged: Staging) -> None:
    """Directories on this machine are written beside their places, and moved there when every sink is complete."""
    rows, options = as_text(frame, sink.format, sink.options)
    writer = rows.write.format(sink.format).options(**options)
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
    with explained("start"):
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
