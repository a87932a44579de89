"""What `make bench` runs: speed and memory of the engine, next to plain Python, DuckDB, Esper and Flink where these can do the same.

Every result is compared with a known answer before its time counts. Writes results.json, table.md and plots to out/bench.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import keuka
import plots
from measure import OUT, Row
from parts.engine import pushed_batches, two_threads
from parts.experiments import domain_sizes, other_experiments, window_sizes
from parts.patterns import double_tops, planning, query_7
from parts.peers import workload_1
from parts.rivals import java_engines
from parts.sequences import next_to_duckdb, sequence_of_three
from parts.sizes import batch_sizes, stream_lengths, streamed_file
from parts.state import live_instances, sequence_memory, text_keys

PARTS: tuple[Callable[[], list[Row]], ...] = (
    query_7,
    batch_sizes,
    pushed_batches,
    two_threads,
    stream_lengths,
    workload_1,
    sequence_of_three,
    next_to_duckdb,
    java_engines,
    domain_sizes,
    window_sizes,
    other_experiments,
    live_instances,
    sequence_memory,
    text_keys,
    planning,
    double_tops,
    streamed_file,
)


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    rows: list[Row] = []
    for part in PARTS:
        for row in part():
            rows.append(row)
            print(line(row), flush=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count(), "keuka": keuka.__version__}
    (OUT / "results.json").write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    (OUT / "table.md").write_text("\n".join(["| what | result | promised | holds |", "|---|---|---|---|", *map(line, rows)]) + "\n")
    plots.draw(rows, OUT)
    print(f"\nresults.json, table.md and plots are in {OUT}; all of it took {time.perf_counter() - began:.0f} s")
    return 1 if any(row.holds is False for row in rows) else 0


def line(row: Row) -> str:
    verdict = {True: "yes", False: "NO", None: ""}[row.holds]
    return f"| {row.what} | {row.result} | {row.promised} | {verdict} |"


if __name__ == "__main__":
    sys.exit(main())
