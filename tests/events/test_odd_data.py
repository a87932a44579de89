"""Data at the edges of Arrow's types and of 2 GB, damaged text and files, readers given twice: a result or a clear message."""

from __future__ import annotations

import ctypes
import datetime as dt
import mmap
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

import keuka
from keuka.events import columns, order
from keuka.events.carried import CarriedColumn
from keuka.events.sources import Stream, joined, open_stream
from keuka.run.texts import Texts

Expect = Callable[..., None]
Write = Callable[[str, str | bytes], str]

PAIRS = "SELECT t_1 AS first, t AS second, c FROM S NEXT {$2.c = $1.c} S"


def refused(code: str, *arguments: Any, **options: Any) -> str:
    with pytest.raises(keuka.KeukaError) as raised:
        keuka.match(*arguments, **options)
    assert raised.value.code == code, str(raised.value)
    return str(raised.value)


def one_column(column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table({"t": range(1, len(column) + 1), "c": column})


# ---- 2 GB: memory that is mapped but never touched stands for the text


def mapped(arrow: pa.DataType, *ends: int) -> pa.Array:
    wide = pa.types.is_large_string(arrow) or pa.types.is_large_binary(arrow)
    offsets = np.array([0, *ends], np.int64 if wide else np.int32)
    return pa.Array.from_buffers(arrow, len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(mmap.mmap(-1, ends[-1]))])


@pytest.mark.parametrize("as_reader", [False, True])
def test_a_text_of_more_than_2_gb_is_refused_with_its_row(as_reader: bool) -> None:
    table = one_column(mapped(pa.large_string(), 10, 5 * 2**29, 5 * 2**29 + 10))
    said = refused("K514", PAIRS, table.to_reader() if as_reader else table, time="t")
    assert said.startswith("error[K514]: a text has 2,684,354,550 bytes, more than 2 GB\n  stream `S`, row 2, column `c`\n")


def test_a_text_of_more_than_2_gb_has_no_identity_either() -> None:
    table = one_column(mapped(pa.large_string(), 10, 5 * 2**29))
    assert "stream `S`, column `c`" in refused("K514", "SELECT t FROM S", table, time="t", contributors=True)


@pytest.mark.parametrize("contributors", [False, True])
def test_text_beyond_32_bit_offsets_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch, contributors: bool) -> None:
    words = pa.array(["a", "bb", None, "", "ccc", "a", "bb", "dddddddd"], pa.large_string())
    expected = keuka.match(PAIRS, one_column(words), time="t", contributors=contributors)
    monkeypatch.setattr(columns, "MOST_TEXT", 8)
    assert [len(piece) for piece in columns.text_pieces(words)] == [6, 1, 1]
    for data in (one_column(words), one_column(words).slice(0), one_column(words.dictionary_encode())):
        assert keuka.match(PAIRS, data, time="t", contributors=contributors).equals(expected)
    long = one_column(pa.array(["a", "b", "too long by far", "c"], pa.large_string()).slice(1))
    assert "row 2, column `c`" in refused("K514", PAIRS, long, time="t")
    coded = one_column(pa.array(["a", "b", "b", "too long by far"], pa.large_string()).dictionary_encode())
    assert "row 4, column `c`" in refused("K514", PAIRS, coded, time="t")


def test_batches_that_only_64_bit_offsets_can_join_get_them() -> None:
    opened = open_stream("S", Stream(one_column(pa.array(["a"])), time="t"))
    words = ("x", "y", "x")
    plain = [pa.array([word], arrow) for word, arrow in zip(words, (pa.string(), pa.large_string(), pa.string()), strict=True)]
    for arrays in (plain, [array.dictionary_encode() for array in plain]):
        batch = joined(opened, [pa.RecordBatch.from_arrays([array], names=["c"]) for array in arrays])
        assert batch.column("c").to_pylist() == list(words)


def test_unsorted_text_of_more_than_2_gb_gets_64_bit_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_TEXT", 8)
    table = pa.table({"t": [3, 1, 2], "c": pa.chunked_array([["long text"], ["b", "long text"]])})
    assert keuka.match(PAIRS, table, time="t")["first"].to_pylist() == [2]


