"""What texts of a CSV file mean: the same as in Arrow's own reader, and what is guessed of a column."""

from __future__ import annotations

import datetime
import re

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keuka.events.text_values import BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, ZONED, Csv, convert, guess, is_zone
from keuka.events.time_formats import parse_format, similar_formats

TYPES = (
    pa.int64(),
    pa.int32(),
    pa.int8(),
    pa.float64(),
    pa.float32(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("ns"),
    pa.timestamp("us", tz="UTC"),
    pa.string(),
)

NUMBERS = st.from_regex(r"[ \t]?[+-]?[0-9]{0,21}\.?[0-9]{0,4}([eE][+-]?[0-9]{0,4})?[ \t]?", fullmatch=True)
HEX = st.from_regex(r"-?0[xX][0-9a-fA-F]{0,18}", fullmatch=True)
WORDS = st.sampled_from(
    ["nan", "NaN", "-nan", "nan(1)", "nan()", "inf", "+Infinity", "true", "True", "tRUE", "FALSE", "1", "0", "n/a", "-", "", " "]
)
DATES = st.from_regex(r" ?[0-9]{4}-[01][0-9]-[0-3][0-9] ?", fullmatch=True)
CLOCK = r"[ T][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,10})?)?)?"
TIMES = st.from_regex(rf"(19|20|22|00|99)[0-9]{{2}}-[01][0-9]-[0-3][0-9]{CLOCK}( ?(Z|z|[+-][0-2][0-9](:?[0-6][0-9])?))? ?", fullmatch=True)
TEXTS = st.one_of(NUMBERS, HEX, WORDS, DATES, TIMES, st.text(st.characters(codec="ascii", exclude_characters='"\r\n\0'), max_size=8))


def read_typed(text: str, arrow: pa.DataType) -> pa.Array | None:
    """What Arrow's reader makes of the text; None if it refuses it."""
    options = pa.csv.ConvertOptions(column_types={"x": arrow}, null_values=[])
    try:
        table = pa.csv.read_csv(pa.BufferReader(f'x,y\n"{text}",\n'.encode()), convert_options=options)
    except pa.ArrowInvalid:
        return None
    return table["x"].combine_chunks()


@settings(max_examples=1500)
@given(TEXTS, st.sampled_from(TYPES))
def test_a_text_means_what_it_means_to_the_reader_of_arrow(text: str, arrow: pa.DataType):
    typed = read_typed(text, arrow)
    options = Csv(zone=None)  # as Arrow, which has no zone for a time without one
    converted = convert(pa.array([text, "x y"]), arrow, options)
    assert converted.bad[0].as_py() == (typed is None)
    if typed is not None:
        alone = convert(pa.array([text]), arrow, options).values  # nothing else is bad, which is the faster way
        assert alone.type == converted.values.type == typed.type
        assert str(alone) == str(converted.values[:1]) == str(typed)  # as text, since NaN is not equal to itself


@settings(max_examples=1500)
@given(TEXTS)
def test_the_patterns_accept_what_is_converted(text: str):
    """Whoever has only the patterns (Spark) and a cast that fails for what is too large gets the same values."""
    for pattern, arrow in (
        (INTEGER, pa.int64()),
        (DOUBLE, pa.float64()),
        (BOOLEAN, pa.bool_()),
        (DATE, pa.date32()),
        (TIMESTAMP, pa.timestamp("ns")),
        (ZONED, pa.timestamp("ns", tz="UTC")),
    ):
        if not convert(pa.array([text, "x y"]), arrow, Csv(zone=None)).bad[0].as_py():
            assert re.search(pattern, text), (pattern, text)
        elif re.search(pattern, text):
            # Only for its size: nanoseconds end in 2262, and integers have 64 bits.
            assert arrow in (pa.int64(), pa.timestamp("ns"), pa.timestamp("ns", tz="UTC"))


@given(st.dates(datetime.date(1, 1, 1)))
def test_every_day_of_the_calendar_is_a_date(day: datetime.date):
    assert re.search(DATE, day.isoformat())


def test_days_that_no_month_has_are_no_dates():
    days = ["2023-02-29", "2024-02-30", "1900-02-29", "2024-04-31", "2024-13-01", "2024-00-10", "2024-01-00"]
    assert convert(pa.array(days), pa.date32()).bad.to_pylist() == [True] * 7
    assert not any(re.search(DATE, day) for day in days)


def test_null_texts_are_null_in_every_column():
    texts = pa.array(["1", "n/a", None, "-"])
    options = Csv(nulls=("n/a", "-"))
    assert convert(texts, pa.int64(), options).values.to_pylist() == [1, None, None, None]
    assert convert(texts, pa.string(), options).values.to_pylist() == ["1", None, None, None]
    assert convert(texts, pa.int64(), options).bad.to_pylist() == [False] * 4


# ---- zones


def instants(texts: list[str], **options: str) -> list[str | None]:
    found = convert(pa.array(texts), pa.timestamp("us", tz="UTC"), Csv(**options)).values
    return [None if at is None else at.isoformat() for at in found.to_pylist()]


def test_a_time_without_a_zone_is_in_the_declared_one_and_one_with_a_zone_is_not():
    texts = ["2024-03-01 09:10", "2024-03-01 09:10Z", "2024-03-01T09:10:00.5+05:45", "2024-03-01"]
    expected = ["2024-03-01T09:10:00+00:00", "2024-03-01T09:10:00+00:00", "2024-03-01T03:25:00.500000+00:00", "2024-03-01T00:00:00+00:00"]
    assert instants(texts) == expected
    assert instants(texts, zone="Asia/Kathmandu")[0] == "2024-03-01T03:25:00+00:00"
    assert instants(texts, zone="Asia/Kathmandu")[1:3] == expected[1:3]


def test_of_two_times_the_earlier_is_taken_and_a_skipped_one_is_bad():
    texts = ["2024-11-03 01:30", "2024-03-10 02:30", "2024-03-10 03:00"]
    assert instants(texts, zone="America/New_York") == ["2024-11-03T05:30:00+00:00", None, "2024-03-10T07:00:00+00:00"]
    assert convert(pa.array(texts), pa.timestamp("us", tz="UTC"), Csv(zone="America/New_York")).bad.to_pylist() == [False, True, False]


def test_zones_are_those_that_arrow_knows():
    assert is_zone("Asia/Kathmandu")
    assert is_zone("+05:45")
    assert not is_zone("Mars/Olympus")


# ---- formats of times


@pytest.mark.parametrize(
    ("format", "text", "iso"),
    [
        ("%d/%m/%Y %H:%M", "03/01/2024 09:10", "2024-01-03 09:10:00"),
        ("%m/%d/%Y %H:%M", "3/1/2024 9:10", "2024-03-01 09:10:00"),
        ("%d.%m.%y", "31.12.69", "1969-12-31 00:00:00"),
        ("%d.%m.%y", "31.12.68", "2068-12-31 00:00:00"),
        ("%d-%b-%Y %I:%M:%S %p", "05-mAr-2024 12:00:01 am", "2024-03-05 00:00:01"),
        ("%d-%b-%Y %I:%M:%S %p", "05-MAR-2024 12:00:01 PM", "2024-03-05 12:00:01"),
        ("%Y%m%dT%H%M%S.%f", "20240301T091011.25", "2024-03-01 09:10:11.250000"),
        ("%Y %j", "2024 366", "2024-12-31 00:00:00"),
        ("(%d|%m|%Y) 100%%", "(01|02|2024) 100%", "2024-02-01 00:00:00"),
        ("%d/%m/%Y", "31/02/2024", None),
        ("%d/%m/%Y", "31/02/2024 ", None),
        ("%d-%b-%Y", "05-Mai-2024", None),
        ("%Y %j", "2023 366", None),
        ("%Y %j", "2023 0", None),
        ("%I:%M %p %d/%m/%Y", "13:00 PM 01/01/2024", None),
    ],
)
def test_a_time_in_a_declared_format(format: str, text: str, iso: str | None):
    converted = convert(pa.array([text, None]), pa.timestamp("us"), Csv(time_format=format))
    expected = None if iso is None else datetime.datetime.fromisoformat(iso)
    assert converted.values.to_pylist() == [expected, None]
    assert converted.bad.to_pylist() == [iso is None, False]


def test_a_format_with_a_zone_gives_instants():
    assert instants(["01/Mar/2024:09:10:11 +0545"], time_format="%d/%b/%Y:%H:%M:%S %z") == ["2024-03-01T03:25:11+00:00"]
    assert instants(["03/01/2024 09:10"], time_format="%d/%m/%Y %H:%M", zone="Asia/Kathmandu") == ["2024-01-03T03:25:00+00:00"]


@given(st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2068, 12, 31)))
def test_formats_mean_what_they_mean_to_strptime(at: datetime.datetime):
    for format in ("%d/%m/%Y %H:%M:%S.%f", "%b %d %y, %I:%M:%S %p", "%Y.%j %H%M%S"):
        text = at.strftime(format)
        found = convert(pa.array([text]), pa.timestamp("us"), Csv(time_format=format)).values[0].as_py()
        assert found == datetime.datetime.strptime(text, format)


