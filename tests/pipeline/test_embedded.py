"""Runs in this process: what is read, written, rejected, counted; and that nothing half done is left behind."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

import keuka
from keuka.pipelines import Input, Queries, Sink
from keuka.pipelines import embedded as in_process

from .market import CONSOLE, LOWS, QUERY, STREAM, TICKS

STOCK = {"Stock": Input("csv", path="ticks.csv")}
RISE = [Queries(file="rise.cel")]


def run(*sinks: Sink, streams=STOCK, queries=RISE) -> keuka.pipelines.Report:
    return keuka.Pipeline(streams, queries, sinks).run(embedded=True)


def files(directory: str) -> list[Path]:
    """Those with rows: the marker of the directory is hidden."""
    return sorted([path for path in Path(directory).iterdir() if not path.name.startswith(".")])


def pairs(table: pa.Table) -> list[tuple[float, float]]:
    return sorted(zip(table["low"].to_pylist(), table["high"].to_pylist(), strict=True))


def write_ticks(path: str, **columns: pa.Array) -> None:
    pa.parquet.write_table(pa.table(columns), path)


# -- sinks


@pytest.mark.parametrize(
    ("format", "read"),
    [
        ("parquet", pa.parquet.read_table),
        ("csv", pa.csv.read_csv),
        ("arrow", lambda file: pa.ipc.open_file(file).read_all()),
        ("json", lambda file: pa.Table.from_pylist([json.loads(line) for line in Path(file).read_text().splitlines()])),
    ],
)
def test_a_sink_is_a_directory_with_one_file_of_its_format(format, read):
    report = run(Sink(format, path="deep/out"))
    (file,) = files("deep/out")
    assert file.name.startswith("part-")
    assert file.suffix == f".{format}"
    assert pairs(read(file)) == LOWS
    assert (report.read, report.rejected, report.matches) == ({"Stock": 6}, {"Stock": 0}, {"Rise": 4})


def test_a_directory_that_was_written_is_read_as_a_stream_again():
    run(Sink("json", path="out"))
    streams = {"Rise": Input("json", path="out", time=("_start", "_end"))}
    report = run(Sink("console"), streams=streams, queries=[Queries(text="SELECT low FROM Rise")])
    assert report.matches == {"query_1": 4}


def test_modes_decide_what_becomes_of_what_is_there():
    run(Sink("csv", path="out"))
    with pytest.raises(keuka.PipelineError, match=r"K606"):
        run(Sink("csv", path="out"))
    run(Sink("csv", path="out", mode="append"))
    assert len(files("out")) == 2
    run(Sink("csv", path="out", mode="overwrite"))
    assert len(files("out")) == 1
    assert sorted(path.name for path in Path().iterdir()) == ["out", "rise.cel", "ticks.csv"]


def test_several_sinks_of_several_outputs_are_filled_in_one_run():
    queries = [*RISE, Queries(text="SELECT high FROM FILTER {high > 90} (Rise) PUBLISH High")]
    report = run(Sink("csv", of="Rise", path="a"), Sink("parquet", of="High", path="b"), Sink("console"), queries=queries)
    assert report.matches == {"Rise": 4, "High": 2}
    assert pa.parquet.read_table(files("b")[0])["high"].to_pylist() == [91, 91]
    table, n_rows = report.shown["High"]
    assert (table.num_rows, n_rows) == (2, 2)


def test_the_console_shows_the_first_rows_and_counts_all():
    Path("ticks.csv").write_text("time,name,price\n" + "".join(f"2024-01-02 09:{i:02}:00,A,{i}\n" for i in range(40)))
    table, n_rows = run(Sink("console")).shown["Rise"]
    assert (table.num_rows, n_rows) == (20, 39)


def test_metrics_are_rows_too():
    run(Sink("json", of="metrics", path="metrics"))
    rows = [json.loads(line) for line in files("metrics")[0].read_text().splitlines()]
    assert [(row["kind"], row["name"], row["rows"]) for row in rows] == [
        ("read", "Stock", 6),
        ("rejected", "Stock", 0),
        ("matches", "Rise", 4),
    ]
    assert all(row["seconds"] > 0 for row in rows)


# -- rows that are no events


def test_rows_without_a_time_go_to_their_sink_and_the_rest_is_matched():
    lines = TICKS.splitlines()
    Path("ticks.csv").write_text("\n".join([*lines[:3], ",IBM,1", ",IBM,2", *lines[3:], ",DELL,3"]) + "\n")
    report = run(Sink("console"), Sink("json", of="rejected", path="bad"), Sink("csv", of="late", path="late"))
    assert pairs(report.shown["Rise"][0]) == LOWS
    assert (report.read, report.rejected) == ({"Stock": 9}, {"Stock": 3})
    rows = [json.loads(line) for line in files("bad")[0].read_text().splitlines()]
    place = {"_stream": "Stock", "_reason": "no time", "_file": str(Path("ticks.csv").absolute()), "_line": 4, "_text": None}
    assert rows[0] == {"time": None, "name": "IBM", "price": "1", **place}
    assert [(row["price"], row["_line"]) for row in rows] == [("1", 4), ("2", 5), ("3", 10)]
    assert files("late")[0].read_text() == '"time","name","price","_stream","_reason","_file","_line","_text"\n'


def test_bad_rows_are_left_out_where_a_stream_says_so(caplog):
    Path("ticks.csv").write_text(TICKS + "2024-01-02 10:00:00,IBM\n2024-01-02 10:00:00,IBM,?\n")
    stream = Input("csv", path="ticks.csv", on_bad_row="reject")
    with caplog.at_level("WARNING", logger="keuka"):
        report = run(Sink("console"), streams={"Stock": stream})
    assert pairs(report.shown["Rise"][0]) == LOWS
    assert (report.read, report.rejected) == ({"Stock": 8}, {"Stock": 2})
    assert "2 of 8 rows of stream `Stock` were rejected; the first: " in caplog.text


def test_csv_options_of_a_stream():
    Path("ticks.csv").write_text(TICKS.replace(",", ";").replace("IBM;", "-;", 1))
    stream = Input("csv", path="ticks.csv", csv={"separator": ";", "nulls": ["-"]})
    query = [Queries(text="SELECT name FROM Stock PUBLISH Names")]
    names = run(Sink("console"), streams={"Stock": stream}, queries=query).shown["Names"][0]["name"]
    assert names.null_count == 1
    assert len(names) == 6


def test_without_a_sink_for_them_they_are_an_error_that_counts_them():
    Path("ticks.csv").write_text(TICKS + ",IBM,1\n,IBM,2\n")
    with pytest.raises(keuka.DataError) as raised:
        run(Sink("csv", path="out"))
    assert str(raised.value) == (
        'error[K502]: 2 rows have no time\n  stream `Stock`\n = help: remove such rows, or keep them apart: a sink with `of = "rejected"`\n'
        ' = help: or only leave them out: `on_bad_row = "reject"`'
    )
    assert not Path("out").exists()


@pytest.mark.parametrize("type_", [pa.int64(), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()])
def test_intervals_that_start_after_their_end_are_rejected(type_):
    write_ticks(
        "jobs.parquet",
        begin=pa.array([1, 5, None, 7], pa.int64() if type_ != pa.date32() else pa.int32()).cast(type_),
        finish=pa.array([2, 4, 3, 8], pa.int64() if type_ != pa.date32() else pa.int32()).cast(type_),
        job=pa.array([1, 2, 3, 4]),
    )
    streams = {"Jobs": Input("parquet", path="jobs.parquet", time=("begin", "finish"))}
    queries = [Queries(text="SELECT job FROM Jobs PUBLISH Done")]
    report = run(Sink("console"), Sink("parquet", of="rejected", path="bad"), streams=streams, queries=queries)
    assert report.shown["Done"][0]["job"].to_pylist() == [1, 4]
    rejected = pa.parquet.read_table(files("bad")[0])
    assert rejected["_reason"].to_pylist() == ["starts after its end", "no time"]
    with pytest.raises(keuka.DataError) as raised:
        run(Sink("console"), streams=streams, queries=queries)
    assert [found.message for found in raised.value.diagnostics] == ["1 row has no time", "1 event starts after its end"]


def test_rejected_rows_of_streams_with_other_types_share_columns_as_text():
    write_ticks("a.parquet", t=pa.array([1, None]), x=pa.array([1, 2]), only=pa.array([[1], [2]]))
    write_ticks("b.parquet", t=pa.array([None, 2]), x=pa.array(["u", "v"]))
    streams = {"A": Input("parquet", path="a.parquet", time="t"), "B": Input("parquet", path="b.parquet", time="t")}
    queries = [Queries(text="SELECT x_1 FROM A NEXT B")]
    report = run(Sink("console", of="rejected"), streams=streams, queries=queries)
    rows = report.shown["rejected"][0].to_pylist()
    assert sorted(rows, key=lambda row: row["_stream"]) == [
        {"t": None, "x": "2", "only": [2], "_stream": "A", "_reason": "no time", **place("a.parquet")},
        {"t": None, "x": "u", "only": None, "_stream": "B", "_reason": "no time", **place("b.parquet")},
    ]


def place(file: str) -> dict[str, object]:
    return {"_file": str(Path(file).absolute()), "_line": None, "_text": None}


def test_rows_keep_their_numbers_when_others_are_rejected():
    write_ticks("s.parquet", t=pa.array([1, None, 3, 4]), n=pa.array([1, 2, 3, 2**62]))
    with pytest.raises(keuka.DataError, match=r"stream `S`, file `.*s.parquet`, row 4"):
        run(
            Sink("console"),
            Sink("console", of="rejected"),
            streams={"S": Input("parquet", path="s.parquet", time="t")},
            queries=[Queries(text="SELECT n * 4 AS m FROM S")],
        )


# -- streams


def test_rows_may_come_in_any_order():
    header, *rows = TICKS.splitlines()
    Path("ticks.csv").write_text("\n".join([header, *reversed(rows)]) + "\n")
    assert pairs(run(Sink("console")).shown["Rise"][0]) == LOWS


def test_several_paths_are_one_stream():
    header, *rows = TICKS.splitlines()
    Path("in").mkdir()
    for i, part in enumerate((rows[:2], rows[2:5], rows[5:])):
        Path(f"in/{i}.csv").write_text("\n".join([header, *part]) + "\n")
    Path("in/.hidden").write_text("no")
    for paths in (("in",), ("in/0.csv", "in/1.csv", "in/2.csv"), ("in/[01].csv", "in/2.csv")):
        stream = Input("csv", paths=paths, schema="time TIMESTAMP_NTZ, name STRING, price DOUBLE")
        report = run(Sink("console"), streams={"Stock": stream})
        assert pairs(report.shown["Rise"][0]) == LOWS


def test_one_stream_may_hold_the_events_of_all():
    Path("all.csv").write_text("t,kind,tag\n1,Shelf,1\n2,Shelf,2\n3,Counter,1\n4,Exit,1\n5,Exit,2\n")
    query = "SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 10 RETURN s.tag AS tag PUBLISH Unpaid"
    report = run(
        Sink("console"),
        streams={"Readings": Input("csv", path="all.csv", time="t", type_column="kind")},
        queries=[Queries(text=query, language="sase")],
    )
    assert report.shown["Unpaid"][0]["tag"].to_pylist() == [2]
    assert report.read == {"Readings": 5}


def test_a_schema_gives_columns_types_and_keeps_the_others():
    Path("codes.csv").write_text("at,code,unused\n2024-01-02 09:10:00,007,x\n2024-01-02 09:11:00,08,y\n")
    stream = Input("csv", path="codes.csv", schema="code STRING, at TIMESTAMP")
    report = run(Sink("console"), streams={"Codes": stream}, queries=[Queries(text="SELECT * FROM Codes PUBLISH C")])
    table, _ = report.shown["C"]
    assert table.column_names == ["at", "code", "unused", "_start", "_end"]
    assert table["code"].to_pylist() == ["007", "08"]
    assert table["at"].to_pylist()[0] == datetime.datetime(2024, 1, 2, 9, 10, tzinfo=datetime.UTC)


def test_a_schema_makes_files_without_rows_readable():
    Path("empty.csv").write_text("at,code\n")
    stream = Input("csv", path="empty.csv", schema="at BIGINT, code STRING", time="at")
    assert run(Sink("console"), streams={"S": stream}, queries=[Queries(text="SELECT code FROM S")]).read == {"S": 0}
    Path("empty.json").write_text("")
    stream = Input("json", path="empty.json", schema="at BIGINT, code STRING", time="at")
    assert run(Sink("console"), streams={"S": stream}, queries=[Queries(text="SELECT code FROM S")]).read == {"S": 0}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("time TIMESTAMP_NTZ, prise DOUBLE", "column `prise` of the declared schema is not there"),
        ("time TIMESTAMP_NTZ, name DOUBLE", "`IBM` is not of the declared type double"),
    ],
)
def test_a_schema_that_does_not_fit_the_file_is_refused(schema, message):
    stream = Input("csv", path="ticks.csv", schema=schema)
    with pytest.raises(keuka.DataError, match=f"K509.*{message}"):
        run(Sink("console"), streams={"S": stream}, queries=[Queries(text="SELECT * FROM S")])


def test_values_of_typed_files_are_converted_or_refused():
    write_ticks("s.parquet", t=pa.array([1, 2]), n=pa.array([1, 2**40]))
    stream = Input("parquet", path="s.parquet", schema="t BIGINT, n BIGINT", time="t")
    assert run(Sink("console"), streams={"S": stream}, queries=[Queries(text="SELECT n FROM S")]).matches == {"query_1": 2}
    stream = Input("parquet", path="s.parquet", schema="t BIGINT, n INT", time="t")
    with pytest.raises(keuka.DataError, match=r"K509.*values cannot be read as the declared int32"):
        run(Sink("console"), streams={"S": stream}, queries=[Queries(text="SELECT n FROM S")])


def test_a_file_of_another_format_than_declared_is_refused():
    with pytest.raises(keuka.DataError, match=r"K512.*the file is CSV, but Parquet is declared"):
        run(Sink("console"), streams={"Stock": Input("parquet", path="ticks.csv")})


# -- the run as a whole


def test_paths_are_relative_to_the_file_and_not_to_where_it_is_run(pipeline_file, monkeypatch, folder):
    file = Path(pipeline_file(STREAM, QUERY, '\n[[sinks]]\nformat = "csv"\npath = "out"\n')).absolute()
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert keuka.Pipeline.from_file(file).run(embedded=True).matches == {"Rise": 4}
    assert len(files(str(folder / "out"))) == 1


def test_a_run_that_fails_leaves_old_sinks_and_no_half_new_ones(folder):
    run(Sink("csv", path="out"))
    before = files("out")[0].read_text()
    write_ticks("s.parquet", t=pa.array(range(100_000)), n=pa.array([1] * 99_999 + [2**62]))
    for mode in ("overwrite", "append"):
        with pytest.raises(keuka.DataError, match=r"K507"):
            run(
                Sink("csv", path="out", mode=mode),
                Sink("csv", of="metrics", path="new"),
                streams={"S": Input("parquet", path="s.parquet", time="t")},
                queries=[Queries(text="SELECT n * 4 AS m FROM S")],
            )
        assert [file.read_text() for file in files("out")] == [before]
    assert sorted(path.name for path in folder.iterdir()) == ["out", "rise.cel", "s.parquet", "ticks.csv"]


def test_an_interrupt_leaves_nothing_behind(monkeypatch, folder):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(in_process, "run_tables", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(Sink("csv", path="out"), Sink("csv", of="metrics", path="new/folder/metrics"))
    assert sorted(path.name for path in folder.iterdir()) == ["rise.cel", "ticks.csv"]


def test_progress_counts_events():
    seen = []
    keuka.Pipeline(STOCK, RISE, [Sink("console")]).run(embedded=True, on_progress=seen.append)
    assert (seen[-1].of, seen[-1].n_done, seen[-1].n_total) == ("events", 6, 6)


def test_a_sink_that_cannot_be_written_is_said_before_anything_is_lost(folder):
    Path("file").touch()
    with pytest.raises(keuka.DataError, match=r"K513.*cannot be written"):
        run(Sink("csv", path="file/out"))


def test_csv_has_no_room_for_lists():
    write_ticks("s.parquet", t=pa.array([1]), x=pa.array([[1]]))
    streams = {"S": Input("parquet", path="s.parquet", time="t")}
    with pytest.raises(keuka.DataError, match=r"K517"):
        run(Sink("csv", path="out"), streams=streams, queries=[Queries(text="SELECT x FROM S")])
    assert not Path("out").exists()


def test_pyspark_is_not_needed(pipeline_file):
    # In a process of its own: here another test may have imported the modules already, and they stay attributes of their packages.
    program = f"""if True:
        import sys
        sys.modules["pyspark"] = None
        import keuka
        pipeline = keuka.Pipeline.from_file({pipeline_file(STREAM, QUERY, CONSOLE)!r})
        print(pipeline.run(embedded=True).matches)
        try:
            pipeline.run()
        except keuka.DataError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "{'Rise': 4}\n" in done.stdout
    assert "error[K551]" in done.stdout


def test_parameters_of_a_pipeline_can_be_lists_and_durations():
    text = "SELECT price FROM FILTER {name IN :names AND DUR < :w} (Stock)"
    report = run(Sink("console"), queries=[Queries(text=text, params={"names": ["IBM"], "w": "10 min"})])
    assert report.matches == {"query_1": 4}
