"""The key of a plan: columns such that events with different values of them never meet, so that each kernel can take its share.

In come the stages of a plan, out comes a Partition or None. Every operator says how ways to divide events pass it (`automaton/keys.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from keuka.algebra.operators import Source
from keuka.automaton.contract import Partition, Stage
from keuka.automaton.keys import AT_WILL, Flow, StateKeys, Way, combine_ways
from keuka.schema import Type


def find_partition(sources: Sequence[Source], stages: Sequence[Stage]) -> Partition | None:
    """The key of a plan if it has one. `stages` are in the order they run."""
    flows = {source.stream: _source_flow(source) for source in sources}
    states: dict[str, tuple[StateKeys, ...]] = {}
    for stage in stages:
        flows[stage.name], states[stage.name] = stage.physical.pass_key(flows)
    ways = functools.reduce(combine_ways, [flows[stage.name].ways for stage in stages])
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


def _source_flow(source: Source) -> Flow:
    types = [attribute.type for attribute in source.schema.attributes]
    comparable = [i for i, type_ in enumerate(types) if type_ is not Type.OTHER]
    return Flow((AT_WILL,), {Way(((source.stream, i),), types[i]): frozenset([i]) for i in comparable})


def _components(ways: Iterable[Way]) -> tuple[Way, ...]:
    """Ways that have no column in common: a second one for a column would tell no more rows apart. Plans agree on their order."""
    chosen: list[Way] = []
    for way in sorted(ways, key=lambda way: way.columns):
        if way.columns and not any(set(way.columns) & set(earlier.columns) for earlier in chosen):
            chosen.append(way)
    return tuple(chosen)


def _ordinal(keys: StateKeys, way: Way) -> int:
    streams = {stream for stream, _ in next(iter(keys)).columns}
    return keys[Way(tuple([(stream, index) for stream, index in way.columns if stream in streams]), way.type)]
