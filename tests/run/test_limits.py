"""Limits of a call: memory, seconds, matches. What a query takes is bounded also inside one step."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka
from keuka.cli import main
from keuka.run import limits
from keuka.run.limits import Limits, default_memory

TEN = ", ".join([f"S a{i}" for i in range(10)])
NEVER = " + ".join([f"a{i}.n" for i in range(10)]) + " < 0"


def test_threads_share_the_limit():
    data = pa.table({"t": range(400_000), "n": range(400_000)})
    with pytest.raises(keuka.DataError, match="K518"):
        keuka.match("SELECT n FROM S NEXT {$2.n = $1.n} S", data, time="t", threads=2, limits=Limits(memory="20 MB"))


@pytest.mark.parametrize(
    ("query", "n_rows"),
    [
        (keuka.sase(f"SEQ({TEN}) WHERE {NEVER}"), 2_000),
        (keuka.cel("SELECT n FROM S NEXT {$2.n < $1.n} S"), 200_000),
        (keuka.sase("SEQ(S a, !S b, S c) WHERE b.n < 0 AND a.n > c.n"), 20_000),
    ],
)
def test_a_query_that_never_ends_is_stopped_in_time(query: keuka.Query, n_rows: int):
    began = time.monotonic()
    with pytest.raises(keuka.DataError, match="has run for 1 s, its limit"):
        keuka.match(query, pa.table({"t": range(n_rows), "n": range(n_rows)}), time="t", limits=Limits(seconds=1))
    assert time.monotonic() - began < 10


def test_intervals_that_follow_nothing_are_interrupted_by_the_clock_too():
    """Every event overlaps with all before it: 20 billion times one is passed by, and no program runs."""
    data = pa.table({"a": [0] * 200_000, "b": range(200_000)})
    with pytest.raises(keuka.DataError, match="its limit"):
        keuka.match("SELECT a FROM S NEXT {$2.b > $1.b} S", data, time=("a", "b"), limits=Limits(seconds=1))


def test_one_match_too_many_is_an_error_and_as_many_as_allowed_are_not():
    data = [{"t": t, "n": t} for t in range(9)]
    assert keuka.match("SELECT n FROM S NEXT S", data, time="t", limits=Limits(matches=8)).num_rows == 8
    with pytest.raises(keuka.DataError, match="more than 7 matches"):
        keuka.match("SELECT n FROM S NEXT S", data, time="t", limits=Limits(matches=7))
    with pytest.raises(keuka.DataError, match="more than 7 matches"):
        keuka.match_all("SELECT n FROM S NEXT S PUBLISH A; FROM A PUBLISH B", data, time="t", limits=Limits(matches=7))


def test_rows_that_wait_for_late_ones_count(tmp_path: Path):
    pq.write_table(pa.table({"t": range(400_000), "n": range(400_000)}), tmp_path / "ticks.parquet")
    stream = keuka.Stream(tmp_path / "ticks.parquet", time="t", lateness=10**9)
    with pytest.raises(keuka.DataError, match="wait to be brought into order"):
        keuka.match("SELECT n FROM S", stream, limits=Limits(memory="1 MB"))
    with pytest.raises(keuka.DataError, match="wait to be brought into order"):
        keuka.match("SELECT n FROM S", keuka.Stream(tmp_path / "ticks.parquet", time="t", sort=True), limits=Limits(memory="1 MB"))


def test_matches_that_a_call_collects_count_but_not_those_that_are_written():
    data = pa.table({"t": range(3_000)})
    everything = keuka.sase("SEQ(S a, S b)")
    with pytest.raises(keuka.DataError, match="the matches take more memory"):
        keuka.match(everything, data, time="t", limits=Limits(memory="20 MB"))


def test_memory_of_a_burst_is_given_back():
    engine = keuka.Engine(time="t", memory_limit="150 MB")
    engine.add("FROM S UNION S PUBLISH A; FROM A UNION A PUBLISH B; FROM B UNION B PUBLISH C", name="doubling", outputs=["C"])
    assert len(engine.push("S", pa.table({"t": [1] * 60_000 + [2]}))) == 480_000
    assert engine._live.runner is not None
    burst = engine._live.runner.n_allocated
    for t in range(3, 6):
        engine.push("S", [{"t": t}])
    assert engine._live.runner.n_allocated < burst / 8


@pytest.mark.parametrize(
    "given", [{"memory": "4 parrots"}, {"memory": -1}, {"memory": True}, {"seconds": 0}, {"matches": 1.5}, {"matches": 0}]
)
def test_limits_that_are_none_are_refused(given: dict[str, object]):
    with pytest.raises(keuka.DataError, match="K515"):
        Limits(**given)  # type: ignore[arg-type]


def test_limits_of_another_kind_are_a_type_error():
    with pytest.raises(TypeError, match=r"limits must be a keuka\.Limits, not dict"):
        keuka.match("SELECT n FROM S", [{"t": 1, "n": 1}], time="t", limits={"memory": "1 GB"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("groups", "file", "folder"),
    [("0::/job\n", "memory.max", "job"), ("7:cpu:/x\n5:memory:/job/inner\n", "memory.limit_in_bytes", "memory/job")],
)
def test_the_default_is_half_of_what_the_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, file: str, folder: str
):
    (tmp_path / folder / "inner").mkdir(parents=True)
    (tmp_path / folder / file).write_text("500000000\n")
    (tmp_path / file).write_text("max\n")
    (tmp_path / "cgroup").write_text(groups)
    monkeypatch.setattr(limits, "CGROUPS", tmp_path)
    monkeypatch.setattr(limits, "OWN_GROUPS", tmp_path / "cgroup")
    default_memory.cache_clear()
    try:
        assert default_memory() == Limits().n_bytes == 250_000_000
    finally:
        default_memory.cache_clear()


def test_the_sum_that_steps_keep_up_to_date_is_what_measuring_finds():
    engine = keuka.Engine(time="t")
    engine.add("SELECT concat(k, 'x') AS c FROM S NEXT {$2.k = $1.k AND DUR < 50} S", name="cel", contributors=True)
    engine.add(keuka.sase("SEQ(S a, !S b, S c) WHERE [k] WITHIN 90"), name="sase")
    engine.add("SELECT n FROM FILTER {n % 7 = 0} (S) FOLD {$2.n > $.n, TRUE} S", name="fold")
    for first in range(0, 5_000, 500):
        engine.push("S", [{"t": t // 3, "k": f"{t % 40}", "n": t % 11} for t in range(first, first + 500)])
        assert engine._live.runner is not None
        machine = engine._live.runner.machines[0]
        kept = machine.n_allocated
        machine.forest.version += 1
        assert machine.n_allocated == kept


def test_the_command_line_and_pipelines_have_the_same_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pq.write_table(pa.table({"t": range(200), "n": range(200)}), tmp_path / "ticks.parquet")
    (tmp_path / "pairs.sase").write_text("SEQ(S a, S b)")
    arguments = ["match", str(tmp_path / "pairs.sase"), str(tmp_path / "ticks.parquet"), "--time", "t"]
    assert main([*arguments, "--max-matches", "100"]) == 3
    said = capsys.readouterr().err
    assert "the query has more than 100 matches, its limit" in said
    assert "or raise the limit: `--max-matches ...`" in said
    assert main([*arguments, "--max-memory", "4 GB", "--max-seconds", "60", "--max-matches", "19900"]) == 0
    assert main([*arguments, "--max-memory", "much"]) == 3
    assert "is not an amount of memory" in capsys.readouterr().err
    (tmp_path / "pipeline.toml").write_text(
        '[streams.S]\nformat = "parquet"\npath = "ticks.parquet"\ntime = "t"\n[[queries]]\nfile = "pairs.sase"\n'
        '[[sinks]]\nformat = "parquet"\npath = "out"\n[limits]\nmatches = 100\nmemory = "1 GB"\n'
    )
    assert main(["run", str(tmp_path / "pipeline.toml"), "--embedded"]) == 3
    assert "`matches = ...` below `[limits]`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "pipeline.toml").write_text((tmp_path / "pipeline.toml").read_text() + "seconds = -1\n")
    assert main(["check", str(tmp_path / "pipeline.toml"), "--embedded"]) == 2
    assert "`seconds` must be a number above 0" in capsys.readouterr().err
