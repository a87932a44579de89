"""Pipelines: streams, queries and sinks as one value, from a TOML file or from Python, run in this process or on Spark."""

from keuka.pipelines.pipeline import Pipeline
from keuka.pipelines.values import Batch, Input, Progress, Queries, Report, RunSettings, Sink, SparkSettings

__all__ = ["Batch", "Input", "Pipeline", "Progress", "Queries", "Report", "RunSettings", "Sink", "SparkSettings"]
