"""Query 7 in other sizes: small batches, short and long streams, a file that does not fit into the memory it may use."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import keuka
from keuka.query import prepare
from keuka.run.embedded import run
from measure import OUT, Row, Task, million_per_second, take_turns
from workloads import k1

STREAM_BYTES = 1_000_000_000
# Events -> calls that are timed together: a call over the short stream takes 4 ms, too little for the clock.
LENGTHS = {100_000: 20, 1_000_000: 4, 10_000_000: 1}
FLAT = 0.2


def batch_sizes() -> list[Row]:
    """The same stream handed over in batches, as a reader would."""
    table = pa.table(k1.generate(100))
    query = keuka.cel(k1.QUERY)
    whole = keuka.match(query, table, time="ts", params=k1.params(100))
    rows = []
    for n_rows in (256, 4096, 65536):
        batches = table.to_batches(max_chunksize=n_rows)

        def run(batches: list[pa.RecordBatch] = batches) -> pa.Table:
            reader = pa.RecordBatchReader.from_batches(table.schema, batches)
            return keuka.match(query, keuka.Stream(reader, time="ts"), params=k1.params(100))

        if not run().equals(whole):
            raise SystemExit(f"batches of {n_rows} rows change the result of Query 7")
        rate = million_per_second(table.num_rows, take_turns({"keuka": run}, 3)["keuka"])
        rows.append(
            Row(f"Query 7, reader with batches of {n_rows:,}", f"{rate:.1f} M events/s", numbers={"batch_rows": n_rows, "rate": rate})
        )
    return rows


def unread_columns() -> list[Row]:
    """A pandas frame with texts and numbers that nobody reads, beside one with the three columns that the query reads."""
    n_rows = 3_000_000
    every = np.arange(n_rows)
    names = np.array([f"name {i}" for i in range(1_000)], object)
    read = pd.DataFrame({"ts": every, "name": names[every % 1_000], "price": every % 997 / 7})
    texts = {f"text_{i}": np.array([f"text {i} {k}" for k in range(5_000)], object)[every * (i + 7) % 5_000] for i in range(4)}
    wide = read.assign(**texts, count=every * 3, mixed=np.array([1, "x"], object)[every % 2])
    query = keuka.cel("SELECT name, price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S")
    tasks: dict[str, Task] = {
        "narrow": lambda: keuka.match(query, read, time="ts"),
        "wide": lambda: keuka.match(query, wide, time="ts"),
    }
    seconds = take_turns(tasks, 3)
    ratio = statistics.median(seconds["wide"]) / statistics.median(seconds["narrow"])
    result = f"{ratio:.2f} times the time with 3 columns ({million_per_second(n_rows, seconds['wide']):.1f} M events/s)"
    return [Row("pandas, 9 columns of which 3 are read", result, "at most 1.2 times", ratio <= 1.2, {"ratio": ratio})]


def stream_lengths() -> list[Row]:
    """The beginning of a stream takes as long per event as all of it. Planning and loading, measured with one event, do not count."""
    query = keuka.cel(k1.QUERY)

    def calls(table: pa.Table, n_calls: int) -> Task:
        planned = prepare(query, table, time="ts", params=k1.params(100))
        schema = planned.schema(planned.tables.outputs[0].name)

        def matches() -> pa.Table:
            return pa.Table.from_batches([found.rows for found in run(planned.tables, planned.opened)], schema)

        return lambda: [matches() for _ in range(n_calls)].pop()

    tasks: dict[str, Task] = {"one event": calls(pa.table(k1.generate(100, 1)), 20)}
    longest = k1.generate(100, max(LENGTHS))
    for n_events, n_calls in LENGTHS.items():
        columns = {name: column[:n_events] for name, column in longest.items()}
        tasks[str(n_events)] = calls(pa.table(columns), n_calls)
        k1.check(tasks[str(n_events)](), k1.loop(columns, 100), f"{n_events:,} events")
    seconds = take_turns(tasks, 7)
    # The best turn of each length: what a noisy machine adds to one of them is no part of the ratio.
    loading = min(seconds["one event"]) / 20
    rates = {n: n / (min(seconds[str(n)]) / n_calls - loading) / 1e6 for n, n_calls in LENGTHS.items()}
    spread = 1 - min(rates.values()) / max(rates.values())
    return [
        Row(
            f"Query 7, {' / '.join(f'{n:,}' for n in rates)} events, planning and loading not counted",
            f"{' / '.join(f'{rate:.1f}' for rate in rates.values())} M events/s",
            f"within {FLAT:.0%}",
            spread <= FLAT,
            {"lengths": list(rates), "rates": list(rates.values()), "loading_seconds": loading, "cpu_seconds": seconds},
        )
    ]


def streamed_file() -> list[Row]:
    path = OUT / "stream.parquet"
    if not path.exists():
        write_stream(path)
    command = [sys.executable, str(Path(__file__).parents[1] / "memory.py"), str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    n_rows = pq.ParquetFile(path).metadata.num_rows
    size = path.stat().st_size
    result = f"{found['peak_mb']:.0f} MB peak, {n_rows / found['seconds'] / 1e6:.1f} M events/s, {found['matches']:,} matches"
    what = f"Query 7 over a Parquet file of {size / 1e9:.2f} GB, {n_rows / 1e6:.0f}M events"
    return [Row(what, result, "under 500 MB", found["peak_mb"] < 500, found)]


def write_stream(path: Path) -> None:
    """More than 1 GB of K1's columns; the part file becomes the file when it is complete."""
    part = path.with_suffix(".part")
    columns = k1.generate(100)
    last = int(columns["ts"][-1])
    with pq.ParquetWriter(part, pa.table(columns).schema, compression="none", use_dictionary=["name"]) as writer:
        while part.stat().st_size < STREAM_BYTES:
            writer.write_table(pa.table(columns))
            columns["ts"] = columns["ts"] + last
    part.replace(path)
