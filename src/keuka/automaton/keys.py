"""By which columns the events of a plan may be divided, as they flow through its operators (`plan/partition.py` begins and ends this).

A *way* divides every stream by one column. It is right for an operator if the operator compares that column of all events that can meet:
then what is built from events with equal values needs no others. Ways travel with the tuples, together with the places that hold the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keuka.automaton.model import Bind, Step
from keuka.expressions import FIRST, Column, Expression
from keuka.schema import Type

# Unions of unrelated streams multiply ways. About this many are kept, the same ones every time; each of them is right by itself.
MOST_WAYS = 64


@dataclass(frozen=True)
class Way:
    """By which column each stream is divided. Streams left out can be divided at will."""

    columns: tuple[tuple[str, int], ...]  # (stream, index), ordered
    type: Type | None  # None where no stream is named


AT_WILL = Way((), None)


@dataclass(frozen=True)
class Flow:
    """Tuples on their way through the operators."""

    ways: tuple[Way, ...]  # each is right for all that made these tuples
    carried: Mapping[Way, frozenset[int]]  # the ways that name every stream below, and the places that hold the value by which


# The ways that are right for a state, each with the number of the hash key that compares its value.
StateKeys = Mapping[Way, int]


def join_ways(one: Way, other: Way) -> Way | None:
    """Both at once: a row can go to one place only, so they must agree on the streams they share."""
    columns = dict(one.columns) | dict(other.columns)
    agree = all(columns[stream] == index for stream, index in one.columns)
    if not agree or (one.type and other.type and one.type is not other.type):
        return None
    return Way(tuple(sorted(columns.items())), one.type or other.type)


def combine_ways(ones: tuple[Way, ...], others: tuple[Way, ...]) -> tuple[Way, ...]:
    """Every way of the first is kept with as many of the second as there is room for, so that none is lost for an earlier one."""
    found: dict[Way, None] = {}
    for one in ones:
        room = max(1, MOST_WAYS // len(ones))
        for other in others:
            way = join_ways(one, other)
            if way is not None and way not in found:
                found[way] = None
                room -= 1
            if room == 0:
                break
    return tuple(found)


def unite_flows(one: Flow, other: Flow) -> Flow:
    """Tuples of either kind: a place holds the value if it does in both."""
    by_place: dict[int, list[Way]] = {}
    for way, places in other.carried.items():
        for place in sorted(places):
            by_place.setdefault(place, []).append(way)
    carried: dict[Way, frozenset[int]] = {}
    for way, places in one.carried.items():
        partners = tuple(dict.fromkeys([partner for place in sorted(places) for partner in by_place.get(place, ())]))
        room = max(1, MOST_WAYS // len(one.carried))
        for partner in partners:
            both = join_ways(way, partner)
            if both is not None and room > 0:
                carried[both] = places & other.carried[partner]
                room -= 1
    return Flow(combine_ways(one.ways, other.ways), carried)


def pass_steps(flow: Flow, steps: tuple[Step, ...]) -> Flow:
    """A filter changes nothing. A projection keeps the value where it names its place; what it computes is another value."""
    for step in steps:
        if isinstance(step, Bind):
            kept = {way: places_of(step.items, {FIRST: places}) for way, places in flow.carried.items()}
            flow = Flow(flow.ways, {way: places for way, places in kept.items() if places})
    return flow


def places_of(items: tuple[Expression, ...], places: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """The items that are one of the places, given by side."""
    return frozenset([i for i, e in enumerate(items) if isinstance(e, Column) and e.index in places.get(e.side, ())])
