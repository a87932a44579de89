"""Workload with very many keys that are text: every event waits for the next one of its name, so nearly every name has an instance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

QUERY = """
SELECT name, at_1 AS since, price_1 AS before, price AS after
FROM FILTER {price > 10 * price_1} (Stock NEXT {$2.name = $1.name} Stock)
PUBLISH Rise;
"""


def generate(n_names: int = 1_000_000, n_events: int = 4_000_000, seed: int = 3) -> pa.Table:
    """at, name, price. All names are there: the first events go through them in random order."""
    rng = np.random.default_rng(seed)
    code = np.concatenate([rng.permutation(n_names), rng.integers(0, n_names, n_events - n_names)])
    names = pa.array([f"account-{i:07d}" for i in range(n_names)])
    return pa.table({"at": np.arange(n_events), "name": names.take(pa.array(code)), "price": 100.0 * rng.random(n_events)})


def check(matches: pa.Table, table: pa.Table) -> None:
    """Found again by sorting: neighbours of the same name whose price rises tenfold."""
    name = table["name"].combine_chunks().dictionary_encode().indices.to_numpy()
    price = table["price"].to_numpy()
    order = np.argsort(name, kind="stable")
    before, after = order[:-1], order[1:]
    rises = (name[before] == name[after]) & (price[after] > 10 * price[before])
    expected = np.stack([before[rises], after[rises]])[:, np.argsort(after[rises])]
    if not np.array_equal(np.stack([matches["since"].to_numpy(), matches["_end"].to_numpy()]), expected):
        raise SystemExit(f"text keys: {matches.num_rows} matches differ from the {expected.shape[1]} found by sorting")
