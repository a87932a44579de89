"""A slow, readable interpreter of the drawable automaton, which keeps a record of everything that happens in it.

In come the events of one epoch after the other, out come the automaton's results and the record of the epoch, for `trace.py` to show.
It is the second thing that runs automata beside the kernel, and exists because the kernel cannot say why: the kernel never looks at
most instances, and tests conditions in parts. A law compares its results with the reference evaluator's, as it does the kernel's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from keuka.algebra import values
from keuka.algebra.semantics import Event, earliest
from keuka.algebra.values import ERROR, Value
from keuka.automaton.model import OUTPUT, Automaton, Edge, Keep, State, Step
from keuka.expressions import Expression, conjuncts
from keuka.schema import MAX_TICK

Sides = tuple[tuple[Value, ...], ...]  # payloads by side, see `expressions.py`


@dataclass(frozen=True)
class Term:
    """One term of a condition, the values it saw, and its own: True, False, None for unknown, or ERROR."""

    expression: Expression
    sides: Sides
    duration: int
    value: Value


@dataclass(frozen=True)
class Check:
    """A condition, term by term. Without terms it always holds."""

    terms: tuple[Term, ...]

    @property
    def holds(self) -> bool:
        return all(term.value is True for term in self.terms)


@dataclass(frozen=True)
class Instance:
    """A tuple that waits in a state. `event` holds what it binds and its times, `last` the values after the latest step of a run."""

    number: int
    state: int
    event: Event
    last: tuple[Value, ...]


@dataclass(frozen=True)
class Passage:
    """What became of a tuple on a forward edge: it reached a state, or the output, or a filter stopped it (None)."""

    checks: tuple[Check, ...]
    reached: Instance | Event | None


@dataclass(frozen=True)
class Begin:
    """An event of a port on a start edge."""

    event: Event
    passage: Passage


@dataclass(frozen=True)
class Refusal:
    """An event that is no candidate for any instance of a state, because a filter of the second input stopped it."""

    event: Event
    state: int
    check: Check


@dataclass(frozen=True)
class Meeting:
    """An instance and a candidate. `skip` is None if the candidate does not follow; the rest is None if `skip` does not hold.

    `is_later`: another simultaneous candidate has an earlier history, and the state chooses by that.
    """

    event: Event  # of the port, from which the candidate was made
    instance: Instance
    skip: Check | None = None
    take: Check | None = None  # FOLD's step
    rebound: Instance | None = None  # the run with one step more
    passage: Passage | None = None
    is_later: bool = False


@dataclass(frozen=True)
class Epoch:
    """All that happened in an automaton while one epoch was processed."""

    expired: list[Instance] = field(default_factory=list)
    begins: list[Begin] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    results: list[Event] = field(default_factory=list)


class UnfitValueError(Exception):
    """The value of an expression does not fit into 64 bits."""

    def __init__(self, expression: Expression) -> None:
        super().__init__(expression)
        self.expression = expression


class Interpreter:
    """One automaton and the instances in it. Their numbers come from `numbers`, which several automata can share."""

    def __init__(self, automaton: Automaton, numbers: Iterator[int]) -> None:
        self.automaton = automaton
        self.numbers = numbers
        self.instances: list[Instance] = []

    def process(self, end: int, events: Mapping[str, Sequence[Event]], epoch: Epoch) -> None:
        """Takes the events of an epoch, by stream, and writes into its record. An overflow leaves the record as far as it came.

        Simultaneous events do not see each other's effects: new instances wait from the next epoch on.
        """
        waiting = [instance for instance in self.instances if not self._expired(instance, end, epoch)]
        staying: list[Instance] = []
        entering: list[Instance] = []
        for start in self.automaton.starts:
            for event in events.get(self.automaton.ports[start.port], ()):
                epoch.begins.append(Begin(event, self._pass(start.edge, self._read(start.port, event), epoch, entering)))
        for index, state in enumerate(self.automaton.states):
            instances = [instance for instance in waiting if instance.state == index]
            arriving = events.get(self.automaton.ports[state.port], ())
            if instances:
                candidates = self._candidates(index, state, arriving, epoch)
                for instance in instances:
                    staying += self._meet(state, instance, candidates, epoch, entering)
            else:
                # A filter is evaluated for every event of its stream, whether somebody waits for it or not: it may overflow.
                for event in arriving:
                    _through(state.candidate, event)
        self.instances = sorted(staying + entering, key=lambda instance: instance.number)

    def _read(self, port: int, event: Event) -> Event:
        return event.as_primitive() if self.automaton.primitive[port] else event

    def _expired(self, instance: Instance, end: int, epoch: Epoch) -> bool:
        expired = end - instance.event.start + 1 > self.automaton.states[instance.state].window
        if expired:
            epoch.expired.append(instance)
        return expired

    def _candidates(self, index: int, state: State, events: Sequence[Event], epoch: Epoch) -> list[tuple[Event, Event]]:
        """Events of the port with the candidates made from them."""
        found = []
        for event in events:
            candidate, checks = _through(state.candidate, self._read(state.port, event))
            if candidate is None:
                epoch.refusals.append(Refusal(event, index, checks[-1]))
            else:
                found.append((event, candidate))
        return found

    def _meet(
        self, state: State, instance: Instance, candidates: list[tuple[Event, Event]], epoch: Epoch, entering: list[Instance]
    ) -> list[Instance]:
        """What waits in the instance's state afterwards: itself if nothing was the next event for it, else the runs that go on."""
        first = instance.event
        found: list[tuple[Event, Event, Check]] = []
        for event, candidate in candidates:
            if not candidate.follows(first):
                epoch.meetings.append(Meeting(event, instance))
                continue
            sides: Sides = (first.payload, candidate.payload, instance.last)
            skip = _check(state.skip, sides, first.then(candidate, ()))
            if skip.holds:
                found.append((event, candidate, skip))
            else:
                epoch.meetings.append(Meeting(event, instance, skip))
        firsts = {id(event) for event in earliest([candidate for _, candidate, _ in found])} if found and state.by_history else None
        chosen: list[tuple[Meeting, Check, Sides, Event]] = []
        for event, candidate, skip in found:
            if firsts is not None and id(candidate) not in firsts:
                epoch.meetings.append(Meeting(event, instance, skip, is_later=True))
                continue
            sides = (first.payload, candidate.payload, instance.last)
            joined = first.then(candidate, first.payload + candidate.payload)
            take = _check(state.take, sides, joined)
            chosen.append((Meeting(event, instance, skip, take), take, sides, joined))
        branches = sum([take.holds for _, take, _, _ in chosen]) > 1
        runs: list[Instance] = []
        for meeting, take, sides, joined in chosen:
            if take.holds and state.update is not None:
                runs.append(self._longer(instance, joined, _payload(state.update, sides), branches))
                joined = replace(joined, payload=first.payload + runs[-1].last)
                meeting = replace(meeting, rebound=runs[-1])
            if take.holds:
                meeting = replace(meeting, passage=self._pass(state.edge, joined, epoch, entering))
            epoch.meetings.append(meeting)
        return runs if chosen else [instance]

    def _longer(self, run: Instance, joined: Event, last: tuple[Value, ...], branches: bool) -> Instance:
        """A run with one step more. It keeps its number unless simultaneous candidates make several of it."""
        number = next(self.numbers) if branches else run.number
        return Instance(number, run.state, replace(joined, payload=run.event.payload), last)

    def _pass(self, edge: Edge, event: Event, epoch: Epoch, entering: list[Instance]) -> Passage:
        tuple_, checks = _through(edge.steps, event)
        if tuple_ is None:
            return Passage(checks, None)
        if edge.target == OUTPUT:
            # Always an object of its own: records tell events apart by identity, and a union may pass one on twice.
            epoch.results.append(replace(tuple_))
            return Passage(checks, epoch.results[-1])
        entering.append(Instance(next(self.numbers), edge.target, tuple_, tuple_.payload))
        return Passage(checks, entering[-1])


