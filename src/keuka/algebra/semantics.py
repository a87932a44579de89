"""The meaning of the algebra, typed in from docs/semantics.md, 3 and 5: slow, obvious, and what everything else is compared with.

In come an operator and the events of its sources, all of them at once; out come the events of its output, in the order of `end`.
No epochs are processed here, no instances kept: each definition is a loop over whole streams.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as List
from dataclasses import dataclass, replace

from keuka.algebra import values
from keuka.algebra.operators import Alternative, Filter, Fold, Map, Next, Operator, Published, Sequence, Source, Union
from keuka.algebra.values import ERROR, Value
from keuka.errors import data_error
from keuka.expressions import Expression, can_fail, show
from keuka.schema import MAX_TICK


@dataclass(frozen=True)
class Event:
    """A payload and its header; `contributors` are the (stream, row) pairs of the source events behind it, in order.

    `history` are the starts and ends of the primitive events in it: those read from a named stream.
    """

    payload: tuple[Value, ...]
    start: int
    end: int
    contributors: tuple[tuple[str, int], ...] = ()
    history: tuple[int, ...] = ()

    def follows(self, other: Event) -> bool:
        return self.start > other.end

    def then(self, candidate: Event, payload: tuple[Value, ...]) -> Event:
        """The concatenation with a later event, under a given payload."""
        contributors, history = self.contributors + candidate.contributors, self.history + candidate.history
        return Event(payload, self.start, candidate.end, contributors, history)

    def as_primitive(self) -> Event:
        return replace(self, history=(self.start, self.end))


def earliest(events: List[Event]) -> list[Event]:
    """The minimal ones of the history order: from the end, the smaller value at the first difference; the longer if there is none."""
    keys = [(*reversed(event.history), math.inf) for event in events]
    return [event for event, key in zip(events, keys, strict=True) if key == min(keys)]


def evaluate(operator: Operator, streams: Mapping[str, List[Event]]) -> list[Event]:
    """All events of the operator's output, as a bag: sorted by `end`, otherwise in no particular but always the same order."""
    return sorted(_events(operator, streams), key=lambda event: event.end)


def _events(operator: Operator, streams: Mapping[str, List[Event]]) -> Iterator[Event]:
    match operator:
        case Source():
            yield from [event.as_primitive() for event in streams[operator.stream]]
        case Published():
            events = evaluate(operator.input, streams)
            yield from [event.as_primitive() for event in events] if operator.named else events
        case Filter():
            yield from _filter(operator, evaluate(operator.input, streams))
        case Map():
            yield from _map(operator, evaluate(operator.input, streams))
        case Union():
            for one in operator.inputs:
                yield from evaluate(one, streams)
        case Next():
            yield from _next(operator, evaluate(operator.first, streams), evaluate(operator.second, streams))
        case Fold():
            yield from _fold(operator, evaluate(operator.first, streams), evaluate(operator.second, streams))
        case Sequence():
            yield from _sequence(operator, [evaluate(component.input, streams) for component in operator.components])


def _filter(operator: Filter, events: list[Event]) -> Iterator[Event]:
    for event in events:
        if _holds(operator.predicate, (event.payload,), event):
            yield event


def _map(operator: Map, events: list[Event]) -> Iterator[Event]:
    for event in events:
        payload = _payload(operator.items, (event.payload,), event)
        yield replace(event, payload=payload)


def _next(operator: Next, firsts: list[Event], seconds: list[Event]) -> Iterator[Event]:
    for first in firsts:
        for second in _first_following(first, seconds, operator, first.payload):
            joined = first.then(second, first.payload + second.payload)
            if _holds(operator.take, (first.payload, second.payload), joined):
                yield joined


@dataclass(frozen=True)
class _Run:
    """An element of T(n): the event that started it, the values after the latest step, and both as one event."""

    origin: Event
    last: tuple[Value, ...]
    event: Event


def _fold(operator: Fold, firsts: list[Event], seconds: list[Event]) -> Iterator[Event]:
    runs = [_Run(first, first.payload, first) for first in firsts]
    while runs:
        runs = [longer for run in runs for longer in _step(operator, run, seconds)]
        yield from [run.event for run in runs]


def _step(operator: Fold, run: _Run, seconds: list[Event]) -> Iterator[_Run]:
    """The elements of T(n+1) that an element of T(n) gives."""
    first = run.origin.payload
    for second in _first_following(run.event, seconds, operator, first, run.last):
        sides = (first, second.payload, run.last)
        joined = run.event.then(second, ())
        if _holds(operator.step, sides, joined):
            last = _payload(operator.update, sides, joined)
            yield _Run(run.origin, last, run.event.then(second, first + last))


def _first_following(
    event: Event, seconds: list[Event], operator: Next | Fold, first: tuple[Value, ...], last: tuple[Value, ...] = ()
) -> list[Event]:
    """The first of C: the events that follow and satisfy `skip`, those with the smallest `end`; in the history model the earliest of them.

    `skip` is evaluated for all candidates of the deciding epoch and for none of later ones: an overflow there is one
    that nobody who reads the stream in order would have met.
    """
    candidates = [second for second in seconds if second.follows(event)]
    for _, epoch in itertools.groupby(candidates, key=lambda candidate: candidate.end):
        found = [second for second in epoch if _holds(operator.skip, (first, second.payload, last), event.then(second, ()))]
        if found:
            return earliest(found) if operator.by_history else found
    return []


