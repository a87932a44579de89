"""Data of every kind through `match` and `Engine.push`: tables, frames, rows, readers, damaged files.

An engine that refuses a batch must have taken nothing of it, and goes on.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import keuka

from .arrow_data import column, simple_types, table
from .damage import DAMAGES
from .processes import Attempt
from .queries import code_of

QUERIES = [
    keuka.cel("SELECT * FROM S"),
    keuka.cel("SELECT t AS a FROM S"),
    keuka.cel("SELECT k, x FROM FILTER {x > 1} S"),
    keuka.cel("FROM S NEXT {$1.k = $2.k} S"),
    keuka.cel("SELECT * FROM (SELECT *, 1 AS cnt FROM S) FOLD {$2.k = $.k, $2.x > $.x, $.cnt + 1 AS cnt} S"),
    keuka.cel("SELECT concat(k, 'a') AS c, length(k) AS n FROM S UNION (SELECT concat(k, 'b') AS c, 1 AS n FROM S)"),
    keuka.sase("SEQ(S a, S b) WHERE [k] WITHIN 5"),
    keuka.sase("SEQ(S a, !S b, S c) WHERE a.x < c.x AND b.k = a.k WITHIN 4 RETURN a.k AS k, c.x AS x"),
    keuka.sase("UNORDERED(S a, S b) WHERE a.k = b.k"),
]
GOOD = pa.table({"t": [10, 11, 12], "k": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
ODD = (None, 1, -1, 2**63, 10**30, 1.5, float("nan"), "a", "", "é", "x\ud800", b"a", True, [], [1, "a"], {"a": 1}, {}, {1, 2}, (1, 2),
       object, decimal.Decimal("1.5"), datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC),
       datetime.date(2024, 5, 1), datetime.timedelta(1), datetime.time(1), pd.NaT, pd.NA, pd.Timestamp("2024-05-01", tz="Europe/Paris"),
       1 + 2j, range(3), 3.0)  # fmt: skip


# -- forms of data -----------------------------------------------------------------------------------------------------------


def rows(random: Random) -> list[Any]:
    """Dicts of anything; mostly of one kind in a column."""
    kinds = {name: random.choice(ODD) for name in random.sample(("t", "k", "x", "y", "", "a b"), random.randrange(1, 5))}
    kinds.setdefault("t", 1)
    found: list[Any] = []
    for i in range(random.randrange(6)):
        row: dict[Any, Any] = {name: random.choice(ODD) if random.random() < 0.1 else value for name, value in kinds.items()}
        if random.random() < 0.8:
            row["t"] = i
        if random.random() < 0.1:
            row.pop(random.choice(list(row)))
        found.append(row)
    if random.random() < 0.05:
        found.append(random.choice(ODD))
    return found


def frame(random: Random) -> Any:
    """A pandas frame, of Arrow's columns or of what else pandas has."""
    if random.random() < 0.5:
        made = table(random)
        # Arrow's own conversion ends the process for some nested and run-end encoded columns.
        odd = [field.name for field in made.schema if pa.types.is_nested(field.type) or pa.types.is_run_end_encoded(field.type)]
        return made.drop_columns(odd).to_pandas()
    n = random.randrange(5)
    kinds = (
        lambda: pd.Categorical(random.choices("ab", k=n)),
        lambda: pd.Series(random.choices(ODD, k=n), dtype=object),
        lambda: pd.Series([1.5] * n),
        lambda: pd.Series([1] * n, dtype="Int64"),
        lambda: pd.period_range("2024-01", periods=n, freq="M"),
        lambda: pd.interval_range(0, n) if n else [],
        lambda: pd.to_timedelta(range(n), unit="s"),
        lambda: pd.date_range("2024-05-01", periods=n, freq="s", tz=random.choice((None, "UTC", "Asia/Tokyo"))),
        lambda: pd.array(["a"] * n, dtype="string"),
        lambda: pd.arrays.SparseArray([0] * n),
    )
    found = pd.DataFrame(
        {name: random.choice(kinds)() for name in random.sample(("k", "x", "y", 3, None, ("a", "b")), random.randrange(1, 5))}
    )
    found["t"] = range(len(found))
    if random.random() < 0.2:
        found.columns = pd.Index([random.choice(("t", "k", 1.5)) for _ in found.columns])
    if random.random() < 0.2:
        found = found.set_index(found.columns[0])
    return found


def formed(random: Random) -> Any:
    """The data as users have it."""
    match random.randrange(10):
        case 0 | 1:
            return rows(random)
        case 2 | 3:
            return frame(random)
        case 4:
            made = table(random)
            # Polars has no unions, and crashes when a list holds decimals of 32 bits, before Keuka sees the data.
            odd = [field.name for field in made.schema if "union" in str(field.type) or "decimal32" in str(field.type)]
            return pl.from_arrow(made.drop_columns(odd))
        case 5:
            return random.choice((pa.RecordBatchReader.from_batches, lambda _, batches: list(batches), lambda _, batches: iter(batches)))(
                (made := table(random)).schema, made.to_batches()
            )
        case 6:
            batches = table(random).to_batches()
            return batches[0] if batches else random.choice(ODD)
        case _:
            return table(random)


