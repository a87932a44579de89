"""Pipelines on Spark: the same results, counts and messages as in this process, and what only Spark can do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import keuka
from keuka.cli import main
from keuka.pipelines import Input, Queries, Sink, SparkSettings
from keuka.spark.jobs import results

from ..pipeline.crashing import Crasher
from ..pipeline.market import RISE, TICKS

STOCK = {"Stock": Input("csv", path="ticks.csv")}
QUERIES = (Queries(file="rise.cel"),)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rise.cel").write_text(RISE)
    Path("ticks.csv").write_text(TICKS)
    return tmp_path


def run(*sinks: Sink, streams=STOCK, queries=QUERIES, **how) -> keuka.pipelines.Report:
    return keuka.Pipeline(streams, queries, sinks, spark=SparkSettings(shards=2)).run(**how)


def data_files(directory: str) -> list[Path]:
    return [path for path in sorted(Path(directory).iterdir()) if not path.name.startswith(("_", "."))]


def content(directory: str) -> list[str]:
    return sorted([line for file in data_files(directory) for line in file.read_text().splitlines()])


def in_order(table: pa.Table) -> list[str]:
    return sorted([json.dumps(row, default=str) for row in table.to_pylist()])


def test_the_example_gives_the_same_on_spark_and_in_this_process(capsys):
    assert main(["new", "demo"]) == 0
    pipeline = keuka.Pipeline.from_file("demo/pipeline.toml")
    reports, tables = [], []
    for embedded in (True, False):
        reports.append(pipeline.run(embedded=embedded))
        tables.append(pa.parquet.read_table("demo/out/rebound"))
    assert in_order(tables[0]) == in_order(tables[1])
    assert tables[0].num_rows == 1
    first, second = reports
    assert (first.read, first.rejected, first.matches) == (second.read, second.rejected, second.matches)
    assert first.shown["Unpaid"][0].equals(second.shown["Unpaid"][0])
    rejected = [json.loads(line) for file in data_files("demo/out/rejected") for line in file.read_text().splitlines()]
    (row,) = rejected
    assert {name: row[name] for name in ("time", "shelf", "_stream", "_reason")} == {
        "time": None,
        "shelf": "S1",
        "_stream": "Shelf",
        "_reason": "no time",
    }
    assert row["_file"].startswith(str(Path("demo").absolute()))


def test_every_side_output_and_format_can_be_written():
    Path("ticks.csv").write_text(TICKS + ",IBM,1\n")
    report = run(
        Sink("csv", of="Rise", path="rise"),
        Sink("orc", of="Rise", path="orc"),
        Sink("console", of="rejected"),
        Sink("parquet", of="late", path="late"),
        Sink("json", of="metrics", path="metrics"),
    )
    assert report.matches == {"Rise": 4}
    assert sum([pa.csv.read_csv(file).num_rows for file in data_files("rise") if file.stat().st_size]) == 4
    place = {"_file": str(Path("ticks.csv").absolute()), "_line": 8, "_text": None}
    assert report.shown["rejected"][0].to_pylist() == [
        {"time": None, "name": "IBM", "price": "1", "_stream": "Stock", "_reason": "no time", **place}
    ]
    late = pa.parquet.read_table("late")
    assert (late.num_rows, late.column_names) == (0, ["time", "name", "price", "_stream", "_reason", "_file", "_line", "_text"])
    metrics = [json.loads(line) for file in data_files("metrics") for line in file.read_text().splitlines()]
    assert sorted((row["kind"], row["name"], row["rows"]) for row in metrics) == [
        ("matches", "Rise", 4),
        ("read", "Stock", 7),
        ("rejected", "Stock", 1),
    ]
    assert data_files("orc")


def test_rows_that_are_no_events_are_the_same_error_as_in_this_process():
    pa.parquet.write_table(pa.table({"a": [1, 5, None], "b": [2, 4, 3], "n": [1, 2, 3]}), "jobs.parquet")
    streams = {"Jobs": Input("parquet", path="jobs.parquet", time=("a", "b"))}
    messages = []
    for embedded in (True, False):
        with pytest.raises(keuka.DataError) as raised:
            run(Sink("console"), streams=streams, queries=[Queries(text="SELECT n FROM Jobs")], embedded=embedded)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    sinks = [Sink("console"), Sink("console", of="rejected")]
    report = run(*sinks, streams=streams, queries=[Queries(text="SELECT n FROM Jobs")])
    assert report.rejected == {"Jobs": 2}
    assert report.shown["query_1"][0]["n"].to_pylist() == [1]


def test_an_error_in_a_worker_is_shown_alone_and_is_exit_code_3(capsys):
    pa.parquet.write_table(pa.table({"t": [1, 2], "n": [1, 2**62]}), "s.parquet")
    Path("pipeline.toml").write_text("""
