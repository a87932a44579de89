"""Workloads W2 and W3: sequences of three types with the same attr1, all combinations, in a window of 10,000 ticks.

Events of 20 types, one a tick, seeded. At 500,000 events the answers are known from several independent engines; for other sizes
`expected` finds them by sorting. WITHIN is strict, so a window of 10,000 is written as 10001.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from workloads import sequences

WINDOW = 10_000
N_TYPES = 20
N_EVENTS = 500_000


@dataclass(frozen=True)
class Workload:
    """A query over the events with `n_values` values of attr1, and what is known of its matches among the first N_EVENTS."""

    name: str
    query: str
    steps: tuple[str, ...]  # the same query for `sequences.find`
    n_matches: int
    digest: str  # of the sorted list of matches, each a tuple of times
    n_values: int = 1000
    seed: int = 11

    @property
    def times(self) -> list[str]:
        """The columns of the result with the times of the events."""
        return [f"{step.lower()}_ts" for step in self.steps if not step.startswith("!")]


SEQUENCE = """
SEQ(A a, B b, C c) WHERE [attr1] WITHIN 10001
RETURN a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, a.id AS a_id, b.id AS b_id, c.id AS c_id, a.attr1 AS attr1
"""
ABSENCE_BETWEEN = """
SEQ(A a, !B b, C c) WHERE [attr1] WITHIN 10001
RETURN a.ts AS a_ts, c.ts AS c_ts, a.id AS a_id, c.id AS c_id, a.attr1 AS attr1
"""
ABSENCE_AFTER = """
SEQ(A a, B b, !C c) WHERE [attr1] WITHIN 10001
RETURN a.ts AS a_ts, b.ts AS b_ts, a.id AS a_id, b.id AS b_id, a.attr1 AS attr1
"""

W2 = Workload("W2", SEQUENCE, ("A", "B", "C"), 3_064, "ad5456f07a35")
W2_DENSE = Workload("W2 dense", SEQUENCE, ("A", "B", "C"), 304_149, "818fe7a83cfb", n_values=100, seed=12)
W3 = Workload("W3", ABSENCE_BETWEEN, ("A", "!B", "C"), 9_769, "f3346b269c04")
W3_AFTER = Workload("W3t", ABSENCE_AFTER, ("A", "B", "!C"), 9_862, "8bff0a438350")


def generate(workload: Workload, n_events: int = N_EVENTS) -> pa.Table:
    """ts, type, id, attr1."""
    rng = np.random.default_rng(workload.seed)
    code = rng.integers(0, N_TYPES, n_events)
    attr1 = rng.integers(0, workload.n_values, n_events)
    return pa.table({"ts": np.arange(1, n_events + 1), "type": type_names(code), "id": np.arange(n_events), "attr1": attr1})


def type_names(code: sequences.Ints) -> pa.Array:
    """A, B, ... as text; every row has its own copy, as events that come from outside have."""
    return pa.DictionaryArray.from_arrays(pa.array(code, pa.int8()), [chr(65 + i) for i in range(N_TYPES)]).cast(pa.string())


def expected(workload: Workload, events: pa.Table) -> tuple[int, str]:
    """The number of matches and their digest."""
    if events.num_rows == N_EVENTS:
        return workload.n_matches, workload.digest
    ts = events["ts"].to_numpy()
    found = sequences.find(events, workload.steps, WINDOW, ["attr1"])
    return len(found[0]), sequences.digest([ts[rows] for rows in found])


def answer(workload: Workload, matches: pa.Table) -> tuple[int, str]:
    """The same of a result."""
    return matches.num_rows, sequences.digest([matches[name].to_numpy() for name in workload.times])


def check(engine: str, workload: Workload, matches: pa.Table, known: tuple[int, str]) -> None:
    if answer(workload, matches) != known:
        raise SystemExit(f"{workload.name}: the {matches.num_rows:,} matches of {engine} are not the {known[0]:,} known ones")
