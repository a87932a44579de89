"""Measuring: the time of functions that take turns, and the rows of the result table."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

OUT = Path("out/bench")

Name = TypeVar("Name", bound=Hashable)
Task = Callable[[], Any]
Clock = Callable[[], float]

cpu_clock: Clock = time.process_time  # of this process, all its threads together
wall_clock: Clock = time.perf_counter


@dataclass(frozen=True)
class Row:
    """One line of the result table. `holds` is None where nothing was promised."""

    what: str
    result: str
    promised: str = ""
    holds: bool | None = None
    numbers: dict[str, Any] = field(default_factory=dict)  # what the line was computed from


def seconds_of(task: Task, clock: Clock = cpu_clock) -> float:
    gc.collect()
    began = clock()
    task()
    return clock() - began


def take_turns(tasks: dict[Name, Task], n_repetitions: int, clock: Clock = cpu_clock) -> dict[Name, list[float]]:
    """Seconds of every repetition. The tasks are interleaved, so a slow minute of the machine is slow for all of them."""
    seconds: dict[Name, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(n_repetitions):
        for name, task in tasks.items():
            seconds[name].append(seconds_of(task, clock))
    return seconds


def million_per_second(n_events: int, seconds: list[float]) -> float:
    return n_events / statistics.median(seconds) / 1e6
