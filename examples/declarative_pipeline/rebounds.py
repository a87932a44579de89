"""A query as a materialized view of a Spark Declarative Pipeline, which Spark 4.1 and later run. Beside it: spark-pipeline.yml.

    make demo                          # writes the ticks that are read here
    . .venv/bin/activate
    pip install 'pyspark[pipelines]'   # what `spark-pipelines` needs
    cd examples/declarative_pipeline
    spark-pipelines run

The views are then tables of Parquet files in `spark-warehouse`. It needs Java; without one of the system's, set JAVA_HOME first:
`export JAVA_HOME=$(python -c 'from keuka.spark import java; java.prepare(); import os; print(os.environ["JAVA_HOME"])')`.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import keuka

ROOT = Path(__file__).resolve().parents[2]
TICKS = "Time TIMESTAMP_NTZ, Name STRING, Price DOUBLE, Volume BIGINT"


@dp.materialized_view
def ticks() -> DataFrame:
    return SparkSession.active().read.parquet(f"file://{ROOT / 'out' / 'demo' / 'ticks'}")


@dp.materialized_view(comment="A large trade, ten minutes of falling prices, then at once a price 5 % above the bottom")
def rebounds() -> DataFrame:
    # A query is checked against the columns, which Spark tells nobody inside a function like this.
    stock = SparkSession.active().read.table("ticks")
    return stock.transform(keuka.matching(ROOT / "examples" / "rebound.cel", time="Time", schema=TICKS))
