"""Workload W1: per name, a large trade, at least three falling prices, then at once a price 5 % above the last of them.

One million ticks of 100 names, seeded. The answer is known from several independent engines: 262 matches.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

N_MATCHES = 262
DIGEST = "098d10f5e6d4"  # of the sorted list of (first ts, last ts)

QUERY = """
SELECT name, falls, bottom, price AS final_price
FROM FILTER {price > 1.05 * bottom} (
       (SELECT name, falls, price AS bottom
        FROM FILTER {falls >= 3} (
               (SELECT *, 0 AS falls FROM FILTER {volume > 19800} (Stock))
               FOLD {$2.name = $.name, $2.price < $.price, $.falls + 1 AS falls} Stock))
       NEXT {$2.name = $1.name} Stock)
PUBLISH Rebound;
"""


def generate(n_events: int = 1_000_000, n_names: int = 100, seed: int = 7) -> pa.Table:
    """ts, name, price, volume: a mean-reverting log random walk per name."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, n_names, n_events)
    step = rng.normal(0, 0.04, n_events)
    volume = rng.integers(0, 20001, n_events)
    level = [0.0] * n_names
    price = np.empty(n_events)
    for i, (c, s) in enumerate(zip(code.tolist(), step.tolist(), strict=True)):
        level[c] = 0.99 * level[c] + s
        price[i] = level[c]
    names = pa.DictionaryArray.from_arrays(pa.array(code), [f"S{i:02d}" for i in range(n_names)])
    return pa.table(
        {
            "ts": np.arange(1, n_events + 1),
            "name": names.cast(pa.string()),
            "price": (100.0 * np.exp(price)).round(4),
            "volume": volume,
        }
    )


def digest(matches: pa.Table) -> str:
    pairs = sorted(zip(matches["_start"].to_pylist(), matches["_end"].to_pylist(), strict=True))
    return hashlib.md5(repr(pairs).encode()).hexdigest()[:12]
