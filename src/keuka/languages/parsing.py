"""Text to syntax tree, for every language: one cached LALR(1) parser per grammar file, and trees built without recursion.

In: a text and the builder of its language. Out: what the builder makes of the grammar's `start` rule, or a QueryError.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from keuka.diagnostics import SURROGATE, Diagnostic, SourceText, Span
from keuka.errors import QueryError
from keuka.languages.mistakes import Vocabulary, explain_mistake
from keuka.languages.values import Node, children

if TYPE_CHECKING:
    from lark import Lark, Tree

# Later stages recurse over queries; at this depth they stay far from Python's own limit, and no query written by hand comes near.
MAX_NESTING = 200


@dataclass(frozen=True)
class Grammar:
    path: Path
    vocabulary: Vocabulary


_Query = TypeVar("_Query", bound=Node)


@dataclass(frozen=True)
class File(Generic[_Query]):
    """A text and its queries, as syntax trees of its language."""

    source: SourceText
    queries: tuple[_Query, ...]


@cache
def parser(path: Path) -> Lark:
    """The parser of a grammar file; it takes about 60 ms to build, once per process."""
    from lark import Lark

    return Lark.open(str(path), parser="lalr", lexer="contextual", import_paths=[str(Path(__file__).parent)], maybe_placeholders=True)


@cache
def keywords(path: Path) -> frozenset[str]:
    """The words of a language that need backticks to be names: terminals that are matched by their own name."""
    return frozenset([terminal.name for terminal in parser(path).terminals if terminal.pattern.value == rf"(?ai:{terminal.name})\b"])


def parse_queries(grammar: Grammar, source: SourceText, builder: object) -> File[Any]:
    """The queries of a text, or the first syntax error in it. `builder` has a method for every rule of the grammar."""
    queries = _parse(grammar, source, builder)
    for query in queries:
        _check_nesting(query)
    return File(source, queries)


def _parse(grammar: Grammar, source: SourceText, builder: object) -> tuple[Any, ...]:
    from lark.exceptions import UnexpectedInput

    if half := SURROGATE.search(source.text):
        span = Span(source, half.start(), half.end())
        raise QueryError(Diagnostic("K102", f"{half.group()!a} is half a character (a lone surrogate), which no text can hold", span))
    try:
        tree = parser(grammar.path).parse(source.text)
    except UnexpectedInput as error:
        raise QueryError(explain_mistake(grammar.vocabulary, keywords(grammar.path), source, error)) from None
    queries: tuple[Any, ...] = _build(tree, builder)
    return queries


def _check_nesting(root: Node) -> None:
    """Refuse a tree that is deeper than later stages accept, at the first node that is too deep."""
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_NESTING:
            message = f"this query is nested more than {MAX_NESTING} levels deep"
            help = "write fewer brackets, or shorter chains of operators"
            raise QueryError(Diagnostic("K103", message, node.span, f"level {MAX_NESTING + 1} begins here", (help,)))
        stack.extend([(child, depth + 1) for child in reversed(children(node))])


def _build(tree: Tree[Any], builder: object) -> Any:
    """Children first, with a stack of our own: the depth of a text must not be able to exhaust Python's."""
    from lark import Tree

    pending: list[tuple[Any, bool]] = [(tree, False)]
    built: list[Any] = []
    while pending:
        node, complete = pending.pop()
        if not isinstance(node, Tree):
            built.append(node)
        elif complete:
            first = len(built) - len(node.children)
            parts = built[first:]
            # Rules of the imported grammar are known to lark as `values__rule`.
            built[first:] = [getattr(builder, node.data.removeprefix("values__"))(parts)]
        else:
            pending.append((node, True))
            pending.extend([(child, False) for child in reversed(node.children)])
    return built[0]
