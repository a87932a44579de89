"""How a trace is written: one block an event, in it the instances it met, each condition with the values it saw, and what came of it.

In come the records of `interpreter.py`, epoch by epoch; out comes text whose columns are aligned over the whole trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from keuka.algebra.semantics import Event
from keuka.algebra.values import ERROR
from keuka.automaton.automata import AutomatonOperator
from keuka.automaton.contract import Plan, Stage
from keuka.automaton.model import State, state_name
from keuka.events.clocks import show_duration, show_time
from keuka.expressions import FIRST, LAST, Call, Expression, conjuncts
from keuka.run.interpreter import Check, Epoch, Instance, Meeting, Passage, Term
from keuka.run.trace_terms import seen, shortened, show_value, written
from keuka.schema import MAX_TICK, TimeAxis

MOST_OTHERS = 3  # instances with other keys that are named under an event; the rest is counted
MOST_WAITING = 20  # instances that are named at the end
WIDEST = 40  # a column is aligned up to here; what is longer stands out

_VERDICTS = {True: "true", False: "false", None: "unknown", ERROR: "overflow"}


@dataclass(frozen=True)
class Row:
    """One term of a condition: where it stands, its text, the same with values, its own value, what came of it."""

    role: str
    condition: str = ""
    seen: str = ""
    verdict: str = ""
    outcome: str = ""


Line = str | Row


class Report:
    """The trace as far as it has come."""

    def __init__(self, plan: Plan, operators: Mapping[str, AutomatonOperator], axis: TimeAxis, heading: str) -> None:
        self.axis = axis
        self.automata = {name: operator.automaton for name, operator in operators.items()}
        self.needs = {name: operator.needs for name, operator in operators.items()}
        self.reads = plan.wanted
        self.output = plan.outputs[0][1]
        self.stages = {stage.name: stage for stage in plan.stages}
        self.schemas = {s.stream: s.schema for s in plan.sources} | {s.name: s.physical.schema for s in plan.stages}
        self.keys = {name: [_keys(state) for state in automaton.states] for name, automaton in self.automata.items()}
        self.lines: list[Line] = [heading, *[f"  {text}" for stage in plan.stages for text in self._states(stage)]]
        self.n_events = 0
        self.n_expired = 0
        self.matches: list[Event] = []

    # -- an epoch --------------------------------------------------------------------------------------------------------

    def epoch(self, arrivals: Sequence[tuple[str, Event]], records: Mapping[str, Epoch], is_shown: Callable[[Event], bool]) -> None:
        """Adds a block for every event that is shown, and for every other one that was the next for what such events began."""
        expired = [
            f"  {self._expired(self.stages[name], instance)}"
            for name, record in records.items()
            for instance in record.expired
            if is_shown(instance.event)
        ]
        self.n_expired += len(expired)
        derived = [(name, event) for name, record in records.items() if name != self.output for event in record.results]
        n_before = self.n_events
        for stream, event in (*arrivals, *derived):
            lines = self._happenings(event, records, is_shown)
            if lines or is_shown(event):
                note = "  (at the same time)" if self.n_events > n_before and stream not in self.stages else ""
                heading = f"{self._times(event)}  {stream}  {self._payload(stream, event)}".rstrip() + note
                self.n_events += stream not in self.stages
                self.lines += ["", heading, *expired, *(lines or ["  nothing waits for it"])]
                expired = []
        self.lines += ["", *expired] if expired else []

    def _happenings(self, event: Event, records: Mapping[str, Epoch], is_shown: Callable[[Event], bool]) -> list[Line]:
        lines: list[Line] = []
        mine = is_shown(event)
        for name, record in records.items():
            stage = self.stages[name]
            for begin in record.begins:
                if mine and begin.event is event:
                    nothing = "nothing begins" if len(self.stages) == 1 else f"nothing begins in {name}"
                    lines += self._passage(stage, "  start", begin.passage, [], nothing)
            for refusal in record.refusals:
                if mine and refusal.event is event:
                    rows = self._check(f"  for {self._state(stage, refusal.state)}", refusal.check)
                    lines += _with_outcome(rows, "not a candidate")
            met = [m for m in record.meetings if m.event is event and (mine or (m.take is not None and is_shown(m.instance.event)))]
            lines += self._meetings(stage, sorted(met, key=lambda meeting: meeting.instance.number))
        return lines

    def _meetings(self, stage: Stage, meetings: list[Meeting]) -> list[Line]:
        """Instances with other keys come last, in short: the engine does not even look at them."""
        lines: list[Line] = []
        others: list[tuple[Instance, Term]] = []
        for meeting in meetings:
            keys = self.keys[stage.name][meeting.instance.state]
            terms = () if meeting.skip is None else meeting.skip.terms
            other = next((term for term in terms if term.value is not True and _operands(term.expression) in keys), None)
            if other is None:
                lines += [f"  {self._instance(stage, meeting.instance)}", *self._meeting(stage, meeting)]
            else:
                others.append((meeting.instance, other))
        for instance, term in others[:MOST_OTHERS]:
            why = f"{written(term.expression, ())}: {seen(term, self.axis)} is {_VERDICTS[term.value]}"
            lines.append(f"  #{instance.number} in {self._state(stage, instance.state)} waits on, {why}")
        n_more = len(others) - MOST_OTHERS
        return lines + ([f"  and {n_more:,} more wait on, for other keys"] if n_more > 0 else [])

    def _meeting(self, stage: Stage, meeting: Meeting) -> list[Line]:
        state = self.automata[stage.name].states[meeting.instance.state]
        if meeting.skip is None:
            begins, ended = show_time(meeting.event.start, self.axis), show_time(meeting.instance.event.end, self.axis)
            return [Row("    next", f"begins at {begins}, not after {ended}", outcome="does not follow; waits on")]
        rows = self._check("    next", meeting.skip) or [Row("    next", "always")]
        if meeting.take is None:
            return list(_with_outcome(rows, "later by its history" if meeting.is_later else "waits on"))
        is_run = state.update is not None
        if is_run or state.take != state.skip:
            rows += self._check("    step" if is_run else "    take", meeting.take)
        if meeting.rebound is not None:
            rows = _with_outcome(rows, self._going_on(stage, meeting.instance, meeting.rebound))
        if meeting.passage is None:
            return list(_with_outcome(rows, "ends"))
        return self._passage(stage, "    then", meeting.passage, rows, "no result yet" if is_run else "ends")

    def _passage(self, stage: Stage, role: str, passage: Passage, rows: list[Row], otherwise: str) -> list[Line]:
        """The rows so far and those of an edge, with what became of the tuple beside the last of them."""
        for check in passage.checks:
            rows = rows + self._check(role, check)
        rows = rows or [Row(role, "always")]
        if passage.reached is None:
            return list(_with_outcome(rows, otherwise))
        if isinstance(passage.reached, Instance):
            where = self._state(stage, passage.reached.state)
            return list(_with_outcome(rows, f"#{passage.reached.number} waits in {where}"))
        if stage.name != self.output:
            return list(_with_outcome(rows, f"an event of {stage.name}"))
        self.matches.append(passage.reached)
        match = f"match {len(self.matches)}"
        times = ("at " if passage.reached.start == passage.reached.end else "from ") + self._times(passage.reached)
        found = f"      {match} {times}: {self._payload(self.output, passage.reached)}"
        return [*_with_outcome(rows, match), found]

    def _check(self, role: str, check: Check) -> list[Row]:
        """A row for each term; the first says where the condition stands."""
        beside = [term.expression for term in check.terms]
        rows = [Row("", written(term.expression, beside), seen(term, self.axis), _VERDICTS[term.value]) for term in check.terms]
        return [replace(row, role=role if i == 0 else "") for i, row in enumerate(rows)]

    # -- names and values ------------------------------------------------------------------------------------------------

    def _state(self, stage: Stage, index: int) -> str:
        name = state_name(self.automata[stage.name], index)
        return name if len(self.stages) == 1 else f"{name} of {stage.name}"

    def _states(self, stage: Stage) -> list[str]:
        """What each state waits for, in the order in which events pass them."""
        found = []
        for index, state in reversed(list(enumerate(self.automata[stage.name].states))):
            terms = [written(term, ()) for term in conjuncts(state.skip)]
            condition = f" with {shortened(' AND '.join(terms))}" if terms else ""
            found.append(f"{self._state(stage, index)} waits for {self.automata[stage.name].ports[state.port]}{condition}")
        return found

    def _instance(self, stage: Stage, instance: Instance) -> str:
        since = f"#{instance.number} in {self._state(stage, instance.state)} since {show_time(instance.event.start, self.axis)}"
        held = self._held(stage, instance)
        return since + (f" with {_listed(held.items())}" if held else "")

    def _expired(self, stage: Stage, instance: Instance) -> str:
        window = show_duration(self.automata[stage.name].states[instance.state].window, self.axis)
        return f"{self._instance(stage, instance)} expires, DUR would be more than {window}"

    def _held(self, stage: Stage, instance: Instance) -> dict[str, str]:
        """The values that something still reads, under the names they have in the braces of the query."""
        first = self.automata[stage.name].states[instance.state].first
        held = {}
        for side, index in self.needs[stage.name][instance.state].places:
            value = instance.event.payload[index] if side == FIRST else instance.last[index]
            held[("$." if side == LAST else "$1.") + first[index].name] = show_value(value, first[index].type, self.axis)
        return held

    def _going_on(self, stage: Stage, before: Instance, after: Instance) -> str:
        old, new = self._held(stage, before), self._held(stage, after)
        changes = _listed([(name, value) for name, value in new.items() if value != old[name]])
        number = f" as #{after.number}" if after.number != before.number else ""
        return f"goes on{number}" + (f" with {changes}" if changes else "")

    def _payload(self, stream: str, event: Event) -> str:
        schema = self.schemas[stream]
        return _listed([(schema[i].name, show_value(event.payload[i], schema[i].type, self.axis)) for i in self.reads[stream]])

    def _times(self, event: Event) -> str:
        start, end = show_time(event.start, self.axis), show_time(event.end, self.axis)
        return end if start == end else f"{start} to {end}"

    # -- the end ---------------------------------------------------------------------------------------------------------

    def ending(self, waiting: Sequence[tuple[str, Instance]], n_more: int) -> None:
        """Adds which instances still wait and for what, and the numbers of everything."""
        if n_more:
            self.lines += ["", f"... and {_counted(n_more, 'more event')}; `limit=` shows more"]
        if waiting:
            self.lines += ["", "waiting now" if n_more else "waiting at the end"]
            self.lines += [f"  {self._waiting(self.stages[name], instance)}" for name, instance in waiting[:MOST_WAITING]]
        if len(waiting) > MOST_WAITING:
            self.lines.append(f"  and {len(waiting) - MOST_WAITING:,} more")
        counts = [_counted(self.n_events, "event"), _counted(len(self.matches), "match", "matches")]
        counts += [f"{_counted(len(waiting), 'partial match', 'partial matches')} waiting", f"{self.n_expired:,} expired"]
        self.lines += ["", ", ".join(counts)]

    def _waiting(self, stage: Stage, instance: Instance) -> str:
        """An instance, and the last moment at which what it waits for can come."""
        window = self.automata[stage.name].states[instance.state].window
        last = instance.event.start + window - 1
        deadline = f", until {show_time(last, self.axis)}" if window < MAX_TICK and last < MAX_TICK else ""
        return self._instance(stage, instance) + deadline

    def overflow(self, expression: Expression) -> None:
        """Adds that the query ends here with an error."""
        self.lines += ["", f"error[K507]: the value of `{written(expression, ())}` does not fit into 64 bits; `match` stops here"]

    def text(self) -> str:
        rows = [line for line in self.lines if isinstance(line, Row)]
        widths = [
            max([len(text) for text in column if len(text) <= WIDEST], default=0)
            for column in zip(*[(r.role, r.condition, r.seen, r.verdict) for r in rows], strict=True)
        ]
        lines = [_aligned(line, widths) if isinstance(line, Row) else line for line in self.lines]
        return "\n".join(lines)


def _aligned(row: Row, widths: Sequence[int]) -> str:
    cells = (row.role, row.condition, row.seen, row.verdict)
    return "   ".join([*[f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)], row.outcome]).rstrip()


def _with_outcome(rows: list[Row], outcome: str) -> list[Row]:
    """The outcome beside the last row, after another that may stand there."""
    last = rows[-1]
    return [*rows[:-1], replace(last, outcome=f"{last.outcome}; {outcome}" if last.outcome else outcome)]


def _keys(state: State) -> list[set[Expression]]:
    """The equalities that are looked up in the state's hash index."""
    return [{candidate, own} for candidate, own in state.conditions.keys]


def _operands(term: Expression) -> set[Expression]:
    return set(term.args) if isinstance(term, Call) and term.op == "eq" else set()


def _listed(values: Iterable[tuple[str, str]]) -> str:
    return ", ".join([f"{name} {value}" for name, value in values])


def _counted(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
