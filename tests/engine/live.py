"""Small streams and queries for the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import keuka

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "n": pa.int64()})
RISES = "SELECT k, n_1 AS low, n AS high FROM S NEXT {$2.k = $1.k AND $2.n > $1.n} S"
ALL = "SELECT n FROM S"
PAIRS = "SELECT n_1 AS s, n AS t FROM S NEXT T"


def rows(*triples: tuple[int, str, int]) -> list[dict[str, Any]]:
    return [{"t": t, "k": k, "n": n} for t, k, n in triples]


def ticks(*times: int) -> list[dict[str, Any]]:
    """Rows whose number is their time."""
    return rows(*[(t, "a", t) for t in times])


def unique(n: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows of which each has a key of its own."""
    return rows(*[(t, f"key {t}", t) for t in range(first, first + n)])


def numbers(matches: keuka.Matches) -> list[int]:
    return [row["n"] for row in matches.to_pylist()]


def raised(call: Callable[[], object]) -> keuka.KeukaError:
    with pytest.raises(keuka.KeukaError) as caught:
        call()
    return caught.value


class HandMovedClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
