"""What Spark says when it fails, as errors of ours: those that workers raised are shown as if they had been raised here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError, InternalError, KeukaError, QueryError, data_error
from keuka.spark.session import reason_of

try:
    from py4j.protocol import Py4JError as Py4JError
except ImportError:  # the package pyspark-client speaks to no JVM
    Py4JError = PySparkException

NANOSECONDS = "write the files with microseconds: in pandas `to_parquet(..., coerce_timestamps='us')`"

# The first line of one of our messages, and the lines that can follow: an excerpt of a query, a place, a remedy.
MESSAGE = re.compile(r"error\[(K\d{3})\]: (.*(?:\n(?: *--> .*| *\d* \|.*| *= help: .*|  [^\s].*))*)")


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Spark's exceptions as errors of ours. Their chain may hold values of variables, so it is left out."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        remedies = [f"Spark says: {reason}", *([NANOSECONDS] if "NANOS" in reason else [])]
        raise error_in(str(error)) or data_error("K608", f"Spark cannot {what}", *remedies) from None


def error_in(text: str) -> KeukaError | None:
    """The error of ours that a worker raised, found in what Spark says of it."""
    found = MESSAGE.search(text)
    if found is None:
        return None
    diagnostic = Diagnostic(found[1], found[2])
    if found[1][1] in "1234":
        return QueryError(diagnostic)
    return InternalError(diagnostic) if found[1].startswith("K9") else DataError(diagnostic)
