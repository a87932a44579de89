"""One Spark session for all tests: starting one takes longer than most of them. `KEUKA_SPARK_CONNECT` makes it one of Spark Connect."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from keuka.spark import java
from keuka.spark.streaming import STREAMING_SETTINGS

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",  # so that a partition of a test has more than one batch
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    **STREAMING_SETTINGS,
}


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests are divided over processes, those that share the session stay together."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    java.prepare()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]") if os.environ.get("KEUKA_SPARK_CONNECT") else SparkSession.builder.master("local[2]")
    for key, value in {**CONFIGURATION, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
