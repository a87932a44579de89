"""What `make bench` runs: speed and memory of the engine, next to plain Python where that can do the same.

Every result is compared with a known answer before its time counts. Writes results.json, table.md and plots to out/bench.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import keuka
import plots
from measure import Row, cpu_seconds, million_per_second, take_turns
from workloads import double_top, k1, w1

OUT = Path("out/bench")
N_REPETITIONS = 7
STREAM_BYTES = 1_000_000_000


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    parts: tuple[Callable[[], list[Row]], ...] = (query_7, batch_sizes, workload_1, planning, double_tops, streamed_file)
    for part in parts:
        for row in part():
            rows.append(row)
            print(line(row), flush=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count(), "keuka": keuka.__version__}
    (OUT / "results.json").write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    (OUT / "table.md").write_text("\n".join(["| what | result | promised | holds |", "|---|---|---|---|", *map(line, rows)]) + "\n")
    plots.draw(rows, OUT)
    print(f"\nresults.json, table.md and plots are in {OUT}")
    return 1 if any(row.holds is False for row in rows) else 0


def line(row: Row) -> str:
    verdict = {True: "yes", False: "NO", None: ""}[row.holds]
    return f"| {row.what} | {row.result} | {row.promised} | {verdict} |"


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
    tasks: dict[str, Callable[[], Any]] = {
        "loop": lambda: k1.loop(columns, n_names),
        "keuka": lambda: keuka.match(query, table, time="ts", params=k1.params(n_names)),
    }
    matches = tasks["keuka"]()
    expected = sorted(tasks["loop"]())
    found = sorted(zip(*(column.to_pylist() for column in matches.columns), strict=True))
    if found != expected:
        raise SystemExit(f"Query 7, {n_names} {kind} names: {len(found)} matches differ from the {len(expected)} of the loop")
    seconds = take_turns(tasks, N_REPETITIONS)
    ratio = statistics.median(seconds["loop"]) / statistics.median(seconds["keuka"])
    rate = million_per_second(table.num_rows, seconds["keuka"])
    promised = "5 times the loop" if kind == "integer" else ""
    return Row(
        f"Query 7, 2M events, {n_names:,} {kind} names",
        f"{rate:.1f} M events/s, {ratio:.1f} times the loop",
        promised,
        ratio >= 5 if promised else None,
        {"n_names": n_names, "kind": kind, "ratio": ratio, "rate": rate, "matches": len(found), "cpu_seconds": seconds},
    )


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


def workload_1() -> list[Row]:
    table = w1.generate()
    query = keuka.cel(w1.QUERY)
    matches = keuka.match(query, table, time="ts")
    right = matches.num_rows == w1.N_MATCHES and w1.digest(matches) == w1.DIGEST
    rate = million_per_second(table.num_rows, take_turns({"keuka": lambda: keuka.match(query, table, time="ts")}, 5)["keuka"])
    result = f"{rate:.1f} M events/s, {matches.num_rows} matches"
    return [Row("W1, 1M events, 100 names", result, f"{w1.N_MATCHES} known matches", right, {"rate": rate})]


def planning() -> list[Row]:
    """From the text to the result over one row: parsing, lowering, planning, tables, loading."""
    table = pa.table(k1.generate(100, n_events=1))
    first, *later = (
        wall_milliseconds(lambda: keuka.match(k1.QUERY, table, language="cel", time="ts", params=k1.params(100))) for _ in range(31)
    )
    median = statistics.median(later)
    return [
        Row("planning Query 7, after the first", f"{median:.1f} ms", "under 20 ms", median < 20, {"first_ms": first, "later_ms": later})
    ]


def wall_milliseconds(task: Callable[[], Any]) -> float:
    began = time.perf_counter()
    task()
    return 1000 * (time.perf_counter() - began)


def double_tops() -> list[Row]:
    table = double_top.generate()
    rows = []
    for form, path in (("FOLD", double_top.BY_RUNS), ("extrema", double_top.BY_EXTREMA)):
        query = keuka.query(path)
        matches = keuka.match(query, table, time="Time")
        seconds = [cpu_seconds(partial(keuka.match, query, table, time="Time"))[0] for _ in range(3)]
        rate = million_per_second(table.num_rows, seconds)
        what = f"Double-Top by {form}, {table.num_rows / 1e6:.1f}M events"
        rows.append(Row(what, f"{rate:.1f} M events/s, {matches.num_rows:,} matches", numbers={"rate": rate, "cpu_seconds": seconds}))
    return rows


def streamed_file() -> list[Row]:
    path = OUT / "stream.parquet"
    if not path.exists():
        write_stream(path)
    command = [sys.executable, str(Path(__file__).with_name("memory.py")), str(path)]
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


if __name__ == "__main__":
    sys.exit(main())
