"""Pipelines over streams that go on: what their sinks hold in the end is what a bounded run over the same files writes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka
from keuka.cli import main
from keuka.pipelines import Batch, Input, Queries, RunSettings, Sink, SparkSettings
from workloads import w1, w2

QUERY = "SELECT name, price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S PUBLISH Rises"
HEADER = "at,name,price"
ROWS = ["1,a,1", "2,b,5", "3,a,2", "4,b,9", "3,c,4", "5,c,1", "6,a,7", "9,c,8", "12,b,1"]
ENDS = RunSettings(mode="streaming", checkpoint="checkpoint", trigger="available_now")
GOES_ON = RunSettings(mode="streaming", checkpoint="checkpoint")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    return tmp_path


def arrive(number: int, *rows: str) -> None:
    """A file comes into the directory, whole from the first moment on."""
    path = Path(f"{number:03}.csv")
    path.write_text("\n".join([HEADER, *rows, ""]))
    os.utime(path, (1_000 + number, 1_000 + number))  # Spark takes the older ones first
    path.rename(Path("in") / path)


def pipeline(*sinks: Sink, run: RunSettings = ENDS, query: str = QUERY, format: str = "csv", **stream: Any) -> keuka.Pipeline:
    given = {"path": "in", "time": "at", "options": {"maxFilesPerTrigger": 1}, "lateness": 1, **stream}
    return keuka.Pipeline({"S": Input(format, **given)}, [Queries(text=query)], sinks, run, SparkSettings(shards=2))


def batches_of(path: str) -> list[str]:
    return sorted([folder.name for folder in Path(path).iterdir() if folder.name.startswith("batch=")])


def rows_of(path: str) -> list[dict[str, Any]]:
    """All rows of a sink of JSON, whatever micro-batch they are of."""
    files = [file for file in Path(path).rglob("*.json") if not file.name.startswith(("_", "."))]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted([json.dumps(row) for row in rows])


def test_a_run_to_the_end_writes_what_a_bounded_run_writes():
    for i in range(0, len(ROWS), 2):
        arrive(i, *ROWS[i : i + 2])
    batches: list[Batch] = []
    said = pipeline(Sink("json", path="out")).run(on_batch=batches.append)
    bounded = pipeline(Sink("json", path="bounded"), run=RunSettings(), options={}).run(embedded=True)
    assert in_order(rows_of("out")) == in_order(rows_of("bounded"))
    assert (said.read, said.matches, said.rejected) == (bounded.read, bounded.matches, bounded.rejected)
    assert [batch.read["S"] for batch in batches] == [2, 2, 2, 2, 1, 0]
    assert [batch.time for batch in batches] == [1, 3, 4, 8, 11, None]
    assert sum([batch.matches["Rises"] for batch in batches]) == said.matches["Rises"]
    assert batches[-1].n_waiting == 0
    # A micro-batch without matches leaves no directory.
    assert batches_of("out") == [f"batch={batch.number}" for batch in batches if batch.matches["Rises"]]


def test_the_end_of_the_streams_is_an_end():
    """A second run of the same checkpoint finds nothing new, and says of rows that come now that they are late."""
    arrive(0, *ROWS)
    pipeline(Sink("json", path="out")).run()
    before = in_order(rows_of("out"))
    arrive(1, "20,a,9", "21,a,10")
    batches: list[Batch] = []
    said = pipeline(Sink("json", path="out")).run(on_batch=batches.append)
    assert (said.matches, sum([batch.late for batch in batches])) == ({"Rises": 0}, 2)
    assert in_order(rows_of("out")) == before


def test_late_and_rejected_rows_go_to_their_sinks():
    arrive(0, *ROWS[:4])
    arrive(1, "30,a,1", "", "x,a,2", ",b,3")
    arrive(2, "5,late,7", "31,a,2")
    sinks = [Sink("json", path="out"), Sink("json", of="late", path="late"), Sink("json", of="rejected", path="rejected")]
    said = pipeline(*sinks, query=QUERY, schema="at BIGINT, name STRING, price DOUBLE").run()
    (late,) = rows_of("late")
    assert (late["at"], late["name"], late["price"], late["_stream"]) == (5, "late", 7.0, "S")
    assert late["_reason"] == "later than its stream's lateness allows"
    rejected = sorted([(row["at"] or "", row["_reason"], Path(row["_file"]).name) for row in rows_of("rejected")])
    assert rejected == [("", "no time", "001.csv"), ("x", "`at` is `x`, not an integer", "001.csv")]
    assert said.rejected == {"S": 2}
    assert {(row["low"], row["high"]) for row in rows_of("out")} == {(1.0, 2.0), (5.0, 9.0), (1.0, 2.0)}


def test_a_bad_row_ends_the_run_with_its_file():
    arrive(0, *ROWS[:4])
    arrive(1, "oops,a,2")
    with pytest.raises(keuka.DataError) as caught:
        pipeline(Sink("json", path="out"), schema="at BIGINT, name STRING, price DOUBLE").run()
    assert caught.value.code == "K509"
    text = str(caught.value)
    assert "a row is no event: `at` is `oops`, not an integer\n  stream `S`, " in text
    assert "in/001.csv\n = help: to go on without such rows, reject them" in text
    said = pipeline(Sink("json", path="out"), schema="at BIGINT, name STRING, price DOUBLE", on_bad_row="reject").run()
    assert (said.rejected, said.matches) == ({"S": 1}, {"Rises": 2})


def test_a_bad_row_of_json_ends_the_run_with_its_text():
    Path("in/000.json").write_text('{"at": 1, "name": "a", "price": 2.0}\n')
    Path("in/001.json").write_text('{"at": 2, "name": "a", "price": "oops"}\n')
    with pytest.raises(keuka.DataError) as caught:
        pipeline(Sink("json", path="out"), format="json", schema="at BIGINT, name STRING, price DOUBLE").run()
    assert "error[K509]: a row is no event: `price` is `oops`, not a number\n  stream `S`, " in str(caught.value)


def test_several_streams_and_outputs_of_which_one_is_shown(capsys: pytest.CaptureFixture[str]):
    arrive(0, *ROWS)
    Path("limits.csv").write_text("at,name,price\n0,a,3\n0,b,6\n")
    above = "SEQ(Limits l, S s) WHERE [name] AND s.price > l.price RETURN s.name AS name, s.price AS price PUBLISH Above"
    Path("above.sase").write_text(above)
    Path("rises.cel").write_text(QUERY)
    Path("pipeline.toml").write_text("""
