"""What functions of times and conversions between types mean, in plain Python. `values.py` evaluates with them.

A time is microseconds since 1970, in UTC unless it is called local. What cannot be converted is None, which is Spark's `try_cast`.
"""

from __future__ import annotations

import decimal
import functools
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from keuka.schema import MOST_DAYS, MOST_DIGITS, Type

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE = timedelta(microseconds=1)
_CYCLE = 146_097 * DAY  # 400 years, after which the calendar repeats itself, weekdays included
FIRST_OFFSET, LAST_OFFSET = -5_364_662_400 * SECOND, 16_725_225_600 * SECOND  # the years 1800 and 2500
_FIXED_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
# ASCII's blanks and control characters, which Spark leaves out at both ends of a text that it converts.
_BLANKS = "".join([chr(code) for code in (*range(33), 127)])

# The units of date_trunc: a length in microseconds, or a number of months. A week begins on Monday.
LENGTHS = {"microsecond": 1, "millisecond": 1_000, "second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": 7 * DAY}
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def fits(value: int) -> int | None:
    return value if -(2**63) <= value < 2**63 else None


def fits_date(days: int) -> int | None:
    return days if abs(days) <= MOST_DAYS else None


# -- parts of times ------------------------------------------------------------------------------------------------------


def moment_of(time: int) -> tuple[datetime, int]:
    """The time in the years that Python knows, and how many years it was moved."""
    cycles = 0 if -62_135_596_800 * SECOND + DAY <= time < 253_402_300_800 * SECOND - DAY else (time - 946_684_800 * SECOND) // _CYCLE
    return _EPOCH + (time - cycles * _CYCLE) * _ONE, cycles * 400


def part_of(name: str) -> Callable[[int], int]:
    """The function that gives this part of a time."""

    def part(time: int) -> int:
        moment, years = moment_of(time)
        if name == "dayofweek":
            return moment.isoweekday() % 7 + 1
        return int(getattr(moment, name)) + (years if name == "year" else 0)

    return part