[streams.S]
format = "parquet"
path = "s.parquet"
time = "t"
[[queries]]
text = "SELECT n * 4 AS m FROM S"
[[sinks]]
format = "csv"
path = "out"
""")
    assert main(["run", "pipeline.toml"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[K507]: the result of `n * 4` does not fit into 64 bits\n")
    assert "Traceback" not in err
    assert "org.apache" not in err
    assert not Path("out").exists()


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_files_of_this_machine_that_are_not_there_are_k513(format):
    with pytest.raises(keuka.DataError, match="K513"):
        run(Sink("console"), streams={"Stock": Input(format, path="/nothing/there")})


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (Input("parquet", path="nosuchscheme://nothing/there"), "Spark cannot read the stream `Stock`"),
        (Input("nonsense", path="ticks.csv"), "Spark cannot read the stream `Stock`"),
        (Input("jdbc", options={"url": "jdbc:none:x", "dbtable": "t", "password": "${KEUKA_TEST_SECRET}"}), "Spark cannot read"),
    ],
)
def test_what_spark_cannot_read_is_k608_in_its_words(stream, message, monkeypatch):
    monkeypatch.setenv("KEUKA_TEST_SECRET", "swordfish")
    with pytest.raises(keuka.DataError) as raised:
        run(Sink("console"), streams={"Stock": stream})
    assert raised.value.code == "K608"
    assert message in str(raised.value)
    assert "Spark says: " in str(raised.value)
    assert "swordfish" not in str(raised.value)


@pytest.mark.parametrize("secret", ["swordfish", "zq7"])
@pytest.mark.parametrize(
    "stream",
    [
        Input("parquet", path="/nothing/x${KEUKA_TEST_SECRET}y/there"),
        Input("${KEUKA_TEST_SECRET}", path="ticks.csv"),
        Input("csv", path="ticks.csv", schema="time TIMESTAMP, name ${KEUKA_TEST_SECRET}"),
        Input("csv", path="ticks.csv", schema="time ARRAY<${KEUKA_TEST_SECRET}"),
        Input("jdbc", options={"url": "jdbc:none://u:swordfish@h/${KEUKA_TEST_SECRET};password=swordfish", "dbtable": "t"}),
    ],
)
def test_what_spark_says_shows_no_value_of_a_variable(stream, secret, monkeypatch):
    monkeypatch.setenv("KEUKA_TEST_SECRET", secret)
    with pytest.raises(keuka.KeukaError) as raised:
        run(Sink("console"), streams={"Stock": stream})
    said = [str(raised.value), repr(raised.value)]
    error = raised.value.__cause__ or raised.value.__context__
    while error is not None:
        said.append(f"{error!s} {error!r}")
        error = error.__cause__ or error.__context__
    for hidden in (secret, secret.upper(), "swordfish"):
        assert hidden not in "".join(said)


def test_nanoseconds_are_read_on_spark_as_in_this_process():
    pa.parquet.write_table(
        pa.table({"time": pa.array([1_000, 2_000], pa.timestamp("ns")), "name": ["a", "a"], "price": [1.0, 2.0]}), "ticks.parquet"
    )
    pipeline = keuka.Pipeline({"Stock": Input("parquet", path="ticks.parquet")}, QUERIES, [Sink("console")])
    assert pipeline.check()["Rise"].equals(pipeline.check(embedded=True)["Rise"])
    assert pipeline.run().matches == pipeline.run(embedded=True).matches == {"Rise": 1}


def test_a_value_that_does_not_fit_its_column_is_an_error_and_not_null():
    Path("ticks.csv").write_text(TICKS + "2024-01-02 09:30:00,IBM,much\n")
    stream = Input("csv", path="ticks.csv", schema="time TIMESTAMP_NTZ, name STRING, price DOUBLE")
    with pytest.raises(keuka.DataError) as raised:
        run(Sink("console"), streams={"Stock": stream})
    assert raised.value.code == "K509"


@pytest.mark.parametrize("schema", [None, "price DOUBLE, name STRING, time TIMESTAMP"])
def test_columns_have_the_same_types_as_in_this_process(schema):
    streams = {"Stock": Input("csv", path="ticks.csv", schema=schema)}
    found = [run(Sink("console"), streams=streams, embedded=embedded).shown["Rise"][0] for embedded in (True, False)]
    assert found[0].schema.equals(found[1].schema)
    assert in_order(found[0]) == in_order(found[1])


def test_options_are_spark_s():
    Path("ticks.txt").write_text(TICKS.replace(",", ";"))
    stream = Input("csv", path="ticks.txt", options={"sep": ";"})
    assert run(Sink("console"), streams={"Stock": stream}).matches == {"Rise": 4}


def test_partitioned_directories_are_read_and_checked():
    for name in ("IBM", "DELL"):
        rows = [line.split(",") for line in TICKS.splitlines()[1:] if f",{name}," in line]
        Path(f"in/name={name}").mkdir(parents=True)
        table = pa.table({"time": pa.array([row[0] for row in rows]).cast(pa.timestamp("us")), "price": [float(row[2]) for row in rows]})
        pa.parquet.write_table(table, f"in/name={name}/x.parquet")
    pipeline = keuka.Pipeline({"Stock": Input("parquet", path="in")}, [Queries(file="rise.cel")], [Sink("console")])
    assert "low" in pipeline.check()["Rise"].names
    assert pipeline.run().matches == {"Rise": 4}


def test_modes_decide_what_becomes_of_what_is_there(folder):
    run(Sink("json", path="out"))
    with pytest.raises(keuka.PipelineError, match="K606"):
        run(Sink("json", path="out"))
    run(Sink("json", path="out", mode="append"))
    assert sum([len(file.read_text().splitlines()) for file in data_files("out")]) == 8
    run(Sink("json", path="out", mode="overwrite"))
    assert sum([len(file.read_text().splitlines()) for file in data_files("out")]) == 4
    assert sorted(path.name for path in folder.iterdir()) == ["out", "rise.cel", "ticks.csv"]


def test_a_run_that_fails_says_which_sinks_spark_has_committed(folder):
    with pytest.raises(keuka.DataError, match="K608") as raised:
        run(
            Sink("nowhere", of="metrics", path="s3a://bucket/metrics", mode="append"),
            Sink("json", of="Rise", path="out"),
            Sink("noop", of="Rise", mode="append"),
        )
    note = f"visible already: `Rise` as noop; not visible: `metrics` in `s3a://bucket/metrics`, `Rise` in `file://{folder}/out`"
    assert raised.value.diagnostics[0].help[-1] == note
    assert sorted(path.name for path in folder.iterdir()) == ["rise.cel", "ticks.csv"]


def test_what_a_killed_run_left_is_taken_back_on_spark(folder):
    with contextlib.closing(Crasher()) as crasher:
        sinks = [{"path": "first"}, {"path": "out", "mode": "append"}]
        run(Sink("json", path="out"))
        before = content("out")
        n_kills = next(n for n in range(9, 100) if crasher.run(1, *sinks, kill_at=n).killed and content("out") != before)
    assert n_kills > 9
    run(Sink("json", path="out", mode="append"), Sink("json", of="metrics", path="first"))
    assert content("out") == sorted(before * 2)
    assert sorted(path.name for path in folder.iterdir()) == ["first", "out", "rise.cel", "ticks.csv"]


def test_a_directory_that_keuka_did_not_write_is_not_overwritten():
    Path("out").mkdir()
    Path("out/theirs").touch()
    with pytest.raises(keuka.PipelineError, match=r"K606.*a directory that Keuka did not write"):
        run(Sink("json", path="out", mode="overwrite"))


def test_a_link_is_followed(folder):
    Path("disk").mkdir()
    Path("link").symlink_to("disk")
    for _ in range(2):
        run(Sink("json", path="link", mode="overwrite"))
    assert len(content("disk")) == 4
    assert Path("link").is_symlink()


def test_columns_that_differ_only_in_case_are_two_columns():
    pa.parquet.write_table(pa.table({"t": [1, 2, None], "T": [7, 8, 9]}), "s.parquet")
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        streams = {"S": Input("parquet", path="s.parquet", time="t")}
        report = run(Sink("console"), Sink("console", of="rejected"), streams=streams, queries=[Queries(text="SELECT T FROM S")])
    finally:
        session.conf.unset("spark.sql.caseSensitive")
    assert report.shown["query_1"][0]["T"].to_pylist() == [7, 8]
    assert report.shown["rejected"][0].to_pylist() == [
        {"t": None, "T": 9, "_stream": "S", "_reason": "no time", "_file": str(Path("s.parquet").absolute()), "_line": None, "_text": None}
    ]


def test_a_query_that_cannot_be_divided_is_run_with_a_warning(capsys):
    Path("pipeline.toml").write_text("""
