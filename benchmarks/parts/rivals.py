"""W2, W2 dense and W3 by us and by two Java engines, Esper and Flink CEP: events in memory, warm, in turns. Nothing is promised."""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np
import pyarrow as pa

import java
import keuka
from measure import Row, Task, million_per_second, seconds_of
from workloads import w2

# Passes before the clock counts, when the compiled code no longer gets faster: a pass of Esper takes 0.1 s, one of Flink 1 to 3 s.
N_WARM_UP = {java.ESPER: 15, java.FLINK: 5}
N_REPETITIONS = 5
# What the harnesses call the workload, and the workload. W2 dense is W2 over other events.
WORKLOADS = (("w2", w2.W2), ("w2", w2.W2_DENSE), ("w3", w2.W3))


def java_engines() -> list[Row]:
    why_not: dict[java.Harness, str] = {}
    for harness in N_WARM_UP:
        try:
            java.build(harness)
        except java.NotMeasuredError as error:
            why_not[harness] = str(error)
    rows = []
    for name, workload in WORKLOADS:
        events = w2.generate(workload)
        match: Task = partial(keuka.match, keuka.sase(workload.query), events, time="ts", type_column="type")
        w2.check("Keuka", workload, match(), w2.expected(workload, events))
        for harness in N_WARM_UP:
            if harness in why_not:
                rows.append(Row(f"{workload.name} in {harness.engine}", f"not measured: {why_not[harness]}"))
            else:
                rows.append(in_turns(harness, name, workload, events, match))
    return rows


def in_turns(harness: java.Harness, name: str, workload: w2.Workload, events: pa.Table, match: Task) -> Row:
    """The CPU time of the threads that do the engine's work: what its collector and compiler use in others is not held against it."""
    ours, passes = [], []
    with java.running(harness, name, events, N_WARM_UP[harness]) as engine:
        for _ in range(N_REPETITIONS):
            ours.append(seconds_of(match))
            passes.append(engine())
    for done in passes:
        matches = pa.table(dict(zip(workload.times, np.array(done["matches"]).T, strict=True)))
        w2.check(harness.engine, workload, matches, w2.expected(workload, events))
    seconds = [done["thread_cpu_seconds"] for done in passes]
    rate = million_per_second(events.num_rows, seconds)
    ratio = statistics.median(seconds) / statistics.median(ours)
    return Row(
        f"{workload.name} in {harness.engine} (Java, warm)",
        f"{rate:.2f} M events/s; ours is {ratio:.0f} times that",
        numbers={
            "rival": harness.engine,
            "rival_workload": workload.name,
            "rates": {"Keuka": million_per_second(events.num_rows, ours), harness.engine: rate},
            "times_rival": ratio,
            "thread_cpu_seconds": seconds,
            "process_cpu_seconds": [done["process_cpu_seconds"] for done in passes],
        },
    )
