"""Places in a pipeline file: from a table and a key to the line that a message shows."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator

from keuka.diagnostics import Diagnostic, SourceText, Span

# Keys from the outside in; the tables of an array are known by their number, from 0: ("sinks", 1, "mode").
Place = tuple[str | int, ...]


def finding(source: SourceText | None, code: str, message: str, place: Place, *help: str, label: str = "") -> Diagnostic:
    """What is wrong, shown in the file if it came from one and the place is found there."""
    span = None if source is None else span_of(source, place)
    if span is not None:
        return Diagnostic(code, message, span, label, help)
    where = written(place) if source is None else f"{source.name}: {written(place)}"
    return Diagnostic(code, message, label=where, help=help)


def written(place: Place) -> str:
    """A place in words: `[streams.Stock] path`, `[[sinks]] number 2, mode`."""
    if len(place) >= 2 and isinstance(place[1], int):
        table, rest = f"[[{place[0]}]] number {place[1] + 1}", place[2:]
        return ", ".join([table, ".".join(map(str, rest))]) if rest else table
    n_table = 2 if place[0] == "streams" else 1
    table, rest = f"[{'.'.join(map(str, place[:n_table]))}]", place[n_table:]
    return f"{table} {'.'.join(map(str, rest))}" if rest else table


def span_of(source: SourceText, place: Place) -> Span | None:
    """The key in the text; of a key inside an inline table the key of that table; None if it is not written the usual way."""
    known: dict[Place, Span] = {}
    for found, span in _keys(source):
        known.setdefault(found, span)
    return next((known[place[:n]] for n in range(len(place), 0, -1) if place[:n] in known), None)


def _keys(source: SourceText) -> Iterator[tuple[Place, Span]]:
    """Every header and every key at the beginning of a line. TOML's own reader takes their names apart."""
    table: Place = ()
    n_tables: Counter[str] = Counter()
    offset, quoted = 0, False
    for line in source.text.splitlines(keepends=True):
        stripped = line.strip()
        begin = offset + len(line) - len(line.lstrip())
        is_header = stripped.startswith("[")
        head = stripped if is_header else f"{stripped.partition('=')[0]}= 0"
        if not quoted and stripped and (names := _names(head)):
            if is_header and stripped.startswith("[["):
                table = (*names, n_tables[names[0]])
                n_tables[names[0]] += 1
            elif is_header:
                table = names
            width = len(stripped.partition("#")[0].strip()) if is_header else len(stripped.partition("=")[0].strip())
            yield table if is_header else (*table, *names), Span(source, begin, begin + width)
        quoted ^= (line.count('"""') + line.count("'''")) % 2 == 1
        offset += len(line)


def _names(head: str) -> tuple[str, ...]:
    try:
        found = tomllib.loads(head)
    except tomllib.TOMLDecodeError:
        return ()
    names: list[str] = []
    while isinstance(found, dict) and found:
        ((name, found),) = found.items()
        names.append(name)
        found = found[0] if isinstance(found, list) else found
    return tuple(names)
