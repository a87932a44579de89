"""The matches of a sequence, found with nothing but sorting and binary search: what the engines' answers are compared with.

All events of one type and one key lie next to each other in order of time, so the events that may follow are one slice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]


def find(events: pa.Table, steps: Sequence[str], window: int, keys: Sequence[str], kept: dict[str, Any] | None = None) -> list[Ints]:
    """Row numbers of the matches, one array for each step that is not an absence.

    steps: types in their order, the first one present; `!B` is an absence of B.
    window: the longest time from the first event to the last; an absence at the end lasts as long as it does.
    keys: columns whose values are the same in all events.
    kept: for a type, which rows may be its events.
    """
    ts = events["ts"].to_numpy()
    stride = int(ts.max()) + window + 1
    place = key_codes(events, keys) * stride + ts

    def sorted_rows(step: str) -> Ints:
        of_type = pc.equal(events["type"], step).to_numpy()
        rows = np.flatnonzero(of_type & kept[step] if kept and step in kept else of_type)
        return rows[np.argsort(place[rows], kind="stable")]

    found = [sorted_rows(steps[0])]
    absent: Ints | None = None  # places of the events that must not come before the next step
    for step in steps[1:]:
        if step.startswith("!"):
            absent = place[sorted_rows(step[1:])]
            continue
        rows = sorted_rows(step)
        low = np.searchsorted(place[rows], place[found[-1]], "right")
        high = np.searchsorted(place[rows], place[found[0]] + window, "right")
        owner, following = expand(low, high)
        found = [column[owner] for column in found] + [rows[following]]
        if absent is not None:
            none = np.searchsorted(absent, place[found[-1]], "left") == np.searchsorted(absent, place[found[-2]], "right")
            found, absent = [column[none] for column in found], None
    if absent is not None:
        none = np.searchsorted(absent, place[found[0]] + window, "right") == np.searchsorted(absent, place[found[-1]], "right")
        found = [column[none] for column in found]
    return found


def key_codes(events: pa.Table, keys: Sequence[str]) -> Ints:
    """A small number for each combination of values."""
    codes = np.zeros(events.num_rows, np.int64)
    for key in keys:
        values, code = np.unique(events[key].to_numpy(), return_inverse=True)
        codes = codes * len(values) + code
    return codes


def expand(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Every i with every number from low[i] up to, not including, high[i]."""
    counts = high - low
    owner = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - before[owner] + low[owner]


def digest(columns: Sequence[Ints]) -> str:
    """Of the sorted list of matches, each a tuple of times, whatever order they came in."""
    matches = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return hashlib.md5(repr(matches).encode()).hexdigest()[:12]
