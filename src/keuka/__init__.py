"""Keuka finds patterns in streams of events: exact, fast, embedded in Python or on Spark."""

from importlib.metadata import version

from keuka.errors import DataError, InternalError, KeukaError, QueryError
from keuka.events.sources import Stream
from keuka.query import Query, cel, match, match_all, query

__version__ = version("keuka")

__all__ = [
    "DataError",
    "InternalError",
    "KeukaError",
    "Query",
    "QueryError",
    "Stream",
    "__version__",
    "cel",
    "match",
    "match_all",
    "query",
]
