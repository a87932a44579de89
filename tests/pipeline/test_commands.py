"""The commands `run`, `check` and `new`: what they print, their exit codes, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest

from keuka.cli import main

from .market import CONSOLE, QUERY, STREAM, TICKS

COMMAND = [sys.executable, "-c", "from keuka.cli import run; run()"]


def test_run_shows_console_sinks_and_a_summary(pipeline_file, capsys):
    sink = '\n[[sinks]]\nof = "Rise"\nformat = "parquet"\npath = "out"\n'
    assert main(["run", pipeline_file(STREAM, QUERY, CONSOLE, sink), "--embedded"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "Rise: 4 matches"
    assert lines[1].split() == ["name", "low", "high", "_start", "_end"]
    assert lines[3].split()[:3] == ["IBM", "85", "86.5"]
    assert err.splitlines()[0] == "Rise -> out"
    assert err.splitlines()[1].startswith("4 matches, 6 rows read, ")


def test_run_says_how_many_rows_were_rejected(pipeline_file, capsys):
    Path("ticks.csv").write_text(TICKS + ",IBM,1\n")
    sink = '\n[[sinks]]\nof = "rejected"\nformat = "console"\n'
    assert main(["run", pipeline_file(STREAM, QUERY, CONSOLE, sink), "--embedded"]) == 0
    out, err = capsys.readouterr()
    assert "rejected: 1 row\n" in out
    assert ", 7 rows read, 1 rejected, " in err


def test_long_tables_are_cut_and_the_rest_is_counted(pipeline_file, capsys):
    Path("ticks.csv").write_text("time,name,price\n" + "".join(f"2024-01-02 09:{i:02}:00,A,{i}\n" for i in range(40)))
    assert main(["run", pipeline_file(STREAM, QUERY, CONSOLE), "--embedded"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Rise: 39 matches\n")
    assert "... and 19 more; a sink with a path gets all of them" in out


@pytest.mark.parametrize(
    ("parts", "code", "start"),
    [
        ((STREAM.replace("path", "pth"), QUERY, CONSOLE), 2, "error[K602]: there is no key `pth` here\n --> pipeline.toml:4:1\n"),
        ((STREAM, '\n[[queries]]\ntext = "SELECT prise FROM Stock"\n', CONSOLE), 2, "error[K201]: "),
        ((STREAM.replace("ticks", "tics"), QUERY, CONSOLE), 3, "error[K513]: there is no file "),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_mistakes_in_the_file_and_in_data_have_their_exit_codes(pipeline_file, command, parts, code, start, capsys):
    assert main([command, pipeline_file(*parts), "--embedded"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(start)
    assert "Traceback" not in err


def test_remedies_are_keys_of_the_file_not_options(pipeline_file, capsys):
    Path("ticks.csv").write_text("time,name,price\n1,A,2\n")
    query = '\n[[queries]]\ntext = "SELECT * FROM FILTER {DUR < 5 min} (Stock)"\n'
    assert main(["check", pipeline_file(STREAM, 'time = "time"\n', query, CONSOLE), "--embedded"]) == 2
    err = capsys.readouterr().err
    assert "error[K210]" in err
    assert '`unit = "s"`' in err
    query = '\n[[queries]]\ntext = "SELECT * FROM FILTER {price > :least} (Stock)"\n'
    assert main(["check", pipeline_file(STREAM, 'time = "time"\n', query, CONSOLE), "--embedded"]) == 2
    assert "give it one: `params = { least = ... }` below `[[queries]]`" in capsys.readouterr().err


def test_paths_of_sinks_are_shown_as_seen_from_where_one_is(pipeline_file, capsys, monkeypatch, folder):
    monkeypatch.setenv("KEUKA_TEST_OUT", str(folder / "filled"))
    filled = '\n[[sinks]]\nof = "metrics"\nformat = "json"\npath = "${KEUKA_TEST_OUT}/in"\n'
    pipeline_file(STREAM, QUERY, '\n[[sinks]]\nformat = "json"\npath = "out"\n', filled)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert main(["check", "../pipeline.toml", "--embedded"]) == 0
    assert "`Rise` as json to `../out`" in capsys.readouterr().out
    assert main(["run", "../pipeline.toml", "--embedded"]) == 0
    assert "matches -> ../out\nmetrics -> ${KEUKA_TEST_OUT}/in\n" in capsys.readouterr().err


def test_check_says_what_is_read_given_and_written(pipeline_file, capsys):
    sink = '\n[[sinks]]\nof = "metrics"\nformat = "json"\npath = "out/metrics"\n'
    assert main(["check", pipeline_file(STREAM, QUERY, CONSOLE, sink)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "reads       `Stock`",
        "gives       `Rise`",
        "            name    string",
        "            low     double",
        "            high    double",
        "            _start  timestamp[us]",
        "            _end    timestamp[us]",
        "writes      `Rise` as console",
        "writes      `metrics` as json to `out/metrics`",
    ]
    assert not Path("out").exists()


def test_embedded_and_master_exclude_each_other(pipeline_file, capsys):
    assert main(["run", pipeline_file(STREAM, QUERY, CONSOLE), "--embedded", "--master", "local[2]"]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_new_writes_a_pipeline_that_works_at_once(capsys):
    assert main(["new", "demo"]) == 0
    assert capsys.readouterr().out == "A pipeline is in demo. Run it with: keuka run demo/pipeline.toml --embedded\n"
    assert main(["check", "demo/pipeline.toml"]) == 0
    capsys.readouterr()
    for _ in range(2):
        assert main(["run", "demo/pipeline.toml", "--embedded"]) == 0
        out, err = capsys.readouterr()
        assert out.startswith("Unpaid: 3 matches\n")
        assert "4 matches, 658 rows read, 1 rejected, " in err
        assert pyarrow.parquet.read_table("demo/out/rebound")["name"].to_pylist() == ["ALD"]
    assert len(Path("demo/README.md").read_text().splitlines()) == 3


def test_new_leaves_alone_what_is_there(capsys, folder):
    assert main(["new", "."]) == 2
    assert main(["new", "ticks.csv"]) == 2
    assert "exists and is not empty" in capsys.readouterr().err
    Path("empty").mkdir()
    assert main(["new", "empty"]) == 0
    assert main(["new", "ticks.csv/x"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_interrupting_a_run_is_exit_code_130_and_leaves_no_half_sink(pipeline_file, folder):
    with open("ticks.csv", "w") as file:
        file.write("time,name,price\n")
        for i in range(300_000):
            file.write(f"{i},{i % 7},{i % 1000}\n")
    # Every event meets all before it.
    query = '\n[[queries]]\nlanguage = "sase"\ntext = "SEQ(Stock a, Stock b, Stock c) WITHIN 300000 RETURN c.price AS p"\n'
    sink = '\n[[sinks]]\nformat = "csv"\npath = "out"\n'
    file_ = pipeline_file(STREAM, 'time = "time"\n', query, sink)
    process = subprocess.Popen([*COMMAND, "run", file_, "--embedded"], stderr=subprocess.PIPE, text=True)
    for _ in range(300):
        if list(folder.glob(".out*")):
            break
        time.sleep(0.1)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert sorted(path.name for path in folder.iterdir()) == ["pipeline.toml", "rise.cel", "ticks.csv"]


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_condition_that_never_holds_is_warned_of_once(command, pipeline_file, capsys):
    query = "\n[[queries]]\ntext = 'SELECT * FROM FILTER {name = NULL} (Stock) PUBLISH Rise'\n"
    assert main([command, pipeline_file(STREAM, query, CONSOLE), "--embedded"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning[K321]: `name = NULL` never holds: a comparison with NULL is unknown\n")
    assert err.count("warning") == 1


def test_check_and_run_warn_of_a_type_that_no_row_has(pipeline_file, capsys):
    Path("events.csv").write_text("time,kind,u\n2024-01-02 09:00:00,view,1\n2024-01-02 09:01:00,purchase,1\n")
    stream = '\n[streams.events]\nformat = "csv"\npath = "events.csv"\ntype_column = "kind"\n'
    query = "\n[[queries]]\nlanguage = 'sase'\ntext = 'SEQ(view v, !purchases p) WHERE [u] WITHIN 5 min'\n"
    for command in ("check", "run"):
        assert main([command, pipeline_file(stream, query, CONSOLE), "--embedded"]) == 0
        err = capsys.readouterr().err
        assert err.startswith("warning[K545]: no row has the type `purchases`\n")
        assert err.count("warning") == 1
