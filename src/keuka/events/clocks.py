"""The time of a stream: which columns hold it, what a tick is, how late rows may come, and how times are shown."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa

from keuka.diagnostics import listing, similar
from keuka.errors import DataError, data_error
from keuka.schema import MICROSECONDS, TimeAxis, read_duration, write_duration

ONE_MICROSECOND = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def time_columns(schema: pa.Schema, time: object, where: str) -> tuple[str, ...]:
    """The column of the time, or the columns of start and end; by default `_default_time`."""
    if time is None:
        return (_default_time(schema, where),)
    pair = (time,) if isinstance(time, str) else time
    if not isinstance(pair, tuple | list) or len(pair) not in (1, 2) or not all(isinstance(name, str) for name in pair):
        raise data_error("K501", f"`time=` must be a column or a pair of columns (start, end), not {time!r}", where=where)
    for name in pair:
        if name not in schema.names:
            times = [f.name for f in schema if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type)]
            raise data_error(
                "K501",
                f"there is no column `{name}` to take the time from",
                *(similar(name, schema.names) or ([f"{listing(times)} can be the time: `time={times[0]!r}`"] if times else [])),
                f"the columns are {listing(schema.names)}",
                where=where,
            )
    return tuple(pair)


# A text or a double that is called so is likely to hold times, in a form that was not recognized.
NAMED_LIKE_A_TIME = re.compile(r"(?i:(^|_)(time|timestamp|datetime|ts|at|epoch|clock|when)($|_)|time(stamp)?$)|[a-z]At$")


def _default_time(schema: pa.Schema, where: str) -> str:
    """The only timestamp, else the only date: but a date does not say when on a day, so another column may be meant."""
    timestamps = [f.name for f in schema if pa.types.is_timestamp(f.type)]
    dates = [f.name for f in schema if pa.types.is_date(f.type)]
    candidates = timestamps or dates
    others = [] if timestamps else [f.name for f in schema if _could_be_meant(f)]
    if len(candidates) == 1 and not others:
        return str(candidates[0])
    if len(candidates) == 1:
        problem = f"`{dates[0]}` holds days, and {listing(others, 4)} could be the time of events, too"
        raise data_error("K501", problem, f"say which: `time={dates[0]!r}` or `time={others[0]!r}`", where=where)
    if candidates:
        help = f"name one of {listing(candidates)}: `time={candidates[0]!r}`, or two of them if events have a start and an end"
        raise data_error("K501", "several columns could be the time of events", help, where=where)
    texts = [f.name for f in schema if _is_text(f.type)]
    integers = [f.name for f in schema if pa.types.is_integer(f.type)]
    remedies = []
    if texts:
        remedies += [f"does {listing(texts, 4)} hold the time as text?", AS_TIME]
    if integers:
        remedies.append(f"an integer column can count ticks: `time={integers[0]!r}`")
    remedies.append(f"the columns are {listing(schema.names)}")
    raise data_error("K501", "no column is a timestamp, so the time of events is unknown", *remedies, where=where)


def _could_be_meant(field: pa.Field) -> bool:
    """Integers count ticks; a time of day belongs to a date; text and doubles are taken for times if they are called so."""
    if pa.types.is_integer(field.type) or pa.types.is_time(field.type):
        return True
    is_possible = _is_text(field.type) or pa.types.is_floating(field.type)
    return bool(is_possible and NAMED_LIKE_A_TIME.search(field.name))


def axis_of(fields: list[pa.Field], unit: object, where: str) -> TimeAxis:
    """The clock of these time columns; results show times in the type of the last one."""
    for field in fields:
        if not (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type) or pa.types.is_integer(field.type)):
            raise data_error(
                "K508",
                f"column `{field.name}` cannot be a time: it is {field.type}, not a timestamp, a date or an integer",
                *_conversion(field),
                where=where,
            )
    arrow = fields[-1].type
    plain = pa.types.is_integer(arrow)
    if plain != pa.types.is_integer(fields[0].type):
        raise data_error(
            "K508", f"`{fields[0].name}` is {fields[0].type} but `{fields[-1].name}` is {arrow}: start and end need one clock", where=where
        )
    if unit is not None and not plain:
        raise data_error("K515", f"`unit=` is for integer time columns; `{fields[-1].name}` is {arrow}", where=where)
    if unit is not None and not (isinstance(unit, str) and unit in MICROSECONDS):
        raise data_error("K515", f"{unit!r} is not a unit of time", f"units are {listing(MICROSECONDS, 20)}", where=where)
    if plain:
        return TimeAxis(None if unit is None else MICROSECONDS[str(unit)], pa.int64())
    return TimeAxis(1, pa.timestamp("us", tz=arrow.tz) if pa.types.is_timestamp(arrow) else pa.date32())


def unit_of(axis: TimeAxis) -> str | None:
    """What was declared as the unit of an integer clock, or another word for it."""
    units = [unit for unit, n_us in MICROSECONDS.items() if n_us == axis.tick_us]
    return units[0] if pa.types.is_integer(axis.arrow) and units else None


# Text is taken for a time where a file has no types of its own; elsewhere the owner of the data knows its format better.
AS_TIME = "times as text must be in ISO form (`2024-01-31 09:30:00`) in a CSV or JSON file, and converted in a frame (`pandas.to_datetime`)"


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _conversion(field: pa.Field) -> tuple[str, ...]:
    if _is_text(field.type):
        return (AS_TIME,)
    return ("convert it to a timestamp, or to an integer and declare its unit",)


def lateness_ticks(lateness: object, axis: TimeAxis, where: str) -> int:
    """A lateness in ticks of the stream's clock."""
    if lateness is None:
        return 0
    if isinstance(lateness, int) and not isinstance(lateness, bool):
        n_ticks = Fraction(lateness)
    else:
        n_us = _microseconds("lateness", lateness, "a number of ticks", where)
        if axis.tick_us is None:
            raise data_error(
                "K515",
                f"lateness {lateness!r} has a unit but the integer time column has none",
                "declare the unit of the column, for example `unit='s'`, or give the lateness as a plain number of ticks",
                where=where,
            )
        n_ticks = n_us / axis.tick_us
    if n_ticks < 0 or n_ticks.denominator != 1 or n_ticks >= 2**63:
        raise data_error("K515", f"lateness {lateness!r} is not a whole number of ticks from 0 on", where=where)
    return int(n_ticks)


