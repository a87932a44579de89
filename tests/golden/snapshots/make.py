"""Writes the snapshot of the current version. Run it once when the format changes, under the new version's name; files that are
here already are never written again: every later version must restore them."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import keuka

RULES = """
SELECT name, top, bottom, price AS last
FROM FILTER {DUR < 1 hour} (
       (SELECT name, price_1 AS top, price AS bottom
        FROM FILTER {volume > 1000} (Ticks) FOLD {$2.name = $.name, $2.price < $.price} Ticks)
       NEXT {$2.name = $1.name} Ticks)
PUBLISH Rebound;
SELECT name_1 AS first, name AS second, note FROM Ticks NEXT {$2.volume > $1.volume} News PUBLISH Noted;
"""


def ticks(minutes: range) -> list[dict[str, object]]:
    start = datetime.datetime(2026, 1, 5, 9, 0)
    return [
        {
            "at": start + datetime.timedelta(minutes=m),
            "name": ("IBM", "Dell", "MSFT")[m % 3],
            "price": None if m % 11 == 7 else 100.0 - (m * 7) % 23,
            "volume": 900 + (m * 37) % 300,
        }
        for m in minutes
    ]


def news(minutes: range) -> list[dict[str, object]]:
    start = datetime.datetime(2026, 1, 5, 9, 0)
    rows = [{"at": start + datetime.timedelta(minutes=m), "name": "Dell", "volume": 1000 + m, "note": [m, m + 1]} for m in minutes]
    return rows[::7]


def push(engine: keuka.Engine, minutes: range) -> list[dict[str, object]]:
    found = engine.push("Ticks", ticks(minutes)).to_pylist()
    return found + engine.push("News", news(minutes)).to_pylist()


def first_half() -> keuka.Engine:
    engine = keuka.Engine(time="at", contributors=True)
    engine.add(RULES, name="rules")
    push(engine, range(60))
    return engine


# Rules of their own that read each other. Up to version 1 ids counted what another rule publishes as one source.
READERS = {
    "Busy": "SELECT at, name, price, volume FROM FILTER {volume > 1000} (Ticks) UNION FILTER {volume < 950} (Ticks) PUBLISH Busy",
    "Pairs": "SELECT name_1 AS first, name AS second, price FROM Busy NEXT {$2.name = $1.name} Busy PUBLISH Pairs",
    "Trips": "SELECT first, name AS third FROM Pairs NEXT {$2.name <> $1.second} Busy PUBLISH Trips",
}


def readers() -> keuka.Engine:
    engine = keuka.Engine(time="at", contributors=True)
    for name, text in READERS.items():
        engine.add(text, name=name)
    return engine


def first_half_of_readers() -> keuka.Engine:
    engine = readers()
    engine.push("Ticks", ticks(range(60)))
    return engine


if __name__ == "__main__":
    made = first_half_of_readers() if "readers" in sys.argv[1] else first_half()
    with Path(sys.argv[1]).open("xb") as file:
        file.write(made.snapshot())
