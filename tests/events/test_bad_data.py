"""Streams that Keuka refuses, each with the whole message a user sees: times, order, values, kinds of data."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from keuka.errors import DataError
from keuka.events.order import common_axis, in_order
from keuka.events.sources import Stream, open_stream

Expect = Callable[..., None]
Message = Callable[..., str]
Write = Callable[[str, str | bytes], str]


def timestamps(*ticks: int | None, unit: str = "us") -> pa.Array:
    return pa.array(ticks, pa.timestamp(unit))


# ---- which column is the time


def test_a_table_without_a_timestamp_needs_the_time_column(expect: Expect) -> None:
    expect(
        """
error[K501]: no column is a timestamp, so the time of events is unknown
  stream `S`
 = help: does `s` hold the time as text?
 = help: times as text must be in ISO form (`2024-01-31 09:30:00`) in a CSV or JSON file, and converted in a frame (`pandas.to_datetime`)
 = help: an integer column can count ticks: `time='a'`
 = help: the columns are `a`, `s`
""",
        Stream(pa.table({"a": [1], "s": ["x"]})),
    )


def test_a_table_without_any_possible_time(expect: Expect) -> None:
    expect(
        """
error[K501]: no column is a timestamp, so the time of events is unknown
  stream `S`
 = help: does `s` hold the time as text?
 = help: times as text must be in ISO form (`2024-01-31 09:30:00`) in a CSV or JSON file, and converted in a frame (`pandas.to_datetime`)
 = help: the columns are `s`
""",
        Stream(pa.table({"s": ["x"]})),
    )


def test_two_timestamp_columns_are_ambiguous(expect: Expect) -> None:
    expect(
        """
error[K501]: several columns could be the time of events
  stream `S`
 = help: name one of `sent`, `seen`: `time='sent'`, or two of them if events have a start and an end
""",
        Stream(pa.table({"sent": timestamps(1), "seen": timestamps(2)})),
    )


def test_an_unknown_time_column(expect: Expect) -> None:
    expect(
        """
error[K501]: there is no column `TS` to take the time from
  stream `S`
 = help: names are case-sensitive; did you mean `ts`?
 = help: the columns are `ts`, `p`
""",
        Stream(pa.table({"ts": timestamps(1), "p": [1.0]}), time="TS"),
    )


def test_a_time_that_is_no_column_name(expect: Expect) -> None:
    expect(
        "error[K501]: `time=` must be a column or a pair of columns (start, end), not 5\n  stream `S`",
        Stream(pa.table({"t": [1]}), time=5),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("column", "arrow"), [([1.5], "double"), ([True], "bool"), ([Decimal("1")], "decimal128(1, 0)")])
def test_a_time_column_of_a_type_that_cannot_be_a_time(expect: Expect, column: list[Any], arrow: str) -> None:
    expect(
        f"error[K508]: column `t` cannot be a time: it is {arrow}, not a timestamp, a date or an integer\n  stream `S`\n"
        " = help: convert it to a timestamp, or to an integer and declare its unit",
        Stream(pa.table({"t": column}), time="t"),
    )


def test_a_time_column_of_text(expect: Expect) -> None:
    expect(
        """
error[K508]: column `t` cannot be a time: it is string, not a timestamp, a date or an integer
  stream `S`
 = help: times as text must be in ISO form (`2024-01-31 09:30:00`) in a CSV or JSON file, and converted in a frame (`pandas.to_datetime`)
""",
        Stream([{"t": "9:30"}], time="t"),
    )


def test_start_and_end_need_one_clock(expect: Expect) -> None:
    expect(
        "error[K508]: `a` is int64 but `b` is timestamp[us]: start and end need one clock\n  stream `S`",
        Stream(pa.table({"a": [1], "b": timestamps(2)}), time=("a", "b")),
    )


def test_an_unknown_id_column(expect: Expect) -> None:
    expect(
        """
error[K516]: there is no column `trade` to identify events by
  stream `S`
 = help: did you mean `trade_id`?
 = help: the columns are `ts`, `trade_id`
""",
        Stream(pa.table({"ts": timestamps(1), "trade_id": [1]}), id="trade"),
    )


# ---- lateness, units, clocks


@pytest.mark.parametrize("lateness", ["soon", "5 parsecs", "-5 s", "", 1.5, True])
def test_a_lateness_that_is_no_duration(expect: Expect, lateness: Any) -> None:
    expect(
        f"""
