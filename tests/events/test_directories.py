"""Directories whose names hold columns: `day=2024-03-01/part-0.csv`."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

import keuka

ROWS = {"day=2024-03-01/shop=7": [1, 2], "day=2024-03-02/shop=08": [3], "day=2024-03-02/shop=__HIVE_DEFAULT_PARTITION__": [4]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(format: str, rows: dict[str, list[int]], root: str = "in") -> str:
    for folder, times in rows.items():
        place = Path(root, folder)
        place.mkdir(parents=True)
        (place / "_SUCCESS").touch()
        table = pa.table({"t": times})
        if format == "csv":
            (place / "part-0.csv").write_text("t\n" + "".join([f"{t}\n" for t in times]))
        elif format == "json":
            (place / "part-0.json").write_text("".join([f'{{"t": {t}}}\n' for t in times]))
        elif format == "parquet":
            pa.parquet.write_table(table, place / "part-0.parquet")
        else:
            with pa.ipc.new_file(str(place / "part-0.arrow"), table.schema) as sink:
                sink.write(table)
    return root


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "arrow"])
def test_names_of_directories_are_columns(format: str):
    found = keuka.match("SELECT t, day, shop FROM S", write(format, ROWS), time="t", sort=True)
    days = [datetime.date(2024, 3, day) for day in (1, 1, 2, 2)]
    assert found["t"].to_pylist() == [1, 2, 3, 4]
    assert found["day"].to_pylist() == days
    assert found["shop"].to_pylist() == [7, 7, 8, None]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (["1", "-2"], [1, -2]),
        (["1", "3000000000"], [1, 3000000000]),
        (["1", "2.5"], [1.0, 2.5]),
        (["a%2Fb c", "é"], ["a/b c", "é"]),
        (["2024-03-01", "soon"], ["2024-03-01", "soon"]),
        (["1", "x"], ["1", "x"]),
    ],
)
def test_types_of_names(values: list[str], read: list[object]):
    write("csv", {f"k={value}": [i] for i, value in enumerate(values)})
    found = keuka.match("SELECT k FROM S", "in", time="t", sort=True)
    assert found["k"].to_pylist() == read


def test_a_schema_declares_columns_in_names_too():
    write("csv", ROWS)
    found = keuka.match("SELECT shop FROM S", keuka.Stream("in", time="t", schema="shop STRING", sort=True))
    assert found["shop"].to_pylist() == ["7", "7", "08", None]


def test_a_column_in_names_can_be_the_time():
    write("csv", {"day=2024-03-01": [1, 2], "day=2024-03-02": [3]})
    found = keuka.match("SELECT t FROM S", "in", time="day")
    assert found["t"].to_pylist() == [1, 2, 3]
    assert keuka.match("SELECT day FROM S", "in", time="day").num_rows == 3


def test_rejected_rows_have_the_columns_in_names():
    write("csv", {"shop=07": [1, 2]})
    Path("in/shop=07/part-1.csv").write_text("t\nx\n5,6\n7\n")
    tables: list[pa.Table] = []
    found = keuka.match("SELECT t, shop FROM S", "in", time="t", rejected=tables)
    assert found["shop"].to_pylist() == [7, 7, 7]
    rows = tables[0].select(["t", "shop", "_reason", "_file", "_line"]).to_pylist()
    file = "in/shop=07/part-1.csv"
    assert rows == [
        {"t": "x", "shop": "07", "_reason": "`t` is `x`, not an integer", "_file": file, "_line": 2},
        {"t": None, "shop": "07", "_reason": "2 fields instead of 1", "_file": file, "_line": 3},
    ]


def test_files_in_directories_for_other_columns_are_refused():
    write("csv", {"day=1": [1], "week=1": [2]})
    with pytest.raises(keuka.DataError, match="the file is not in directories for the same columns as the files before it"):
        keuka.match("SELECT t FROM S", "in", time="t")
