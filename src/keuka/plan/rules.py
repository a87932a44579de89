"""The optimiser: a tuple of pure functions from operator to operator, each named by a verb, applied in order.

A rule sees one node whose inputs are already rewritten and returns it or a better one with the same meaning and the same
sources in the same order. Nothing that can fail (integer overflow) is moved to where it would be evaluated more or less often,
so a query raises the same errors with and without the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from keuka.algebra.operators import (
    Alternative,
    Filter,
    Fold,
    Map,
    Next,
    Operator,
    Program,
    Published,
    Sequence,
    Union,
    boundaries,
    expressions,
    inputs,
    map_expressions,
    with_inputs,
)
from keuka.algebra.values import ERROR, evaluate
from keuka.expressions import (
    FIRST,
    TRUE,
    Call,
    Column,
    Duration,
    Expression,
    Literal,
    can_fail,
    columns,
    conjunction,
    conjuncts,
    show,
    substitute,
    walk,
)
from keuka.schema import Type

Rule = Callable[[Operator], Operator]


def fold_constants(node: Operator) -> Operator:
    """Compute what depends on constants alone, and drop filters that are always true."""
    folded = map_expressions(node, _folded)
    if isinstance(folded, Filter) and folded.predicate == TRUE:
        return folded.input
    if isinstance(folded, Sequence):
        folded = replace(folded, alternatives=tuple([_without_true(alternative) for alternative in folded.alternatives]))
    return node if expressions(folded) == expressions(node) else folded


def merge_filters(node: Operator) -> Operator:
    """One filter instead of two, if the lower one cannot fail."""
    if isinstance(node, Filter) and isinstance(node.input, Filter) and not can_fail(node.input.predicate):
        both = conjunction((*conjuncts(node.input.predicate), *conjuncts(node.predicate)))
        return replace(node, input=node.input.input, predicate=both)
    return node


def push_filter_below_union(node: Operator) -> Operator:
    """Filter every side of a union, where its own predicates and indices are."""
    if isinstance(node, Filter) and isinstance(node.input, Union):
        union = node.input
        return replace(union, inputs=tuple([replace(node, input=side) for side in union.inputs]))
    return node


def push_filter_below_map(node: Operator) -> Operator:
    """Filter before renaming, so that the predicate can be tested per batch. Only through plain columns and constants."""
    if not isinstance(node, Filter) or not isinstance(node.input, Map):
        return node
    below = node.input
    used = [below.items[index] for _, index in columns(node.predicate)]
    if not all(isinstance(item, Column | Literal) for item in used) or any(can_fail(item) for item in below.items):
        return node
    predicate = substitute(node.predicate, lambda c: below.items[c.index])
    return replace(below, input=replace(node, input=below.input, predicate=predicate))


def push_filter_to_first_input(node: Operator) -> Operator:
    """Terms on the first input of NEXT or FOLD alone are tested before an instance is made."""
    if not isinstance(node, Filter) or not isinstance(node.input, Next | Fold):
        return node
    below = node.input
    if any(can_fail(e) for e in expressions(below)):
        return node
    n = len(below.first.schema)
    terms = conjuncts(node.predicate)
    early = [t for t in terms if not can_fail(t) and _reads_only_before(t, n)]
    if not early or any(can_fail(t) for t in terms):
        return node
    names = below.first.schema.names
    predicate = substitute(conjunction(tuple(early)), lambda c: replace(c, name=names[c.index]))
    pushed = replace(below, first=Filter(below.first, predicate, node.span))
    late = tuple([t for t in terms if t not in early])
    return replace(node, input=pushed, predicate=conjunction(late)) if late else pushed


def filter_instead_of_sequence(node: Operator) -> Operator:
    """A sequence of one component waits for nothing."""
    if isinstance(node, Sequence) and len(node.components) == 1:
        predicate = substitute(conjunction(node.alternatives[0].terms), lambda c: replace(c, side=FIRST))
        return Filter(node.components[0].input, predicate, node.span)
    return node


def merge_maps(node: Operator) -> Operator:
    """One projection instead of two, if the lower one only renames."""
    if isinstance(node, Map) and isinstance(node.input, Map) and all(isinstance(i, Column | Literal) for i in node.input.items):
        below = node.input
        items = tuple([substitute(item, lambda c: below.items[c.index]) for item in node.items])
        return replace(node, input=below.input, items=items)
    return node


RULES: tuple[Rule, ...] = (
    fold_constants,
    merge_filters,
    push_filter_below_union,
    push_filter_below_map,
    push_filter_to_first_input,
    filter_instead_of_sequence,
    merge_maps,
)


MAX_PASSES = 50  # every rule makes progress of its own; the limit only guards against two that undo each other


def optimise(operator: Operator, rules: tuple[Rule, ...]) -> tuple[Operator, tuple[tuple[str, Operator], ...]]:
    """The rewritten operator, and after every rule that changed it its name and what it made."""
    trace: list[tuple[str, Operator]] = []
    for _ in range(MAX_PASSES):
        before = operator
        for rule in rules:
            changed = everywhere(operator, rule)
            if changed is not operator and changed != operator:
                trace.append((rule.__name__, changed))
                operator = changed
        if operator == before:
            break
    return operator, tuple(trace)


def everywhere(operator: Operator, rule: Rule) -> Operator:
    """Apply a rule to every node, inputs first. Published streams are rewritten where they are made, not where they are read."""
    return rule(with_inputs(operator, [everywhere(i, rule) for i in boundaries(operator)]))


def every_operator(program: Program) -> Iterator[Operator]:
    """From the outputs down, in the order of the text; what is published once, however often it is read."""
    waiting, published = [operator for _, operator in reversed(program.outputs)], set()
    while waiting:
        operator = waiting.pop()
        yield operator
        if isinstance(operator, Published):
            if operator.name in published:
                continue
            published.add(operator.name)
        waiting += reversed(inputs(operator))


def _without_true(alternative: Alternative) -> Alternative:
    terms, *absent = [tuple([term for term in part if term != TRUE]) for part in (alternative.terms, *alternative.absent)]
    return Alternative(terms, tuple(absent))


def _folded(expression: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    args = tuple([_folded(a) for a in expression.args])
    if expression.op == "and":
        args = tuple([a for a in args if a != Literal(True, Type.BOOLEAN)])
        if len(args) < 2:
            return conjunction(args)
    call = expression if args == expression.args else replace(expression, args=args)
    # LIKE is left to the kernel, whose time does not explode with the number of %.
    if call.op != "like" and all(isinstance(a, Literal) for a in args):
        value = evaluate(call, ())
        if value is not ERROR:
            has_unit = any(isinstance(a, Literal) and a.shown is not None for a in args)
            return Literal(value, call.type, call.span, show(call) if has_unit and call.op in ("add", "sub") else None)
    return call


def _reads_only_before(term: Expression, n: int) -> bool:
    """Reads attributes of the first input (the first n of the payload) and no DUR."""
    found = columns(term)
    return bool(found) and all(side == FIRST and i < n for side, i in found) and not any(isinstance(e, Duration) for e in walk(term))
