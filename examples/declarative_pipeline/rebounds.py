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
from pyspark.sql.types import StructType

import keuka

ROOT = Path(__file__).resolve().parents[2]
TICKS = StructType().add("Time", "timestamp_ntz").add("Name", "string").add("Price", "double").add("Volume", "long")


@dp.materialized_view
def ticks() -> DataFrame:
    return SparkSession.active().read.parquet(f"file://{ROOT / 'out' / 'demo' / 'ticks'}")


@dp.materialized_view(comment="A large trade, ten minutes of falling prices, then at once a price 5 % above the bottom")
def rebounds() -> DataFrame:
    # `to` says which columns there are: in a function like this, Spark itself does not tell, and a query is checked against them.
    stock = SparkSession.active().read.table("ticks").to(TICKS)
    return stock.transform(keuka.matching(ROOT / "examples" / "rebound.cel", time="Time"))