error[K515]: lateness {lateness!r} is not a duration
  stream `S`
 = help: write it like '5 s', with a unit of `us`, `ms`, `msec`, `s`, `sec`, `second`, `seconds`, `min`, `minute`, `minutes`, `m`, `hour`, \
`hours`, `h`, `day`, `days`, `week`, `weeks`, or give a timedelta or a number of ticks
""",
        Stream(pa.table({"t": timestamps(1)}), lateness=lateness),
    )


def test_a_lateness_with_a_unit_for_ticks_without_one(expect: Expect) -> None:
    expect(
        """
error[K515]: lateness '5 s' has a unit but the integer time column has none
  stream `S`
 = help: declare the unit of the column, for example `unit='s'`, or give the lateness as a plain number of ticks
""",
        Stream(pa.table({"t": [1]}), time="t", lateness="5 s"),
    )


@pytest.mark.parametrize("lateness", ["1500 ms", timedelta(seconds=-1), -1])
def test_a_lateness_must_be_a_whole_number_of_ticks(expect: Expect, lateness: Any) -> None:
    expect(
        f"error[K515]: lateness {lateness!r} is not a whole number of ticks from 0 on\n  stream `S`",
        Stream(pa.table({"t": [1]}), time="t", unit="s", lateness=lateness),
    )


def test_an_unknown_unit(expect: Expect) -> None:
    expect(
        """
error[K515]: 'ns' is not a unit of time
  stream `S`
 = help: units are `us`, `ms`, `msec`, `s`, `sec`, `second`, `seconds`, `min`, `minute`, `minutes`, `m`, `hour`, `hours`, `h`, `day`, \
`days`, `week`, `weeks`
""",
        Stream(pa.table({"t": [1]}), time="t", unit="ns"),
    )


def test_a_unit_for_a_timestamp_column(expect: Expect) -> None:
    expect(
        "error[K515]: `unit=` is for integer time columns; `t` is timestamp[us]\n  stream `S`",
        Stream(pa.table({"t": timestamps(1)}), unit="s"),
    )


def test_timestamps_and_plain_ticks_do_not_share_a_clock(expect: Expect) -> None:
    expect(
        """
error[K511]: the streams `S` and `T` do not share one clock: `ts` is a timestamp without a zone, `n` is an integer without a unit
 = help: convert one of the time columns; for integers declare the same `unit=`, for timestamps give both a zone or neither
""",
        Stream(pa.table({"ts": timestamps(1)})),
        Stream(pa.table({"n": [1]}), time="n"),
    )


def test_different_units_do_not_share_a_clock(expect: Expect) -> None:
    expect(
        """
error[K511]: the streams `S` and `T` do not share one clock: `n` is an integer in units of 1 ms, `n` is an integer in units of 1 s
 = help: convert one of the time columns; for integers declare the same `unit=`, for timestamps give both a zone or neither
""",
        Stream(pa.table({"n": [1]}), time="n", unit="ms"),
        Stream(pa.table({"n": [1]}), time="n", unit="s"),
    )


# ---- single times


@pytest.mark.parametrize("as_reader", [False, True])
def test_a_null_time(expect: Expect, as_reader: bool) -> None:
    table = pa.table({"ts": timestamps(1, 2, None)})
    expect(
        """
error[K502]: an event has no time
  stream `S`, row 3, column `ts`
 = help: fill in such rows, or leave them out: `on_bad_row="reject"`
""",
        Stream(table.to_reader() if as_reader else table),
    )


def test_an_interval_that_starts_after_its_end(expect: Expect) -> None:
    table = pa.table({"a": timestamps(0, 5_000_000), "b": timestamps(0, 3_000_000)})
    expect(
        """
error[K503]: an event starts at 1970-01-01 00:00:05, after its end at 1970-01-01 00:00:03
  stream `S`, row 2
 = help: if the columns are the other way round, write `time=('b', 'a')`
""",
        Stream(table, time=("a", "b")),
    )


@pytest.mark.parametrize("time", ["ts", "other"])
def test_a_fraction_of_a_microsecond(expect: Expect, time: str) -> None:
    table = pa.table({"ts": timestamps(1000, 1_000_000_001, unit="ns"), "other": [1, 2]})
    expect(
        """
error[K510]: 1000000001 ns since 1970 has a fraction of a microsecond
  stream `S`, row 2, column `ts`
 = help: round the column to microseconds first (in pandas: `frame[column].dt.floor("us")`)
""",
        Stream(table, time=time),
    )


def test_a_timestamp_too_far_away_for_microseconds(expect: Expect) -> None:
    expect(
        """
