"""Queries that publish streams and read those of others: which names they have, in which order they can be evaluated, how deep they nest.

For every language. A language says which queries of its syntax trees are outputs, and what each of them reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from keuka.algebra import operators as algebra
from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.languages.parsing import MAX_NESTING
from keuka.languages.values import Name


class Output(Protocol):
    @property
    def publish(self) -> Name | None: ...

    @property
    def span(self) -> Span: ...


Q = TypeVar("Q", bound=Output)


@dataclass(frozen=True)
class Publications(Generic[Q]):
    """`outputs` in the order of the text; `by_name` those that can be read."""

    outputs: tuple[Q, ...]
    by_name: Mapping[str, Q]


def publications(outputs: tuple[Q, ...], inputs: Collection[str]) -> Publications[Q]:
    """A name of an input stream always means the input."""
    by_name = {q.publish.text: q for q in reversed(outputs) if q.publish is not None and q.publish.text not in inputs}
    return Publications(outputs, by_name)


def check_names(outputs: tuple[Q, ...], inputs: Collection[str], findings: list[Diagnostic]) -> None:
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


def evaluation_order(outputs: tuple[Q, ...], needs: Callable[[Q], list[tuple[Q, Span]]], findings: list[Diagnostic]) -> tuple[Q, ...]:
    """The outputs, each after those it reads. Circles are noted; a query in one comes before something it reads.

    `needs` gives the outputs that must be known before a query is, last in the text first, each with the place that refers to it.
    """
    ordered: list[Q] = []
    entered: set[int] = set()
    for root in outputs:
        path: list[Q] = []
        # What is still to be entered at each step of the path, and the place that asks for it.
        pending: list[list[tuple[Q, Span]]] = [[(root, root.span)]]
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
                pending.append(needs(needed))
    return tuple(ordered)


def unknown_stream(name: Name, known: Collection[str]) -> Diagnostic:
    help = (*similar(name.text, known), f"streams: {listing(known)}" if known else "no streams are given")
    return Diagnostic("K202", f"there is no stream `{name.text}`", name.span, help=help)


def check_levels(query: Q, operator: algebra.Operator, levels: dict[str, int], findings: list[Diagnostic]) -> bool:
    """Queries that read one another nest like subqueries, and count like them: later stages see one operator above the other."""
    deepest = nesting(operator, levels)
    if query.publish is not None:
        levels[query.publish.text] = deepest
    if deepest > MAX_NESTING:
        message = f"queries that read one another are nested more than {MAX_NESTING} levels deep here"
        help = "let it read a stream that is nearer to the input"
        findings.append(Diagnostic("K103", message, query.span, f"{deepest} levels", (help,)))
    return deepest <= MAX_NESTING


def nesting(operator: algebra.Operator, levels: Mapping[str, int]) -> int:
    """How many levels of operators there are, those of published streams as they are known."""
    deepest = 1
    stack = [(operator, 1)]
    while stack:
        node, level = stack.pop()
        if isinstance(node, algebra.Published) and node.name in levels:
            deepest = max(deepest, level + levels[node.name])
        else:
            deepest = max(deepest, level)
            stack.extend([(part, level + 1) for part in algebra.inputs(node)])
    return deepest


def place(finding: Diagnostic) -> tuple[str, int]:
    """Findings are reported in the order of the text, those without a place last."""
    return ("\uffff", 0) if finding.span is None else (finding.span.source.name, finding.span.start)


def _circle(path: list[Q], reason: Span) -> Diagnostic:
    names = [f"`{query.publish.text}`" for query in path if query.publish is not None]
    message = f"{names[0]} reads itself" if len(names) == 1 else f"{names[0]} reads itself by way of {', '.join(names[1:])}"
    return Diagnostic("K305", message, reason, " -> ".join([*names, names[0]]), ("a query can read only what is known without it",))