def test_more_than_2_gb_of_another_column_in_one_epoch_is_refused() -> None:
    batches = [pa.RecordBatch.from_arrays([pa.array([1]), mapped(pa.binary(), 3 * 2**29)], names=["t", "c"]) for _ in range(2)]
    said = refused("K514", "SELECT c FROM S", pa.RecordBatchReader.from_batches(batches[0].schema, batches), time="t")
    assert "column `c` has more than 2 GB" in said


def test_more_than_2_gb_held_for_later_matches_is_refused() -> None:
    column = CarriedColumn(pa.binary(), "stream `S`, column `c`")
    for number in range(2):
        column.open(number, mapped(pa.binary(), 3 * 2**29))
        column.settle(np.array([number]))
    with pytest.raises(keuka.DataError) as raised:
        column.take(np.array([0]))
    assert raised.value.code == "K514"
    assert "stream `S`, column `c`" in str(raised.value)


def test_matches_with_too_much_text_for_one_batch_come_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    table = one_column(pa.array(list("abcdefgh")))
    query = "SELECT c_1 AS a, c AS b FROM S NEXT S"
    expected = keuka.match(query, table, time="t", contributors=True)
    copy = Texts.copy

    def small(run: Any, codes: Any, valid: Any) -> Any:
        if len(codes) > 2:
            raise OverflowError
        return copy(run, codes, valid)

    monkeypatch.setattr(Texts, "copy", small)
    found = keuka.match(query, table, time="t", contributors=True)
    assert found.equals(expected)
    assert found["a"].num_chunks > 2

    def none_fits(*_: object) -> None:
        raise OverflowError

    monkeypatch.setattr(Texts, "copy", none_fits)
    assert "more than 2 GB" in refused("K514", query, table, time="t")


# ---- dictionaries


def coded(n_batches: int, words: Callable[[int], Any]) -> list[pa.RecordBatch]:
    """Batches of 100 rows, each with a dictionary of its own that fills most of 8-bit indices."""
    batches = []
    for i in range(n_batches):
        column = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array([words(100 * i + j) for j in range(100)]))
        batches.append(pa.RecordBatch.from_arrays([pa.array(range(100 * i, 100 * i + 100)), column], names=["t", "c"]))
    return batches


@pytest.mark.parametrize("words", [lambda i: f"word {i}", lambda i: dt.date(2000, 1, 1) + dt.timedelta(days=i), lambda i: 7 * i])
def test_dictionaries_that_differ_between_batches_are_joined(words: Callable[[int], Any]) -> None:
    batches = coded(3, words)
    expected = [words(i) for i in range(300)]
    schema = batches[0].schema
    for data in (
        pa.Table.from_batches(batches),
        pa.Table.from_batches(batches[::-1]),
        pa.RecordBatchReader.from_batches(schema, batches),
        Stream(pa.RecordBatchReader.from_batches(schema, batches), time="t", lateness=1000),
    ):
        found = keuka.match("SELECT c FROM S", data, time="t")["c"]
        assert found.to_pylist() == expected
        assert not pa.types.is_dictionary(found.type)


@pytest.mark.parametrize(
    "values",
    [
        pa.nulls(2),
        pa.array([Decimal("1.5"), Decimal("2.5")]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[1], [2]]),
        pa.array(["x", "y"], pa.string_view()),
        pa.array(["x", "y"], pa.large_string()),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("time", ["t", "u"])
def test_a_dictionary_of_anything_stands_for_its_values(values: pa.Array, time: str) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), values)
    table = pa.table({"t": [1, 2, 3], "u": [3, 2, 1], "c": column})
    expected = [values[1].as_py(), values[0].as_py(), None]
    for data in (table, table.to_reader(max_chunksize=1) if time == "t" else table):
        found = keuka.match("SELECT c FROM S", data, time=time, contributors=True)["c"].to_pylist()
        assert found == (expected if time == "t" else expected[::-1])


