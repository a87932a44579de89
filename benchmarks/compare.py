"""What `make bench-compare OLD=DIR` runs: the benchmarks with the Keuka of this checkout and with that of another one, in turns.

Two processes run the same experiments, each with the scripts and the `src/` of its own checkout, because some experiments reach into the
engine. Every single repetition waits for its turn, so that a slow minute of the machine is slow for both, and the order of the two
changes each time. The table shows ratios of CPU time, this checkout to the other one: that of the best repetitions of each side, because
noise only adds time, and the median of all. The rivals of an experiment are the same code on both sides and show how far noise moves a
ratio.
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
LEFT_OUT = ("java_engines", "workload_1", "sequence_memory", "streamed_file", "two_threads", "on_spark")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the speed of this checkout with that of another one.")
    parser.add_argument("old", help="the other checkout, with its kernel built in place")
    parser.add_argument("experiment", nargs="*", help="as for run.py, or on_spark; all of run.py that can take turns if none is named")
    parser.add_argument("--slower", type=float, default=1.05, help="the exit code is 1 if a ratio of best times is above this (1.05)")
    parser.add_argument("--repetitions", type=int, default=15, help="of each task, at least (15)")
    given = parser.parse_args()
    print("| experiment: task | new / old, best | median | quartiles | repetitions |\n|---|---|---|---|---|")
    old, new = start_side(Path(given.old).resolve(), given.repetitions), start_side(HERE.parent, given.repetitions)
    choose(given.experiment, old, new)
    seconds: dict[str, list[tuple[float, float]]] = {}
    try:
        for label, old_seconds, new_seconds in take_turns(old, new):
            seconds.setdefault(label, []).append((old_seconds, new_seconds))
    finally:  # an experiment that fails does not take the figures of the others with it
        best = [show_row(label, pairs) for label, pairs in seconds.items()]
    return 1 if any(ratio > given.slower for ratio in best) else 0


def show_row(label: str, pairs: list[tuple[float, float]]) -> float:
    """Prints a row of the table, and returns the ratio of the best times."""
    ratios = [new / old for old, new in pairs]
    best = min([new for _, new in pairs]) / min([old for old, _ in pairs])
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"| {label} | {best:.3f} | {middle:.3f} | {low:.3f} to {high:.3f} | {len(ratios)} |", flush=True)
    return best


def choose(named: list[str], old: subprocess.Popen[str], new: subprocess.Popen[str]) -> None:
    """Tell both sides which experiments to run: those named, or all that both checkouts have and that can take turns."""
    known = ask(old)
    common = [name for name in ask(new) if name in known]
    if missing := [name for name in named if name not in common]:
        raise SystemExit(f"not in both checkouts: {', '.join(missing)}")
    for side in (old, new):
        tell(side, json.dumps(named or [name for name in common if name not in LEFT_OUT]))


def start_side(checkout: Path, n_repetitions: int) -> subprocess.Popen[str]:
    if not list((checkout / "src/keuka/kernel").glob("*.so")):
        raise SystemExit(f"{checkout} has no kernel: build it there with `python setup.py build_ext --inplace`")
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "KEUKA_REPETITIONS": str(n_repetitions)}
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


def tell(side: subprocess.Popen[str], line: str) -> None:
    assert side.stdin is not None
    side.stdin.write(f"{line}\n")
    side.stdin.flush()


def ask(side: subprocess.Popen[str]) -> Any:
    assert side.stdout is not None
    tell(side, "")
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
    n_repetitions = int(os.environ["KEUKA_REPETITIONS"])

    def seconds_of(task: measure.Task, clock: measure.Clock = measure.cpu_clock) -> float:
        answer(answers, lambda: label[0])
        return float(answer(answers, lambda: measured(task, clock)))

    def labelled_turns(tasks: dict[Any, measure.Task], n: int, clock: measure.Clock = measure.cpu_clock) -> dict[Any, list[float]]:
        seconds: dict[Any, list[float]] = {name: [] for name in tasks}
        for _ in range(max(n, n_repetitions)):
            for name, task in tasks.items():
                label[0] = f"{part.__name__}: {name}"
                seconds[name].append(seconds_of(task, clock))
        return seconds

    measured = measure.seconds_of
    setattr(measure, "seconds_of", seconds_of)  # noqa: B010  mypy lets no name of a module be assigned to another function
    setattr(measure, "take_turns", labelled_turns)  # noqa: B010
    import run

    measure.OUT.mkdir(parents=True, exist_ok=True)
    parts = {part.__name__: part for part in (*run.PARTS, on_spark)}
    answer(answers, lambda: list(parts))
    for part in [parts[name] for name in json.loads(sys.stdin.readline())]:
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
