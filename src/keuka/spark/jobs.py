"""What `frames.py` makes of a query and its DataFrames: the driver's side, which imports pyspark.

The driver checks and plans (`query.prepare` over empty tables with the same columns), lets Catalyst drop the rows and columns that cannot
matter, and sends the rest to workers by key or by slices of time; `worker.py` is what runs there.
"""

from __future__ import annotations

import functools
import logging
import os
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from keuka.automaton.tables import to_bytes
from keuka.diagnostics import listing
from keuka.errors import data_error
from keuka.events.clocks import seconds_of, unit_of
from keuka.events.files import place
from keuka.events.matches import result_schema
from keuka.events.order import common_axis
from keuka.events.rejection import FILE, LINE, REASON, STREAM, TEXT
from keuka.events.sources import Stream
from keuka.events.types_seen import TypesSeen
from keuka.expressions import Expression
from keuka.plan.division import END, START, ByKey, BySlices, Division, Part, Together, Undivided, divide, divide_endless
from keuka.plan.prefilter import needed
from keuka.query import EVENTS, Prepared, check_limits, prepare
from keuka.run.limits import Limits
from keuka.schema import MICROSECONDS, RESULT, Header, TimeAxis
from keuka.spark import streaming
from keuka.spark.analysis import Schema, columns_of, declared, is_streaming, knowing
from keuka.spark.probe import require_on_executors
from keuka.spark.schemas import arrow_schema, spark_schema, spark_type
from keuka.spark.sent_rows import (
    Frame,
    can_matter,
    column_of,
    data_of,
    frame_of,
    is_wrong,
    key_hash,
    positioned,
    positions,
    sent_columns,
    sent_header,
    tick_of,
    times_of,
    with_fields,
    wrong_time,
)
from keuka.spark.session import is_connect
from keuka.spark.shards import ShardTask
from keuka.spark.worker import MOST_TICKS, OF, SHARD, Input, Output, Slices, Task, share, slot_names

log = logging.getLogger("keuka")

# Slices are this many times as long as what must be read before each: a quarter of the rows are sent twice.
SLICE_IN_REACHES = 4
USUAL_PARTITIONS = 200  # of a shuffle, unless it is said


@dataclass(frozen=True)
class Results:
    """The matches of several outputs as the rows of one DataFrame, so that all of them cost one pass."""

    frame: DataFrame
    outputs: Mapping[str, Output]
    types: TypesSeen | None = None  # with a type column: the types that are read; of the rows nothing is known here
    is_streaming: bool = False  # are they the rows that shards tell?
    late: Mapping[str, Output] = field(default_factory=dict)  # by stream: the late rows that shards tell
    axis: TimeAxis | None = None  # of the times that shards tell
    shard_tasks: tuple[ShardTask, ...] = ()  # what shards are made for

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.outputs)

    def output(self, name: str) -> DataFrame:
        """The matches of one output."""
        find = streaming.rows_of if self.is_streaming else _rows_of
        return find(self.frame, self.outputs[name])


