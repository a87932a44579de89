"""Sequences: K3 next to a loop in plain Python, W2 and W3 next to joins in DuckDB on one thread. Encoding the types, text, counts."""

from __future__ import annotations

import statistics
from functools import partial

import duckdb
import pyarrow as pa

import keuka
from measure import Row, Task, million_per_second, take_turns
from peers import duckdb_joins
from workloads import k3, w2

N_REPETITIONS = 7
LEAST_TIMES_LOOP = 8
LEAST_TIMES_DUCKDB = 1.3
FLAT = 0.3
# Events -> repetitions: the plain joins take some 5 s at ten million.
SIZES = {500_000: 9, 2_000_000: 7, 10_000_000: 3}


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


def next_to_duckdb() -> list[Row]:
    """W2 and W3 read the same events."""
    measured: dict[str, list[Row]] = {workload.name: [] for workload in (w2.W2, w2.W3)}
    for n_events in SIZES:
        events = w2.generate(w2.W2, n_events)
        with duckdb_joins.load(events) as connection:
            for workload in (w2.W2, w2.W3):
                measured[workload.name].append(against_joins(workload, events, connection))
    return [row for name, rows in measured.items() for row in (*rows, flat_row(name, rows))]


def against_joins(workload: w2.Workload, events: pa.Table, connection: duckdb.DuckDBPyConnection) -> Row:
    tasks: dict[str, Task] = {"keuka": partial(keuka.match, keuka.sase(workload.query), events, time="ts", type_column="type")}
    for kind, sql in duckdb_joins.JOINS[workload.name].items():
        tasks[kind] = partial(duckdb_joins.join, connection, sql)
    known = w2.expected(workload, events)
    for engine, task in tasks.items():
        w2.check("Keuka" if engine == "keuka" else f"DuckDB's {engine} join", workload, task(), known)
    seconds = take_turns(tasks, SIZES[events.num_rows])
    rates = {engine: million_per_second(events.num_rows, taken) for engine, taken in seconds.items()}
    ours = rates.pop("keuka")
    times = {kind: ours / rate for kind, rate in rates.items()}
    return Row(
        f"{workload.name}, {events.num_rows:,} events",
        f"{ours:.1f} M events/s; {times['plain']:.1f} times DuckDB's plain join, {times['bucketed']:.1f} times its bucketed one",
        f"{LEAST_TIMES_DUCKDB} times both",
        min(times.values()) >= LEAST_TIMES_DUCKDB,
        {
            "duckdb_workload": workload.name,
            "n_events": events.num_rows,
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
