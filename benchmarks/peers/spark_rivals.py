"""What a user of Spark would write instead: W1 by `applyInPandas`, W2 by self-joins, and a job that does everything but match.

The function for W1 is vectorised, because a loop over rows would be slower than everything around it: the prices that follow a large
trade fall for a certain number of ticks, and only the tick after the last fall can rise.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from keuka.spark.worker import Task
from peers.duckdb_joins import W2_BUCKETED, W2_PLAIN

W1_SCHEMA = "name string, falls bigint, bottom double, final_price double, start bigint, end bigint"


def rebounds(ticks: pd.DataFrame) -> pd.DataFrame:
    """W1 of one name."""
    ticks = ticks.sort_values("ts")
    price, ts = ticks["price"].to_numpy(), ticks["ts"].to_numpy()
    n = len(price)
    # The number of the last tick of the run of falls that begins after each tick.
    holds = np.append(~(price[1:] < price[:-1]), True)
    last = np.minimum.accumulate(np.where(holds, np.arange(n), n)[::-1])[::-1]
    start = np.flatnonzero(ticks["volume"].to_numpy() > 19800)
    end = last[start] + 1
    start, end = start[(end < n) & (last[start] - start >= 3)], end[(end < n) & (last[start] - start >= 3)]
    rises = price[end] > 1.05 * price[end - 1]
    start, end = start[rises], end[rises]
    columns = {"falls": end - 1 - start, "bottom": price[end - 1], "final_price": price[end], "start": ts[start], "end": ts[end]}
    name = ticks["name"].iloc[0] if n else ""
    return pd.DataFrame({"name": [name] * len(start), **columns})


def w1_in_pandas(ticks: DataFrame) -> DataFrame:
    return ticks.groupBy("name").applyInPandas(rebounds, W1_SCHEMA)


def w2_joins(spark: SparkSession, events: DataFrame) -> dict[str, DataFrame]:
    """The joins of DuckDB, in Spark's words."""
    events.createOrReplaceTempView("events")
    return {
        name: spark.sql(sql.replace("AS MATERIALIZED", "AS").replace("//", "div"))
        for name, sql in (("plain", W2_PLAIN), ("bucketed", W2_BUCKETED))
    }


def identity(n_rows: int, n_partitions: int) -> Callable[[bytes], Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]]:
    """In the kernel's place: takes all rows of a partition, gives as many results as it has matches on average, and computes nothing."""
    share = max(1, n_rows // n_partitions)

    def on_worker(task: bytes) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        loaded: Task = pickle.loads(task)
        schema = loaded.outputs[0].schema

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            n_seen = sum([batch.num_rows for batch in batches])
            if n_seen:
                yield pa.RecordBatch.from_arrays([pa.nulls(share, field.type) for field in schema], schema=schema)

        return run

    return on_worker
