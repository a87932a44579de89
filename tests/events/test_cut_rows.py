"""Rows that are cut: a producer that died must not become a row with a wrong value, nor silence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import keuka
from keuka.events.files import BLOCK_BYTES

PROGRAM = "import sys; from keuka.cli import main; sys.exit(main(sys.argv[1:]))"
QUERY = "SELECT * FROM S"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("all.cel").write_text(QUERY)
    return tmp_path


def piped(data: bytes, *options: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", PROGRAM, "match", "all.cel", "-", "--time", "t", "--out", "-", *options]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"t,x\n1,2\n3,44", "standard input ends in the middle of a row"),
        (b"t,x\n1,2\n3", "a row has 1 fields, the header 2"),
        (b't,x\n1,a\n3,"b', "standard input ends in the middle of a row"),
        (b't,x\n1,a\n3,"b\n', "a quote is opened and never closed"),
        (b"t,x\n1,a\n3,", "standard input ends in the middle of a row"),
        (b'{"t": 1, "x": 2}\n{"t": 3, "x": 4', "the file ends in the middle of a line"),
    ],
)
def test_a_pipe_that_is_cut_in_a_row_is_an_error_at_its_place(data: bytes, message: str) -> None:
    code, out, err = piped(data)
    assert code == 3
    assert err.startswith(f"error[K506]: {message}")
    assert "stream `S`, standard input" in err
    assert '"t": 3' not in out


def test_the_place_is_the_last_row() -> None:
    assert "standard input, row 2\n" in piped(b"t,x\n1,2\n3,44")[2]
    assert "standard input, header\n" in piped(b"t,x")[2]


def test_a_long_pipe_that_is_cut_is_an_error_and_its_last_batch_is_not_used() -> None:
    row = b"1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
    n_rows = 2 * BLOCK_BYTES // len(row)
    code, out, err = piped(b"t,x\n" + row * n_rows + b"2,cut")
    assert (code, "middle of a row" in err) == (3, True)
    assert f"row {n_rows + 1}\n" in err
    assert "cut" not in out
    assert piped(b"t,x\n" + row * n_rows + b"2,whole\n", "--limit", "1")[0] == 0


@pytest.mark.parametrize("data", [b"t,x\n1,2\n3,44\n", b"t,x\r\n1,2\r\n", b'{"t": 1}\n{"t": 2}', b't,x\n1,"a\n"\n', b't,x\n1,""\n'])
def test_a_pipe_that_is_complete_is_read(data: bytes) -> None:
    assert piped(data)[0] == 0


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("t,x\n1,a\n3,b", "b"),
        ('t,x\n1,a\n3,"b"', "b"),
        ('t,x\n1,a\n3,"b,"', "b,"),
        ('t,x\n1,a\n3,"b\n"', "b\n"),
        ('t,x\n1,a\n3,"b\n"\n', "b\n"),
        ('t,x\n1,a\n3,""', ""),
        ('t,x\n1,a\n3,"b"""\n', 'b"'),
        ('t,x\n1,a\n3,"b"",""c"\n', 'b","c'),
        ('t,x\n1,a\n3,5" pipe\n', '5" pipe'),
        ("t,x\n1,a\n3,\n", None),
    ],
)
def test_a_file_may_end_without_a_line_break(text: str, last: str | None) -> None:
    Path("rows.csv").write_text(text)
    for query in (QUERY, "SELECT t FROM S"):
        result = keuka.match(query, "rows.csv", time="t")
        assert result["t"].to_pylist() == [1, 3]
    assert keuka.match(QUERY, "rows.csv", time="t")["x"].to_pylist()[-1] == last


@pytest.mark.parametrize("end", ['"', '"b', '"b\n', '"b,', '"b""', '"b""\n', '"b\n4,c\n5,d\n', '"b"",""c\n', '"""\n'])
@pytest.mark.parametrize("query", [QUERY, "SELECT t FROM S"])
def test_a_file_that_ends_inside_quotes_is_an_error(end: str, query: str) -> None:
    Path("rows.csv").write_text(f"t,x\n1,a\n3,{end}")
    with pytest.raises(keuka.DataError, match="a quote is opened and never closed") as raised:
        keuka.match(query, "rows.csv", time="t")
    assert raised.value.code == "K506"
    assert "file `rows.csv`, row 2, column `x`" in str(raised.value)


def test_a_named_pipe_is_refused_without_waiting_for_its_writer() -> None:
    os.mkfifo("rows.csv")
    for path in ("rows.csv", Path("rows.csv")):
        with pytest.raises(keuka.DataError, match="it is not a regular file") as raised:
            keuka.match(QUERY, path, time="t")
        assert "read a pipe from standard input: `-`" in str(raised.value)


def test_closed_standard_input_has_a_message_of_its_own() -> None:
    command = f"{sys.executable} -c '{PROGRAM}' match all.cel - --time t <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("error[K513]: the data is to come from standard input, which is closed\n")
