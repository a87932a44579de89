"""Text is not a path: which texts name files, and which files are opened for a query."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import keuka
from keuka.cli import main
from keuka.languages import files

SECRET = "root:x:0:0:the first line of another file"
QUERY = "SELECT n FROM S"
ROWS = [{"t": 1, "n": 7}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("passwd").write_text(SECRET)
    Path("pass wd").write_text(SECRET)
    Path("rise.cel").write_text(QUERY)
    Path("rules").mkdir()
    Path("rules/all.cel").write_text(QUERY)
    Path("rules/passwd").write_text(SECRET)
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were opened or looked for, as the audit of Python hears of them."""
    paths: list[str] = []
    for name in ("open", "stat", "lstat", "scandir"):
        real = getattr(os, name)

        def heard(path: object, *more: object, real: Callable[..., object] = real, **named: object) -> object:
            paths.append(str(path))
            return real(path, *more, **named)

        monkeypatch.setattr(os, name, heard)
    return paths


def message_of(call: Callable[[], object]) -> str:
    with pytest.raises(keuka.KeukaError) as raised:
        call()
    chain: list[BaseException | None] = [raised.value, raised.value.__cause__, raised.value.__context__]
    assert SECRET[:10] not in "".join(map(repr, chain))
    return str(raised.value)


def try_call(call: Callable[[], object]) -> None:
    """A single word may be a whole query: of SASE it is the name of a stream."""
    try:
        call()
    except keuka.KeukaError:
        message_of(call)


@pytest.mark.parametrize("text", ["passwd", "./passwd", "pass wd", "rules/passwd", "/etc/passwd", "/etc/passwd/", "rules/passwd/"])
def test_a_text_that_names_another_file_never_shows_it(text: str) -> None:
    path = str(Path(text).absolute())
    for name in (text, path):
        for call in (
            lambda name=name: keuka.query(name),
            lambda name=name: keuka.match(name, ROWS, time="t"),
            lambda name=name: keuka.match(name, ROWS, time="t", language="cel"),
            lambda name=name: keuka.match_all(name, ROWS, time="t", language="sase"),
            lambda name=name: keuka.Engine(time="t").add(name),
            lambda name=name: keuka.Engine(time="t").add(name, language="cel"),
            lambda name=name: keuka.cel(name),
            lambda name=name: keuka.sase(name),
        ):
            try_call(call)


@pytest.mark.parametrize("text", ["rise.cel", "rules/", "passwd", "rules"])
def test_with_a_language_no_file_is_looked_for(text: str, opened: list[str]) -> None:
    for call in (
        lambda: keuka.query(text, language="cel"),
        lambda: keuka.match(text, ROWS, time="t", language="cel"),
        lambda: keuka.Engine(time="t").add(text, language="sase"),
        lambda: keuka.cel(text),
        lambda: keuka.sase(text),
    ):
        try_call(call)
    assert [path for path in opened if Path(path).name in ("rise.cel", "rules", "passwd", "all.cel")] == []


def test_a_text_with_the_end_of_a_path_is_a_path() -> None:
    for path in ("rise.cel", "rules/", "./rise.cel", str(Path("rules").absolute()) + "/"):
        assert keuka.match(path, ROWS, time="t")["n"].to_pylist() == [7]
        assert keuka.Engine(time="t").add(path).streams == ("S",)


def test_a_path_object_is_a_path_whatever_its_end() -> None:
    Path("query").write_text(QUERY)
    for path, language in ((Path("rules"), None), (Path("rise.cel"), "cel"), (Path("query"), "cel")):
        assert keuka.match(path, ROWS, time="t", language=language)["n"].to_pylist() == [7]


@pytest.mark.parametrize("text", [f"{QUERY} /* all of it */", f"{QUERY}\n-- as in rise.cel", f"-- for rules/\n{QUERY} -- a/"])
def test_a_query_that_ends_in_a_comment_is_text(text: str) -> None:
    assert keuka.match(text, ROWS, time="t")["n"].to_pylist() == [7]


def test_one_line_that_ends_as_a_path_does_says_how_it_becomes_text() -> None:
    text = f"{QUERY} -- as in rules.cel"
    assert files.AS_TEXT in message_of(lambda: keuka.query(text))
    assert keuka.match(text, ROWS, time="t", language="cel")["n"].to_pylist() == [7]


@pytest.mark.parametrize(
    ("text", "language", "spelling"),
    [
        ("rules", None, '`rules/` for a directory, or `Path("rules")`'),
        ("passwd", None, '`passwd/` for a directory, or `Path("passwd")`'),
        ("pass wd", None, 'or `Path("pass wd")`'),
        ("rise.cel", "cel", 'write `Path("rise.cel")`'),
        ("rules/", "sase", 'write `Path("rules/")`'),
        ("nowhere/rise.txt", None, 'or `Path("nowhere/rise.txt")`'),
    ],
)
def test_the_old_spelling_of_a_path_gets_the_new_one(text: str, language: str | None, spelling: str) -> None:
    assert spelling in message_of(lambda: keuka.query(text, language))


def test_a_wrong_query_gets_no_advice_about_paths() -> None:
    for text in ("SELECT", "SELECT n FRM S", "FROM S NEXT {a..b} S"):
        assert "a path" not in message_of(lambda text=text: keuka.query(text))


def test_only_regular_files_are_opened(opened: list[str]) -> None:
    os.mkfifo("pipe.cel")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.cel")
    Path("device.cel").symlink_to("/dev/zero")
    Path("folder.cel").mkdir()
    for name in ("pipe.cel", "socket.cel", "device.cel"):
        for path in (name, Path(name)):
            assert "it is not a regular file" in message_of(lambda path=path: keuka.query(path))
    Path("mixed").mkdir()
    os.mkfifo("mixed/pipe.sase")
    assert "`mixed/pipe.sase` cannot be read: it is not a regular file" in message_of(lambda: keuka.query("mixed/"))
    assert main(["check", "pipe.cel"]) == 2


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("pipe.cel")
    regular = os.stat("rise.cel")
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **named: regular if str(path) == "pipe.cel" else real(path, **named))
    assert "it is not a regular file" in message_of(lambda: keuka.query("pipe.cel"))


def test_a_query_file_above_16_mb_must_be_given_as_a_path() -> None:
    text = QUERY + " " * files.MOST_BYTES
    Path("large.cel").write_text(text)
    Path("many").mkdir()
    Path("many/large.cel").write_text(text)
    for path in ("large.cel", "many/"):
        assert "is larger than 16 MB" in message_of(lambda path=path: keuka.query(path))
    assert keuka.query(Path("large.cel")).inputs == ("S",)
    assert main(["check", "large.cel"]) == 0
    Path("fits.cel").write_text(text[: files.MOST_BYTES])
    assert keuka.query("fits.cel").inputs == ("S",)


def test_the_command_takes_a_path_and_says_so_of_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "rules"]) == 0
    assert main(["check", QUERY]) == 2
    assert "write the text of the query into a file `*.cel` or `*.sase`" in capsys.readouterr().err


def test_names_that_no_file_can_have_are_no_foreign_exceptions() -> None:
    for path in ("x" * 5000 + ".cel", "a\0b.cel", Path("y" * 5000)):
        message_of(lambda path=path: keuka.query(path))
