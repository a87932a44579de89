"""What `make demo` runs: a stock market and a store are made up, examples/pipeline.toml runs over them on Spark, a match is drawn.

At the end the same pipeline runs without Spark, and the times of both are shown. Takes the options of `keuka run`: `python
examples/demo.py --embedded` runs it only in this process.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keuka.cli import main as keuka
from stock_market import N_FORCED_SALES, NAMES, draw_rebound, generate_ticks
from store import N_ITEMS, generate_readings

HERE = Path(__file__).parent
OUT = HERE.parent / "out" / "demo"

# What became of the items that a query must find, and no others.
FATE_OF = {"Shoplifting": "stolen", "Misplaced": "misplaced", "Repeated-Overstay": "overstayed"}


def main(options: list[str]) -> int:
    ticks = generate_ticks()
    readings, planted = generate_readings()
    n_readings = sum([table.num_rows for table in readings.values()])
    click.echo(f"{ticks.num_rows:,} ticks of {len(NAMES)} stocks and {n_readings:,} readings of {N_ITEMS:,} items are in {shown(OUT)}")
    write(ticks, readings)

    failed, seconds = run(options)
    if failed:
        return failed
    click.echo()
    found = {output: {*pq.read_table(OUT / output)["id"].to_pylist()} for output in FATE_OF}
    for output, fate in FATE_OF.items():
        n_found, n_false = len(found[output] & planted[fate]), len(found[output] - planted[fate])
        click.echo(f"{output}: {n_found} of {len(planted[fate])} planted cases found, {n_false} false alarms")
    n_rebounds = pq.read_table(OUT / "Rebound").num_rows
    click.echo(f"Rebound: {n_rebounds} found; {N_FORCED_SALES} forced sales that end in one were planted")
    first = pq.read_table(OUT / "Rebound").sort_by("_end").slice(0, 1).to_pylist()[0]
    draw_rebound(ticks, first, OUT / "rebound.png")
    click.echo(f"The first rebound over its price curve: {shown(OUT / 'rebound.png')}")
    if "--embedded" not in options:
        click.echo("\nThe same stocks, as files that arrive while the pipeline runs:")
        failed = run_over_arriving_files()
        if failed:
            return failed
        n_arrived = pq.read_table(OUT / "ReboundArrived").num_rows
        click.echo(f"Rebound: {n_arrived} of {n_rebounds} found, and what is open is kept in {shown(OUT / 'checkpoint')}")
        click.echo("\nAll of it again, without Spark:")
        with contextlib.redirect_stdout(io.StringIO()):
            failed, embedded_seconds = run(["--embedded"])
        if failed:
            return failed
        click.echo(f"{seconds:.1f} s on Spark, its start included; {embedded_seconds:.1f} s in this process")
    return 0 if all(found[output] == planted[fate] for output, fate in FATE_OF.items()) else 1


def run_over_arriving_files() -> int:
    """Runs a pipeline that would go on for ever, and stops it as a service manager would, when the last file was taken."""
    for folder in ("arriving", "checkpoint", "ReboundArrived"):
        shutil.rmtree(OUT / folder, ignore_errors=True)
    (OUT / "arriving").mkdir()
    files = sorted((OUT / "ticks").iterdir())
    os.link(files[0], OUT / "arriving" / files[0].name)

    def bring_files() -> None:
        commits = OUT / "checkpoint" / "commits"
        for i, file in enumerate(files[1:], 1):
            wait_for(commits / str(i - 1))
            os.link(file, OUT / "arriving" / file.name)
        wait_for(commits / str(len(files) - 1))
        time.sleep(1)  # its line is shown when Spark has reported the micro-batch
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=bring_files, daemon=True).start()
    return run([], "arriving.toml")[0]


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.1)


def run(options: list[str], file: str = "pipeline.toml") -> tuple[int, float]:
    """Runs a pipeline as the command does; the exit code, and how long it took."""
    command = ["run", shown(HERE / file), *options]
    click.echo(f"$ keuka {' '.join(command)}\n", err=True)
    began = time.perf_counter()
    return keuka(command), time.perf_counter() - began


def write(ticks: pa.Table, readings: dict[str, pa.Table]) -> None:
    """The events as Parquet files: ticks by month, readings by what they are of."""
    for folder in ("ticks", "store"):
        (OUT / folder).mkdir(parents=True, exist_ok=True)
    months = pc.strftime(ticks["Time"], "%Y-%m")
    for month in pc.unique(months).to_pylist():
        pq.write_table(ticks.filter(pc.equal(months, month)), OUT / "ticks" / f"{month}.parquet")
    for name, table in readings.items():
        pq.write_table(table, OUT / "store" / f"{name}.parquet")


def shown(path: Path) -> str:
    """The path as a user would type it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
