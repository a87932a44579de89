"""Everything that imports pyspark. Nothing else does, and nothing here is imported before Spark is asked for."""

from __future__ import annotations

from keuka.errors import DataError, data_error


def no_pyspark(error: ImportError) -> DataError:
    """What is said where Spark is asked for and cannot be imported."""
    where = "" if (error.name or "").startswith("pyspark") else str(error)
    return data_error("K551", "PySpark is not installed", "`pip install 'keuka[spark]'`", where=where)
