"""Workload K3: SEQ(A, B, C) over 2M events with 1000 keys, seeded, and the plain-Python loop it is compared with.

The loop is what a careful Python programmer would write for this one query: stacks of A and B for each key, each B remembering how
many A came before it. It has the types as integers, the engine as text. Both must find the same matches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workloads.w2 import N_TYPES, type_names

N_EVENTS = 2_000_000
N_KEYS = 1000
N_MATCHES = 1_217_267
SEED = 20240610
WINDOW = 50_000  # an A that is exactly as old still counts

Columns = dict[str, npt.NDArray[Any]]
Matches = tuple[list[int], list[int], list[int]]  # row numbers of A, B, C

QUERY = f"SEQ(A a, B b, C c) WHERE [key] WITHIN {WINDOW + 1} RETURN a.id AS a_id, b.id AS b_id, c.id AS c_id"


def generate() -> Columns:
    """type (a code), key, ts; about two events an epoch."""
    rng = np.random.default_rng(SEED)
    keys = rng.choice(2**40, N_KEYS, replace=False).astype(np.int64)
    code = rng.integers(0, N_TYPES, N_EVENTS).astype(np.int32)
    key = keys[rng.integers(0, N_KEYS, N_EVENTS)]
    ts = np.cumsum(rng.random(N_EVENTS) < 0.5).astype(np.int64)
    return {"type": code, "key": key, "ts": ts}


def as_table(columns: Columns) -> pa.Table:
    """The events as the engine gets them: types as text, and the row number as id."""
    return pa.table({**columns, "type": type_names(columns["type"]), "id": np.arange(len(columns["ts"]))})


def loop(columns: Columns) -> Matches:
    stacks: dict[int, list[Any]] = {}  # per key: stack of A, how many have left it, stack of B
    found_a: list[int] = []
    found_b: list[int] = []
    found_c: list[int] = []
    row = -1
    for code, key, ts in zip(*(columns[name].tolist() for name in ("type", "key", "ts")), strict=True):
        row += 1
        if code > 2:
            continue
        stack = stacks.get(key)
        if stack is None:
            stack = stacks[key] = [[], 0, []]
        stack_a, n_left, stack_b = stack
        oldest = ts - WINDOW
        n_old = 0
        while n_old < len(stack_a) and stack_a[n_old][0] < oldest:
            n_old += 1
        if n_old:
            del stack_a[:n_old]
            n_left = stack[1] = n_left + n_old
        if code == 0:
            stack_a.append((ts, row))
        elif code == 1:
            n_old = 0
            while n_old < len(stack_b) and stack_b[n_old][0] < oldest:
                n_old += 1
            if n_old:
                del stack_b[:n_old]
            if stack_a:
                stack_b.append((ts, row, n_left + len(stack_a) - 1))
        else:
            for i in range(len(stack_b) - 1, -1, -1):
                ts_b, row_b, last_a = stack_b[i]
                if ts_b < oldest:
                    break
                if ts_b >= ts:
                    continue
                for j in range(last_a - n_left, -1, -1):
                    ts_a, row_a = stack_a[j]
                    if ts_a < ts_b:
                        found_a.append(row_a)
                        found_b.append(row_b)
                        found_c.append(row)
    return found_a, found_b, found_c


def check(matches: pa.Table, expected: Matches) -> int:
    """The number of matches, which must be exactly those of the loop."""
    found = in_order([matches[name].to_numpy() for name in ("a_id", "b_id", "c_id")])
    if len(expected[0]) != N_MATCHES or not np.array_equal(found, in_order([np.array(column) for column in expected])):
        raise SystemExit(f"K3: {matches.num_rows:,} matches differ from the {len(expected[0]):,} of the loop, or from {N_MATCHES:,}")
    return int(matches.num_rows)


def in_order(columns: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.stack(columns)[:, np.lexsort(columns)]