# -- sequences: all combinations -----------------------------------------------------------------------------------------------

_Bound = dict[int, Event]  # by component


def _sequence(operator: Sequence, streams: list[list[Event]]) -> Iterator[Event]:
    last_is_negated = operator.components[-1].negated
    for bound in _combinations(operator, streams):
        if _satisfies(operator, bound, streams):
            events = [bound[i] for i in operator.positive]
            first, last = _first_and_last(bound)
            end = min(first.end + operator.within - 1, MAX_TICK) if last_is_negated else last.end
            parts = zip(*[(event.payload, event.contributors, event.history) for event in events], strict=True)
            payload, contributors, history = (tuple(itertools.chain.from_iterable(part)) for part in parts)
            yield Event(payload, min([event.start for event in events]), end, contributors, history)


def _combinations(operator: Sequence, streams: list[list[Event]]) -> Iterator[_Bound]:
    """One event of every positive component, no two of them simultaneous, in order if that is asked for, within the window."""
    found: list[_Bound] = [{}]
    for i in operator.positive:
        found = [bound | {i: event} for bound in found for event in streams[i] if _goes_with(operator, bound, event)]
    yield from found


def _goes_with(operator: Sequence, bound: _Bound, event: Event) -> bool:
    before = list(bound.values())
    is_placed = all(one.end < event.end if operator.ordered else one.end != event.end for one in before)
    return is_placed and (operator.within == MAX_TICK or all(abs(event.end - one.end) < operator.within for one in before))


def _first_and_last(bound: _Bound) -> tuple[Event, Event]:
    in_time = sorted(bound.values(), key=lambda event: event.end)
    return in_time[0], in_time[-1]


def _satisfies(operator: Sequence, bound: _Bound, streams: list[list[Event]]) -> bool:
    """One alternative is enough. Where none is satisfied, what fails to be calculated is raised."""
    found = [_holds_alternative(operator, alternative, bound, streams) for alternative in operator.alternatives]
    if True not in found and ERROR in found:
        terms = [term for alternative in operator.alternatives for part in (alternative.terms, *alternative.absent) for term in part]
        raise _overflow(next(term for term in terms if can_fail(term)), list(bound.values())[-1], sided=False)
    return True in found


def _holds_alternative(operator: Sequence, alternative: Alternative, bound: _Bound, streams: list[list[Event]]) -> Value | object:
    parts = [_all(alternative.terms, bound, len(operator.components))]
    for i, terms in zip(operator.negated, alternative.absent, strict=True):
        after, before = _scope(operator, i, bound)
        candidates = [event for event in streams[i] if after < event.end < before]
        parts.append(_none_of([_all(terms, bound | {i: event}, len(operator.components)) for event in candidates]))
    return False if False in parts else ERROR if ERROR in parts else True


def _all(terms: tuple[Expression, ...], bound: _Bound, n: int) -> Value | object:
    """Do all terms hold? One that does not makes up for another that cannot be calculated."""
    sides = tuple([bound[i].payload if i in bound else () for i in range(n)])
    found = [values.evaluate(term, sides) for term in terms]
    return False if False in found or None in found else ERROR if ERROR in found else True


def _none_of(found: list[Value | object]) -> Value | object:
    return False if True in found else ERROR if ERROR in found else True


def _scope(operator: Sequence, i: int, bound: _Bound) -> tuple[float, float]:
    """The ticks between which an event of negated component i is in the way, themselves not included."""
    first, last = _first_and_last(bound)
    after = [bound[k].end for k in operator.positive if k < i]
    before = [bound[k].end for k in operator.positive if k > i]
    if not after:
        return (-math.inf if operator.within == MAX_TICK else last.end - operator.within), first.end
    return after[-1], before[0] if before else first.end + operator.within


_Sides = tuple[tuple[Value, ...], ...]  # payloads by side, see `expressions.py`


def _holds(predicate: Expression, sides: _Sides, event: Event) -> bool:
    """Is the predicate true (not false, not unknown) of the event the sides make up?"""
    value = values.evaluate(predicate, sides, min(event.end - event.start + 1, MAX_TICK))
    if value is ERROR:
        raise _overflow(predicate, event)
    return value is True


def _payload(items: tuple[Expression, ...], sides: _Sides, event: Event) -> tuple[Value, ...]:
    payload = tuple([values.evaluate(item, sides) for item in items])
    for item, value in zip(items, payload, strict=True):
        if value is ERROR:
            raise _overflow(item, event)
    return payload


def _overflow(expression: Expression, event: Event, sided: bool = True) -> Exception:
    rows = ", ".join([f"row {row} of `{stream}`" for stream, row in event.contributors])
    return data_error(
        "K507",
        f"the value of `{show(expression, sided=sided)}` does not fit into 64 bits",
        "calculate with doubles: multiply by 1.0 first",
        where=f"at {rows}" if rows else f"at the event from {event.start} to {event.end}",
    )
