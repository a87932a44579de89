"""Files that Keuka refuses, each with the whole message a user sees."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from keuka.events.sources import Stream

Expect = Callable[..., None]
Message = Callable[..., str]
Write = Callable[[str, str | bytes], str]

N_BIG = 1_000  # rows that make a text file longer than the part its types are inferred from, with small blocks
pytestmark = pytest.mark.usefixtures("small_blocks")


def big_csv(last: str) -> str:
    return "t,p,s\n" + "".join(f"{i},{i},some text to make it long\n" for i in range(N_BIG)) + last


def big_json(last: str) -> str:
    return "".join(f'{{"t": {i}, "p": {i}, "s": "some text"}}\n' for i in range(N_BIG)) + last


def test_text_that_is_not_utf8(expect: Expect, write: Write) -> None:
    expect(
        """
error[K514]: text that is not UTF-8
  stream `S`, file `latin.csv`, column `s`
 = help: save the file in the encoding UTF-8
""",
        Stream(write("latin.csv", b"t,s\n1,caf\xe9\n"), time="t"),
    )
    table = pa.table({"t": [1, 2], "s": pa.array([b"ok", b"caf\xe9"]).view(pa.string())})
    pa.parquet.write_table(table, "latin.parquet")
    expect(
        """
error[K514]: text that is not UTF-8
  stream `S`, file `latin.parquet`, row 2, column `s`
 = help: convert the column to UTF-8
""",
        Stream("latin.parquet", time="t"),
    )


def test_a_column_whose_name_is_not_utf8(expect: Expect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"t": [1], "caf\u00e9": [1]})
    for name, new in (("a.arrows", pa.ipc.new_stream), ("a.arrow", pa.ipc.new_file)):
        with new(name, table.schema) as writer:
            writer.write_table(table)
        Path(name).write_bytes(Path(name).read_bytes().replace("caf\u00e9".encode(), b"caf\xff\xff"))
        expect(
            f"error[K514]: the name of a column is not UTF-8\n  stream `S`, file `{name}`\n = help: rename the column",
            Stream(name, time="t"),
        )


def test_a_file_that_does_not_exist(expect: Expect, write: Write) -> None:
    write("ticks.csv", "t\n1\n")
    expect("error[K513]: there is no file `tick.csv`\n  stream `S`\n = help: did you mean `ticks.csv`?", Stream("tick.csv"))
    expect("error[K513]: there is no file `nowhere/a.csv`\n  stream `S`", Stream("nowhere/a.csv"))
    expect("error[K513]: no file fits the pattern `*.parquet`\n  stream `S`", Stream("*.parquet"))


def test_a_directory_without_data(expect: Expect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    expect("error[K513]: the directory `empty` has no CSV, Parquet, Arrow IPC or JSON files\n  stream `S`", Stream("empty"))


def test_a_file_of_an_unknown_format(expect: Expect, write: Write) -> None:
    expect(
        """
error[K512]: the data is of no format that can be read here
  stream `S`, file `data.bin`
 = help: files are CSV, Parquet, Arrow IPC or newline-delimited JSON, named with one of the suffixes `.csv`, `.parquet`, `.pq`, \
`.arrow`, `.arrows`, `.feather`, `.ipc`, `.ndjson`, `.jsonl`, `.json`
""",
        Stream(write("data.bin", b"\x00\x01\x02")),
    )


def test_text_files_without_rows(expect: Expect, write: Write) -> None:
    text = """
error[K512]: there are no rows, so the types of the columns are unknown
  stream `S`, file `{}`
 = help: declare the columns, as in `keuka.Stream(..., schema="at TIMESTAMP, price DOUBLE")`, where there may be no rows
"""
    expect(text.format("header.csv"), Stream(write("header.csv", "ts,p\n")))
    expect(text.format("blank.ndjson"), Stream(write("blank.ndjson", "\n")))
    expect(
        """
error[K506]: the file is empty: CSV needs a header line with the names of the columns
  stream `S`, file `empty.csv`
""",
        Stream(write("empty.csv", "")),
    )


def test_a_csv_that_ends_in_the_middle_of_a_row(expect: Expect, write: Write) -> None:
    text = """
