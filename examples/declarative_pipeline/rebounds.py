"""A query as a materialized view of a Spark Declarative Pipeline, which Spark 4.1 and later run. Beside it: spark-pipeline.yml.

    make demo                          # writes the ticks that are read here
    . .venv/bin/activate
    pip install 'pyspark[pipelines]'   # what `spark-pipelines` needs
    cd examples/declarative_pipeline
    spark-pipelines run

The view is then a table of Parquet files in `spark-warehouse/rebounds`. It needs Java; without one of the system's, set JAVA_HOME first:
`export JAVA_HOME=$(python -c 'from keuka.spark import java; java.prepare(); import os; print(os.environ["JAVA_HOME"])')`.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import keuka

ROOT = Path(__file__).resolve().parents[2]

# Here and not in the function below, because Spark lets such a function look at no columns, and a query is checked against them.
ticks = SparkSession.active().read.parquet(f"file://{ROOT / 'out' / 'demo' / 'ticks'}")
found = ticks.transform(keuka.matching(ROOT / "examples" / "rebound.cel", time="Time"))


@dp.materialized_view(comment="A large trade, ten minutes of falling prices, then at once a price 5 % above the bottom")
def rebounds() -> DataFrame:
    return found
