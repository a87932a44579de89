"""Runs a pipeline over streams that go on: one streaming query, of which every micro-batch is written to all sinks.

A sink that is a directory gets a directory `batch=12` for each micro-batch that has rows for it. On this machine a micro-batch becomes
visible there in one step, and one that Spark repeats after a crash is there already; elsewhere Spark writes it anew. The checkpoint
holds, beside what Spark keeps there, a directory of commands (`control`), which names the checkpoint as well, so that sinks know it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from keuka.diagnostics import Diagnostic
from keuka.errors import PipelineError
from keuka.events.clocks import seconds_of, time_of
from keuka.events.frontiers import BEGINNING, INFINITE
from keuka.events.parts import new_part, parts_of, resolve, sync
from keuka.events.rejection import REASON, STREAM, rejected_schema
from keuka.pipelines.checking import OF_FILES, Bound, described, staged_path
from keuka.pipelines.staging import INSIDE, MARKER, find_obstacle, make_directory, recover
from keuka.pipelines.values import (
    AVAILABLE_NOW,
    CONSOLE,
    LATE,
    METRICS,
    METRICS_SCHEMA,
    REJECTED,
    Batch,
    Report,
    RunSettings,
    Sink,
    SparkSettings,
    Steps,
)
from keuka.schema import TimeAxis
from keuka.spark.failures import Py4JError, explained
from keuka.spark.inputs import Source, counts_in
from keuka.spark.jobs import Results, parallelism, results
from keuka.spark.schemas import spark_schema, spark_type
from keuka.spark.session import is_connect
from keuka.spark.shard_state import another_checkpoint, describe, require_same
from keuka.spark.shards import FLUSH, N_ROWS, OF
from keuka.spark.shards import METRICS as NUMBERS
from keuka.spark.sinks import as_text, first_rows
from keuka.spark.streaming import OBSERVED, PARTITIONS, STREAMING_SETTINGS, observed_in, passed_by, rows_of
from keuka.spark.worker import Output

log = logging.getLogger("keuka")

POLLED_SECONDS = 0.2
# Directories of micro-batches are named by them, and by the checkpoint where no marker keeps another one away.
BATCH, CHECKPOINT = "batch", "checkpoint"
# What lines of the directory `control` begin with that are no commands.
BEGAN, MADE_FOR = "began ", "made for "
FILE_ROWS = 500_000  # of a micro-batch in one file
ROWS_TOLD = f"{OBSERVED}_rows"  # observed: rows by output
TOO_LATE = "later than its stream's lateness allows"
# By name: where the rows of an output are among those that a micro-batch tells, and as what columns they are written, if as others.
Outputs = Mapping[str, Sequence[tuple[Output, Sequence[Column] | None]]]

ENDED = "the streams of this checkpoint have ended: rows that come after that are late; name another checkpoint to begin anew"


def run(
    spark: SparkSession,
    settings: SparkSettings,
    bound: Bound,
    sources: Mapping[str, Source],
    here: bool,
    steps: Steps,
    on_batch: Callable[[Batch], None] | None,
) -> Report:
    """Runs micro-batches until the streams end, which they do with the trigger `available_now` alone, or until somebody interrupts."""
    assert bound.run.checkpoint is not None
    checkpoint = _Checkpoint(spark, f"{bound.run.checkpoint}/control")
    with explained("read the checkpoint"):
        checkpoint.open()
    n_shards = settings.shards or (checkpoint.made_for.n_shards if checkpoint.made_for is not None else parallelism(spark))
    settings = replace(settings, shards=n_shards)
    with _configured(spark, settings):
        with explained("plan the queries"):
            found, frame, outputs = _tell(spark, settings, bound, sources, checkpoint.path)
        targets = [target for sink in bound.sinks if (target := _target(spark, sink, here, checkpoint.id, outputs)) is not None]
        paths = {name: sorted(bound.streams[name].all_paths) for name, source in sources.items() if source.is_read}
        made_for = _MadeFor(n_shards, [describe(task) for task in found.shard_tasks], paths, bound.has_sink(REJECTED), bound.has_sink(LATE))
        if checkpoint.made_for is not None:
            made_for.require_same(checkpoint.made_for)
        for target in targets:
            target.prepare()
        if checkpoint.made_for is None:
            with explained("write the checkpoint"):
                checkpoint.write(f"{MADE_FOR}{json.dumps(asdict(made_for))}")
        steps.end("plan")
        shown: dict[int, dict[str, tuple[pa.Table, int]]] = {}
        totals = _Totals(bound, sources, found.axis, shown, on_batch)
        writer = frame.writeStream.foreachBatch(_writing(outputs, targets, bound, shown))
        writer = _triggered(writer.option("checkpointLocation", bound.run.checkpoint), bound.run)
        if checkpoint.has_ended:
            log.warning("%s", ENDED)
        with explained("run the streams"):
            _follow(writer, totals)
            if bound.run.trigger == AVAILABLE_NOW and not checkpoint.has_ended:
                # What is there is known only when it was read, so the streams end in a micro-batch of their own.
                checkpoint.write(FLUSH)
                _follow(writer, totals)
    steps.end("match")
    return totals.report(steps)


def _triggered(writer: Any, settings: RunSettings) -> Any:
    if settings.trigger is None:
        return writer
    if settings.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{max(1, round(1000 * seconds_of('trigger', settings.trigger)))} milliseconds")


@contextlib.contextmanager
def _configured(spark: SparkSession, settings: SparkSettings) -> Iterator[None]:
    """What a streaming query needs of its session, unless the pipeline says otherwise. A task for each shard is enough."""
    wanted = {**STREAMING_SETTINGS, PARTITIONS: str(settings.shards)}
    before = {name: spark.conf.get(name, None) for name in wanted if name not in settings.conf}
    for name in before:
        spark.conf.set(name, wanted[name])
    try:
        yield
    finally:
        for name, value in before.items():
            with contextlib.suppress(PySparkException, Py4JError, OSError):  # after an interrupt Spark may be gone
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _follow(writer: Any, totals: _Totals) -> None:
    query = writer.start()
    try:
        while not query.awaitTermination(POLLED_SECONDS):
            totals.add(query)
    finally:
        with contextlib.suppress(PySparkException, Py4JError, OSError):  # what stopped this process may have stopped Spark, too
            query.stop()
    totals.add(query)


@dataclass(frozen=True)
class _MadeFor:
    """What a checkpoint was made for. Shards look, too, but only after Spark has noted which files it gives them."""

    n_shards: int
    shards: list[dict[str, Any]]  # of each part
    paths: dict[str, list[str]]  # by stream; Spark would take the files of another path for new ones
    rejects: bool  # has a sink the rejected rows? Then Spark reads every stream twice, and goes on with no other number of sources
    keeps_late: bool  # and one the late rows? Then shards get all columns

    def require_same(self, theirs: _MadeFor) -> None:
        """K557 if another checkpoint was made for something else."""
        if len(theirs.shards) != len(self.shards):
            raise another_checkpoint(["queries that are divided in another way"])
        if theirs.paths != self.paths and {*theirs.paths} == {*self.paths}:
            raise another_checkpoint([f"other paths of `{name}`" for name, paths in self.paths.items() if theirs.paths[name] != paths])
        for name, before, now in (("rejected", theirs.rejects, self.rejects), ("late", theirs.keeps_late, self.keeps_late)):
            if before != now:
                raise another_checkpoint([f"{'a' if before else 'no'} sink of {name} rows"])
        for made, wanted in zip(theirs.shards, self.shards, strict=True):
            require_same(made, wanted)


class _Checkpoint:
    """The directory of commands in a checkpoint. Spark reads and writes it, wherever it is.

    Two of its lines are for the driver: the name of the checkpoint, and what it was made for.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path
        self.id = ""
        self.made_for: _MadeFor | None = None
        self.has_ended = False

    def open(self) -> None:
        """A new checkpoint gets a name. What it is made for is known only when the queries are planned."""
        lines = self._lines()
        began, made_for = ([line.removeprefix(command) for line in lines if line.startswith(command)] for command in (BEGAN, MADE_FOR))
        self.id = began[0] if began else str(uuid.uuid4())
        if not began:
            self.write(f"{BEGAN}{self.id}")
        self.made_for = _MadeFor(**json.loads(made_for[0])) if made_for else None
        self.has_ended = FLUSH in lines

    def write(self, line: str) -> None:
        self.spark.createDataFrame([(line,)], "value STRING").coalesce(1).write.mode("append").text(self.path)

    def _lines(self) -> list[str]:
        try:
            return sorted([row.value for row in self.spark.read.text(self.path).collect()])
        except PySparkException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []


