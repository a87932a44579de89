"""The key of a plan: columns such that events with different values of them never meet, so that each kernel can take its share.

In come the automata of a plan, out comes a Partition or None. A *way* divides every stream by one column. It is right for a state if
the state's hash index compares that column of the candidate with that column of the events an instance is made of: then what is built
from events with equal values needs no others. Ways travel along the edges, together with the places of the tuple that hold the value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from keuka.algebra.operators import Source
from keuka.automaton.code import split_conditions
from keuka.automaton.model import OUTPUT, Automaton, Bind, State, Step
from keuka.automaton.stacks import StackComponent, Stacks
from keuka.expressions import CANDIDATE, FIRST, LAST, Column, Expression
from keuka.schema import Type, shown_name

# Unions of unrelated streams multiply ways. About this many are kept, the same ones every time; each of them is right by itself.
MOST_WAYS = 64


@dataclass(frozen=True)
class Partition:
    """Rows that differ in their keys are never part of one match, and none of them ends what the other began.

    columns: for each source the columns of its key, one a component; a component has one type in all sources. Rows of a source that
        is not named meet no others, and go anywhere. Without any component this is true of all sources.
    types: of the components.
    ordinals: for each automaton, for each of its states, where the components stand among the state's hash keys (`Conditions.keys`
        in automaton/code.py). A sequence has one key, and then there is one component.

    Null equals nothing: a row with a null in its key meets no other and goes anywhere, but must go somewhere. Keys are equal where `=`
    says so: whoever hashes doubles must take -0.0 for 0.0, and every NaN for the same. Where matches have ids, equal rows must stay
    together, because ids count them.
    """

    columns: Mapping[str, tuple[str, ...]]
    types: tuple[Type, ...]
    ordinals: Mapping[str, tuple[tuple[int, ...], ...]]

    def __str__(self) -> str:
        """`Name`, or `Stock.Name = News.Symbol` where streams call it differently."""
        shown = []
        for names in zip(*self.columns.values(), strict=True):
            names = tuple([shown_name(name) for name in names])
            each = [f"{stream}.{name}" for stream, name in zip(self.columns, names, strict=True)]
            shown.append(names[0] if len(set(names)) == 1 else " = ".join(each))
        return ", ".join(shown)


def find_partition(sources: Sequence[Source], automata: Mapping[str, Automaton | Stacks]) -> Partition | None:
    """The key of a plan if it has one. `automata` are those of all its streams, in the order they run."""
    flows = {source.stream: _source_flow(source) for source in sources}
    states: dict[str, tuple[_StateKeys, ...]] = {}
    for name, automaton in automata.items():
        if isinstance(automaton, Stacks):
            flows[name], states[name] = _through_stacks(automaton, flows), ()
        else:
            flows[name], states[name] = _through_automaton(automaton, flows)
    ways = functools.reduce(_ways_of_both, [flows[name].ways for name in automata])
    if not ways:
        return None
    components = _components(ways)
    columns = {
        source.stream: tuple([source.schema[dict(way.columns)[source.stream]].name for way in components])
        for source in sources
        if any(source.stream in dict(way.columns) for way in components)
    }
    ordinals = {name: tuple([tuple([_ordinal(keys, way) for way in components]) for keys in found]) for name, found in states.items()}
    return Partition(columns, tuple([way.type for way in components if way.type is not None]), ordinals)


# -- ways ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Way:
    """By which column each stream is divided. Streams left out can be divided at will."""

    columns: tuple[tuple[str, int], ...]  # (stream, index), ordered
    type: Type | None  # None where no stream is named


_AT_WILL = _Way((), None)


@dataclass(frozen=True)
class _Flow:
    """Tuples on their way through the automata."""

    ways: tuple[_Way, ...]  # each is right for all that made these tuples
    carried: Mapping[_Way, frozenset[int]]  # the ways that name every stream below, and the places that hold the value by which


# The ways that are right for a state, each with the number of the hash key that compares its value.
_StateKeys = Mapping[_Way, int]


def _joined(one: _Way, other: _Way) -> _Way | None:
    """Both at once: a row can go to one place only, so they must agree on the streams they share."""
    columns = dict(one.columns) | dict(other.columns)
    agree = all(columns[stream] == index for stream, index in one.columns)
    if not agree or (one.type and other.type and one.type is not other.type):
        return None
    return _Way(tuple(sorted(columns.items())), one.type or other.type)


def _ways_of_both(ones: tuple[_Way, ...], others: tuple[_Way, ...]) -> tuple[_Way, ...]:
    """Every way of the first is kept with as many of the second as there is room for, so that none is lost for an earlier one."""
    found: dict[_Way, None] = {}
    for one in ones:
        room = max(1, MOST_WAYS // len(ones))
        for other in others:
            way = _joined(one, other)
            if way is not None and way not in found:
                found[way] = None
                room -= 1
            if room == 0:
                break
    return tuple(found)


def _components(ways: Iterable[_Way]) -> tuple[_Way, ...]:
    """Ways that have no column in common: a second one for a column would tell no more rows apart. Plans agree on their order."""
    chosen: list[_Way] = []
    for way in sorted(ways, key=lambda way: way.columns):
        if way.columns and not any(set(way.columns) & set(earlier.columns) for earlier in chosen):
            chosen.append(way)
    return tuple(chosen)


def _ordinal(keys: _StateKeys, way: _Way) -> int:
    streams = {stream for stream, _ in next(iter(keys)).columns}
    return keys[_Way(tuple([(stream, index) for stream, index in way.columns if stream in streams]), way.type)]


# -- through an automaton --------------------------------------------------------------------------------------------------


def _source_flow(source: Source) -> _Flow:
    types = [attribute.type for attribute in source.schema.attributes]
    comparable = [i for i, type_ in enumerate(types) if type_ is not Type.OTHER]
    return _Flow((_AT_WILL,), {_Way(((source.stream, i),), types[i]): frozenset([i]) for i in comparable})


def _through_automaton(automaton: Automaton, flows: Mapping[str, _Flow]) -> tuple[_Flow, tuple[_StateKeys, ...]]:
    """The automaton's output, and the keys of its states. Edges lead to smaller numbers, so the last state comes first."""
    entering: dict[int, list[_Flow]] = {}
    for start in automaton.starts:
        flow = _through_steps(flows[automaton.ports[start.port]], start.edge.steps)
        entering.setdefault(start.edge.target, []).append(flow)
    found: list[_StateKeys] = []
    for index in range(len(automaton.states) - 1, -1, -1):
        state = automaton.states[index]
        first = functools.reduce(_union, entering[index])
        flow, keys = _through_state(state, first, _through_steps(flows[automaton.ports[state.port]], state.candidate))
        entering.setdefault(state.edge.target, []).append(_through_steps(flow, state.edge.steps))
        found.append(keys)
    return functools.reduce(_union, entering[OUTPUT]), tuple(reversed(found))


