"""What state costs: many live instances, and many keys that are text."""

from __future__ import annotations

import statistics
from functools import partial

import keuka
from measure import Row, Task, million_per_second, take_turns
from workloads import keys, waiting

FEW_INSTANCES, MANY_INSTANCES = 10_000, 1_000_000
MOST_TIMES = 4
# Creating the instances takes as long with few events after it as with many: it is not in the difference.
FEW_EVENTS, MANY_EVENTS = 250_000, 750_000


def live_instances() -> list[Row]:
    """Events that each meet ten live instances, among few and among many: the same work, but memory is farther away."""
    query = keuka.cel(waiting.QUERY)
    tasks: dict[str, Task] = {}
    for n_instances in (FEW_INSTANCES, MANY_INSTANCES):
        for n_events in (FEW_EVENTS, MANY_EVENTS):
            table = waiting.generate(n_instances, n_events)
            task = partial(keuka.match, query, table, time="at")
            waiting.check(task(), table)
            tasks[f"{n_instances} and {n_events}"] = task
    seconds = take_turns(tasks, 5)
    few, many = (nanoseconds_per_event(seconds, n_instances) for n_instances in (FEW_INSTANCES, MANY_INSTANCES))
    return [
        Row(
            f"{FEW_INSTANCES:,} / {MANY_INSTANCES:,} live instances, {waiting.PER_NAME} met by each event",
            f"{few:,.0f} / {many:,.0f} ns per event, {many / few:.1f} times",
            f"at most {MOST_TIMES} times",
            many / few <= MOST_TIMES,
            {"few_ns": few, "many_ns": many, "cpu_seconds": seconds},
        )
    ]


def nanoseconds_per_event(seconds: dict[str, list[float]], n_instances: int) -> float:
    few, many = (statistics.median(seconds[f"{n_instances} and {n_events}"]) for n_events in (FEW_EVENTS, MANY_EVENTS))
    return 1e9 * (many - few) / (MANY_EVENTS - FEW_EVENTS)


def text_keys() -> list[Row]:
    table = keys.generate()
    query = keuka.cel(keys.QUERY)
    match: Task = partial(keuka.match, query, table, time="at")
    matches = match()
    keys.check(matches, table)
    rate = million_per_second(table.num_rows, take_turns({"keuka": match}, 3)["keuka"])
    what = f"next event of the same name, {table.num_rows / 1e6:.0f}M events, 1,000,000 names as text"
    return [Row(what, f"{rate:.1f} M events/s, {matches.num_rows:,} matches", numbers={"rate": rate})]
