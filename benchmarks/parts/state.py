"""What state costs: many live instances, many keys that are text, and what a sequence holds of a long stream."""

from __future__ import annotations

from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

import keuka
from keuka.events.order import in_order
from keuka.query import prepare
from keuka.run import state
from keuka.run.embedded import run
from keuka.run.runner import Runner
from measure import Row, Task, million_per_second, take_turns
from workloads import keys, waiting

FEW_INSTANCES, MANY_INSTANCES = 10_000, 1_000_000
MOST_TIMES = 4
# Creating the instances takes as long with few events after it as with many: it is not in the difference.
FEW_EVENTS, MANY_EVENTS = 250_000, 750_000


def live_instances() -> list[Row]:
    """Events that each meet ten live instances, among few and among many: the same work, but memory is farther away."""
    query = keuka.cel(waiting.QUERY)
    tasks: dict[str, Task] = {}
    for n_instances in (FEW_INSTANCES, MANY_INSTANCES):
        for n_events in (FEW_EVENTS, MANY_EVENTS):
            table = waiting.generate(n_instances, n_events)
            task = partial(keuka.match, query, table, time="at")
            waiting.check(task(), table)
            tasks[f"{n_instances} and {n_events}"] = task
    seconds = take_turns(tasks, 5)
    few, many = (nanoseconds_per_event(seconds, n_instances) for n_instances in (FEW_INSTANCES, MANY_INSTANCES))
    return [
        Row(
            f"{FEW_INSTANCES:,} / {MANY_INSTANCES:,} live instances, {waiting.PER_NAME} met by each event",
            f"{few:,.0f} / {many:,.0f} ns per event, {many / few:.1f} times",
            f"at most {MOST_TIMES} times",
            many / few <= MOST_TIMES,
            {"few_ns": few, "many_ns": many, "cpu_seconds": seconds},
        )
    ]


def nanoseconds_per_event(seconds: dict[str, list[float]], n_instances: int) -> float:
    """By the best turn of each: the difference of two noisy times is twice as noisy."""
    few, many = (min(seconds[f"{n_instances} and {n_events}"]) for n_events in (FEW_EVENTS, MANY_EVENTS))
    return 1e9 * (many - few) / (MANY_EVENTS - FEW_EVENTS)


MOVED = {
    "stacked events": keuka.sase("SEQ(S a, T b) WHERE [k] WITHIN 1000000000"),
    "stacked events that wait for the end of their window": keuka.sase("SEQ(S a, !T b) WHERE [k] WITHIN 1000000000"),
    "instances": keuka.cel("FROM S NEXT {$2.k = $1.k} T"),
}
FEW_HELD, MANY_HELD, PER_KEY = 16_000, 137_008, 16
MOVES = 50


def moved_keys() -> list[Row]:
    """State of one key taken, dropped and put back, among few and among many others: the cost of what the key holds."""
    rows = []
    for held, query in MOVED.items():
        tasks: dict[str, Task] = {str(n_held): partial(move_keys, holding(query, n_held), n_held) for n_held in (FEW_HELD, MANY_HELD)}
        seconds = take_turns(tasks, 7)
        few, many = (1e3 * median(seconds[str(n_held)]) / MOVES for n_held in (FEW_HELD, MANY_HELD))
        rows.append(
            Row(
                f"one key of {PER_KEY} {held}, taken, dropped and put back among {FEW_HELD:,} / {MANY_HELD:,}",
                f"{few:.2f} / {many:.2f} ms, {many / few:.2f} times",
                "at most 1.5 times",
                many / few <= 1.5,
                {"few_ms": few, "many_ms": many, "cpu_seconds": seconds},
            )
        )
    return rows