# -- what is written to sinks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    """A sink, and where it is if that is a directory on this machine."""

    sink: Sink
    local: Path | None
    checkpoint: str

    def is_ours(self) -> bool:
        """Was this checkpoint the last that wrote to the directory?"""
        assert self.local is not None
        marker = self.local / MARKER
        return marker.exists() and self.checkpoint in marker.read_text(encoding="utf-8")

    def prepare(self) -> None:
        """Makes the directory, in which a marker names the checkpoint. What is overwritten is moved away first, as a whole."""
        if self.local is None or self.is_ours():
            return
        recover([self.local])  # a killed run may have left what it moved away
        if self.sink.mode == "overwrite" and self.local.exists():
            old = new_part(self.local.parent, self.local.name)
            self.local.rename(old)
            shutil.rmtree(old)
        make_directory(self.local)
        part = new_part(self.local, INSIDE)
        part.write_text(f"Keuka writes micro-batches into this directory, for the checkpoint\n{self.checkpoint}\n", encoding="utf-8")
        sync(part)
        part.rename(self.local / MARKER)
        sync(self.local)

    def write(self, rows: DataFrame, batch_id: int) -> None:
        shown, options = as_text(rows, self.sink.format, self.sink.options)
        writer = shown.write.format(self.sink.format).options(**options)
        if self.local is None:
            if self.sink.path is None or self.sink.format not in OF_FILES:
                writer.mode("append").save(self.sink.path)  # a table, or what keeps a log of its own: it takes rows as they come
            else:
                writer.mode("overwrite").save(f"{self.sink.path}/{CHECKPOINT}={self.checkpoint}/{BATCH}={batch_id}")
            return
        if not self.is_ours():
            problem = "the sink does not belong to this run any more: another run has taken it, or it was removed"
            help = ("let one run alone write to it; then start this one again, with another path",)
            raise PipelineError(Diagnostic("K606", problem, label=f"`{self.local}`", help=help))
        place = self.local / f"{BATCH}={batch_id}"
        if place.exists():
            return  # from before a crash
        for abandoned in parts_of(self.local, place.name):
            shutil.rmtree(abandoned, ignore_errors=True)
        part = new_part(self.local, place.name)
        writer.save(f"file://{part}")
        for written in (*part.rglob("*"), part):
            sync(written)
        part.rename(place)
        sync(self.local)


