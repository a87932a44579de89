"""Pipelines killed by SIGKILL at random moments: sinks are complete or absent, and the next run leaves nothing behind.

`make test-kill` takes a fresh SEED; KEUKA_KILLS and KEUKA_SPARK_KILLS say how many runs are killed. Every second one has
process id 1, as in a container. Kills at every single step are in tests/pipeline/test_publishing.py.
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
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import keuka
from keuka.spark import java

SEED = os.environ.get("SEED", "0")
N_EMBEDDED, N_SPARK = int(os.environ.get("KEUKA_KILLS", "30")), int(os.environ.get("KEUKA_SPARK_KILLS", "10"))
N_ROWS = 20_000
PIPELINE = """
[streams.Ticks]
format = "csv"
path = "ticks.csv"
time = "t"

[[queries]]
text = "SELECT n, :version AS version FROM Ticks PUBLISH All"
params = { version = %d }

[[sinks]]
of = "All"
format = "parquet"
path = "replaced"
mode = "overwrite"

[[sinks]]
of = "All"
format = "json"
path = "new"

[[sinks]]
of = "All"
format = "parquet"
path = "added"
mode = "append"

[spark]
master = "local[2]"
shards = 2
"""
BEFORE = {"replaced": [1], "new": None, "added": [1]}
COUNTED = {"replaced": [2], "new": [2], "added": [1, 2]}
AFTER = {"replaced": [3], "new": [3], "added": [1, 3]}
NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child"]
RUN = "from keuka.cli import run; run()"
SAME_ID = f"import os; os.getpid = lambda: 1; {RUN}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the sinks are there from a run of version 1."""
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(pa.table({"t": range(N_ROWS), "n": range(N_ROWS)}), "ticks.csv")
    for path in ("replaced", "added"):
        Path(path).mkdir()
        Path(path, ".keuka").touch()
        pa.parquet.write_table(pa.table({"n": range(N_ROWS), "version": [1] * N_ROWS}), f"{path}/part-0.parquet")
    return tmp_path


def versions(path: Path) -> list[int] | None:
    """The runs whose rows a reader finds: each of them whole, and none twice."""
    if not path.exists():
        return None
    if path.name == "new":
        files = [file for file in path.iterdir() if not file.name.startswith((".", "_"))]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    else:
        rows = pa.parquet.read_table(path).to_pylist()
    assert set(Counter([(row["version"], row["n"]) for row in rows]).values()) <= {1}, "rows are doubled"
    assert set(Counter([row["version"] for row in rows]).values()) <= {N_ROWS}, "rows are missing"
    return sorted({row["version"] for row in rows})


def state(folder: Path) -> dict[str, list[int] | None]:
    return {path: versions(folder / path) for path in BEFORE}


def can_isolate() -> bool:
    """May this user make a PID namespace, in which a run is really process 1?"""
    with contextlib.suppress(OSError):
        return subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
    return False


def start(same_id: bool, *options: str) -> subprocess.Popen[bytes]:
    """A run of version 2. Where no namespace can be made, the run is told that its process id is 1."""
    Path("pipeline.toml").write_text(PIPELINE % 2)
    isolated = same_id and can_isolate()
    program = SAME_ID if same_id and not isolated else RUN
    command = [*(NAMESPACE if isolated else []), sys.executable, "-c", program, "run", "pipeline.toml", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not any(folder.glob(pattern)):
        time.sleep(0.0005)


def kill(process: subprocess.Popen[bytes], folder: Path, rng: random.Random, seconds: float) -> str:
    """Kills the run somewhere, while it writes, or while its sinks become visible; with all its processes, or its first alone."""
    moment = rng.choice(["somewhere", "writing", "publishing"])
    if moment == "somewhere":
        time.sleep(rng.uniform(0, seconds))
    else:
        wait_for(folder, ".*.part" if moment == "writing" else ".*.part/journal*", process)
        time.sleep(rng.uniform(0, seconds / 4) if moment == "writing" else rng.expovariate(300))
    with contextlib.suppress(ProcessLookupError):  # the run has ended
        (os.killpg if rng.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    return moment


def check(folder: Path, next_run: Callable[[], object], told: str) -> None:
    found = state(folder)
    for path, versions_ in found.items():
        assert versions_ in (BEFORE[path], COUNTED[path], None), (told, found)
    Path("pipeline.toml").write_text(PIPELINE % 3)
    refused = None
    try:
        next_run()
    except keuka.PipelineError as error:
        refused = error.code
    expected = AFTER
    if refused is not None:  # the killed run counts, so that its sink without `mode` exists
        assert (refused, found) == ("K606", COUNTED), told
        expected = COUNTED
    assert state(folder) == expected, told
    assert sorted(path.name for path in folder.iterdir()) == ["added", "new", "pipeline.toml", "replaced", "ticks.csv"], told
    assert all(not path.name.endswith(".part") for path in folder.rglob("*")), told


@pytest.mark.parametrize("i", range(N_EMBEDDED))
def test_an_embedded_run_may_be_killed_at_any_moment(folder, i):
    rng = random.Random(f"{SEED} embedded {i}")
    process = start(i % 2 == 0, "--embedded")
    moment = kill(process, folder, rng, 2.0)
    check(folder, lambda: keuka.Pipeline.from_file("pipeline.toml").run(embedded=True), f"SEED={SEED}, run {i}, killed {moment}")


@pytest.fixture(scope="module")
def spark() -> Iterator[object]:
    """The session of the next runs: in one that is warm they are quick enough to meet what the killed run still does."""
    from pyspark.sql import SparkSession

    java.prepare()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.parametrize("i", range(N_SPARK))
def test_a_run_on_spark_may_be_killed_at_any_moment(folder, spark, i):
    rng = random.Random(f"{SEED} Spark {i}")
    process = start(i % 2 == 0)
    moment = kill(process, folder, rng, 20.0)
    check(folder, lambda: keuka.Pipeline.from_file("pipeline.toml").run(), f"SEED={SEED}, run {i}, killed {moment}")
