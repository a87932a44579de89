"""How the events of a plan are divided over workers that do not know each other (Spark's partitions).

In comes a plan, out come parts: tables that run together on every worker, each with the way its events are
divided. By a key, if `partition.py` finds one; by slices of time, if every match lies within a bounded stretch of it; else not at all.
A plan that has no key as a whole is cut where one of its streams is read on another key: the later part reads that stream like a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from keuka.automaton.compile import compile_tables
from keuka.automaton.contract import Plan
from keuka.automaton.fingerprint import fingerprint
from keuka.automaton.tables import Tables
from keuka.plan.planner import select_stages
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


@dataclass(frozen=True)
class Together:
    """Rows are so few that dividing them would cost more than it brings."""


Division = ByKey | BySlices | Undivided | Together


@dataclass(frozen=True)
class Part:
    """What runs together. Sources that are results of earlier parts have their times in START and END."""

    plan: Plan
    tables: Tables
    division: Division

    @property
    def outputs(self) -> set[str]:
        return {name for name, _, _ in self.plan.outputs}


def divide(planned: Plan, *, axis: TimeAxis, n_workers: int) -> tuple[Part, ...]:
    """The parts that compute the outputs of a plan, in an order in which each comes after those it reads.

    Outputs that cannot be divided are dealt out to the workers, each with as few others as there are workers for.
    """

    def part_of(group: Sequence[str]) -> Part:
        return alone[group[0]] if len(group) == 1 else _part_of(_only(planned, group))

    together = _part_of(planned)
    if isinstance(together.division, ByKey):
        return (together,)
    names = [name for name, _, _ in planned.outputs]
    alone = {name: _part_of(_only(planned, [name])) for name in names} if len(names) > 1 else {names[0]: together}
    # A key divides better than slices: one query without it should not take it from the others.
    if isinstance(together.division, BySlices) and not any(isinstance(part.division, ByKey) for part in alone.values()):
        return (together,)
    parts: list[Part] = []
    for group in _alike(alone):
        merged = part_of(group)
        parts += [alone[name] for name in group] if isinstance(merged.division, Undivided) else [merged]
    left = []
    for name, part in alone.items():
        if not isinstance(part.division, Undivided):
            continue
        pieces = _cut(part.plan) if can_be_cut(part.plan, axis) else ()
        given = {output for part in parts for output in part.outputs}
        parts += [piece for piece in pieces if not piece.outputs <= given]
        if not pieces:
            left.append(name)
    parts += [part_of(left[i::n_workers]) for i in range(min(n_workers, len(left)))]
    return tuple(parts)


def divide_endless(planned: Plan) -> tuple[Part, ...]:
    """The same for events without end, which cannot be cut by time: outputs run with those of the same key; those without one together."""
    together = _part_of(planned)
    if isinstance(together.division, ByKey):
        return (together,)
    names = [name for name, _, _ in planned.outputs]
    alone = {name: _part_of(_only(planned, [name])) for name in names}
    by_key = {name: part for name, part in alone.items() if isinstance(part.division, ByKey)}
    groups = [*_alike(by_key), [name for name in names if name not in by_key]]
    return tuple([_endless(_part_of(_only(planned, group))) for group in groups if group])


def _endless(part: Part) -> Part:
    if isinstance(part.division, ByKey):
        return part
    return replace(part, division=Undivided("no column of all events is compared for equality"))


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


def _part_of(planned: Plan) -> Part:
    tables = compile_tables(planned)
    return Part(planned, tables, division_of(planned, any(tables.fallible)))


def division_of(planned: Plan, can_fail: bool) -> Division:
    if planned.partition is not None:
        return ByKey(dict(planned.partition.columns))
    reach = {source.stream: 0 for source in planned.sources}
    for stage in planned.stages:
        own = stage.physical.reach(can_fail)
        if own is None:
            no_bound = "has no window" + (" that is tested before what can overflow" if can_fail else "")
            return Undivided(f"`{stage.name}` compares no column of all its events for equality, and {no_bound}")
        reach[stage.name] = own + max([reach[port] for port in stage.physical.ports])
    # What lies outside a slice is not known in it. An absence there may be only apparent, and what is computed from it could overflow.
    if can_fail and any(stage.physical.can_mistake_absence(len(planned.stages) > 1) for stage in planned.stages):
        return Undivided("a query that can overflow asks for absences that reach over the edge of a slice")
    longest = max(reach.values())
    return BySlices(longest) if longest < MAX_TICK // 4 else Undivided("its windows are too long to divide time by them")


# -- parts of a plan -------------------------------------------------------------------------------------------------------


def _only(planned: Plan, names: Sequence[str]) -> Plan:
    """The plan of these outputs alone."""
    outputs = tuple([output for output in planned.outputs if output[0] in names])
    needed = {stage for _, stage, _ in outputs}
    for stage in reversed(planned.stages):
        needed |= {*stage.physical.ports} if stage.name in needed else set()
    return select_stages(planned, needed & {stage.name for stage in planned.stages}, outputs)


def can_be_cut(planned: Plan, axis: TimeAxis) -> bool:
    """May a stream leave the kernel and come in again? Not if it must remember the events behind it, or if its times are shown as days."""
    return len(planned.stages) > 1 and not (planned.contributors or planned.by_history or pa.types.is_date(axis.arrow))


def _cut(planned: Plan) -> tuple[Part, ...]:
    """The plan in parts of which at least one can be divided; nothing if there are none.

    From the result backwards: a stream runs together with those that read it, if all of these do and the part can still be divided.
    """
    parts: list[Part] = []
    for stage in reversed(planned.stages):
        readers = [i for i, part in enumerate(parts) if any(stage.name in other.physical.ports for other in part.plan.stages)]
        group = {stage.name, *[other.name for i in readers for other in parts[i].plan.stages]}
        joined = _part_of_stages(planned, group) if len(readers) == 1 else None
        if joined is not None and not isinstance(joined.division, Undivided):
            parts[readers[0]] = joined
        else:
            parts.append(_part_of_stages(planned, {stage.name}))
    is_better = len(parts) > 1 and any(not isinstance(part.division, Undivided) for part in parts)
    return tuple(reversed(parts)) if is_better else ()


def _part_of_stages(planned: Plan, group: set[str]) -> Part:
    """The part of these stages. What others read of it is among its outputs, under the name of the stage."""
    fingerprints = {stage: meaning for _, stage, meaning in planned.outputs}
    read_elsewhere = {port for stage in planned.stages if stage.name not in group for port in stage.physical.ports}
    given = [stage for stage in planned.stages if stage.name in group and (stage.name in fingerprints or stage.name in read_elsewhere)]
    outputs = tuple([(stage.name, stage.name, fingerprints.get(stage.name) or fingerprint(stage.operator)) for stage in given])
    return _part_of(select_stages(planned, group, outputs))
