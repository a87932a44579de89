"""Memory follows what can still match: instances, strings, pass-through values and contributors are let go, and users can see it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import keuka
from keuka.query import prepare
from keuka.run import embedded, held_rows

SCHEMA = pa.schema([("t", pa.int64()), ("key", pa.string()), ("n", pa.int64()), ("tags", pa.list_(pa.int64()))])
N_BATCHES, N_ROWS = 60, 5_000


def unique_keys() -> Iterator[pa.RecordBatch]:
    """300,000 events, each with a key that no other has, but for every thousandth, which repeats the key of ten events before."""
    for number in range(N_BATCHES):
        rows = np.arange(number * N_ROWS, (number + 1) * N_ROWS)
        keys = np.where(rows % 1000 == 0, rows - 10, rows)
        tags = pa.array([[int(row)] for row in rows], pa.list_(pa.int64()))
        yield pa.record_batch([pa.array(rows), pa.array([f"key-{k}" for k in keys.tolist()]), pa.array(rows % 7), tags], schema=SCHEMA)


def reader() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, unique_keys())


def progress_of(query: str, contributors: bool = False) -> tuple[list[embedded.Progress], list[dict[str, object]]]:
    prepared = prepare(query, keuka.Stream(reader(), time="t"), contributors=contributors)
    seen: list[embedded.Progress] = []
    matches = [row for batch in embedded.run(prepared.tables, prepared.opened, on_progress=seen.append) for row in batch.rows.to_pylist()]
    assert seen[-1].n_events == N_BATCHES * N_ROWS
    return seen, matches


def test_a_window_bounds_instances_and_strings():
    seen, matches = progress_of("SELECT key, n_1, n FROM S NEXT {$2.key = $1.key AND DUR <= 100} S")
    assert [row["_end"] for row in matches] == list(range(1000, N_BATCHES * N_ROWS, 1000))
    assert all(row["key"] == f"key-{row['_start']}" for row in matches)
    assert max(p.n_instances for p in seen) <= seen[-1].most_instances <= 2_100
    assert max(p.n_bytes for p in seen) < 12_000_000
    assert seen[-1].n_bytes <= max(p.n_bytes for p in seen[: N_BATCHES // 2])


def test_a_window_of_the_filter_above_bounds_instances_too():
    seen, matches = progress_of("SELECT key FROM FILTER {DUR < 101} (S NEXT {$2.key = $1.key} S)")
    assert len(matches) == N_BATCHES * N_ROWS // 1000 - 1
    assert max(p.n_instances for p in seen) <= 2_100


def test_without_a_window_instances_stay():
    seen, _ = progress_of("SELECT key FROM S NEXT {$2.key = $1.key} S")
    assert seen[-1].n_instances > 0.99 * N_BATCHES * N_ROWS


def test_values_that_pass_through_are_right_after_many_sweeps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(held_rows, "LEAST_CARRIED", 2_000)
    held: list[int] = []
    forget = held_rows.HeldRows.forget

    def watched(rows: held_rows.HeldRows) -> None:
        forget(rows)
        held.append(sum([len(column) for column in rows.columns]) + len(rows.contributors))

    monkeypatch.setattr(held_rows.HeldRows, "forget", watched)
    query = "SELECT tags_1, tags FROM S NEXT {$2.key = $1.key AND DUR <= 100} S"
    _, matches = progress_of(query, contributors=True)
    assert [(row["tags_1"], row["tags"]) for row in matches] == [([t - 10], [t]) for t in range(1000, N_BATCHES * N_ROWS, 1000)]
    assert all(len(row["_contributors"]) == 2 for row in matches)
    assert len({row["_id"] for row in matches}) == len(matches)
    assert max(held) < 60_000


def test_texts_made_by_the_query_survive_sweeps():
    query = "SELECT label, key FROM (SELECT *, concat('<', upper(key), '>') AS label FROM S) NEXT {$2.key = $1.key AND DUR <= 50} S"
    _, matches = progress_of(query)
    assert [row["label"] for row in matches] == [f"<KEY-{t - 10}>" for t in range(1000, N_BATCHES * N_ROWS, 1000)]
