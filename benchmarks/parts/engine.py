"""The live engine: small batches pushed one by one, and two threads. Query 7 both times."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial

import pyarrow as pa

import keuka
from measure import Row, Task, million_per_second, take_turns, wall_clock
from workloads import double_top, k1

N_REPETITIONS = 5
LEAST_SHARE = {1024: 1 / 2, 256: 1 / 5}  # rows in a batch -> of the speed over the whole table
LEAST_SPEED_UP = 1.7


def pushed_batches() -> list[Row]:
    """What each call of `push` costs, next to one `match` over everything. The engine reads the time from the only timestamp column."""
    n_names = 100
    table = stamped(k1.generate(n_names))
    query = keuka.cel(k1.QUERY)
    tasks: dict[str, Task] = {"whole": lambda: keuka.match(query, table, params=k1.params(n_names)).num_rows}
    for n_rows in LEAST_SHARE:
        tasks[str(n_rows)] = partial(n_pushed_matches, query, table.to_batches(max_chunksize=n_rows), n_names)
    n_matches = {name: task() for name, task in tasks.items()}
    if len(set(n_matches.values())) > 1:
        raise SystemExit(f"pushing small batches changes the number of matches of Query 7: {n_matches}")
    seconds = take_turns(tasks, N_REPETITIONS)
    rows = []
    for n_rows, least in LEAST_SHARE.items():
        rate = million_per_second(table.num_rows, seconds[str(n_rows)])
        share = statistics.median(seconds["whole"]) / statistics.median(seconds[str(n_rows)])
        rows.append(
            Row(
                f"Query 7, engine.push with batches of {n_rows:,}",
                f"{rate:.1f} M events/s, {share:.2f} of full speed",
                f"{least:.1f} of full speed",
                share >= least,
                {"pushed_rows": n_rows, "rate": rate, "share": share, "cpu_seconds": seconds[str(n_rows)]},
            )
        )
    return rows


def stamped(columns: k1.Columns) -> pa.Table:
    table = pa.table(columns)
    return table.set_column(table.schema.get_field_index("ts"), "ts", table["ts"].cast(pa.timestamp("us")))


def n_pushed_matches(query: keuka.Query, batches: list[pa.RecordBatch], n_names: int) -> int:
    with keuka.Engine() as engine:
        engine.add(query, params=k1.params(n_names))
        n_matches: int = sum([engine.push("Stock", batch).num_rows for batch in batches])
        n_matches += engine.close().num_rows
    return n_matches


def two_threads() -> list[Row]:
    """Wall time, the best of ten, so this one needs a machine with two free cores.

    Dividing the events costs each thread some 4 ns an event, and waking threads some 0.1 ms, twice a step. Double-Top takes 300 ns an
    event; Query 7 takes 27, and what is done once for all threads (planning, loading, results) is a fifth of its 60 ms.
    """
    return [
        *_two_threads("Double-Top", keuka.query(double_top.BY_RUNS), double_top.generate(1_000, 400), "Time", {}, LEAST_SPEED_UP),
        *_two_threads("Query 7, 10,000 names", keuka.cel(k1.QUERY), pa.table(k1.generate(10_000)), "ts", k1.params(10_000), None),
    ]


def _two_threads(what: str, query: keuka.Query, table: pa.Table, time: str, params: Mapping[str, object], least: float | None) -> list[Row]:
    tasks: dict[str, Task] = {str(n): partial(keuka.match, query, table, time=time, params=params, threads=n) for n in (1, 2)}
    found = [task() for task in tasks.values()]
    one, two = (matches.sort_by([(name, "ascending") for name in matches.column_names]) for matches in found)
    if not one.equals(two):
        raise SystemExit(f"{what}: two threads find {two.num_rows} matches, one finds {one.num_rows}, or not the same ones")
    seconds = take_turns(tasks, 2 * N_REPETITIONS, wall_clock)
    speed_up = min(seconds["1"]) / min(seconds["2"])
    rate = million_per_second(table.num_rows, [min(seconds["2"])])
    return [
        Row(
            f"{what}, {table.num_rows / 1e6:.0f}M events, two threads",
            f"{rate:.1f} M events/s, {speed_up:.2f} times one thread (wall time)",
            "" if least is None else f"{least} times one thread",
            None if least is None else speed_up >= least,
            {"speed_up": speed_up, "wall_seconds": seconds},
        )
    ]
