"""Runs a pipeline on Spark: streams as DataFrames, `jobs.results`, sinks through Spark's writers.

What Spark itself says is turned into errors of ours: those that workers raised are shown as if they had been raised here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from keuka.diagnostics import Diagnostic, render
from keuka.errors import DataError, KeukaError
from keuka.events.rejection import Counts, Rejections, refused, rejected_schema
from keuka.events.types_seen import TypesSeen
from keuka.pipelines.checking import Bound, as_error, described, empty_tables, outputs_of, staged_path
from keuka.pipelines.pipeline import Pipeline
from keuka.pipelines.staging import Staging, staging
from keuka.pipelines.values import (
    CONSOLE,
    LATE,
    METRICS,
    REJECTED,
    Batch,
    Progress,
    Report,
    Sink,
    SparkSettings,
    Steps,
    metrics_table,
)
from keuka.query import prepare
from keuka.spark import streaming_pipelines
from keuka.spark.analysis import estimate_bytes
from keuka.spark.failures import Py4JError, explained
from keuka.spark.inputs import Read, Source, Types, counts_in, doubts, read, source, types_in
from keuka.spark.jobs import Results, parallelism, results
from keuka.spark.probe import is_local
from keuka.spark.schemas import spark_schema
from keuka.spark.session import open_session
from keuka.spark.sinks import as_text, first_rows
from keuka.spark.worker import OF

log = logging.getLogger("keuka")

POLLED_SECONDS = 0.2
# With Spark's default of 200 partitions, which are not joined once results are kept, the example of `keuka new` took 2,000 tasks and 45 s
# in a warm session; with one it took 16 tasks and 9 s. So rows are divided only from twice SMALL_BYTES on, and finely only from SHARD_BYTES
# on: the Python of each task takes a second of a processor to start.
SMALL_BYTES, SHARD_BYTES = 2**22, 2**24


def run(
    pipeline: Pipeline,
    bound: Bound,
    master: str | None,
    here: bool,
    on_progress: Callable[[Progress], None] | None,
    on_batch: Callable[[Batch], None] | None,
) -> Report:
    """Reads, matches and writes; the session ends with the run if it began with it."""
    steps = Steps()
    with _session(pipeline.spark, master) as spark, _reporting(spark, on_progress):
        steps.end("start")
        here = here and is_local(spark)  # a session that was there before may have its workers elsewhere
        found: list[Diagnostic] = []
        streams = _read(spark, bound, here, found, pipeline.is_streaming)
        if not found:
            bound, _ = outputs_of(pipeline, bound, empty_tables(bound, _schemas(streams)), found)
        if found:
            raise as_error(found)
        sources = _sources(bound, streams)
        if pipeline.is_streaming:
            return streaming_pipelines.run(spark, pipeline.spark, bound, sources, here, steps, on_batch)
        return _run(spark, pipeline.spark, bound, sources, here, steps)


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
    sources = {name: source(name, bound.streams[name], streams[name], columns.get(name), rejects) for name in streams}
    if found := doubts(sources):
        raise as_error(found)
    return sources


def _schemas(streams: Mapping[str, Read]) -> dict[str, pa.Schema]:
    return {name: stream.schema for name, stream in streams.items()}


# -- running ---------------------------------------------------------------------------------------------------------------


def _run(spark: SparkSession, settings: SparkSettings, bound: Bound, sources: Mapping[str, Source], here: bool, steps: Steps) -> Report:
    """One job reads the streams, matches and counts; what it found is kept, and each sink is a job of its own over that."""
    counting = {name: Observation(f"rows of {name}") for name, each in sources.items() if each.is_read}
    types = None if bound.type_column is None else Types(bound.type_column, tuple(bound.query.inputs))
    events = {name: each.events(spark, counting.get(name, name), each.readable, types) for name, each in sources.items()}
    streams = {name: described(bound.streams[name], frame) for name, frame in events.items()}
    options: dict[str, Any] = {"type_column": bound.type_column, "params": bound.params}
    with explained("plan the queries"):
        sizes = [estimate_bytes(frame) for name, frame in events.items() if sources[name].is_read]
        n_bytes = None if None in sizes else sum([size for size in sizes if size is not None])
        options["shards"] = settings.shards or _choose_shards(spark, n_bytes)
        options["in_one_task"] = here and settings.shards is None and n_bytes is not None and n_bytes < 2 * SMALL_BYTES
        planned = results(bound.query, streams, outputs=bound.outputs, limits=bound.limits, **options)
    steps.end("plan")
    finding = Observation("matches")
    kept = planned.frame.observe(finding, *_count_matches(planned)).persist()
    try:
        try:
            with explained("run the queries"):
                kept.write.format("noop").mode("overwrite").save()
                observed = {name: observation.get for name, observation in counting.items()}
                matches = {name: finding.get[str(i)] for i, name in enumerate(bound.outputs)}
        except DataError as error:
            raise _refusal(spark, sources, error) from None
        counts = {name: counts_in(observed.get(name, {})) for name in sources}
        if planned.types is not None and types is not None:
            _warn_of_types(planned.types, {name: (counts[name].n_read, types_in(row, types)) for name, row in observed.items()})
        steps.end("match")
        found = replace(planned, frame=kept)
        frames = {name: found.output(name) for name in bound.outputs} | _side_outputs(spark, bound, sources, counts)
        read, rejected = {name: n.n_read for name, n in counts.items()}, {name: n.n_rejected for name, n in counts.items()}
        n_rows = matches | {REJECTED: sum(rejected.values()), LATE: 0}
        shown: dict[str, tuple[pa.Table, int]] = {}
        with staging([sink for sink in bound.sinks if sink.format != CONSOLE]) as staged:
            # What Spark commits by itself comes late, because it cannot be taken back.
            # Metrics last, because they tell how long the rest took.
            for sink in sorted(bound.sinks, key=lambda sink: (sink.of == METRICS, staged_path(sink, here) is None)):
                assert sink.of is not None  # filled in with the outputs
                if sink.of == METRICS:
                    table = metrics_table(read, rejected, matches, steps.total)
                    frames[METRICS], n_rows[METRICS] = spark.createDataFrame(table).coalesce(1), table.num_rows
                with explained(f"write the sink of `{sink.of}`"):
                    if sink.format == CONSOLE:
                        shown[sink.of] = first_rows(frames[sink.of]), n_rows[sink.of]
                    else:
                        _write(frames[sink.of], sink, here, staged)
                steps.end(f"{sink.of} to {'the console' if sink.format == CONSOLE else sink.format}")
        steps.end("publish")
    finally:
        with contextlib.suppress(PySparkException, Py4JError):  # after an interrupt Spark may be gone
            kept.unpersist()
    if not bound.has_sink(REJECTED):
        rejections = Rejections()
        rejections.counts = counts
        rejections.warn()
    return Report(read, rejected, matches, steps.seconds, shown)


def _choose_shards(spark: SparkSession, n_bytes: int | None) -> int:
    """As many as rows of this size need; as many as Spark runs at once where it does not know the size."""
    n_at_once = parallelism(spark)
    return n_at_once if n_bytes is None else max(1, min(n_at_once, n_bytes // SMALL_BYTES), n_bytes // SHARD_BYTES)


def _count_matches(found: Results) -> list[Column]:
    """The number of matches of each output, named by its place."""
    counts = [sf.count(sf.lit(1)) if output.tag is None else sf.count_if(sf.col(OF) == output.tag) for output in found.outputs.values()]
    return [count.alias(str(i)) for i, count in enumerate(counts)]


def _refusal(spark: SparkSession, sources: Mapping[str, Source], error: DataError) -> DataError:
    """What is said of rows that are no events: the job ends at the first of them, and another one counts them all."""
    if error.code not in ("K502", "K503", "K509"):
        return error
    counts = {}
    with explained("read the streams"):
        for name, each in sources.items():
            counts[name] = each.count(spark) if each.is_read and not each.rejects else Counts()
            if counts[name].n_unreadable:
                return each.error(spark, counts[name].n_unreadable)
    return refused(counts) or error


def _warn_of_types(seen: TypesSeen, streams: Mapping[str, tuple[int, Sequence[str]]]) -> None:
    for name, (n_rows, types) in streams.items():
        seen.n_rows += n_rows
        seen.add(types)
        for warning in seen.warnings(name):
            log.warning("%s", render(warning))


def _side_outputs(spark: SparkSession, bound: Bound, sources: Mapping[str, Source], counts: Mapping[str, Counts]) -> dict[str, DataFrame]:
    """Rows that became no matches. Streams are read again only where they have such rows and somebody wants them."""
    schema = rejected_schema([each.rejected_columns for each in sources.values()])
    nothing = spark.createDataFrame([], spark_schema(schema))
    wanted = [each for name, each in sources.items() if counts[name].n_rejected] if bound.has_sink(REJECTED) else []
    with explained("read the rejected rows"):
        rejected = [each.rejected(spark, schema, each.pieces(spark)) for each in wanted]
    return {REJECTED: functools.reduce(DataFrame.union, rejected, nothing), LATE: nothing}


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