def results(
    query: Any,
    streams: Any,
    *,
    outputs: tuple[str, ...] | None,
    contributors: bool = False,
    shards: int | None = None,
    schema: Schema | None = None,
    limits: Limits | None = None,
    rejected: list[DataFrame] | None = None,
    idle_after: object = None,
    control: str | None = None,
    keeps_late: bool = False,
    in_one_task: bool = False,
    **options: Any,
) -> Results:
    """The matches of the outputs (None: of all, (): of the last query's). Whatever is wrong is said before a job starts.

    `rejected` gets a DataFrame for each stream with the rows that cannot be events, which are left out then. `control` and `keeps_late`
    are for streams that go on: `streaming.Moving` says what they mean. `in_one_task`: rows are so few that one task reads and matches them.
    """
    if shards is not None and (not isinstance(shards, int) or isinstance(shards, bool) or shards < 1):
        raise ValueError(f"shards must be a number of partitions from 1 on, not {shards!r}")
    check_limits(limits)
    ask = schema is None
    if schema is not None:
        streams = declared(streams, schema)
    prepared = prepare(query, emptied(streams, ask), outputs=outputs, contributors=contributors, **options)
    given = {stream.name: streams[stream.name] if isinstance(streams, Mapping) else streams for stream in prepared.opened}
    frames = {stream.name: frame_of(stream, given[stream.name]) for stream in prepared.opened}
    if rejected is not None:
        frames = {name: replace(frame, rejects=True) for name, frame in frames.items()}
        rejected.extend([_rejected(name, frame) for name, frame in frames.items()])
    spark = next(iter(frames.values())).data.sparkSession
    if ask:
        require_on_executors(spark)
    going = {name for name, frame in frames.items() if is_streaming(frame.data, ask)}
    if idle_after is not None and not going:
        raise data_error("K515", "`idle_after=` is for streams that go on, and none of these does", "leave it out")
    n_shards = shards or parallelism(spark)
    read = {source.name for source in prepared.tables.sources}
    axis = common_axis([stream for stream in prepared.opened if stream.name in read])
    parts = divide_endless(prepared.plan) if going & read else divide(prepared.plan, axis=axis, n_workers=n_shards)
    for part in parts:
        if isinstance(part.division, Undivided):
            names = listing([name for name, _, _ in part.plan.outputs], 4)
            window = "" if going & read else ", or a window,"  # a shard of a stream that goes on is of keys, not of times
            remedy = f"add an equality of one column between all events{window} so that it can be divided"
            log.warning("%s runs on one worker: %s; %s", names, part.division.reason, remedy)
    if in_one_task:
        parts = (Part(prepared.plan, prepared.tables, Together()),)
    allowed = limits or Limits(), 1 if in_one_task else _tasks_at_once(spark)
    if going & read:
        if allowed[0].seconds is not None or allowed[0].matches is not None:
            problem = "limits of seconds and matches are for runs that end, and these streams go on"
            raise data_error("K515", problem, "limit `memory` alone")
        lateness = {stream.name: stream.lateness for stream in prepared.opened}
        outputs_ = streaming.outputs_of(prepared, axis)
        silence = None if idle_after is None else seconds_of("idle_after", idle_after)
        moving = streaming.Moving(going, lateness, shards, silence, *allowed, control, keeps_late)
        late = streaming.late_outputs(frames, moving, len(outputs_))
        told, tasks = streaming.told(parts, frames, outputs_, late, axis, moving)
        return Results(told, outputs_, prepared.types, is_streaming=True, late=late, axis=axis, shard_tasks=tasks)
    outputs_, types = _layout(prepared, parts, axis)
    wanted = {output.name: outputs_[output.name] for output in prepared.tables.outputs}
    missing = dict(wanted)
    together = []
    for part in parts:
        own = [outputs_[name] for name, _, _ in part.plan.outputs]
        made = _part_frame(part, frames, tuple(own), types, axis, shards, n_shards, allowed)
        frames |= {output.name: _made(_rows_of(made, output), output, axis) for output in own}
        # What a later part needs again, as its source, is there once.
        tags = [missing.pop(output.name).tag for output in own if output.name in missing]
        if tags:
            together.append(made if len(tags) == len(own) else made.where(sf.col(OF).isin(tags)))
    return Results(functools.reduce(DataFrame.union, together), wanted, prepared.types)


def emptied(streams: Any, ask: bool = True) -> Any:
    """The streams without rows: the driver needs their columns only."""
    if not isinstance(streams, Mapping):
        return _emptied("", streams, ask)
    return {name: _emptied(name, stream, ask) for name, stream in streams.items()}


def _emptied(name: str, stream: Any, ask: bool) -> Stream:
    frame, where = data_of(stream), place(name, None) if name else ""
    if not isinstance(frame, DataFrame):
        problem = f"data of the kind `{type(frame).__name__}` cannot be read on Spark"
        remedy = "`spark.read.parquet(...)` or another reader" if isinstance(frame, str | os.PathLike) else "`spark.createDataFrame(...)`"
        raise data_error("K512", problem, f"give a Spark DataFrame: {remedy}", where=where)
    columns = arrow_schema(name or EVENTS, columns_of(name, frame))
    table = columns.empty_table()
    return replace(stream, data=table) if isinstance(stream, Stream) else Stream(table)


def _made(data: DataFrame, output: Output, axis: TimeAxis) -> Frame:
    """The result of one part as an input of another."""
    header = Header(START, END)
    names = [*output.schema.names[: -len(RESULT.names)], *header.names]
    return Frame(data, pa.schema(zip(names, output.schema.types, strict=True)), header, unit_of(axis))


