"""Workload with a fixed number of live instances: orders wait for a price that does not come, ten orders a name.

First every order arrives, then prices of random names. Each price meets the ten orders of its name, is too low for all of them, and
nothing changes. Only the last ten prices are high enough.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PER_NAME = 10
N_FILLING = 10
ASK, LOW, HIGH = 100.0, 99.0, 101.0

QUERY = """
SELECT name, at_1 AS ordered, price
FROM FILTER {ordered > 0} (Stock) NEXT {$2.name = $1.name AND $2.price > $1.price} Stock
PUBLISH Filled;
"""


def generate(n_instances: int, n_prices: int, seed: int = 5) -> pa.Table:
    """at, name, price, ordered. The orders of a name are not neighbours: they arrive in random order."""
    rng = np.random.default_rng(seed)
    n_names = n_instances // PER_NAME
    orders = rng.permutation(np.repeat(np.arange(n_names), PER_NAME))
    prices = np.concatenate([rng.integers(0, n_names, n_prices - N_FILLING), rng.choice(n_names, N_FILLING, replace=False)])
    price = np.repeat([ASK, LOW, HIGH], [n_instances, n_prices - N_FILLING, N_FILLING])
    ordered = np.repeat([1, 0], [n_instances, n_prices])
    return pa.table({"at": np.arange(n_instances + n_prices), "name": np.concatenate([orders, prices]), "price": price, "ordered": ordered})


def check(matches: pa.Table, table: pa.Table) -> None:
    """All orders of the last ten names are filled, and no others."""
    name = table["name"].to_numpy()
    ordered = np.flatnonzero(table["ordered"].to_numpy())
    filled = ordered[np.isin(name[ordered], name[-N_FILLING:])]
    if not np.array_equal(np.sort(matches["ordered"].to_numpy()), filled):
        raise SystemExit(f"waiting orders: {matches.num_rows} were filled, not the {len(filled)} of the last {N_FILLING} names")
