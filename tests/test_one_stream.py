"""docs/one_stream.md is what the queries in `tests/golden/one_stream/` give, by the engine and by the reference evaluator.

`pytest tests/test_one_stream.py --rewrite-goldens` writes the page anew; read the difference before committing it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from textwrap import fill

import pyarrow as pa
import pyarrow.csv
import pytest

import keuka
from keuka.algebra.semantics import Event, evaluate
from keuka.query import prepare

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "golden" / "one_stream"
PAGE = ROOT / "docs" / "one_stream.md"

CASES = tomllib.loads((FOLDER / "cases.toml").read_text())["case"]
TABLE = pyarrow.csv.read_csv(FOLDER / "events.csv", convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))
ROWS = TABLE.to_pylist()
LAST = max([row["t"] for row in ROWS])
OPTIONS = {"time": "t", "type_column": "type"}

WIDTH = 138  # of lines of prose
TITLE = 11  # characters before a timeline
TICK = 5  # characters for one tick of it

Match = tuple[int, int, str]  # end, start, the events it consists of

HEAD = """\
# One tiny stream, every option

Ten events, and what each construct of [CEL](cel.md) and [SASE](sase.md) finds in them. An event is named by its type and its time: `b4`
is a B at 4. Two keys, x and y, and one event without a key; `b4` and `c4` are simultaneous.

```text
{timeline}
```

<!-- file: events.csv -->
```csv
{events}
```

The types are in one table here, which is what `type_column` says. `id` makes matches tell which events they consist of:

```python
import keuka


def find(text, language):
    events = keuka.Stream("events.csv", time="t", id="event")
    found = keuka.match(text, {{"events": events}}, language=language, type_column="type", contributors=True)
    for row in found.to_pylist():
        print(*[event["id"] for event in row["_contributors"]], "from", row["_start"], "to", row["_end"])


{first}
```

```text
{found}
```

The first two queries are CEL, the others SASE. Each match is a line: the events it consists of, and where they are in time. The dashes go
from `_start` to `_end`; a `|` is an end without an event. A test compares every match with the definitions.
"""


def on_the_axis(title: str, names: dict[int, str]) -> str:
    return "".join([f"{title:{TITLE}}", *[f"{names.get(t, ''):{TICK}}" for t in range(1, max(names) + 1)]]).rstrip()


def axis(last: int) -> str:
    return on_the_axis("time", {t: str(t) for t in range(1, last + 1)})


def timeline() -> str:
    """A line for each key, and another one where two of its events are simultaneous."""
    lines = [axis(LAST)]
    for key in dict.fromkeys([row["key"] for row in ROWS]):
        waiting = [row for row in ROWS if row["key"] == key]
        title = "no key" if key is None else f"key {key}"
        while waiting:
            shown = {row["t"]: row for row in reversed(waiting)}
            lines.append(on_the_axis(title, {t: row["event"] for t, row in shown.items()}))
            waiting = [row for row in waiting if row not in shown.values()]
            title = ""
    return "\n".join(lines)


def drawn(match: Match) -> str:
    """The events of a match under their times, with a line from its start to its end."""
    end, start, events = match
    names = {row["t"]: row["event"] for row in ROWS if row["event"] in events.split()}
    places = [f"{names.get(t, ''):-<{TICK}}" for t in range(start, end)] + [names.get(end, "|")]
    return f"{events:{TITLE}}" + " " * TICK * (start - 1) + "".join(places)


def found_by_engine(case: dict[str, str]) -> list[Match]:
    streams = {"events": keuka.Stream(TABLE, id="event")}
    found: pa.Table = keuka.match(case["query"], streams, language=case["language"], contributors=True, **OPTIONS)
    return sorted([(row["_end"], row["_start"], " ".join([c["id"] for c in row["_contributors"]])) for row in found.to_pylist()])


def found_by_definition(case: dict[str, str]) -> list[Match]:
    ((_, operator),) = prepare(case["query"], {"events": TABLE}, language=case["language"], **OPTIONS).program.outputs
    events = [Event(tuple(row.values()), row["t"], row["t"], (("events", i),)) for i, row in enumerate(ROWS)]
    found = evaluate(operator, {"events": events})
    return sorted([(e.end, e.start, " ".join([ROWS[i]["event"] for _, i in e.contributors])) for e in found])


def section(case: dict[str, str]) -> str:
    found = found_by_engine(case)
    matches = [axis(max([LAST, *[end for end, _, _ in found]])), *[drawn(match) for match in found]]
    parts = [f"## {case['title']}", fill(case["asks"], WIDTH), fenced("sql", case["query"]), fenced("text", *matches)]
    return "\n\n".join([*parts, fill(case["note"], WIDTH)]) + "\n"


def fenced(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def page() -> str:
    first = CASES[0]
    found = "\n".join([f"{events} from {start} to {end}" for end, start, events in found_by_engine(first)])
    call = f'find("{first["query"]}", "{first["language"]}")'
    head = HEAD.format(timeline=timeline(), events=(FOLDER / "events.csv").read_text().rstrip(), first=call, found=found)
    return "\n".join([head, *[section(case) for case in CASES]])


@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_the_engine_finds_what_the_definitions_say(case: dict[str, str]):
    assert found_by_engine(case) == found_by_definition(case)


def test_the_page_shows_what_the_engine_finds(rewrite_goldens: bool):
    if rewrite_goldens:
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
