from unittest import mock

from keuka.run import state_bytes
from keuka.spark import shard_state

# Stands for a checkpoint of Spark's, which only a streaming query can open.
theirs = b'{"meaning": {"query_1": "00"}, "results": [], "columns": [], "key": [], "lateness": [0], "shards": 4}'
values = mock.MagicMock(getValue=lambda key: (state_bytes.pack({"tables": b"", "description": theirs}),))
task = mock.MagicMock(tables=b"", inputs=(), outputs=(), lateness=(0,), key=(), keys=range(8))
with mock.patch.object(shard_state, "from_bytes", return_value=mock.MagicMock(outputs=())):
    shard_state.Store(values).tables(task)
