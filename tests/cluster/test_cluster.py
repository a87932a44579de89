"""A real cluster on this machine: a master and two workers, whose executors have Keuka only from an archive (`make test-cluster`)."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

import keuka
from keuka.cli import main
from keuka.spark import java
from keuka.spark.probe import missing_on_executors, require_on_executors
from keuka.spark.session import open_session

QUERY = "SELECT n_1 AS low, n AS high FROM S NEXT {$2.k = $1.k AND $2.n > $1.n} S"
N_WORKERS = 2


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster. It is stopped whatever happens; if this process is killed, the kernel of the system stops it."""
    java.prepare()
    folder = tmp_path_factory.mktemp("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    started = [start(folder / "master.log", "org.apache.spark.deploy.master.Master", *place, "--port", str(port))]
    try:
        wait_for(folder / "master.log", "I have been elected leader", 1, started)
        for number in range(N_WORKERS):
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}")]
            started.append(start(folder / f"worker-{number}.log", "org.apache.spark.deploy.worker.Worker", *place, *work, address))
        wait_for(folder / "master.log", "Registering worker", N_WORKERS, started)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def start(log: Path, *command: str) -> subprocess.Popen[bytes]:
    # Executors inherit the environment of their worker: nothing of this process's Python may be in it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "LOG4J"))}
    program = os.path.join(_find_spark_home(), "bin", "spark-class")
    with log.open("wb") as file:
        return subprocess.Popen(
            [program, *command], stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=log.parent, preexec_fn=end_with_parent
        )


def end_with_parent() -> None:
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def wait_for(log: Path, text: str, n_times: int, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 60
    while log.read_text(errors="replace").count(text) < n_times:
        alive = all(process.poll() is None for process in processes)
        assert alive, f"the cluster did not start:\n{log.read_text(errors='replace')}"
        assert time.monotonic() < deadline, f"nothing was heard of the cluster:\n{log.read_text(errors='replace')}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    assert main(["pack", str(path)]) == 0
    return path


@pytest.fixture
def session(master: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SparkSession]]:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    opened: list[SparkSession] = []

    def open_on_cluster(**conf: str) -> SparkSession:
        own = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "4"}
        opened.append(open_session(master, own | {name.replace("_", "."): value for name, value in conf.items()}, "test"))
        return opened[-1]

    yield open_on_cluster
    for spark in opened:
        spark.stop()


def test_executors_run_queries_with_keuka_from_the_archive(session: Callable[..., SparkSession], archive: Path):
    spark = session(spark_archives=f"{archive}#environment", spark_pyspark_python="./environment/bin/python")
    require_on_executors(spark)

    events = spark.range(0, 2000, 1, 4).selectExpr("id AS t", "id % 10 AS k", "id * 7 % 90 AS n")
    rows = keuka.on_spark(QUERY, events, time="t").collect()
    expected = keuka.match(QUERY, [{"t": t, "k": t % 10, "n": t * 7 % 90} for t in range(2000)], time="t").to_pylist()
    assert sorted([(row.low, row.high) for row in rows]) == sorted([(row["low"], row["high"]) for row in expected])

    def say_place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import keuka

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"module": [keuka.__file__], "folder": [os.getcwd()]})

    places = spark.range(0, 8, 1, 8).mapInArrow(say_place, "module string, folder string").distinct().collect()
    assert all("/environment/" in place.module for place in places)
    assert len({place.folder for place in places}) == N_WORKERS


def test_a_pipeline_runs_on_the_cluster_as_it_does_in_one_process(
    master: str, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    folder = tmp_path / "demo"
    assert main(["new", str(folder)]) == 0
    file = folder / "pipeline.toml"
    assert main(["run", str(file), "--embedded"]) == 0
    expected = rebounds(folder)
    conf = {
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
    }
    with file.open("a") as end:
        end.write("\n[spark.conf]\n" + "".join([f'"{key}" = "{value}"\n' for key, value in conf.items()]))
    capsys.readouterr()
    assert main(["run", str(file), "--master", master]) == 0
    assert "Unpaid: 3 matches" in capsys.readouterr().out
    assert rebounds(folder) == expected
    assert len(expected) > 0


def rebounds(folder: Path) -> list[str]:
    return sorted(map(str, pq.read_table(folder / "out" / "rebound").to_pylist()))


def test_executors_without_keuka_are_one_clear_error(session: Callable[..., SparkSession], tmp_path: Path):
    spark = session(spark_pyspark_python=str(python_with(tmp_path, "pyarrow", "numpy", "numpy.libs")))
    with pytest.raises(keuka.KeukaError, match="K555") as raised:
        require_on_executors(spark)
    assert "ModuleNotFoundError: No module named 'keuka'" in str(raised.value)
    assert "keuka pack" in str(raised.value)


def test_executors_without_anything_are_one_clear_error_too(session: Callable[..., SparkSession], tmp_path: Path):
    spark = session(spark_pyspark_python=str(python_with(tmp_path)))
    assert missing_on_executors(spark) == "ModuleNotFoundError: No module named 'pyarrow'"


def test_a_python_that_is_not_there_is_named(session: Callable[..., SparkSession]):
    spark = session(spark_pyspark_python="./elsewhere/bin/python")
    assert 'Cannot run program "./elsewhere/bin/python"' in str(missing_on_executors(spark))


def python_with(folder: Path, *packages: str) -> Path:
    """A Python of the same version that has these packages of ours and no others."""
    venv.create(folder / "python", symlinks=True)
    site = next(Path(path) for path in sys.path if (Path(path) / "pyarrow").exists())
    for package in packages:
        (target,) = (folder / "python" / "lib").glob("python*/site-packages")
        (target / package).symlink_to(site / package)
    return folder / "python" / "bin" / "python"
