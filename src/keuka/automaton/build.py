"""From a linear-plus expression to its automaton (the algebra paper, section 3.3).

Leaves are sources and published streams; the planner has already cut the query where it is not linear-plus.
"""

from __future__ import annotations

import math
from dataclasses import replace

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Published, Source, Union, inputs
from keuka.automaton.model import OUTPUT, Automaton, Bind, Conditions, Edge, Keep, Start, State, Step
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.expressions import CANDIDATE, Call, Duration, Expression, Literal, can_fail, conjuncts, sides
from keuka.schema import MAX_TICK


def build(operator: Operator, indices: bool) -> Automaton:
    """The automaton whose output is the operator's. Right operands must be unary over a leaf. `indices`: equalities become hash keys."""
    ports: list[str] = []
    primitive: list[bool] = []
    starts: list[Start] = []
    states: list[State] = []

    def port_of(leaf: Source | Published) -> int:
        name = stream_name(leaf)
        if name not in ports:
            ports.append(name)
            primitive.append(isinstance(leaf, Source) or leaf.named)
        return ports.index(name)

    def connect(node: Operator, edge: Edge, tag: int) -> None:
        if isinstance(node, Filter):
            connect(node.input, replace(edge, steps=(Keep(node.predicate), *edge.steps)), tag)
        elif isinstance(node, Map):
            connect(node.input, replace(edge, steps=(Bind(node.items), *edge.steps)), tag)
        elif isinstance(node, Union):
            for side in node.inputs:
                connect(side, edge, tag)
                tag += n_leaves(side)
        elif isinstance(node, Next | Fold):
            leaf, steps = candidate_of(node.second)
            take = node.take if isinstance(node, Next) else node.step
            update = None if isinstance(node, Next) else node.update
            tag_of_second = tag + n_leaves(node.first)
            index = len(states)
            conditions = split_conditions(node.skip, indices)
            schemas = node.first.schema, node.second.schema
            state = State(port_of(leaf), steps, *schemas, node.skip, conditions, take, update, edge, tag_of_second)
            states.append(replace(state, by_history=node.by_history, window=window_of(state, states)))
            connect(node.first, Edge((), index), tag)
        else:
            assert isinstance(node, Source | Published), "sequences are streams of their own"
            starts.append(Start(port_of(node), edge, tag))

    connect(operator, Edge((), OUTPUT), 0)
    return Automaton(tuple(ports), tuple(primitive), tuple(starts), tuple(states), operator.schema, indices)


def split_conditions(skip: Expression, indices: bool) -> Conditions:
    """Sort the terms of `skip` into three parts (the paper's section 4.1).

    Terms that can fail stay together in one conjunction, where a false term absorbs the failure.
    """
    static, keys, residual = [], [], []
    for term in conjuncts(skip):
        if sides(term) <= {CANDIDATE}:
            static.append(term)
        elif indices and (key := _key_of(term)):
            keys.append(key)
        else:
            residual.append(term)
    return Conditions(tuple(static), tuple(keys), tuple(residual))


def _key_of(term: Expression) -> tuple[Expression, Expression] | None:
    if not isinstance(term, Call) or term.op != "eq" or can_fail(term):
        return None
    left, right = term.args
    if sides(left) == {CANDIDATE} and sides(right) and CANDIDATE not in sides(right):
        return left, right
    if sides(right) == {CANDIDATE} and sides(left) and CANDIDATE not in sides(left):
        return right, left
    return None


def stream_name(leaf: Source | Published) -> str:
    """Published streams and sources never share a name (K306)."""
    return leaf.stream if isinstance(leaf, Source) else leaf.name


MAX_LEAVES = 2**31 - 1  # tags are operands of 32-bit instructions


def n_leaves(operator: Operator) -> int:
    """How many source occurrences stand below, those inside published streams included. K401 if they are too many for tags."""
    found = count_leaves(operator)
    if found > MAX_LEAVES:
        message = "the query reads its sources too often when all published streams are expanded"
        raise QueryError(Diagnostic("K401", message, operator.span, help=("read fewer published streams in one query",)))
    return found


def count_leaves(operator: Operator) -> int:
    """As `n_leaves`, however many they are."""
    counts: dict[str, int] = {}

    def count(node: Operator) -> int:
        if isinstance(node, Source):
            return 1 if node.meaning is None else node.meaning.n_leaves
        if isinstance(node, Published):
            if node.name not in counts:
                counts[node.name] = count(node.input)
            return counts[node.name]
        return sum([count(i) for i in inputs(node)])

    return count(operator)


def candidate_of(operator: Operator) -> tuple[Source | Published, tuple[Step, ...]]:
    """The leaf of a unary chain, and the steps from its events to the chain's."""
    steps: tuple[Step, ...] = ()
    while not isinstance(operator, Source | Published):
        assert isinstance(operator, Filter | Map), "the planner cuts at every other right operand"
        steps = (Keep(operator.predicate) if isinstance(operator, Filter) else Bind(operator.items), *steps)
        operator = operator.input
    return operator, steps


def window_of(state: State, states: list[State]) -> int:
    """The largest DUR at which a candidate can still lead to a result. DUR only grows, so instances beyond it are useless.

    A bound in `skip` makes later candidates irrelevant. Bounds further on do too, but dropping the instance for them means that
    what stands before them is no longer evaluated, so they count only if none of that can fail.
    """
    bound = bound_of(state.skip)
    if any(can_fail(e) for e in (state.skip, state.take, *(state.update or ()))):
        return bound
    bound = min(bound, bound_of(state.take))
    for step in state.edge.steps:
        if isinstance(step, Keep):
            bound = min(bound, bound_of(step.predicate))
        if any(can_fail(e) for e in ((step.predicate,) if isinstance(step, Keep) else step.items)):
            return bound
    return bound if state.edge.target == OUTPUT else min(bound, states[state.edge.target].window)


def bound_of(predicate: Expression) -> int:
    """The largest DUR a predicate can hold at, as far as one of its terms says so."""
    return min([_bound_of_term(term) for term in conjuncts(predicate)], default=MAX_TICK)


_TURNED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq": "eq"}  # the same with its sides exchanged
_NEGATED = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt"}
_EXACT = 2**53  # up to here doubles count ticks one by one


def _bound_of_term(term: Expression) -> int:
    if isinstance(term, Call) and term.op == "not":
        inner = term.args[0]
        if isinstance(inner, Call) and inner.op in _NEGATED:
            return _bound_of_term(replace(inner, op=_NEGATED[inner.op]))
        return MAX_TICK
    if not isinstance(term, Call) or term.op not in _TURNED:
        return MAX_TICK
    left, right, op = term.args[0], term.args[1], term.op
    if not _is_duration(left):
        left, right, op = right, left, _TURNED[op]
    if not _is_duration(left) or not isinstance(right, Literal) or op not in ("lt", "le", "eq"):
        return MAX_TICK
    if right.value is None:
        return 0  # never true
    assert isinstance(right.value, int | float)
    if isinstance(right.value, float) and not abs(right.value) < _EXACT:
        return MAX_TICK
    return max(0, math.ceil(right.value) - 1 if op == "lt" else math.floor(right.value))


def _is_duration(expression: Expression) -> bool:
    return isinstance(expression, Duration) or (
        isinstance(expression, Call) and expression.op == "to_double" and _is_duration(expression.args[0])
    )
