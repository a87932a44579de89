"""The question whether executors have Keuka, asked over Spark Connect. On a cluster that lacks it: tests/cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from keuka.spark import java, probe
from keuka.spark.session import reason_of

PROGRAM = """
from unittest import mock

from pyspark.sql import SparkSession

from keuka import KeukaError
from keuka.spark import probe

spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
probe.require_on_executors(spark)
with mock.patch.object(probe, "version", return_value="0.0.1"):
    print(probe.missing_on_executors(spark))
    probe.require_on_executors(spark)  # is not asked again
    try:
        probe.require_on_executors(spark.newSession())
    except KeukaError as error:
        print(error.code)
spark.stop()
"""


def test_executors_behind_spark_connect_are_asked_once_for_each_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    java.prepare()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_TESTING", "0")  # any value lets the server choose a free port; only 1 makes it look for Spark's sources
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    reason, code = done.stdout.splitlines()
    assert reason.endswith("is there, 0.0.1 is here")
    assert code == "K555"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("An error occurred while calling o1.collect.\n: java.io.IOException: full\n\tat a.b(C.java:1)", "java.io.IOException: full"),
        (
            ": org.apache.spark.SparkException: Job aborted: Lost task 0.0 in stage 2.0 (TID 4) (h executor 1): java.io.IOException: x",
            "java.io.IOException: x",
        ),
        (
            '[PYTHON_EXCEPTION] Worker: Traceback (most recent call last):\n  File "a.py"\nModuleNotFoundError: no x\n SQLSTATE: 38000\n'
            "JVM stacktrace:\norg.apache.spark.SparkException: y",
            "ModuleNotFoundError: no x",
        ),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_of_an_error_of_spark_is_one_line(text: str, reason: str):
    assert reason_of(RuntimeError(text)) == reason


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[*]", True), ("local[2,4]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)]
)
def test_only_executors_that_are_other_processes_are_asked(master: str, local: bool):
    spark = mock.MagicMock(spec=["sparkContext"])
    spark.sparkContext.master = master
    assert probe.is_local(spark) is local