def test_categories_of_pandas_may_be_tuples() -> None:
    frame = pd.DataFrame({"t": [1, 2], "c": pd.Categorical([(1, 2), (3, 4)])})
    assert [list(value) for value in keuka.match("SELECT c FROM S", frame, time="t")["c"]] == [[1, 2], [3, 4]]


# ---- types that Arrow can hardly handle


UNTAKEABLE = [
    pa.array([b"a", b"b"], pa.binary_view()),
    pa.array([["a"], ["b"]], pa.list_(pa.string_view())),
    pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", "b"])),
]


@pytest.mark.parametrize("column", UNTAKEABLE, ids=lambda column: str(column.type))
def test_columns_that_cannot_pass_through_are_refused_before_the_run_and_only_if_read(column: pa.Array) -> None:
    table = one_column(column)
    said = refused("K512", "SELECT c_1, c FROM S NEXT S", table, time="t")
    assert said == (
        f"error[K512]: a column of type {column.type} cannot pass through a query\n  stream `S`, column `c`\n"
        " = help: convert the column, or leave it out of the query"
    )
    assert "column `c`" in refused("K512", "SELECT * FROM S", table.slice(0, 0), time="t")
    assert keuka.match("SELECT t FROM S", table, time="t").num_rows == 2


def test_a_dictionary_that_arrow_cannot_look_up_is_refused_where_it_is_read() -> None:
    words = pa.array([b"a", b"b"], pa.binary_view())
    table = one_column(pa.DictionaryArray.from_arrays(pa.array([0, 1]), words))
    assert keuka.match("SELECT t FROM S", table, time="t").num_rows == 2
    said = refused("K512", "SELECT t FROM S", table, time="t", contributors=True)  # the ids of events are made of all columns
    assert said == (
        "error[K512]: Arrow cannot look up words of type binary_view, and these are in a dictionary\n  stream `S`, row 1, column `c`\n"
        " = help: convert the column, or leave it out"
    )


def test_a_damaged_union_is_refused() -> None:
    """Its second child has fewer values than its offsets say. Arrow notices when rows are picked, not before."""
    types, offsets = pa.array([0, 1], pa.int8()), pa.array([0, 3], pa.int32())
    table = one_column(pa.UnionArray.from_dense(types, offsets, [pa.array([1]), pa.array(["a"])]))
    assert "Union value at position 1 has offset larger than child length" in refused("K506", "SELECT c FROM S", table, time="t")
    reversed_rows = table.set_column(0, "t", pa.array([2, 1]))
    assert "Arrow cannot reorder column `c`" in refused("K512", "SELECT c FROM S", reversed_rows, time="t", sort=True)


def test_unions_and_extension_types_pass_through() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2]] * 2, pa.list_(pa.int32(), 2)))
    for column in (union, tensor):
        batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), column], names=["t", "c"])
        later = pa.RecordBatch.from_arrays([pa.array([3, 4]), column], names=["t", "c"])
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch, later])
        found = keuka.match("SELECT c_1 AS a, c AS b FROM S NEXT S", reader, time="t")
        assert found["a"].to_pylist() == [*column.to_pylist(), column[0].as_py()]


def test_a_union_with_a_dictionary_in_it_passes_through() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.nulls(1))  # Arrow cannot join dictionaries of nulls
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), words])
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), union], names=["t", "c"])
    found = keuka.match("SELECT c_1 AS a, c AS b FROM S NEXT S", batch, time="t")
    assert found.to_pylist() == [{"a": 1, "b": None, "_start": 1, "_end": 2}]


def test_a_dictionary_of_words_that_arrow_cannot_look_up_is_refused_by_an_engine() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([b"a"], pa.binary_view()))
    engine = keuka.Engine(time="t")
    engine.add("SELECT t FROM S")
    with pytest.raises(keuka.DataError, match=r"K512.*cannot wait for its time: Arrow cannot reorder it"):
        engine.push("S", pa.table({"t": [1], "c": words}))


