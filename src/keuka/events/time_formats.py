"""Times that are not written in ISO form: a format such as `%d/%m/%Y %H:%M` as one regular expression and a recipe for ISO text.

The recipe is plain enough for Spark to do exactly the same: groups of the expression, padded, looked up in small tables, put together.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MONTH_TABLE = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}
YEAR_TABLE = {f"{n:02}": f"{n + (1900 if n >= 69 else 2000)}" for n in range(100)}  # as POSIX has it
HOUR_TABLE = {f"{half}{hour:02}": f"{hour % 12 + shift:02}" for half, shift in (("AM", 0), ("PM", 12)) for hour in range(1, 13)}
DIRECTIVES = {
    "%Y": "([0-9]{4})",
    "%y": "([0-9]{2})",
    "%m": "([0-9]{1,2})",
    "%b": "([A-Za-z]{3})",
    "%d": "([0-9]{1,2})",
    "%j": "([0-9]{1,3})",
    "%H": "([0-9]{1,2})",
    "%I": "([0-9]{1,2})",
    "%M": "([0-9]{1,2})",
    "%S": "([0-9]{1,2})",
    "%f": "([0-9]{1,6})",
    "%p": "([AaPp][Mm])",
    "%z": "(Z|[+-][0-9]{2}:?[0-9]{2})",
}
SPECIAL = re.compile(r"[^0-9A-Za-z ]")


@dataclass(frozen=True)
class Part:
    """A piece of ISO text: `before`, and then the groups, each in upper case and padded with zeros to `width`, looked up in `table`."""

    before: str
    groups: tuple[int, ...] = ()  # counted from 1
    width: int = 0
    table: Mapping[str, str] | None = None  # of the texts of all groups together; what is not in it is no time


@dataclass(frozen=True)
class TimeFormat:
    """How to make ISO text: match the whole text, then put the parts together.

    `day_of_year` is a group: the ISO text has the first of January, and the day must be added afterwards.
    """

    pattern: str
    parts: tuple[Part, ...]
    day_of_year: int | None = None


@cache
def parse_format(text: str) -> TimeFormat:
    """The format; a ValueError says what cannot be understood."""
    groups: dict[str, int] = {}
    pattern = ""
    for piece in re.findall(r"%.|[^%]|%$", text, re.DOTALL):
        if piece in DIRECTIVES:
            if piece in groups:
                raise ValueError(f"`{piece}` stands there twice")
            groups[piece] = len(groups) + 1
            pattern += DIRECTIVES[piece]
        elif piece.startswith("%") and piece != "%%":
            raise ValueError(f"`{piece}` is not known; there are {', '.join(DIRECTIVES)}")
        else:
            pattern += SPECIAL.sub(lambda found: "\\" + found[0], piece[-1])
    _check(groups)
    by_day = "%j" in groups
    year = Part("", (groups["%Y"],), 4) if "%Y" in groups else Part("", (groups["%y"],), 2, YEAR_TABLE)
    if by_day:
        date: tuple[Part, ...] = (year, Part("-01-01"))
    else:
        month = Part("-", (groups["%m"],), 2) if "%m" in groups else Part("-", (groups["%b"],), 0, MONTH_TABLE)
        date = (year, month, Part("-", (groups["%d"],), 2))
    return TimeFormat(f"^{pattern}$", (*date, *_clock(groups)), groups.get("%j"))


def _clock(groups: Mapping[str, int]) -> tuple[Part, ...]:
    hour = Part(" ", (groups["%p"], groups["%I"]), 2, HOUR_TABLE) if "%I" in groups else _number(" ", groups.get("%H"))
    fraction = (Part(".", (groups["%f"],)),) if "%f" in groups else ()
    offset = (Part("", (groups["%z"],)),) if "%z" in groups else ()
    return (hour, _number(":", groups.get("%M")), _number(":", groups.get("%S")), *fraction, *offset)


def _number(before: str, group: int | None) -> Part:
    return Part(f"{before}00") if group is None else Part(before, (group,), 2)


def _check(groups: Mapping[str, int]) -> None:
    """Every part of a date must be there once."""
    for choices, what in ((("%Y", "%y"), "year"), (("%m", "%b", "%j"), "month"), (("%d", "%j"), "day")):
        n_given = sum([choice in groups for choice in choices])
        if n_given != 1:
            written = " or ".join([f"`{choice}`" for choice in choices])
            raise ValueError(f"it must say the {what} once: {written}")
    if "%H" in groups and "%I" in groups:
        raise ValueError("it must say the hour once: `%H`, or `%I` with `%p`")
    if ("%I" in groups) != ("%p" in groups):
        raise ValueError("`%I` and `%p` go together")
    if "%f" in groups and "%S" not in groups:
        raise ValueError("`%f` needs `%S`")


def to_iso(texts: pa.Array, form: TimeFormat) -> pa.Array:
    """ISO text for texts of the format; null for others."""
    fitting = pc.match_substring_regex(texts, form.pattern)
    texts = pc.if_else(fitting, texts, pa.scalar(None, texts.type))
    pieces: list[pa.Array | pa.Scalar] = []
    for part in form.parts:
        if part.before:
            pieces.append(pa.scalar(part.before, texts.type))
        if part.groups:
            pieces.append(_piece(texts, form.pattern, part))
    iso = pc.binary_join_element_wise(*pieces, pa.scalar("", texts.type))
    return iso if form.day_of_year is None else _add_days(iso, _group(texts, form.pattern, form.day_of_year))


def _group(texts: pa.Array, pattern: str, group: int) -> pa.Array:
    # RE2 replaces by the groups 1 to 9, and a format has no more.
    return pc.replace_substring_regex(texts, pattern, rf"\{group}")


def _piece(texts: pa.Array, pattern: str, part: Part) -> pa.Array:
    groups = [_group(texts, pattern, group) for group in part.groups]
    padded = [pc.utf8_lpad(pc.ascii_upper(group), part.width, "0") if part.width else pc.ascii_upper(group) for group in groups]
    joined = pc.binary_join_element_wise(*padded, pa.scalar("", texts.type))
    if part.table is None:
        return joined
    index = pc.index_in(joined, pa.array(list(part.table), texts.type))
    return pa.array(list(part.table.values()), texts.type).take(index)


def _add_days(iso: pa.Array, days: pa.Array) -> pa.Array:
    """ISO text of a day of the year; null for days that the year does not have."""
    date = pc.utf8_slice_codeunits(iso, 0, 10).cast(pa.date32())
    n_days = pc.subtract(days.cast(pa.int32()), pa.scalar(1, pa.int32()))
    moved = pc.add(date.cast(pa.int32()), n_days).cast(pa.date32())
    same_year = pc.equal(pc.year(date), pc.year(moved))
    text = pc.binary_join_element_wise(moved.cast(iso.type), pc.utf8_slice_codeunits(iso, 10), pa.scalar("", iso.type))
    return pc.if_else(same_year, text, pa.scalar(None, iso.type))


# ---- which format a user may mean

_DATES = ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%Y%m%d")
_NAMED = ("%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d-%b-%Y", "%d/%b/%Y")
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H%M%S")


def similar_formats(texts: Sequence[str]) -> tuple[str, ...]:
    """The common formats that all these texts are in: two where day and month cannot be told apart."""
    if not texts:
        return ()
    clocks = ["", *["".join(c) for c in itertools.product((" ", "T", ":", ", "), _CLOCKS, ("", "%z", " %z"))]]
    formats = [f"{date}{clock}" for clock in clocks for date in (*_DATES, *_NAMED)]
    return tuple([format for format in formats if re.match(parse_format(format).pattern, texts[0]) and _all_are(texts, format)])


def _all_are(texts: Sequence[str], format: str) -> bool:
    iso = to_iso(pa.array(texts, pa.string()), parse_format(format))
    if iso.null_count:
        return False
    try:
        iso.cast(pa.timestamp("us", tz="UTC") if "%z" in format else pa.timestamp("us"))
    except pa.ArrowInvalid:
        return False
    return True