def holding(query: keuka.Query, n_held: int) -> Runner:
    """A runner whose query holds so many events, each with its contributors."""
    table = pa.table({"t": np.arange(n_held), "k": np.arange(n_held) % (n_held // PER_KEY)})
    empty = table.slice(0, 0)
    prepared = prepare(query, {"S": table, "T": empty}, time="t", contributors=True)
    runner = Runner(prepared.opened, prepared.opened[0].type.axis)
    runner.load("q", prepared.tables)
    for step in in_order(prepared.opened, runner.columns(), chunk_rows=n_held):
        for _ in runner.process(step, max([int(batch.end[-1]) for batch in step.values()])):
            pass
    assert runner.usage("q").n_instances == n_held
    return runner


def move_keys(runner: Runner, n_held: int) -> None:
    for k in range(MOVES):
        key = pa.StructArray.from_arrays([pa.array([7 * k])], names=["k"])
        taken = state.take(runner, key)
        state.drop(runner, key)
        assert runner.usage("q").n_instances == n_held - PER_KEY
        state.put(runner, taken)
    assert runner.usage("q").n_instances == n_held


def text_keys() -> list[Row]:
    table = keys.generate()
    query = keuka.cel(keys.QUERY)
    match: Task = partial(keuka.match, query, table, time="at")
    matches = match()
    keys.check(matches, table)
    rate = million_per_second(table.num_rows, take_turns({"keuka": match}, 3)["keuka"])
    what = f"next event of the same name, {table.num_rows / 1e6:.0f}M events, 1,000,000 names as text"
    return [Row(what, f"{rate:.1f} M events/s, {matches.num_rows:,} matches", numbers={"rate": rate})]


N_LONG = 10_000_000
N_WINDOWS = 20
ONE_IN = 10_000  # of the events in a wide window are of a type that the query names
FLAT_MEMORY = 1.1


def sequence_memory() -> list[Row]:
    """A wide window with few relevant events, and keys that come once and never again."""
    at = np.arange(N_LONG)
    relevant = at % ONE_IN == 0
    wide = pa.table({"at": at, "type": pa.array(np.where(relevant, "A", "X")), "k": at % 7})
    held = bytes_held("SEQ(A a, B b) WHERE [k] WITHIN 10000000", wide)
    n_relevant = int(relevant.sum())
    per_event = max(held) / n_relevant
    rows = [
        Row(
            f"a window of {N_LONG / 1e6:.0f}M events, 1 in {ONE_IN:,} relevant",
            f"{max(held) / 1e3:.0f} kB held, {per_event:.0f} bytes for each of the {n_relevant:,}",
            "at most 400 bytes for each",
            per_event <= 400,
            {"bytes": max(held)},
        )
    ]
    short = pa.table({"at": at, "type": pa.array(np.where(at % 2 == 0, "A", "B")), "k": at})
    for what, query in {"SEQ(A, B)": "SEQ(A a, B b)", "SEQ(A, !B), by deadlines": "SEQ(A a, !B b)"}.items():
        held = bytes_held(f"{query} WHERE [k] WITHIN {N_LONG // N_WINDOWS}", short)
        windows = [max(part) for part in np.array_split(np.array(held), N_WINDOWS)]
        spread = max(windows[1:]) / min(windows[1:])
        rows.append(
            Row(
                f"{what} over {N_LONG / 1e6:.0f}M keys that come once, {N_WINDOWS} windows",
                f"{min(windows[1:]) / 1e6:.1f} to {max(windows[1:]) / 1e6:.1f} MB held",
                f"flat: at most {FLAT_MEMORY} times",
                bool(spread <= FLAT_MEMORY),
                {"bytes_by_window": [int(n) for n in windows]},
            )
        )
    return rows


def bytes_held(query: str, table: pa.Table) -> list[int]:
    """What the kernel holds after each step."""
    prepared = prepare(keuka.sase(query), table, time="at", type_column="type")
    held: list[int] = []
    for _ in run(prepared.tables, prepared.opened, on_progress=lambda progress: held.append(progress.n_bytes)):
        pass
    return held