@pytest.mark.parametrize(
    ("format", "reason"),
    [
        ("%d/%m", "it must say the year once: `%Y` or `%y`"),
        ("%Y-%m", "it must say the day once: `%d` or `%j`"),
        ("%Y-%m-%d %I:%M", "`%I` and `%p` go together"),
        ("%Y-%m-%d %H %I %p", "it must say the hour once"),
        ("%Y-%m-%d %A", "`%A` is not known; there are %Y, "),
        ("%Y-%Y-%m-%d", "`%Y` stands there twice"),
        ("%Y-%m-%d.%f", "`%f` needs `%S`"),
        ("%Y-%m-%d %", "`%` is not known"),
    ],
)
def test_a_format_that_cannot_be_understood_says_why(format: str, reason: str):
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_format(format)


def test_similar_formats_are_both_offered_where_day_and_month_cannot_be_told_apart():
    assert similar_formats(["03/01/2024 09:10", "04/01/2024 10:00"]) == ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")
    assert similar_formats(["03/01/2024 09:10", "23/01/2024 10:00"]) == ("%d/%m/%Y %H:%M",)
    assert similar_formats(["01/Mar/2024:09:10:11 +0545"]) == ("%d/%b/%Y:%H:%M:%S %z",)
    assert similar_formats(["yesterday"]) == ()