error[K514]: 9223372036855 s since 1970 does not fit 64-bit microseconds
  stream `S`, row 1, column `ts`
 = help: replace such far dates by null
""",
        Stream(pa.table({"ts": timestamps(9_223_372_036_855, unit="s")})),
    )


# ---- order


def test_a_file_out_of_order_names_file_row_times_and_remedies(expect: Expect, write: Write) -> None:
    path = write("ticks.csv", "ts,p\n2024-01-02 09:15:00,1\n2024-01-02 09:13:30,2\n")
    expect(
        """
error[K504]: a row is out of order: 2024-01-02 09:13:30 comes after 2024-01-02 09:15:00
  stream `S`, file `ticks.csv`, row 2, column `ts`
 = help: allow rows to be late: `lateness="90 s"` is enough for this row
 = help: or read everything first and sort it: `sort=True`
""",
        Stream(path),
    )


def test_a_reader_beyond_its_lateness(expect: Expect) -> None:
    table = pa.table({"ts": pa.array([10_000_000, 8_500_000, 8_499_999], pa.timestamp("us", "Europe/Berlin"))})
    expect(
        """
error[K504]: a row is out of order: 1970-01-01 01:00:08.499999+01:00 comes after 1970-01-01 01:00:10+01:00, and only 1500 ms of \
lateness is allowed
  stream `S`, row 3, column `ts`
 = help: allow rows to be late: `lateness="1500001 us"` is enough for this row
 = help: or read everything first and sort it: `sort=True`
""",
        Stream(table.to_reader(), lateness="1.5 s"),
    )


def test_plain_ticks_out_of_order(expect: Expect) -> None:
    expect(
        """
error[K504]: a row is out of order: 3 comes after 7
  stream `S`, row 2, column `n`
 = help: allow rows to be late: `lateness=4` is enough for this row
 = help: or read everything first and sort it: `sort=True`
""",
        Stream(pa.table({"n": [7, 3]}).to_reader(), time="n"),
    )


def test_dates_out_of_order(expect: Expect) -> None:
    table = pa.table({"day": pa.array([20_000, 19_999], pa.date32())})
    expect(
        """
error[K504]: a row is out of order: 2024-10-03 comes after 2024-10-04
  stream `S`, row 2, column `day`
 = help: allow rows to be late: `lateness="1 day"` is enough for this row
 = help: or read everything first and sort it: `sort=True`
""",
        Stream(table.to_reader()),
    )


def test_a_row_of_the_second_file_is_counted_in_that_file(expect: Expect, write: Write) -> None:
    write("part-1.csv", "n,p\n1,1\n9,1\n")
    write("part-2.csv", "n,p\n9,1\n8,1\n")
    expect(
        """
error[K504]: a row is out of order: 8 comes after 9
  stream `S`, file `part-2.csv`, row 2, column `n`
 = help: allow rows to be late: `lateness=1` is enough for this row
 = help: or read everything first and sort it: `sort=True`
""",
        Stream("part-*.csv", time="n"),
    )


def test_the_remedy_for_a_late_row_works() -> None:
    table = pa.table({"n": [7, 3, 8]})
    opened = open_stream("S", Stream(table.to_reader(), time="n", lateness=4))
    assert [e for step in in_order([opened], {"S": []}) for e in step["S"].end] == [3, 7, 8]


# ---- values without room


def test_an_unsigned_integer_that_is_too_large(expect: Expect) -> None:
    expect(
        """
error[K514]: 9223372036854775808 does not fit a signed 64-bit integer
  stream `S`, row 2, column `u`
 = help: convert the column to text or to doubles
""",
        Stream(pa.table({"t": [1, 2], "u": pa.array([1, 2**63], pa.uint64())}), time="t"),
    )


def test_an_integer_of_a_dict_that_is_too_large(expect: Expect) -> None:
    expect(
        """
error[K514]: 18446744073709551616 does not fit a signed 64-bit integer
  stream `S`, row 2, column `u`
 = help: convert the column to text or to doubles
""",
        Stream([{"t": 1, "u": 1}, {"t": 2, "u": 2**64}], time="t"),
    )


# ---- kinds of data


@pytest.mark.parametrize("data", [5, {"a": [1]}, b"bytes", iter([1, 2])])
def test_data_of_an_unknown_kind(expect: Expect, data: Any) -> None:
    expect(
        f"""
error[K512]: data of the kind `{type(data).__name__}` cannot be read as events
  stream `S`
 = help: give a pyarrow Table or RecordBatchReader, a pandas or polars frame, a list of dicts, or the path of a file
