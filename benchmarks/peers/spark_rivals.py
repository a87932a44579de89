"""What a user of Spark would write instead: W1 by `applyInPandas`, W2 by self-joins, and a job that does everything but match."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from keuka.spark.worker import Task
from peers.duckdb_joins import W2_BUCKETED, W2_PLAIN
from workloads.w2 import WINDOW

W1_SCHEMA = "name string, falls bigint, bottom double, final_price double, start bigint, end bigint"


def rebounds_by_rows(ticks: pd.DataFrame) -> pd.DataFrame:
    """W1 of one name as a loop over the rows of its frame, which is how most people write it."""
    ticks = ticks.sort_values("ts")
    return rebounds(ticks, ticks[["ts", "price", "volume"]].itertuples(index=False))


def rebounds_by_lists(ticks: pd.DataFrame) -> pd.DataFrame:
    """The same loop for those who know that lists of Python's numbers are faster to go through."""
    ticks = ticks.sort_values("ts")
    return rebounds(ticks, zip(ticks["ts"].tolist(), ticks["price"].tolist(), ticks["volume"].tolist(), strict=True))


def rebounds(ticks: pd.DataFrame, rows: Iterable[tuple[int, float, int]]) -> pd.DataFrame:
    """As W1 is told: every large trade begins a run of falls, which ends with the first price that does not fall."""
    found: list[tuple[int, float, float, int, int]] = []
    runs: list[list[int]] = []  # start, and how many falls since
    last = math.nan
    for ts, price, volume in rows:
        if price < last:
            for run in runs:
                run[1] += 1
        else:
            found += [(falls, last, price, start, ts) for start, falls in runs if falls >= 3 and price > 1.05 * last]
            runs.clear()
        if volume > 19800:
            runs.append([ts, 0])
        last = price
    table = pd.DataFrame(found, columns=["falls", "bottom", "final_price", "start", "end"])
    table.insert(0, "name", pd.Series([ticks["name"].iloc[0]] * len(found), dtype=object))
    return table.astype({"falls": "int64", "bottom": "float64", "final_price": "float64", "start": "int64", "end": "int64"})


def rebounds_at_once(ticks: pd.DataFrame) -> pd.DataFrame:
    """The same without a loop: falls after a trade go on to a certain tick, and only the one after it can rise."""
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
    return pd.DataFrame({"name": ticks["name"].to_numpy()[start], **columns})


W1_RIVALS = {"a loop over rows": rebounds_by_rows, "a loop over lists": rebounds_by_lists, "vectorised": rebounds_at_once}


def w1_in_pandas(ticks: DataFrame, how: str) -> DataFrame:
    return ticks.groupBy("name").applyInPandas(W1_RIVALS[how], W1_SCHEMA)


# As the query is told: nobody says how far B may be from A.
W2_AS_TOLD = f"""
SELECT a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, a.id AS a_id, b.id AS b_id, c.id AS c_id, a.attr1
FROM events a
JOIN events b ON b.attr1 = a.attr1 AND b.ts > a.ts
JOIN events c ON c.attr1 = a.attr1 AND c.ts > b.ts AND c.ts - a.ts <= {WINDOW}
WHERE a.type = 'A' AND b.type = 'B' AND c.type = 'C'
"""
W2_JOINS = {"plain": W2_AS_TOLD, "plain, with a bound for B": W2_PLAIN, "bucketed": W2_BUCKETED}


def w2_joins(spark: SparkSession, events: DataFrame) -> dict[str, DataFrame]:
    """The joins of DuckDB, in Spark's words."""
    events.createOrReplaceTempView("events")
    return {name: spark.sql(sql.replace("AS MATERIALIZED", "AS").replace("//", "div")) for name, sql in W2_JOINS.items()}


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
