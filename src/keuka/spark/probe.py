"""Executors without Keuka: a session comes in, one clear error goes out instead of a failed task from the middle of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from keuka.errors import data_error
from keuka.spark.session import is_connect, reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

N_ROWS = 1024  # of the probe, spread over all cores that Spark knows of
_probed: set[str] = set()


def require_on_executors(spark: SparkSession) -> None:
    """Refuses a session whose executors cannot run Keuka. Once for each session; the driver's own process needs no probe."""
    session = session_id(spark)
    if session in _probed:
        return
    reason = None if is_local(spark) else missing_on_executors(spark)
    if reason is not None:
        raise data_error(
            "K555",
            "the executors of Spark cannot run Keuka",
            "`keuka pack environment.tar.gz` makes an archive for them; start Spark with `spark.archives=environment.tar.gz#environment`",
            "and with PYSPARK_PYTHON (or `spark.pyspark.python`) set to `./environment/bin/python`",
            where=reason,
        )
    _probed.add(session)


def missing_on_executors(spark: SparkSession) -> str | None:
    """What keeps executors from importing this version of Keuka; None if nothing does."""
    here = version("keuka")

    # Nested, so that it travels as code. A function of this module would be looked up in the module, which is the question.
    def import_keuka(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            import keuka
            import keuka.kernel.machine  # the compiled part may be of another platform or Python

            reason = "" if keuka.__version__ == here else f"keuka {keuka.__version__} is there, {here} is here"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"reason": [reason]})

    try:
        found = spark.range(N_ROWS).mapInArrow(import_keuka, "reason string").distinct().collect()
    except Exception as error:
        return reason_of(error)
    return min([row.reason for row in found if row.reason], default=None)


def session_id(spark: SparkSession) -> str:
    """Sessions of Connect have an id of their own; the others of one application share their executors."""
    return str(getattr(spark, "session_id", None) or spark.sparkContext.applicationId)


def is_local(spark: SparkSession) -> bool:
    return not is_connect(spark) and re.match(r"local(\[|$)", spark.sparkContext.master or "") is not None