""",
        Stream(data),
    )


def test_an_empty_list(expect: Expect) -> None:
    expect(
        """
error[K512]: the list is empty, so its columns are unknown
  stream `S`
 = help: give a table with a schema instead
""",
        Stream([]),
    )


def test_a_list_with_something_else_than_dicts(expect: Expect) -> None:
    expect("error[K512]: a row is a `tuple`, not a dict\n  stream `S`, row 2", Stream([{"t": 1}, (2,)], time="t"))


def test_mixed_values_in_dicts(expect: Expect) -> None:
    expect(
        """
error[K512]: the column holds a `str` after values of the kind `int`
  stream `S`, row 3, column `p`
 = help: convert the column to one type
""",
        Stream([{"t": 1, "p": 1}, {"t": 2, "p": None}, {"t": 3, "p": "x"}], time="t"),
    )


def test_mixed_objects_in_a_pandas_column(expect: Expect) -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime(["2024-01-01"] * 3), "p": [1, 2, "x"]})
    expect(
        """
error[K512]: the column holds a `str` after values of the kind `int`
  stream `S`, row 3, column `p`
 = help: convert the column to one type
""",
        Stream(frame),
    )


def test_objects_that_arrow_does_not_know(message: Message) -> None:
    said = message(Stream([{"t": 1, "p": object()}], time="t"))
    assert said.startswith("error[K512]: the column holds values of a kind that Arrow cannot convert: ")
    assert said.endswith("\n  stream `S`, row 1, column `p`\n = help: convert the column to one type")


def test_two_columns_of_one_name(expect: Expect) -> None:
    expect(
        """
error[K512]: two columns have the name `a`
  stream `S`
 = help: rename one of them
""",
        Stream(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), time="a"),
    )


def test_rows_that_arrow_cannot_reorder(expect: Expect) -> None:
    table = pa.table({"n": [2, 1], "x": pa.array([b"a", b"b"], pa.binary_view())})
    expect(
        """
error[K512]: rows must be sorted, but Arrow cannot reorder column `x` of type binary_view
  stream `S`
 = help: convert the column, or give the rows in order of time
""",
        Stream(table, time="n"),
    )


def test_batches_that_change_their_schema(expect: Expect) -> None:
    first = pa.record_batch({"t": [1, 2], "p": [1, 2]})
    expect(
        "error[K509]: column `p` is double, which was int64 before\n  stream `S`, after row 2",
        Stream(iter([first, pa.record_batch({"t": [3], "p": [1.5]})]), time="t"),
    )
    expect(
        "error[K509]: column `p` is missing, which was there before\n  stream `S`, after row 2",
        Stream([first, pa.record_batch({"t": [3]})], time="t"),
    )
    expect(
        "error[K509]: column `q` was not there before\n  stream `S`, after row 2",
        Stream(iter([first, pa.record_batch({"t": [3], "p": [1], "q": [1]})]), time="t"),
    )
    expect(
        "error[K509]: the columns come in another order than before\n  stream `S`, after row 2",
        Stream(iter([first, pa.record_batch({"p": [3], "t": [1]})]), time="t"),
    )
    expect("error[K509]: a `int` comes among the record batches\n  stream `S`, after row 2", Stream(iter([first, 1]), time="t"))


def test_a_reader_that_fails(expect: Expect) -> None:
    def broken() -> Any:
        yield pa.record_batch({"t": [1]})
        raise pa.ArrowInvalid("the disk is gone")

    expect(
        """
error[K506]: the reader failed before its end
  stream `S`
 = help: the reader says: the disk is gone
""",
        Stream(broken(), time="t"),
    )


def test_naive_datetimes_are_shown_as_they_were_given(message: Message) -> None:
    rows = iter([pa.record_batch({"at": [datetime(2024, 5, 1, 12, 0, 1), datetime(2024, 5, 1, 12)]})])
    assert "2024-05-01 12:00:00 comes after 2024-05-01 12:00:01" in message(Stream(rows))


def test_timestamps_with_and_without_a_zone_do_not_share_a_clock() -> None:
    zoned, naive = (pa.table({"t": pa.array([1], pa.timestamp("us", tz=zone))}) for zone in ("Europe/Berlin", None))
    opened = [open_stream("Clicks", Stream(zoned)), open_stream("Mails", Stream(naive))]
    with pytest.raises(DataError, match="`t` is a timestamp in Europe/Berlin, `t` is a timestamp without a zone"):
        common_axis(opened)
