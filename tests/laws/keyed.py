"""Random CEL programs that mostly have a key, which those of `queries.py` seldom have.

Every operand has three attributes: `key` and `other`, by which inputs are joined, and `v`. Most conditions compare the keys; some
compare other things, some SELECTs exchange or compute the keys, and a stream may be read with different columns, so that the key of
the program is not the one that the names suggest, or there is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from .queries import Program


@dataclass(frozen=True)
class Profile:
    """What can be `key` and `other` of each stream, the usual first."""

    key: Mapping[str, tuple[str, ...]]
    other: Mapping[str, tuple[str, ...]]
    alike: bool  # have key and other one type, so that one can take the other's place?


def everywhere(*expressions: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys("SQI", expressions)


PROFILES = (
    # `other` is computed, so that it is never a key, but it can be compared with keys and take their places.
    Profile(everywhere("k"), everywhere("CASE WHEN n > 2 THEN 'a' ELSE 'b' END", "k"), alike=True),
    Profile(everywhere("n"), everywhere("length(k)", "n % 3"), alike=True),
    Profile({"S": ("n", "t"), "Q": ("n",), "I": ("n", "e")}, {"S": ("t", "n"), "Q": ("n", "t"), "I": ("s", "n")}, alike=True),
    Profile(everywhere("k"), everywhere("n"), alike=False),
    Profile({"S": ("x",), "Q": ("x",), "I": ("y",)}, everywhere("k"), alike=False),
)
VALUES = {"S": "x", "Q": "x", "I": "y"}
COMPUTED = {True: "greatest(key, other)", False: "coalesce(key, key)"}


@st.composite
def keyed_programs(draw: st.DrawFn) -> Program:
    profile = draw(st.sampled_from(PROFILES))
    texts: list[str] = []
    published: list[str] = []
    for i in range(draw(st.sampled_from([1, 2, 1, 3]))):
        text = _stream(draw, profile, published, draw(st.sampled_from([2, 1, 2, 3])))
        texts.append(f"FROM {text} PUBLISH P{i}")
        published += [f"P{i}"] * 2
    text = ";\n".join(texts)
    return Program(text, len(re.findall("FOLD", text)))


def _stream(draw: st.DrawFn, profile: Profile, published: list[str], depth: int) -> str:
    """An operand: a name, or a query in parentheses."""
    if depth == 0:
        return _leaf(draw, profile, published)
    construct = draw(st.sampled_from([_next, _next, _fold, _fold, _union, _filter]))
    return construct(draw, profile, published, depth - 1)


def _leaf(draw: st.DrawFn, profile: Profile, published: list[str]) -> str:
    name = draw(st.sampled_from(["S", "S", "I", "Q", *published]))
    if name in published:
        return name
    key, other = _usually_first(draw, profile.key[name]), _usually_first(draw, profile.other[name])
    return f"(SELECT {key} AS key, {other} AS other, {VALUES[name]} AS v FROM {name})"


def _usually_first(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    return names[-1] if draw(st.integers(0, 9)) == 9 else names[0]


def _second(draw: st.DrawFn, profile: Profile, published: list[str], depth: int) -> str:
    return _stream(draw, profile, published, depth if draw(st.integers(0, 3)) == 3 else 0)


def _next(draw: st.DrawFn, profile: Profile, published: list[str], depth: int) -> str:
    first, second = _stream(draw, profile, published, depth), _second(draw, profile, published, depth)
    return _selected(draw, profile, f"{first} NEXT {{{_condition(draw, profile, '$1.')}}} {second}")


def _fold(draw: st.DrawFn, profile: Profile, published: list[str], depth: int) -> str:
    first, second = _stream(draw, profile, published, depth), _second(draw, profile, published, depth)
    step = draw(st.sampled_from(["TRUE", "$2.v >= $.v", "$2.key = $.key", "DUR < 9"]))
    assignments = ["", ", $.key AS key", ", $1.key AS key", ", $.key AS key, $.other AS other"]
    if profile.alike:
        assignments += [
            ", $.other AS key",
            ", $1.other AS key",
            ", $.other AS key, $.key AS other",
            ", $2.other AS key",
            ", coalesce($.other, $.key) AS other",
        ]
    braces = f"{_condition(draw, profile, draw(st.sampled_from(['$.', '$1.'])))}, {step}{draw(st.sampled_from(assignments))}"
    return _selected(draw, profile, f"{first} FOLD {{{braces}}} {second}")


def _union(draw: st.DrawFn, profile: Profile, published: list[str], depth: int) -> str:
    return f"({_stream(draw, profile, published, depth)} UNION {_second(draw, profile, published, depth)})"


def _filter(draw: st.DrawFn, profile: Profile, published: list[str], depth: int) -> str:
    predicate = draw(st.sampled_from(["v >= 0", "key IS NOT NULL", "other IS NOT NULL", "DUR < 7"]))
    return f"(FILTER {{{predicate}}} {_stream(draw, profile, published, depth)})"


def _condition(draw: st.DrawFn, profile: Profile, before: str) -> str:
    """Between `$2.` and the first input, decorated as `before` says."""
    terms = [] if draw(st.integers(0, 11)) == 11 else [f"$2.key = {before}key"]
    if draw(st.integers(0, 3)) >= (3 if profile.alike else 1):
        terms.append(f"{before}other = $2.other")
    if profile.alike and draw(st.integers(0, 4)) == 4:
        terms.append(f"$2.other = {before}key")
    if draw(st.integers(0, 2)) == 2:
        terms.append(draw(st.sampled_from([f"$2.v <> {before}v", "DUR < 8", f"$2.v >= {before}v", "$2.v IS NOT NULL"])))
    return " AND ".join(draw(st.permutations(terms))) or "TRUE"


def _selected(draw: st.DrawFn, profile: Profile, stream: str) -> str:
    """The three attributes again, each from either input, the keys now and then exchanged or computed."""
    key, other, value = [draw(st.sampled_from([name, f"{name}_1"])) for name in ("key", "other", "v")]
    change = draw(st.integers(0, 9))
    if change == 9:
        key = COMPUTED[profile.alike]
    elif change >= 7 and profile.alike:
        key, other = other, key
    return f"(SELECT {key} AS key, {other} AS other, {value} AS v FROM {stream})"
