import sys
from unittest import mock

from keuka.spark.session import open_session

with mock.patch.dict(sys.modules, {"pyspark.sql": None}):
    open_session("local[2]", {}, "demo")
