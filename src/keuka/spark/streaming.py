"""Queries over streaming DataFrames, the driver's side: rows packed by shard, one stateful function, matches unpacked.

`shards.py` is what runs on workers. Spark's watermark is not used: a shard hears from every batch how far each stream has come, to the
tick and in the same batch, so several streams may have different latenesses and one may fall silent. docs/decisions/0022 says why.
"""

from __future__ import annotations

import functools
import logging
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from keuka.automaton.tables import to_bytes
from keuka.diagnostics import listing
from keuka.errors import data_error
from keuka.events.matches import result_schema
from keuka.plan.division import ByKey, Part, Undivided
from keuka.plan.prefilter import needed
from keuka.query import Prepared
from keuka.run.limits import Limits
from keuka.schema import TimeAxis
from keuka.spark.processor import ShardProcessor
from keuka.spark.schemas import spark_schema
from keuka.spark.sent_rows import Frame, can_matter, key_hash, positioned, sent_columns, sent_header, with_fields
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
) -> tuple[DataFrame, tuple[ShardTask, ...]]:
    """What the shards of all parts tell: matches of outputs and late rows, as Arrow bytes, and numbers; and what they are made for.

    Spark knows sources and states by their order, which is one of names here: that of queries and sinks may change between two runs.
    """
    spark = next(iter(frames.values())).data.sparkSession
    require_rocksdb(spark.conf.get(PROVIDER))
    shown, tasks = [], []
    untold, uncounted = dict(late), set(moving.going)
    # Of a stream that several parts read, one tells the late rows, and counts them.
    for part in sorted(parts, key=lambda part: sorted([output.name for output in part.tables.outputs])):
        own = [untold.pop(source.name) for source in part.tables.sources if source.name in untold]
        frame, task = _told_by_part(part, frames, outputs, own, uncounted, axis, moving)
        uncounted -= {source.name for source in part.tables.sources}
        shown.append(frame)
        tasks.append(task)
    named = [frame.observe(OBSERVED if i == 0 else f"{OBSERVED}_{i + 1}", *_numbers()) for i, frame in enumerate(shown)]
    return functools.reduce(DataFrame.union, named), tuple(tasks)


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


def observed_in(progress: Any) -> dict[str, dict[str, Any]]:
    """What Spark observed in a micro-batch, by name. Over Connect a row comes as its values beside its schema."""
    rows = {name: row.asDict() for name, row in progress.observedMetrics.items()}
    return {
        name: dict(zip([f["name"] for f in row["schema"]["fields"]], row["values"], strict=True)) if {*row} == {"values", "schema"} else row
        for name, row in rows.items()
    }


def _numbers() -> list[Column]:
    """Rows of matches have no numbers, and all shards know the same of streams."""
    largest = [sf.max(name).alias(name) for name in ("time", *STREAMS)]
    return [*largest, *[sf.sum(name).alias(name) for name in NUMBERS]]


def _told_by_part(
    part: Part,
    frames: Mapping[str, Frame],
    outputs: Mapping[str, Output],
    late: Sequence[Output],
    counted: Collection[str],
    axis: TimeAxis,
    moving: Moving,
) -> tuple[DataFrame, ShardTask]:
    sources = {source.name: source.columns for source in sorted(part.tables.sources, key=lambda source: source.name)}
    own = {source.stream: with_fields(frames[source.stream], source.schema.names) for source in part.plan.sources}
    sent = {name: sent_columns(part, own[name], columns) for name, columns in sources.items()}
    matters = needed(part.plan)
    for output in late:  # whatever is late is told as it came
        sent[output.name] = list(range(len(own[output.name].schema)))
        matters.pop(output.name, None)
    known = {name: can_matter(own[name], matters.get(name), read) for name, read in sent.items()}
    spark = next(iter(own.values())).data.sparkSession
    by = part.division.columns if isinstance(part.division, ByKey) else {}
    keys = shard_keys(1 if isinstance(part.division, Undivided) else _n_shards(spark, moving.shards))
    task = ShardTask(
        tables=to_bytes(part.tables),
        inputs=tuple([_input(name, own[name], read, part) for name, read in sent.items()]),
        lateness=tuple([moving.lateness[name] for name in sources]),
        is_static=tuple([name not in moving.going for name in sources]),
        outputs=tuple([outputs[output.name] for output in part.tables.outputs]),
        late=tuple(late),
        counts_late=tuple([name in counted for name in sources]),
        axis=axis,
        key=tuple([tuple(by.get(name, ())) for name in sources]),
        keys=keys,
        idle_after=moving.idle_after,
        limits=moving.limits,
        n_tasks=moving.n_tasks,
    )
    sent_task = pickle.dumps(task)
    packed = {
        name: _packed(own[name], known[name], read, sf.pmod(key_hash(part.division, own[name], name), sf.lit(len(keys))), sent_task, i)
        for i, (name, read) in enumerate(sent.items())
    }
    going = [frame for name, frame in packed.items() if name in moving.going]
    if not going:
        names = listing([output.name for output in part.tables.outputs], 4)
        problem = f"{names} is found in {listing(list(sources), 4)} alone, which does not go on as the other streams do"
        raise data_error("K512", problem, "match this query by itself, as over any other DataFrame")
    if moving.control is not None:
        going.append(_commands(spark, moving.control, keys))
    static = [frame for name, frame in packed.items() if name not in moving.going]
    shards = (
        functools.reduce(DataFrame.union, going)
        .groupBy(SHARD)
        .transformWithState(
            statefulProcessor=ShardProcessor(sent_task),
            outputStructType=spark_schema(TOLD),
            outputMode="Append",
            timeMode="None",
            initialState=functools.reduce(DataFrame.union, static).groupBy(SHARD) if static else None,
        )
    )
    return shards, task


