"""Keuka finds patterns in streams of events: exact, fast, embedded in Python or on Spark."""

from importlib.metadata import version

from keuka.engine import Engine
from keuka.errors import DataError, InternalError, KeukaError, PipelineError, QueryError
from keuka.events.delivery import Matches
from keuka.events.sources import Stream
from keuka.events.text_values import Csv
from keuka.pipelines.pipeline import Pipeline
from keuka.query import Query, cel, match, match_all, query, sase
from keuka.rules import Rule
from keuka.run.limits import Limits
from keuka.run.live import Waiting
from keuka.spark.frames import matching, on_spark

__version__ = version("keuka")

__all__ = [
    "Csv",
    "DataError",
    "Engine",
    "InternalError",
    "KeukaError",
    "Limits",
    "Matches",
    "Pipeline",
    "PipelineError",
    "Query",
    "QueryError",
    "Rule",
    "Stream",
    "Waiting",
    "__version__",
    "cel",
    "match",
    "match_all",
    "matching",
    "on_spark",
    "query",
    "sase",
]