def seconds_of(option: str, duration: object) -> float:
    """A span of wall-clock time that an option was given: a number of seconds, a text such as "10 s", a timedelta."""
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        n_seconds = float(duration)
    else:
        n_seconds = float(_microseconds(option, duration, "a number of seconds", "") / 1_000_000)
    if not n_seconds > 0:
        raise data_error("K515", f"{option} must be longer than nothing, not {duration!r}")
    return n_seconds


def _microseconds(option: str, duration: object, number: str, where: str) -> Fraction:
    if isinstance(duration, datetime.timedelta):
        return Fraction(duration // ONE_MICROSECOND)
    parts = read_duration(duration) if isinstance(duration, str) else None
    if parts is None:
        help = f"write it like '5 s', with a unit of {listing(MICROSECONDS, 20)}, or give a timedelta or {number}"
        raise data_error("K515", f"{option} {duration!r} is not a duration", help, where=where)
    return Fraction(parts[0]) * parts[1]


def tick_of(time: object, axis: TimeAxis) -> int:
    """The tick of a time that a user gives: a datetime (or pandas' or numpy's), a date, ISO text, or the tick itself."""
    given = time
    if isinstance(time, np.datetime64):
        time = time.astype("datetime64[us]").item()
    if isinstance(time, np.integer):
        time = int(time)
    if isinstance(time, int) and not isinstance(time, bool) and -(2**63) <= time < 2**63:
        return time
    if pa.types.is_integer(axis.arrow):
        raise data_error("K521", f"{given!r} is not a time of this engine's clock", "its times are integers: give the tick")
    if isinstance(time, str):
        try:
            time = datetime.datetime.fromisoformat(time)
        except ValueError:
            raise data_error("K521", f"{given!r} is not a time", "write it in ISO form: `2024-01-31T09:30`") from None
    if isinstance(time, datetime.date) and not isinstance(time, datetime.datetime):
        time = datetime.datetime(time.year, time.month, time.day, tzinfo=datetime.UTC if _zone(axis) else None)
    if not isinstance(time, datetime.datetime) or time != time:  # pandas' NaT is a datetime unequal to itself
        raise data_error("K521", f"{given!r} is not a time", "give a datetime, ISO text such as `2024-01-31T09:30`, or a tick")
    if pa.types.is_timestamp(axis.arrow) and (time.tzinfo is None) != (_zone(axis) is None):
        problem = f"the time {given!r} has {'a zone' if time.tzinfo else 'no zone'}, but the times of events have {_zone(axis) or 'none'}"
        raise data_error("K521", problem, "leave the zone out" if time.tzinfo else "say which: `2024-01-31T09:30+00:00`")
    return (time.replace(tzinfo=time.tzinfo or datetime.UTC) - EPOCH) // ONE_MICROSECOND


def time_of(tick: int, axis: TimeAxis) -> object:
    """A tick as a user would give it: an integer, a datetime, a date; as text if Python has no value for it."""
    try:
        return pa.scalar(tick if not pa.types.is_date(axis.arrow) else tick // MICROSECONDS["day"], axis.arrow).as_py()
    except (ValueError, OverflowError, LookupError, pa.ArrowInvalid):
        return show_time(tick, axis)


def _zone(axis: TimeAxis) -> str | None:
    return str(axis.arrow.tz) if pa.types.is_timestamp(axis.arrow) and axis.arrow.tz is not None else None


def show_duration(n_ticks: int, axis: TimeAxis) -> str:
    """Ticks as a user would write them: in the largest unit that divides them (`90 s`), or plain."""
    if axis.tick_us is None:
        return str(n_ticks)
    return write_duration(n_ticks * axis.tick_us)


def show_time(tick: int, axis: TimeAxis) -> str:
    """A tick in the type of the time column."""
    if pa.types.is_integer(axis.arrow):
        return str(tick)
    if pa.types.is_date(axis.arrow):
        return str(np.datetime64(tick, "us").astype("datetime64[D]"))
    try:
        return str(pa.scalar(tick, axis.arrow).as_py())
    except (ValueError, OverflowError, LookupError):  # Python's calendar ends with the year 9999, and its zones are not all there are
        return str(np.datetime64(tick, "us")) + ("" if axis.arrow.tz is None else " UTC")


def out_of_order(tick: int, largest: int, axis: TimeAxis, lateness: int, where: str) -> DataError:
    """The row at `where` comes too late after a row with the largest time so far."""
    needed = show_duration(largest - tick, axis)
    allowed = f", and only {show_duration(lateness, axis)} of lateness is allowed" if lateness else ""
    written = needed if axis.tick_us is None else f'"{needed}"'
    return data_error(
        "K504",
        f"a row is out of order: {show_time(tick, axis)} comes after {show_time(largest, axis)}{allowed}",
        f"allow rows to be late: `lateness={written}` is enough for this row",
        "or read everything first and sort it: `sort=True`",
        where=where,
    )