# ---- guesses


@pytest.mark.parametrize(
    ("texts", "arrow"),
    [
        (["1", "-2", None], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["true", "False"], pa.bool_()),
        (["1", "0"], pa.int64()),
        (["2024-03-01"], pa.date32()),
        (["2024-03-01", "2024-03-01 09:10"], pa.timestamp("us")),
        (["2024-03-01 09:10:11.123456789"], pa.timestamp("ns")),
        (["2024-03-01 09:10Z"], pa.timestamp("us", tz="UTC")),
        (["2024-03-01 09:10Z", "2024-03-01 09:10"], pa.string()),
        (["IBM", "Dell"], pa.string()),
        ([None, None], pa.string()),
        (["1", "2", "007"], pa.string()),
        (["1", "2", "-0077"], pa.string()),
        (["1", "0x1F"], pa.string()),
        (["0", "0.5", "-0.25"], pa.float64()),
        (["12:30", "12:31"], pa.string()),
    ],
)
def test_a_column_of_one_kind_has_its_type(texts: list[str | None], arrow: pa.DataType):
    guessed = guess(pa.array(texts, pa.string()))
    assert guessed.arrow == arrow
    assert guessed.odd is None


@pytest.mark.parametrize(
    ("texts", "arrow", "odd"),
    [
        (["1", "n/a", "2", "3"], pa.int64(), [1]),
        (["1", "n/a", "2.5", None, "3"], pa.float64(), [1]),
        (["true", "false", "true", "?"], pa.bool_(), [3]),
        (["2024-03-01 09:10", "2024-03-01", "soon", "2024-03-02"], pa.timestamp("us"), [2]),
    ],
)
def test_three_quarters_of_one_kind_make_the_others_odd(texts: list[str | None], arrow: pa.DataType, odd: list[int]):
    guessed = guess(pa.array(texts))
    assert guessed.arrow == arrow
    assert guessed.odd is not None
    assert [i for i, is_odd in enumerate(guessed.odd.to_pylist()) if is_odd] == odd
    assert guessed.n_values == sum([text is not None for text in texts])


@pytest.mark.parametrize("texts", [["1", "2", "n/a"], ["1", "2", "3", "a", "b"], ["1", "2", "3", "007", "n/a"]])
def test_fewer_are_text(texts: list[str]):
    assert guess(pa.array(texts)).arrow == pa.string()
    assert guess(pa.array(texts)).odd is None


def test_null_texts_and_formats_count_in_a_guess():
    guessed = guess(pa.array(["1", "n/a", "2"]), Csv(nulls=("n/a",)))
    assert (guessed.arrow, guessed.odd, guessed.n_values) == (pa.int64(), None, 2)
    options = Csv(time_format="%d/%m/%Y", zone="Asia/Kathmandu")
    assert guess(pa.array(["03/01/2024"]), options).arrow == pa.timestamp("us", tz="Asia/Kathmandu")
    assert guess(pa.array(["03/01/2024"]), options).options == options
    iso = guess(pa.array(["2024-01-03 09:10"]), options)
    assert (iso.arrow, iso.options.time_format) == (pa.timestamp("us", tz="Asia/Kathmandu"), None)