# -- files -------------------------------------------------------------------------------------------------------------------


def written(random: Random, folder: Path) -> Path:
    """A file of a format, damaged more often than not."""
    suffix = random.choice((".csv", ".ndjson", ".parquet", ".arrow", ".arrows"))
    small = pa.table(
        {"t": range(5), "k": ["a", "b", None, "a", "é"], "x": [1.0, None, 3.0, 4.0, 5.0], "y": column(simple_types(random), 5, random)}
    )
    made = table(random) if random.random() < 0.5 else small
    # Arrow's own writer ends the process for slices of some unions.
    sliced = [any(chunk.offset > 0 for chunk in column.chunks) for column in made.columns]
    odd = [field.name for field, is_slice in zip(made.schema, sliced, strict=True) if is_slice and "union" in str(field.type)]
    content = _content(made.drop_columns(odd), suffix)
    if content and random.random() < 0.8:
        for _ in range(random.randrange(1, 4)):
            content = random.choice(DAMAGES)(content, random) if len(content) > 8 else content
    path = folder / f"data{suffix}"
    path.write_bytes(content)
    return path


def _content(made: pa.Table, suffix: str) -> bytes:
    sink = pa.BufferOutputStream()
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(made.column_names)
        writer.writerows(zip(*[[str(value) for value in column] for column in made.columns], strict=True))
        return text.getvalue().encode(errors="replace")
    if suffix == ".ndjson":
        names = made.column_names
        values = [[str(value) if i % 2 else i for i, value in enumerate(column)] for column in made.columns]
        return "".join([json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in zip(*values, strict=True)]).encode()
    if suffix == ".parquet":
        pa.parquet.write_table(made, sink)
        return bytes(sink.getvalue())
    with (pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream)(sink, made.schema) as writer_:
        writer_.write_table(made)
    return bytes(sink.getvalue())


# -- what is done with them --------------------------------------------------------------------------------------------------


def run_match(data: Any, query: keuka.Query, random: Random) -> None:
    options: dict[str, Any] = {"contributors": random.random() < 0.3, "sort": random.random() < 0.2}
    if random.random() < 0.9:
        options["time"] = random.choice(("t", "t", "t", "t", ("t", "x"), "k"))
    if random.random() < 0.2:
        data = keuka.Stream(
            data, id=random.choice(("k", "x", "t")), lateness=random.choice((None, 3, "1 s")), unit=random.choice((None, "s"))
        )
    keuka.match(query, {"S": data}, **options)


def run_engine(data: Any, query: keuka.Query, random: Random) -> None:
    """Push it first, or after a batch that is good; where it is refused, nothing was taken and good batches are."""
    engine = keuka.Engine(time="t", keep_late=True, contributors=random.random() < 0.3)
    engine.add(query)
    if random.random() < 0.5:
        engine.push("S", GOOD.slice(0, 2))
    before = _counters(engine)
    try:
        engine.push("S", data)
    except keuka.KeukaError:
        if _has_failed(engine):  # in the middle of a step, and says so
            raise
        assert _counters(engine) == before, "a refused batch was taken, or some of it"
        engine.push("S", GOOD.slice(2))
        assert engine.counters()["events"] == before["events"] + 1
        engine.close().tables  # noqa: B018
        raise
    engine.take_late("S")
    again = keuka.Engine()
    again.restore(engine.snapshot())
    assert len(again.close()) == len(engine.close())


def _has_failed(engine: keuka.Engine) -> bool:
    try:
        engine.poll()
    except keuka.KeukaError as error:
        return error.code == "K523"
    return False


def _counters(engine: keuka.Engine) -> dict[str, Any]:
    found = engine.counters()
    del found["bytes"]
    for rule in found["rules"].values():
        del rule["bytes"]
    return found


def prepare() -> Attempt:
    # In memory where that is possible: a busy disk would be most of the time.
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    for i in range(30):
        attempt_one(Random(i), Path(folder.name))

    def attempt(seed: int, index: int) -> str:
        # The directory lives as long as this function does.
        return attempt_one(Random(f"{seed} {index}"), Path(folder.name))

    return attempt


def attempt_one(random: Random, folder: Path) -> str:
    query = random.choice(QUERIES)
    is_file = random.random() < 0.35
    try:
        data = written(random, folder) if is_file else formed(random)
    except BaseException as error:  # a panic of polars is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        return "not made"  # the other libraries have limits of their own
    run = run_match if is_file or random.random() < 0.5 else run_engine
    try:
        run(data, query, random)
    except keuka.KeukaError as error:
        return f"{run.__name__} {code_of(error)}"
    except Exception as error:
        error.add_note(f"{query.texts[0].file.source.text}\n{type(data)} {str(data)[:500]!a}")
        raise
    return f"{run.__name__} done"