def _target(spark: SparkSession, sink: Sink, here: bool, checkpoint: str, outputs: Outputs) -> _Target | None:
    """Where the micro-batches of a sink go, if it may be written there; None for the console. Nothing is changed yet."""
    if sink.format == CONSOLE:
        if is_connect(spark):
            raise PipelineError(Diagnostic("K607", "streaming over Spark Connect has no console", help=("write to a directory",)))
        return None
    local = staged_path(sink, here)
    if sink.path is not None and sink.format in OF_FILES:
        _check_columns(sink, (BATCH,) if local is not None else (CHECKPOINT, BATCH), outputs)
    if local is None:
        if sink.mode != "append":
            help = ('write `mode = "append"`: each micro-batch is written as it comes, and what is there is not looked at',)
            problem = f"a streaming run adds to a sink that {'is elsewhere' if sink.format in OF_FILES else 'Spark keeps'}"
            raise PipelineError(Diagnostic("K606", problem, label=f"`{sink.path or sink.format}`", help=help))
        return _Target(sink, None, checkpoint)
    target = _Target(sink, place := resolve(local), checkpoint)
    if target.is_ours():
        return target
    obstacle = find_obstacle(place, sink.mode)
    if obstacle is None and sink.mode == "append" and any(place.glob(f"{BATCH}=*")):
        obstacle = ("the sink has micro-batches of another checkpoint", "go on with that one, or name another path for the sink")
    if obstacle is not None:
        raise PipelineError(Diagnostic("K606", obstacle[0], label=f"`{local}`", help=obstacle[1:]))
    return target


def _check_columns(sink: Sink, taken: Sequence[str], outputs: Outputs) -> None:
    """K605 if a column has a name by which directories of micro-batches are named: readers would take one for the other."""
    assert sink.of is not None  # filled in with the outputs
    names = METRICS_SCHEMA.names if sink.of == METRICS else [name for output, _ in outputs[sink.of] for name in output.schema.names]
    for name in names:
        if name.lower() in taken:
            problem = f"`{sink.of}` has a column `{name}`, and directories of micro-batches are named `{name.lower()}=...`"
            raise PipelineError(Diagnostic("K605", problem, help=("give the column another name, with AS",)))


