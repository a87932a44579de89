"""What `frames.py` makes of a query and its DataFrames: the driver's side, which imports pyspark.

The driver checks and plans (`query.prepare` over empty tables with the same columns), lets Catalyst drop the rows and columns that cannot
matter, and sends the rest to workers by key or by slices of time; `worker.py` is what runs there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from keuka.automaton.tables import to_bytes
from keuka.diagnostics import listing
from keuka.errors import data_error
from keuka.events.clocks import unit_of
from keuka.events.files import place
from keuka.events.matches import result_schema
from keuka.events.order import common_axis
from keuka.events.sources import OpenStream, Stream
from keuka.plan.division import END, START, ByKey, BySlices, Part, Undivided, divide
from keuka.query import EVENTS, Prepared, known_distinct, prepare
from keuka.schema import MICROSECONDS, TimeAxis
from keuka.spark.schemas import arrow_schema, spark_schema, spark_type
from keuka.spark.worker import MOST_TICKS, OF, SHARD, Input, Output, Slices, Task, share, slot_names, task_bytes

log = logging.getLogger("keuka")

# Slices are this many times as long as what must be read before each: a quarter of the rows are sent twice.
SLICE_IN_REACHES = 4


@dataclass(frozen=True)
class Frame:
    """A stream as a DataFrame, and what the driver knows of it."""

    data: DataFrame
    schema: pa.Schema
    time: tuple[str, ...]
    id: str | None
    unit: str | None


@dataclass(frozen=True)
class Results:
    """The matches of several outputs as the rows of one DataFrame, so that all of them cost one pass."""

    frame: DataFrame
    outputs: Mapping[str, Output]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.outputs)

    def output(self, name: str) -> DataFrame:
        """The matches of one output."""
        return _rows_of(self.frame, self.outputs[name])


def results(
    query: Any, streams: Any, *, outputs: tuple[str, ...] | None, contributors: bool, shards: int | None, options: Mapping[str, Any]
) -> Results:
    """The matches of the outputs (None: of all, (): of the last query's). Whatever is wrong is said before a job starts."""
    if shards is not None and (not isinstance(shards, int) or isinstance(shards, bool) or shards < 1):
        raise ValueError(f"shards must be a number of partitions from 1 on, not {shards!r}")
    prepared = prepare(query, emptied(streams), outputs=outputs, contributors=contributors, **options)
    frames = {stream.name: _frame(stream, streams[stream.name] if isinstance(streams, Mapping) else streams) for stream in prepared.opened}
    n_shards = shards or _parallelism(next(iter(frames.values())).data.sparkSession)
    axis = common_axis(prepared.opened)
    wanted = [output.name for output in prepared.tables.outputs]
    parts = divide(
        prepared.program,
        wanted,
        axis=axis,
        contributors=contributors,
        n_workers=n_shards,
        n_distinct=known_distinct(prepared.opened),
    )
    for part in parts:
        if isinstance(part.division, Undivided):
            names = listing([name for name, _, _ in part.plan.outputs], 4)
            remedy = "add an equality of one column between all events, or a window, so that it can be divided"
            log.warning("%s runs on one worker: %s; %s", names, part.division.reason, remedy)
    outputs_, types = _layout(prepared, parts, axis)
    found: dict[str, DataFrame] = {}
    for part in parts:
        made = _part_frame(part, frames, tuple([outputs_[name] for name, _, _ in part.plan.outputs]), types, axis, shards, n_shards)
        for name, _, _ in part.plan.outputs:
            found[name] = made
            frames[name] = _made(_rows_of(made, outputs_[name]), outputs_[name], axis)
    return _together(found, {name: outputs_[name] for name in wanted}, parts)


def emptied(streams: Any) -> Any:
    """The streams without rows: the driver needs their columns only."""
    return {name: _emptied(name, stream) for name, stream in streams.items()} if isinstance(streams, Mapping) else _emptied("", streams)


def _emptied(name: str, stream: Any) -> Stream:
    frame = _data(stream)
    if not isinstance(frame, DataFrame):
        problem = f"data of the kind `{type(frame).__name__}` cannot be read on Spark"
        raise data_error("K512", problem, "give a Spark DataFrame: `spark.createDataFrame(...)`", where=place(name, None) if name else "")
    if frame.isStreaming:
        problem = "a streaming DataFrame cannot be read yet: it has no end"
        raise data_error(
            "K512", problem, "give a static one: `spark.read` instead of `spark.readStream`", where=place(name, None) if name else ""
        )
    table = arrow_schema(name or EVENTS, frame.schema).empty_table()
    return replace(stream, data=table) if isinstance(stream, Stream) else Stream(table)


def _data(stream: Any) -> Any:
    return stream.data if isinstance(stream, Stream) else stream


def _frame(opened: OpenStream, given: Any) -> Frame:
    return Frame(_data(given), opened.data.schema, opened.time, opened.id, unit_of(opened.type.axis))


def _made(data: DataFrame, output: Output, axis: TimeAxis) -> Frame:
    """The result of one part as an input of another."""
    names = [*output.schema.names[:-2], START, END]
    return Frame(data, pa.schema(zip(names, output.schema.types, strict=True)), (START, END), None, unit_of(axis))


def _parallelism(spark: SparkSession) -> int:
    """How many tasks Spark would run at once; over Connect only the number of partitions of a shuffle is known."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


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
    if len(schemas) == 1:
        ((name, schema),) = schemas.items()
        return {name: Output(name, None, schema, tuple(range(len(schema))))}, tuple(schema.types)
    numbered = enumerate(zip(schemas.items(), slots.places, strict=True))
    return {name: Output(name, i, schema, places) for i, ((name, schema), places) in numbered}, slots.types


def _rows_of(frame: DataFrame, output: Output) -> DataFrame:
    if output.tag is None:
        return frame
    columns = [F.col(f"v{slot}").alias(name) for slot, name in zip(output.slots, output.schema.names, strict=True)]
    return frame.where(F.col(OF) == output.tag).select(*columns)


def _together(found: Mapping[str, DataFrame], outputs: Mapping[str, Output], parts: Sequence[Part]) -> Results:
    """All parts that have a wanted output, one below the other."""
    frames = []
    for part in parts:
        names = [name for name, _, _ in part.plan.outputs]
        wanted = [outputs[name].tag for name in names if name in outputs]
        if wanted:
            frame = found[names[0]]
            frames.append(frame if len(wanted) == len(names) else frame.where(F.col(OF).isin(wanted)))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return Results(whole, outputs)


# -- one part --------------------------------------------------------------------------------------------------------------


def _part_frame(
    part: Part,
    frames: Mapping[str, Frame],
    outputs: tuple[Output, ...],
    types: tuple[pa.DataType, ...],
    axis: TimeAxis,
    shards: int | None,
    n_shards: int,
) -> DataFrame:
    """The rows that all workers send back, computed when Spark needs them."""
    slices = _slices(part.division.reach, axis, n_shards) if isinstance(part.division, BySlices) else None
    sent = [_sent(part, frames[source.name], source.columns, source.name) for source in part.tables.sources]
    schemas = [
        pa.schema([frames[source.name].schema.field(i) for i in columns]) for source, columns in zip(part.tables.sources, sent, strict=True)
    ]
    slots = share(schemas)
    many = len(schemas) > 1
    rows: DataFrame | None = None
    for i, (source, columns) in enumerate(zip(part.tables.sources, sent, strict=True)):
        frame = frames[source.name]
        known = frame.data.toDF(*_positions(frame.schema))
        place_of = {slot: columns[k] for k, slot in enumerate(slots.places[i])}
        header = [_where(part.division, frame, source.name, slices, axis, part.plan.contributors).alias(SHARD)]
        if many:
            header.append(F.lit(i).alias(OF))
            values = [
                (F.col(f"c{place_of[slot]}") if slot in place_of else F.lit(None)).cast(spark_type(type_)).alias(f"v{slot}")
                for slot, type_ in enumerate(slots.types)
            ]
        else:
            values = [F.col(f"c{k}") for k in columns]
        mine = known.select(*header, *values)
        rows = mine if rows is None else rows.union(mine)
    assert rows is not None
    rows = _divided(rows, part, slices, shards)
    offset = int(slices is not None) + int(many)
    inputs = tuple(
        [
            Input(source.name, schemas[i], frames[source.name].time, _id(part, frames[source.name]), frames[source.name].unit,
                  tuple([offset + slot for slot in slots.places[i]]) if many else tuple(range(offset, offset + len(schemas[i]))))
            for i, source in enumerate(part.tables.sources)
        ]
    )  # fmt: skip
    task = task_bytes(Task(to_bytes(part.tables), inputs, outputs, types, slices))
    schema = spark_schema(
        outputs[0].schema if outputs[0].tag is None else pa.schema([(OF, pa.int32()), *zip(slot_names(len(types)), types, strict=True)])
    )
    return rows.mapInArrow(_on_worker(task), schema)


def _on_worker(task: bytes) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that travels as it is: it refers to nothing of this package until it runs."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark.worker import run_partition

        return run_partition(task, batches)

    return run


def _positions(schema: pa.Schema) -> list[str]:
    """Columns are known by their places here: Spark takes names that differ only in case for the same."""
    return [f"c{i}" for i in range(len(schema))]


def _id(part: Part, frame: Frame) -> str | None:
    return frame.id if part.plan.contributors else None


def _sent(part: Part, frame: Frame, columns: Sequence[str], stream: str) -> list[int]:
    """The columns that workers need: those the kernel reads, the times, and those that identify an event."""
    names = {*columns, *frame.time}
    if part.plan.contributors:
        names |= set(frame.schema.names) if frame.id is None else {frame.id}
    return [i for i, name in enumerate(frame.schema.names) if name in names]


# -- who gets which rows ---------------------------------------------------------------------------------------------------


def _divided(rows: DataFrame, part: Part, slices: Slices | None, shards: int | None) -> DataFrame:
    if isinstance(part.division, Undivided):
        return rows.drop(SHARD).repartition(1)
    if slices is not None:
        return rows.withColumn(SHARD, F.explode(SHARD)).repartition(slices.n_shards, SHARD)
    assert isinstance(part.division, ByKey)
    if not part.division.columns and not part.plan.contributors:
        return rows.drop(SHARD)  # no row meets another
    divided = rows.repartition(SHARD) if shards is None else rows.repartition(shards, SHARD)
    return divided.drop(SHARD)


def _where(division: object, frame: Frame, stream: str, slices: Slices | None, axis: TimeAxis, contributors: bool) -> Column:
    """Rows with equal values of this go to one worker; for slices, the shards that need the row."""
    end = _column(frame, frame.time[-1])
    if slices is not None:
        return _shards(_shown_time(end, frame.schema.field(frame.time[-1]).type, axis), slices)
    keys = (
        [_key(_column(frame, name), frame.schema.field(name).type) for name in division.columns.get(stream, ())]
        if isinstance(division, ByKey)
        else []
    )
    # A row with a null in its key meets no other, but equal rows must stay together where ids count them.
    anywhere = F.xxhash64(end)
    if not keys:
        return anywhere
    unknown = keys[0].isNull()
    for key in keys[1:]:
        unknown = unknown | key.isNull()
    return F.when(unknown, anywhere).otherwise(F.xxhash64(*keys))


def _column(frame: Frame, name: str) -> Column:
    return F.col(f"c{frame.schema.names.index(name)}")


def _key(column: Column, arrow: pa.DataType) -> Column:
    """A key in the one type that all streams have it in; 0.0 and -0.0 are equal, and have equal hashes here."""
    if pa.types.is_integer(arrow):
        return column.cast("bigint")
    if pa.types.is_floating(arrow):
        return F.when(column == 0.0, F.lit(0.0)).otherwise(column.cast("double"))
    return column


def _slices(reach: int, axis: TimeAxis, n_shards: int) -> Slices:
    """Times shown as days are cut by days."""
    shown = reach // MICROSECONDS["day"] + 1 if pa.types.is_date(axis.arrow) else max(reach, 1)
    return Slices(shown, SLICE_IN_REACHES * shown, n_shards)


def _shown_time(column: Column, arrow: pa.DataType, axis: TimeAxis) -> Column:
    """A time as a number, in the units of the results' times."""
    if pa.types.is_integer(arrow):
        return column.cast("bigint")
    if pa.types.is_date(arrow):
        days = F.unix_date(column).cast("bigint")
        return days if pa.types.is_date(axis.arrow) else days * MICROSECONDS["day"]
    if arrow.tz is None:
        return F.timestamp_diff("MICROSECOND", F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'"), column)
    return F.unix_micros(column)


def _shards(time: Column, slices: Slices) -> Column:
    """The shards of the slice of a time and, if a match with it can end there, of the next. A row without a time goes to the first."""
    at = F.greatest(F.least(time, F.lit(MOST_TICKS)), F.lit(-MOST_TICKS))
    numbers = []
    for tick in (at, at + slices.reach):
        slice_ = F.call_function("div", tick - F.pmod(tick, F.lit(slices.length)), F.lit(slices.length))
        numbers.append(F.coalesce(F.pmod(slice_, F.lit(slices.n_shards)), F.lit(0)).cast("int"))
    return F.array_distinct(F.array(*numbers))