[streams.S]
format = "csv"
path = "in"
time = "at"
lateness = 3

[streams.Limits]
format = "csv"
path = "limits.csv"
time = "at"

[[queries]]
file = "rises.cel"

[[queries]]
file = "above.sase"

[[sinks]]
of = "Rises"
format = "parquet"
path = "out/rises"

[[sinks]]
of = "Above"
format = "console"

[[sinks]]
of = "metrics"
format = "json"
path = "out/metrics"

[run]
mode = "streaming"
checkpoint = "checkpoint"
trigger = "available_now"

[spark]
shards = 2
""")
    assert main(["run", "pipeline.toml"]) == 0
    shown = capsys.readouterr()
    assert "Above: 1 match" in shown.out or "Above: 2 matches" in shown.out
    lines = [line for line in shown.err.splitlines() if line.startswith("micro-batch ")]
    assert lines[0].startswith("micro-batch 0: 11 rows (")
    assert "waiting for `Limits`" in lines[0]
    assert lines[1].startswith("micro-batch 1: 0 rows (0/s), ")
    assert shown.err.splitlines()[-1].startswith("7 matches, 11 rows read, ")
    assert pq.read_table("out/rises").num_rows == 5
    told = {(row["kind"], row["name"]): 0 for row in rows_of("out/metrics")}
    for row in rows_of("out/metrics"):
        told[row["kind"], row["name"]] += row["rows"]
    assert told == {("matches", "Rises"): 5, ("matches", "Above"): 2}


def test_a_sink_knows_its_checkpoint():
    arrive(0, *ROWS)
    pipeline(Sink("json", path="out")).run()
    other = RunSettings(mode="streaming", checkpoint="other", trigger="available_now")
    for mode, message in (("error", "exists already"), ("append", "has micro-batches of another checkpoint")):
        with pytest.raises(keuka.PipelineError, match=message) as caught:
            pipeline(Sink("json", path="out", mode=mode), run=other).run()
        assert caught.value.code == "K606"
    Path("out/batch=0/stale").touch()
    pipeline(Sink("json", path="out", mode="overwrite"), run=other).run()
    assert not Path("out/batch=0/stale").exists()
    assert len(rows_of("out")) == 5


def test_a_sink_that_another_run_has_taken_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """Otherwise a run would take directories of the other one for its own from before a crash, and leave its rows out."""
    from keuka.spark import streaming_pipelines

    arrive(0, *ROWS)
    write = streaming_pipelines._Target.write

    def take_it_before(self: Any, rows: Any, batch_id: int) -> None:
        pipeline(Sink("json", path="out", mode="overwrite"), run=RunSettings(), options={}).run(embedded=True)
        write(self, rows, batch_id)

    monkeypatch.setattr(streaming_pipelines._Target, "write", take_it_before)
    with pytest.raises(keuka.KeukaError, match=r"K606.*the sink does not belong to this run any more"):
        pipeline(Sink("json", path="out")).run()
    assert len(rows_of("out")) == 5
    monkeypatch.setattr(streaming_pipelines._Target, "write", write)
    pipeline(Sink("json", path="other")).run()
    assert in_order(rows_of("out")) == in_order(rows_of("other"))


def test_paths_may_change_their_order_and_nothing_else():
    Path("more").mkdir()
    arrive(0, *ROWS[:5])
    arrive(1, *ROWS[5:])
    os.rename("in/001.csv", "more/001.csv")

    def run(n_rows: int, *paths: str) -> None:
        """Until so many rows were read, and no more come."""
        streams = {"S": Input("csv", paths=paths, time="at", lateness=20)}
        batches: list[Batch] = []

        def stop(batch: Batch) -> None:
            batches.append(batch)
            if sum([batch.read["S"] for batch in batches]) >= n_rows:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            keuka.Pipeline(streams, [Queries(text=QUERY)], [Sink("json", path="out")], GOES_ON, SparkSettings(shards=2)).run(on_batch=stop)
        assert sum([batch.read["S"] for batch in batches]) == n_rows

    run(9, "more", "in")
    Path("in/new.csv").write_text(f"{HEADER}\n13,b,3\n")
    run(1, "in", "more")
    with pytest.raises(keuka.DataError, match=r"K557.*other paths of `S`"):
        run(0, "in")


def test_a_micro_batch_has_a_limit_unless_the_pipeline_says_otherwise():
    from keuka.pipelines.checking import arriving_options

    limit = {"maxBytesPerTrigger": str(2**28)}
    assert arriving_options(Input("csv", path="in")) == limit
    assert arriving_options(Input("csv", path="in", options={"latestFirst": True})) == {"latestFirst": "true"} | limit
    assert arriving_options(Input("csv", path="in", options={"maxfilespertrigger": 3})) == {"maxfilespertrigger": "3"}
    assert arriving_options(Input("rate")) == {}


def test_a_shard_that_holds_too_much_says_what_would_help():
    rows = [f"{i},{i},{i}" for i in range(50_000)]
    arrive(0, *rows)
    sink, settings = Sink("json", path="out"), SparkSettings(shards=2)
    streams = {"S": Input("csv", path="in", time="at")}
    given = keuka.Pipeline(streams, [Queries(text=QUERY)], [sink], ENDS, settings, keuka.Limits(memory="1 MB"))
    with pytest.raises(keuka.DataError) as caught:
        given.run()
    text = str(caught.value)
    assert "K518" in text
    assert "a shard of the query needs more memory than its limit of 1 MB" in text
    assert "`Rises` holds most" in text
    assert "engine" not in text


def test_a_run_that_cannot_begin_changes_nothing():
    """What is wrong with one sink, or with the checkpoint, is said before another one is overwritten."""
    arrive(0, *ROWS)
    pipeline(Sink("json", path="out")).run()
    before = rows_of("out")
    Path("foreign").mkdir()
    Path("foreign/file").touch()
    other = RunSettings(mode="streaming", checkpoint="other", trigger="available_now")
    overwriting = Sink("json", path="out", mode="overwrite")
    with pytest.raises(keuka.PipelineError, match="would overwrite a directory that Keuka did not write"):
        pipeline(overwriting, Sink("json", path="foreign", mode="overwrite"), run=other).run()
    with pytest.raises(keuka.DataError, match=r"K557.*another lateness"):
        pipeline(Sink("json", path="out"), lateness=3).run()
    idle = RunSettings(mode="streaming", checkpoint="checkpoint", trigger="available_now", idle_after="1 min")
    with pytest.raises(keuka.DataError, match=r"K557.*another `idle_after`"):
        pipeline(Sink("json", path="out"), run=idle).run()
    with pytest.raises(keuka.DataError, match=r"K557.*`price` of `S` as int64 instead of string, which `schema` can declare"):
        pipeline(Sink("json", path="out"), schema="at BIGINT, name STRING, price STRING").run()
    falls = QUERY.replace("$2.price > $1.price", "$2.price < $1.price")
    with pytest.raises(keuka.DataError, match=r"K557.*another meaning"):
        pipeline(Sink("json", path="out"), query=falls).run()
    with pytest.raises(keuka.DataError, match=r"K557.*no sink of rejected rows"):
        pipeline(Sink("json", path="out"), Sink("json", of="rejected", path="rejected")).run()
    named = Sink("json", path="named")
    with pytest.raises(keuka.PipelineError, match="has a column `Batch`, and directories of micro-batches are named `batch=") as caught:
        pipeline(named, run=other, query=QUERY.replace("price AS high", "price AS Batch")).run()
    assert caught.value.code == "K605"
    assert not Path("named").exists()
    assert rows_of("out") == before
    pipeline(Sink("json", path="out")).run()  # the checkpoint is as it was
    assert rows_of("out") == before


def test_a_checkpoint_remembers_its_shards_whatever_the_order_of_the_file(monkeypatch: pytest.MonkeyPatch):
    """A pipeline that names no number of shards goes on with those it began with, and sinks may change their places."""
    from keuka.spark import streaming_pipelines

    queries = [Queries(text=QUERY), Queries(text="SELECT name, price FROM FILTER {price > 6} (S) PUBLISH High")]
    streams = {"S": Input("csv", path="in", time="at", lateness=1)}

    def run(number: int, n_cores: int, *sinks: Sink) -> None:
        def stop(batch: Batch) -> None:
            if batch.number == number:
                raise KeyboardInterrupt

        monkeypatch.setattr(streaming_pipelines, "parallelism", lambda spark: n_cores)
        with pytest.raises(KeyboardInterrupt):
            keuka.Pipeline(streams, queries, sinks, GOES_ON).run(on_batch=stop)

    sinks = [Sink("json", of="Rises", path="rises"), Sink("json", of="High", path="high")]
    arrive(0, *ROWS[:5])
    run(0, 3, *sinks)
    arrive(1, *ROWS[5:])
    run(1, 2, *reversed(sinks))
    assert sorted([(row["name"], row["price"]) for row in rows_of("high")]) == [("a", 7.0), ("b", 9.0), ("c", 8.0)]
    assert len(rows_of("rises")) == 5


def test_a_repeated_micro_batch_leaves_what_is_there(monkeypatch: pytest.MonkeyPatch):
    """Spark repeats a micro-batch whose end it did not note. What is visible of it stays as it is, the rest is written."""
    from keuka.spark import streaming_pipelines

    arrive(0, *ROWS)
    write = streaming_pipelines._Target.write
    calls: list[str] = []

    def fail_at_the_second(self: Any, rows: Any, batch_id: int) -> None:
        calls.append(self.sink.path)
        if len(calls) == 2:
            raise OSError("the disk is full")
        write(self, rows, batch_id)

    sinks = [Sink("json", path="first"), Sink("json", path="second")]
    monkeypatch.setattr(streaming_pipelines._Target, "write", fail_at_the_second)
    with pytest.raises(keuka.DataError, match="the disk is full"):
        pipeline(*sinks).run()
    (file,) = Path("first").rglob("part-*.json")
    pipeline(*sinks).run()
    assert list(Path("first").rglob("part-*.json")) == [file]
    assert in_order(rows_of("first")) == in_order(rows_of("second"))
    assert len(rows_of("second")) == 5


def test_terminated_it_ends_cleanly_and_goes_on_later(folder: Path):
    """SIGTERM and Ctrl-C stop a run that would go on; the next one takes up what comes."""
    text = """
