"""What the texts of a CSV file mean: which of them are integers, doubles, truth values, dates and times, and what each becomes.

Comes in: arrays of texts. Goes out: arrays of values and the texts that are none (`convert`), or the type that texts seem to have
(`guess`). The patterns mean the same in RE2 (Arrow) and in Java (Spark), and accept what Arrow's own CSV reader accepts: a test
compares the two. `csv_format.py` reads with both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from keuka.events.columns import is_text
from keuka.events.time_formats import parse_format, to_iso

# ---- patterns; each is for a whole text

BLANKS = r"[ \t]*"  # around numbers and dates; times and truth values have none
HEX = r"0[xX][0-9a-fA-F]{1,16}"  # the bits of an integer, so that 0xffffffffffffffff is -1
_DECIMAL = r"-?[0-9]+"
_DOUBLE = r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan(?:\([0-9a-z_]*\))?|inf(?:inity)?))"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAYS = r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_DATE = rf"(?:[0-9]{{4}}-{_DAYS}|{_LEAP_YEAR}-02-29)"
_CLOCK = r"[ T](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?)?"
_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"

INTEGER = rf"^{BLANKS}(?:{_DECIMAL}|{HEX}){BLANKS}$"
DOUBLE = rf"^{BLANKS}{_DOUBLE}{BLANKS}$"
BOOLEAN = r"^(?:1|0|true|True|TRUE|false|False|FALSE)$"
DATE = rf"^{BLANKS}{_DATE}{BLANKS}$"
TIMESTAMP = rf"^{_DATE}(?:{_CLOCK})?$"  # without a zone
ZONED = rf"^{_DATE}{_CLOCK}{_OFFSET}$"
FINE = r"\.[0-9]{7}"  # in a time: a fraction below a microsecond
# Codes rather than numbers: leading zeros would be lost. Every number of a column with one is text.
CODE = rf"^{BLANKS}(?:[+-]?0[0-9]+(?:\.[0-9]*)?|{HEX}){BLANKS}$"

# How numbers, times and truth values begin.
BEGINS = rf"^{BLANKS}(?:[+-]?(?:[0-9.]|(?i:nan|inf))|(?i:true|false))"

TRUE, FALSE = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")

FEWEST_SURE = 3  # values of one kind that a guess needs where others are odd,
LEAST_SHARE = 0.75  # and how many of all values they must be


@dataclass(frozen=True)
class Csv:
    """How a CSV file is written.

    separator: the character between fields.
    header: True if the first line names the columns, False if there is none (then `schema=` names them), or a list of names for a
        file without one.
    nulls: texts that mean null in every column, quoted or not, besides the empty field without quotes.
    time_format: how times are written if not in ISO form: `%d/%m/%Y %H:%M`, with the directives of Python's `strptime`.
    zone: the zone of times that are written without one; None if each must have one.
    """

    separator: str = ","
    header: bool | tuple[str, ...] = True
    nulls: tuple[str, ...] = ()
    time_format: str | None = None
    zone: str | None = "UTC"


DEFAULT = Csv()


@dataclass(frozen=True, eq=False)
class Converted:
    """Values, null where the text is null or no value of the type; `bad` is true for the latter."""

    values: pa.Array
    bad: pa.BooleanArray


def convert(texts: pa.Array, arrow: pa.DataType, options: Csv = DEFAULT) -> Converted:
    """The values of texts. For times in `options.time_format` that is the only form; others are in ISO form."""
    texts = drop_null_texts(texts, options)
    values = _values(texts, arrow, options)
    return Converted(values, pc.and_(pc.is_valid(texts), pc.is_null(values)))


def _values(texts: pa.Array, arrow: pa.DataType, options: Csv) -> pa.Array:
    if is_text(arrow):
        return texts.cast(arrow)
    if pa.types.is_boolean(arrow):
        is_true = pc.is_in(texts, pa.array(TRUE, texts.type))
        known = pc.or_(is_true, pc.is_in(texts, pa.array(FALSE, texts.type)))
        return pc.if_else(known, is_true, pa.scalar(None, pa.bool_()))
    if pa.types.is_timestamp(arrow):
        iso = texts if options.time_format is None else to_iso(texts, parse_format(options.time_format))
        return _instants(iso, arrow, options.zone)
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow) or pa.types.is_date(arrow):
        return _cast_texts(pc.ascii_trim(texts, " \t"), arrow)
    return _cast_texts(texts, arrow)


def drop_null_texts(texts: pa.Array, options: Csv) -> pa.Array:
    """The texts with null for those that mean it."""
    if not options.nulls:
        return texts
    return pc.if_else(pc.is_in(texts, pa.array(options.nulls, texts.type)), pa.scalar(None, texts.type), texts)


def _cast_texts(texts: pa.Array, arrow: pa.DataType) -> pa.Array:
    """What Arrow makes of each text; the bad ones are found by their pattern, and the rest (too large) by halves."""
    try:
        return texts.cast(arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    pattern = ZONED if pa.types.is_timestamp(arrow) and arrow.tz is not None else _kind_of(arrow)[0]
    if pattern is not None:
        texts = pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, texts.type))
    return cast_by_halves(texts, arrow)


def cast_by_halves(column: pa.Array, arrow: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array] = pc.cast) -> pa.Array:
    """Casts what can be cast; the rest becomes null. Where few values cannot, few halves fail."""
    if column.null_count == len(column):
        return pa.nulls(len(column), arrow)
    try:
        return cast(column, arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(column) == 1:
            return pa.nulls(1, arrow)
    middle = len(column) // 2
    return pa.concat_arrays([cast_by_halves(column[:middle], arrow, cast), cast_by_halves(column[middle:], arrow, cast)])


def _instants(texts: pa.Array, arrow: pa.DataType, zone: str | None) -> pa.Array:
    """Times in ISO form. For a type with a zone, a time without one is in the zone of the options."""
    if arrow.tz is None or zone is None:
        return _cast_texts(texts, arrow)
    without_zone = pa.timestamp(arrow.unit)
    try:
        return _in_zone(texts.cast(without_zone), arrow, zone)  # none has a zone
    except pa.ArrowInvalid:
        pass
    zoned = pc.fill_null(pc.match_substring_regex(texts, ZONED), False)
    nothing = pa.scalar(None, texts.type)
    instants = _cast_texts(pc.if_else(zoned, texts, nothing), arrow)
    return pc.coalesce(instants, _in_zone(_cast_texts(pc.if_else(zoned, nothing, texts), without_zone), arrow, zone))


def _in_zone(local: pa.Array, arrow: pa.DataType, zone: str) -> pa.Array:
    """The instants of local times: of two the earlier; a time that the clocks of the zone skip is bad."""
    if zone == "UTC":
        return local.cast(arrow)
    early = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest").cast(arrow)
    late = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest").cast(arrow)
    return pc.if_else(pc.equal(early, late), early, pa.scalar(None, arrow))


# The form of texts that are values of a type (without a zone), and what one of them and several are called in messages.
KINDS = (
    (pa.types.is_integer, (INTEGER, "an integer", "integers")),
    (pa.types.is_floating, (DOUBLE, "a number", "numbers")),
    (pa.types.is_boolean, (BOOLEAN, "a truth value", "truth values")),
    (pa.types.is_date, (DATE, "a date", "dates")),
    (pa.types.is_timestamp, (TIMESTAMP, "a time", "times")),
)


def _kind_of(arrow: pa.DataType) -> tuple[str | None, str, str]:
    """No pattern: Arrow alone knows the form."""
    return next((kind for is_of_kind, kind in KINDS if is_of_kind(arrow)), (None, f"a {arrow}", "times"))


def nouns_of(arrow: pa.DataType) -> str:
    """What values of a type are called in messages."""
    return _kind_of(arrow)[2]


def reason_parts(column: str, arrow: pa.DataType) -> tuple[str, str]:
    """Why a row is rejected, before and after the text that is no value of the column."""
    return f"`{column}` is `", f"`, not {_kind_of(arrow)[1]}"


def decode(column: pa.Array) -> pa.Array:
    """Bytes as text; null where they are not UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return cast_by_halves(column, pa.string())


