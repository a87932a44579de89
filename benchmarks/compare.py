"""What `make bench-compare OLD=DIR` runs: the benchmarks with the Keuka of this checkout and with that of another one, in turns.

Two processes run the same experiments, each with the scripts and the `src/` of its own checkout, because some experiments reach into the
engine. Every single repetition waits for its turn, so that a slow minute of the machine is slow for both, and the order of the two
changes each time. The table shows the median of the ratios of CPU time (this checkout to the other one); the rivals of an experiment
are the same code on both sides and show how far noise moves a ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
# Java engines and processes of their own time themselves, memory is no time, and what uses two cores has no turn of its own.
LEFT_OUT = ("java_engines", "workload_1", "sequence_memory", "streamed_file", "two_threads")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the speed of this checkout with that of another one.")
    parser.add_argument("old", help="the other checkout, with its kernel built in place")
    parser.add_argument("experiment", nargs="*", help="as for run.py, or on_spark; all of run.py that can take turns if none is named")
    parser.add_argument("--slower", type=float, default=1.05, help="the exit code is 1 if a median is above this ratio (1.05)")
    given = parser.parse_args()
    print("| experiment: task | new / old, median | quartiles | repetitions |\n|---|---|---|---|")
    old, new = start_side(Path(given.old).resolve(), given.experiment), start_side(HERE.parent, given.experiment)
    ratios: dict[str, list[float]] = {}
    try:
        for label, old_seconds, new_seconds in take_turns(old, new):
            ratios.setdefault(label, []).append(new_seconds / old_seconds)
    finally:  # an experiment that fails does not take the figures of the others with it
        medians = [show_row(label, values) for label, values in ratios.items()]
    return 1 if any(median > given.slower for median in medians) else 0


def show_row(label: str, ratios: list[float]) -> float:
    """Prints a row of the table, and returns the median."""
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"| {label} | {middle:.3f} | {low:.3f} to {high:.3f} | {len(ratios)} |", flush=True)
    return middle


def start_side(checkout: Path, experiments: list[str]) -> subprocess.Popen[str]:
    if not list((checkout / "src/keuka/kernel").glob("*.so")):
        raise SystemExit(f"{checkout} has no kernel: build it there with `python setup.py build_ext --inplace`")
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "KEUKA_COMPARED": json.dumps(experiments)}
    command = [sys.executable, "-c", f"import runpy; runpy.run_path({__file__!r})['serve']()"]
    return subprocess.Popen(command, cwd=checkout / "benchmarks", env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def take_turns(old: subprocess.Popen[str], new: subprocess.Popen[str]) -> Iterator[tuple[str, float, float]]:
    """The label and both times of every repetition, until the experiments end."""
    n_turns = 0
    while True:
        labels = [ask(side) for side in (old, new)]
        if labels[0] != labels[1]:
            raise SystemExit(f"the two sides run different tasks: {labels}")
        if labels[0] is None:
            return
        order = (old, new) if n_turns % 2 == 0 else (new, old)
        seconds = {side.pid: ask(side) for side in order}
        n_turns += 1
        yield labels[0], seconds[old.pid], seconds[new.pid]


def ask(side: subprocess.Popen[str]) -> Any:
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write("\n")
    side.stdin.flush()
    answer = side.stdout.readline()
    if not answer:
        raise SystemExit(f"an experiment failed with exit code {side.wait()}")
    return json.loads(answer)


def serve() -> None:
    """One side: runs the experiments, and before each repetition says which one it is and waits for its turn."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what experiments print is not an answer; DuckDB writes its progress past Python
    import measure

    label = [""]

    def seconds_of(task: measure.Task, clock: measure.Clock = measure.cpu_clock) -> float:
        answer(answers, lambda: label[0])
        return float(answer(answers, lambda: measured(task, clock)))

    def labelled_turns(tasks: dict[Any, measure.Task], n: int, clock: measure.Clock = measure.cpu_clock) -> dict[Any, list[float]]:
        seconds: dict[Any, list[float]] = {name: [] for name in tasks}
        for _ in range(max(n, 9)):
            for name, task in tasks.items():
                label[0] = f"{part.__name__}: {name}"
                seconds[name].append(seconds_of(task, clock))
        return seconds

    measured = measure.seconds_of
    setattr(measure, "seconds_of", seconds_of)  # noqa: B010  mypy lets no name of a module be assigned to another function
    setattr(measure, "take_turns", labelled_turns)  # noqa: B010
    import run

    measure.OUT.mkdir(parents=True, exist_ok=True)
    chosen = json.loads(os.environ["KEUKA_COMPARED"]) or [part.__name__ for part in run.PARTS if part.__name__ not in LEFT_OUT]
    for part in [part for part in (*run.PARTS, on_spark) if part.__name__ in chosen]:
        label[0] = part.__name__
        part()
    answer(answers, lambda: None)


def on_spark() -> None:
    """W1 and W2 in a session of Spark that goes on between the turns, by the clock on the wall."""
    import run_spark

    run_spark.write_inputs()
    spark = run_spark.session(2)
    run_spark.best({name: partial(run_spark.ours, spark, name) for name in ("W1", "W2")})
    spark.stop()


def answer(to: IO[str], find: Callable[[], Any]) -> Any:
    """Waits to be asked, finds the value, and gives it."""
    sys.stdin.readline()
    value = find()
    to.write(json.dumps(value) + "\n")
    to.flush()
    return value


if __name__ == "__main__":
    sys.exit(main())
