"""Sequences whose keys are compared crosswise: `k` is an integer, `kd` an integer or a double with the same values."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

QUERY = "SEQ(A a, B b, A c) WHERE a.k = b.kd AND c.kd = b.k RETURN a.t AS a_t, b.t AS b_t, c.t AS c_t"
N_EVENTS = 90_000  # a tick each, two of three are of type A
N_KEYS = 1_000_000


def generate(double: bool) -> dict[str, pa.Table]:
    rng = np.random.default_rng(7)
    t = np.arange(N_EVENTS)
    k, kd = rng.integers(0, N_KEYS, (2, N_EVENTS))
    is_a = t % 3 != 1
    columns = {"t": t, "k": k, "kd": kd.astype(np.float64) if double else kd}
    return {name: pa.table({of: values[chosen] for of, values in columns.items()}) for name, chosen in (("A", is_a), ("B", ~is_a))}


def n_matches(streams: dict[str, pa.Table]) -> int:
    """The pairs of A before and A after each B, by counting."""
    a, b = (streams[name].to_pydict() for name in "AB")
    events = sorted(
        [*zip(a["t"], a["k"], a["kd"], [True] * len(a["t"]), strict=True), *zip(*b.values(), [False] * len(b["t"]), strict=True)]
    )
    before: Counter[float] = Counter()
    waiting: Counter[float] = Counter()
    found = 0
    for _, k, kd, is_a in events:
        if is_a:
            found += waiting[kd]
            before[k] += 1
        else:
            waiting[k] += before[kd]
    return found
