"""What `make bench-streaming` runs: queries over streaming DataFrames in local mode, next to passes that do everything but match.

Files of equal size arrive one after the other, at all passes in turns, so that a slow minute of the machine is slow for all of them. A
pass has its own copy of the directory, a `noop` sink, and takes a file as soon as it is there. What counts is `triggerExecution` of
Spark's progress. Writes results.json and table.md to out/bench/streaming.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import keuka
from keuka.spark.streaming import STREAMING_SETTINGS
from measure import OUT, Row
from run import line
from run_spark import session
from workloads import w1, w2

FOLDER = OUT / "streaming"
N_SHARDS = 4
BATCH_ROWS = 1_000_000
N_BATCHES, N_WARM_UP = 10, 3


def main() -> int:
    names = [part.__name__ for part in PARTS]
    parser = argparse.ArgumentParser(description="Measure queries over streaming DataFrames; the exit code is 1 if a promise is broken.")
    parser.add_argument("experiment", nargs="*", help=f"one of {', '.join(names)}; all of them if none is named")
    chosen = parser.parse_args().experiment
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    spark = session(2)
    for name, value in {**STREAMING_SETTINGS, "spark.sql.shuffle.partitions": str(N_SHARDS)}.items():
        spark.conf.set(name, value)
    rows: list[Row] = []
    for part in [part for part in PARTS if not chosen or part.__name__ in chosen]:
        for row in part(spark):
            rows.append(row)
            print(line(row), flush=True)
    spark.stop()
    (FOLDER / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (FOLDER / "table.md").write_text("\n".join(["| what | result | promised | holds |", "|---|---|---|---|", *map(line, rows)]) + "\n")
    return 1 if any(row.holds is False for row in rows) else 0


# -- passes over files that arrive -----------------------------------------------------------------------------------------


@dataclass
class Pass:
    """A streaming query over a directory of its own."""

    spark: SparkSession
    name: str
    schema: Any
    make: Callable[[DataFrame], DataFrame]
    numbers: list[dict[str, Any]] = field(default_factory=list)  # of batches, as Spark reports them
    query: StreamingQuery | None = None

    @property
    def folder(self) -> Path:
        return (FOLDER / self.name).absolute()

    def start(self) -> None:
        (self.folder / "in").mkdir(parents=True, exist_ok=True)
        arriving = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        writer = self.make(arriving).writeStream.format("noop").option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = writer.start()
        self.query.processAllAvailable()

    def take(self, file: Path) -> dict[str, Any]:
        """Let a file arrive, and wait until it was processed: the numbers of its batch."""
        assert self.query is not None
        os.link(file, self.folder / "in" / file.name)
        self.query.processAllAvailable()
        while True:
            progress = [p for p in self.query.recentProgress if p.numInputRows > 0]
            if len(progress) > len(self.numbers) % 100 or (progress and progress[-1].batchId > self._last_batch):
                break
            time.sleep(0.01)
        numbers: dict[str, Any] = json.loads(progress[-1].json)
        self.numbers.append(numbers)
        return numbers

    @property
    def _last_batch(self) -> int:
        return self.numbers[-1]["batchId"] if self.numbers else -1

    def stop(self) -> None:
        assert self.query is not None
        self.query.stop()

    def seconds(self) -> list[float]:
        return [numbers["durationMs"]["triggerExecution"] / 1000 for numbers in self.numbers]

    def told(self, name: str) -> list[int]:
        """A number that Keuka observes, by batch."""
        return [numbers["observedMetrics"]["keuka"][name] for numbers in self.numbers]


def in_turns(passes: list[Pass], files: Iterable[Path]) -> None:
    for one in passes:
        one.start()
    for i, file in enumerate(files):
        for one in passes[i % len(passes) :] + passes[: i % len(passes)]:
            one.take(file)
    for one in passes:
        one.stop()


def files_of(name: str, table: pa.Table, n_rows: int) -> Iterator[Path]:
    folder = FOLDER / f"{name}_files"
    folder.mkdir(parents=True, exist_ok=True)
    for i, begin in enumerate(range(0, table.num_rows, n_rows)):
        path = folder / f"{i:04}.parquet"
        pq.write_table(table.slice(begin, n_rows), path)
        yield path


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def without_shuffle(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(unchanged, frame.schema)


def with_shuffle(key: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.repartition(N_SHARDS, key).mapInArrow(unchanged, frame.schema)


# -- experiments -----------------------------------------------------------------------------------------------------------


def speed(spark: SparkSession) -> Iterator[Row]:
    """W1 and W2, 1M rows a batch, next to passes without a kernel over the columns and rows that the query needs."""
    for name, table, query, options, key in (
        ("W1", w1.generate((N_BATCHES + N_WARM_UP) * BATCH_ROWS), keuka.cel(w1.QUERY), {}, "name"),
        ("W2", w2.generate(w2.W2, (N_BATCHES + N_WARM_UP) * BATCH_ROWS), keuka.sase(w2.W2.query), {"type_column": "type"}, "attr1"),
    ):
        schema = spark.createDataFrame(table.slice(0, 1).to_pandas()).schema

        def ours(frame: DataFrame, query: Any = query, options: Any = options) -> DataFrame:
            return keuka.on_spark(query, frame, time="ts", shards=N_SHARDS, **options)

        passes = [
            Pass(spark, f"{name}_keuka", schema, ours),
            Pass(spark, f"{name}_shuffled", schema, with_shuffle(key)),
            Pass(spark, f"{name}_plain", schema, without_shuffle),
        ]
        in_turns(passes, files_of(name, table, BATCH_ROWS))
        medians = [statistics.median(one.seconds()[N_WARM_UP:]) for one in passes]
        print(f"{name}: " + "; ".join([" ".join([f"{s:.2f}" for s in one.seconds()]) for one in passes]), file=sys.stderr)
        print(f"{name}: kernel_us {passes[0].told('kernel_us')}", passes[0].numbers[-1]["durationMs"], file=sys.stderr)
        share, plain = medians[1] / medians[0], medians[2] / medians[0]
        result = f"{BATCH_ROWS / medians[0] / 1e6:.2f} M rows/s, {share:.0%} of the pass with a shuffle, {plain:.0%} of the one without"
        yield Row(f"{name} streaming, 1M rows a batch", result, "60%", share >= 0.6, {"medians": medians})


PARTS: tuple[Callable[[SparkSession], Iterator[Row]], ...] = (speed,)


if __name__ == "__main__":
    sys.exit(main())
