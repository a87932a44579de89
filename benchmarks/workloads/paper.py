"""The event and query generators of the SASE paper, section 5.1: 20 types, five attributes, one event a tick.

What the paper leaves open is chosen here: the sizes of attr3 to attr5, which step has the simple predicate (the first, true for half of
its events), which two events the other predicate compares (first and last), and that absences stand between the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from workloads import sequences
from workloads.w2 import N_TYPES, type_names

N_EVENTS = 1_000_000
N_OTHER_VALUES = 1000


@dataclass(frozen=True)
class Experiment:
    """SEQ(A, B, ...) of `length` events in a window of `window` ticks, over events with `n_values` values of attr1."""

    length: int = 3
    window: int = 10_000
    n_values: int = 1000
    keys: tuple[str, ...] = ("attr1",)
    simple: bool = False  # with `a.attr3 < 500`
    other: bool = False  # with `c.attr4 > a.attr4`, c being the last event
    n_absences: int = 0  # !T after the first step, !S after the second

    @property
    def steps(self) -> list[str]:
        """Types that are absent come from the end of the alphabet, so the same events are present with and without them."""
        steps = [chr(65 + i) for i in range(self.length)]
        for i in range(self.n_absences):
            steps.insert(2 * i + 1, f"!{chr(64 + N_TYPES - i)}")
        return steps

    @property
    def query(self) -> str:
        present = [step.lower() for step in self.steps if not step.startswith("!")]
        first, last = present[0], present[-1]
        components = ", ".join(f"{step} {step.lower().removeprefix('!')}" for step in self.steps)
        conditions = [f"[{', '.join(self.keys)}]"]
        if self.simple:
            conditions.append(f"{first}.attr3 < {N_OTHER_VALUES // 2}")
        if self.other:
            conditions.append(f"{last}.attr4 > {first}.attr4")
        returned = ", ".join(f"{name}.ts AS {name}_ts" for name in present)
        return f"SEQ({components}) WHERE {' AND '.join(conditions)} WITHIN {self.window + 1} RETURN {returned}"

    def find(self, events: pa.Table) -> list[sequences.Ints]:
        """The times of the matches, one array a step."""
        kept = {"A": events["attr3"].to_numpy() < N_OTHER_VALUES // 2} if self.simple else None
        found = sequences.find(events, self.steps, self.window, self.keys, kept)
        if self.other:
            attr4 = events["attr4"].to_numpy()
            rises = attr4[found[-1]] > attr4[found[0]]
            found = [rows[rises] for rows in found]
        ts = events["ts"].to_numpy()
        return [ts[rows] for rows in found]


def generate(n_values: int, n_second: int = 20, n_events: int = N_EVENTS, seed: int = 5) -> pa.Table:
    """ts, type, attr1 (n_values values), attr2 (n_second), attr3, attr4, attr5."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, N_TYPES, n_events)
    sizes = {"attr1": n_values, "attr2": n_second, "attr3": N_OTHER_VALUES, "attr4": N_OTHER_VALUES, "attr5": N_OTHER_VALUES}
    attributes = {name: rng.integers(0, size, n_events) for name, size in sizes.items()}
    return pa.table({"ts": np.arange(1, n_events + 1), "type": type_names(code), **attributes})


def check(experiment: Experiment, events: pa.Table, matches: pa.Table) -> int:
    """The number of matches, which must be those found by sorting."""
    expected = np.stack(experiment.find(events))
    found = np.stack([matches[step.lower() + "_ts"].to_numpy() for step in experiment.steps if not step.startswith("!")])
    if not np.array_equal(found[:, np.lexsort(found)], expected[:, np.lexsort(expected)]):
        raise SystemExit(f"{experiment.query}: {matches.num_rows:,} matches differ from the {expected.shape[1]:,} found by sorting")
    return int(matches.num_rows)
