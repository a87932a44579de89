"""Workload Double-Top: prices that move in monotone runs between lows near 100 and highs near 125, so that the pattern is common.

The two queries are the ones in `examples/`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_RUNS = EXAMPLES / "double_top.cel"
BY_EXTREMA = EXAMPLES / "double_top_extrema.cel"


def generate(n_names: int = 100, n_runs: int = 1_000, seed: int = 11) -> pa.Table:
    """Time, Name, Price, Volume; the names take turns, and a run has 4 to 11 prices."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, n_runs)
    turns = np.concatenate([[0], np.cumsum(lengths)])
    n_steps = int(turns[-1])
    level = np.where(np.arange(n_runs + 1) % 2 == 0, 100.0, 125.0)
    extrema = level * np.exp(rng.normal(0, 0.04, (n_names, n_runs + 1)))
    price = np.stack([np.interp(np.arange(n_steps), turns, row) for row in extrema])
    names = pa.DictionaryArray.from_arrays(np.tile(np.arange(n_names, dtype=np.int32), n_steps), [f"S{i:03d}" for i in range(n_names)])
    return pa.table(
        {
            "Time": np.arange(n_names * n_steps),
            "Name": names.cast(pa.string()),
            "Price": price.T.ravel(),
            "Volume": rng.integers(1, 10_000, n_names * n_steps),
        }
    )
