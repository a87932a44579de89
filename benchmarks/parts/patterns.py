"""Speed of single queries over tables in memory: Query 7 next to a loop in plain Python, Double-Top, and the time to plan."""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np
import pyarrow as pa

import keuka
from measure import Row, Task, million_per_second, seconds_of, take_turns, wall_clock
from workloads import double_top, k1

N_REPETITIONS = 7
LEAST_RATIO = 8


def query_7() -> list[Row]:
    """Arrow in, Arrow out, against the loop: names as integers (as the loop has them) and as text, few names and many."""
    rows = []
    for n_names in (100, 10_000):
        codes = k1.generate(n_names)
        texts = codes | {"name": np.array([f"S{code:05d}" for code in codes["name"].tolist()], dtype=object)}
        for kind, columns in (("integer", codes), ("text", texts)):
            rows.append(against_loop(columns, n_names, kind))
    return rows


def against_loop(columns: k1.Columns, n_names: int, kind: str) -> Row:
    table = pa.table(columns)
    query = keuka.cel(k1.QUERY)
    tasks: dict[str, Task] = {
        "loop": lambda: k1.loop(columns, n_names),
        "keuka": lambda: keuka.match(query, table, time="ts", params=k1.params(n_names)),
    }
    found = k1.check(tasks["keuka"](), tasks["loop"](), f"{n_names:,} {kind} names")
    seconds = take_turns(tasks, N_REPETITIONS)
    ratio = statistics.median(seconds["loop"]) / statistics.median(seconds["keuka"])
    rate = million_per_second(table.num_rows, seconds["keuka"])
    promised = kind == "integer"
    return Row(
        f"Query 7, 2M events, {n_names:,} {kind} names",
        f"{rate:.1f} M events/s, {ratio:.1f} times the loop",
        f"{LEAST_RATIO} times the loop" if promised else "",
        ratio >= LEAST_RATIO if promised else None,
        {"n_names": n_names, "kind": kind, "times_loop": ratio, "rate": rate, "matches": found, "cpu_seconds": seconds},
    )


def planning() -> list[Row]:
    """From the text to the result over one row: parsing, lowering, planning, tables, loading."""
    table = pa.table(k1.generate(100, n_events=1))
    plan_and_run = partial(keuka.match, k1.QUERY, table, language="cel", time="ts", params=k1.params(100))
    first, *later = (1000 * seconds_of(plan_and_run, wall_clock) for _ in range(31))
    median = statistics.median(later)
    return [
        Row("planning Query 7, after the first", f"{median:.1f} ms", "under 20 ms", median < 20, {"first_ms": first, "later_ms": later})
    ]


def double_tops() -> list[Row]:
    table = double_top.generate()
    rows = []
    for form, path in (("FOLD", double_top.BY_RUNS), ("extrema", double_top.BY_EXTREMA)):
        query = keuka.query(path)
        matches = keuka.match(query, table, time="Time")
        seconds = [seconds_of(partial(keuka.match, query, table, time="Time")) for _ in range(3)]
        rate = million_per_second(table.num_rows, seconds)
        what = f"Double-Top by {form}, {table.num_rows / 1e6:.1f}M events"
        rows.append(Row(what, f"{rate:.1f} M events/s, {matches.num_rows:,} matches", numbers={"rate": rate, "cpu_seconds": seconds}))
    return rows