[streams.S]
format = "csv"
path = "in"
time = "at"
lateness = 1

[[queries]]
text = "%s"

[[sinks]]
format = "json"
path = "out"

[run]
mode = "streaming"
checkpoint = "checkpoint"
trigger = "100 ms"

[spark]
master = "local[2]"
shards = 2
"""
    Path("pipeline.toml").write_text(text % QUERY)
    arrive(0, *ROWS[:6])
    for signal_, first, n_matches in ((signal.SIGTERM, 0, 1), (signal.SIGINT, 1, 5)):
        if first:
            arrive(first, *ROWS[6:], "40,z,1")
        process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from keuka.cli import main; sys.exit(main(['run', 'pipeline.toml']))"],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("micro-batch "))
        assert f"micro-batch {first}: " in line
        time.sleep(0.5)
        process.send_signal(signal_)
        told = process.stderr.read()
        assert process.wait(timeout=60) == 0, told
        assert told.splitlines()[-1].startswith("stopped after "), told
        assert "Traceback" not in told
        assert len(rows_of("out")) == n_matches, told


def test_what_is_wrong_with_a_run_is_said_before_it():
    arrive(0, *ROWS)
    cases = {
        RunSettings(mode="streeming"): "there is no mode `streeming` of a run",
        RunSettings(mode="streaming"): "a streaming run has no checkpoint",
        RunSettings(checkpoint="checkpoint"): "`checkpoint` is for streaming runs",
        RunSettings(mode="streaming", checkpoint="checkpoint", trigger="soon"): "trigger 'soon' is not a duration",
        RunSettings(mode="streaming", checkpoint="in/checkpoint"): "the checkpoint and what stream `S` reads are in one another",
        RunSettings(mode="streaming", checkpoint="out"): "the sink and the checkpoint are in one another",
    }
    for run, message in cases.items():
        with pytest.raises(keuka.PipelineError, match=message):
            pipeline(Sink("json", path="out"), run=run).check()


def test_w1_has_its_known_matches():
    matches = run_out_of_order(w1.generate(), [Queries(text=w1.QUERY, language="cel")], ["Rebound"])["Rebound"]
    assert (matches.num_rows, w1.digest(matches)) == (w1.N_MATCHES, w1.DIGEST)


def test_w2_w3_and_w3t_have_their_known_matches():
    workloads = {"Whole": w2.W2, "Inside": w2.W3, "Behind": w2.W3_AFTER}
    queries = [Queries(text=f"{workload.query} PUBLISH {name}", language="sase") for name, workload in workloads.items()]
    found = run_out_of_order(w2.generate(w2.W2), queries, list(workloads), type_column="type")
    for name, workload in workloads.items():
        assert w2.answer(workload, found[name]) == (workload.n_matches, workload.digest), name


def run_out_of_order(events: pa.Table, queries: list[Queries], outputs: list[str], **stream: Any) -> dict[str, pa.Table]:
    """What a streaming pipeline finds in events that come out of order, in micro-batches of random sizes."""
    rng, lateness = np.random.default_rng(5), 1_000
    arrived = events.take(np.argsort(events["ts"].to_numpy() + rng.integers(0, lateness + 1, events.num_rows)))
    bounds = [0, *sorted(rng.integers(0, events.num_rows, 3).tolist()), events.num_rows]
    for i, (begin, end) in enumerate(itertools.pairwise(bounds)):
        path = Path("in", f"{i}.parquet")
        pq.write_table(arrived.slice(begin, end - begin), path)
        os.utime(path, (1_000 + i, 1_000 + i))
    given = Input("parquet", path="in", time="ts", lateness=lateness, options={"maxFilesPerTrigger": 1}, **stream)
    sinks = [Sink("parquet", of=name, path=name) for name in outputs]
    batches: list[Batch] = []
    keuka.Pipeline({"Stock": given}, queries, sinks, ENDS, SparkSettings(shards=2)).run(on_batch=batches.append)
    assert (len(batches), sum([batch.late for batch in batches])) == (5, 0)
    return {name: pa.concat_tables([pq.read_table(file) for file in Path(name).rglob("*.parquet")]) for name in outputs}
