"""Runs tables over opened streams in this process, from beginning to end.

The event path of ARCHITECTURE.md in one function: events in order, kernel, matches as Arrow batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keuka.automaton.tables import Tables
from keuka.events.files import BATCH_ROWS
from keuka.events.order import EventBatch, common_axis, in_order
from keuka.events.sources import OpenStream
from keuka.kernel.bytecode import Op
from keuka.run.runner import MatchBatch, Runner
from keuka.schema import MAX_TICK, TimeAxis

# A query can have many more matches than events. Steps are cut so that one call of the kernel gives about this many at the
# most: the number of events grows from FEWEST_ROWS to MOST_ROWS while matches are few, and shrinks when they are not.
MANY_MATCHES = 500_000
FEWEST_ROWS, MOST_ROWS = 4_096, 32_768

MAKE_TEXT = [int(op) for op in (Op.LOWER, Op.UPPER, Op.SUBSTRING, Op.CONCAT)]

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
) -> Iterator[MatchBatch]:
    """All matches, as the input goes by. `on_progress` is called after every step. Several threads divide the events by the plan's key.

    `axis`: how times are shown, if others than the streams of these tables decide it.
    """
    by_name = {stream.name: stream for stream in opened}
    inputs = [by_name[source.name] for source in tables.sources]
    n_threads = threads if threads == 1 or can_divide(tables) else 1
    # Threads meet twice a step, so steps are longer.
    most_rows = MOST_ROWS * min(n_threads, 8)
    runner = Runner(inputs, axis or common_axis(inputs), n_threads)
    runner.load(QUERY, tables)
    n_rows = FEWEST_ROWS
    for step in in_order(inputs, runner.columns(), chunk_rows * min(n_threads, 8)):
        while step:
            piece, step = cut(step, n_rows)
            n_found = 0
            for found in runner.process(piece, last_end(piece)):
                yield from found
                n_found += sum([batch.rows.num_rows for batch in found])
            if on_progress is not None:
                usage = runner.usage(QUERY)
                on_progress(Progress(sum(runner.n_seen.values()), usage.n_instances, usage.most_instances, runner.n_bytes))
            n_rows = min(next_rows(n_rows, n_found), most_rows)
    # At the end of a finite input time goes to its end.
    for found in runner.process({}, MAX_TICK):
        yield from found


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
    if np.isin(tables.arrays["code"][:, 0], MAKE_TEXT).any():
        log.warning("the query makes text (concat, lower, upper, substring); it runs on one thread")
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
