"""One Spark session for all tests: starting one takes longer than most of them. `KEUKA_SPARK_CONNECT` makes it one of Spark Connect."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",  # so that a partition of a test has more than one batch
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]") if os.environ.get("KEUKA_SPARK_CONNECT") else SparkSession.builder.master("local[2]")
    for key, value in CONFIGURATION.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
