"""Pipelines: streams, queries and sinks as one value, from a TOML file or from Python, run in this process or on Spark."""

from keuka.pipelines.pipeline import Pipeline
from keuka.pipelines.values import Input, Progress, Queries, Report, Sink, SparkSettings

__all__ = ["Input", "Pipeline", "Progress", "Queries", "Report", "Sink", "SparkSettings"]
