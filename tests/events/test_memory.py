"""Frames and rows in memory: columns that a query does not read are not converted, and cannot fail a call."""

from __future__ import annotations

import decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keuka
from keuka.events.memory import GUESSED_ROWS, pandas_table

RISES = "SELECT price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S"
COLUMNS: dict[str, list[Any]] = {"t": [1, 2, 3], "name": ["a", "b", "a"], "price": [1.0, 2.0, 3.0], "odd": [1, "x", object()]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
FOUND = [{"low": 1.0, "high": 3.0, "_start": 1, "_end": 3}]


def frames() -> dict[str, Any]:
    polars = pl.DataFrame({name: pl.Series(values, dtype=pl.Object if name == "odd" else None) for name, values in COLUMNS.items()})
    return {"pandas": pd.DataFrame(COLUMNS), "polars": polars, "dicts": ROWS}


def rows_of(table: Any) -> list[dict[str, Any]]:
    if isinstance(table, pd.DataFrame):
        return table.to_dict("records")
    return table.to_dicts() if isinstance(table, pl.DataFrame) else table.to_pylist()


@pytest.mark.parametrize("kind", ["pandas", "polars", "dicts"])
def test_a_mixed_column_that_nobody_reads_is_no_error(kind: str):
    data = frames()[kind]
    assert rows_of(keuka.match(RISES, data, time="t")) == FOUND
    with_id = keuka.Stream(data, time="t", id="t")
    assert len(keuka.match(RISES, with_id, contributors=True)) == 1


@pytest.mark.parametrize("kind", ["pandas", "polars", "dicts"])
@pytest.mark.parametrize("query", ["SELECT * FROM S", "SELECT odd FROM S", "FROM FILTER {price > 1} (S)"])
def test_a_mixed_column_that_is_read_is_an_error_that_names_it(kind: str, query: str):
    with pytest.raises(keuka.DataError, match="column `odd`") as raised:
        keuka.match(query, frames()[kind], time="t")
    assert raised.value.code == "K512"


@pytest.mark.parametrize("kind", ["pandas", "dicts"])
def test_contributors_without_an_id_read_every_column(kind: str):
    with pytest.raises(keuka.DataError, match="column `odd`"):
        keuka.match(RISES, frames()[kind], time="t", contributors=True)


@pytest.mark.parametrize("of", [pd.DataFrame, lambda columns: pd.DataFrame(columns).to_dict("records")], ids=["pandas", "dicts"])
def test_a_type_that_shows_only_late_is_right_where_it_is_read(of: Any):
    n = GUESSED_ROWS + 5
    late: list[Any] = [None] * n
    late[-1] = decimal.Decimal("1.5")
    mixed = pd.Series([*range(n - 1), 0.5], dtype=object).tolist()
    data = of({"t": list(range(n)), "late": pd.Series(late, dtype=object), "mixed": pd.Series(mixed, dtype=object)})
    every = keuka.match("SELECT * FROM S", data, time="t")
    arrow = pa.Table.from_pandas(every, preserve_index=False) if isinstance(every, pd.DataFrame) else every
    assert pa.types.is_decimal(arrow.schema.field("late").type)
    assert pa.types.is_float64(arrow.schema.field("mixed").type)
    assert len(keuka.match("SELECT t FROM FILTER {mixed = 0.5} (S)", data, time="t")) == 1


def test_only_columns_that_are_read_are_converted():
    table = pandas_table("S", pd.DataFrame(COLUMNS), "t")
    table.select(["t", "price"])
    assert set(table.converted) == {"t", "price"}
    assert table.guessed == {"name", "odd"}


def test_names_in_backticks_and_derived_names_are_read():
    frame = pd.DataFrame({"t": [1, 2], "a`b c": ["x", "x"], "text": ["p", "q"]})
    query = "SELECT text_1 AS one, text AS other FROM S NEXT {$2.`a``b c` = $1.`a``b c`} S"
    assert rows_of(keuka.match(query, frame, time="t"))[0]["other"] == "q"


def test_a_column_that_a_frame_has_twice_is_named():
    frame = pd.DataFrame([[1, 2, 3]], columns=["t", "price", "price"])
    with pytest.raises(keuka.DataError, match="two columns have the name `price`") as raised:
        keuka.match("SELECT t FROM S", frame, time="t")
    assert raised.value.code == "K512"


def test_an_index_that_is_the_time_need_not_copy_the_frame():
    frame = pd.DataFrame({"price": [1.0, 2.0], "odd": [1, "x"]}, index=pd.DatetimeIndex(["2024-01-01", "2024-01-02"], name="at"))
    assert rows_of(keuka.match("SELECT price FROM S", frame))[1]["price"] == 2.0
