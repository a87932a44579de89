"""What `make bench` runs: speed and memory of the engine, next to plain Python, DuckDB, Esper and Flink where these can do the same.

Every result is compared with a known answer before its time counts. A run of everything writes results.json, table.md and plots to
out/bench; `run.py stream_lengths two_threads` runs these experiments alone and only prints their rows.
"""

from __future__ import annotations

import argparse
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
from parts.sequences import mixed_keys, next_to_duckdb, sequence_of_three
from parts.sizes import batch_sizes, stream_lengths, streamed_file, unread_columns
from parts.state import live_instances, moved_keys, sequence_memory, text_keys

PARTS: tuple[Callable[[], list[Row]], ...] = (
    query_7,
    batch_sizes,
    unread_columns,
    pushed_batches,
    two_threads,
    stream_lengths,
    workload_1,
    sequence_of_three,
    mixed_keys,
    next_to_duckdb,
    java_engines,
    domain_sizes,
    window_sizes,
    other_experiments,
    live_instances,
    moved_keys,
    sequence_memory,
    text_keys,
    planning,
    double_tops,
    streamed_file,
)


def main() -> int:
    chosen = chosen_parts()
    OUT.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    rows: list[Row] = []
    for part in chosen:
        for row in part():
            rows.append(row)
            print(line(row), flush=True)
    if chosen == PARTS:
        write_results(rows)
        print(f"\nresults.json, table.md and plots are in {OUT}; all of it took {time.perf_counter() - began:.0f} s")
    return 1 if any(row.holds is False for row in rows) else 0


def chosen_parts() -> tuple[Callable[[], list[Row]], ...]:
    names = [part.__name__ for part in PARTS]
    parser = argparse.ArgumentParser(description="Measure speed and memory of the engine; the exit code is 1 if a promise is broken.")
    parser.add_argument("experiment", nargs="*", help=f"one of {', '.join(names)}; all of them if none is named")
    given = parser.parse_args().experiment
    unknown = [name for name in given if name not in names]
    if unknown:
        parser.error(f"there is no experiment {', '.join(unknown)}; choose from {', '.join(names)}")
    return tuple([part for part in PARTS if not given or part.__name__ in given])


def write_results(rows: list[Row]) -> None:
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count(), "keuka": keuka.__version__}
    (OUT / "results.json").write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    (OUT / "table.md").write_text("\n".join(["| what | result | promised | holds |", "|---|---|---|---|", *map(line, rows)]) + "\n")
    plots.draw(rows, OUT)


def line(row: Row) -> str:
    verdict = {True: "yes", False: "NO", None: ""}[row.holds]
    return f"| {row.what} | {row.result} | {row.promised} | {verdict} |"


if __name__ == "__main__":
    sys.exit(main())