def parallelism(spark: SparkSession) -> int:
    """How many tasks Spark would run at once; over Connect only the number of partitions of a shuffle is known."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    setting = spark.conf.get("spark.sql.shuffle.partitions") or ""
    return int(setting) if setting.isdigit() else USUAL_PARTITIONS  # some platforms say `auto`


def _tasks_at_once(spark: SparkSession) -> int | None:
    """How many tasks an executor runs at once; None if only the executor can know. In local mode it is the driver."""
    cores, cpus = (spark.conf.get(setting, default) or "" for setting, default in (("spark.executor.cores", ""), ("spark.task.cpus", "1")))
    if cores.isdigit():
        return max(1, int(cores) // max(1, int(cpus) if cpus.isdigit() else 1))
    if not is_connect(spark) and (spark.sparkContext.master or "").startswith("local"):
        return int(spark.sparkContext.defaultParallelism)
    return None


# -- results ---------------------------------------------------------------------------------------------------------------


def _layout(prepared: Prepared, parts: Sequence[Part], axis: TimeAxis) -> tuple[dict[str, Output], tuple[pa.DataType, ...]]:
    """Where the columns of each output are in the rows that workers send back. A single output has rows of its own."""
    schemas: dict[str, pa.Schema] = {}
    results = {output.name for output in prepared.tables.outputs}
    for part in parts:
        for output in part.tables.outputs:
            own = result_schema(output.schema, axis, part.plan.contributors)
            schemas[output.name] = prepared.schema(output.name) if output.name in results else own
    slots = share(list(schemas.values()))
    tags = range(len(schemas)) if len(schemas) > 1 else [None]
    tagged = zip(schemas.items(), tags, slots.places, strict=True)
    return {name: Output(name, tag, schema, places) for (name, schema), tag, places in tagged}, slots.types


def _rows_of(frame: DataFrame, output: Output) -> DataFrame:
    if output.tag is None:
        return frame
    columns = [sf.col(f"v{slot}").alias(name) for slot, name in zip(output.slots, output.schema.names, strict=True)]
    return frame.where(sf.col(OF) == output.tag).select(*columns)


# -- one part --------------------------------------------------------------------------------------------------------------


def _part_frame(
    part: Part,
    frames: Mapping[str, Frame],
    outputs: tuple[Output, ...],
    types: tuple[pa.DataType, ...],
    axis: TimeAxis,
    shards: int | None,
    n_shards: int,
    allowed: tuple[Limits, int | None],
) -> DataFrame:
    """The rows that all workers send back, computed when Spark needs them."""
    slices = _slices(part.division.reach, axis, n_shards) if isinstance(part.division, BySlices) else None
    names = [source.name for source in part.tables.sources]
    frames = {**frames, **{source.stream: with_fields(frames[source.stream], source.schema.names) for source in part.plan.sources}}
    sent = [sent_columns(part, frames[source.name], source.columns) for source in part.tables.sources]
    schemas = [pa.schema([frames[name].schema.field(i) for i in read]) for name, read in zip(names, sent, strict=True)]
    slots = share(schemas)
    matters = needed(part.plan)
    known = [_filtered(frames[name], matters.get(name), read) for name, read in zip(names, sent, strict=True)]
    where = [_where(part.division, frames[name], name, slices, axis) for name in names]
    if len(names) == 1:
        columns = [f"c{i}" for i in sent[0]]
        rows = _divided(known[0].select(*columns), where[0], columns, part, slices, shards)
    else:
        columns = [OF, *slot_names(len(slots.types))]
        packed = [
            frame.select(to.alias(SHARD), sf.lit(i).alias(OF), *_in_slots(slots.types, dict(zip(slots.places[i], sent[i], strict=True))))
            for i, (frame, to) in enumerate(zip(known, where, strict=True))
        ]
        rows = _divided(functools.reduce(DataFrame.union, packed), sf.col(SHARD), columns, part, slices, shards)
    names_sent = columns if slices is None else [SHARD, *columns]  # a row of a slice begins with its shard
    n_before = len(names_sent) - len(slots.types)
    sent_as = pa.schema(zip(names_sent, [pa.int32()] * n_before + [*slots.types], strict=True))
    inputs = []
    for name, schema, places in zip(names, schemas, slots.places, strict=True):
        header = sent_header(frames[name], part.plan.contributors)
        inputs.append(Input(name, schema, header, frames[name].unit, tuple([n_before + slot for slot in places])))
    task = pickle.dumps(Task(to_bytes(part.tables), tuple(inputs), outputs, types, slices, axis, *allowed))
    tagged = pa.schema([(OF, pa.int32()), *zip(slot_names(len(types)), types, strict=True)])
    return knowing(rows, spark_schema(sent_as)).mapInArrow(
        _on_worker(task), spark_schema(outputs[0].schema if outputs[0].tag is None else tagged)
    )


def _in_slots(types: Sequence[pa.DataType], columns: Mapping[int, int]) -> list[Column]:
    """The columns of one stream in the slots that all streams share."""
    values = [sf.col(f"c{columns[slot]}") if slot in columns else sf.lit(None) for slot in range(len(types))]
    return [value.cast(spark_type(type_)).alias(name) for value, type_, name in zip(values, types, slot_names(len(types)), strict=True)]


def _on_worker(task: bytes) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that travels as it is: it refers to nothing of this package until it runs."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark.worker import run_partition

        return run_partition(task, batches)

    return run


def _filtered(frame: Frame, predicate: Expression | None, read: Collection[int]) -> DataFrame:
    """The rows that can matter, as far as Spark can tell."""
    rows = positioned(frame)
    matters = can_matter(frame, predicate, read)
    return rows if matters is None else rows.where(matters)


def _rejected(name: str, frame: Frame) -> DataFrame:
    """The rows of a stream that cannot be events, computed when Spark needs them. Of a DataFrame no file is known."""
    rows = frame.data.toDF(*positions(frame.schema))
    unknown = [sf.lit(None).cast(type_) for type_ in ("string", "bigint", "string")]
    chosen = rows.where(is_wrong(times_of(frame))).select("*", sf.lit(name), wrong_time(times_of(frame)), *unknown)
    return chosen.toDF(*frame.schema.names, STREAM, REASON, FILE, LINE, TEXT)


# -- who gets which rows ---------------------------------------------------------------------------------------------------


def _divided(rows: DataFrame, where: Column, columns: Sequence[str], part: Part, slices: Slices | None, shards: int | None) -> DataFrame:
    """These columns of the rows, each where it must go; a row that several shards need is there once for each, and says for which."""
    if isinstance(part.division, Together):
        return rows.select(*columns).coalesce(1)  # read by the task that matches: nothing is shuffled
    if isinstance(part.division, Undivided):
        return rows.select(*columns).repartition(1)
    if slices is not None:
        return rows.select(sf.explode(where).alias(SHARD), *columns).repartition(slices.n_shards, SHARD)
    assert isinstance(part.division, ByKey)
    if not part.division.columns and not part.plan.contributors:
        return rows.select(*columns)  # no row meets another
    return (rows.repartition(where) if shards is None else rows.repartition(shards, where)).select(*columns)


def _where(division: Division, frame: Frame, stream: str, slices: Slices | None, axis: TimeAxis) -> Column:
    """Rows with equal values of this go to one worker; for slices, the shards that need the row."""
    if slices is None:
        return key_hash(division, frame, stream)
    end = frame.header.end
    return _shards(_shown_time(column_of(frame, end), frame.schema.field(end).type, axis), slices)


def _slices(reach: int, axis: TimeAxis, n_shards: int) -> Slices:
    """Times shown as days are cut by days."""
    shown = reach // MICROSECONDS["day"] + 1 if pa.types.is_date(axis.arrow) else max(reach, 1)
    return Slices(shown, SLICE_IN_REACHES * shown, n_shards)


def _shown_time(column: Column, arrow: pa.DataType, axis: TimeAxis) -> Column:
    """A time as a number, in the units of the results' times."""
    return sf.unix_date(column).cast("bigint") if pa.types.is_date(axis.arrow) else tick_of(column, arrow)


def _shards(time: Column, slices: Slices) -> Column:
    """The shards of the slice of a time and, if a match with it can end there, of the next. A row without a time goes to the last."""
    at = sf.greatest(sf.least(time, sf.lit(MOST_TICKS)), sf.lit(-MOST_TICKS))
    numbers = []
    for tick in (at, at + slices.reach):
        slice_ = sf.call_function("div", tick - sf.pmod(tick, sf.lit(slices.length)), sf.lit(slices.length))
        numbers.append(sf.pmod(slice_, sf.lit(slices.n_shards)).cast("int"))
    return sf.array_distinct(sf.array(*numbers))
