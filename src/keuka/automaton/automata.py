"""Automata as a plan sees them: the operator that computes filters, projections, unions, NEXT and FOLD (`contract.py`).

`build.py` makes the automaton, `code.py` writes its programs; here are the way of a key through its states, and its description.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from keuka.automaton.code import AutomatonWriter, StateNeeds, port_reads, state_needs
from keuka.automaton.contract import Description, Ordinals, ShowTicks, quote_label
from keuka.automaton.keys import MOST_WAYS, Flow, StateKeys, Way, join_ways, pass_steps, places_of, unite_flows
from keuka.automaton.model import OUTPUT, Automaton, Bind, Edge, Keep, State, Step, state_name
from keuka.automaton.writer import Writer
from keuka.expressions import CANDIDATE, FIRST, LAST, Column, conjunction, conjuncts, show, substitute
from keuka.schema import MAX_TICK, Schema, shown_name


@dataclass(frozen=True)
class AutomatonOperator:
    kind: ClassVar[str] = "automata"

    automaton: Automaton
    wanted: tuple[int, ...] = ()
    needs: tuple[StateNeeds, ...] = ()
    reads: Mapping[str, set[int]] = field(default_factory=dict)

    @property
    def ports(self) -> tuple[str, ...]:
        return self.automaton.ports

    @property
    def schema(self) -> Schema:
        return self.automaton.schema

    @property
    def by_history(self) -> bool:
        return any(state.by_history for state in self.automaton.states)

    def for_columns(self, wanted: tuple[int, ...]) -> AutomatonOperator:
        needs = state_needs(self.automaton, wanted)
        return replace(self, wanted=wanted, needs=needs, reads=port_reads(self.automaton, wanted, needs))

    def pass_key(self, flows: Mapping[str, Flow]) -> tuple[Flow, tuple[StateKeys, ...]]:
        """Edges lead to smaller numbers, so the last state comes first."""
        automaton = self.automaton
        entering: dict[int, list[Flow]] = {}
        for start in automaton.starts:
            flow = pass_steps(flows[automaton.ports[start.port]], start.edge.steps)
            entering.setdefault(start.edge.target, []).append(flow)
        found: list[StateKeys] = []
        for index in range(len(automaton.states) - 1, -1, -1):
            state = automaton.states[index]
            first = functools.reduce(unite_flows, entering[index])
            flow, keys = _pass_state(state, first, pass_steps(flows[automaton.ports[state.port]], state.candidate))
            entering.setdefault(state.edge.target, []).append(pass_steps(flow, state.edge.steps))
            found.append(keys)
        return functools.reduce(unite_flows, entering[OUTPUT]), tuple(reversed(found))

    def reach(self, can_fail: bool) -> int | None:
        """DUR only grows along the way, so the last state's bound is one for the match; errors come from any state."""
        windows = [state.window for state in self.automaton.states if can_fail or state.edge.target == OUTPUT]
        return max(windows, default=0) if all(window < MAX_TICK for window in windows) else None

    def can_mistake_absence(self, makes_streams: bool) -> bool:
        return False

    def places(self) -> Iterator[tuple[str, tuple[Step, ...]]]:
        for start in self.automaton.starts:
            yield self.ports[start.port], start.edge.steps
        for state in self.automaton.states:
            # A candidate that does not satisfy `skip` is as if it never came. One that satisfies it but not `take` ends the instance.
            static = substitute(conjunction(state.conditions.static), lambda column: replace(column, side=FIRST))
            yield self.ports[state.port], (*state.candidate, Keep(static))

    def write(self, writer: Writer, ordinals: Ordinals) -> None:
        AutomatonWriter(writer, self.automaton, self.wanted, self.needs, ordinals).write()

    # -- for people ------------------------------------------------------------------------------------------------------

    def describe(self, name: str, show_ticks: ShowTicks) -> Description:
        automaton = self.automaton
        starts = [{"stream": self.ports[s.port], **self._edge(s.edge)} for s in automaton.starts]
        states = [self._state(i, show_ticks) for i in range(len(automaton.states) - 1, -1, -1)]
        lines = [f"automaton {name}", *[f"  start {s['stream']}{_steps_text(s)} -> {s['target']}" for s in starts]]
        for state in states:
            lines.append(f"  {state['state']}: waits for {state['waits_for']}, holds {', '.join(state['holds']) or 'times only'}")
            lines += [f"     {key.replace('_', ' ')}: {value}" for key, value in state["tests"].items()]
            lines += [f"     {edge['edge']}{_steps_text(edge)} -> {edge['target']}" for edge in state["edges"]]
        return Description({"stream": name, "starts": starts, "states": states}, lines)

    def _state(self, index: int, show_ticks: ShowTicks) -> dict[str, Any]:
        state, needs = self.automaton.states[index], self.needs[index]
        held = [("$." if side else "") + shown_name(state.first[i].name) for side, i in needs.places]
        name = state_name(self.automaton, index)
        rebind = {"edge": "rebind", "steps": [f"when {show(state.take, sided=True)}"], "target": name}
        return {
            "state": name,
            "waits_for": " ".join([self.ports[state.port], *_show_steps(state.candidate)]),
            "holds": held + [show(key, sided=True) for key in needs.computed_keys],
            "tests": _tests(state, show_ticks),
            "edges": [*([] if state.update is None else [rebind]), {"edge": "forward", **self._edge(state.edge)}],
        }

    def _edge(self, edge: Edge) -> dict[str, Any]:
        return {"steps": _show_steps(edge.steps), "target": state_name(self.automaton, edge.target)}

    def draw(self, prefix: str) -> list[str]:
        """Filter edges above, rebind edges below a state."""
        automaton = self.automaton
        lines = []
        for start in automaton.starts:
            label = " ".join([self.ports[start.port], *_show_steps(start.edge.steps)])
            lines.append(f"{prefix}start -> {prefix}{state_name(automaton, start.edge.target)} [label={quote_label(label)}];")
        for i, state in enumerate(automaton.states):
            name = prefix + state_name(automaton, i)
            lines.append(f"{name} [label={quote_label(state_name(automaton, i))}];")
            if conjuncts(state.skip):
                lines.append(f"{name} -> {name} [style=dashed, label={quote_label(f'unless {show(state.skip, sided=True)}')}];")
            if state.update is not None:
                lines.append(f"{name} -> {name} [label={quote_label(f'rebind when {show(state.take, sided=True)}')}];")
            label = " ".join([self.ports[state.port], *_show_steps(state.edge.steps)])
            lines.append(f"{name} -> {prefix}{state_name(automaton, state.edge.target)} [label={quote_label(label)}];")
        return lines


