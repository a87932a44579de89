import sys
from unittest import mock

from keuka.spark.session import open_session

# Stands for a Spark that does not answer, which takes a minute to find out.
builder = mock.MagicMock()
builder.appName = builder.remote = builder.config = mock.MagicMock(return_value=builder)
builder.getOrCreate.side_effect = ConnectionError("failed to connect to all addresses")
with mock.patch.dict(sys.modules, {"pyspark.sql": mock.MagicMock(SparkSession=mock.MagicMock(builder=builder))}):
    open_session("sc://spark.example:15002", {}, "demo")