def test_a_file_without_rows_may_have_columns_that_arrow_cannot_make(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.int64()), ("c", pa.sparse_union([pa.field("a", pa.int64())]))])
    with pa.ipc.new_file(tmp_path / "empty.arrow", schema):
        pass
    assert keuka.match("SELECT t AS a FROM S", tmp_path / "empty.arrow", time="t").num_rows == 0


# ---- identities


@pytest.mark.parametrize(
    ("column", "first"),
    [
        (pa.array([7, 8]), "7"),
        (pa.array(["x", "y"]), "x"),
        (pa.array(["x", "y"]).dictionary_encode(), "x"),
        (pa.array(["x", "y"], pa.string_view()), "x"),
        (pa.array([True, False]), "true"),
        (pa.array([Decimal("1.50"), Decimal("2.50")]), "1.50"),
        (pa.array([0, 1], pa.date32()), "1970-01-01"),
        (pa.array([1, 2], pa.timestamp("s", "Europe/Berlin")), "1970-01-01 01:00:01.000000+0100"),
        (pa.array([1, 2], pa.timestamp("s", "Mars/Phobos")), "1970-01-01 00:00:01.000000Z"),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_events_are_known_by_an_id_with_a_text(column: pa.Array, first: str) -> None:
    found = keuka.match("SELECT t FROM S", Stream(one_column(column), time="t", id="c"), contributors=True)
    assert found["_contributors"][0].as_py() == [{"stream": "S", "id": first}]


@pytest.mark.parametrize(
    "column",
    [
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"1" * 16], pa.binary(16))),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([b"\xff"]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
    ids=lambda column: str(column.type),
)
def test_an_id_without_a_text_is_refused_when_the_stream_is_opened(column: pa.Array) -> None:
    with pytest.raises(keuka.DataError) as raised:
        open_stream("S", Stream(one_column(column), time="t", id="c"))
    assert str(raised.value) == (
        f"error[K516]: column `c` cannot identify events: it is {column.type}\n  stream `S`\n = help: convert it to text or to integers"
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": 2**62}], pa.struct([("a", pa.timestamp("s"))])),
        pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], ["a", "a"]),
        pa.array([[1]], pa.list_(pa.timestamp("us", "Mars/Phobos"))),
    ],
    ids=lambda column: str(column.type),
)
def test_content_without_a_text_needs_an_id_column(column: pa.Array) -> None:
    said = refused("K512", "SELECT t FROM S", one_column(column), time="t", contributors=True)
    assert "values of column `c` have no text" in said
    assert "`id=`" in said
    assert keuka.match("SELECT t FROM S", Stream(one_column(column), time="t", id="t"), contributors=True).num_rows == 1


# ---- times


@pytest.mark.parametrize(("arrow", "far", "unit"), [(pa.date32(), 200_000_000, "days"), (pa.date64(), -(2**31) * 86_400_000, "ms")])
@pytest.mark.parametrize("as_reader", [False, True])
def test_a_date_beyond_64_bit_microseconds(expect: Expect, arrow: pa.DataType, far: int, unit: str, as_reader: bool) -> None:
    table = pa.table({"day": pa.chunked_array([pa.array([0], arrow), pa.array([0, far], arrow)])})
    expect(
        f"""
error[K514]: {far} {unit} since 1970 does not fit 64-bit microseconds
  stream `S`, row 3, column `day`
 = help: correct or remove such rows
""",
        Stream(table.to_reader() if as_reader else table),
    )


def test_times_in_a_zone_nobody_knows_are_shown_as_utc(expect: Expect) -> None:
    expect(
        """
error[K504]: a row is out of order: 1970-01-01T00:00:00.000001 UTC comes after 1970-01-01T00:00:00.000002 UTC
  stream `S`, row 2, column `t`
 = help: allow rows to be late: `lateness="1 us"` is enough for this row
 = help: or read everything first and sort it: `sort=True`
""",
        Stream(pa.table({"t": pa.array([2, 1], pa.timestamp("us", "Mars/Phobos"))}).to_reader()),
    )


# ---- text that is not text


