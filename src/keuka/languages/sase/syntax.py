"""SASE text to a frozen syntax tree with spans (docs/semantics.md, 5). Syntax errors are found here; names and types in `lower.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keuka.diagnostics import Diagnostic, SourceText, Span
from keuka.errors import QueryError
from keuka.languages import values
from keuka.languages.columns import unnamed
from keuka.languages.parsing import File, Grammar, parse_queries
from keuka.languages.sase.hints import NO_DUR, SASE_WORDS
from keuka.languages.values import Name, Node, Operation, Reference, Value, ValueBuilder, walk

SASE = Grammar(Path(__file__).with_name("grammar.lark"), SASE_WORDS)
# The operator of an equivalence test. Its operands are references, `[a]`, and equations of one with a constant, `[a = 'c']`.
EQUIVALENCE = "[]"


@dataclass(frozen=True)
class Component(Node):
    """An event of one of the types, or, `negated`, the absence of one. `predicate` is about this event alone."""

    types: tuple[Name, ...]
    name: Name | None
    predicate: Value | None
    negated: bool


@dataclass(frozen=True)
class Item(Node):
    """A column of RETURN, or without a value all attributes: of the component `variable`, or of every one.

    `name` is None where it follows from the attribute.
    """

    value: Value | None
    variable: str
    name: Name | None


@dataclass(frozen=True)
class Query(Node):
    """`items` is None without a RETURN. A single type is a sequence of one component."""

    components: tuple[Component, ...]
    ordered: bool
    where: Value | None
    window: Value | None
    includes_window: bool  # `WITHIN <=`: may the first and the last event be as far apart as the window is long?
    items: tuple[Item, ...] | None
    publish: Name | None


def parse(source: SourceText) -> File[Query]:
    return parse_queries(SASE, source, _Builder(source))


@dataclass(frozen=True)
class _Pattern:
    components: tuple[Component, ...]
    ordered: bool
    span: Span


class _Builder(ValueBuilder):
    """One method per rule of `grammar.lark`."""

    def start(self, parts: list[Any]) -> tuple[Query, ...]:
        return tuple(parts[::2])

    def query(self, parts: list[Any]) -> Query:
        pattern, _, where, _, comparison, window, _, items, _, publish = parts
        if comparison not in (None, "<="):
            help = ("`WITHIN 10 min` allows less than ten minutes, `WITHIN <= 10 min` exactly ten minutes, too",)
            raise QueryError(Diagnostic("K101", f"`{comparison}` cannot stand after WITHIN", self.token_span(comparison), help=help))
        last = [part for part in (pattern, where, window, *(items or ()), publish) if part is not None][-1]
        span = pattern.span.to(last.span)
        return Query(pattern.components, pattern.ordered, where, window, comparison is not None, items, publish, span=span)

    def combination(self, parts: list[Any]) -> _Pattern:
        keyword, _, *components, close = parts
        return _Pattern(tuple(components[::2]), keyword.type == "SEQ", self.token_span(keyword, close))

    def single(self, parts: list[Any]) -> _Pattern:
        return _Pattern((parts[0],), True, parts[0].span)

    def component(self, parts: list[Any]) -> Component:
        negation, (types, span), name, _, predicate, close = parts
        if negation is not None:
            span = self.token_span(negation).to(span)
        end = self.token_span(close) if close is not None else name.span if name is not None else span
        return Component(types, name, predicate, negation is not None, span=span.to(end))

    def one_type(self, parts: list[Name]) -> tuple[tuple[Name, ...], Span]:
        return (parts[0],), parts[0].span

    def any_type(self, parts: list[Any]) -> tuple[tuple[Name, ...], Span]:
        keyword, _, *types, close = parts
        return tuple(types[::2]), self.token_span(keyword, close)

    def items(self, parts: list[Any]) -> tuple[Item, ...]:
        return tuple(parts[::2])

    def every_attribute(self, parts: list[Any]) -> Item:
        return Item(None, "", None, span=self.token_span(parts[0]))

    def every_attribute_of(self, parts: list[Any]) -> Item:
        (variable, span), star = parts
        return Item(None, variable, None, span=span.to(self.token_span(star)))

    def item(self, parts: list[Any]) -> Item:
        value, _, name = parts
        if name is None and not isinstance(values.ungrouped(value), Reference):
            raise unnamed(value, NO_DUR)
        return Item(value, "", name, span=value.span if name is None else value.span.to(name.span))

    def attribute(self, parts: list[Any]) -> Value:
        decorator, path = parts
        names = [name.text for name in path]
        if decorator is not None:
            return Reference(str(decorator)[:-1], names[0], tuple(names[1:]), span=self.token_span(decorator).to(path[-1].span))
        variable = names.pop(0) if len(names) > 1 else ""
        return Reference(variable, names[0], tuple(names[1:]), span=path[0].span.to(path[-1].span))

    def variable(self, parts: list[Any]) -> tuple[str, Span]:
        """The variable as a qualifier: with its `$`, without its dot."""
        if isinstance(parts[0], Name):
            return parts[0].text, parts[0].span
        return str(parts[0])[:-1], self.token_span(parts[0])

    def equivalence(self, parts: list[Any]) -> Value:
        open_, *tests, close = parts
        return Operation(EQUIVALENCE, tuple(tests[::2]), span=self.token_span(open_, close))

    def test(self, parts: list[Any]) -> Value:
        path, comparison, constant = parts
        span = path[0].span.to(path[-1].span)
        reference = Reference("", path[0].text, tuple([field.text for field in path[1:]]), span=span)
        if comparison is None:
            return reference
        if comparison != "=" or any(isinstance(node, Reference | values.Dur) for node in walk(constant)):
            help = ("an equivalence test is `[id]` or `[id = 'x']`", "other comparisons name the event: `s.id > 3`")
            message = "an equivalence test asks whether values equal each other, or a constant"
            raise QueryError(Diagnostic("K101", message, span.to(constant.span), help=help))
        return Operation("=", (reference, constant), span=span.to(constant.span))
