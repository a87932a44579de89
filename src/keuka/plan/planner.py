"""From the algebra of a query set to a plan: named streams in the order they run, each one linear-plus over earlier ones.

Rules rewrite each stream; then every right operand that is more than filters and projections over a stream is cut out and
becomes a stream of its own that the rest reads (resubscription: the algebra paper, section 3.5), and so does every sequence of
all combinations. Each stream gets the operator that computes it (`automaton/contract.py`); `automaton/compile.py` goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as List
from dataclasses import replace
from typing import TypeGuard

from keuka.algebra.operators import (
    Filter,
    Fold,
    Map,
    Next,
    Operator,
    Program,
    Published,
    Sequence,
    Source,
    Union,
    boundaries,
    leaves,
    with_inputs,
)
from keuka.automaton.automata import AutomatonOperator
from keuka.automaton.build import build, stream_name
from keuka.automaton.contract import Outputs, Plan, PlanOperator, Stage
from keuka.automaton.fingerprint import fingerprint
from keuka.automaton.sequences import SequenceOperator
from keuka.automaton.stacks import ALL_RULES, StackRules, build_stacks, is_feed
from keuka.automaton.statistics import NOTHING_KNOWN, Statistics
from keuka.plan.fields import extract_fields
from keuka.plan.partition import find_partition
from keuka.plan.rules import RULES, Rule, every_operator, optimise

OPERATORS: tuple[type[PlanOperator], ...] = (AutomatonOperator, SequenceOperator)


def plan(
    program: Program,
    outputs: List[str] | None = None,
    *,
    rules: tuple[Rule, ...] = RULES,
    linear: bool = True,
    indices: bool = True,
    contributors: bool = False,
    stack_rules: StackRules = ALL_RULES,
    statistics: Statistics = NOTHING_KNOWN,
) -> Plan:
    """The plan for the named outputs (default: all).

    `rules`, `linear`, `indices`, `stack_rules` and what is known of the columns change the cost, never the result.
    """
    original = dict(zip(output_names(program), [operator for _, operator in program.outputs], strict=True))
    named = dict(zip(original, [operator for _, operator in extract_fields(program).outputs], strict=True))
    taken = set(named) | stream_names(program)
    wanted = list(named) if outputs is None else list(outputs)
    stages: dict[str, Stage] = {}
    sources: dict[str, Source] = {}

    def add(name: str, operator: Operator) -> None:
        rewritten, trace = optimise(operator, rules)
        pieces: list[tuple[str, Operator]] = []
        cut = resubscribe(rewritten, name, linear, pieces, taken)
        for piece_name, piece in (*pieces, (name, cut)):
            for leaf in leaves(piece):
                if isinstance(leaf, Source):
                    sources.setdefault(leaf.stream, leaf)
                elif leaf.name not in stages:
                    add(leaf.name, leaf.input)
            physical = choose_operator(piece, indices, stack_rules, statistics)
            stages[piece_name] = Stage(piece_name, piece, physical, trace if piece_name == name else ())

    for name in wanted:
        if name not in stages:
            add(name, named[name])
    results = tuple([(name, name, fingerprint(original[name])) for name in wanted])
    return _finish(sources.values(), stages.values(), results, contributors)


def choose_operator(piece: Operator, indices: bool, stack_rules: StackRules, statistics: Statistics) -> PlanOperator:
    """What computes a stream of the plan."""
    if _is_sequence(piece):
        return SequenceOperator(build_stacks(piece, stack_rules, statistics))
    return AutomatonOperator(build(piece, indices))


def _finish(sources: Iterable[Source], stages: Iterable[Stage], outputs: Outputs, contributors: bool) -> Plan:
    """The plan of these stages, which come after what they read: the columns each stream must have, all of them for results; the key."""
    inputs_, stages_ = tuple(sources), list(stages)
    reads: dict[str, set[int]] = {name: set() for name in [*[s.stream for s in inputs_], *[stage.name for stage in stages_]]}
    results = {stage for _, stage, _ in outputs}
    for i in range(len(stages_) - 1, -1, -1):
        name, physical = stages_[i].name, stages_[i].physical
        if name in results:
            reads[name] = set(range(len(physical.schema)))
        physical = physical.for_columns(tuple(sorted(reads[name])))
        stages_[i] = replace(stages_[i], physical=physical)
        for port, used in physical.reads.items():
            reads[port] |= used
    wanted = {name: tuple(sorted(used)) for name, used in reads.items()}
    return Plan(inputs_, tuple(stages_), outputs, wanted, contributors, find_partition(inputs_, stages_))


def select_stages(planned: Plan, names: set[str], outputs: Outputs) -> Plan:
    """A part of a plan: these stages of it. Streams that other stages make are sources of the part."""
    stages = [stage for stage in planned.stages if stage.name in names]
    read = {port for stage in stages for port in stage.physical.ports} - names
    made = [Source(stage.name, stage.operator.schema, stage.operator.span) for stage in planned.stages]
    sources = [source for source in (*planned.sources, *made) if source.stream in read]
    return _finish(sources, stages, outputs, planned.contributors)


def output_names(program: Program) -> tuple[str, ...]:
    """The names of all outputs; a query without PUBLISH is known by its place in the text, `query_2`."""
    taken = stream_names(program) | {name for name, _ in program.outputs}
    names = []
    for position, (name, _) in enumerate(program.outputs):
        names.append(name or free_name(f"query_{position + 1}", taken))
    return tuple(names)


def stream_names(program: Program) -> set[str]:
    """The names of all streams that are read, sources and published ones."""
    return {stream_name(node) for node in every_operator(program) if isinstance(node, Source | Published)}


def free_name(name: str, taken: set[str]) -> str:
    """The name, with as many underscores as make it one that nobody has."""
    while name in taken:
        name += "_"
    return name


def resubscribe(operator: Operator, name: str, linear: bool, pieces: list[tuple[str, Operator]], taken: set[str]) -> Operator:
    """Cut where the expression is not linear-plus. Pieces come out in the order they run, named after the stream they serve."""
    new = [resubscribe(i, name, linear, pieces, taken) for i in boundaries(operator)]

    def cut(piece: Operator) -> Operator:
        if isinstance(piece, Source | Published):
            return piece
        piece_name = free_name(f"{name}#{len(pieces) + 1}", taken)
        pieces.append((piece_name, piece))
        return Published(piece_name, piece, piece.span, named=False)

    if isinstance(operator, Next | Fold):
        new[1] = new[1] if linear and _is_unary(new[1]) else cut(new[1])
    if isinstance(operator, Sequence):
        new = [i if linear and is_feed(i) else cut(i) for i in new]
    elif not (isinstance(operator, Map) and isinstance(new[0], Sequence)):
        new = [cut(i) if _is_sequence(i) else i for i in new]
    if not linear and isinstance(operator, Next | Fold | Union):
        new = [cut(i) for i in new]
    return with_inputs(operator, new)


def _is_sequence(operator: Operator) -> TypeGuard[Sequence | Map]:
    """A sequence, with what is made of its events or not."""
    return isinstance(operator, Sequence) or (isinstance(operator, Map) and isinstance(operator.input, Sequence))


def _is_unary(operator: Operator) -> bool:
    while isinstance(operator, Filter | Map):
        operator = operator.input
    return isinstance(operator, Source | Published)