def reasons_for(
    name: str, arrow: pa.DataType, given: pa.Array, texts: pa.Array, converted: Converted, reasons: pa.Array | None
) -> pa.Array | None:
    """Why rows are bad, with those of one more column where a row is not bad already. `given` are the bytes behind the texts."""
    undecoded = None if texts.null_count == given.null_count else pc.and_(pc.is_null(texts), pc.is_valid(given))
    if undecoded is None and not pc.any(converted.bad).as_py():
        return reasons
    nothing = pa.scalar(None, pa.string())
    before, after = [pa.scalar(part, pa.string()) for part in reason_parts(name, arrow)]
    own = pc.if_else(converted.bad, pc.binary_join_element_wise(before, texts, after, pa.scalar("", pa.string())), nothing)
    if undecoded is not None:
        own = pc.if_else(undecoded, pa.scalar(f"`{name}` is not UTF-8", pa.string()), own)
    return own if reasons is None else pc.coalesce(reasons, own)


# ---- guesses


@dataclass(frozen=True, eq=False)
class Guess:
    """The type that texts seem to have, and the options to convert them with (times of a column have one form).

    `odd` is None if all texts are of the type; else it marks those that are not, and the type is that of the others. `n_values` is
    how many texts are not null.
    """

    arrow: pa.DataType
    options: Csv
    n_values: int
    odd: pa.BooleanArray | None = None


