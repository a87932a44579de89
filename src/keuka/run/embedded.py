"""Runs tables over opened streams in this process, from beginning to end.

The event path of ARCHITECTURE.md in one function: events in order, kernel, matches as Arrow batches.
"""

from __future__ import annotations

import logging
import math
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import Tables
from keuka.errors import DataError
from keuka.events.columns import bytes_of
from keuka.events.delivery import about_bytes
from keuka.events.files import BATCH_ROWS
from keuka.events.order import EventBatch, common_axis, in_order
from keuka.events.sources import OpenStream
from keuka.kernel.bytecode import Op
from keuka.kernel.functions import CHANGE_STRINGS
from keuka.kernel.machine import OutOfRoom, OutOfTime
from keuka.run import limits as told
from keuka.run.limits import STEP_ROOM, Limits
from keuka.run.results import MatchBatch
from keuka.run.runner import Runner
from keuka.schema import MAX_TICK, TimeAxis

# A query can have many more matches than events. Steps are cut so that one call of the kernel gives about this many at the
# most: the number of events grows from FEWEST_ROWS to MOST_ROWS while matches are few, and shrinks when they are not.
MANY_MATCHES = 500_000
FEWEST_ROWS, MOST_ROWS = 4_096, 32_768

MAKE_TEXT = [int(op) for op in (Op.LOWER, Op.UPPER, Op.SUBSTRING, Op.CONCAT)]  # and the functions CHANGE_STRINGS

log = logging.getLogger("keuka")

QUERY = "query"  # there is one set of tables in a bounded run; its name is seen nowhere


@dataclass(frozen=True)
class Progress:
    """How far a run is, and what it holds: partial matches that may still become matches, and the kernel's memory for them.

    `most_instances` is a bound on what was held at any time: the sum over the states of the automata.
    """

    n_events: int
    n_instances: int
    most_instances: int
    n_bytes: int


def run(
    tables: Tables,
    opened: Sequence[OpenStream],
    *,
    on_progress: Callable[[Progress], None] | None = None,
    chunk_rows: int = BATCH_ROWS,
    threads: int = 1,
    axis: TimeAxis | None = None,
    limits: Limits | None = None,
    keeps: bool = False,
) -> Iterator[MatchBatch]:
    """All matches, as the input goes by. `on_progress` is called after every step. Several threads divide the events by the plan's key.

    `axis`: how times are shown, if others than the streams of these tables decide it. `keeps`: the caller holds all matches, so that
    they count, too, to the memory that `limits` allow.
    """
    by_name = {stream.name: stream for stream in opened}
    inputs = [by_name[source.name] for source in tables.sources]
    n_threads = threads if threads == 1 or can_divide(tables) else 1
    # Threads meet twice a step, so steps are longer.
    most_rows = MOST_ROWS * min(n_threads, 8)
    runner = Runner(inputs, axis or common_axis(inputs), n_threads)
    runner.load(QUERY, tables)
    limited = _Limited(runner, limits or Limits(), keeps)
    n_rows = FEWEST_ROWS
    for step in in_order(inputs, runner.columns(), chunk_rows * min(n_threads, 8), limited.hold):
        while step:
            piece, step = cut(step, n_rows)
            n_found = limited.n_matches.total()
            yield from limited.process(piece, last_end(piece))
            if on_progress is not None:
                usage = runner.usage(QUERY)
                on_progress(Progress(runner.n_events, usage.n_instances, usage.most_instances, runner.n_bytes))
            n_rows = min(next_rows(n_rows, limited.n_matches.total() - n_found), most_rows)
    # At the end of a finite input time goes to its end.
    yield from limited.process({}, MAX_TICK)