def _show_steps(steps: tuple[Step, ...]) -> list[str]:
    return [f"bind ({', '.join([show(i) for i in s.items])})" if isinstance(s, Bind) else f"when {show(s.predicate)}" for s in steps]


def _steps_text(edge: dict[str, Any]) -> str:
    return "".join([f" {step}" for step in edge["steps"]])


def _tests(state: State, show_ticks: ShowTicks) -> dict[str, str]:
    """How candidates are tested: the filter edge is taken unless all of these hold."""
    conditions = state.conditions
    found = {}
    if conditions.static:
        found["per_batch"] = show(conjunction(conditions.static), sided=True)
    if conditions.keys:
        found["hash_index"] = ", ".join([f"{show(other, sided=True)} = {show(own, sided=True)}" for other, own in conditions.keys])
    if conditions.residual:
        found["bytecode"] = show(conjunction(conditions.residual), sided=True)
    if state.update is None and state.take != state.skip and conjuncts(state.take):
        found["take"] = show(state.take, sided=True)
    if state.window < MAX_TICK:
        found["expires_beyond"] = f"DUR {show_ticks(state.window)}"
    return found


# -- the key ---------------------------------------------------------------------------------------------------------------


def _pass_state(state: State, first: Flow, second: Flow) -> tuple[Flow, StateKeys]:
    """Ways in which an instance and the candidates it can meet have equal values, because a hash key compares them."""
    keys: dict[Way, int] = {}
    carried: dict[Way, frozenset[int]] = {}
    for ordinal, (candidate, own) in enumerate(state.conditions.keys):
        if not isinstance(candidate, Column) or not isinstance(own, Column):
            continue
        theirs = [(way, places) for way, places in second.carried.items() if candidate.index in places]
        for way, places in first.carried.items():
            if own.index not in places:
                continue
            for partner, partner_places in theirs:
                both = join_ways(way, partner)
                steady = _steady(state, places, partner_places)
                if both is None or both in keys or len(keys) == MOST_WAYS or (own.side == LAST and own.index not in steady):
                    continue
                keys[both] = ordinal
                carried[both] = _after(state, places, partner_places, steady)
    return Flow(tuple(keys), carried), keys


def _steady(state: State, first: frozenset[int], candidate: frozenset[int]) -> frozenset[int]:
    """The current values of a run that hold the value of its key from the beginning, and after every step if they do before it."""
    if state.update is None:
        return frozenset()
    steady = first
    while True:
        held = steady & places_of(state.update, {FIRST: first, CANDIDATE: candidate, LAST: steady})
        if held == steady:
            return steady
        steady = held


def _after(state: State, first: frozenset[int], candidate: frozenset[int], steady: frozenset[int]) -> frozenset[int]:
    """The places of a state's result that hold the value: those of the first input, then those of the candidate or of the run."""
    later = candidate if state.update is None else places_of(state.update, {FIRST: first, CANDIDATE: candidate, LAST: steady})
    return first | {len(state.first) + place for place in later}
