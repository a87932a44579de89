"""From the algebra of a query set to a plan: named streams in the order they run, each one linear-plus over earlier ones.

Rules rewrite each stream; then every right operand that is more than filters and projections over a stream is cut out and
becomes a stream of its own that the rest reads (resubscription: the algebra paper, section 3.5), and so does every sequence of
all combinations. `compile_tables` goes on to the automata and their tables.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as List
from dataclasses import dataclass
from typing import TypeGuard

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Program, Published, Sequence, Source, Union, inputs, with_inputs
from keuka.automaton.assembler import Pool
from keuka.automaton.build import build
from keuka.automaton.code import Derived, OperatorCode, Streams, generate, port_reads
from keuka.automaton.model import Automaton
from keuka.automaton.signatures import digest
from keuka.automaton.stack_code import StackCode, generate_stacks, stack_reads
from keuka.automaton.stacks import ALL_RULES, StackRules, Stacks, build_stacks, is_feed
from keuka.automaton.tables import Lineage, OperatorColumns, OutputColumns, SourceColumns, Tables, assemble
from keuka.plan.fields import extract_fields
from keuka.plan.fingerprint import fingerprint, stream_identity
from keuka.plan.partition import Partition, find_partition
from keuka.plan.rules import RULES, Rule, boundaries, optimise


@dataclass(frozen=True)
class Stage:
    """One stream of the plan: what it is, the automaton or the stacks that compute it, and the rules that changed it."""

    name: str
    operator: Operator
    automaton: Automaton | Stacks
    trace: tuple[tuple[str, Operator], ...]


@dataclass(frozen=True)
class Plan:
    sources: tuple[Source, ...]
    stages: tuple[Stage, ...]  # in the order they run
    outputs: tuple[tuple[str, str, bytes], ...]  # (published name, stage, fingerprint of the meaning)
    contributors: bool
    by_history: bool  # does a NEXT or FOLD choose by history?
    indices: bool
    partition: Partition | None  # by which its sources may be divided; None also without indices, which hold the key


NDistinct = Callable[[str, str], int]  # how many values a column of a stream has; 0 if nobody knows


def plan(
    program: Program,
    outputs: List[str] | None = None,
    *,
    rules: tuple[Rule, ...] = RULES,
    linear: bool = True,
    indices: bool = True,
    contributors: bool = False,
    stack_rules: StackRules = ALL_RULES,
    n_distinct: NDistinct = lambda stream, column: 0,
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
        for piece_name, piece in (*[(n, p) for n, p in pieces], (name, cut)):
            for leaf in leaves(piece):
                if isinstance(leaf, Source):
                    sources.setdefault(leaf.stream, leaf)
                elif leaf.name not in stages:
                    add(leaf.name, leaf.input)
            made = build_stacks(piece, stack_rules, n_distinct) if _is_sequence(piece) else build(piece)
            stages[piece_name] = Stage(piece_name, piece, made, trace if piece_name == name else ())

    for name in wanted:
        if name not in stages:
            add(name, named[name])
    results = tuple([(name, name, fingerprint(original[name])) for name in wanted])
    inputs_ = tuple(sources.values())
    partition = find_partition(inputs_, {name: stage.automaton for name, stage in stages.items()}) if indices else None
    automata = [stage.automaton for stage in stages.values() if isinstance(stage.automaton, Automaton)]
    by_history = any(state.by_history for automaton in automata for state in automaton.states)
    return Plan(inputs_, tuple(stages.values()), results, contributors, by_history, indices, partition)


def output_names(program: Program) -> tuple[str, ...]:
    """The names of all outputs; a query without PUBLISH is known by its place in the text, `query_2`."""
    taken = stream_names(program) | {name for name, _ in program.outputs}
    names = []
    for position, (name, _) in enumerate(program.outputs):
        names.append(name or free_name(f"query_{position + 1}", taken))
    return tuple(names)


def stream_names(program: Program) -> set[str]:
    """The names of all streams that are read, sources and published ones."""
    found: set[str] = set()
    stack = [operator for _, operator in program.outputs]
    while stack:
        node = stack.pop()
        if isinstance(node, Source):
            found.add(node.stream)
        elif isinstance(node, Published):
            if node.name not in found:
                found.add(node.name)
                stack.append(node.input)
        else:
            stack.extend(inputs(node))
    return found


def free_name(name: str, taken: set[str]) -> str:
    """The name, with as many underscores as make it one that nobody has."""
    while name in taken:
        name += "_"
    return name


def leaves(operator: Operator) -> list[Source | Published]:
    """The streams an expression of the plan reads, from left to right."""
    if isinstance(operator, Source | Published):
        return [operator]
    return [leaf for i in boundaries(operator) for leaf in leaves(i)]


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


# -- to tables -------------------------------------------------------------------------------------------------------------


def compile_tables(plan: Plan) -> Tables:
    """Decide which columns every stream must have, then generate the programs of every stage."""
    wanted = demands(plan)
    streams, n_raw = _streams(plan, wanted)
    pool, derived = Pool(), Derived(n_raw)
    operators = []
    n_states = 0
    for stage in plan.stages:
        chosen = wanted[stage.name]
        if isinstance(stage.automaton, Stacks):
            code: OperatorCode | StackCode = generate_stacks(stage.automaton, streams, chosen, pool, derived)
        else:
            ordinals = () if plan.partition is None else plan.partition.ordinals[stage.name]
            code = generate(stage.automaton, streams, chosen, pool, derived, n_states, plan.indices, ordinals)
            n_states += len(code.states)
        signature = digest(("result", streams.identities[stage.name], chosen))
        operators.append(OperatorColumns(stage.name, code, tuple([stage.automaton.schema[i].type for i in chosen]), signature))
    sources = [_source_columns(s, wanted[s.stream]) for s in plan.sources]
    order = [stage.name for stage in plan.stages]
    outputs = [OutputColumns(n, order.index(s), plan.stages[order.index(s)].operator.schema, f) for n, s, f in plan.outputs]
    partition = None if plan.partition is None else dict(plan.partition.columns)
    return assemble(sources, operators, outputs, pool, derived, Lineage(plan.contributors, plan.by_history), partition)


def _streams(plan: Plan, wanted: dict[str, tuple[int, ...]]) -> tuple[Streams, int]:
    """Columns are numbered over all streams, in the order of the tables; how many there are comes back, too."""
    layouts: dict[str, dict[int, int]] = {}
    n = 0
    for name, chosen in wanted.items():
        layouts[name] = {index: n + position for position, index in enumerate(chosen)}
        n += len(chosen)
    identities = {s.stream: digest(("source", s.stream, [(a.name, a.type.value) for a in s.schema.attributes])) for s in plan.sources}
    identities |= {stage.name: digest(("stream", stream_identity(stage.operator))) for stage in plan.stages}
    if plan.by_history:
        # What is read by name is a primitive event there, and the same part of a query is none: they are not the same stream.
        pieces = {leaf.name for stage in plan.stages for leaf in leaves(stage.operator) if isinstance(leaf, Published) and not leaf.named}
        identities = {name: digest(("history", name in pieces, identity)) for name, identity in identities.items()}
    return Streams(layouts, identities), n


def demands(plan: Plan) -> dict[str, tuple[int, ...]]:
    """The attributes of each stream that anything reads; all of them for results. Readers come after what they read."""
    names = [s.stream for s in plan.sources] + [stage.name for stage in plan.stages]
    reads: dict[str, set[int]] = {name: set() for name in names}
    results = {stage for _, stage, _ in plan.outputs}
    for stage in reversed(plan.stages):
        if stage.name in results:
            reads[stage.name] = set(range(len(stage.automaton.schema)))
        chosen = sorted(reads[stage.name])
        for name, used in _reads(stage.automaton, chosen, plan.indices).items():
            reads[name] |= used
    return {name: tuple(sorted(used)) for name, used in reads.items()}


def _reads(automaton: Automaton | Stacks, chosen: list[int], indices: bool) -> dict[str, set[int]]:
    return stack_reads(automaton, chosen) if isinstance(automaton, Stacks) else port_reads(automaton, chosen, indices)


def _source_columns(source: Source, chosen: tuple[int, ...]) -> SourceColumns:
    attributes = [source.schema[i] for i in chosen]
    return SourceColumns(source.stream, tuple([a.name for a in attributes]), tuple([a.type for a in attributes]))
