"""Values of variables, and credentials in URLs, appear in no message, whatever the way they take to it."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

import keuka
from keuka.cli import main
from keuka.pipelines import Input, Queries, Sink
from keuka.pipelines import embedded as in_process
from keuka.pipelines.environment import Secrets

RISE = Queries(file="rise.cel")
CONSOLE = Sink("console")
VALUES = ["swordfish", "s3cr", "abc", "zq", "zq7", "INT7zq", "two words", "a/b+c=d"]


def messages(pipeline: keuka.Pipeline) -> str:
    """All that an error of the pipeline says, and what stands behind it."""
    found = []
    for ask in (pipeline.check, pipeline.run):
        with pytest.raises(keuka.KeukaError) as raised:
            ask(embedded=True)
        error: BaseException | None = raised.value
        found += [str(error), repr(error), repr(raised.value.args)]
        while error is not None:
            found += traceback.format_exception_only(error)
            error = error.__cause__ or error.__context__
    return "\n".join(found)


def piped(stream: Input, *sinks: Sink, queries: Queries = RISE) -> keuka.Pipeline:
    return keuka.Pipeline({"Stock": stream}, [queries], sinks or [CONSOLE])


@pytest.fixture(params=VALUES)
def secret(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KEUKA_TEST_SECRET", request.param)
    return str(request.param)


@pytest.mark.parametrize(
    "path",
    [
        "${KEUKA_TEST_SECRET}",
        "in/${KEUKA_TEST_SECRET}.csv",
        "in/x${KEUKA_TEST_SECRET}y/ticks.csv",
        "./in/../${KEUKA_TEST_SECRET}/*.csv",
    ],
)
def test_a_secret_in_a_path(path: str, secret: str) -> None:
    pipeline = piped(Input("csv", path=path))
    said = messages(pipeline) + repr(pipeline)
    assert secret not in said
    assert "${KEUKA_TEST_SECRET}" in said


@pytest.mark.parametrize("content", ["time,name,price\n2024-01-02 09:30:00,IBM\n", "", "a,b\n1,2\n", "time,name,price\n,IBM,1\n"])
@pytest.mark.parametrize("path", ["in/x${KEUKA_TEST_SECRET}.csv", "in/${KEUKA_TEST_SECRET}/*.csv", "in/${KEUKA_TEST_SECRET}"])
def test_a_secret_in_the_path_of_a_file_that_is_wrong(path: str, content: str, secret: str) -> None:
    target = Path(path.replace("${KEUKA_TEST_SECRET}", secret).replace("*", "part-1"))
    target = target if target.suffix else target / "part-1.csv"
    target.parent.mkdir(parents=True)
    target.write_text(content)
    assert secret not in messages(piped(Input("csv", path=path)))


@pytest.mark.parametrize(
    "schema",
    [
        "${KEUKA_TEST_SECRET}",
        "time TIMESTAMP, ${KEUKA_TEST_SECRET}",
        "time TIMESTAMP, x${KEUKA_TEST_SECRET}y WRONG",
        "time ${KEUKA_TEST_SECRET}",
    ],
)
def test_a_secret_in_a_schema(schema: str, secret: str) -> None:
    said = messages(piped(Input("csv", path="ticks.csv", schema=schema)))
    assert secret not in said
    assert secret.upper() not in said
    for part in ("ZQ", "7zq"):
        assert part not in said


def test_the_columns_of_a_secret_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEUKA_TEST_SECRET", "time TIMESTAMP_NTZ, salary DOUBLE, bonus WRONG")
    said = messages(piped(Input("csv", path="ticks.csv", schema="${KEUKA_TEST_SECRET}")))
    monkeypatch.setenv("KEUKA_TEST_SECRET", "time TIMESTAMP_NTZ, salary DOUBLE, bonus INT")
    said += messages(piped(Input("csv", path="ticks.csv", schema="${KEUKA_TEST_SECRET}")))
    assert "salary" not in said
    assert "bonus" not in said


def test_a_path_that_is_resolved_is_hidden_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    (folder / "vault").mkdir()
    (folder / "vault" / "ticks.csv").write_text("a,b\n1\n")
    (folder / "sub" / "link").symlink_to(folder / "vault")
    for value in ("sub/../vault/ticks.csv", "sub/link/../vault/ticks.csv", "sub/link/ticks.csv"):
        monkeypatch.setenv("KEUKA_TEST_SECRET", value)
        assert "vault" not in messages(piped(Input("csv", path="${KEUKA_TEST_SECRET}")))


@pytest.mark.parametrize(
    "stream",
    [
        Input("csv", path="ticks.csv", time="${KEUKA_TEST_SECRET}"),
        Input("csv", path="ticks.csv", id="${KEUKA_TEST_SECRET}"),
        Input("csv", path="ticks.csv", lateness="${KEUKA_TEST_SECRET}"),
        Input("csv", path="ticks.csv", unit="${KEUKA_TEST_SECRET}"),
        Input("${KEUKA_TEST_SECRET}", path="ticks.csv"),
        Input("csv", path="ticks.csv", type_column="${KEUKA_TEST_SECRET}"),
        Input("csv", path="ticks.csv", options={"header": "${KEUKA_TEST_SECRET}"}),
    ],
)
def test_a_secret_anywhere_in_a_stream(stream: Input, secret: str) -> None:
    assert secret not in messages(piped(stream))


@pytest.mark.parametrize(
    "queries",
    [
        Queries(text="SELECT ${KEUKA_TEST_SECRET} FROM Stock"),
        Queries(text="SELECT price FROM Stock WHERE '${KEUKA_TEST_SECRET}'"),
        Queries(file="rules/${KEUKA_TEST_SECRET}.cel"),
        Queries(files=("rules/${KEUKA_TEST_SECRET}*.cel",)),
        Queries(text="SELECT price FROM Stock", language="${KEUKA_TEST_SECRET}"),
    ],
)
def test_a_secret_in_queries(queries: Queries, secret: str) -> None:
    assert secret not in messages(piped(Input("csv", path="ticks.csv"), queries=queries))


def test_a_secret_in_the_name_of_a_query_file_with_a_mistake(secret: str) -> None:
    file = Path(f"rules/{secret}.cel")
    file.parent.mkdir(parents=True)
    file.write_text("SELECT nothing FROM Stock")
    said = messages(piped(Input("csv", path="ticks.csv"), queries=Queries(file="rules/${KEUKA_TEST_SECRET}.cel")))
    assert secret not in said
    assert "--> rules/${KEUKA_TEST_SECRET}.cel:1:8" in said


@pytest.mark.parametrize(
    "sink",
    [
        Sink("csv", path="ticks.csv/${KEUKA_TEST_SECRET}"),
        Sink("console", of="${KEUKA_TEST_SECRET}"),
        Sink("csv", path="out", mode="${KEUKA_TEST_SECRET}"),
    ],
)
def test_a_secret_in_a_sink(sink: Sink, secret: str) -> None:
    pipeline = piped(Input("csv", path="ticks.csv"), sink)
    with pytest.raises(keuka.KeukaError) as raised:
        pipeline.run(embedded=True)
    assert secret not in str(raised.value)


@pytest.mark.parametrize("kind", [OSError, ValueError, RuntimeError])
def test_an_exception_of_others_that_shows_a_value_is_reworded(kind: type[Exception], secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        try:
            raise KeyError(f"behind {secret}")
        except KeyError:
            raise kind(f"cannot use `{secret}`") from None

    monkeypatch.setattr(in_process, "run", fail)
    with pytest.raises(keuka.InternalError) as raised:
        keuka.Pipeline({"Stock": Input("csv", path="ticks.csv")}, [RISE], [Sink("csv", path="${KEUKA_TEST_SECRET}")]).run(embedded=True)
    assert secret not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_what_is_logged_shows_no_value(secret: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: Any) -> None:
        logging.getLogger("keuka").warning("the file `%s` is odd", f"in/{secret}.csv")

    Path("x.csv").write_text(Path("ticks.csv").read_text())
    monkeypatch.setattr(in_process, "run", warn)
    target = Path(f"in/{secret}.csv")
    target.parent.mkdir(parents=True)
    target.write_text(Path("ticks.csv").read_text())
    piped(Input("csv", path="in/${KEUKA_TEST_SECRET}.csv")).run(embedded=True)
    assert "the file `in/${KEUKA_TEST_SECRET}.csv` is odd" in caplog.text
    assert secret not in caplog.text


def test_a_message_without_values_stays_as_it_is() -> None:
    secrets = Secrets({"3": "DAY", "eu": "REGION"})
    assert secrets.hidden("a queue of 30 rows, K513") == "a queue of 30 rows, K513"
    assert secrets.hidden("no file `in/eu/3.csv`") == "no file `in/${REGION}/${DAY}.csv`"
    assert Secrets({"test": "TEST_TEST"}).hidden("`test` test") == "`${TEST_TEST}` ${TEST_TEST}"


CREDENTIALS = [
    "s3a://AKIA123:wJal/rXUt@bucket/x.csv",
    "https://user:swordfish@host/x.csv",
    "jdbc:sqlserver://host;user=sa;password=swordfish;x=1",
    "jdbc:postgresql://host/db?user=u&password=swordfish",
    "jdbc:oracle:thin:scott/swordfish@host:1521",
    "abfss://c@account/x?sig=swordfish",
]
SHOWN = ("swordfish", "wJal", "AKIA123", "scott")


@pytest.mark.parametrize("url", CREDENTIALS)
def test_credentials_of_a_url_are_in_no_message(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(keuka.DataError) as raised:
        keuka.match("SELECT n FROM S", url, time="t")
    said = str(raised.value) + repr(raised.value)
    said += messages(piped(Input("csv", path=url)))
    Path("pipeline.toml").write_text(f'[streams.Stock]\nformat = "csv"\npath = "{url}"\nwrong = 1\n')
    assert main(["check", "pipeline.toml", "--embedded"]) == 2
    Path("pipeline.toml").write_text(
        f'[streams.Stock]\nformat = "csv"\npath = "{url}"\n[[queries]]\nfile = "rise.cel"\n[[sinks]]\nformat = "csv"\npath = "{url}"\n'
    )
    assert main(["check", "pipeline.toml", "--embedded"]) == 2
    said += "".join(capsys.readouterr())
    assert not [secret for secret in SHOWN if secret in said]
    assert "***" in said


def test_a_literal_option_that_is_a_secret_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pipeline.toml").write_text(
        '[streams.Stock]\nformat = "csv"\npath = "ticks.csv"\noptions = { password = "swordfish", "fs.s3a.secret.key" = "wJal" }\n'
        '[[queries]]\nfile = "rise.cel"\n[[sinks]]\nformat = "console"\n'
    )
    assert main(["check", "pipeline.toml", "--embedded"]) == 2
    said = "".join(capsys.readouterr())
    assert "the option `password` needs Spark" in said
    assert "swordfish" not in said
    assert "wJal" not in said


def test_the_path_of_a_sink_is_shown_without_its_credentials(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from keuka.pipeline_commands import written

    pipeline = piped(Input("csv", path="ticks.csv"), Sink("parquet", path="s3a://AKIA123:wJal@bucket/out"))
    assert written(pipeline, "Rise") == ["`Rise` as parquet to `s3a://***@bucket/out`"]


def test_other_equal_signs_stay(capsys: pytest.CaptureFixture[str]) -> None:
    from keuka.diagnostics import hide_credentials

    for text in ("`lateness=5`", '`key={"Name": "IBM"}`', "`snapshot(key=...)`", "http://host:80/x", "abfss://c@account/x", "a:b@c"):
        assert hide_credentials(text) == text