class _Limited:
    """The steps of a run within its limits."""

    def __init__(self, runner: Runner, limits: Limits, keeps: bool) -> None:
        self.runner = runner
        self.limits = limits
        self.n_bytes = limits.n_bytes
        self.deadline = math.inf if limits.seconds is None else clock.monotonic() + limits.seconds
        self.keeps = keeps
        self.n_matches: Counter[str] = Counter()
        self.varies: dict[str, bool] = {}  # by output: has it texts, or other values of no fixed size?
        self.n_kept = 0  # bytes of matches that the caller holds
        self.n_waiting = 0  # bytes of rows that were read and wait
        runner.set_deadline(self.deadline)

    def process(self, step: dict[str, EventBatch], upto: int) -> Iterator[MatchBatch]:
        """The matches of a step; K518 when it would take more than is allowed."""
        room = max(0, self.n_bytes + STEP_ROOM - self.runner.n_allocated - self.n_waiting - self.n_kept)
        try:
            for found in self.runner.process(step, upto, room):
                for batch in found:
                    self._count(batch)
                    yield batch
        except OutOfRoom:
            raise self._out_of_memory() from None
        except OutOfTime:
            raise self._too_long() from None
        if self.runner.n_allocated > self.n_bytes and self.runner.n_bytes > self.n_bytes:
            raise self._out_of_memory()
        if clock.monotonic() > self.deadline:
            raise self._too_long()

    def hold(self, n_bytes: int, stream: str) -> None:
        """Rows that were read and wait for others hold so much, most of them those of the stream."""
        self.n_waiting = n_bytes
        if n_bytes > self.n_bytes:
            raise told.too_much_waits(self.n_bytes, n_bytes, stream)

    def _count(self, batch: MatchBatch) -> None:
        self.n_matches[batch.output] += batch.rows.num_rows
        if self.limits.matches is not None and self.n_matches.total() > self.limits.matches:
            raise told.too_many(self.limits, self.n_matches)
        if self.keeps:
            self.n_kept += self._bytes_of(batch)
            if self.n_kept > self.n_bytes:
                raise told.too_large_result(self.n_bytes, self.n_matches, told.raise_memory(self.n_bytes))

    def _bytes_of(self, batch: MatchBatch) -> int:
        """Arrow's own count is taken where values differ in size: for rows of numbers alone it would cost 5 % of W2."""
        if batch.output not in self.varies:
            self.varies[batch.output] = any(not pa.types.is_primitive(field.type) for field in batch.rows.schema)
        return bytes_of(batch.rows) if self.varies[batch.output] else about_bytes(batch.rows)

    def _out_of_memory(self) -> DataError:
        return told.out_of_memory(self.n_bytes, self.runner.usage_by_name(QUERY), told.raise_memory(self.n_bytes))

    def _too_long(self) -> DataError:
        return told.too_long(self.limits, self.runner.usage_by_name(QUERY), self.runner.n_events)


def last_end(step: dict[str, EventBatch]) -> int:
    return max([batch.last_end for batch in step.values()])


def next_rows(n_rows: int, n_found: int) -> int:
    """How many events the next step may have, after one of `n_rows` that gave `n_found` matches: their number may grow by the square."""
    if n_found >= MANY_MATCHES:
        return max(n_rows // 4, 1)
    return (4 if n_found < MANY_MATCHES // 16 else 2) * n_rows


def can_divide(tables: Tables) -> bool:
    """Can several machines run the tables? They need a key, and must not make text while they run: its table is one for all."""
    if tables.partition is None:
        log.warning("the query has no key by which its events could be divided; it runs on one thread")
        return False
    op, function = tables.arrays["code"][:, 0], tables.arrays["code"][:, 4]
    if (np.isin(op, MAKE_TEXT) | ((op == Op.FUNCTION) & np.isin(function, CHANGE_STRINGS))).any():
        log.warning("the query makes or searches text (concat, lower, upper, substring, trim, cast, regexp_like); it runs on one thread")
        return False
    return True


def cut(step: dict[str, EventBatch], n_rows: int) -> tuple[dict[str, EventBatch], dict[str, EventBatch]]:
    """The first epochs of a step, about `n_rows` events of its longest stream, and the rest."""
    longest = max(step.values(), key=len)
    if len(longest) <= n_rows:
        return step, {}
    frontier = int(longest.end[n_rows - 1]) + 1
    bounds = {name: batch.n_before(frontier) for name, batch in step.items()}
    before = {name: batch.slice(0, bounds[name]) for name, batch in step.items() if bounds[name] > 0}
    after = {name: batch.slice(bounds[name], len(batch)) for name, batch in step.items() if bounds[name] < len(batch)}
    return before, after
