from unittest import mock

from keuka.spark import shards

# Stands for a checkpoint of Spark's, which only a streaming query can open.
kept = mock.MagicMock(get=lambda: (b"", '{"meaning": {"query_1": "00"}, "columns": [], "shards": 4, "lateness": [0]}'))
task = mock.MagicMock(tables=b"", inputs=(), lateness=(0,), keys=range(8))
with mock.patch.object(shards, "from_bytes", return_value=mock.MagicMock(outputs=())):
    shards.Store(kept, None, None, None, None).tables(task)
