"""What `make bench-streaming` runs: queries over streaming DataFrames in local mode, next to passes that do everything but match.

Files of equal size arrive one after the other, at all passes in turns, so that a slow minute of the machine is slow for all of them. A
pass has its own copy of the directory, a `noop` sink, and takes a file as soon as it is there. What counts is `triggerExecution` of
Spark's progress. Writes results.json and table.md to out/bench/streaming.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import keuka
from keuka.spark.streaming import STREAMING_SETTINGS
from measure import OUT, Row
from run import line
from run_spark import session, workers
from workloads import w1, w2, waiting

FOLDER = OUT / "streaming"
N_SHARDS = 2  # one for each core
BATCH_ROWS = 1_000_000
N_BATCHES, N_WARM_UP = 10, 3
LATENCY_SECONDS = 60
SOAK_BATCHES = 120


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
    """A streaming query over a directory of its own, which takes so many files at once."""

    spark: SparkSession
    name: str
    schema: str
    make: Callable[[DataFrame], DataFrame]
    files_at_once: int = 1
    numbers: list[dict[str, Any]] = field(default_factory=list)  # of batches, as Spark reports them
    query: StreamingQuery | None = None

    @property
    def folder(self) -> Path:
        return (FOLDER / self.name).absolute()

    def start(self, write: Callable[[DataFrame, int], None] | None = None, every: str | None = None) -> None:
        (self.folder / "in").mkdir(parents=True, exist_ok=True)
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", self.files_at_once)
        writer = self.make(reader.parquet(str(self.folder / "in"))).writeStream
        writer = writer.format("noop") if write is None else writer.foreachBatch(write)
        writer = writer if every is None else writer.trigger(processingTime=every)
        self.query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def take(self, *files: Path) -> dict[str, Any]:
        """Let files arrive, and wait until they were processed: the numbers of their batch."""
        assert self.query is not None
        for file in files:
            os.link(file, self.folder / f".{file.name}")
        # Spark may look between two of them; moved in one go they are one batch almost always, and the others do not count.
        for file in files:
            os.rename(self.folder / f".{file.name}", self.folder / "in" / file.name)
        before = self.numbers[-1]["batchId"] if self.numbers else -1
        while not (new := [p for p in self.reported() if p["batchId"] > before and p["numInputRows"] > 0]):
            if error := self.query.exception():
                raise error
            time.sleep(0.005)
        self.query.processAllAvailable()
        self.numbers += new
        return new[-1]

    def reported(self) -> list[dict[str, Any]]:
        assert self.query is not None
        return [json.loads(progress.json) for progress in self.query.recentProgress[-4:]]

    def stop(self) -> None:
        assert self.query is not None
        self.query.stop()

    def seconds(self) -> list[float]:
        return [numbers["durationMs"]["triggerExecution"] / 1000 for numbers in self.numbers]

    def told(self, name: str) -> list[int]:
        """A number that Keuka observes, by batch."""
        return [numbers["observedMetrics"]["keuka"][name] for numbers in self.numbers]


def in_turns(passes: list[Pass], batches: Iterable[list[Path]]) -> None:
    for one in passes:
        one.start()
    for i, files in enumerate(batches):
        turn = i % len(passes)
        for one in passes[turn:] + passes[:turn]:
            one.take(*files)
    for one in passes:
        one.stop()


def files_of(name: str, table: pa.Table, n_rows: int, n_files: int = 1) -> Iterator[list[Path]]:
    """The files of one batch after the other."""
    folder = FOLDER / f"{name}_files"
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-n_rows // n_files)
    for i, begin in enumerate(range(0, table.num_rows, n_rows)):
        batch = table.slice(begin, n_rows)
        files = []
        for j, first in enumerate(range(0, batch.num_rows, size)):
            files.append(folder / f"{name}-{i:04}-{j}.parquet")  # Spark takes no two files of one name
            pq.write_table(batch.slice(first, size), files[-1])
        yield files


def unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def without_shuffle(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(unchanged, frame.schema)


def with_shuffle(key: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.repartition(N_SHARDS, key).mapInArrow(unchanged, frame.schema)


def matching(query: Any, **options: Any) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: keuka.on_spark(query, frame, shards=N_SHARDS, **options)


def n_bytes_in(folder: Path, known: dict[Path, int]) -> int:
    """The bytes of files that are new, or have grown, since the last look."""
    n_bytes = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # Spark removes old files
            if path.is_file() and not path.name.endswith(".crc"):
                size = path.stat().st_size
                n_bytes += max(0, size - known.get(path, 0))
                known[path] = size
    return n_bytes


# -- experiments -----------------------------------------------------------------------------------------------------------

W1_SCHEMA = "ts BIGINT, name STRING, price DOUBLE, volume BIGINT"
W2_SCHEMA = "ts BIGINT, type STRING, id BIGINT, attr1 BIGINT"
WAITING_SCHEMA = "at BIGINT, name BIGINT, price DOUBLE, ordered BIGINT"


def speed(spark: SparkSession) -> Iterator[Row]:
    """W1 and W2, 1M rows a batch, next to passes without a kernel over the same columns."""
    n_rows = (N_BATCHES + N_WARM_UP) * BATCH_ROWS
    for name, table, schema, find, key in (
        ("W1", w1.generate(n_rows), W1_SCHEMA, matching(keuka.cel(w1.QUERY), time="ts"), "name"),
        ("W2", w2.generate(w2.W2, n_rows), W2_SCHEMA, matching(keuka.sase(w2.W2.query), time="ts", type_column="type"), "attr1"),
    ):
        ways = {"keuka": find, "shuffled": with_shuffle(key), "plain": without_shuffle}
        passes = [Pass(spark, f"{name}_{way}", schema, make, N_SHARDS) for way, make in ways.items()]
        in_turns(passes, files_of(name, table, BATCH_ROWS, N_SHARDS))
        for one in passes:
            print(f"{one.name}: {', '.join([f'{s:.2f}' for s in one.seconds()])} s", file=sys.stderr, flush=True)
        kernel = statistics.median(passes[0].told("kernel_us")[N_WARM_UP:]) / 1e6
        print(f"{name}: {kernel:.2f} s in shards; {passes[0].numbers[-1]['durationMs']}", file=sys.stderr, flush=True)
        medians = [statistics.median(one.seconds()[N_WARM_UP:]) for one in passes]
        share, plain = medians[1] / medians[0], medians[2] / medians[0]
        result = f"{BATCH_ROWS / medians[0] / 1e6:.2f} M rows/s, {share:.0%} of the pass with a shuffle, {plain:.0%} of the one without"
        yield Row(f"{name} streaming, 1M rows a batch", result, "60%", share >= 0.6, {"medians": medians})


def empty_batches(spark: SparkSession) -> Iterator[Row]:
    """Batches of ten rows."""
    one = Pass(spark, "empty", W1_SCHEMA, matching(keuka.cel(w1.QUERY), time="ts"))
    in_turns([one], files_of("empty", w1.generate(10 * (N_BATCHES + N_WARM_UP)), 10))
    seconds = statistics.median(one.seconds()[N_WARM_UP:])
    yield Row("a batch of ten rows", f"{seconds:.2f} s", "1 s", seconds < 1, {"seconds": one.seconds()})


def state(spark: SparkSession) -> Iterator[Row]:
    """Batches that meet partial matches, of which few or many are alive; what is written; and how long it takes to restore them."""
    medians, query = {}, keuka.cel(waiting.QUERY)
    for n_instances in (10_000, 1_000_000):
        n_batches, n_prices = 24, 50_000
        table = waiting.generate(n_instances, n_batches * n_prices)
        one = Pass(spark, f"state_{n_instances}", WAITING_SCHEMA, matching(query, time="at"))
        one.start()
        known: dict[Path, int] = {}
        n_written = n_bytes_in(one.folder / "checkpoint", known)
        orders = files_of(f"orders_{n_instances}", table.slice(0, n_instances), n_instances)
        prices = files_of(f"prices_{n_instances}", table.slice(n_instances, (n_batches - 1) * n_prices), n_prices)
        for files in itertools.chain(orders, prices):
            one.take(*files)
            n_written += n_bytes_in(one.folder / "checkpoint", known)
        one.stop()
        n_received, n_told = sum(one.told("received_bytes")), sum(one.told("written_bytes"))
        snapshot = max(one.told("written_bytes"))  # the batch in which the log was cut wrote most
        medians[n_instances] = statistics.median(one.seconds()[1:])
        allowed = 4 * n_received + snapshot
        result = f"{n_written / 1e6:.1f} MB on disk ({n_told / 1e6:.1f} MB given to Spark) for {n_received / 1e6:.1f} MB received"
        what = f"{n_instances:,} partial matches: written to the checkpoint in {n_batches} batches, the first with all of them"
        promised = f"4 times and a snapshot of {snapshot / 1e6:.0f} MB"
        yield Row(what, result, promised, max(n_written, n_told) <= allowed, {"seconds": one.seconds()})
        # Workers take up the kernels that they still have only for the same task; with another limit all is read from the checkpoint.
        one.make = matching(query, time="at", limits=keuka.Limits(memory="4 GB"))
        one.start()
        (last,) = files_of(f"last_{n_instances}", table.slice(table.num_rows - n_prices), n_prices)
        one.take(*last)
        one.stop()
        n_restored = one.told("restored")[-1]
        yield Row(
            f"{n_instances:,} partial matches: restored by {n_restored} shards",
            f"{one.seconds()[-1]:.1f} s",
            "10 s",
            one.seconds()[-1] < 10,
        )
    few, many = medians.values()
    result = f"{few:.2f} and {many:.2f} s: {many / few:.2f} times"
    yield Row("a batch of 50,000 rows, 10,000 and 1,000,000 partial matches alive", result, "", None, {"medians": medians})


def latency(spark: SparkSession) -> Iterator[Row]:
    """From the arrival of a file to its matches, with files that come at a steady rate."""
    query = keuka.sase("SEQ(S a, S b) WHERE [name] AND a.volume > 19900 AND b.volume > 19900 WITHIN 2 s RETURN b.ts AS at")
    for rate, every, trigger in ((10_000, 0.25, "0 seconds"), (100_000, 0.5, "0 seconds")):
        delays: list[float] = []

        def note(frame: DataFrame, batch: int, delays: list[float] = delays) -> None:
            found = frame.toArrow()["at"].to_numpy()
            delays.extend((time.time() - found / 1e6).tolist())

        one = Pass(spark, f"latency_{rate}", W1_SCHEMA, matching(query, time="ts", unit="us"), 1_000)
        one.start(note, trigger)
        table = w1.generate(int(rate * every))
        began = time.time()
        for i in range(int(LATENCY_SECONDS / every)):
            now = int(time.time() * 1e6)
            path = one.folder / f".{i}.parquet"
            pq.write_table(table.set_column(0, "ts", pa.array(np.full(table.num_rows, now))), path)
            path.rename(one.folder / "in" / f"{i}.parquet")
            if i * every > LATENCY_SECONDS / 3 and i * every <= LATENCY_SECONDS / 3 + every:
                delays.clear()  # Spark has warmed up
            time.sleep(max(0.0, began + (i + 1) * every - time.time()))
        time.sleep(3)
        one.stop()
        middle, most = np.percentile(delays, [50, 99])
        yield Row(f"latency at {rate:,} rows/s, files of {every} s", f"median {middle:.2f} s, 99th percentile {most:.2f} s", "", None)


def soak(spark: SparkSession) -> Iterator[Row]:
    """An hour of stream time in which keys come and go: what is held must not grow."""
    query = keuka.sase("SEQ(S a, S b, S c) WHERE [name] AND a.volume > 19000 AND c.volume > 19900 WITHIN 60 s RETURN a.ts AS at")
    one = Pass(spark, "soak", "ts BIGINT, name BIGINT, price DOUBLE, volume BIGINT", matching(query, time="ts", unit="us"))
    one.start()
    rng = np.random.default_rng(1)
    folder = FOLDER / "soak_files"
    folder.mkdir()
    held, memory = [], []
    for i in range(SOAK_BATCHES):
        n_rows, width = 200_000, 3_600_000_000 // SOAK_BATCHES
        ts = i * width + np.sort(rng.integers(0, width, n_rows))
        name = i * 2_000 + rng.integers(0, 10_000, n_rows)  # a fifth of the keys is new in every batch
        columns = {"ts": ts, "name": name, "price": rng.random(n_rows), "volume": rng.integers(0, 20_000, n_rows)}
        pq.write_table(pa.table(columns), folder / f"{i:04}.parquet")
        one.take(folder / f"{i:04}.parquet")
        held.append(one.told("state_bytes")[-1])
        memory.append(worker_bytes())
    one.stop()
    half = SOAK_BATCHES // 2
    growth = [max(values[-5:]) / max(values[half : half + 5]) for values in (held, memory)]
    result = f"state {held[half] / 1e6:.1f} to {held[-1] / 1e6:.1f} MB, workers {memory[half] / 1e6:.0f} to {memory[-1] / 1e6:.0f} MB"
    numbers = {"held": held, "memory": memory}
    yield Row("an hour of keys that come and go, second half", result, "flat (10%)", all(one < 1.1 for one in growth), numbers)


def worker_bytes() -> int:
    """What the Python workers of this session hold together."""
    n_bytes = 0
    for worker in workers():
        with contextlib.suppress(OSError):
            n_bytes += int((worker / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return n_bytes


PARTS: tuple[Callable[[SparkSession], Iterator[Row]], ...] = (speed, empty_batches, state, latency, soak)


if __name__ == "__main__":
    sys.exit(main())
