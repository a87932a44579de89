"""The texts of CSV and JSON files as values, in Spark: the same patterns as `events/text_values.py`, so the same text has the same value.

In comes a column of texts and the type that its values must have, out comes a column of that type: null where the text is null, means
null, or is no value of the type. The zone of the session plays no part in that.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from keuka.events import text_values
from keuka.events.text_values import Csv
from keuka.events.time_formats import Part, TimeFormat, parse_format
from keuka.spark.schemas import spark_type

BLANKS = " \t"
# The forms that most texts have.
USUAL_INTEGER = r"^-?[0-9]{1,18}$"
USUAL_DOUBLE = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
USUAL_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
USUAL_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?$"
MINUTE = 60_000_000  # in microseconds
OFFSET = r"(?:Z|([+-])([0-9]{2}):?([0-9]{2})?)$"  # at the end of a time with a zone
PARTIAL = (("^([0-9-]{10})$", "$1 00"), ("([ T][0-9]{2})$", "$1:00"), ("([ T][0-9]{2}:[0-9]{2})$", "$1:00"))
# What Arrow reads as a decimal (`text_values.py` leaves that to Arrow): digits before and after the point, and an exponent.
DECIMAL = r"^[+-]?([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,4}))?$"


def drop_null_texts(text: Column, options: Csv) -> Column:
    """The texts with null for those that mean it."""
    return sf.when(text.isin(*options.nulls), None).otherwise(text) if options.nulls else text


def convert(text: Column, arrow: pa.DataType, options: Csv) -> Column:
    """The values of texts that `drop_null_texts` has seen. A text that is not null and has a null value is a bad one."""
    if pa.types.is_boolean(arrow):
        return sf.when(text.isin(*text_values.TRUE), True).when(text.isin(*text_values.FALSE), False)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return text.cast(spark_type(arrow))
    usual, value = _usual(text, arrow, options)
    return sf.when(usual, value).otherwise(apart(text, lambda word: _convert(word, arrow, options)))


def _usual(text: Column, arrow: pa.DataType, options: Csv) -> tuple[Column, Column]:
    """Is the text in the form that most texts have, in which Spark's cast decides whether it is a value? And the cast."""
    if pa.types.is_timestamp(arrow):
        plain = fits(text, USUAL_TIME) if options.time_format is None and options.zone == "UTC" else sf.lit(False)
        if arrow.tz is None:
            return fits(text, USUAL_TIME) if options.time_format is None else sf.lit(False), text.try_cast("timestamp_ntz")
        return plain, sf.concat(text, sf.lit("Z")).try_cast("timestamp")
    form = USUAL_DATE
    if pa.types.is_integer(arrow):
        form = USUAL_INTEGER
    elif pa.types.is_floating(arrow):
        form = USUAL_DOUBLE
    elif pa.types.is_decimal(arrow):
        form = rf"^-?[0-9]+(?:\.[0-9]{{1,{arrow.scale}}})?$" if arrow.scale else USUAL_INTEGER
    return fits(text, form), text.try_cast(spark_type(arrow))


def apart(text: Column, function: Callable[[Column], Column]) -> Column:
    """The function of the text, outside the code that Spark generates, which stays small. As an argument, the text is computed once."""
    return sf.get(sf.transform(sf.array(text), function), 0)


def _convert(text: Column, arrow: pa.DataType, options: Csv) -> Column:
    """The value of a text in any form."""
    if pa.types.is_timestamp(arrow):
        if options.time_format is None:
            return _time(text, arrow, options)
        return apart(to_iso(text, parse_format(options.time_format)), lambda iso: _time(iso, arrow, options))
    trimmed = sf.btrim(text, sf.lit(BLANKS))
    if pa.types.is_integer(arrow):
        return _integer(trimmed, arrow)
    if pa.types.is_floating(arrow):
        return _double(trimmed, arrow)
    return _decimal(trimmed, arrow) if pa.types.is_decimal(arrow) else _matching(trimmed, text_values.DATE).try_cast(spark_type(arrow))


def fits(text: Column, pattern: str) -> Column:
    return text.rlike(_whole(pattern))


def _whole(pattern: str) -> str:
    """The pattern for Java, where `$` also stands before a line break at the end of a text."""
    return pattern.removesuffix("$") + r"\z"


def _matching(text: Column, pattern: str) -> Column:
    return sf.when(fits(text, pattern), text)


def _group(text: Column, pattern: str, group: int) -> Column:
    """Empty if the group takes no part."""
    return sf.regexp_extract(text, _whole(pattern), group)


