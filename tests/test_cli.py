"""The command `keuka`: what it prints and writes, its options, its exit codes, and that no mistake ends in a traceback."""

from __future__ import annotations

import array
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

import keuka
from keuka.cli import main
from keuka.errors import EXPLANATIONS

RISE = "SELECT Name, Price_1 AS Low, Price AS High FROM Stock NEXT {$2.Name = $1.Name AND $2.Price > $1.Price} Stock PUBLISH Rise;"
TICKS = """\
Time,Name,Price
2024-01-02 09:10:00,IBM,90
2024-01-02 09:15:00,IBM,85
2024-01-02 09:16:00,DELL,30
2024-01-02 09:20:00,IBM,86.5
2024-01-02 09:22:00,DELL,31
2024-01-02 09:24:00,IBM,91
"""
MATCHES = [
    {"Name": "IBM", "Low": 85.0, "High": 86.5, "_start": "2024-01-02T09:15:00", "_end": "2024-01-02T09:20:00"},
    {"Name": "DELL", "Low": 30.0, "High": 31.0, "_start": "2024-01-02T09:16:00", "_end": "2024-01-02T09:22:00"},
    {"Name": "IBM", "Low": 90.0, "High": 91.0, "_start": "2024-01-02T09:10:00", "_end": "2024-01-02T09:24:00"},
    {"Name": "IBM", "Low": 86.5, "High": 91.0, "_start": "2024-01-02T09:20:00", "_end": "2024-01-02T09:24:00"},
]
COMMAND = [sys.executable, "-c", "from keuka.cli import run; run()"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a query and its data."""
    monkeypatch.chdir(tmp_path)
    Path("rise.cel").write_text(RISE)
    Path("ticks.csv").write_text(TICKS)
    return tmp_path


def in_order(rows: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    """The matches a command writes to standard output."""
    assert main(["match", *arguments, "--out", "-"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# -- what comes out


def test_matches_are_shown_as_a_table_and_counted_on_standard_error(capsys):
    assert main(["match", "rise.cel", "ticks.csv"]) == 0
    out, err = capsys.readouterr()
    header, _, *rows = out.splitlines()
    assert header.split() == ["Name", "Low", "High", "_start", "_end"]
    assert rows[0].split() == ["IBM", "85", "86.5", "2024-01-02", "09:15:00", "2024-01-02", "09:20:00"]
    assert len(rows) == 4
    assert err.startswith("4 matches, 6 events, ")


def test_a_table_shows_the_first_twenty_matches_and_says_how_many_more_there_are(capsys):
    Path("many.csv").write_text("t,Name,Price\n" + "".join(f"{i},A,{i}\n" for i in range(31)))
    assert main(["match", "rise.cel", "many.csv", "--time", "t"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 + 20 + 1
    assert "... and 10 more" in out
    assert err.startswith("30 matches, 31 events, ")


def test_no_match_is_no_table(capsys):
    Path("one.csv").write_text("t,Name,Price\n1,A,1\n")
    assert main(["match", "rise.cel", "one.csv", "--time", "t"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("0 matches, 1 event, ")


def test_limit_writes_that_many_matches(capsys):
    assert lines_of(capsys, "rise.cel", "ticks.csv", "--limit", "1") == MATCHES[:1]
    assert lines_of(capsys, "rise.cel", "ticks.csv", "--limit", "0") == []


def test_limit_counts_all_matches(capsys):
    assert main(["match", "rise.cel", "ticks.csv", "--limit", "3"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 + 3 + 1
    assert "... and 1 more" in out
    assert err.startswith("4 matches, 6 events, ")
    assert main(["match", "rise.cel", "ticks.csv", "--limit", "3", "--out", "first.csv"]) == 0
    assert capsys.readouterr().err.startswith("4 matches (3 written: --limit), 6 events, ")
    assert pa.csv.read_csv("first.csv").num_rows == 3


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("matches.parquet", pa.parquet.read_table),
        ("matches.arrow", lambda path: pa.ipc.open_file(path).read_all()),
        ("matches.ndjson", None),
        ("matches.csv", pa.csv.read_csv),
    ],
)
def test_a_file_is_written_in_the_format_of_its_name(name, read, capsys):
    assert main(["match", "rise.cel", "ticks.csv", "--out", name]) == 0
    out, err = capsys.readouterr()
    assert (out, err.split(",")[0]) == ("", "4 matches")
    if read is None:
        rows = [json.loads(line) for line in Path(name).read_text().splitlines()]
    else:
        rows = [row | {t: row[t].isoformat() for t in ("_start", "_end")} for row in read(name).to_pylist()]
    assert in_order(rows) == in_order(MATCHES)


def test_standard_output_gets_json_or_what_format_says(capsysbinary):
    assert main(["match", "rise.cel", "ticks.csv", "--out", "-", "--limit", "1", "--format", "csv"]) == 0
    assert capsysbinary.readouterr().out.splitlines()[0] == b'"Name","Low","High","_start","_end"'
    assert main(["match", "rise.cel", "ticks.csv", "--out", "-", "--format", "arrow"]) == 0
    assert pa.ipc.open_stream(capsysbinary.readouterr().out).read_all().num_rows == 4


def test_values_json_has_no_word_for_become_null(capsys):
    Path("q.cel").write_text("SELECT x, 1 / 0 AS nothing FROM S;")
    pa.parquet.write_table(pa.table({"t": [1, 2], "x": [float("nan"), float("-inf")]}), "s.parquet")
    assert [row["x"] for row in lines_of(capsys, "q.cel", "s.parquet", "--time", "t")] == [None, None]


def write_odd(name: str, column: pa.Array) -> None:
    table = pa.table({"t": [1], "c": column})
    Path("all.cel").write_text("SELECT c FROM S")
    with pa.ipc.new_file(name, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([2**61], pa.timestamp("us")), "75039-04-04T19:00:13.693952"),
        (pa.array([1], pa.timestamp("us", "Mars/Phobos")), "1970-01-01T00:00:00.000001 UTC"),
        (pa.array([100_000_000], pa.date32()), "275760-09-13"),
        (pa.array([None], pa.date64()), None),
    ],
)
def test_times_that_python_has_no_value_for_are_shown_as_text(column, shown, capsys):
    write_odd("odd.arrow", column)
    assert lines_of(capsys, "all.cel", "odd.arrow", "--time", "t") == [{"c": shown, "_start": 1, "_end": 1}]
    assert main(["match", "all.cel", "odd.arrow", "--time", "t"]) == 0
    assert (shown or "NULL") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("column", "format", "message"),
    [
        (pa.array([b"\xff"]), "csv", "the matches cannot be written as CSV"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "parquet", "the matches cannot be written as Parquet"),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], ["a", "a"]), "ndjson", "values of column `c` cannot be shown"),
    ],
)
def test_values_that_a_format_has_no_room_for_are_refused(column, format, message, capsys, folder):
    write_odd("odd.arrow", column)
    assert main(["match", "all.cel", "odd.arrow", "--time", "t", "--out", f"found.{format}"]) == 3
    assert capsys.readouterr().err.startswith(f"error[K517]: {message}")
    assert not list(folder.glob("*found*"))


def test_a_full_disk_is_said_plainly(capsys):
    assert main(["match", "rise.cel", "ticks.csv", "--out", "/dev/full", "--format", "csv"]) == 3
    assert capsys.readouterr().err.startswith("error[K513]: `/dev/full` cannot be written: No space left on device")


def test_a_failed_run_leaves_the_old_file_and_no_half_a_new_one(folder):
    Path("found.csv").write_text("precious")
    Path("ticks.csv").write_text(TICKS + "2024-01-02 09:00:00,IBM,1\n")
    assert main(["match", "rise.cel", "ticks.csv", "--out", "found.csv"]) == 3
    assert Path("found.csv").read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == ["found.csv", "rise.cel", "ticks.csv"]


def test_contributors_and_identity_come_on_request(capsys):
    row = lines_of(capsys, "rise.cel", "ticks.csv", "--contributors", "--limit", "1")[0]
    assert list(row) == ["Name", "Low", "High", "_start", "_end", "_id", "_contributors"]
    assert len(row["_contributors"]) == 2


def test_csv_cannot_hold_contributors(capsys):
    assert main(["match", "rise.cel", "ticks.csv", "--contributors", "--out", "x.csv"]) == 3
    assert "error[K517]: CSV cannot hold the lists of column `_contributors`" in capsys.readouterr().err


def test_a_file_needs_a_format_and_a_place(capsys):
    assert main(["match", "rise.cel", "ticks.csv", "--out", "matches.xlsx"]) == 3
    assert "error[K517]: the name `matches.xlsx` does not say in which format to write" in capsys.readouterr().err
    assert main(["match", "rise.cel", "ticks.csv", "--out", "nowhere/matches.csv"]) == 3
    assert "error[K513]: `nowhere/matches.csv` cannot be written" in capsys.readouterr().err


# -- what goes in


def test_each_stream_can_have_its_own_file_and_time_column(capsys):
    Path("news.ndjson").write_text('{"at": 15, "Topic": "merger"}\n{"at": 40, "Topic": "strike"}\n')
    Path("prices.csv").write_text("ts,Price\n10,5\n20,6\n30,7\n")
    Path("q.cel").write_text("SELECT Topic, Price FROM News NEXT Stock;")
    streams = ["--stream", "Stock=prices.csv", "--stream", "News=news.ndjson"]
    rows = lines_of(capsys, "q.cel", *streams, "--time", "Stock=ts", "--time", "News=at")
    assert rows == [{"Topic": "merger", "Price": 6, "_start": 15, "_end": 20}]


def test_two_time_columns_are_intervals(capsys):
    Path("jobs.csv").write_text("begin,finish,job\n1,4,a\n3,6,b\n5,7,c\n")
    Path("q.cel").write_text("SELECT job_1, job FROM Jobs NEXT Jobs;")
    rows = lines_of(capsys, "q.cel", "jobs.csv", "--time", "begin,finish")
    assert rows == [{"job_1": "a", "job": "c", "_start": 1, "_end": 7}]


def test_parameters_are_numbers_or_text(capsys):
    Path("q.cel").write_text("SELECT Price FROM FILTER {Price > :least AND Name = :name} (Stock);")
    rows = lines_of(capsys, "q.cel", "ticks.csv", "--params", "least=86", "--params", "name=IBM")
    assert [row["Price"] for row in rows] == [90, 86.5, 91]


def test_parameters_can_be_lists_and_durations(capsys):
    Path("q.cel").write_text("SELECT Price FROM FILTER {Name IN :names AND DUR < :w} (Stock);")
    rows = lines_of(capsys, "q.cel", "ticks.csv", "--params", 'names=["IBM"]', "--params", "w=10 min")
    assert [row["Price"] for row in rows] == [90, 85, 86.5, 91]
    assert main(["match", "q.cel", "ticks.csv", "--params", "names=IBM", "--params", "w=10 min"]) == 2
    assert "--params names='[1, 2]'" in capsys.readouterr().err


def test_a_unit_gives_integer_times_a_meaning(capsys):
    Path("q.cel").write_text("SELECT x FROM S NEXT {DUR <= 3 min} S;")
    Path("s.csv").write_text("t,x\n0,1\n170,2\n900,3\n")
    assert main(["match", "q.cel", "s.csv", "--time", "t"]) == 2
    assert "error[K210]" in capsys.readouterr().err
    assert [row["x"] for row in lines_of(capsys, "q.cel", "s.csv", "--time", "t", "--unit", "s")] == [2]


def test_rows_out_of_order_need_lateness_or_sorting(capsys):
    Path("ticks.csv").write_text(TICKS + "2024-01-02 09:23:00,DELL,32\n")
    assert main(["match", "rise.cel", "ticks.csv"]) == 3
    message = capsys.readouterr().err
    assert message.startswith("error[K504]: ")
    assert "row 7" in message
    late = lines_of(capsys, "rise.cel", "ticks.csv", "--lateness", "2 min")
    assert in_order(late) == in_order(lines_of(capsys, "rise.cel", "ticks.csv", "--sort"))
    assert len(late) == 5


def test_lateness_may_be_a_plain_number_of_ticks(capsys):
    Path("late.csv").write_text("t,Name,Price\n5,A,1\n3,A,2\n9,A,3\n")
    found = lines_of(capsys, "rise.cel", "late.csv", "--time", "t", "--lateness", "2")
    assert sorted(row["_start"] for row in found) == [3, 5]
    assert main(["match", "rise.cel", "late.csv", "--time", "t", "--lateness", "Stock=1"]) == 3
    assert capsys.readouterr().err.startswith("error[K504]")
    assert main(["match", "rise.cel", "late.csv", "--time", "t", "--lateness", "9" * 40]) == 3
    assert capsys.readouterr().err.startswith("error[K515]")


def test_parameters_that_are_hardly_json_are_text(capsys):
    Path("named.cel").write_text("SELECT Name FROM FILTER {Name = :name} (Stock)")
    for value in ("9" * 5000, "[" * 100_000):
        assert lines_of(capsys, "named.cel", "ticks.csv", "--params", f"name={value}") == []


def test_output_chooses_among_published_streams(capsys):
    Path("two.cel").write_text(RISE + "SELECT High FROM Rise PUBLISH Highs;")
    assert [list(row) for row in lines_of(capsys, "two.cel", "ticks.csv", "--limit", "1")] == [["High", "_start", "_end"]]
    rise = lines_of(capsys, "two.cel", "ticks.csv", "--output", "Rise")
    assert in_order(rise) == in_order(MATCHES)


def test_a_directory_is_all_its_queries_together(capsys):
    Path("rules").mkdir()
    Path("rules/a.cel").write_text("SELECT High FROM Rise PUBLISH Highs;")
    Path("rules/b.cel").write_text(RISE)
    assert main(["match", "rules", "ticks.csv"]) == 0
    out = capsys.readouterr().out
    assert "Highs: 4 matches\n" in out
    assert "Rise: 4 matches\n" in out
    assert main(["match", "rules", "ticks.csv", "--out", "x.parquet"]) == 2
    assert "choose with --output: `Highs`, `Rise`" in capsys.readouterr().err


def test_standard_input_is_read_and_a_pipe_of_two_commands_works():
    first = subprocess.run([*COMMAND, "match", "rise.cel", "-", "--out", "-"], input=TICKS, capture_output=True, text=True, check=True)
    Path("high.cel").write_text("SELECT High FROM FILTER {High > 50} (Rise);")
    command = [*COMMAND, "match", "high.cel", "-", "--time", "_end", "--out", "-", "--format", "csv"]
    second = subprocess.run(command, input=first.stdout, capture_output=True, text=True, check=True)
    assert [line.split(",")[0] for line in second.stdout.splitlines()] == ['"High"', "86.5", "91", "91"]


# -- mistakes


def test_a_wrong_query_is_exit_code_2_with_a_caret_and_without_colour(capsys):
    Path("rise.cel").write_text(RISE.replace("$1.Price}", "$1.Prise}"))
    assert main(["match", "rise.cel", "ticks.csv"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[K201]: ")
    assert "rise.cel:1:" in err
    assert "^^^^^" in err
    assert "did you mean `Price`?" in err
    assert "\x1b" not in err
    assert "Traceback" not in err


def test_missing_data_is_exit_code_3(capsys):
    assert main(["match", "rise.cel", "nothing.csv"]) == 3
    assert capsys.readouterr().err.startswith("error[K513]: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match", "rise.cel"], "give the data of `Stock`"),
        (["match", "rise.cel", "ticks.csv", "--stream", "Stock=ticks.csv"], "either DATA or --stream"),
        (["match", "rise.cel", "--stream", "ticks.csv"], "write `NAME=ticks.csv`"),
        (["match", "rise.cel", "ticks.csv", "--params", "v"], "write `v=...`"),
        (["match", "rise.cel", "ticks.csv", "--time", "Stok=Time"], "there are `Stock`"),
        (["match", "rise.cel", "ticks.csv", "--limit", "-1"], "-1 is not in the range"),
        (["match", "rise.cel", "ticks.csv", "--limit", "9" * 23], "is not in the range"),
        (["match", "rise.cel", "ticks.csv", "--out", "ticks.csv"], "would overwrite `ticks.csv`, which is read"),
        (["match", "rise.cel", "*.csv", "--out", "../{folder}/ticks.csv"], "would overwrite `ticks.csv`, which is read"),
        (["match", "rise.cel", "ticks.csv", "--out", "rise.cel", "--format", "csv"], "would overwrite `rise.cel`, which is read"),
        (["frobnicate"], "No such command"),
        (["error", "K999"], "there is no error `K999`"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_with_a_remedy(arguments, message, capsys, folder):
    assert main([argument.format(folder=folder.name) for argument in arguments]) == 2
    assert message in capsys.readouterr().err
    assert (folder / "ticks.csv").read_text() == TICKS


def test_an_unexpected_exception_is_k901_and_how_to_report_it(capsys, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(keuka, "query", broken)
    monkeypatch.delenv("KEUKA_DEBUG", raising=False)
    assert main(["check", "rise.cel"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("error[K901]: a bug in Keuka: ZeroDivisionError: inside\n")
    assert "please report it" in err
    assert "Traceback" not in err
    monkeypatch.setenv("KEUKA_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["check", "rise.cel"])


def test_running_out_of_memory_is_said_plainly(capsys, monkeypatch):
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(keuka, "query", greedy)
    assert main(["check", "rise.cel"]) == 71
    assert capsys.readouterr().err.startswith("error: there is not enough memory")


def test_errors_are_coloured_on_a_terminal_unless_no_color_is_set():
    def message(**environment: str) -> str:
        terminal, end = pty.openpty()
        subprocess.run([*COMMAND, "check", "nothing.cel"], stderr=end, env={**os.environ, **environment}, check=False)
        os.close(end)
        text = os.read(terminal, 10_000).decode()
        os.close(terminal)
        return text

    assert message(NO_COLOR="").startswith("\x1b[31m\x1b[1merror[K104]")
    assert message(NO_COLOR="1").startswith("error[K104]")


def test_a_reader_that_goes_away_is_no_error():
    rows = 200_000
    pa.parquet.write_table(pa.table({"t": range(rows), "Name": ["A"] * rows, "Price": range(rows)}), "many.parquet")
    command = f"'{sys.executable}' -c 'from keuka.cli import run; run()' match rise.cel many.parquet --time t --out - | head -n 1"
    done = subprocess.run(["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    assert done.returncode == 141
    assert done.stdout.startswith('{"Name": "A"')
    assert done.stderr == ""


def unread_bytes(pipe: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_interrupting_is_exit_code_130_without_a_traceback():
    process = subprocess.Popen(
        [*COMMAND, "match", "rise.cel", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(TICKS)
    process.stdin.flush()
    while unread_bytes(process.stdin.fileno()) > 0:  # it has not come so far as to wait for more
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted\n"


def test_a_command_ends_though_standard_input_waits_for_more():
    """Arrow reads ahead, in a thread that needs Python: it must not be left behind when the interpreter ends."""
    Path("all.cel").write_text("SELECT n FROM S;")
    command = [*COMMAND, "match", "all.cel", "-", "--time", "t", "--out", "-"]
    more_than_a_block = b"t,n\n" + b"".join([b"%d,%d\n" % (i, i) for i in range(700_000)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(more_than_a_block)
        process.stdin.flush()  # and it stays open
        assert process.stdout.readline().startswith(b'{"n": 0, ')
        process.stdout.close()  # as `head -n 1` does
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(more_than_a_block)
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"n": 0, ')
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == b"interrupted\n"
        assert process.returncode == 130


# -- the other commands


def test_check_says_what_a_query_reads_takes_and_gives(capsys):
    Path("q.cel").write_text("SELECT Name, Price > :p AS dear FROM Stock PUBLISH Dear;")
    assert main(["check", "q.cel"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["reads       `Stock`", "parameters  `p`"]
    assert main(["check", "q.cel", "ticks.csv", "--params", "p=1.5"]) == 0
    gives = capsys.readouterr().out.splitlines()[2:]
    assert [line.split() for line in gives] == [
        ["gives", "`Dear`"],
        ["Name", "string"],
        ["dear", "bool"],
        ["_start", "timestamp[us]"],
        ["_end", "timestamp[us]"],
    ]


def test_check_finds_wrong_names_only_with_data(capsys):
    Path("q.cel").write_text("SELECT Nam FROM Stock;")
    assert main(["check", "q.cel"]) == 0
    assert main(["check", "q.cel", "ticks.csv"]) == 2
    assert "error[K201]" in capsys.readouterr().err


def test_explain_prints_text_json_and_dot(capsys):
    assert main(["explain", "rise.cel", "ticks.csv"]) == 0
    assert "automaton Rise" in capsys.readouterr().out
    assert main(["explain", "rise.cel", "ticks.csv", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["explain", "rise.cel", "ticks.csv", "--format", "dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph")


def test_error_explains_a_code_and_lists_all(capsys):
    assert main(["error", "k304"]) == 0
    assert capsys.readouterr().out == f"K304: {EXPLANATIONS['K304']}\n"
    assert main(["error"]) == 0
    assert [line[:4] for line in capsys.readouterr().out.splitlines()] == list(EXPLANATIONS)


def test_version_is_the_packages(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"keuka {keuka.__version__}\n"


@pytest.mark.parametrize("command", ["match", "check", "explain", "error"])
def test_every_command_has_help_with_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"keuka {command} " in capsys.readouterr().out.split("Options:")[0].partition("\n")[2]


def test_remedies_are_written_as_options(capsys):
    Path("late.csv").write_text("Time,Name,Price\n3,a,1\n1,a,2\n")
    assert main(["match", "rise.cel", "late.csv", "--time", "Time"]) == 3
    message = capsys.readouterr().err
    assert "`--lateness 2`" in message
    assert "`--sort`" in message
    assert main(["match", "rise.cel", "late.csv", "--time", "Time", "--lateness", "2"]) == 0


def test_the_limit_holds_for_every_stream_of_a_set(capsys):
    Path("set").mkdir()
    Path("set/1.cel").write_text("SELECT Price FROM Stock PUBLISH A;")
    Path("set/2.cel").write_text("SELECT Price FROM FILTER {Price > 0} Stock PUBLISH B;")
    Path("some.csv").write_text("Time,Price\n1,1\n2,2\n3,3\n")
    assert main(["match", "set", "some.csv", "--time", "Time", "--limit", "1"]) == 0
    out = capsys.readouterr().out
    assert "A: 3 matches" in out
    assert "B: 3 matches" in out
    assert out.count("... and 2 more") == 2


def test_contributors_are_named_by_the_id_column(capsys):
    Path("named.csv").write_text("Time,Price,trade\n1,1,x\n2,2,y\n")
    Path("pair.cel").write_text("SELECT Price_1, Price FROM Stock NEXT Stock;")
    assert main(["match", "pair.cel", "named.csv", "--time", "Time", "--id", "trade", "--contributors", "--out", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [contributor["id"] for contributor in found["_contributors"]] == ["x", "y"]


def test_other_published_streams_are_mentioned(capsys):
    Path("two.cel").write_text("SELECT Price FROM Stock PUBLISH A; SELECT Price FROM A PUBLISH B;")
    Path("some.csv").write_text("Time,Price\n1,1\n")
    assert main(["match", "two.cel", "some.csv", "--time", "Time"]) == 0
    assert "also published: `A` (choose with --output)" in capsys.readouterr().err


# -- trace -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["DELL", "Name=DELL"])
def test_trace_shows_the_events_of_a_key(capsys, key):
    assert main(["trace", "rise.cel", "ticks.csv", "--key", key]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Rise: events with Name = 'DELL'\n")
    assert "31.0 > 30.0" in printed
    assert printed.endswith("2 events, 1 match, 1 partial match waiting, 0 expired\n")


def test_trace_speaks_of_options(capsys):
    assert main(["trace", "rise.cel", "ticks.csv", "--limit", "1"]) == 0
    assert "... and 5 more events; `--limit` shows more" in capsys.readouterr().out
    assert main(["trace", "rise.cel", "ticks.csv", "--key", "IBM", "--key", "DELL"]) == 3
    assert "name them: `--key Name=...`" in capsys.readouterr().err


def test_a_type_column_says_which_stream_each_row_belongs_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "theft.sase").write_text("SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] RETURN s.tag")
    (tmp_path / "readings.csv").write_text("t,reader,tag\n1,Shelf,7\n2,Shelf,8\n3,Counter,8\n4,Exit,7\n5,Exit,8\n")
    files = [str(tmp_path / "theft.sase"), str(tmp_path / "readings.csv"), "--time", "t"]
    assert main(["match", *files, "--type-column", "reader", "--out", "-", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["7,1,4"]
    assert main(["explain", *files, "--type-column", "reader"]) == 0
    assert "no c between s and e" in capsys.readouterr().out
    assert main(["match", *files]) == 2
    assert "--type-column" in capsys.readouterr().err


# -- warnings


def test_a_condition_that_never_holds_is_a_warning_of_match_and_check(capsys):
    Path("quoted.cel").write_text("SELECT * FROM FILTER {\"Name\" = 'IBM'} (Stock)")
    for command in ("match", "check"):
        assert main([command, "quoted.cel", "ticks.csv"]) == 0
        err = capsys.readouterr().err
        assert err.startswith("warning[K320]: `\"Name\" = 'IBM'` never holds: it compares constants\n --> quoted.cel:1:23\n")
        assert err.count("warning") == 1


def test_a_code_of_a_warning_is_explained(capsys):
    assert main(["error", "K322"]) == 0
    assert capsys.readouterr().out.startswith("K322: A warning: conditions on one attribute contradict each other")


# -- dirty data

DIRTY = """at;name;price
03/01/2024 09:10;IBM;90
03/01/2024 09:11;IBM;-
03/01/2024 09:12;IBM
04/01/2024 09:12;IBM;91
"""
SAID = ["--separator", ";", "--time-format", "%d/%m/%Y %H:%M"]


@pytest.fixture
def dirty(folder: Path) -> list[str]:
    Path("dirty.csv").write_text(DIRTY)
    Path("all.cel").write_text("SELECT name, price FROM S")
    return ["match", "all.cel", "dirty.csv"]


def test_remedies_for_dirty_files_are_options(dirty, capsys):
    assert main(dirty) == 3
    assert " = help: say what separates fields: `--separator ';'`\n" in capsys.readouterr().err
    Path("dirty.csv").write_text(DIRTY.replace(";IBM\n", ";IBM;5\n") + "04/01/2024 09:13;IBM;92\n")
    assert main([*dirty, "--separator", ";"]) == 3
    assert "say how they are written: `--time-format '%d/%m/%Y %H:%M'` or `--time-format '%m/%d/%Y %H:%M'`\n" in capsys.readouterr().err
    assert main([*dirty, *SAID]) == 3
    err = capsys.readouterr().err
    assert "if the column is text, declare that: `--schema 'price STRING'`\n" in err
    assert "say so: `--null '-'`\n" in err
    assert "reject them: `--on-bad-row reject`\n" in err
    for remedy in (["--schema", "price STRING"], ["--null", "-"], ["--on-bad-row", "reject"]):
        assert main([*dirty, *SAID, *remedy]) == 0


def test_rejected_rows_are_counted_and_written_where_wanted(dirty, capsys):
    assert main([*dirty, *SAID, "--schema", "price INT", "--on-bad-row", "reject"]) == 0
    err = capsys.readouterr().err
    assert "2 matches, 2 events, 2 rows rejected, " in err
    assert "warning: 2 of 4 rows of stream `S` were rejected; the first: dirty.csv, line 3: `price` is `-`, not an" in err
    assert main([*dirty, *SAID, "--schema", "S=price INT", "--rejected", "bad.ndjson", "--out", "good.csv"]) == 0
    assert "warning" not in capsys.readouterr().err
    rows = [json.loads(line) for line in Path("bad.ndjson").read_text().splitlines()]
    assert [(row["price"], row["_reason"], row["_line"], row["_text"]) for row in rows] == [
        ("-", "`price` is `-`, not an integer", 3, None),
        (None, "2 fields instead of 3", 4, "03/01/2024 09:12;IBM"),
    ]
    assert main([*dirty, *SAID, "--schema", "price INT", "--rejected", "dirty.csv"]) == 2
    assert "--rejected `dirty.csv` would overwrite `dirty.csv`" in capsys.readouterr().err


def test_a_file_without_a_header_in_another_zone(dirty, capsys):
    Path("dirty.csv").write_text("2024-03-01 09:10\tIBM\t90\n2024-03-01 09:11\tIBM\t91\n")
    assert main([*dirty, "--separator", "\\t"]) == 3
    assert "say so: `--no-header`\n" in capsys.readouterr().err
    schema = ["--schema", "at TIMESTAMP, name STRING, price DOUBLE"]
    assert main([*dirty, "--separator", "\\t", "--no-header", *schema, "--zone", "Asia/Kathmandu", "--out", "-"]) == 0
    first, _ = capsys.readouterr().out.splitlines()
    assert json.loads(first)["_end"].startswith("2024-03-01T03:25:00")
    for command in (["check"], ["explain"], ["trace"]):
        assert main([*command, *dirty[1:], "--separator", "\\t", "--no-header", *schema]) == 0
