"""The stateful function that Spark calls once for every shard and micro-batch; `shards.py` does the work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from keuka.spark.shard_state import Store, advance
from keuka.spark.shards import COMMAND, NOW, OF, ROWS, Arrived, tell

# Spark's types: it would ask the JVM what a text with types means, in every task.
NAME = StructType([StructField("name", StringType())])
CONTENT = StructType([StructField("content", BinaryType())])


class ShardProcessor(StatefulProcessor):
    def __init__(self, task: bytes) -> None:
        self._task = task

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = Store(handle.getMapState("shard", NAME, CONTENT))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        for told in advance(self._task, self._store, _arrived(rows)):
            yield Row(**tell(key[0], *told))

    def handleInitialState(self, key: Any, initialState: Row, timerValues: TimerValues) -> None:  # noqa: N802, N803
        """Rows of a DataFrame that is there as a whole come before all others, in one call for each of its partitions."""
        for _ in advance(self._task, self._store, replace(_arrived([initialState]), last={})):
            pass

    def close(self) -> None:
        pass


def _arrived(rows: Iterable[Row]) -> Arrived:
    now, payloads, commands = 0, [], []
    last: dict[int, int] = {}
    for row in rows:
        now, of, content = max(now, row[NOW]), row[OF], row[ROWS]
        if of == COMMAND:
            commands.append(bytes(content).decode())
            continue
        last[of] = max(row["last"], last.get(of, row["last"]))
        if content is not None:
            payloads.append((of, bytes(content)))
    return Arrived(now, last, tuple(payloads), tuple(commands))
