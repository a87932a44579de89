"""Each rule by before and after: `tests/plan/rules/<rule>.txt` holds queries, the algebra as lowered, and what this one rule makes of it.

`pytest --rewrite-goldens` writes the algebra anew under each query. A rule must change at least one of its queries, and leave the ones
under `-- unchanged` as they are.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import keuka
from keuka.explain import algebra_lines
from keuka.languages.sets import lower_texts
from keuka.plan.rules import RULES, optimise
from keuka.schema import StreamType, TimeAxis, schema_of

FOLDER = Path(__file__).parent / "rules"
AXIS = TimeAxis(None, pa.int64())
STOCK = StreamType(schema_of(pa.schema([("t", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("n", pa.int64())])), AXIS)


def queries(text: str) -> list[str]:
    """The queries of a file: the lines that begin neither with a blank (algebra) nor with `--`."""
    return [line for line in text.splitlines() if line and not line.startswith((" ", "--"))]


def rendered(query: str, rule_name: str) -> tuple[str, bool]:
    language = keuka.sase if query.startswith("SEQ") else keuka.cel
    ((_, operator),) = lower_texts(language(query).texts, {"S": STOCK, "R": STOCK}, {}).outputs
    rule = next(rule for rule in RULES if rule.__name__ == rule_name)
    after, _ = optimise(operator, (rule,))
    before_lines, after_lines = algebra_lines([("query", operator)], AXIS), algebra_lines([("query", after)], AXIS)
    lines = [query, *[f"  {line}" for line in before_lines], "  ->", *[f"  {line}" for line in after_lines]]
    return "\n".join(lines), after != operator


@pytest.mark.parametrize("rule", [rule.__name__ for rule in RULES])
def test_rule_rewrites_as_written_down(rule: str, rewrite_goldens: bool):
    file = FOLDER / f"{rule}.txt"
    changing, _, unchanged = file.read_text().partition("-- unchanged\n")
    parts = []
    for query in queries(changing):
        text, changed = rendered(query, rule)
        assert changed, query
        parts.append(text)
    parts.append("-- unchanged")
    for query in queries(unchanged):
        text, changed = rendered(query, rule)
        assert not changed, query
        parts.append(text.partition("\n  ->")[0])
    found = "\n".join(parts) + "\n"
    if rewrite_goldens:
        file.write_text(found)
    assert file.read_text() == found
