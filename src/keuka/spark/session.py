"""Sessions of Spark that Keuka opens by itself (`keuka run`): a master and settings come in, a quiet SparkSession goes out."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from keuka.errors import data_error
from keuka.spark import java, no_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What holds unless the user's settings, or Spark's own configuration, say otherwise. Rows cross into Python in batches of so many, however
# many bytes that is: with a limit Spark sums up the sizes of all columns after every single row, which took a third of W1's time.
QUERY_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
# These can be set only where the session brings a JVM of its own, not over Spark Connect.
PROCESS_SETTINGS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
# What Java says of the modules that Spark asks for, and Spark's Python of each start of a stateful function.
NOISE = (
    b"WARNING: Using incubator modules",
    b"Warning: Java versions > Java 11",  # of the library that counts frequent types
    b"Starting Streaming TransformWithState",
    b"Streaming TransformWithState",
)
LOGGING = Path(__file__).with_name("quiet.properties")


def open_session(master: str | None, conf: Mapping[str, str], app: str) -> SparkSession:
    """A session on `master`: `local[*]` if neither this nor Spark's own configuration names one; `sc://...` for Spark Connect."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise no_pyspark(error) from error
    builder = SparkSession.builder.appName(app)
    if master is not None and master.startswith("sc://"):
        settings: Mapping[str, str] = {}
        builder = builder.remote(master)
    else:
        settings = PROCESS_SETTINGS
        _prepare_processes(conf)
        builder = builder if master is None else builder.master(master)
    try:
        with _without_noise():
            session = builder.config(map={**settings, **conf}).getOrCreate()
        said = {} if is_connect(session) else dict(session.sparkContext.getConf().getAll())
        for name, value in QUERY_SETTINGS.items():
            if name not in said and name not in conf:
                session.conf.set(name, value)
        return session
    except Exception as error:
        wanted = "" if master is None else f" on `{master}`"
        more = "if Spark has written more, it stands above this message; `spark.log.level=INFO` lets it write everything"
        raise data_error("K554", f"Spark did not start{wanted}", more, where=reason_of(error)) from error


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """A JVM that starts here writes to standard error through a filter, as long as both processes live."""
    original = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)

    def forward() -> None:
        with open(reading, "rb") as lines, open(original, "wb", buffering=0) as out:
            is_noise = False
            for line in lines:
                is_noise = line.startswith(NOISE) or (is_noise and not line.strip())  # an empty line belongs to the one before
                if not is_noise:
                    out.write(line)

    threading.Thread(target=forward, daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)


def is_connect(spark: SparkSession) -> bool:
    return hasattr(spark, "session_id")


def reason_of(error: Exception) -> str:
    """The one line of an error of Spark's that says why: what Python raised last, or what Java's first exception says."""
    text = re.split("JVM stacktrace:|=== Streaming Query ===", str(error))[0]
    raised: list[str] = re.findall(r"^[\w.]+: .*", text.partition("Traceback (most recent call last)")[2], re.MULTILINE)
    lost: list[str] = re.findall(r"Lost task .*?\): (.*)", text)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("An error occurred while calling")]
    return next(iter([*raised[-1:], *lost, *lines, type(error).__name__])).removeprefix(": ")


def _prepare_processes(conf: Mapping[str, str]) -> None:
    """Java for the driver, what it logs, and the Python of executors, which a session takes from the environment only."""
    said = java.prepare()
    if said is not None:
        print(said, file=sys.stderr)
    os.environ.setdefault("LOG4J_CONFIGURATION_FILE", str(LOGGING))
    if "spark.pyspark.python" in conf:
        os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
