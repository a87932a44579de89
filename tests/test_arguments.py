"""Arguments of the wrong kind: each is refused in one sentence where the call was made, never by an exception from inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import keuka

TABLE = pa.table({"t": [1, 2, 3], "k": ["a", "b", "a"], "n": [1, 2, 3]})
QUERY = "SELECT n FROM S"
FILTERED = "SELECT n FROM FILTER {k = :x} (S)"
NO_NAMES = [5, (1, 2), [], {}, ["t"], b"t"]


def match(query: Any = QUERY, **options: Any) -> Any:
    return keuka.match(query, TABLE, **{"time": "t", **options})


def stream(**options: Any) -> Any:
    return keuka.match(QUERY, keuka.Stream(TABLE, **{"time": "t", **options}))


# ---- about the call: TypeError


@pytest.mark.parametrize("call", [keuka.cel, keuka.query, match])
@pytest.mark.parametrize("query", [None, 5, b"SELECT n FROM S", ["SELECT n FROM S"]])
def test_a_query_is_text(call: Callable[[Any], Any], query: Any) -> None:
    with pytest.raises(TypeError, match=rf"(the text of )?a query must be .*str.*, not {type(query).__name__}"):
        call(query)


@pytest.mark.parametrize("type_column", NO_NAMES)
def test_a_type_column_is_a_name(type_column: Any) -> None:
    with pytest.raises(TypeError, match=rf"^type_column must be the name of a column \(str\), not {type(type_column).__name__}$"):
        match(type_column=type_column)


@pytest.mark.parametrize("params", [5, [1], ("x",), "x", {"x"}])
def test_parameters_come_in_a_dict(params: Any) -> None:
    with pytest.raises(TypeError, match=rf"^params must be a dict from name to value, not {type(params).__name__}$"):
        match(FILTERED, params=params)


@pytest.mark.parametrize("language", [5, [], "sql", ""])
def test_a_language_is_one_of_those_there_are(language: Any) -> None:
    with pytest.raises(ValueError, match=r"^unknown language .*; the languages are cel, sase$"):
        match(language=language)


# ---- about a stream, or a name in the query: KeukaError


def said(code: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(keuka.KeukaError) as raised:
        call(*arguments, **options)
    assert raised.value.code == code
    return str(raised.value)


@pytest.mark.parametrize("call", [match, stream])
@pytest.mark.parametrize("time", [5, (1, 2), [], b"t", ("t", "n", "k")])
def test_a_time_is_a_column_or_two(call: Callable[..., Any], time: Any) -> None:
    message = f"error[K501]: `time=` must be a column or a pair of columns (start, end), not {time!r}\n  stream `S`"
    assert said("K501", call, time=time) == message
    assert said("K501", match, time={"S": time}) == message


def test_a_time_may_be_a_list_of_columns() -> None:
    assert match(time=["t"]).num_rows == match(time=["t", "n"]).num_rows == 3


@pytest.mark.parametrize("id", NO_NAMES)
def test_an_id_is_a_column(id: Any) -> None:
    assert said("K516", stream, id=id) == f"error[K516]: `id=` must be the name of a column, not {id!r}\n  stream `S`"


@pytest.mark.parametrize("unit", NO_NAMES)
def test_a_unit_is_a_word(unit: Any) -> None:
    assert said("K515", stream, unit=unit).startswith(f"error[K515]: {unit!r} is not a unit of time\n  stream `S`")


@pytest.mark.parametrize("call", [match, stream])
@pytest.mark.parametrize("lateness", [[], ("5 s",), b"5 s", 1.5, "9" * 5000 + " s"])
def test_a_lateness_is_a_duration(call: Callable[..., Any], lateness: Any) -> None:
    assert said("K515", call, lateness=lateness).startswith(f"error[K515]: lateness {lateness!r} is not a duration\n  stream `S`")


@pytest.mark.parametrize("output", NO_NAMES)
def test_an_output_is_a_published_name(output: Any) -> None:
    assert said("K202", match, output=output).startswith(f"error[K202]: no query publishes `{output}`")


def test_names_of_parameters_and_streams_are_texts() -> None:
    assert "the query has no parameter `:1`" in said("K207", match, FILTERED, params={1: "a"})
    assert "data was given for `5`" in said("K505", keuka.match, QUERY, {5: TABLE, ("a",): TABLE}, time="t")


# ---- half a character, which Python's texts can hold and UTF-8 cannot


@pytest.mark.parametrize("query", ["SELECT n FROM S\ud800", "SELECT n AS `\ud800` FROM S", "SELECT n FROM FILTER {k = '\udfff'} (S)"])
def test_half_a_character_in_a_query_is_shown_at_its_place(query: str) -> None:
    message = said("K102", match, query)
    place = next(i for i, c in enumerate(query) if "\ud800" <= c <= "\udfff")
    assert f"<query>:1:{place + 1}\n" in message
    assert message.encode()


def test_half_a_character_in_a_parameter() -> None:
    message = said("K207", match, FILTERED, params={"x": "\ud800"})
    assert "the parameter `:x` holds half a character (a lone surrogate)" in message


def test_a_message_can_be_printed_whatever_is_in_it() -> None:
    assert "`\\ud800`" in said("K501", match, time="\ud800")


def test_a_query_file_with_a_name_that_no_file_can_have() -> None:
    for path in ("a\0b.cel", Path("a\0b.cel")):
        assert "the name of a file has no NUL" in said("K104", keuka.query, path)