def _through_stacks(stacks: Stacks, flows: Mapping[str, _Flow]) -> _Flow:
    """Events of stacks with different keys never meet, if every component has the key. A component of the plan's key has one type."""
    flow: _Flow | None = None
    held: dict[int, frozenset[int]] = {}
    for i, component in enumerate(stacks.components):
        if component.key is None or component.as_double:
            return _Flow((), {})
        mine = _component_flow(stacks, component, flows)
        kept = {way: places for way, places in mine.carried.items() if component.key in places}
        if flow is None:
            flow = _Flow(tuple(kept), kept)
        else:
            joined = {both: frozenset([0]) for way in flow.carried for other in kept if (both := _joined(way, other)) is not None}
            flow = _Flow(tuple(joined), dict(list(joined.items())[:MOST_WAYS]))
        held[i] = frozenset([component.key])
    assert flow is not None
    places = _named(stacks.items, held)
    return _Flow(tuple(flow.carried), {way: places for way in flow.carried if places})


def _component_flow(stacks: Stacks, component: StackComponent, flows: Mapping[str, _Flow]) -> _Flow:
    return functools.reduce(_union, [_through_steps(flows[stacks.ports[feed.port]], feed.steps) for feed in component.feeds])


def _through_steps(flow: _Flow, steps: tuple[Step, ...]) -> _Flow:
    """A filter changes nothing. A projection keeps the value where it names its place; what it computes is another value."""
    for step in steps:
        if isinstance(step, Bind):
            kept = {way: _named(step.items, {FIRST: places}) for way, places in flow.carried.items()}
            flow = _Flow(flow.ways, {way: places for way, places in kept.items() if places})
    return flow


def _named(items: tuple[Expression, ...], places: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """The items that are one of the places, given by side."""
    return frozenset([i for i, e in enumerate(items) if isinstance(e, Column) and e.index in places.get(e.side, ())])


def _union(one: _Flow, other: _Flow) -> _Flow:
    """Tuples of either kind: a place holds the value if it does in both."""
    by_place: dict[int, list[_Way]] = {}
    for way, places in other.carried.items():
        for place in sorted(places):
            by_place.setdefault(place, []).append(way)
    carried: dict[_Way, frozenset[int]] = {}
    for way, places in one.carried.items():
        partners = tuple(dict.fromkeys([partner for place in sorted(places) for partner in by_place.get(place, ())]))
        room = max(1, MOST_WAYS // len(one.carried))
        for partner in partners:
            both = _joined(way, partner)
            if both is not None and room > 0:
                carried[both] = places & other.carried[partner]
                room -= 1
    return _Flow(_ways_of_both(one.ways, other.ways), carried)


def _through_state(state: State, first: _Flow, second: _Flow) -> tuple[_Flow, _StateKeys]:
    """Ways in which an instance and the candidates it can meet have equal values, because a hash key compares them."""
    keys: dict[_Way, int] = {}
    carried: dict[_Way, frozenset[int]] = {}
    for ordinal, (candidate, own) in enumerate(split_conditions(state, indices=True).keys):
        if not isinstance(candidate, Column) or not isinstance(own, Column):
            continue
        theirs = [(way, places) for way, places in second.carried.items() if candidate.index in places]
        for way, places in first.carried.items():
            if own.index not in places:
                continue
            for partner, partner_places in theirs:
                both = _joined(way, partner)
                steady = _steady(state, places, partner_places)
                if both is None or both in keys or len(keys) == MOST_WAYS or (own.side == LAST and own.index not in steady):
                    continue
                keys[both] = ordinal
                carried[both] = _after(state, places, partner_places, steady)
    return _Flow(tuple(keys), carried), keys


def _steady(state: State, first: frozenset[int], candidate: frozenset[int]) -> frozenset[int]:
    """The current values of a run that hold the value of its key from the beginning, and after every step if they do before it."""
    if state.update is None:
        return frozenset()
    steady = first
    while True:
        held = steady & _named(state.update, {FIRST: first, CANDIDATE: candidate, LAST: steady})
        if held == steady:
            return steady
        steady = held


def _after(state: State, first: frozenset[int], candidate: frozenset[int], steady: frozenset[int]) -> frozenset[int]:
    """The places of a state's result that hold the value: those of the first input, then those of the candidate or of the run."""
    later = candidate if state.update is None else _named(state.update, {FIRST: first, CANDIDATE: candidate, LAST: steady})
    return first | {len(state.first) + place for place in later}
