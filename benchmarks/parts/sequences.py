"""Sequences: K3 next to a loop in plain Python, W2 and W3 next to joins in DuckDB on one thread, keys of different types.

Encoding the types, text, counts.
"""

from __future__ import annotations

import contextlib
import statistics
from functools import partial

import duckdb
import pyarrow as pa

import keuka
from measure import Row, Task, million_per_second, take_turns
from peers import duckdb_joins
from workloads import k3, w2
from workloads import mixed_keys as mixed

N_REPETITIONS = 7
LEAST_TIMES_LOOP = 8
LEAST_TIMES_DUCKDB = 1.3
FLAT = 0.3
MOST_TIMES_INTEGERS = 2
SIZES = (500_000, 2_000_000, 10_000_000)
N_REPETITIONS_JOINS = 5  # a plain join takes some 5 s at ten million

Loaded = dict[int, tuple[pa.Table, duckdb.DuckDBPyConnection]]  # by number of events


def sequence_of_three() -> list[Row]:
    columns = k3.generate()
    table = k3.as_table(columns)
    query = keuka.sase(k3.QUERY)
    tasks: dict[str, Task] = {
        "loop": lambda: k3.loop(columns),
        "keuka": lambda: keuka.match(query, table, time="ts", type_column="type"),
    }
    n_matches = k3.check(tasks["keuka"](), tasks["loop"]())
    seconds = take_turns(tasks, N_REPETITIONS)
    ratio = statistics.median(seconds["loop"]) / statistics.median(seconds["keuka"])
    rate = million_per_second(table.num_rows, seconds["keuka"])
    return [
        Row(
            f"SEQ(A, B, C), {table.num_rows / 1e6:.0f}M events, {k3.N_KEYS:,} keys, {n_matches / 1e6:.1f}M matches",
            f"{rate:.1f} M events/s, {ratio:.1f} times the loop",
            f"{LEAST_TIMES_LOOP} times the loop",
            ratio >= LEAST_TIMES_LOOP,
            {"k3_times_loop": ratio, "rate": rate, "cpu_seconds": seconds},
        )
    ]


def mixed_keys() -> list[Row]:
    """Integers that are compared with doubles are keys as good as integers."""
    query = keuka.sase(mixed.QUERY)
    tasks: dict[str, Task] = {}
    for kind in ("integers", "doubles"):
        streams = mixed.generate(double=kind == "doubles")
        tasks[kind] = partial(keuka.match, query, streams, time="t")
        n_found, known = tasks[kind]().num_rows, mixed.n_matches(streams)
        if n_found != known:
            raise SystemExit(f"keys of integers and {kind}: {n_found} matches, {known} are known")
    seconds = take_turns(tasks, N_REPETITIONS)
    times = statistics.median(seconds["doubles"]) / statistics.median(seconds["integers"])
    return [
        Row(
            f"SEQ(A, B, A), {mixed.N_EVENTS:,} events, keys that are integers beside integers / beside doubles",
            f"{' / '.join([f'{statistics.median(taken):.2f}' for taken in seconds.values()])} s, {times:.2f} times",
            f"at most {MOST_TIMES_INTEGERS} times",
            times <= MOST_TIMES_INTEGERS,
            {"mixed_keys_times": times, "cpu_seconds": seconds},
        )
    ]


def next_to_duckdb() -> list[Row]:
    """W2 and W3 read the same events. The sizes take turns as the engines do, so that a slow minute is slow for all of them."""
    rows = []
    with contextlib.ExitStack() as connections:
        loaded = {}
        for n_events in SIZES:
            events = w2.generate(w2.W2, n_events)
            loaded[n_events] = events, connections.enter_context(duckdb_joins.load(events))
        for workload in (w2.W2, w2.W3):
            seconds = take_turns(joining_tasks(workload, loaded), N_REPETITIONS_JOINS)
            measured = [joins_row(workload, n, {engine: taken for (size, engine), taken in seconds.items() if size == n}) for n in SIZES]
            rows += [*measured, flat_row(workload.name, measured)]
    return rows


def joining_tasks(workload: w2.Workload, loaded: Loaded) -> dict[tuple[int, str], Task]:
    """By number of events and engine; each has found the known matches."""
    tasks: dict[tuple[int, str], Task] = {}
    for n_events, (events, connection) in loaded.items():
        tasks[n_events, "keuka"] = partial(keuka.match, keuka.sase(workload.query), events, time="ts", type_column="type")
        for kind, sql in duckdb_joins.JOINS[workload.name].items():
            tasks[n_events, kind] = partial(duckdb_joins.join, connection, sql)
        known = w2.expected(workload, events)
        for (size, engine), task in tasks.items():
            if size == n_events:
                w2.check("Keuka" if engine == "keuka" else f"DuckDB's {engine} join", workload, task(), known)
    return tasks


def joins_row(workload: w2.Workload, n_events: int, seconds: dict[str, list[float]]) -> Row:
    rates = {engine: million_per_second(n_events, taken) for engine, taken in seconds.items()}
    ours = rates.pop("keuka")
    times = {kind: ours / rate for kind, rate in rates.items()}
    return Row(
        f"{workload.name}, {n_events:,} events",
        f"{ours:.1f} M events/s; {times['plain']:.1f} times DuckDB's plain join, {times['bucketed']:.1f} times its bucketed one",
        f"{LEAST_TIMES_DUCKDB} times both",
        min(times.values()) >= LEAST_TIMES_DUCKDB,
        {
            "duckdb_workload": workload.name,
            "n_events": n_events,
            "rate": ours,
            "join_rates": rates,
            "times_duckdb": times,
            "cpu_seconds": seconds,
        },
    )


def flat_row(name: str, rows: list[Row]) -> Row:
    rates = [row.numbers["rate"] for row in rows]
    spread = 1 - min(rates) / max(rates)
    return Row(
        f"{name}, {' / '.join(f'{n:,}' for n in SIZES)} events",
        f"{' / '.join(f'{rate:.1f}' for rate in rates)} M events/s",
        f"within {FLAT:.0%}",
        spread <= FLAT,
        {"spread": spread},
    )
