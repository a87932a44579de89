"""Measuring: CPU time of functions that take turns, and the rows of the result table."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Task = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One line of the result table. `holds` is None where nothing was promised."""

    what: str
    result: str
    promised: str = ""
    holds: bool | None = None
    numbers: dict[str, Any] = field(default_factory=dict)  # what the line was computed from


def cpu_seconds(task: Task) -> tuple[float, Any]:
    """CPU time of this process, all its threads together, for one call."""
    gc.collect()
    began = time.process_time()
    result = task()
    return time.process_time() - began, result


def take_turns(tasks: dict[str, Task], n_repetitions: int) -> dict[str, list[float]]:
    """CPU seconds of every repetition. The tasks are interleaved, so a slow minute of the machine is slow for all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(n_repetitions):
        for name, task in tasks.items():
            seconds[name].append(cpu_seconds(task)[0])
    return seconds


def million_per_second(n_events: int, seconds: list[float]) -> float:
    return n_events / statistics.median(seconds) / 1e6
