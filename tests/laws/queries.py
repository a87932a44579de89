"""Random CEL programs over the streams of `streams.py`: valid by construction, because names and types are tracked by docs/semantics.md, 4.

`programs()` draws a text of one to three queries and the names it publishes. What a query may refer to is known at every
point, so a program that lowering refuses is a finding, not an unlucky draw.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hypothesis import strategies as st

import keuka

from . import expressions
from .expressions import References
from .streams import SHAPES

TYPE_NAMES = {"int64": "integer", "double": "double", "string": "string", "bool": "boolean", "binary": "other"}
FRESH = ("a", "c", "d", "f", "g", "h", "u", "v")


@dataclass(frozen=True)
class Attribute:
    own_name: str
    type: str
    input: int = 1  # which input of a chain it came from
    is_numbered: bool = False

    @property
    def name(self) -> str:
        return f"{self.own_name}_{self.input}" if self.is_numbered else self.own_name


@dataclass(frozen=True)
class Operand:
    """A stream as text. A loose text (a binary construct) needs parentheses unless it stands on the left."""

    text: str
    attributes: tuple[Attribute, ...]
    inputs: int = 1  # the length of the chain it ends; 1 after a SELECT
    loose: bool = False

    @property
    def primary(self) -> str:
        return f"({self.text})" if self.loose else self.text

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([a.name for a in self.attributes])


@dataclass(frozen=True)
class Program:
    """One text, or several in the order they read each other, each in its language."""

    text: str
    n_folds: int = 0
    n_components: int = 0  # of the longest sequence in it
    texts: tuple[tuple[str, str], ...] = ()  # (language, text), unless it is one of CEL

    @cached_property
    def query(self) -> keuka.Query:
        texts = self.texts or (("cel", self.text),)
        return keuka.query([keuka.sase(text) if language == "sase" else keuka.cel(text) for language, text in texts])

    @property
    def most_events(self) -> int:
        """Runs branch at simultaneous events, and combinations multiply: for the slow evaluator streams must be short then."""
        most = {0: 25, 1: 25, 2: 16, 3: 10, 4: 8}.get(self.n_components, 7)
        if self.n_components > 1 and ";" in self.text:
            # Combinations of combinations, and runs over simultaneous ones.
            most = min(most, 2 if self.n_folds else 5 if self.n_components <= 3 else 3)
        return min(12 if self.n_folds > 1 else 25, most)


SOURCES = {
    stream: Operand(stream, tuple([Attribute(f.name, TYPE_NAMES[str(f.type)]) for f in shape.arrow])) for stream, shape in SHAPES.items()
}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    readable = list(SOURCES.values())
    texts = []
    n_queries = draw(st.sampled_from([1, 1, 2, 1, 2, 3]))
    for i in range(n_queries):
        drawn = query(draw, readable, depth=draw(st.sampled_from([1, 2, 2, 1, 2, 3])))
        published = i < n_queries - 1 or draw(st.booleans())
        texts.append(drawn.text + (f" PUBLISH P{i}" if published else ""))
        # A later query reads the latest published stream more often than any one source.
        readable += [Operand(f"P{i}", as_one_input(drawn.attributes))] * 2
    text = numbered(";\n".join(texts))
    return Program(text, text.count("FOLD"))


def numbered(text: str) -> str:
    """Published subqueries with a name each."""
    numbers = itertools.count()
    return re.sub("PUBLISH _", lambda _: f"PUBLISH Inner-{next(numbers)}", text)


@st.composite
def computations(draw: st.DrawFn) -> Program:
    """Small queries with large expressions: in SELECT, in FILTER, and between two events."""
    points, intervals = SOURCES["S"], SOURCES["I"]
    sides = _sided(points, intervals, "$1.")
    texts = [f"SELECT {expressions.of_type(draw, kind, _own(points), 3)} AS v FROM S PUBLISH {kind}" for kind in expressions.LITERALS]
    texts.append(f"FROM FILTER {{{expressions.of_type(draw, 'boolean', [*_own(intervals), ('DUR', 'integer')], 3)}}} I PUBLISH kept")
    texts.append(f"SELECT t, s FROM S NEXT {{{expressions.of_type(draw, 'boolean', sides, 3)}}} I PUBLISH pairs")
    texts.append(f"SELECT {expressions.risky(draw, _own(points))} AS v FROM S PUBLISH risky")
    texts.append(f"SELECT t, s FROM S NEXT {{{expressions.risky(draw, sides)}}} I PUBLISH risky-pairs")
    return Program(";\n".join(texts), 0)


def as_one_input(attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
    return tuple([Attribute(a.name, a.type) for a in attributes])


def query(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    """A whole query; its text can be put in parentheses to become an operand."""
    stream = _stream(draw, readable, depth)
    if draw(st.integers(0, 3)) == 0:
        return replace(stream, text=f"FROM {stream.text}", loose=True)
    return _select(draw, stream)


def _stream(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    if depth == 0:
        return _read(draw, readable)
    construct = draw(st.sampled_from([_next, _next, _next, _fold, _fold, _union, _filter, _subquery]))
    return construct(draw, readable, depth - 1)


def _read(draw: st.DrawFn, readable: Sequence[Operand]) -> Operand:
    source = draw(st.sampled_from(readable))
    if draw(st.integers(0, 3)) < 3:
        return source
    return replace(source, text=f"FILTER {{{expressions.predicate(draw, _own(source), 1)}}} {source.text}")


def _filter(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    stream = _stream(draw, readable, depth)
    refs = [*_own(stream), *[(f"$1.{name}", kind) for name, kind in _own(stream)], ("DUR", "integer")]
    return replace(stream, text=f"FILTER {{{expressions.predicate(draw, refs)}}} {stream.primary}", loose=False)


def _subquery(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    query = _select(draw, _stream(draw, readable, depth))
    published = " PUBLISH _" if draw(st.integers(0, 4)) == 4 else ""  # numbered when the program is complete
    return replace(query, text=f"({query.text}{published})", loose=False)


def _own(stream: Operand) -> References:
    return [(a.name, a.type) for a in stream.attributes if a.type != "other"]


def _select(draw: st.DrawFn, stream: Operand) -> Operand:
    """SELECT over the stream: some attributes, some renamed, some computed, or all and some computed."""
    items: list[tuple[str, Attribute]] = []
    if draw(st.integers(0, 2)) == 0:
        items = [("*", Attribute(a.name, a.type)) for a in stream.attributes]
    else:
        for attribute in draw(st.lists(st.sampled_from(stream.attributes), min_size=1, max_size=4, unique=True)):
            items.append(_kept(draw, attribute, [a.name for _, a in items]))
    for _ in range(draw(st.integers(0, 2))):
        free = [name for name in FRESH if name not in [a.name for _, a in items]]
        if free:
            kind = draw(st.sampled_from(["integer", "integer", "double", "string", "boolean"]))
            name = draw(st.sampled_from(free))
            items.append((f"{expressions.of_type(draw, kind, _own(stream))} AS {name}", Attribute(name, kind)))
    texts = list(dict.fromkeys([text for text, _ in items]))
    return Operand(f"SELECT {', '.join(texts)} FROM {stream.text}", tuple([a for _, a in items]), loose=True)


def _kept(draw: st.DrawFn, attribute: Attribute, taken: Sequence[str]) -> tuple[str, Attribute]:
    free = [name for name in FRESH if name not in taken]
    if attribute.name in taken or (free and draw(st.integers(0, 2)) == 0):
        name = draw(st.sampled_from(free))
        return f"{attribute.name} AS {name}", Attribute(name, attribute.type)
    return attribute.name, Attribute(attribute.name, attribute.type)


def _next(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    first, second = _stream(draw, readable, depth), _operand(draw, readable, depth)
    attributes = _joined(first, second)
    if attributes is None:
        first, second = _renamed(first, FRESH[:4]), _renamed(second, FRESH[4:])
        attributes = _joined(first, second)
        assert attributes is not None
    condition = _condition(draw, first, second, "$1.")
    braces = f" {{{condition}}}" if condition else ""
    return Operand(f"{first.text} NEXT{braces} {second.primary}", attributes, first.inputs + second.inputs, loose=True)


def _operand(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    """A second input: mostly something simple, sometimes a stream of its own, which makes the query more than linear."""
    return _stream(draw, readable, depth if draw(st.integers(0, 3)) == 3 else 0)


def _joined(first: Operand, second: Operand) -> tuple[Attribute, ...] | None:
    """The attributes of a concatenation, or None where two of them would have one name."""
    later = [replace(a, input=a.input + first.inputs) for a in second.attributes]
    plain = [a.name for a in later if not a.is_numbered]
    earlier = [replace(a, is_numbered=a.is_numbered or a.name in plain) for a in first.attributes]
    return _distinct([*earlier, *later])


def _iterated(first: Operand, n_inputs: int) -> tuple[Attribute, ...] | None:
    """The attributes after a FOLD that changes no numbered ones: all of the start, numbered, then the plain ones as they are now."""
    start = [replace(a, is_numbered=True) for a in first.attributes]
    return _distinct([*start, *[replace(a, input=n_inputs) for a in first.attributes if not a.is_numbered]])


def _distinct(attributes: list[Attribute]) -> tuple[Attribute, ...] | None:
    return tuple(attributes) if len({a.name for a in attributes}) == len(attributes) else None


def _renamed(stream: Operand, names: Sequence[str]) -> Operand:
    """As many of its attributes as there are names, under these names."""
    kept = list(zip(stream.attributes, names, strict=False))
    items = ", ".join([f"{attribute.name} AS {name}" for attribute, name in kept])
    return Operand(f"(SELECT {items} FROM {stream.text})", tuple([Attribute(name, a.type) for a, name in kept]))


def _condition(draw: st.DrawFn, first: Operand, second: Operand, before: str, plain: bool = True) -> str:
    """A condition between two inputs; `before` decorates the first: `$1.`, or `$.` in a FOLD. Possibly empty."""
    pairs = [(a, b) for a in first.attributes for b in second.attributes if a.type == b.type and a.type not in ("boolean", "other")]
    # Equal texts are common, equal numbers less so, equal times cannot be in what follows.
    equal = [(a.name, b.name) for a, b in pairs for _ in range(3 if a.type == "string" else a.name == b.name and a.name in "nxy")]
    kind = draw(st.sampled_from(["", "equal", "", "ordered", "equal", "ordered", "equal and more", "duration", "any"]))
    if kind in ("", "duration") or not pairs:
        return f"DUR {draw(st.sampled_from(['<=', '<=', '>', '<>']))} {draw(st.integers(2, 8))}" if kind == "duration" else ""
    if kind == "ordered" or not equal:
        one, other = draw(st.sampled_from(pairs))
        return f"$2.{other.name} {draw(st.sampled_from(['>=', '>', '<>', '<=']))} {before}{one.name}"
    a, b = draw(st.sampled_from(equal))
    more = expressions.predicate(draw, _sided(first, second, before, plain), 1)
    return {"equal": f"$2.{b} = {before}{a}", "any": more}.get(kind, f"{before}{a} = $2.{b} AND ({more})")


def _sided(first: Operand, second: Operand, before: str, plain: bool = False) -> References:
    """References inside braces: decorated, and if wanted plain where only one input has the name."""
    decorated = [(f"{side}{name}", kind) for side, stream in ((before, first), ("$2.", second)) for name, kind in _own(stream)]
    alone = [(name, kind) for name, kind in (*_own(first), *_own(second)) if (name in first.names) != (name in second.names)]
    return [*decorated, *(alone if plain else []), ("DUR", "integer")]


def _fold(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    first, second = _stream(draw, readable, depth), _operand(draw, readable, depth)
    if _iterated(first, 2) is None or all(a.is_numbered for a in first.attributes):
        first = _renamed(first, FRESH[:5])
    changing = replace(first, attributes=tuple([a for a in first.attributes if not a.is_numbered]))
    second = _like(draw, changing, second)
    skip = _condition(draw, first, second, draw(st.sampled_from(["$.", "$1."])), plain=False) or "TRUE"
    step = _condition(draw, first, second, "$.", plain=False) or "TRUE"
    braces = ", ".join([skip, step, *_assignments(draw, changing, first, second)])
    n_inputs = first.inputs + second.inputs
    attributes = _iterated(first, n_inputs)
    assert attributes is not None
    return Operand(f"{first.text} FOLD {{{braces}}} {second.primary}", attributes, n_inputs, loose=True)


def _assignments(draw: st.DrawFn, changing: Operand, first: Operand, second: Operand) -> list[str]:
    computable = [a for a in changing.attributes if a.type != "other"]
    assigned = draw(st.lists(st.sampled_from(computable), max_size=2, unique=True)) if computable else []
    refs = [r for r in (*_sided(first, second, "$."), *_sided(first, second, "$1.")) if r[0].startswith("$")]
    found = []
    for attribute in assigned:
        if attribute.type == "integer" and draw(st.booleans()):
            found.append(f"$.{attribute.name} + 1 AS {attribute.name}")
        else:
            found.append(f"{expressions.of_type(draw, attribute.type, refs)} AS {attribute.name}")
    return found


def _union(draw: st.DrawFn, readable: Sequence[Operand], depth: int) -> Operand:
    first = _stream(draw, readable, depth)
    second = _like(draw, first, _operand(draw, readable, depth), whole=True)
    return Operand(f"{first.text} UNION {second.primary}", as_one_input(first.attributes), loose=True)


def _like(draw: st.DrawFn, model: Operand, stream: Operand, whole: bool = False) -> Operand:
    """The stream if its attributes are some (or, `whole`, all) of the model's; else made so by a SELECT."""
    types = {a.name: a.type for a in model.attributes}
    fits = all(types.get(a.name) == a.type for a in stream.attributes) and (not whole or len(stream.attributes) == len(types))
    if fits:
        return stream
    if "other" in types.values() and not any(a.type == "other" for a in stream.attributes):
        stream = SOURCES["I"]  # values that only pass through cannot be computed, but I has some
    kept = draw(st.permutations(model.attributes))
    if not whole:
        kept = kept[: draw(st.integers(1, 3))]
    items = []
    for attribute in kept:
        same = [a.name for a in stream.attributes if a.type == attribute.type]
        value = draw(st.sampled_from(same)) if same else expressions.of_type(draw, attribute.type, _own(stream), 1)
        items.append(f"{value} AS {attribute.name}")
    return Operand(f"(SELECT {', '.join(items)} FROM {stream.text})", tuple([Attribute(a.name, a.type) for a in kept]))