def broken(arrow: pa.DataType | None = None) -> pa.Array:
    """'a', 'ü' and half a character."""
    arrow = arrow or pa.string()
    offsets = np.array([0, 1, 3, 4], np.int64 if pa.types.is_large_string(arrow) else np.int32)
    return pa.Array.from_buffers(arrow, 3, [None, pa.py_buffer(offsets), pa.py_buffer("aü".encode() + b"\xc3")])


@pytest.mark.parametrize(
    ("column", "row"),
    [
        (broken(), 3),
        (broken(pa.large_string()), 3),
        (broken().slice(1), 2),
        (pa.DictionaryArray.from_arrays(pa.array([1, None, 2, 0]), broken()), 3),
        (pa.DictionaryArray.from_arrays(pa.array([1, 2]), broken()), 2),
    ],
)
def test_text_in_memory_that_is_not_utf8_is_refused_with_its_row(column: pa.Array, row: int) -> None:
    said = refused("K514", PAIRS, one_column(column), time="t")
    assert said.startswith(f"error[K514]: text that is not UTF-8\n  stream `S`, row {row}, column `c`\n")


def test_bytes_behind_a_null_are_no_text() -> None:
    column = broken()
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x03"), *column.buffers()[1:]])
    assert keuka.match("SELECT c FROM S", one_column(hidden), time="t")["c"].to_pylist() == ["a", "ü", None]


def test_json_that_is_not_utf8_is_refused_with_its_row(expect: Expect, write: Write) -> None:
    text = """
error[K514]: text that is not UTF-8
  stream `S`, file `{}`, row 2
 = help: save the file in the encoding UTF-8
"""
    expect(text.format("value.ndjson"), Stream(write("value.ndjson", b'{"t": 1}\n\n{"t": 2, "c": "\xff"}\n{"t": 3}\n'), time="t"))
    expect(text.format("name.ndjson"), Stream(write("name.ndjson", b'{"t": 1}\n{"t": 2, "\xff": 1}\n'), time="t"))


def test_json_cut_in_the_middle_of_a_character_is_cut_short(message: Callable[..., str], write: Write) -> None:
    said = message(Stream(write("cut.ndjson", '{"t": 1}\n{"t": 2, "c": "ü'.encode()[:-1]), time="t"))
    assert said.startswith("error[K506]: the file ends in the middle of a line\n  stream `S`, file `cut.ndjson`, row 2")


def test_a_csv_header_that_is_not_utf8(expect: Expect, write: Write) -> None:
    expect(
        "error[K514]: text that is not UTF-8\n  stream `S`, file `h.csv`, header\n = help: save the file in the encoding UTF-8",
        Stream(write("h.csv", b"t,\xfcber\n1,2\n"), time="t"),
    )


