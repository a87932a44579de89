"""Random SASE programs over the streams of `streams.py`: valid by construction, up to five components, two of them negated.

What a condition may refer to is known at every point, so a program that lowering refuses is a finding, not an unlucky draw. Windows
are short and ticks are few, so spans of exactly the window are common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from . import expressions, queries
from .expressions import References
from .queries import SOURCES, Attribute, Operand, Program

# Streams of the laws have few events with few keys: without these most conditions would hold of nothing.
_EQUIVALENCES = ["[k]", "[k]", "[n]", "[k, n]", "[k = 'a']", "[n = 1, k]"]
# Not every stream has these: with ANY some events are left out of the test.
_RARE_EQUIVALENCES = [
    "NOT [k]",
    "NOT [n]",
    "NOT [k = 'a']",
    "NOT [n = 1, k]",
    "[x]",
    "NOT [x]",
    "[y = 1.5]",
    "NOT [y]",
    "NOT [b = TRUE, n]",
]
_OWN_TYPES = {"k": "string", "n": "integer", "x": "double", "y": "double", "b": "boolean"}
_LEAST = {"integer": "-9", "double": "-9", "string": "''", "boolean": "FALSE"}
_COMPARABLE = ("integer", "double", "string", "boolean")


@dataclass(frozen=True)
class Part:
    """A component: how it is written, what it is called in conditions, and its attributes (name, type)."""

    text: str
    variable: str  # as conditions write it
    output: str  # as the names of results begin
    negated: bool
    attributes: tuple[tuple[str, str], ...]

    @property
    def references(self) -> References:
        return [(f"{self.variable}.{name}", kind) for name, kind in self.attributes if kind != "other"]


@dataclass(frozen=True)
class Readable:
    name: str
    attributes: tuple[tuple[str, str], ...]


STREAMS = tuple([Readable(name, tuple([(a.name, a.type) for a in operand.attributes])) for name, operand in SOURCES.items()])


@st.composite
def sase_programs(draw: st.DrawFn, readable: Sequence[Readable] = STREAMS, prefix: str = "P") -> Program:
    """One query, or a second one that reads what the first publishes."""
    streams = list(readable)
    texts, n_components = [], 0
    n_queries = draw(st.sampled_from([1, 1, 1, 2]))
    for i in range(n_queries):
        text, attributes, n = query(draw, streams, most=5 if n_queries == 1 else 3)
        n_components = max(n_components, n) + (i > 0)
        texts.append(f"{text}\nPUBLISH {prefix}{i}" if i < n_queries - 1 or draw(st.booleans()) else text)
        streams += [Readable(f"{prefix}{i}", attributes)] * 3
    text = ";\n".join(texts)
    return Program(text, 0, n_components, (("sase", text),))


@st.composite
def mixed_programs(draw: st.DrawFn) -> Program:
    """SASE over what CEL publishes, or CEL over what SASE does."""
    if draw(st.booleans()):
        first = queries.query(draw, list(SOURCES.values()), depth=draw(st.integers(1, 2)))
        cel = queries.numbered(f"{first.text} PUBLISH M")
        attributes = tuple([(a.name, a.type) for a in queries.as_one_input(first.attributes)])
        text, _, n = query(draw, [*STREAMS, *[Readable("M", attributes)] * 5], most=3)
        return Program(f"{cel};\n{text}", cel.count("FOLD"), n + 1, (("cel", cel), ("sase", text)))
    text, attributes, n = query(draw, STREAMS, most=3)
    sase = f"{text}\nPUBLISH M"
    operand = Operand("M", tuple([Attribute(name, kind) for name, kind in attributes]))
    cel = queries.numbered(queries.query(draw, [*SOURCES.values(), *[operand] * 5], depth=draw(st.integers(1, 2))).text)
    return Program(f"{sase};\n{cel}", cel.count("FOLD"), n + 1, (("sase", sase), ("cel", cel)))


def any_programs() -> st.SearchStrategy[Program]:
    return st.one_of(queries.programs(), sase_programs(), sase_programs(), mixed_programs())


def query(draw: st.DrawFn, streams: Sequence[Readable], most: int) -> tuple[str, tuple[tuple[str, str], ...], int]:
    kind = draw(st.sampled_from(["SEQ", "SEQ", "SEQ", "SEQ", "SEQ", "UNORDERED", "alone"]))
    n = 1 if kind == "alone" else draw(st.sampled_from([2, 3, 2, 3, 4, 5, 1])) if kind == "SEQ" else draw(st.integers(2, 3))
    n = min(n, most)
    negated = _negations(draw, n) if kind == "SEQ" else [False] * n
    parts = [_part(draw, streams, i, negated[i], plain=kind == "UNORDERED") for i in range(n)]
    inside = ", ".join([part.text for part in parts])
    text = inside if kind == "alone" else f"{kind}({inside})"
    terms = [_condition(draw, parts) for _ in range(draw(st.sampled_from([0, 1, 0, 1, 1, 2, 3])))]
    if kind != "alone" and draw(st.booleans()):
        # An equivalence test on what some component has.
        known = {name for part in parts for name, _ in part.attributes}
        chosen = _EQUIVALENCES if draw(st.integers(0, 3)) else _RARE_EQUIVALENCES
        tests = [test for test in chosen if set(re.findall(r"\b[knxyb]\b", test)) <= known]
        terms += [draw(st.sampled_from(tests))] if tests and _same_types(parts) else []
    if terms:
        text += f"\nWHERE {' AND '.join(terms)}"
    if negated[-1] or draw(st.integers(0, 4)):
        text += f"\nWITHIN {draw(st.sampled_from([3, 2, '<= 4', 4, 8, 1, '6 - 1', '<= 1 + 1', '<= 0']))}"
    returned, attributes = _output(draw, parts)
    return text + returned, attributes, n


def _negations(draw: st.DrawFn, n: int) -> list[bool]:
    """Up to two, never side by side, and one component that occurs."""
    negated = [False] * n
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        i = draw(st.integers(0, n - 1))
        beside = (i > 0 and negated[i - 1]) or (i + 1 < n and negated[i + 1])
        if not beside and sum(negated) + 1 < n:
            negated[i] = True
    return negated


def _part(draw: st.DrawFn, streams: Sequence[Readable], i: int, negated: bool, plain: bool) -> Part:
    chosen = [draw(st.sampled_from(streams))]
    if not plain and draw(st.integers(0, 3)) == 0:
        other = draw(st.sampled_from(streams))
        if other.name != chosen[0].name and _agree(chosen[0], other):
            chosen.append(other)
    attributes = tuple(dict([pair for stream in chosen for pair in stream.attributes]).items())
    name = f"v{i}" if draw(st.booleans()) else ""
    of = chosen[0].name if len(chosen) == 1 else f"ANY({', '.join([stream.name for stream in chosen])})"
    text = f"{'!' if negated else ''}{of}{' ' if name else ''}{name}"
    if not plain and draw(st.integers(0, 3)) == 0:
        own = [(attribute, kind) for attribute, kind in attributes if kind != "other"]
        text += f" ({expressions.predicate(draw, own, 1)})"
    variable = name or draw(st.sampled_from([f"$x{i + 1}", f"${i + 1}"]))
    return Part(text, variable, name or f"x{i + 1}", negated, attributes)


def _agree(one: Readable, other: Readable) -> bool:
    types = dict(one.attributes)
    return all(types.get(name, kind) == kind for name, kind in other.attributes)


def _same_types(parts: Sequence[Part]) -> bool:
    """Do the attributes of equivalence tests have the types of the sources, wherever they are?"""
    kinds = {pair for part in parts for pair in part.attributes if pair[0] in _OWN_TYPES}
    return kinds <= _OWN_TYPES.items()


def _condition(draw: st.DrawFn, parts: Sequence[Part]) -> str:
    """Comparisons, each of at most one negated component, joined in all ways."""
    shape = draw(st.sampled_from(["one", "one", "or", "not", "and-or"]))
    if shape == "one":
        return _comparison(draw, parts)
    if shape == "not":
        return f"NOT ({_comparison(draw, parts)} {draw(st.sampled_from(['AND', 'OR']))} {_comparison(draw, parts)})"
    if shape == "or":
        return f"({_comparison(draw, parts)} OR {_comparison(draw, parts)})"
    return f"({_comparison(draw, parts)} AND {_comparison(draw, parts)} OR {_comparison(draw, parts)})"


def _comparison(draw: st.DrawFn, parts: Sequence[Part]) -> str:
    positive = [part for part in parts if not part.negated]
    named = draw(st.lists(st.sampled_from(positive), min_size=1, max_size=2, unique=True))
    negated = [part for part in parts if part.negated]
    if negated and draw(st.booleans()):
        named = [draw(st.sampled_from(negated)), *named[: draw(st.integers(0, 1))]]
    references = [reference for part in named for reference in (*part.references, *_missing(part, parts))]
    form = draw(st.integers(0, 5))
    if not references:
        return "1 < 2"
    if form == 0:
        return expressions.predicate(draw, references, 1)
    if form == 1 and draw(st.integers(0, 5)) == 0:
        return f"({expressions.risky(draw, references)})"
    sides = [part.references for part in named]
    kind, other = draw(st.sampled_from([*[(kind, kind) for kind in _COMPARABLE], ("integer", "double")]))
    left = [r for r, k in sides[0] if k == kind]
    right = [r for r, k in sides[-1] if k == other]
    if not left or not right:
        return expressions.predicate(draw, references, 1)
    if form == 2:
        # Its first bound names no event: it is one comparison all the same.
        negation = draw(st.sampled_from(["", "", "NOT "]))
        return f"{draw(st.sampled_from(left))} {negation}BETWEEN {_LEAST[kind]} AND {draw(st.sampled_from(right))}"
    sign = draw(st.sampled_from(["=", "=", "<", "<=", "<>", ">"]))
    return f"{draw(st.sampled_from(left))} {sign} {draw(st.sampled_from(right))}"


def _missing(part: Part, parts: Sequence[Part]) -> References:
    """Attributes that only other components have: a comparison that reads one is true."""
    own = {name for name, _ in part.attributes}
    kinds = dict([pair for other in parts for pair in other.attributes])
    return [(f"{part.variable}.{name}", kind) for name, kind in kinds.items() if name not in own and kind != "other"][:1]


def _output(draw: st.DrawFn, parts: Sequence[Part]) -> tuple[str, tuple[tuple[str, str], ...]]:
    positive = [part for part in parts if not part.negated]
    default = tuple([(f"{part.output}_{name}", kind) for part in positive for name, kind in part.attributes])
    if draw(st.integers(0, 2)):
        return "", default
    references = [reference for part in positive for reference in part.references]
    items, attributes = [], []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from([k for k in _COMPARABLE if any(k == known for _, known in references)] or ["integer"]))
        items.append(f"{expressions.of_type(draw, kind, references, 1)} AS {'knaxb'[i]}")
        attributes.append(("knaxb"[i], kind))
    return f"\nRETURN {', '.join(items)}", tuple(attributes)