def interpreters(automata: Mapping[str, Automaton]) -> dict[str, Interpreter]:
    """One for each automaton, with instances numbered in the order they begin in any of them."""
    numbers = itertools.count(1)
    return {name: Interpreter(automaton, numbers) for name, automaton in automata.items()}


def _through(steps: tuple[Step, ...], event: Event) -> tuple[Event | None, tuple[Check, ...]]:
    """The tuple after the steps of an edge, None if one of them stopped it, and the conditions it met."""
    checks: list[Check] = []
    for step in steps:
        if isinstance(step, Keep):
            checks.append(_check(step.predicate, (event.payload,), event))
            if not checks[-1].holds:
                return None, tuple(checks)
        else:
            event = replace(event, payload=_payload(step.items, (event.payload,)))
    return event, tuple(checks)


def _check(predicate: Expression, sides: Sides, event: Event) -> Check:
    """The terms of a conjunction one by one. Its value is ERROR only where none of them is false or unknown."""
    duration = min(event.end - event.start + 1, MAX_TICK)
    terms = [Term(e, sides, duration, values.evaluate(e, sides, duration)) for e in conjuncts(predicate)]
    failed = [term for term in terms if term.value is ERROR]
    if failed and all(term.value is True or term.value is ERROR for term in terms):
        raise UnfitValueError(failed[0].expression)
    return Check(tuple(terms))


def _payload(items: tuple[Expression, ...], sides: Sides) -> tuple[Value, ...]:
    payload = tuple([values.evaluate(item, sides) for item in items])
    for item, value in zip(items, payload, strict=True):
        if value is ERROR:
            raise UnfitValueError(item)
    return payload