def _integer(text: Column, arrow: pa.DataType) -> Column:
    digits = text.try_cast(spark_type(arrow))
    bits = sf.conv(sf.when(sf.length(text) <= 2 + arrow.bit_width // 4, sf.substring(text, 3, 16)), 16, -10).cast("bigint")
    if arrow.bit_width < 64:
        bits = sf.when(bits >= 2 ** (arrow.bit_width - 1), bits - 2**arrow.bit_width).otherwise(bits)
    return sf.when(fits(text, f"^{text_values.HEX}$"), bits.cast(spark_type(arrow))).when(fits(text, text_values.INTEGER), digits)


def _double(text: Column, arrow: pa.DataType) -> Column:
    """NaN and the infinities have more names than Spark knows."""
    wanted = spark_type(arrow)
    named = sf.when(fits(text, r"^[+-]?(?i:nan).*$"), sf.lit(float("nan")).cast(wanted))
    named = named.when(fits(text, r"^-(?i:inf).*$"), sf.lit(float("-inf")).cast(wanted))
    named = named.when(fits(text, r"^\+?(?i:inf).*$"), sf.lit(float("inf")).cast(wanted))
    return sf.when(fits(text, text_values.DOUBLE), named.otherwise(text.try_cast(wanted)))


def _decimal(text: Column, arrow: pa.DataType) -> Column:
    """Spark would round what has more digits after the point."""
    whole, fraction, exponent = [_group(text, DECIMAL, group) for group in (1, 2, 3)]
    digits = sf.concat(whole, fraction)
    n_zeros = sf.length(digits) - sf.length(sf.rtrim(digits, sf.lit("0")))
    scale = sf.length(fraction) - n_zeros - sf.coalesce(exponent.try_cast("int"), sf.lit(0))
    return sf.when(fits(text, DECIMAL) & ((scale <= arrow.scale) | fits(digits, "^0+$")), text.try_cast(spark_type(arrow)))


def _time(iso: Column, arrow: pa.DataType, options: Csv) -> Column:
    too_fine = text_values.FINE if arrow.unit == "us" else r"\.[0-9]{6}0*[1-9]"
    zoned = fits(iso, text_values.ZONED)
    local = sf.when((zoned | fits(iso, text_values.TIMESTAMP)) & ~iso.rlike(too_fine), _without_zone(iso))
    if arrow.tz is None:
        return sf.when(~zoned, local.try_cast("timestamp_ntz"))
    as_utc = sf.concat(local, sf.lit("Z")).try_cast("timestamp")
    return sf.when(zoned, sf.timestamp_micros(sf.unix_micros(as_utc) - _offset(iso))).otherwise(_in_zone(as_utc, options.zone))


def _without_zone(iso: Column) -> Column:
    """The local time with all its parts: Spark needs the seconds before a zone."""
    local = sf.regexp_replace(iso, rf"(?<=[ T][0-9:.]{{2,18}}){_whole(OFFSET)}", "")
    for pattern, completed in PARTIAL:
        local = sf.regexp_replace(local, _whole(pattern), completed)
    return local


def _offset(iso: Column) -> Column:
    """How far the clocks of a time's zone are ahead, in microseconds. Spark's own ends at 18 hours."""
    sign, hours, minutes = [_group(iso, OFFSET, group) for group in (1, 2, 3)]
    n_minutes = sf.coalesce(hours.try_cast("bigint"), sf.lit(0)) * 60 + sf.coalesce(minutes.try_cast("bigint"), sf.lit(0))
    return n_minutes * sf.when(sign == "-", -MINUTE).otherwise(MINUTE)


def _in_zone(as_utc: Column, zone: str | None) -> Column:
    """The instant of a local time, given as if it were UTC: of two the earlier; a time that the clocks of the zone skip is none."""
    if zone is None:
        return sf.lit(None)
    if zone == "UTC":
        return as_utc
    instant = sf.to_utc_timestamp(as_utc, zone)
    return sf.when(sf.from_utc_timestamp(instant, zone) == as_utc, instant)


def to_iso(text: Column, form: TimeFormat) -> Column:
    """ISO text for texts of the format; null for others."""
    pieces = [piece for part in form.parts for piece in _pieces(text, form.pattern, part)]
    iso = sf.when(fits(text, form.pattern), sf.concat(*pieces))
    if form.day_of_year is None:
        return iso
    first = sf.substring(iso, 1, 10).try_cast("date")
    day = sf.date_add(first, _group(text, form.pattern, form.day_of_year).try_cast("int") - 1)
    return sf.when(sf.year(day) == sf.year(first), sf.concat(day.cast("string"), sf.substring(iso, 11, 64)))


def _pieces(text: Column, pattern: str, part: Part) -> list[Column]:
    before = [sf.lit(part.before)] if part.before else []
    if not part.groups:
        return before
    groups = [sf.upper(_group(text, pattern, group)) for group in part.groups]
    joined = sf.concat(*[sf.lpad(group, part.width, "0") if part.width else group for group in groups])
    if part.table is None:
        return [*before, joined]
    table = sf.create_map(*[sf.lit(word) for entry in part.table.items() for word in entry])
    return [*before, sf.try_element_at(table, joined)]
