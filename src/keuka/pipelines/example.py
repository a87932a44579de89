"""The pipeline that `keuka new` writes: a few hundred made-up events of a stock market and a store, two queries, three sinks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

PIPELINE = """\
# A pipeline: streams are read, queries find patterns in them, sinks get what is found.
#   keuka check pipeline.toml               is everything right?
#   keuka run pipeline.toml --embedded      in this process
#   keuka run pipeline.toml                 on Spark
# Paths are relative to this file. ${NAME} in a text is taken from the environment, ${NAME:-x} is x if it is not set.

# -- streams: one table for each. `time` is the column of the time, or ["start", "end"].

[streams.Stock]
format = "parquet"
path = "data/ticks"             # a directory, a file or a pattern
time = "time"

[streams.Shelf]
format = "csv"
path = "data/shelf.csv"
schema = "at TIMESTAMP_NTZ, tag BIGINT, shelf STRING"
time = "at"

[streams.Counter]
format = "csv"
path = "data/counter.csv"
time = "at"

[streams.Exit]
format = "csv"
path = "data/exit.csv"
time = "at"

# -- queries: files, or `text` with its `language`. They may read what others PUBLISH.

[[queries]]
file = "queries/rebound.cel"
params = { least = 10000 }

[[queries]]
file = "queries/unpaid.sase"

# -- sinks: `of` is the name of what a query publishes, or "rejected", "late", "metrics".

[[sinks]]
of = "Rebound"
format = "parquet"
path = "out/rebound"
mode = "overwrite"              # or "append"; without it an existing directory is left alone

[[sinks]]
of = "Unpaid"
format = "console"

[[sinks]]
of = "rejected"                 # rows that cannot be events: without a time, or starting after their end
format = "json"
path = "out/rejected"
mode = "overwrite"

[spark]
master = "${SPARK_MASTER:-local[*]}"
"""

REBOUND = """\
-- A large trade, then at least five minutes of falling prices, then at once a price 5 % above the bottom.
SELECT name, top, bottom, price AS rebound
FROM FILTER {price > 1.05 * bottom} (
       FILTER {DUR >= 5 min} (
         SELECT name, price_1 AS top, price AS bottom
         FROM FILTER {volume > :least} (Stock)
              FOLD {$2.name = $.name, $2.price < $.price} Stock)
       NEXT {$2.name = $1.name} Stock)
PUBLISH Rebound;
"""

UNPAID = """\
-- Things that were taken from a shelf and left the store without having been at a counter.
SEQ(Shelf s, !Counter c, Exit e)
WHERE [tag]
WITHIN 3 hours
RETURN s.tag AS tag, s.shelf AS shelf, e.at AS left
PUBLISH Unpaid;
"""

README = """\
An example of a Keuka pipeline: `pipeline.toml` says what is read, what is looked for and where it goes.
Check it with `keuka check pipeline.toml`, run it with `keuka run pipeline.toml --embedded`, or on Spark without `--embedded`.
Then put your own data, queries and sinks in place of these; all keys are explained in docs/pipelines.md.
"""

NAMES = ("ALD", "ELM", "FIR", "OAK")
N_MINUTES = 120
N_TAGS = 60
OPENING = np.datetime64("2024-03-01T09:30:00", "us")


def write_example(folder: Path) -> None:
    for name in ("queries", "data/ticks"):
        (folder / name).mkdir(parents=True)
    for file, text in {
        "pipeline.toml": PIPELINE,
        "README.md": README,
        "queries/rebound.cel": REBOUND,
        "queries/unpaid.sase": UNPAID,
    }.items():
        (folder / file).write_text(text, encoding="utf-8")
    rng = np.random.default_rng(7)
    pa.parquet.write_table(ticks(rng), folder / "data/ticks/2024-03-01.parquet")
    for name, table in readings(rng).items():
        pa.csv.write_csv(table, folder / f"data/{name}.csv", pa.csv.WriteOptions(quoting_style="none"))


def ticks(rng: np.random.Generator) -> pa.Table:
    """A price each minute for each name; the first of them has a forced sale, from which it recovers at once."""
    returns = rng.normal(0, 0.002, (len(NAMES), N_MINUTES))
    returns[0, 41:49] = -0.01
    returns[0, 49] = 0.08
    volume = rng.integers(100, 5_000, returns.shape)
    volume[0, 40] = 25_000
    price = np.round(100 * np.exp(np.cumsum(returns, axis=1)), 2)
    minutes = OPENING + np.arange(N_MINUTES) * np.timedelta64(60, "s").astype("timedelta64[us]")
    return pa.table(
        {
            "time": pa.array(np.repeat(minutes, len(NAMES))),
            "name": list(NAMES) * N_MINUTES,
            "price": price.T.ravel(),
            "volume": volume.T.ravel(),
        }
    )


def readings(rng: np.random.Generator) -> dict[str, pa.Table]:
    """Things leave their shelves and the store; three of them pass no counter, and one reading has lost its time."""
    picked = OPENING + rng.integers(0, 6 * 3600, N_TAGS).astype("timedelta64[s]").astype("timedelta64[us]")
    paid = picked + rng.integers(300, 1800, N_TAGS).astype("timedelta64[s]").astype("timedelta64[us]")
    left = paid + np.timedelta64(240, "s").astype("timedelta64[us]")
    tags = np.arange(1, N_TAGS + 1)
    shelves = [f"S{shelf}" for shelf in rng.integers(1, 9, N_TAGS)]
    honest = ~np.isin(tags, [7, 23, 41])
    lost = pa.array([*picked.tolist(), None], pa.timestamp("s"))
    return {
        "shelf": pa.table({"at": lost, "tag": [*tags.tolist(), 99], "shelf": [*shelves, "S1"]}),
        "counter": _sorted(paid[honest], tags[honest]),
        "exit": _sorted(left, tags),
    }


def _sorted(at: np.ndarray, tags: np.ndarray) -> pa.Table:
    return pa.table({"at": pa.array(at, pa.timestamp("us")).cast(pa.timestamp("s")), "tag": tags}).sort_by("at")
