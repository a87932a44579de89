"""A type that no row of a table has: a warning at the end of a call, with the similar ones that rows do have."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import keuka
from keuka.cli import main
from keuka.events.types_seen import MOST_SEEN, TypesSeen

CASE = Path(__file__).parent / "golden" / "errors" / "K545_misspelt_type"
ROWS = [{"t": i, "kind": ("view", "purchase")[i % 2], "u": 1} for i in range(10)]
MISSPELT = keuka.sase("SEQ(view v, !purchases p) WHERE [u] WITHIN 5")
RIGHT = keuka.sase("SEQ(view v, !purchase p) WHERE [u] WITHIN 5")


def test_the_warning_is_the_golden_one(caplog: pytest.LogCaptureFixture, rewrite_goldens: bool):
    exec(compile((CASE / "warning.py").read_text(), CASE.name, "exec"), {})
    (message,) = caplog.messages
    if rewrite_goldens:
        (CASE / "message.txt").write_text(f"{message}\n")
    assert f"{message}\n" == (CASE / "message.txt").read_text()


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        pa.Table.from_pylist(ROWS),
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).astype({"kind": "category"}),
        pa.Table.from_pylist(ROWS).to_reader(max_chunksize=3),
    ],
    ids=["dicts", "table", "pandas", "categories", "reader"],
)
def test_data_of_every_kind_is_looked_at(data: object, caplog: pytest.LogCaptureFixture):
    keuka.match(MISSPELT, data, time="t", type_column="kind")
    (message,) = caplog.messages
    assert message.startswith("warning[K545]: no row has the type `purchases`")
    assert "did you mean `purchase`?" in message


def test_types_that_rows_have_are_no_warning(caplog: pytest.LogCaptureFixture):
    keuka.match_all(RIGHT, ROWS, time="t", type_column="kind")
    assert caplog.messages == []


def test_a_table_without_rows_says_nothing_of_types(caplog: pytest.LogCaptureFixture):
    keuka.match(MISSPELT, pa.Table.from_pylist(ROWS).slice(0, 0), time="t", type_column="kind")
    assert caplog.messages == []


def test_a_type_in_the_last_row_is_found(caplog: pytest.LogCaptureFixture):
    table = pa.Table.from_pylist([*ROWS, {"t": 10, "kind": "purchases", "u": 1}])
    keuka.match(MISSPELT, table.to_reader(max_chunksize=4), time="t", type_column="kind")
    assert caplog.messages == []


def test_only_so_many_types_are_remembered():
    seen = TypesSeen("kind", {"last": None, "none": None})
    seen.look(pa.record_batch({"kind": [*[f"k{i}" for i in range(5_000)], None, "last"]}))
    assert len(seen.seen) == MOST_SEEN + 1
    assert seen.missing == ("none",)


def test_match_and_check_of_the_command_warn(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), "events.parquet")
    Path("q.sase").write_text("SEQ(view v, !purchases p) WHERE [u] WITHIN 5")
    for command in ("match", "check"):
        assert main([command, "q.sase", "events.parquet", "--time", "t", "--type-column", "kind"]) == 0
        assert capsys.readouterr().err.startswith("warning[K545]: no row has the type `purchases`\n --> q.sase:1:14\n")


def test_one_table_for_several_streams_is_told_of_type_column():
    for data in (ROWS, {"view": ROWS}):
        with pytest.raises(keuka.DataError, match="`type_column=`") as raised:
            keuka.match(RIGHT, data, time="t")
        assert raised.value.code == "K505"
