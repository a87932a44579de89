"""CEL text to a frozen syntax tree with spans (docs/semantics.md, 4). Syntax errors are found here; names and types in `lower.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keuka.diagnostics import SourceText, Span
from keuka.languages import values
from keuka.languages.cel.hints import CEL_WORDS, DUR_IN_SELECT
from keuka.languages.columns import unnamed
from keuka.languages.parsing import File, Grammar, parse_queries
from keuka.languages.values import Name, Node, Value, ValueBuilder

CEL = Grammar(Path(__file__).with_name("grammar.lark"), CEL_WORDS)


@dataclass(frozen=True)
class Read(Node):
    """The events of a stream, given or published."""

    name: Name


@dataclass(frozen=True)
class Filter(Node):
    predicate: Value
    input: Stream


@dataclass(frozen=True)
class Next(Node):
    first: Stream
    predicate: Value | None
    second: Stream
    keyword: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Assignment(Node):
    value: Value
    name: Name


@dataclass(frozen=True)
class Fold(Node):
    first: Stream
    skip: Value
    step: Value
    assignments: tuple[Assignment, ...]
    second: Stream
    keyword: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Union(Node):
    """Two or more streams: `A UNION B UNION C` is one union of three."""

    inputs: tuple[Stream, ...]


@dataclass(frozen=True)
class Parenthesised(Node):
    """A stream in plain parentheses."""

    inner: Stream


@dataclass(frozen=True)
class Item(Node):
    """A column of a SELECT; `value` is None for `*`. `name` is the one after AS, or the attribute's own."""

    value: Value | None
    name: Name | None


@dataclass(frozen=True)
class Query(Node):
    """`items` is None without a SELECT. The span of a subquery includes its parentheses."""

    items: tuple[Item, ...] | None
    stream: Stream
    publish: Name | None


Stream = Read | Filter | Next | Fold | Union | Parenthesised | Query


def parse(source: SourceText) -> File[Query]:
    return parse_queries(CEL, source, _Builder(source))


class _Builder(ValueBuilder):
    """One method per rule of `grammar.lark`."""

    def start(self, parts: list[Any]) -> tuple[Query, ...]:
        return tuple(parts[::2])

    def query(self, parts: list[Any]) -> Query:
        select, items, from_, stream, _, publish = parts
        span = self.token_span(select or from_).to(publish.span if publish else stream.span)
        return Query(items, stream, publish, span=span)

    def items(self, parts: list[Any]) -> tuple[Item, ...]:
        return tuple(parts[::2])

    def every_attribute(self, parts: list[Any]) -> Item:
        return Item(None, None, span=self.token_span(parts[0]))

    def item(self, parts: list[Any]) -> Item:
        value, _, name = parts
        if name is not None:
            return Item(value, name, span=value.span.to(name.span))
        attribute = values.ungrouped(value)
        if not isinstance(attribute, values.Reference):
            raise unnamed(value, DUR_IN_SELECT)
        return Item(value, Name(attribute.last_name, attribute.span), span=value.span)

    def attribute(self, parts: list[Any]) -> Value:
        decorator, path = parts
        name, *fields = path
        span = name.span if decorator is None else self.token_span(decorator)
        return values.Reference(str(decorator or ""), name.text, tuple([field.text for field in fields]), span=span.to(path[-1].span))

    def read(self, parts: list[Any]) -> Stream:
        return Read(parts[0], span=parts[0].span)

    def filter(self, parts: list[Any]) -> Stream:
        return Filter(parts[2], parts[4], span=self.token_span(parts[0]).to(parts[4].span))

    def next(self, parts: list[Any]) -> Stream:
        first, keyword, _, predicate, _, second = parts
        return Next(first, predicate, second, self.token_span(keyword), span=first.span.to(second.span))

    def fold(self, parts: list[Any]) -> Stream:
        first, keyword, _, skip, _, step, *rest, _, second = parts
        return Fold(first, skip, step, tuple(rest[1::2]), second, self.token_span(keyword), span=first.span.to(second.span))

    def assignment(self, parts: list[Any]) -> Assignment:
        return Assignment(parts[0], parts[2], span=parts[0].span.to(parts[2].span))

    def union(self, parts: list[Any]) -> Stream:
        first, _, second = parts
        inputs = first.inputs if isinstance(first, Union) else (first,)
        return Union((*inputs, second), span=first.span.to(second.span))

    def subquery(self, parts: list[Any]) -> Stream:
        open_, query, close = parts
        return Query(query.items, query.stream, query.publish, span=self.token_span(open_, close))

    def parenthesised(self, parts: list[Any]) -> Stream:
        return Parenthesised(parts[1], span=self.token_span(parts[0], parts[2]))
