"""Queries over streaming DataFrames, the driver's side: rows packed by shard, one stateful function, matches unpacked.

`shards.py` is what runs on workers. Spark's watermark is not used: a shard hears from every batch how far each stream has come, to the
tick and in the same batch, so several streams may have different latenesses and one may fall silent. docs/decisions/0022 says why.
"""

from __future__ import annotations

import functools
import logging
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from keuka.automaton.tables import to_bytes
from keuka.errors import data_error
from keuka.events.matches import result_schema
from keuka.plan.division import Part, Undivided
from keuka.plan.prefilter import needed
from keuka.query import Prepared
from keuka.run.limits import Limits
from keuka.schema import TimeAxis
from keuka.spark.processor import ShardProcessor
from keuka.spark.schemas import spark_schema
from keuka.spark.sent_rows import Frame, can_matter, key_hash, positioned, sent_columns, with_fields
from keuka.spark.shards import COMMAND, FLUSH, MATTERS, NOW, NUMBERS, OF, PACKED, ROWS, STREAMS, TOLD, ShardTask
from keuka.spark.worker import SHARD, Input, Output

log = logging.getLogger("keuka")

OBSERVED = "keuka"  # the name of the metrics in `lastProgress`
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# What a session must say before it starts a streaming query, and what is better said.
STREAMING_SETTINGS = {PROVIDER: ROCKSDB, "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Moving:
    """What must be known of streams that go on, beside their columns."""

    going: Collection[str]  # the names of those that go on; others are there as a whole
    lateness: Mapping[str, int]  # by stream, in ticks
    shards: int | None
    idle_after: float | None  # seconds
    limits: Limits
    n_tasks: int | None
    control: str | None = None  # a directory whose files hold commands to all shards, a line each
    keeps_late: bool = False  # are late rows told, with all their columns?


def outputs_of(prepared: Prepared, axis: TimeAxis) -> dict[str, Output]:
    """The results, each with the number that its rows have."""
    schemas = {output.name: result_schema(output.schema, axis, prepared.plan.contributors) for output in prepared.tables.outputs}
    return {name: Output(name, i, schema, ()) for i, (name, schema) in enumerate(schemas.items())}


def late_outputs(frames: Mapping[str, Frame], moving: Moving, first: int) -> dict[str, Output]:
    """By stream: its late rows, if they are told; their numbers begin with `first`."""
    names = [name for name in frames if name in moving.going] if moving.keeps_late else []
    return {name: Output(name, first + i, frames[name].schema, ()) for i, name in enumerate(names)}


def told(
    parts: Sequence[Part],
    frames: Mapping[str, Frame],
    outputs: Mapping[str, Output],
    late: Mapping[str, Output],
    axis: TimeAxis,
    moving: Moving,
) -> DataFrame:
    """What the shards of all parts tell: matches of outputs and late rows, as Arrow bytes, and numbers."""
    spark = next(iter(frames.values())).data.sparkSession
    require_rocksdb(spark.conf.get(PROVIDER))
    shown = []
    untold = dict(late)
    for part in parts:  # of a stream that several parts read, one tells the late rows
        own = [untold.pop(source.name) for source in part.tables.sources if source.name in untold]
        shown.append(_told_by_part(part, frames, outputs, own, axis, moving))
    named = [frame.observe(OBSERVED if i == 0 else f"{OBSERVED}_{i + 1}", *_numbers()) for i, frame in enumerate(shown)]
    return functools.reduce(DataFrame.union, named)


def require_rocksdb(provider: str | None) -> None:
    """K556 unless this is the state store of the session."""
    if provider != ROCKSDB:
        lines = [f'`spark.conf.set("{name}", "{value}")`' for name, value in STREAMING_SETTINGS.items()]
        problem = "a streaming query keeps its state in RocksDB, but this session has another state store"
        raise data_error("K556", problem, *[f"say before the query starts: {line}" for line in lines])


def rows_of(told: DataFrame, output: Output) -> DataFrame:
    """The matches of one output."""
    packed = told.where(sf.col(OF) == sf.lit(output.tag)).select(ROWS)
    return packed.mapInArrow(_unpacking(output.schema), spark_schema(output.schema))


def passed_by(rows: DataFrame, output: Output) -> DataFrame:
    """Rows that go to no shard, beside those that shards tell."""
    tag = output.number

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark.shards import pass_by

        return pass_by(tag, batches)

    return rows.mapInArrow(run, spark_schema(TOLD))


def _numbers() -> list[Column]:
    """Rows of matches have no numbers, and all shards know the same of streams."""
    largest = [sf.max(name).alias(name) for name in ("time", *STREAMS)]
    return [*largest, *[sf.sum(name).alias(name) for name in NUMBERS]]


def _told_by_part(
    part: Part,
    frames: Mapping[str, Frame],
    outputs: Mapping[str, Output],
    late: Sequence[Output],
    axis: TimeAxis,
    moving: Moving,
) -> DataFrame:
    sources = {source.name: source.columns for source in part.tables.sources}
    own = {source.stream: with_fields(frames[source.stream], source.schema.names) for source in part.plan.sources}
    sent = {name: sent_columns(part, own[name], columns) for name, columns in sources.items()}
    matters = needed(part.plan)
    for output in late:  # whatever is late is told as it came
        sent[output.name] = list(range(len(own[output.name].schema)))
        matters.pop(output.name, None)
    known = {name: can_matter(own[name], matters.get(name), read) for name, read in sent.items()}
    spark = next(iter(own.values())).data.sparkSession
    keys = (0,) if isinstance(part.division, Undivided) else _shard_keys(spark, moving.shards)
    task = pickle.dumps(
        ShardTask(
            tables=to_bytes(part.tables),
            inputs=tuple([_input(name, own[name], read, part.plan.contributors) for name, read in sent.items()]),
            lateness=tuple([moving.lateness[name] for name in sources]),
            is_static=tuple([name not in moving.going for name in sources]),
            outputs=tuple([outputs[output.name] for output in part.tables.outputs]),
            late=tuple(late),
            axis=axis,
            keys=keys,
            idle_after=moving.idle_after,
            limits=moving.limits,
            n_tasks=moving.n_tasks,
        )
    )
    packed = {
        name: _packed(own[name], known[name], read, sf.pmod(key_hash(part.division, own[name], name), sf.lit(len(keys))), task, i)
        for i, (name, read) in enumerate(sent.items())
    }
    going = [frame for name, frame in packed.items() if name in moving.going]
    if moving.control is not None:
        going.append(_commands(spark, moving.control, keys))
    static = [frame for name, frame in packed.items() if name not in moving.going]
    return (
        functools.reduce(DataFrame.union, going)
        .groupBy(SHARD)
        .transformWithState(
            statefulProcessor=ShardProcessor(task),
            outputStructType=spark_schema(TOLD),
            outputMode="Append",
            timeMode="None",
            initialState=functools.reduce(DataFrame.union, static).groupBy(SHARD) if static else None,
        )
    )


def _input(name: str, frame: Frame, read: Sequence[int], contributors: bool) -> Input:
    header = frame.header if contributors else replace(frame.header, id=None)
    return Input(name, pa.schema([frame.schema.field(i) for i in read]), header, frame.unit, ())


def _packed(frame: Frame, matters: Column | None, read: Sequence[int], shard: Column, task: bytes, index: int) -> DataFrame:
    """A row for each shard and piece of a partition. Rows that cannot matter only say how far the stream has come."""
    times = {frame.schema.names.index(name) for name in frame.header.times}
    columns = [sf.col(f"c{i}") for i in read]
    if matters is None:
        matters = sf.lit(True)
    else:
        matters = sf.coalesce(matters, sf.lit(False))  # as a filter takes what is unknown
        columns = [column if i in times else sf.when(matters, column).alias(f"c{i}") for i, column in zip(read, columns, strict=True)]
    now = sf.unix_micros(sf.current_timestamp())
    rows = positioned(frame).select(shard.cast("int").alias(SHARD), now.alias(NOW), matters.alias(MATTERS), *columns)
    return rows.mapInArrow(_packing(task, index), spark_schema(PACKED))


def _commands(spark: SparkSession, control: str, keys: Sequence[int]) -> DataFrame:
    """A row for each shard and command."""
    lines = spark.readStream.schema("value STRING").text(control).where(sf.col("value") == FLUSH)
    columns = {
        SHARD: sf.explode(sf.array(*[sf.lit(key).cast("int") for key in keys])),
        OF: sf.lit(COMMAND),
        NOW: sf.unix_micros(sf.current_timestamp()),
        "last": sf.lit(None).cast("bigint"),
        ROWS: sf.encode("value", "UTF-8"),
    }
    return lines.select(*[column.alias(name) for name, column in columns.items()])


def _packing(task: bytes, index: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that travels as it is: it refers to nothing of this package until it runs."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark.shards import pack

        return pack(task, index, batches)

    return run


def _unpacking(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark.shards import unpack

        return unpack(schema, batches)

    return run


def _shard_keys(spark: SparkSession, shards: int | None) -> tuple[int, ...]:
    """What shards are called: numbers that Spark's hash deals out evenly to the partitions of a shuffle. No job is needed to know."""
    n_partitions = int(spark.conf.get(PARTITIONS) or 1)
    n_shards = shards or n_partitions
    if n_partitions > 4 * n_shards:
        remedy = f'`spark.conf.set("{PARTITIONS}", "{n_shards}")` before the query starts'
        log.warning("every micro-batch will start %d tasks for %d shards; %s", n_partitions, n_shards, remedy)
    numbers = ", ".join([f"({i})" for i in range(16 * n_shards + 16 * n_partitions)])
    rows = spark.sql(f"SELECT n, pmod(hash(n), {n_partitions}) FROM VALUES {numbers} AS numbers(n)").collect()
    of_partition: dict[int, list[int]] = {}
    for number, partition in rows:
        of_partition.setdefault(partition, []).append(number)
    return tuple([of_partition[i % n_partitions].pop(0) for i in range(n_shards)])