[streams.Stock]
format = "csv"
path = "ticks.csv"
[[queries]]
text = "SELECT price FROM Stock NEXT {$2.price > $1.price} Stock"
[[sinks]]
format = "console"
""")
    assert main(["run", "pipeline.toml"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("query_1: ")
    assert err.startswith("warning: `query_1` runs on one worker: ")


def test_progress_counts_tasks():
    seen = []
    run(Sink("console"), on_progress=seen.append)
    assert seen
    assert {progress.of for progress in seen} == {"tasks"}
    assert all(0 <= progress.n_done <= (progress.n_total or 0) for progress in seen)


def test_a_session_that_was_there_before_is_still_there_afterwards(spark):
    kept = set(spark.sparkContext._jsc.getPersistentRDDs())
    run(Sink("console"))
    assert spark.range(3).count() == 3
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) == kept


def test_a_command_of_its_own_is_quiet_and_can_be_interrupted(folder):
    table = pa.table({"t": range(6_000), "n": [1] * 6_000})
    pa.parquet.write_table(table, "s.parquet")
    Path("pipeline.toml").write_text("""
[streams.S]
format = "parquet"
path = "s.parquet"
time = "t"
[[queries]]
language = "sase"
text = "SEQ(S a, S b, S c) WITHIN 6000 RETURN c.n AS n"
[[sinks]]
format = "csv"
path = "out"
[spark]
master = "local[2]"
shards = 2
""")
    program = """
