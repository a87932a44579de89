"""Query texts through the public API: parsed, explained, added to an engine, and run over a few events if they are valid."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

import keuka

from .processes import Attempt
from .texts import COLUMNS, corpus, query_text

ARROW = {
    "integer": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "list": pa.list_(pa.int64()),
}
VALUES = {
    "integer": (0, 1, 2, 3, None, -1, 2**63 - 1),
    "double": (0.5, -0.0, 2.0, None, float("nan"), float("inf")),
    "text": ("a", "b", "", None, "ä", "a%"),
    "boolean": (True, False, None),
    "timestamp": (datetime(2024, 5, 1), datetime(2024, 5, 1, 0, 0, 2), None),
    "list": ([1], [], None),
}
PARAMETERS = (0, 3, 1.5, "a", True, None, timedelta(seconds=2), datetime(2024, 5, 1), 10**30, "x\ud800", [1], b"a")
WORD = re.compile(r"[^\W\d]\w*")


def events(names: dict[str, str], n_rows: int, has_timestamps: bool, random: Random) -> pa.Table:
    ticks = sorted([random.randrange(6) for _ in range(n_rows)])
    times = [datetime(2024, 5, 1) + timedelta(seconds=tick) for tick in ticks] if has_timestamps else ticks
    columns = {"t": pa.array(times, pa.timestamp("us") if has_timestamps else pa.int64())}
    for name, type_ in names.items():
        columns[name] = pa.array([random.choice(VALUES[type_]) for _ in range(n_rows)], ARROW[type_])
    return pa.table(columns)


def streams_of(query: keuka.Query, text: str, random: Random) -> dict[str, Any]:
    """Few events where the text could make many matches of them: these are 2 ** n for a FOLD, and a FOLD can read another's."""
    cost = 2 * len(re.findall("FOLD", text, re.I)) + len(re.findall("UNION|NEXT|;", text, re.I))
    n_rows = 6 if cost <= 2 else 3 if cost <= 4 else 2 if cost <= 6 else 1
    is_known = {"n", "k", "x"} & {*WORD.findall(text)} and random.random() < 0.9
    names = COLUMNS if is_known else {word: "integer" for word in WORD.findall(text)[:20] if word != "t" and not word.endswith("_1")}
    if not is_known:
        names = {name: random.choice(("integer", "integer", "double", "text", "boolean")) for name in names}
    has_timestamps = random.random() < 0.3
    return {name: events(names, random.randrange(n_rows + 1), has_timestamps, random) for name in query.inputs}


def code_of(error: keuka.KeukaError) -> str:
    """Its code, if it is one for mistakes of users, and its text is what a message looks like."""
    if not re.match(rf"error\[{error.code}\]: ", str(error)) or not "K100" < error.code < "K900":
        raise error
    return error.code


def run(text: str, language: str, random: Random) -> str:
    try:
        query = keuka.cel(text) if language == "cel" else keuka.sase(text)
    except keuka.KeukaError as error:
        return code_of(error)[:2] + "xx"
    query.explain(format=random.choice(("text", "json")))
    streams = streams_of(query, text, random)
    params = {name: random.choice(PARAMETERS) for name in query.parameters}
    said: dict[str, Any] = {"params": params, "contributors": random.random() < 0.3}
    step = random.choice((explain, match, engine))
    try:
        step(query, streams, said, random)
    except keuka.KeukaError as error:
        return code_of(error)[:2] + "xx"
    return step.__name__ + " done"


def explain(query: keuka.Query, streams: dict[str, Any], said: dict[str, Any], random: Random) -> None:
    query.explain(streams, time="t", verbose=random.random() < 0.5, format=random.choice(("text", "json", "dot")), **said)


def match(query: keuka.Query, streams: dict[str, Any], said: dict[str, Any], random: Random) -> None:
    keuka.match_all(query, streams, time="t", unit=None if random.random() < 0.7 or _has_timestamps(streams) else "s", **said)


def engine(query: keuka.Query, streams: dict[str, Any], said: dict[str, Any], random: Random) -> None:
    declared = {name: rows.schema for name, rows in streams.items() if random.random() < 0.5}
    live = keuka.Engine(declared, time="t")
    live.add(query, **said)
    for name, rows in streams.items():
        live.push(name, rows)
    live.close().tables  # noqa: B018


def _has_timestamps(streams: dict[str, Any]) -> bool:
    return any(pa.types.is_timestamp(rows.schema.field("t").type) for rows in streams.values())


def prepare() -> Attempt:
    for language in ("cel", "sase"):
        for text in corpus(language)[:50]:
            run(text, language, Random(1))

    def attempt(seed: int, index: int) -> str:
        random = Random(f"{seed} {index}")
        language = ("cel", "sase")[index % 2]
        text = query_text(language, random)
        try:
            return run(text, language, random)
        except Exception as error:
            error.add_note(f"{language}: {text!a}")
            raise

    return attempt