def _writing(
    outputs: Outputs,
    targets: Sequence[_Target],
    bound: Bound,
    shown: dict[int, dict[str, tuple[pa.Table, int]]],
) -> Callable[[DataFrame, int], None]:
    """A function that writes a micro-batch to all sinks. Its rows are computed once. `shown`: by micro-batch, what the console gets."""
    on_console = [sink.of for sink in bound.sinks if sink.format == CONSOLE and sink.of is not None]

    def write(frame: DataFrame, batch_id: int) -> None:
        kept = frame.persist()
        try:
            sums = [sf.sum(N_ROWS).alias("rows"), (sf.sum("kernel_us") / 1e6).alias("seconds")]
            told = {row[OF]: row for row in kept.groupBy(OF).agg(*sums).collect()}
            n_rows = {of: row["rows"] for of, row in told.items() if row["rows"]}
            seconds = told[NUMBERS]["seconds"] if NUMBERS in told else None

            def find(of: str) -> DataFrame | None:
                return _metrics(kept.sparkSession, outputs, n_rows, seconds) if of == METRICS else _rows(kept, outputs[of], n_rows)

            for target in targets:
                assert target.sink.of is not None  # filled in with the outputs
                if (rows := find(target.sink.of)) is not None:
                    target.write(rows, batch_id)
            shown[batch_id] = {of: (first_rows(rows), rows.count()) for of in on_console if (rows := find(of)) is not None}
        finally:
            kept.unpersist()

    return write


