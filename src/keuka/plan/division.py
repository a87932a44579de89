"""How the events of a plan are divided over workers that do not know each other (Spark's partitions).

In comes the algebra of a query set, out come parts: tables that run together on every worker, each with the way its events are
divided. By a key, if `partition.py` finds one; by slices of time, if every match lies within a bounded stretch of it; else not at all.
A plan that has no key as a whole is cut where one of its streams is read on another key: the later part reads that stream like a source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from keuka.algebra.operators import Operator, Program, Published, Source, inputs, with_inputs
from keuka.automaton.model import OUTPUT, Automaton
from keuka.automaton.stacks import Stacks
from keuka.automaton.tables import Tables
from keuka.plan.planner import NDistinct, Plan, Stage, compile_tables, leaves, plan
from keuka.schema import MAX_TICK, TimeAxis

START, END = "#start", "#end"  # the times of a stream that another part made, in columns that no query can name


@dataclass(frozen=True)
class ByKey:
    """Rows go where their key goes, by source; rows of a source that is not named go anywhere. Without columns all do."""

    columns: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class BySlices:
    """A match ends at most `reach` ticks after any event it depends on."""

    reach: int


@dataclass(frozen=True)
class Undivided:
    """All rows must meet; `reason` says why."""

    reason: str


Division = ByKey | BySlices | Undivided
PartOf = Callable[[Sequence[str], Program], "Part"]


@dataclass(frozen=True)
class Part:
    """What runs together. Sources that are results of earlier parts have their times in START and END."""

    plan: Plan
    tables: Tables
    division: Division


def divide(
    program: Program, wanted: Sequence[str], *, axis: TimeAxis, contributors: bool, n_workers: int, n_distinct: NDistinct
) -> tuple[Part, ...]:
    """The parts that compute the wanted outputs, in an order in which each comes after those it reads.

    Outputs that cannot be divided are dealt out to the workers, each with as few others as there are workers for.
    """

    def part_of(outputs: Sequence[str], program: Program = program) -> Part:
        planned = plan(program, outputs, contributors=contributors, n_distinct=n_distinct)
        tables = compile_tables(planned)
        return Part(planned, tables, division_of(planned, any(tables.fallible)))

    together = part_of(wanted)
    if isinstance(together.division, ByKey):
        return (together,)
    alone = {name: part_of([name]) for name in wanted} if len(wanted) > 1 else {wanted[0]: together}
    # A key divides better than slices: one query without it should not take it from the others.
    if isinstance(together.division, BySlices) and not any(isinstance(part.division, ByKey) for part in alone.values()):
        return (together,)
    parts: list[Part] = []
    for group in _alike(alone):
        merged = alone[group[0]] if len(group) == 1 else part_of(group)
        parts += [alone[name] for name in group] if isinstance(merged.division, Undivided) else [merged]
    left = []
    for name, part in alone.items():
        if not isinstance(part.division, Undivided):
            continue
        pieces = _cut(part.plan, part_of) if can_be_cut(part.plan, axis) else ()
        given = {output for part in parts for output, _, _ in part.plan.outputs}
        parts += [piece for piece in pieces if not {output for output, _, _ in piece.plan.outputs} <= given]
        if not pieces:
            left.append(name)
    parts += [part_of(left[i::n_workers]) for i in range(min(n_workers, len(left)))]
    return tuple(parts)


def _alike(alone: Mapping[str, Part]) -> list[list[str]]:
    """Outputs that are divided in the same way."""
    groups: dict[object, list[str]] = {}
    for name, part in alone.items():
        if isinstance(part.division, ByKey):
            groups.setdefault(frozenset(part.division.columns.items()), []).append(name)
        elif isinstance(part.division, BySlices):
            groups.setdefault("slices", []).append(name)
    return list(groups.values())


# -- one plan --------------------------------------------------------------------------------------------------------------


def division_of(planned: Plan, can_fail: bool) -> Division:
    if planned.partition is not None:
        return ByKey(dict(planned.partition.columns))
    reach = {source.stream: 0 for source in planned.sources}
    for stage in planned.stages:
        own = own_reach(stage.automaton, can_fail)
        if own is None:
            no_bound = "has no window" + (" that is tested before what can overflow" if can_fail else "")
            return Undivided(f"`{stage.name}` compares no column of all its events for equality, and {no_bound}")
        reach[stage.name] = own + max([reach[port] for port in stage.automaton.ports])
    # What lies outside a slice is not known in it. An absence there may be only apparent, and what is computed from it could overflow.
    if can_fail and any(_can_be_apparent(stage, len(planned.stages)) for stage in planned.stages):
        return Undivided("a query that can overflow asks for absences that reach over the edge of a slice")
    longest = max(reach.values())
    return BySlices(longest) if longest < MAX_TICK // 4 else Undivided("its windows are too long to divide time by them")


def own_reach(automaton: Automaton | Stacks, can_fail: bool) -> int | None:
    """How many ticks before the end of a result, or of an error, the events that it depends on can end; None if there is no bound."""
    if isinstance(automaton, Stacks):
        if not automaton.is_bounded:
            return None
        # An absence at the start is looked for in the window before the last event, which may end a window before the match.
        return automaton.within * (2 if automaton.waits and automaton.components[0].negated else 1)
    # DUR only grows along the way, so the last state's bound is one for the match; errors come from any state.
    windows = [state.window for state in automaton.states if can_fail or state.edge.target == OUTPUT]
    return max(windows, default=0) if all(window < MAX_TICK for window in windows) else None


def _can_be_apparent(stage: Stage, n_stages: int) -> bool:
    """Can a slice take something for absent that is there? Between two events of a source it has all others, but not all that is made."""
    if not isinstance(stage.automaton, Stacks):
        return False
    components = stage.automaton.components
    return components[0].negated or components[-1].negated or (n_stages > 1 and any(c.negated for c in components))


# -- cutting ---------------------------------------------------------------------------------------------------------------


def can_be_cut(planned: Plan, axis: TimeAxis) -> bool:
    """May a stream leave the kernel and come in again? Not if it must remember the events behind it, or if its times are shown as days."""
    return len(planned.stages) > 1 and not (planned.contributors or planned.by_history or pa.types.is_date(axis.arrow))


def _cut(planned: Plan, part_of: PartOf) -> tuple[Part, ...]:
    """The plan in parts of which at least one can be divided; nothing if there are none.

    From the result backwards: a stream runs together with those that read it, if all of these do and the part can still be divided.
    """
    stages = {stage.name: stage for stage in planned.stages}
    results = {stage for _, stage, _ in planned.outputs}
    groups: list[list[str]] = []
    parts: list[Part] = []
    for name in reversed(stages):
        readers = [i for i, group in enumerate(groups) if any(name in stages[other].automaton.ports for other in group)]
        joined = _part_of_stages([*groups[readers[0]], name], stages, results, part_of) if len(readers) == 1 else None
        if joined is not None and not isinstance(joined.division, Undivided):
            groups[readers[0]].append(name)
            parts[readers[0]] = joined
        else:
            groups.append([name])
            parts.append(_part_of_stages([name], stages, results, part_of))
    is_better = len(parts) > 1 and any(not isinstance(part.division, Undivided) for part in parts)
    return tuple(reversed(parts)) if is_better else ()


def _part_of_stages(group: Sequence[str], stages: Mapping[str, Stage], results: Iterable[str], part_of: PartOf) -> Part:
    def over(operator: Operator) -> Operator:
        if isinstance(operator, Published):
            if operator.name in group:
                return replace(operator, input=over(stages[operator.name].operator))
            return Source(operator.name, operator.schema, operator.span)
        return with_inputs(operator, [over(i) for i in inputs(operator)])

    read_elsewhere = {
        leaf.name for name, stage in stages.items() if name not in group for leaf in leaves(stage.operator) if isinstance(leaf, Published)
    }
    outputs = [name for name in group if name in results or name in read_elsewhere]
    program = Program(tuple([(name, over(stages[name].operator)) for name in outputs]))
    return part_of(outputs, program)