error[K506]: a row has 2 fields, the header 3: the row is damaged or the file ends in the middle of it
  stream `S`, file `{}`, row {}
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
"""
    expect(text.format("short.csv", 2), Stream(write("short.csv", "t,p,s\n1,2,a\n2,3"), time="t"))
    expect(text.format("long.csv", N_BIG + 1), Stream(write("long.csv", big_csv("7,8")), time="t"))


def test_a_csv_with_a_quote_that_never_closes(message: Message, write: Write) -> None:
    path = write("quote.csv", big_csv(f'{N_BIG},1,"x\n') + "more text\n" * N_BIG)
    said = message(Stream(path, time="t"))
    assert said.startswith("error[K506]: a row is longer than a few megabytes; perhaps a quote is never closed\n")
    assert "file `quote.csv`, after row " in said


def test_a_csv_value_that_does_not_fit_the_first_ones(expect: Expect, write: Write) -> None:
    write("wrong.csv", big_csv("7,1.5,x\n"))
    expect(
        f"""
error[K509]: `1.5` is not of the type int64 that the first values of column `p` have
  stream `S`, file `wrong.csv`, row {N_BIG + 1}, column `p`
 = help: if the column holds numbers of this kind, declare that: `keuka.Stream(..., schema="p DOUBLE")`
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream("wrong.csv", time="t"),
    )


def test_csv_files_whose_columns_differ(expect: Expect, write: Write) -> None:
    write("part-1.csv", "n,p\n1,1\n")
    write("part-2.csv", "n,q\n2,1\n")
    expect("error[K509]: column `p` is missing, which was there before\n  stream `S`, file `part-2.csv`", Stream("part-*.csv", time="n"))


def test_csv_files_whose_types_differ(expect: Expect, write: Write) -> None:
    write("part-1.csv", "n,p\n1,1\n")
    write("part-2.csv", "n,p\n2,3\n2,high\n")
    expect(
        """
error[K509]: `high` is not of the type int64 that the first values of column `p` have
  stream `S`, file `part-2.csv`, row 2, column `p`
 = help: if the column is text, declare that: `keuka.Stream(..., schema="p STRING")`
 = help: if `high` means that there is no value, say so: `keuka.Stream(..., csv={"nulls": ["high"]})`
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream("part-*.csv", time="n"),
    )


def test_zoned_and_local_times_in_one_csv(expect: Expect, write: Write) -> None:
    write("part-1.csv", "ts\n2024-01-01T00:00:00Z\n")
    write("part-2.csv", "ts\n2024-01-01T00:00:01\n")
    expect(
        """
error[K509]: `2024-01-01T00:00:01` is not of the type timestamp[us, tz=UTC] that the first values of column `ts` have
  stream `S`, file `part-2.csv`, row 1, column `ts`
 = help: if the column is text, declare that: `keuka.Stream(..., schema="ts STRING")`
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream("part-*.csv"),
    )


def test_json_that_ends_in_the_middle_of_a_line(expect: Expect, write: Write) -> None:
    text = """
error[K506]: the file ends in the middle of a line
  stream `S`, file `{}`, row {}
 = help: write one object per line, without brackets or commas around them
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
"""
    expect(text.format("short.ndjson", 2), Stream(write("short.ndjson", '{"t": 1}\n{"t": 2, "p'), time="t"))
    expect(text.format("long.ndjson", N_BIG + 1), Stream(write("long.ndjson", big_json('{"t": 2, "p": 1, "s"')), time="t"))


def test_json_that_is_one_array(expect: Expect, write: Write) -> None:
    expect(
        """
error[K506]: a line is not a JSON object
  stream `S`, file `array.json`, row 1
 = help: write one object per line, without brackets or commas around them
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream(write("array.json", '[{"t": 1}, {"t": 2}]'), time="t"),
    )


@pytest.mark.parametrize(("value", "shown"), [("1.5", "1.5"), ('"high"', "high"), ("true", "True")])
def test_a_json_value_that_does_not_fit_the_first_ones(expect: Expect, write: Write, value: str, shown: str) -> None:
    write("wrong.jsonl", big_json(f'{{"t": 1, "p": {value}, "s": "x"}}\n'))
    expect(
        f"""
error[K509]: `{shown}` is not of the type int64 that the first values of column `p` have
  stream `S`, file `wrong.jsonl`, row {N_BIG + 1}, column `p`
 = help: write all values of a column alike, or use a format with types such as Parquet
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream("wrong.jsonl", time="t"),
    )