def test_a_damaged_csv_says_nothing_but_its_message(expect: Expect, write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    expect(
        """
error[K506]: a row has 1 fields, the header 3: the row is damaged or the file ends in the middle of it
  stream `S`, file `noise.csv`, row 2
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream(write("noise.csv", b"t,a,b\n1,2,3\n\x82\xff\n"), time="t"),
    )
    assert capfd.readouterr().err == ""


# ---- damaged files


@pytest.mark.parametrize("line", ["null", "  null", "[1]", "5", '"x"', "true", '"t": 1}'])
@pytest.mark.parametrize("before", ["", '{"t": 1}\n\n  {"t": 2}\r\n'])
def test_json_lines_that_are_no_objects(expect: Expect, write: Write, line: str, before: str) -> None:
    expect(
        f"""
error[K506]: a line is not a JSON object
  stream `S`, file `lines.ndjson`, row {3 if before else 1}
 = help: write one object per line, without brackets or commas around them
 = help: to go on without such rows, reject them: `on_bad_row="reject"`
""",
        Stream(write("lines.ndjson", before + line + '\n{"t": 3}\n'), time="t"),
    )


def test_a_json_line_in_a_later_block_that_is_no_object(message: Callable[..., str], write: Write, small_blocks: None) -> None:
    lines = "".join(f'{{"t": {i}}}\n' for i in range(1000))
    said = message(Stream(write("long.ndjson", lines + "null\n" + lines), time="t"))
    assert "file `long.ndjson`, row 1001" in said


def test_json_may_begin_with_a_byte_order_mark_and_have_blank_and_indented_lines(write: Write) -> None:
    path = write("bom.ndjson", b'\xef\xbb\xbf{"t": 1}\n\n   {"t": 2}\r\n\t\n{"t": 3}')
    assert keuka.match("SELECT t FROM S", path, time="t")["t"].to_pylist() == [1, 2, 3]


def damaged_ipc(column: pa.Array, good: list[int], bad: list[int]) -> bytes:
    """A stream of one batch, with some of its 32-bit numbers replaced."""
    table = one_column(column)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content = bytes(sink.getvalue())
    before, after = (np.array(numbers, np.int32).tobytes() for numbers in (good, bad))
    assert before in content
    return content.replace(before, after)


TEXTS = pa.array(["aaaa", "bbbb", "cccc"])
DAMAGED = [
    damaged_ipc(TEXTS, [4, 8, 12], [4, 8, 1200]),
    damaged_ipc(TEXTS, [4, 8, 12], [4, 800, 12]),
    damaged_ipc(TEXTS.dictionary_encode(), [0, 1, 2], [0, 9, 2]),
    damaged_ipc(TEXTS.dictionary_encode(), [0, 1, 2], [0, -1, 2]),
    damaged_ipc(pa.array([1, 2, 3], pa.date32()).dictionary_encode(), [0, 1, 2], [0, 9, 2]),
    damaged_ipc(pa.array([["a"], ["b"], ["c"]]), [1, 2, 3], [1, 2, 99]),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_offsets_and_indices_that_lead_nowhere(content: bytes, write: Write) -> None:
    assert "of another format" in refused("K506", "SELECT c FROM S", write("damaged.arrow", content), time="t")
    assert "the batch is damaged: " in refused("K506", "SELECT c FROM S", pa.ipc.open_stream(content), time="t")
    table = pa.ipc.open_stream(content).read_all()
    assert "the batch is damaged: " in refused("K506", "SELECT c FROM S", table, time="t")


def test_a_path_that_no_file_can_have() -> None:
    for path in ("a\0b.csv", Path("a\0b.parquet"), "a\0*.csv", "half \ud800.csv"):
        assert "the name of a file is text without NUL" in refused("K513", "SELECT t FROM S", path, time="t")


# ---- kinds of data


def test_frames_of_polars_that_arrow_does_not_know() -> None:
    frame = pl.DataFrame({"t": [1], "c": pl.Series([1], dtype=pl.Int128)})
    assert "cannot be converted to Arrow" in refused("K512", "SELECT t, c FROM S", frame, time="t")
    assert keuka.match("SELECT t FROM S", frame, time="t").height == 1  # a column that nobody reads is not converted
    assert "data of the kind `Series`" in refused("K512", "SELECT t FROM S", pl.Series("t", [1]), time="t")


def test_keys_of_rows_that_are_one_name_as_text() -> None:
    assert "two columns have the name `5`" in refused("K512", "SELECT t FROM S", [{"t": 1, 5: 2, "5": 3}], time="t")


def test_half_a_character_in_the_name_of_a_column() -> None:
    assert "'\\ud800'" in refused("K512", "SELECT t FROM S", [{"t": 1, "\ud800": 2}], time="t")


# ---- what can be read only once

BATCHES = pa.table({"t": [1, 2]}).to_batches()


@pytest.mark.parametrize("once", [lambda: pa.Table.from_batches(BATCHES).to_reader(), lambda: iter(BATCHES), lambda: (b for b in BATCHES)])
def test_one_reader_is_not_two_streams(once: Callable[[], Iterator[pa.RecordBatch]]) -> None:
    data = once()
    said = refused("K512", "SELECT t FROM S NEXT R", {"S": data, "R": Stream(data, time="t")}, time="t")
    assert "is given for both `S` and `R`, but it can be read only once" in said
    assert keuka.match("SELECT t FROM S", data, time="t").num_rows == 2, "refusing it took nothing away"


def test_standard_input_is_not_two_streams() -> None:
    said = refused("K512", "SELECT t FROM S NEXT R", {"S": "-", "R": Path("-")}, time="t")
    assert said.startswith("error[K512]: standard input is given for both `S` and `R`")


def test_one_table_may_be_two_streams() -> None:
    table = pa.Table.from_batches(BATCHES)
    assert keuka.match("SELECT t FROM S NEXT R", {"S": table, "R": table}, time="t").num_rows == 1


def test_a_reader_serves_one_run() -> None:
    reader = pa.Table.from_batches(BATCHES).to_reader()
    assert keuka.cel("SELECT t FROM S").output_schema(reader, time="t").names == ["t", "_start", "_end"]
    assert keuka.match("SELECT t FROM S", reader, time="t").num_rows == 2
    assert "already read by an earlier run" in refused("K512", "SELECT t FROM S", reader, time="t")


def test_an_iterator_without_batches_says_nothing_about_columns() -> None:
    assert "there are no record batches" in refused("K512", "SELECT t FROM S", iter([]), time="t")


def test_a_slice_with_a_dense_union_in_it_can_be_weighed():
    """Arrow crashed when it counted the bytes of such a slice, read from a file."""
    union = pa.dense_union([pa.field("a", pa.timestamp("s")), pa.field("b", pa.duration("ms"))])
    table = pa.table({"t": range(8), "m": pa.nulls(8, pa.map_(pa.string(), union))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    reader = pa.ipc.open_stream(sink.getvalue())
    assert keuka.match("SELECT m FROM S", reader, time="t").num_rows == 8


@pytest.mark.parametrize("columns", [["\0"], ["t", "\0x"]])
def test_a_frame_of_polars_that_cannot_be_converted_is_refused(columns: list[str]):
    with pytest.raises(keuka.DataError) as raised:
        keuka.match("SELECT * FROM S", pl.DataFrame({name: [1] for name in columns}), time=columns[0])
    assert raised.value.code == "K512"


@pytest.mark.parametrize("value", [[{"a": None}, {"a": None}], {"a": [None, None]}], ids=str)
def test_nested_columns_without_any_value_pass_through(value: object):
    rows = [{"t": 1, "c": value, "k": 1}, {"t": 2, "c": value, "k": 1}]
    assert keuka.match("SELECT c FROM S NEXT {$2.k = $1.k} S", rows, time="t")["c"].to_pylist() == [value]


def test_a_type_for_which_pyarrow_has_no_class_is_refused(tmp_path: Path):
    """A file can hold intervals of months; pyarrow can name the type, but has no columns of it."""

    class ArrowSchema(ctypes.Structure):
        pass

    release_type = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
    text, number, pointer = ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p
    ArrowSchema._fields_ = [
        *[("format", text), ("name", text), ("metadata", text), ("flags", number), ("n_children", number)],
        *[("children", pointer), ("dictionary", pointer), ("release", release_type), ("private", pointer)],
    ]

    @release_type
    def release(exported):
        exported.contents.release = release_type()

    exported = ArrowSchema(b"tiM", b"x", None, 2, 0, None, None, release, None)
    schema = pa.schema([("t", pa.int64()), ("x", pa.DataType._import_from_c(ctypes.addressof(exported)))])
    with pa.OSFile(str(tmp_path / "months.arrow"), "wb") as file, pa.ipc.new_file(file, schema):
        pass
    with pytest.raises(keuka.DataError, match="a column of type month_interval cannot pass through a query"):
        keuka.match("SELECT * FROM S", tmp_path / "months.arrow", time="t")
    assert keuka.match("SELECT t FROM S", tmp_path / "months.arrow", time="t").num_rows == 0


def test_an_arrow_file_with_one_name_twice_names_it(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["t", "t"])
    with pa.OSFile(str(tmp_path / "twice.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(keuka.DataError, match="two columns have the name `t`"):
        keuka.match("FROM S", tmp_path / "twice.arrow", time="t")
