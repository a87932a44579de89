"""Many small cases in one job: rows of many results share columns, as those of many outputs do on their way from a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from keuka.spark.schemas import arrow_schema, spark_type
from keuka.spark.worker import share

CASE = "case"


def collected(frames: Sequence[DataFrame]) -> list[pa.Table]:
    """What each frame holds, computed in one job."""
    whole, unpack = in_slots(frames)
    return unpack(whole)


def in_slots(frames: Sequence[DataFrame]) -> tuple[DataFrame, Callable[[DataFrame], list[pa.Table]]]:
    """The rows of all frames as those of one, and a function that computes them and gives each frame its own."""
    schemas = [arrow_schema("result", frame.schema) for frame in frames]
    slots = share(schemas)
    whole: DataFrame | None = None
    for number, (frame, places) in enumerate(zip(frames, slots.places, strict=True)):
        named = frame.toDF(*[f"c{i}" for i in range(len(places))])
        place = {slot: i for i, slot in enumerate(places)}
        values = [
            (sf.col(f"c{place[slot]}") if slot in place else sf.lit(None)).cast(spark_type(arrow)).alias(f"v{slot}")
            for slot, arrow in enumerate(slots.types)
        ]
        mine = named.select(sf.lit(number).alias(CASE), *values)
        whole = mine if whole is None else whole.union(mine)
    assert whole is not None

    def unpack(computed: DataFrame) -> list[pa.Table]:
        rows = computed.toArrow()
        numbers = rows[CASE].to_numpy()
        found = []
        for number, (schema, places) in enumerate(zip(schemas, slots.places, strict=True)):
            mine_ = rows.filter(pa.array(numbers == number))
            columns = [mine_[f"v{slot}"].cast(arrow) for slot, arrow in zip(places, schema.types, strict=True)]
            found.append(pa.Table.from_arrays(columns, schema=schema))
        return found

    return whole, unpack


def bag(table: pa.Table) -> list[Any]:
    """The rows of a result, which have no order on Spark; NaN is equal to itself here."""
    return sorted([repr(row) for row in zip(*[column.to_pylist() for column in table.columns], strict=True)])
