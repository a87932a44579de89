"""What `make bench-spark` runs: W1 and W2 on Spark in local mode, next to what a user would write there, interleaved in one session.

Wall time, because the work is in several processes. Data is read from Parquet, results are counted by Spark's `noop` sink. Writes
results.json and table.md to out/bench/spark.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import keuka
from keuka.spark import java
from keuka.spark.session import QUERY_SETTINGS
from measure import OUT, Row, take_turns, wall_clock
from peers.spark_rivals import W1_RIVALS, identity, w1_in_pandas, w2_joins
from run import line
from workloads import w1, w2

N_ROWS = int(os.environ.get("KEUKA_BENCH_ROWS", "10000000"))
PARTITION_ROWS = 10 * N_ROWS
PIPELINE_ROWS = 350_000
N_FILES = 8
N_REPETITIONS = 5
N_SHARDS = 4
FOLDER = OUT / "spark"


def main() -> int:
    if "--scaling" in sys.argv:
        print(json.dumps(seconds_on(int(sys.argv[-1]))))
        return 0
    names = [part.__name__ for part in PARTS]
    parser = argparse.ArgumentParser(description="Measure queries on Spark; the exit code is 1 if a promise is broken.")
    parser.add_argument("experiment", nargs="*", help=f"one of {', '.join(names)}; all of them if none is named")
    chosen = parser.parse_args().experiment
    began = time.perf_counter()
    write_inputs()
    spark = session(2)
    rows: list[Row] = []
    for part in [part for part in PARTS if not chosen or part.__name__ in chosen]:
        for row in part(spark):
            rows.append(row)
            print(line(row), flush=True)
    spark.stop()
    (FOLDER / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    (FOLDER / "table.md").write_text("\n".join(["| what | result | promised | holds |", "|---|---|---|---|", *map(line, rows)]) + "\n")
    print(f"\nresults.json and table.md are in {FOLDER}; all of it took {time.perf_counter() - began:.0f} s")
    return 1 if any(row.holds is False for row in rows) else 0


def session(n_cores: int) -> SparkSession:
    java.prepare()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers import the rivals, and Keuka from where the driver has it.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), str(Path(keuka.__file__).parents[1])])
    settings = {
        **QUERY_SETTINGS,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(N_SHARDS),
        "spark.driver.memory": "6g",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{n_cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def write_inputs() -> None:
    write("w1", w1.generate(N_ROWS))
    write("w2", w2.generate(w2.W2, N_ROWS))


def write(name: str, table: pa.Table) -> None:
    """In several files, as data comes."""
    folder = FOLDER / f"{name}.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    n_rows = -(-table.num_rows // N_FILES)
    for i in range(N_FILES):
        pq.write_table(table.slice(i * n_rows, n_rows), folder / f"part-{i}.parquet")


def read(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.parquet(str(Path(FOLDER / f"{name}.parquet").absolute()))


def ours(spark: SparkSession, name: str) -> DataFrame:
    if name == "W1":
        return keuka.on_spark(keuka.cel(w1.QUERY), read(spark, "w1"), time="ts", shards=N_SHARDS)
    return keuka.on_spark(keuka.sase(w2.W2.query), read(spark, "w2"), time="ts", type_column="type", shards=N_SHARDS)


def computed(frame: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: frame().write.format("noop").mode("overwrite").save()


def best(tasks: dict[str, Callable[[], DataFrame]]) -> dict[str, float]:
    """The best time of each: now and then the JVM compiles anew, and whatever runs then takes up to 1.7 times as long."""
    seconds = take_turns({name: computed(frame) for name, frame in tasks.items()}, N_REPETITIONS, wall_clock)
    for name, taken in seconds.items():
        print(f"{name}: {', '.join([f'{one:.2f}' for one in taken])} s", file=sys.stderr, flush=True)
    return {name: min(taken) for name, taken in seconds.items()}


def next_to_pandas(spark: SparkSession) -> list[Row]:
    rivals = {how: partial(w1_in_pandas, read(spark, "w1"), how) for how in W1_RIVALS}
    tasks: dict[str, Callable[[], DataFrame]] = {"keuka": partial(ours, spark, "W1"), **rivals}
    n_matches = same_count("W1", tasks)
    seconds = best(tasks)
    what = f"W1 on Spark, {N_ROWS / 1e6:.0f}M rows, {n_matches:,} matches"
    rate = N_ROWS / seconds["keuka"] / 1e6
    least = {"a loop over rows": 2}
    found = []
    for how in W1_RIVALS:
        times = seconds[how] / seconds["keuka"]
        result = f"{rate:.2f} M rows/s, {times:.1f} times applyInPandas ({how})"
        found.append(promised(what, result, times, least.get(how), seconds))
    return found


def promised(what: str, result: str, times: float, least: float | None, seconds: Mapping[str, float]) -> Row:
    return Row(what, result, "" if least is None else f"{least} times", None if least is None else times >= least, {"seconds": seconds})


def next_to_joins(spark: SparkSession) -> list[Row]:
    joins = w2_joins(spark, read(spark, "w2"))
    slow = joins.pop("plain")  # takes minutes, so it runs once
    began = wall_clock()
    counts = {"plain": slow.count()}
    seconds = {"plain": wall_clock() - began}
    tasks: dict[str, Callable[[], DataFrame]] = {
        "keuka": partial(ours, spark, "W2"),
        **{name: partial(as_it_is, join) for name, join in joins.items()},
    }
    if same_count("W2", tasks) != counts["plain"]:
        raise SystemExit("W2 has another number of matches as a plain join")
    seconds |= best(tasks)
    rows = []
    for name, least in {"plain": 10, "plain, with a bound for B": None, "bucketed": 2}.items():
        times = seconds[name] / seconds["keuka"]
        result = f"{N_ROWS / seconds['keuka'] / 1e6:.2f} M rows/s, {times:.1f} times the self-join ({name})"
        what = f"W2 on Spark, {N_ROWS / 1e6:.0f}M rows, {counts['plain']:,} matches"
        rows.append(promised(what, result, times, least, seconds))
    return rows


def as_it_is(frame: DataFrame) -> DataFrame:
    return frame


def same_count(what: str, tasks: Mapping[str, Callable[[], DataFrame]]) -> int:
    counts = {name: task().count() for name, task in tasks.items()}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"{what} has different numbers of matches: {counts}")
    return counts["keuka"]


def next_to_identity(spark: SparkSession) -> list[Row]:
    return [next_to_identity_of(spark, name) for name in ("W1", "W2")]


def next_to_identity_of(spark: SparkSession, name: str) -> Row:
    n_matches = ours(spark, name).count()

    def without_kernel() -> DataFrame:
        with mock.patch("keuka.spark.jobs._on_worker", identity(n_matches, N_SHARDS)):
            return ours(spark, name)

    seconds = best({"keuka": lambda: ours(spark, name), "identity": without_kernel})
    share = seconds["identity"] / seconds["keuka"]
    return Row(
        f"{name} next to the same job with an identity mapInArrow",
        f"{seconds['keuka']:.1f} s and {seconds['identity']:.1f} s: {share:.0%}",
        "70%",
        share >= 0.7,
        {"seconds": seconds},
    )


def seconds_on(n_cores: int) -> dict[str, float]:
    spark = session(n_cores)
    n_matches = ours(spark, "W2").count()

    def without_kernel() -> DataFrame:
        with mock.patch("keuka.spark.jobs._on_worker", identity(n_matches, N_SHARDS)):
            return ours(spark, "W2")

    return best({"keuka": lambda: ours(spark, "W2"), "identity": without_kernel})


def scaling(_: SparkSession) -> list[Row]:
    """Sessions of their own, because the number of cores is that of a session."""
    seconds = {}
    for n_cores in (1, 2):
        done = subprocess.run([sys.executable, __file__, "--scaling", str(n_cores)], capture_output=True, text=True, check=True)
        seconds[n_cores] = json.loads(done.stdout.splitlines()[-1])
    speed_up = {name: seconds[1][name] / seconds[2][name] for name in ("keuka", "identity")}
    share = speed_up["keuka"] / speed_up["identity"]
    row = Row(
        "W2 from local[1] to local[2]",
        f"{speed_up['keuka']:.2f} times; the identity job {speed_up['identity']:.2f}: {share:.0%} of that",
        "90% of the identity job's",
        share >= 0.9,
        {"seconds": seconds},
    )
    return [row]


def one_partition(spark: SparkSession) -> Iterator[Row]:
    """All rows in one partition: sorted on disk, and held whole as a small partition is."""
    folder = FOLDER / "one_partition.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    table = w1.generate(PARTITION_ROWS // N_FILES).sort_by("volume")  # any order but that of time
    for i in range(N_FILES):
        shifted = table.set_column(0, "ts", pc.add(table["ts"], i * table.num_rows))
        pq.write_table(shifted, folder / f"part-{i}.parquet")

    def sort() -> DataFrame:
        frame = spark.read.parquet(str(folder.absolute()))
        return keuka.on_spark(keuka.cel(w1.QUERY), frame, time="ts", shards=1)

    def hold() -> DataFrame:
        with mock.patch("keuka.spark.jobs._on_worker", holding_all):
            return sort()

    n_matches = sort().count()
    peak = max([peak_bytes(worker) for worker in workers()])
    what = f"W1, {PARTITION_ROWS / 1e6:.0f}M rows in one partition, {n_matches:,} matches"
    yield Row(f"{what}: memory of the worker", f"{peak / 1e6:.0f} MB", "1 GB", peak < 1e9)
    seconds = take_turns({"sorted on disk": computed(sort), "held whole": computed(hold)}, 2, wall_clock)
    rates = {name: PARTITION_ROWS / min(taken) / 1e6 for name, taken in seconds.items()}
    share = rates["sorted on disk"] / rates["held whole"]
    result = f"{rates['sorted on disk']:.2f} M rows/s, {share:.0%} of the {rates['held whole']:.2f} M rows/s when all rows are held"
    yield Row(what, result, "50%", share >= 0.5, {"seconds": seconds})


def holding_all(task: bytes) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keuka.spark import worker

        with mock.patch.object(worker, "HELD_BYTES", 2**60):
            yield from worker.run_partition(task, batches)

    return run


def bounded_pipeline(_: SparkSession) -> Iterator[Row]:
    """A pipeline in a process and a session of its own, as `keuka run` starts it."""
    pq.write_table(w1.generate(PIPELINE_ROWS), FOLDER / "pipeline.parquet")
    reports = [json.loads(subprocess.run([sys.executable, "-c", PIPELINE], **PIPED).stdout.splitlines()[-1]) for _ in range(3)]
    after_start = [sum(steps.values()) - steps["start"] for steps in reports]
    seconds = statistics.median(after_start)
    told = ", ".join([f"{step} {taken:.1f}" for step, taken in reports[after_start.index(seconds)].items()])
    result = f"{seconds:.1f} s after the start of the session ({told} s)"
    yield Row(f"a pipeline over {PIPELINE_ROWS:,} rows", result, "5 s", seconds <= 5, {"steps": reports})


PIPED: Any = {"capture_output": True, "text": True, "check": True, "cwd": FOLDER}
PIPELINE = f"""
import json, keuka
from keuka.pipelines import Input, Queries, Sink
files = [Sink("parquet", path="pipeline_out", mode="overwrite"), Sink("json", of="metrics", path="metrics", mode="overwrite")]
streams = {{"Stock": Input("parquet", path="pipeline.parquet", time="ts")}}
pipeline = keuka.Pipeline(streams=streams, queries=[Queries(text={w1.QUERY!r}, language="cel")], sinks=[*files, Sink("console")])
print(json.dumps(pipeline.run().steps))
"""


def workers() -> list[Path]:
    """The Python workers of this session, as folders of /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes() and os.getsid(int(folder.name)) == os.getsid(0):
                found.append(folder)
    return found


def peak_bytes(process: Path) -> int:
    found = re.search(r"VmHWM:\s*(\d+) kB", (process / "status").read_text())
    return int(found[1]) * 1024 if found else 0


Part = Callable[[SparkSession], Iterable[Row]]
PARTS: tuple[Part, ...] = (next_to_pandas, next_to_joins, next_to_identity, scaling, one_partition, bounded_pipeline)


if __name__ == "__main__":
    sys.exit(main())
