"""The workloads of the benchmarks have the answers that are known for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import keuka
from workloads import double_top, k1, k3, mixed_keys, sequences, w1, w2


def test_w1_has_its_262_matches():
    matches = keuka.match(keuka.cel(w1.QUERY), w1.generate(), time="ts")
    assert (matches.num_rows, w1.digest(matches)) == (w1.N_MATCHES, w1.DIGEST)


@pytest.mark.parametrize("n_names", [5, 100, 10_000])
def test_query_7_finds_what_the_plain_python_loop_finds(n_names):
    columns = k1.generate(n_names, n_events=200_000)
    matches = keuka.match(keuka.cel(k1.QUERY), pa.table(columns), time="ts", params=k1.params(n_names))
    expected = k1.loop(columns, n_names)
    assert len(expected) > 100
    assert sorted(zip(*(column.to_pylist() for column in matches.columns), strict=True)) == sorted(expected)


def test_both_forms_of_double_top_agree_where_extrema_do_not_overlap():
    ticks = double_top.generate(n_names=10, n_runs=200)
    by_runs, by_extrema = (keuka.match(path, ticks, time="Time").to_pylist() for path in (double_top.BY_RUNS, double_top.BY_EXTREMA))
    assert len(by_runs) > 100
    assert sorted(map(str, by_runs)) == sorted(map(str, by_extrema))


@pytest.mark.parametrize("workload", [w2.W2, w2.W2_DENSE, w2.W3, w2.W3_AFTER], ids=lambda workload: workload.name)
def test_a_sequence_has_its_known_matches(workload):
    matches = keuka.match(keuka.sase(workload.query), w2.generate(workload), time="ts", type_column="type")
    assert w2.answer(workload, matches) == (workload.n_matches, workload.digest)


@pytest.mark.parametrize("double", [False, True], ids=["integers", "doubles"])
def test_mixed_keys_find_what_counting_finds(double):
    streams = mixed_keys.generate(double)
    assert keuka.match(keuka.sase(mixed_keys.QUERY), streams, time="t").num_rows == mixed_keys.n_matches(streams) > 10


def test_k3_finds_what_the_plain_python_loop_finds():
    columns = k3.generate()
    matches = keuka.match(keuka.sase(k3.QUERY), k3.as_table(columns), time="ts", type_column="type")
    assert k3.check(matches, k3.loop(columns)) == k3.N_MATCHES


@pytest.mark.parametrize("workload", [w2.W2, w2.W2_DENSE, w2.W3, w2.W3_AFTER], ids=lambda workload: workload.name)
def test_sorting_finds_the_known_matches_of_a_sequence(workload):
    events = w2.generate(workload)
    found = sequences.find(events, workload.steps, w2.WINDOW, ["attr1"])
    times = [events["ts"].to_numpy()[rows] for rows in found]
    assert (len(times[0]), sequences.digest(times)) == (workload.n_matches, workload.digest)


def test_sorting_finds_what_the_plain_python_loop_finds_in_k3():
    columns = k3.generate()
    found = sequences.find(k3.as_table(columns), ("A", "B", "C"), k3.WINDOW, ["key"])
    expected = [np.array(column) for column in k3.loop(columns)]
    assert len(found[0]) == k3.N_MATCHES
    assert np.array_equal(k3.in_order(found), k3.in_order(expected))
