"""Queries inside the functions of Spark Declarative Pipelines, where Spark answers no questions about columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka
from keuka.spark import java

SPEC = """
name: rises
storage: file://{folder}/storage
libraries:
  - glob:
      include: definitions.py
"""
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import keuka

QUERY = {query!r}
spark = SparkSession.active()

@dp.materialized_view
def ticks():
    return spark.read.parquet("file://{folder}/ticks.parquet")

@dp.materialized_view
def rises():
    return spark.read.table("ticks").transform(keuka.matching(QUERY, time="t", schema={schema!r}))
"""
RISES = "SELECT name, price_1 AS low, price AS high FROM Stock NEXT {$2.name = $1.name AND $2.price > $1.price} Stock"
TICKS = pa.table({"t": range(1, 7), "name": ["a", "b"] * 3, "price": [1, 5, 2, 4, 1, 6], "unread": ["x"] * 6})


def spark_pipelines(folder: Path, command: str, schema: str | None) -> subprocess.CompletedProcess[str]:
    (folder / "spark-pipeline.yml").write_text(SPEC.format(folder=folder))
    (folder / "definitions.py").write_text(DEFINITIONS.format(folder=folder, query=RISES, schema=schema))
    pq.write_table(TICKS, folder / "ticks.parquet")
    program = Path(sys.executable).with_name("spark-pipelines")
    return subprocess.run([program, command], capture_output=True, text=True, timeout=300, cwd=folder)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    java.prepare()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_TESTING", "0")  # any value lets the server choose a free port; only 1 makes it look for Spark's sources


def test_a_query_is_a_view_over_another_view_of_the_pipeline(tmp_path: Path):
    # The price is declared as what it is not: it becomes that.
    done = spark_pipelines(tmp_path, "run", "t BIGINT, name STRING, price DOUBLE")
    assert done.returncode == 0, done.stderr
    assert "ATTEMPT_ANALYSIS" not in done.stderr
    found = pq.read_table(tmp_path / "spark-warehouse" / "rises")
    expected = keuka.match(RISES, TICKS.set_column(2, "price", TICKS["price"].cast(pa.float64())), time="t")
    assert found.schema.names == expected.schema.names
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert found.num_rows == 3


def test_without_declared_columns_one_is_told_to_declare_them(tmp_path: Path):
    done = spark_pipelines(tmp_path, "dry-run", None)
    assert done.returncode != 0
    assert "error[K512]: Spark lets nobody look at columns inside a function of a Declarative Pipeline" in done.stdout + done.stderr
