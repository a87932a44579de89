"""Streams on Spark whose process, or whose Python workers, are killed at random moments: no match is lost, and none is there twice.

A pipeline and a streaming query with Spark's own file sink take files one by one. Whoever is killed is started again, until everything
was read; then their sinks must hold what one process finds in the same files.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka

SEED = os.environ.get("SEED", "0")
N_KILLS = int(os.environ.get("KEUKA_STREAM_KILLS", "30"))
N_FILES = 20 + 3 * N_KILLS  # a run that is killed reads one or two, seldom three
FILE_ROWS = 2_000
MOST_COMMITS = 35  # while which workers are killed
MOST_RUNS = 4 * N_KILLS + 20
QUERY = "SEQ(A a, B b, C c) WHERE [k] WITHIN 500 RETURN a.n AS first, b.n AS second, c.n AS third PUBLISH Found"
PIPELINE = f"""
[streams.Events]
format = "parquet"
path = "in"
time = "t"
type_column = "type"
options = {{ maxFilesPerTrigger = 1 }}

[[queries]]
language = "sase"
text = "{QUERY}"

[[sinks]]
format = "parquet"
path = "out"

[run]
mode = "streaming"
checkpoint = "checkpoint"
trigger = "available_now"

[spark]
master = "local[2,4]"
shards = 2
"""
RUN_PIPELINE = "import sys; from keuka.cli import main; sys.exit(main(['run', 'pipeline.toml']))"
RUN_QUERY = f"""
import keuka
from keuka.spark.session import open_session
from keuka.spark.streaming import STREAMING_SETTINGS
spark = open_session("local[2,4]", {{**STREAMING_SETTINGS, "spark.sql.shuffle.partitions": "2"}}, "killed")
events = spark.readStream.schema("t BIGINT, type STRING, k BIGINT, n BIGINT").option("maxFilesPerTrigger", 1).parquet("in")
found = keuka.on_spark(keuka.sase({QUERY!r}), events, time="t", type_column="type", shards=2)
writer = found.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()
print(spark.read.parquet("out").count(), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    rng = random.Random(SEED)
    for i in range(N_FILES):
        n = range(i * FILE_ROWS, (i + 1) * FILE_ROWS)
        types, keys = [rng.choice("ABCD") for _ in n], [rng.randrange(50) for _ in n]
        path = Path("in", f"{i:03}.parquet")
        pq.write_table(pa.table({"t": n, "type": types, "k": pa.array(keys, pa.int64()), "n": n}), path)
        os.utime(path, (1_000 + i, 1_000 + i))
    Path("pipeline.toml").write_text(PIPELINE)
    return tmp_path


def expected(ends: bool) -> list[tuple[int, ...]]:
    """What one process finds. Where the streams do not end, the last tick is not over."""
    events = pq.read_table("in")
    events = events if ends else events.slice(0, events.num_rows - 1)
    return rows_of(keuka.match(keuka.sase(QUERY), events, time="t", type_column="type"))


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    return sorted(zip(*[table[name].to_pylist() for name in ("first", "second", "third")], strict=True))


def start(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def n_commits() -> int:
    return sum([name.isdigit() for name in os.listdir("checkpoint/commits")]) if Path("checkpoint/commits").exists() else 0


def run_until_read(program: str, rng: random.Random, n_kills: int, kill: Callable[[subprocess.Popen[str], random.Random], None]) -> int:
    """Starts the program again and again; how often it was killed before it had read everything."""
    n_killed = 0
    for _ in range(MOST_RUNS):
        process = start(program)
        if n_killed < n_kills:
            wait_for_progress(process, rng)
            if process.poll() is None:
                kill(process, rng)
                n_killed += 1
        told, _ = process.communicate(timeout=300 + N_FILES)
        if process.returncode == 0:
            return n_killed
        assert process.returncode == -signal.SIGKILL, told
    raise AssertionError(f"not everything was read in {MOST_RUNS} runs")


def wait_for_progress(process: subprocess.Popen[str], rng: random.Random) -> None:
    """Until a while after the first micro-batch of this run; sometimes not so long, while Spark starts."""
    before, deadline = n_commits(), time.monotonic() + (rng.uniform(1, 12) if rng.random() < 0.2 else 240)
    while process.poll() is None and n_commits() == before and time.monotonic() < deadline:
        time.sleep(0.02)
    # A run is killed before it has read all files, so that there are many kills.
    time.sleep(rng.uniform(0, 0.6))


def kill_all(process: subprocess.Popen[str], rng: random.Random) -> None:
    """The process alone, whose JVM ends by itself, or all of its processes."""
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if rng.random() < 0.7 else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(ProcessLookupError):  # the next run must not meet what this one still does
        os.killpg(process.pid, signal.SIGKILL)


def kill_workers(process: subprocess.Popen[str], rng: random.Random) -> None:
    """Two of the Python workers while a micro-batch runs, perhaps at the same task: Spark starts a task four times at the most."""
    before = n_commits()
    for _ in range(2):
        time.sleep(rng.uniform(0.1, 0.8))
        workers = workers_of(process.pid)
        if workers and process.poll() is None:
            before = n_commits()
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
    while process.poll() is None and n_commits() == before:
        time.sleep(0.05)


def workers_of(session: int) -> list[int]:
    """The workers that Spark's daemon has forked in this session of processes."""
    found: list[int] = []
    parents: dict[int, tuple[int, bytes]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                parents[int(folder.name)] = int(fields[1]), (folder / "cmdline").read_bytes()
    for process, (parent, command) in parents.items():
        if b"pyspark.daemon" in command and b"pyspark.daemon" in parents.get(parent, (0, b""))[1]:
            found.append(process)
    return found


def test_a_pipeline_may_be_killed_at_any_moment(folder: Path):
    rng = random.Random(f"{SEED} pipeline")
    n_killed = run_until_read(RUN_PIPELINE, rng, N_KILLS, kill_all)
    assert n_killed == N_KILLS
    assert rows_of(pq.read_table("out")) == expected(ends=True), f"SEED={SEED}, {n_killed} kills"


def test_a_query_with_a_file_sink_of_spark_may_be_killed_at_any_moment(folder: Path):
    rng = random.Random(f"{SEED} query")
    n_killed = run_until_read(RUN_QUERY, rng, N_KILLS, kill_all)
    assert n_killed == N_KILLS
    assert rows_by_sink_log() == expected(ends=False), f"SEED={SEED}, {n_killed} kills"


def test_workers_may_be_killed_at_any_moment(folder: Path):
    rng = random.Random(f"{SEED} workers")
    process = start(RUN_PIPELINE)
    wait_for_progress(process, rng)
    while process.poll() is None and n_commits() < MOST_COMMITS:
        kill_workers(process, rng)
    told, _ = process.communicate(timeout=300 + N_FILES)
    assert process.returncode == 0, told
    assert rows_of(pq.read_table("out")) == expected(ends=True), f"SEED={SEED}"


def rows_by_sink_log() -> list[tuple[int, ...]]:
    """What Spark's log of the sink names: files of attempts that failed are no part of it."""
    added: dict[str, None] = {}
    for log in sorted(Path("out/_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.name.partition(".")[0])):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            added.pop(entry["path"], None) if entry["action"] == "delete" else added.setdefault(entry["path"])
    files = [Path(path.removeprefix("file://")) for path in added]
    return rows_of(pa.concat_tables([pq.read_table(file) for file in files]))