def guess(texts: pa.Array, options: Csv = DEFAULT) -> Guess:
    """The type of a column, from its first texts: of one type, nearly of one (some are odd), or text."""
    texts = drop_null_texts(texts, options)
    # Each distinct text is looked at once: columns of text often have few, and it is they that fit no type.
    counted = texts.drop_null().value_counts()
    words, counts = counted.field("values"), counted.field("counts")
    n_values = len(texts) - texts.null_count
    as_text = Guess(pa.string(), options, n_values)
    if n_values == 0 or pc.any(pc.match_substring_regex(words, CODE)).as_py() or not _may_be_nearly(words, counts, options):
        return as_text
    best: Guess | None = None
    n_odd_of_best = n_values + 1
    for arrow, own in _candidates(words, options):
        bad = convert(words, arrow, own).bad
        n_odd = _sum(counts.filter(bad))
        if n_odd == 0:
            return Guess(arrow, own, n_values)
        if n_odd < n_odd_of_best:
            best, n_odd_of_best = Guess(arrow, own, n_values, pc.is_in(texts, words.filter(bad))), n_odd
    n_sure = n_values - n_odd_of_best
    return best if best is not None and n_sure >= FEWEST_SURE and n_sure >= LEAST_SHARE * n_values else as_text


def _may_be_nearly(words: pa.Array, counts: pa.Array, options: Csv) -> bool:
    """Could most texts be numbers, times or truth values? Their beginnings say enough to pass over ordinary text."""
    if options.time_format is not None:
        return True
    return _sum(counts.filter(pc.match_substring_regex(words, BEGINS))) >= LEAST_SHARE * _sum(counts)


def _sum(counts: pa.Array) -> int:
    return int(pc.sum(counts).as_py() or 0)


def _candidates(texts: pa.Array, options: Csv) -> list[tuple[pa.DataType, Csv]]:
    """Types that texts may be of, in the order in which they are tried; of equally good ones the first is taken."""
    unit = "ns" if pc.any(pc.match_substring_regex(texts, FINE)).as_py() else "us"
    local = pa.timestamp(unit, tz=None if options.zone == "UTC" else options.zone)
    iso = replace(options, time_format=None)
    types: list[tuple[pa.DataType, Csv]] = [(pa.int64(), iso), (pa.float64(), iso), (pa.bool_(), iso)]
    if options.time_format is not None:
        has_zone = "%z" in options.time_format
        types.append((pa.timestamp(unit, tz="UTC") if has_zone else local, options))
    # A column has zones throughout or not at all, unless a zone is declared: then its times need none.
    return [*types, (pa.date32(), iso), (local, iso), (pa.timestamp(unit, tz="UTC"), replace(iso, zone=None))]


@cache
def is_zone(name: str) -> bool:
    """Does Arrow know the zone?"""
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), name)
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return False
    return True