from pathlib import Path
from keuka import pipeline_commands
from keuka.cli import run

class Bar(pipeline_commands.RunBar):
    def __call__(self, progress):
        Path("begun").touch()

pipeline_commands.RunBar = Bar
run()
"""
    command = [sys.executable, "-c", program, "run", "pipeline.toml"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    while not Path("begun").exists() and process.poll() is None:
        time.sleep(0.1)
    Path("begun").unlink()
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
    assert {path.name for path in folder.iterdir()} - {"begun"} == {"pipeline.toml", "rise.cel", "s.parquet", "ticks.csv"}


def test_a_type_that_no_row_has_is_warned_of_on_spark_and_in_this_process(caplog):
    Path("events.csv").write_text(
        "time,kind,u\n" + "".join(f"2024-01-02 09:{i:02}:00,{('view', 'purchase')[i % 2]},1\n" for i in range(20))
    )
    streams = {"events": Input("csv", path="events.csv", type_column="kind")}
    text = "SEQ(view v, !purchases p) WHERE [u] AND v.u = NULL WITHIN 5 min PUBLISH Unbought"
    logged = []
    for embedded in (True, False):
        caplog.clear()
        run(Sink("console"), streams=streams, queries=(Queries(text=text, language="sase"),), embedded=embedded)
        logged.append([message for message in caplog.messages if message.startswith("warning[")])
    assert logged[0] == logged[1]
    assert [message[:13] for message in logged[0]] == ["warning[K321]", "warning[K545]"]
    assert "no row has the type `purchases`" in logged[0][1]
    assert "did you mean `purchase`?" in logged[0][1]


def test_a_stream_that_only_a_query_without_a_sink_reads_is_not_read():
    """Spark observes nothing of it, so nobody may wait for its counts."""
    queries = [*QUERIES, Queries(text="SELECT name FROM Others NEXT {$2.name = $1.name} Stock PUBLISH Unwanted")]
    streams = {**STOCK, "Others": STOCK["Stock"]}
    embedded = run(Sink("json", of="Rise", path="embedded"), streams=streams, queries=queries, embedded=True)
    on_spark = run(Sink("json", of="Rise", path="on_spark"), streams=streams, queries=queries)
    assert on_spark.read == embedded.read == {"Stock": 6, "Others": 0}


def test_small_files_are_read_and_matched_by_one_task(spark):
    """Two streams of two files each, with bad rows: nothing is shuffled, and all is as in this process."""
    for stream, price in (("asks", 10), ("bids", 11)):
        Path(stream).mkdir()
        for i in range(2):
            rows = [f"{10 * i + j},{'ab'[j % 2]},{price + j % 3}" for j in range(10)]
            Path(stream, f"{i}.csv").write_text("\n".join(["at,name,price", *rows, ",a,1", ""]))
    streams = {name: Input("csv", path=name.lower(), time="at", on_bad_row="reject") for name in ("Asks", "Bids")}
    text = "SEQ(Asks a, Bids b) WHERE [name] AND b.price > a.price WITHIN 3 RETURN a.at AS ask, b.at AS bid PUBLISH Found"

    def found(embedded: bool, path: str) -> keuka.pipelines.Report:
        return keuka.Pipeline(streams, [Queries(text=text, language="sase")], [Sink("parquet", path=path)]).run(embedded=embedded)

    on_spark, embedded = found(False, "on_spark"), found(True, "embedded")
    assert (on_spark.read, on_spark.rejected, on_spark.matches) == (embedded.read, embedded.rejected, embedded.matches)
    assert on_spark.rejected == {"Asks": 2, "Bids": 2}
    assert in_order(pa.parquet.read_table("on_spark")) == in_order(pa.parquet.read_table("embedded"))
    frames = {
        name: keuka.Stream(spark.read.csv(str(Path(name.lower()).absolute()), header=True, inferSchema=True), time="at") for name in streams
    }
    planned = results(keuka.sase(text), frames, outputs=None, in_one_task=True).frame._jdf.queryExecution().executedPlan().toString()
    assert "Coalesce 1" in planned
    assert "Exchange" not in planned
