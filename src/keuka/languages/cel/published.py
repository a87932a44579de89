"""Which queries of CEL files are outputs, a query in parentheses may be one too, and what each of them reads."""

from __future__ import annotations

from keuka.diagnostics import Span
from keuka.languages.cel.syntax import Query, Read
from keuka.languages.language import Files
from keuka.languages.published import Publications
from keuka.languages.values import Node, children


def outputs(files: Files) -> tuple[Query, ...]:
    """The queries that publish or stand on their own, in the order of the text, a nested one before the query that contains it."""
    return tuple([query for file in files for top in file.queries for query in _outputs(top)])


def needs(query: Query, published: Publications[Query]) -> list[tuple[Query, Span]]:
    """The outputs that must be known before this query is, last in the text first, each with the place that refers to it."""
    found: list[tuple[Query, Span]] = []
    stack: list[Node] = children(query)
    while stack:
        node = stack.pop()
        if isinstance(node, Query) and node.publish is not None:
            found.append((node, node.span))
        elif isinstance(node, Read) and node.name.text in published.by_name:
            found.append((published.by_name[node.name.text], node.span))
        else:
            stack.extend(children(node))
    return found


def _outputs(top: Query) -> list[Query]:
    """The published subqueries and the query itself; what is contained ends earlier in the text."""
    nested = [node for node in top.inside if isinstance(node, Query) and node.publish is not None]
    return [*sorted(nested, key=lambda query: query.span.end), top]