def truncate(unit: str, time: int, zone: str | None = None) -> int | None:
    """The beginning of the unit that the time is in, by the clocks of the zone."""
    if zone is not None:
        local = to_local(time, zone)
        begin_local = None if local is None else truncate(unit, local)
        if local is None or begin_local is None:
            return None
        # Within a day the clocks may be put forward or back, and an hour begins with the offset that it ends with.
        return first_instant(begin_local, zone) if unit in ("day", "week", *MONTHS) else fits(time - (local - begin_local))
    if unit in LENGTHS:
        since = time + 3 * DAY if unit == "week" else time  # 1970-01-01 was a Thursday
        return fits(time - since % LENGTHS[unit])
    moment, years = moment_of(time)
    first = moment.month - (moment.month - 1) % MONTHS[unit]
    begin = datetime(moment.year, first, 1, tzinfo=UTC)
    return fits((begin - _EPOCH) // _ONE + years // 400 * _CYCLE)


# -- zones ---------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def zone_named(name: str) -> tzinfo:
    """The zone; a KeyError or ValueError if there is none of this name."""
    fixed = _FIXED_OFFSET.fullmatch(name)
    if fixed:
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(-offset if fixed[1] == "-" else offset)
    return ZoneInfo(name)


def offset_at(time: int, zone: str) -> int:
    """By how much the clocks of the zone are ahead of UTC, in microseconds.

    Before 1800 no zone has changed its offset; from 2100 on the rules that are known today repeat themselves every 400 years.
    """
    time = max(time, FIRST_OFFSET)
    if time >= LAST_OFFSET:
        time -= (time - LAST_OFFSET + _CYCLE) // _CYCLE * _CYCLE
    offset = (_EPOCH + time * _ONE).astimezone(zone_named(zone)).utcoffset()
    assert offset is not None
    return offset // _ONE


@functools.lru_cache(maxsize=64)
def offsets_of(zone: str) -> tuple[tuple[int, int], ...]:
    """From when on the clocks of the zone have which offset, both in seconds; before the first time that there is they have the first."""
    found = [(FIRST_OFFSET // SECOND, offset_at(FIRST_OFFSET, zone) // SECOND)]
    low, last = FIRST_OFFSET // SECOND, LAST_OFFSET // SECOND
    while low < last:
        # Zones change their minds within a month at the soonest, their clocks are changed twice a year by the rules for the future.
        high = min(low + (1 if low < 2_208_988_800 else 10) * 86_400, last)
        if offset_at(high * SECOND, zone) // SECOND != found[-1][1]:
            known, until = low, high
            while until - known > 1:
                middle = (known + until) // 2
                known, until = (middle, until) if offset_at(middle * SECOND, zone) // SECOND == found[-1][1] else (known, middle)
            found.append((until, offset_at(until * SECOND, zone) // SECOND))
            high = until
        low = high
    return tuple(found)


def to_local(time: int, zone: str) -> int | None:
    return fits(time + offset_at(time, zone))


def first_instant(local: int, zone: str) -> int | None:
    """When the clocks of the zone first showed the local time. A time that they left out is as much later as they were put forward."""
    before, after = offset_at(local - DAY, zone), offset_at(local + DAY, zone)
    is_after = offset_at(local - before, zone) != before and offset_at(local - after, zone) == after
    return fits(local - (after if is_after else before))


# -- texts ---------------------------------------------------------------------------------------------------------------


def parse_integer(text: str) -> int | None:
    digits = text.strip(_BLANKS)
    # Python refuses to convert thousands of digits; zeros before the others may be as many.
    if re.fullmatch(r"[+-]?[0-9]+", digits) is None or len(digits.lstrip("+-0")) > 19:
        return None
    significant = digits.lstrip("+-0") or "0"
    return fits(-int(significant) if digits[0] == "-" else int(significant))


def parse_double(text: str) -> float | None:
    """As Java reads a double, hexadecimal ones left out."""
    digits = text.strip(_BLANKS[:-1])
    if digits in ("+NaN", "-NaN") or digits.lower() == "nan":
        return math.nan
    if re.fullmatch(r"[+-]?inf(inity)?", digits, re.IGNORECASE):
        return -math.inf if digits[0] == "-" else math.inf
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[df]?", digits, re.ASCII | re.IGNORECASE) is None:
        return None
    return float(digits.rstrip("dDfF"))


def parse_boolean(text: str) -> bool | None:
    word = text.strip(_BLANKS).lower()
    return True if word in ("t", "true", "y", "yes", "1") else False if word in ("f", "false", "n", "no", "0") else None


_TIME = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?P<fraction>\.[0-9]*)?(?P<zone>.*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"([+-])(?:([0-9]{2})([0-9]{2})|([0-9]{1,2})(?::([0-9]{1,2}))?)")


def parse_time(text: str) -> int | None:
    """Spark's forms from a year to `2024-03-01T09:10:30.25+02:00`; without an offset UTC. A time without a date is none."""
    found = _TIME.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    hour, minute, second = [int(found[name] or 0) for name in ("hour", "minute", "second")]
    offset = _parse_offset((found["zone"] or "").strip(_BLANKS))
    try:
        # Python knows years from 1 on; the calendar repeats itself after 400.
        date = datetime(2000 + year % 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    if offset is None:
        return None
    fraction = int((found["fraction"] or ".")[1:7].ljust(6, "0"))
    return fits((date - _EPOCH) // _ONE + (year // 400 - 5) * _CYCLE + fraction - offset * SECOND)


def _parse_offset(text: str) -> int | None:
    """Seconds ahead of UTC; None if it is no offset."""
    if text in ("", "Z"):
        return 0
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    hours, minutes = int(found[2] or found[4]), int(found[3] or found[5] or 0)
    if minutes > 59 or 60 * hours + minutes > 18 * 60:
        return None
    return (3600 * hours + 60 * minutes) * (-1 if found[1] == "-" else 1)


_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)


def parse_date(text: str) -> int | None:
    """Days since 1970. Spark's forms from a year to a day, behind which may follow anything that a blank or a `T` begins."""
    found = _DATE.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    year, month, day = [int(part or 1) for part in found.groups()]
    try:
        moment = datetime(2000 + year % 400, month, day, tzinfo=UTC)
    except ValueError:
        return None
    return fits_date(((moment - _EPOCH) // _ONE + (year // 400 - 5) * _CYCLE) // DAY)


def write_time(time: int) -> str:
    """Like `2024-03-01 09:10:30.25`: no fraction where there is none."""
    moment, _ = moment_of(time)
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return f"{write_date(time // DAY)} {moment:%H:%M:%S}{fraction}"


def write_date(days: int) -> str:
    """Like `2024-03-01`; years beyond four digits have a sign."""
    moment, years = moment_of(days * DAY)
    year = moment.year + years
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{moment:%m-%d}"


# -- decimals ------------------------------------------------------------------------------------------------------------

_DECIMAL = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:e([+-]?)0*([0-9]{1,10}))?", re.IGNORECASE)


def to_decimal(value: bool | int | float | str | decimal.Decimal, precision: int, scale: int) -> decimal.Decimal | None:
    """With so many digits, so many of them behind the point, half up. Of a double its shortest digits count, as Java writes them."""
    if isinstance(value, str):
        return parse_decimal(value, precision, scale)
    if isinstance(value, float):
        return parse_decimal(repr(value), precision, scale)
    return _with_digits(decimal.Decimal(value), precision, scale)


def parse_decimal(text: str, precision: int, scale: int) -> decimal.Decimal | None:
    """As Java reads a decimal, of ASCII's digits alone."""
    found = _DECIMAL.fullmatch(text.strip(_BLANKS[:-1]))
    if found is None or not found[2] + found[3]:
        return None
    written = int(found[5] or 0) * (-1 if found[4] == "-" else 1)
    exponent = written - len(found[3])
    digits = (found[2] + found[3]).lstrip("0")
    if written >= 2**31 or exponent <= -(2**31):  # Java has 32 bits for the exponent, and for the number of digits behind the point
        return None
    # Numbers of a billion digits are not written out: too large ones are none, too small ones nothing.
    if digits and len(digits) + exponent > MOST_DIGITS:
        return None
    if len(digits) + exponent < -scale:
        digits = ""
    exact = decimal.Decimal(f"{found[1]}{digits}e{exponent}") if digits else decimal.Decimal(0)
    return _with_digits(exact, precision, scale)


def _with_digits(exact: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal | None:
    unit = decimal.Decimal((0, (1,), -scale))
    rounded = exact.quantize(unit, decimal.ROUND_HALF_UP, decimal.Context(prec=decimal.MAX_PREC))
    # There is no negative zero.
    return None if len(rounded.as_tuple().digits) > precision else rounded or abs(rounded)


# -- casts ---------------------------------------------------------------------------------------------------------------


def to_integer(x: float) -> int | None:
    return fits(int(x)) if math.isfinite(x) else None


# From which type to which. What is not here is refused or an operation of its own: `to_int` (32 bits), `to_decimal`, and what needs to
# know the scale of a decimal.
CASTS: dict[tuple[Type, Type], Callable[..., object]] = {
    (Type.BOOLEAN, Type.INTEGER): int,
    (Type.DATE, Type.STRING): write_date,
    (Type.DECIMAL, Type.BOOLEAN): lambda x: x != 0,
    (Type.BOOLEAN, Type.DOUBLE): float,
    (Type.BOOLEAN, Type.STRING): lambda x: "true" if x else "false",
    (Type.INTEGER, Type.BOOLEAN): lambda x: x != 0,
    (Type.INTEGER, Type.DOUBLE): float,
    (Type.INTEGER, Type.STRING): str,
    (Type.INTEGER, Type.TIMESTAMP): lambda x: fits(x * SECOND),
    (Type.DOUBLE, Type.BOOLEAN): lambda x: x != 0,
    (Type.DOUBLE, Type.INTEGER): to_integer,
    (Type.DOUBLE, Type.TIMESTAMP): lambda x: to_integer(x * SECOND),
    (Type.STRING, Type.BOOLEAN): parse_boolean,
    (Type.STRING, Type.INTEGER): parse_integer,
    (Type.STRING, Type.DOUBLE): parse_double,
    (Type.STRING, Type.TIMESTAMP): parse_time,
    (Type.STRING, Type.DATE): parse_date,
    (Type.TIMESTAMP, Type.INTEGER): lambda x: x // SECOND,
    (Type.TIMESTAMP, Type.DOUBLE): lambda x: float(x) / SECOND,
    (Type.TIMESTAMP, Type.STRING): write_time,
    (Type.TIMESTAMP, Type.DATE): lambda x: fits_date(x // DAY),
}
