"""Rows between arrival and epoch: late ones, how steps are cut, and how often rows are copied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keuka.events.frontiers import BEGINNING, INFINITE, MANY_RUNS, Arrivals, EventBatch, Frontiers, event_batch, late_rows
from keuka.events.sources import OpenStream, Stream, open_stream


def opened(name: str = "S", lateness: int = 0) -> OpenStream:
    return open_stream(name, Stream(pa.schema({"n": pa.int64()}).empty_table(), time="n", lateness=lateness))


def batch(ends: list[int], first: int = 0) -> EventBatch:
    end = np.array(ends, dtype=np.int64)
    return event_batch(opened(), end, end, range(first, first + len(ends)), pa.record_batch({"n": end}))


def given_out(frontiers: Frontiers, frontier: int, **options: int) -> list[list[int]]:
    steps = []
    while step := frontiers.step(frontier, **options):
        steps.append([end for found in step.values() for end in found.end.tolist()])
    return steps


def test_a_row_at_the_frontier_is_not_late_and_one_before_it_is():
    arrivals = Arrivals(opened(lateness=3))
    assert arrivals.push(batch([10])) is None
    assert arrivals.frontier == 7
    assert arrivals.push(batch([7, 6, 12, 9, 8])).tolist() == [1, 4]
    assert [run.end.tolist() for run in arrivals.runs] == [[10], [7, 9, 12]]


def test_a_floor_makes_rows_late_that_the_stream_itself_would_allow():
    arrivals = Arrivals(opened(lateness=100))
    assert arrivals.push(batch([5, 10, 20]), floor=10).tolist() == [0]
    assert arrivals.push(batch([5]), floor=10).tolist() == [0]
    assert arrivals.n_held == 2
    assert arrivals.frontier == -80


def test_late_rows_move_the_frontier_no_less_than_others():
    arrivals = Arrivals(opened())
    assert arrivals.push(batch([5]), floor=10).tolist() == [0]
    assert arrivals.frontier == 5


def test_nothing_can_come_after_the_end_of_time():
    arrivals = Arrivals(opened())
    arrivals.promise(INFINITE)
    assert arrivals.push(batch([2**63 - 1])).tolist() == [0]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(0, 20), st.integers(0, 8))
def test_late_rows_are_those_behind_the_largest_before_them(ends: list[int], bound: int, lateness: int):
    found = late_rows(np.array(ends), bound, lateness)
    expected = [i for i, end in enumerate(ends) if end < max([bound, *[e - lateness for e in ends[:i]]])]
    assert ([] if found is None else found.tolist()) == expected


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=9), max_size=40), st.integers(0, 60))
def test_rows_come_out_in_order_however_many_runs_wait(pushes: list[list[int]], frontier: int):
    arrivals = Arrivals(opened(lateness=60))
    n_pushed = 0
    for ends in pushes:
        assert arrivals.push(batch(ends, n_pushed)) is None
        n_pushed += len(ends)
    rows = sorted([(end, i) for i, end in enumerate([end for ends in pushes for end in ends])])
    found = arrivals.take(frontier)
    complete = [row for row in rows if row[0] < frontier]
    assert ([] if found is None else list(zip(found.end.tolist(), list(found.rows), strict=True))) == complete
    assert arrivals.n_held == len(rows) - len(complete)
    rest = arrivals.take(INFINITE)
    assert ([] if rest is None else list(zip(rest.table["n"].to_pylist(), list(rest.rows), strict=True))) == rows[len(complete) :]


def test_many_small_batches_become_few_runs():
    arrivals = Arrivals(opened(lateness=10**6))
    for i in range(5_000):
        arrivals.push(batch([i], i))
    assert arrivals.n_held == 5_000
    assert len(arrivals.runs) <= MANY_RUNS + 12  # one more for every doubling
    assert all(len(run.pieces) == 1 for run in arrivals.runs)
    assert [end for run in arrivals.runs for end in run.end.tolist()] == list(range(5_000))


def test_steps_are_cut_after_whole_epochs():
    frontiers = Frontiers([opened("S"), opened("T")])
    frontiers.arrivals["S"].push(batch([1, 2, 2, 2, 3, 4]))
    frontiers.arrivals["T"].push(batch([2, 4]))
    assert given_out(frontiers, 4, most_rows=2) == [[1, 2, 2, 2, 2], [3]]
    assert frontiers.time == 4
    assert given_out(frontiers, INFINITE) == [[4, 4]]


def test_time_stops_where_a_step_ends():
    frontiers = Frontiers([opened()])
    frontiers.arrivals["S"].push(batch([1, 2, 3, 4]))
    assert [step.end.tolist() for step in frontiers.step(4, most_rows=2).values()] == [[1, 2]]
    assert frontiers.time == 3
    assert frontiers.arrivals["S"].n_held == 2


def test_time_never_goes_back():
    frontiers = Frontiers([opened()])
    assert (frontiers.time, frontiers.step(7), frontiers.time) == (BEGINNING, {}, 7)
    assert (frontiers.step(5), frontiers.time) == ({}, 7)


@pytest.mark.parametrize(("few_rows", "expected"), [(0, [[0, 1], [2], [3, 4]]), (100, [[0, 1], [2, 3, 4]])])
def test_few_rows_are_copied_to_leave_in_one_step_instead_of_two(few_rows: int, expected: list[list[int]]):
    frontiers = Frontiers([opened()], few_rows)
    steps = []
    for ends in ([0, 1, 2], [3, 4, 5]):
        frontiers.arrivals["S"].push(batch(ends))
        steps += given_out(frontiers, frontiers.arrivals["S"].frontier)
    assert steps == expected


def test_streams_nobody_reads_are_passed_over():
    frontiers = Frontiers([opened("S"), opened("T")])
    frontiers.arrivals["S"].push(batch([1, 2]))
    frontiers.arrivals["T"].push(batch([1, 3]))
    assert list(frontiers.step(3, wanted={"S"})) == ["S"]
    assert frontiers.step(3, wanted={"S"}) == {}
    assert frontiers.arrivals["T"].n_held == 1
