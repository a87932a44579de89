"""Which queries of a set of files are outputs, which streams they publish, and in which order they can be evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from keuka.diagnostics import Diagnostic
from keuka.languages.cel.syntax import CelFile, Node, Query, Read, children, walk


@dataclass(frozen=True)
class Publications:
    """`outputs` in the order of the text, a nested one before the query that contains it; `by_name` those that can be read."""

    outputs: tuple[Query, ...]
    by_name: Mapping[str, Query]


def publications(files: tuple[CelFile, ...], inputs: Collection[str]) -> Publications:
    """A name of an input stream always means the input."""
    outputs = tuple([query for file in files for top in file.queries for query in _outputs(top)])
    by_name = {q.publish.text: q for q in reversed(outputs) if q.publish is not None and q.publish.text not in inputs}
    return Publications(outputs, by_name)


def check_names(outputs: tuple[Query, ...], inputs: Collection[str], findings: list[Diagnostic]) -> None:
    """No two queries may publish the same name, and none the name of an input."""
    seen: dict[str, str] = {}
    for name in [q.publish for q in outputs if q.publish is not None]:
        row, column = name.span.source.position(name.span.start)
        if name.text in inputs:
            help = "publish it under another name"
            findings.append(Diagnostic("K306", f"`{name.text}` is the name of an input stream", name.span, "published here", (help,)))
        elif name.text in seen:
            help = f"the first one is at {seen[name.text]}"
            findings.append(Diagnostic("K306", f"two queries publish `{name.text}`", name.span, "published again", (help,)))
        seen.setdefault(name.text, f"{name.span.source.name}:{row}:{column}")


def evaluation_order(published: Publications, findings: list[Diagnostic]) -> tuple[Query, ...]:
    """The outputs, each after those it reads. Circles are noted; a query in one comes before something it reads."""
    ordered: list[Query] = []
    entered: set[int] = set()
    for root in published.outputs:
        path: list[Query] = []
        # What is still to be entered at each step of the path, and the node that asks for it.
        pending: list[list[tuple[Query, Node]]] = [[(root, root)]]
        while pending:
            if not pending[-1]:
                pending.pop()
                ordered.extend(path[-1:])
                del path[-1:]
                continue
            needed, reason = pending[-1].pop()
            position = next((i for i, query in enumerate(path) if query is needed), None)
            if position is not None:
                findings.append(_circle(path[position:], reason))
            elif id(needed) not in entered:
                entered.add(id(needed))
                path.append(needed)
                pending.append(_needs(needed, published))
    return tuple(ordered)


def _outputs(top: Query) -> list[Query]:
    """The published subqueries and the query itself; what is contained ends earlier in the text."""
    nested = [node for node in walk(top) if isinstance(node, Query) and node.publish is not None and node is not top]
    return [*sorted(nested, key=lambda query: query.span.end), top]


def _needs(query: Query, published: Publications) -> list[tuple[Query, Node]]:
    """The outputs that must be known before this query is, last in the text first, each with the node that refers to it."""
    found: list[tuple[Query, Node]] = []
    stack: list[Node] = list(children(query))
    while stack:
        node = stack.pop()
        if isinstance(node, Query) and node.publish is not None:
            found.append((node, node))
        elif isinstance(node, Read) and node.name.text in published.by_name:
            found.append((published.by_name[node.name.text], node))
        else:
            stack.extend(children(node))
    return found


def _circle(path: list[Query], reason: Node) -> Diagnostic:
    names = [f"`{query.publish.text}`" for query in path if query.publish is not None]
    message = f"{names[0]} reads itself" if len(names) == 1 else f"{names[0]} reads itself by way of {', '.join(names[1:])}"
    return Diagnostic("K305", message, reason.span, " -> ".join([*names, names[0]]), ("a query can read only what is known without it",))
