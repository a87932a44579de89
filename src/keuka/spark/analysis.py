"""What Spark is asked about a DataFrame before anything runs: its columns, and whether it streams.

In the functions of a Declarative Pipeline Spark answers no such question, because other tables of the pipeline may not exist yet. There a
DataFrame must say its columns itself (`df.to(schema)`), and whatever else is needed must be read from its plan.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from keuka.errors import data_error
from keuka.events.files import place

NO_ANSWER = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


def is_unanswered(error: Exception) -> bool:
    """Did Spark refuse the question because of where it was asked?"""
    return isinstance(error, PySparkException) and error.getCondition() == NO_ANSWER


def columns_of(stream: str, frame: DataFrame) -> StructType:
    try:
        return frame.schema
    except PySparkException as error:
        if not is_unanswered(error):
            raise
        problem = "Spark lets nobody look at columns inside a function of a Declarative Pipeline"
        remedy = "say them: `df.to(schema)`, with a StructType, before the query gets it"
        raise data_error("K512", problem, remedy, where=place(stream, None) if stream else "") from None


def is_streaming(frame: DataFrame) -> bool:
    try:
        return frame.isStreaming
    except PySparkException as error:
        if not is_unanswered(error):
            raise
        # Only Connect leaves a question open, and its DataFrames carry the message that will be sent.
        connected: Any = frame
        return "is_streaming: true" in str(connected._plan.to_proto(connected.sparkSession.client))


def knowing(frame: DataFrame, columns: StructType) -> DataFrame:
    """A DataFrame that can be asked for its columns, which are these."""
    try:
        frame.columns  # noqa: B018 - whether this is answered is the question
    except PySparkException as error:
        if not is_unanswered(error):
            raise
        return frame.to(columns)
    return frame