def test_json_whose_first_lines_disagree(message: Message, write: Write) -> None:
    said = message(Stream(write("mixed.ndjson", '{"t": 1, "p": 1}\n{"t": 2, "p": "x"}\n'), time="t"))
    assert said.startswith("error[K509]: a line does not have the types of the lines before it\n  stream `S`, file `mixed.ndjson`, row 2\n")


@pytest.fixture
def table() -> pa.Table:
    n = 200_000
    return pa.table({"ts": pa.array(np.arange(n), pa.timestamp("us")), "p": np.random.default_rng(0).random(n)})


def test_a_parquet_file_cut_short(expect: Expect, write: Write, table: pa.Table) -> None:
    pa.parquet.write_table(table, "whole.parquet")
    content = Path("whole.parquet").read_bytes()
    expect(
        """
error[K506]: the data cannot be read as Parquet: it is damaged, cut short, or of another format
  stream `S`, file `cut.parquet`
 = help: the reader says: ...""",
        Stream(write("cut.parquet", content[: len(content) // 2])),
    )


def test_a_parquet_file_damaged_in_the_middle(expect: Expect, write: Write, table: pa.Table) -> None:
    pa.parquet.write_table(table, "whole.parquet", row_group_size=65_536, compression="snappy")
    content = bytearray(Path("whole.parquet").read_bytes())
    offset = pa.parquet.read_metadata("whole.parquet").row_group(2).column(1).data_page_offset
    content[offset : offset + 64] = bytes([0xFF]) * 64
    expect(
        """
error[K506]: the data cannot be read as Parquet: it is damaged, cut short, or of another format
  stream `S`, file `damaged.parquet`, after row 131072
 = help: the reader says: ...""",
        Stream(write("damaged.parquet", bytes(content))),
    )


def test_arrow_files_cut_short(expect: Expect, write: Write, table: pa.Table) -> None:
    with pa.ipc.new_file("whole.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    with pa.ipc.new_stream("whole.arrows", table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    content = Path("whole.arrow").read_bytes()
    expect(
        """
error[K506]: the data cannot be read as Arrow IPC: it is damaged, cut short, or of another format
  stream `S`, file `cut.arrow`
 = help: the reader says: ...""",
        Stream(write("cut.arrow", content[: len(content) // 2])),
    )
    content = Path("whole.arrows").read_bytes()
    expect(
        """
error[K506]: the data cannot be read as Arrow IPC: it is damaged, cut short, or of another format
  stream `S`, file `cut.arrows`, after row 100000
 = help: the reader says: ...""",
        Stream(write("cut.arrows", content[: len(content) * 6 // 10])),
    )


def test_a_compressed_file_cut_short(message: Message, write: Write) -> None:
    content = gzip.compress(big_csv("").encode(), compresslevel=1)
    said = message(Stream(write("cut.csv.gz", content[: len(content) * 9 // 10]), time="t"))
    assert said.startswith("error[K506]: the data cannot be read as CSV: it is damaged, cut short, or of another format\n")
    assert "file `cut.csv.gz`, after row " in said


def test_a_file_of_another_format_than_its_name_says(expect: Expect, write: Write) -> None:
    expect(
        """
error[K506]: the data cannot be read as Parquet: it is damaged, cut short, or of another format
  stream `S`, file `not.parquet`
 = help: the reader says: ...""",
        Stream(write("not.parquet", "ts,p\n1,2\n")),
    )


def test_parquet_files_whose_types_differ(expect: Expect, write: Write, table: pa.Table) -> None:
    pa.parquet.write_table(table, write("part-1.parquet", ""))
    pa.parquet.write_table(table.set_column(1, "p", table["p"].cast(pa.float32())), write("part-2.parquet", ""))
    expect(
        "error[K509]: column `p` is float, which was double before\n  stream `S`, file `part-2.parquet`",
        Stream("part-*.parquet"),
    )
