"""Sequences of all combinations as a plan sees them: the operator that computes a Sequence, with a Map above it or not (`contract.py`).

`stacks.py` makes the stacks, `stack_code.py` writes their programs; here are the way of a key through them, and their description.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, ClassVar

from keuka.automaton.contract import Description, Ordinals, ShowTicks, quote_label
from keuka.automaton.keys import MOST_WAYS, Flow, StateKeys, join_ways, pass_steps, places_of, unite_flows
from keuka.automaton.model import Keep, Step
from keuka.automaton.stack_code import Kept, StackWriter, kept_attributes, stack_reads
from keuka.automaton.stacks import StackComponent, Stacks
from keuka.automaton.writer import Writer
from keuka.expressions import Expression, conjunction, show
from keuka.schema import MAX_TICK, Schema, shown_name

# The steps of a sequence as text shows them (the SASE paper, section 3), after the scan.
_STEPS = {"construction": "sequence construction"} | {step: step for step in ("selection", "window", "negation", "transformation")}


@dataclass(frozen=True)
class SequenceOperator:
    kind: ClassVar[str] = "sequences"

    stacks: Stacks
    wanted: tuple[int, ...] = ()
    kept: Kept = ()
    reads: Mapping[str, set[int]] = field(default_factory=dict)

    @property
    def ports(self) -> tuple[str, ...]:
        return self.stacks.ports

    @property
    def schema(self) -> Schema:
        return self.stacks.schema

    @property
    def by_history(self) -> bool:
        return False

    def for_columns(self, wanted: tuple[int, ...]) -> SequenceOperator:
        kept = kept_attributes(self.stacks, wanted)
        return replace(self, wanted=wanted, kept=kept, reads=stack_reads(self.stacks, kept))

    def pass_key(self, flows: Mapping[str, Flow]) -> tuple[Flow, tuple[StateKeys, ...]]:
        """Events of stacks with different keys never meet, if every component has the key. A component of the plan's key has one type."""
        flow: Flow | None = None
        held: dict[int, frozenset[int]] = {}
        for i, component in enumerate(self.stacks.components):
            if component.key is None or component.as_double:
                return Flow((), {}), ()
            mine = self._component_flow(component, flows)
            kept = {way: places for way, places in mine.carried.items() if component.key in places}
            if flow is None:
                flow = Flow(tuple(kept), kept)
            else:
                joined = {both: frozenset([0]) for way in flow.carried for other in kept if (both := join_ways(way, other)) is not None}
                flow = Flow(tuple(joined), dict(list(joined.items())[:MOST_WAYS]))
            held[i] = frozenset([component.key])
        assert flow is not None
        places = places_of(self.stacks.items, held)
        return Flow(tuple(flow.carried), {way: places for way in flow.carried if places}), ()

    def _component_flow(self, component: StackComponent, flows: Mapping[str, Flow]) -> Flow:
        return functools.reduce(unite_flows, [pass_steps(flows[self.ports[feed.port]], feed.steps) for feed in component.feeds])

    def reach(self, can_fail: bool) -> int | None:
        """An absence at the start is looked for in the window before the last event, which may end a window before the match."""
        if self.stacks.within == MAX_TICK or not self.stacks.rules.window:
            return None
        return self.stacks.within * (2 if self.stacks.waits and self.stacks.components[0].negated else 1)

    def can_mistake_absence(self, makes_streams: bool) -> bool:
        """Between two events of a source a slice has all others, but not all that is made."""
        components = self.stacks.components
        return components[0].negated or components[-1].negated or (makes_streams and any(c.negated for c in components))

    def places(self) -> Iterator[tuple[str, tuple[Step, ...]]]:
        for component in self.stacks.components:
            for feed in component.feeds:
                yield self.ports[feed.port], (*feed.steps, Keep(conjunction(component.scanned)))

    def write(self, writer: Writer, ordinals: Ordinals) -> None:
        StackWriter(writer, self.stacks, self.wanted, self.kept).write()

    # -- for people ------------------------------------------------------------------------------------------------------

    def describe(self, name: str, show_ticks: ShowTicks) -> Description:
        """The operators of the SASE paper (section 3), and where each condition is tested."""
        stacks = self.stacks
        last = len(stacks.searches[0]) - 1
        construction, selection = [], []
        for search in stacks.searches:
            for i, level in enumerate(search):
                tests = [test for test in level.tests if i < last or stacks.rules.construction]
                shown = "".join([f" when {_test(test.terms, test.alternative)}" for test in tests])
                construction.append(f"{'from' if i == 0 else 'back to'} {stacks.components[level.component].name}{shown}")
                selection += [_test(test.terms, test.alternative) for test in level.tests if test not in tests]
        items = [(show(stacks.items[i]), stacks.schema.names[i]) for i in self.wanted]
        facts: dict[str, Any] = {
            "stream": name,
            "scan": self._scan(),
            "construction": construction,
            "selection": selection,
            "window": self._window(show_ticks),
            "negation": self._negation(),
            "transformation": [", ".join([column if text == column else f"{text} AS {column}" for text, column in items])],
        }
        lines = [f"sequence {name}", "  sequence scan", *[f"     {scan}" for scan in facts["scan"]]]
        for step, title in _STEPS.items():
            lines += [f"  {title}", *[f"     {line}" for line in facts[step] or ["nothing"]]]
        return Description(facts, lines)

    def _scan(self) -> list[str]:
        components = self.stacks.components
        lines = []
        for component, attributes in zip(components, self.kept, strict=True):
            feeds = []
            for feed in component.feeds:
                tests = [show(step.predicate) for step in feed.steps if isinstance(step, Keep)] + [show(term) for term in component.scanned]
                feeds.append(self.ports[feed.port] + (f" when {' AND '.join(tests)}" if tests else ""))
            held = ", ".join([shown_name(component.schema[i].name) for i in attributes]) or "times only"
            lines.append(f"{'!' if component.negated else ''}{component.name}: {' or '.join(feeds)}, keeps {held}")
        keys = [f"{c.name}.{shown_name(c.schema[c.key].name)}" for c in components if c.key is not None]
        return [*lines, f"stacks divided by {' = '.join(keys)}" if keys else "stacks not divided: no equivalence test joins the components"]

    def _window(self, show_ticks: ShowTicks) -> list[str]:
        if self.stacks.within == MAX_TICK:
            return ["none: events are kept for ever"]
        where = "in scan and construction" if self.stacks.rules.window else "after construction"
        waits = "; matches come when it is over" if self.stacks.waits else ""
        return [f"less than {show_ticks(self.stacks.within, unit=True)} from first to last, {where}{waits}"]

    def _negation(self) -> list[str]:
        lines = []
        for absence in chain.from_iterable([level.absences for search in self.stacks.searches for level in search]):
            terms = _test(absence.terms, absence.alternative)
            with_ = f" with {terms}" if terms else ""
            lines.append(f"no {self.stacks.components[absence.component].name}{with_} {self._scope(absence.component)}")
        return lines

    def _scope(self, negated: int) -> str:
        """Where an event of a negated component is in the way."""
        stacks = self.stacks
        names = [component.name for component in stacks.components]
        before = [i for i in stacks.positive if i < negated]
        after = [i for i in stacks.positive if i > negated]
        if not before:
            return f"before {names[after[0]]}" + ("" if stacks.within == MAX_TICK else f", less than the window before {names[after[-1]]}")
        return f"between {names[before[-1]]} and {names[after[0]]}" if after else f"after {names[before[-1]]}, until the window is over"

    def draw(self, prefix: str) -> list[str]:
        """A box for each stack, from left to right; negated ones are dashed."""
        lines = []
        for i, component in enumerate(self.stacks.components):
            style = "dashed" if component.negated else "solid"
            label = quote_label(("!" if component.negated else "") + component.name)
            lines.append(f"{prefix}c{i} [shape=box, style={style}, label={label}];")
            ports = " or ".join(dict.fromkeys([self.ports[feed.port] for feed in component.feeds]))
            lines.append(f"{prefix}start -> {prefix}c{i} [style=dotted, label={quote_label(ports)}];")
        ends = [*[f"{prefix}c{i}" for i in range(len(self.stacks.components))], f"{prefix}output"]
        return [*lines, *[f"{one} -> {other};" for one, other in pairwise(ends)]]


def _test(terms: tuple[Expression, ...], alternative: int) -> str:
    number = "" if alternative < 0 else f"(alternative {alternative + 1}) "
    return number + " AND ".join([show(term, outer=3) for term in terms]) if terms else number.strip()
