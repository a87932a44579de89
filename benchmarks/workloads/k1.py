"""Workload K1: Query 7 over 2M events, seeded, and the plain-Python loop it is compared with.

The loop is what a careful Python programmer would write for this one query: dictionaries of partial matches by name, with
the same epochs as the engine. Both must find the same matches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

N_EVENTS = 2_000_000
SEED = 20240607
THRESHOLD = 990_000  # of volumes below 1,000,000: one event in a hundred starts a run

Columns = dict[str, npt.NDArray[Any]]
Match = tuple[Any, float, float, float, int, int]  # name, max_price, min_price, final_price, start, end

QUERY = """
SELECT name, max_price, min_price, price AS final_price
FROM FILTER {price > 1.05 * min_price} (
       FILTER {DUR >= :d} (
         SELECT name, price_1 AS max_price, price AS min_price
         FROM FILTER {volume > :v} (Stock)
              FOLD {$2.name = $.name, $2.price < $.price} Stock)
       NEXT {$2.name = $1.name} Stock)
PUBLISH Rebound;
"""


def params(n_names: int) -> dict[str, int]:
    """The loop asks for t - start >= n_names; DUR counts the first tick as well."""
    return {"v": THRESHOLD, "d": n_names + 1}


def generate(n_names: int, n_events: int = N_EVENTS) -> Columns:
    """name (a code), price, volume, ts; about two events an epoch. Nine of ten prices fall a little, one jumps by about 12 %."""
    rng = np.random.default_rng(SEED + n_names)
    name = rng.integers(0, n_names, n_events).astype(np.int64)
    steps = np.where(rng.random(n_events) < 0.9, -0.0133 * rng.random(n_events) * 2, 0.12 * (0.5 + rng.random(n_events)))
    order = np.argsort(name, kind="stable")
    sums = np.cumsum(steps[order])
    first = np.r_[True, name[order][1:] != name[order][:-1]]
    base = np.where(first, sums - steps[order], 0.0)
    base = base[np.maximum.accumulate(np.where(first, np.arange(n_events), 0))]
    price = np.empty(n_events)
    price[order] = 100.0 * np.exp(np.clip(sums - base, -50, 50))
    volume = rng.integers(0, 1_000_000, n_events).astype(np.int64)
    ts = np.cumsum(rng.random(n_events) < 0.5).astype(np.int64)
    return {"name": name, "price": price, "volume": volume, "ts": ts}


def loop(columns: Columns, n_names: int) -> list[Match]:
    running: dict[Any, list[tuple[Any, float, float, int]]] = {}
    fallen: dict[Any, list[tuple[Any, float, float, int]]] = {}
    new_running: list[tuple[Any, float, float, int]] = []
    new_fallen: list[tuple[Any, float, float, int]] = []
    touched: set[Any] = set()
    out = []
    current = None
    rows = zip(*(columns[c].tolist() for c in ("name", "price", "volume", "ts")), strict=True)
    for name, price, volume, ts in rows:
        if ts != current:  # the epoch ends
            if touched:
                for key in touched:
                    running.pop(key, None)
                    fallen.pop(key, None)
                touched.clear()
            if new_running:
                for instance in new_running:
                    running.setdefault(instance[0], []).append(instance)
                new_running = []
            if new_fallen:
                for instance in new_fallen:
                    fallen.setdefault(instance[0], []).append(instance)
                new_fallen = []
            current = ts
        instances = running.get(name)
        if instances is not None:
            touched.add(name)
            for _, highest, lowest, start in instances:
                if price < lowest:
                    new_running.append((name, highest, price, start))
                    if ts - start >= n_names:
                        new_fallen.append((name, highest, price, start))
        instances = fallen.get(name)
        if instances is not None:
            touched.add(name)
            for _, highest, lowest, start in instances:
                if price > 1.05 * lowest:
                    out.append((name, highest, lowest, price, start, ts))
        if volume > THRESHOLD:
            new_running.append((name, price, price, ts))
    return out


def check(matches: pa.Table, expected: list[Match], what: str) -> int:
    """The number of matches, which must be exactly those of the loop."""
    found = sorted(zip(*(column.to_pylist() for column in matches.columns), strict=True))
    if found != sorted(expected):
        raise SystemExit(f"Query 7, {what}: {len(found)} matches differ from the {len(expected)} of the loop")
    return len(found)