def _input(name: str, frame: Frame, read: Sequence[int], part: Part) -> Input:
    return Input(name, pa.schema([frame.schema.field(i) for i in read]), sent_header(frame, part.plan.contributors), frame.unit, ())


def _packed(frame: Frame, matters: Column | None, read: Sequence[int], shard: Column, task: bytes, index: int) -> DataFrame:
    """A row for each shard and piece of a partition. Rows that cannot matter only say how far the stream has come."""
    times = {frame.schema.names.index(name) for name in frame.header.times}
    columns = [sf.col(f"c{i}") for i in read]
    before = [shard.cast("int").alias(SHARD)]
    if matters is not None:
        matters = sf.coalesce(matters, sf.lit(False))  # as a filter takes what is unknown
        before.append(matters.alias(MATTERS))
        columns = [column if i in times else sf.when(matters, column).alias(f"c{i}") for i, column in zip(read, columns, strict=True)]
    rows = positioned(frame).select(*before, *columns)
    return rows.mapInArrow(_packing(task, index), spark_schema(PACKED)).withColumn(NOW, _now())


def _now() -> Column:
    """When Spark began the micro-batch, which it remembers for a repetition."""
    return sf.unix_micros(sf.current_timestamp())


def _commands(spark: SparkSession, control: str, keys: Sequence[int]) -> DataFrame:
    """A row for each shard and command."""
    lines = spark.readStream.schema("value STRING").text(control).where(sf.col("value") == FLUSH)
    columns = {
        SHARD: sf.explode(sf.array(*[sf.lit(key).cast("int") for key in keys])),
        OF: sf.lit(COMMAND),
        "last": sf.lit(None).cast("bigint"),
        ROWS: sf.encode("value", "UTF-8"),
        NOW: _now(),
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


def _n_shards(spark: SparkSession, shards: int | None) -> int:
    setting = spark.conf.get(PARTITIONS) or ""
    n_partitions = int(setting) if setting.isdigit() else 1  # some platforms say `auto`
    if shards is not None and n_partitions > 4 * shards:
        remedy = f'`spark.conf.set("{PARTITIONS}", "{shards}")` before the query starts'
        log.warning("every micro-batch will start %d tasks for %d shards; %s", n_partitions, shards, remedy)
    return shards or n_partitions


def shard_keys(n_shards: int) -> tuple[int, ...]:
    """What shards are called: numbers that Spark's hash deals out evenly to as many partitions, or to a multiple of them."""
    keys: dict[int, int] = {}
    number = 0
    while len(keys) < n_shards:
        keys.setdefault(_hash(number) % n_shards, number)
        number += 1
    return tuple([keys[i] for i in range(n_shards)])


def _hash(number: int) -> int:
    """Spark's hash of an integer: Murmur3, 32 bits, with its seed; negative values as Spark has them."""
    word = number * 0xCC9E2D51 & 0xFFFFFFFF
    word = (word << 15 | word >> 17) & 0xFFFFFFFF
    hashed = 42 ^ word * 0x1B873593 & 0xFFFFFFFF
    hashed = ((hashed << 13 | hashed >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    hashed ^= hashed >> 16
    return hashed - 2**32 if hashed >= 2**31 else hashed