def _rows(kept: DataFrame, outputs: Sequence[tuple[Output, Sequence[Column] | None]], n_rows: Mapping[int, int]) -> DataFrame | None:
    """The rows of a micro-batch for a sink, in few files; None if there are none."""
    frames, n_all = [], 0
    for output, columns in outputs:
        if n_here := n_rows.get(output.number, 0):
            rows = rows_of(kept, output)
            frames.append(rows if columns is None else rows.select(*columns))
            n_all += n_here
    return functools.reduce(DataFrame.union, frames).coalesce(1 + n_all // FILE_ROWS) if frames else None


def _metrics(spark: SparkSession, outputs: Outputs, n_rows: Mapping[int, int], seconds: float | None) -> DataFrame:
    """How many rows each output has in a micro-batch, and how long shards took for it."""
    rows = []
    for of, several in outputs.items():
        for output, _ in several:
            kind = of if of in (LATE, REJECTED) else "matches"
            rows.append((kind, output.name, n_rows.get(output.number, 0), seconds))
    return spark.createDataFrame(rows, spark_schema(METRICS_SCHEMA))


# -- the one streaming query -----------------------------------------------------------------------------------------------


def _tell(
    spark: SparkSession, settings: SparkSettings, bound: Bound, sources: Mapping[str, Source], control: str
) -> tuple[Results, DataFrame, dict[str, list[tuple[Output, Sequence[Column] | None]]]]:
    """Matches, late rows, rejected rows and numbers as the rows of one DataFrame, and where the rows of each output are in it."""
    is_whole = bound.has_sink(LATE)  # late rows are written with all their columns
    streams = {
        name: described(bound.streams[name], source.events(spark, _observed(name), source.readable if is_whole else source.columns))
        for name, source in sources.items()
    }
    found = results(
        bound.query,
        streams,
        outputs=bound.outputs,
        type_column=bound.type_column,
        params=bound.params,
        shards=settings.shards,
        limits=bound.limits,
        idle_after=bound.run.idle_after,
        control=control,
        keeps_late=bound.has_sink(LATE),
    )
    outputs: dict[str, list[tuple[Output, Sequence[Column] | None]]] = {name: [(output, None)] for name, output in found.outputs.items()}
    frame = found.frame
    late_schema = rejected_schema([output.schema for output in found.late.values()])
    outputs[LATE] = [(output, _said_of(output, late_schema)) for output in found.late.values()]
    outputs[REJECTED] = []
    if bound.has_sink(REJECTED):
        schema = rejected_schema([source.rejected_columns for source in sources.values()])
        output = Output(REJECTED, len(found.outputs) + len(found.late), schema, ())
        outputs[REJECTED] = [(output, None)]
        # Spark knows sources by their order, and the order of a file may change.
        for source in [source for _, source in sorted(sources.items()) if source.is_read]:
            frame = frame.union(passed_by(source.rejected(spark, schema, None), output))
    counted = [output for several in outputs.values() for output, _ in several]
    sums = [sf.sum(sf.when(sf.col(OF) == sf.lit(output.tag), sf.col(N_ROWS))).alias(str(output.tag)) for output in counted]
    return found, frame.observe(ROWS_TOLD, *sums), outputs


def _observed(stream: str) -> str:
    return f"{OBSERVED}_read_{stream}"


def _said_of(output: Output, schema: pa.Schema) -> list[Column]:
    """The late rows of a stream with the columns of all, and what is said of them."""
    said = {STREAM: sf.lit(output.name), REASON: sf.lit(TOO_LATE)}
    own = {name: sf.col(f"`{name.replace('`', '``')}`") for name in output.schema.names}
    return [(own | said).get(f.name, sf.lit(None)).cast(spark_type(f.type)).alias(f.name) for f in schema]


# -- what is reported ------------------------------------------------------------------------------------------------------


class _Totals:
    """What Spark reports of micro-batches, each once."""

    def __init__(
        self,
        bound: Bound,
        sources: Mapping[str, Source],
        axis: TimeAxis | None,
        shown: dict[int, dict[str, tuple[pa.Table, int]]],
        on_batch: Callable[[Batch], None] | None,
    ) -> None:
        self.bound, self.sources, self.axis, self.shown, self.on_batch = bound, sources, axis, shown, on_batch
        self.last = -1
        self.latest = ""  # the time of Spark's last report
        self.read: Counter[str] = Counter(dict.fromkeys(sources, 0))
        self.rejected: Counter[str] = Counter(dict.fromkeys(sources, 0))
        self.matches: Counter[str] = Counter(dict.fromkeys(bound.outputs, 0))

    def add(self, query: Any) -> None:
        """Adds what is new since the last call. Asking for all that Spark remembers would cost much more than asking for the last."""
        latest = query.lastProgress
        if latest is None or latest.timestamp == self.latest:
            return
        self.latest = latest.timestamp
        for progress in query.recentProgress:
            if progress.batchId > self.last and progress.observedMetrics:
                self.last = progress.batchId
                self._add(progress)

    def _add(self, progress: Any) -> None:
        told = observed_in(progress)
        numbers = [part for name, part in told.items() if name == OBSERVED or name.removeprefix(f"{OBSERVED}_").isdigit()]
        counts = {name: counts_in(told.get(_observed(name), {})) for name in self.sources}
        matches = told.get(ROWS_TOLD, {})
        times = [part["time"] for part in numbers if part["time"] is not None]
        batch = Batch(
            number=progress.batchId,
            read={name: n.n_read for name, n in counts.items()},
            rejected={name: n.n_rejected for name, n in counts.items()},
            late=sum([part["late"] or 0 for part in numbers]),
            matches={name: matches.get(str(i)) or 0 for i, name in enumerate(self.bound.outputs)},
            seconds=progress.durationMs.get("triggerExecution", 0) / 1000,
            kernel_seconds=sum([part["kernel_us"] or 0 for part in numbers]) / 1e6,
            time=self._time(min(times)) if times else None,
            n_waiting=sum([part["waiting"] or 0 for part in numbers]),
            n_instances=sum([part["live_instances"] or 0 for part in numbers]),
            n_bytes=sum([part["state_bytes"] or 0 for part in numbers]),
            idle=max([part["idle"] or "" for part in numbers], default=""),
            waits_for=max([part["waits_for"] or "" for part in numbers], default=""),
            shown=self.shown.pop(progress.batchId, {}),
        )
        self.read += Counter(batch.read)
        self.rejected += Counter(batch.rejected)
        self.matches += Counter(batch.matches)
        if self.on_batch is not None:
            self.on_batch(batch)

    def _time(self, tick: int) -> Any:
        return time_of(tick, self.axis) if self.axis is not None and BEGINNING < tick < INFINITE - 1 else None

    def report(self, steps: Steps) -> Report:
        read, rejected = ({name: of[name] for name in self.sources} for of in (self.read, self.rejected))
        return Report(read, rejected, {name: self.matches[name] for name in self.bound.outputs}, steps.seconds, {})
