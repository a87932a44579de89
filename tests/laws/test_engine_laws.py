"""The laws of live engines: any way of pushing, adding, removing and resuming gives what the definitions say.

Every law compares with the reference evaluator over the events that a rule is to see.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import event, given

import keuka
from keuka.algebra.operators import Program
from keuka.plan.planner import output_names

from .outcomes import Outcome, bag_of_table, by_reference, check, known_by, lowered, rows_by_id
from .queries import Program as ProgramText
from .sase_queries import any_programs
from .streams import SHAPES, Row, Rows, rows, table

BEGINNING = -(2**63)


@dataclass(frozen=True)
class Push:
    stream: str
    rows: list[Row]


@dataclass(frozen=True)
class Add:
    rule: int


@dataclass(frozen=True)
class Remove:
    rule: int


@dataclass(frozen=True)
class Advance:
    time: int
    stream: str | None


Action = Push | Add | Remove | Advance


@dataclass(frozen=True)
class Text:
    """A program of the laws, with names of published streams that no other program has."""

    drawn: ProgramText

    @property
    def text(self) -> str:
        return self.drawn.text

    @cached_property
    def program(self) -> Program:
        return lowered(self.drawn)

    @property
    def query(self) -> keuka.Query:
        return self.drawn.query

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.query.inputs


@st.composite
def texts(draw: st.DrawFn, number: int = 0) -> Text:
    drawn = draw(any_programs())

    def renamed(text: str) -> str:
        return re.sub(r"\b(P\d|M|Inner-\d+)\b", rf"\1x{number}", text)

    return Text(replace(drawn, text=renamed(drawn.text), texts=tuple([(language, renamed(text)) for language, text in drawn.texts])))


@st.composite
def pushes(draw: st.DrawFn, streams: Rows, lateness: int) -> list[Push]:
    """The rows of all streams in pieces that come in any order, each row late by no more than the lateness."""
    pieces: dict[str, list[list[Row]]] = {}
    for stream, stream_rows in streams.items():
        delays = draw(st.lists(st.integers(0, lateness), min_size=len(stream_rows), max_size=len(stream_rows)))
        arrival = sorted(range(len(stream_rows)), key=lambda i, d=delays, r=stream_rows, s=stream: SHAPES[s].end(r[i]) + d[i])
        cuts = sorted(draw(st.lists(st.integers(0, len(stream_rows)), max_size=5)))
        bounds = [0, *cuts, len(stream_rows)]
        pieces[stream] = [[stream_rows[i] for i in arrival[a:b]] for a, b in itertools.pairwise(bounds)]
    order = draw(st.permutations([stream for stream, parts in pieces.items() for _ in parts]))
    return [Push(stream, pieces[stream].pop(0)) for stream in order]


def engine(lateness: int = 0) -> keuka.Engine:
    declared = {name: keuka.Stream(shape.arrow, time=shape.time, lateness=lateness) for name, shape in SHAPES.items()}
    return keuka.Engine(declared, contributors=True)


@dataclass
class Found:
    """All matches of a rule, by output."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def take(self, matches: keuka.Matches, label: str, outputs: Sequence[str]) -> None:
        for output in outputs:
            name = label if len(outputs) == 1 else f"{label}.{output}"
            if name in matches.queries:
                self.tables.setdefault(output, []).append(matches.of(name))

    def outcome(self, outputs: Sequence[str], streams: Rows) -> Outcome:
        sources = rows_by_id(streams)
        found = {}
        for output in outputs:
            one = pa.concat_tables(self.tables[output]) if output in self.tables else None
            if one is not None:
                ends = one.column("_end").to_pylist()
                assert ends == sorted(ends)
            found[output] = Counter() if one is None else bag_of_table(one, sources)
        return found


def expected(program: Program, streams: Rows) -> Outcome:
    outcome = by_reference(program, streams)
    event("overflow" if "K507" in outcome.values() else "results" if any(outcome.values()) else "no results")
    return outcome


def short(streams: Rows, *texts: Text) -> Rows:
    n = min([text.drawn.most_events for text in texts])
    return {stream: stream_rows[:n] for stream, stream_rows in streams.items()}


def run_one(text: Text, streams: Rows, actions: Sequence[Push], lateness: int = 0) -> Outcome | str:
    """The outcome of one rule that was there from the beginning, or the code of the error the engine ended in."""
    found = Found()
    with engine(lateness) as live:
        live.add(text.query, name="r")
        outputs = output_names(text.program)
        try:
            for action in actions:
                found.take(live.push(action.stream, table(action.stream, action.rows)), "r", outputs)
            found.take(live.close(), "r", outputs)
        except keuka.DataError as error:
            return error.code
        assert set(live.late.values()) == {0}
    return found.outcome(outputs, streams)


def check_one(text: Text, streams: Rows, actual: Outcome | str) -> None:
    outcome = expected(text.program, streams)
    if isinstance(actual, str):
        assert actual == "K507"
        assert "K507" in outcome.values()
    elif "K507" not in outcome.values():
        check(text.text, streams, outcome, actual)


@given(rows(), texts(), st.integers(0, 4), st.data())
def test_any_way_of_pushing_within_the_lateness_gives_the_same(streams: Rows, text: Text, lateness: int, data: st.DataObject):
    streams = short(streams, text)
    actions = data.draw(pushes(streams, lateness))
    check_one(text, streams, run_one(text, streams, actions, lateness))


@given(rows(), texts())
def test_pushing_epoch_by_epoch_gives_the_same(streams: Rows, text: Text):
    streams = short(streams, text)
    ticks = sorted({SHAPES[s].end(row) for s, stream_rows in streams.items() for row in stream_rows})
    actions = [Push(s, [row for row in found if SHAPES[s].end(row) == tick]) for tick in ticks for s, found in streams.items()]
    check_one(text, streams, run_one(text, streams, actions))


class Model:
    """Time by its definition: to the smallest frontier of the streams that rules read, never back."""

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.time = BEGINNING
        self.frontiers = dict.fromkeys(SHAPES, BEGINNING)
        self.accepted: dict[str, list[Row]] = {stream: [] for stream in SHAPES}

    def push(self, push: Push, read: set[str]) -> None:
        for row in push.rows:
            end = SHAPES[push.stream].end(row)
            if end >= max(self.frontiers[push.stream], self.time):
                self.accepted[push.stream].append(row)
            self.frontiers[push.stream] = max(self.frontiers[push.stream], end - self.lateness)
        self.go_on(read)

    def advance(self, advance: Advance, read: set[str]) -> None:
        for stream in [advance.stream] if advance.stream else SHAPES:
            self.frontiers[stream] = max(self.frontiers[stream], advance.time + 1)
        self.go_on(read)

    def go_on(self, read: set[str]) -> None:
        counted = [self.frontiers[s] for s in read] if read else [f for f in self.frontiers.values() if f > BEGINNING]
        self.time = max([self.time, *[min(counted)]]) if counted else self.time


@st.composite
def histories(draw: st.DrawFn, streams: Rows, lateness: int, n_rules: int) -> list[Action]:
    """Pushes, with rules that come and go between them, and promises."""
    actions: list[Action] = list(draw(pushes(streams, lateness)))
    for rule in range(n_rules):
        begin = draw(st.integers(0, len(actions)))
        end = draw(st.integers(begin, len(actions)))
        actions.insert(end, Remove(rule))
        actions.insert(begin, Add(rule))
    for _ in range(draw(st.integers(0, 2))):
        advance = Advance(draw(st.integers(0, 30)), draw(st.sampled_from([None, *SHAPES])))
        actions.insert(draw(st.integers(0, len(actions))), advance)
    return actions


class Replay:
    """An engine and the model of its time, through one history."""

    def __init__(self, rules: Sequence[Text], lateness: int) -> None:
        self.rules = rules
        self.model = Model(lateness)
        self.live = engine(lateness)
        self.found = [Found() for _ in rules]
        self.times: dict[int, list[int]] = {}  # by rule: when it came and went
        self.handles: dict[int, keuka.Rule] = {}

    def play(self, action: Action) -> None:
        if isinstance(action, Add):
            self.handles[action.rule] = self.live.add(self.rules[action.rule].query, name=f"r{action.rule}")
            self.times[action.rule] = [self.model.time]
        elif isinstance(action, Remove):
            self.handles.pop(action.rule).remove()
            self.times[action.rule].append(self.model.time)
        read = {name for i in self.handles for name in self.rules[i].inputs}
        if isinstance(action, Push):
            matches = self.live.push(action.stream, table(action.stream, action.rows))
            self.model.push(action, read)
        elif isinstance(action, Advance):
            matches = self.live.advance(action.time, stream=action.stream)
            self.model.advance(action, read)
        else:
            matches = self.live.poll()
            self.model.go_on(read)
        for i, rule in enumerate(self.rules):
            self.found[i].take(matches, f"r{i}", output_names(rule.program))

    def overflows(self, history: Sequence[Action]) -> bool:
        try:
            for action in history:
                self.play(action)
        except keuka.DataError as error:
            if error.code == "K507":
                return True
            raise
        return False

    def seen(self, rule: int) -> Rows:
        begin, stop = self.times[rule]
        return {
            stream: sorted([row for row in accepted if begin <= SHAPES[stream].end(row) < stop], key=SHAPES[stream].end)
            for stream, accepted in self.model.accepted.items()
        }


@given(rows(), texts(0), texts(1), st.integers(0, 3), st.data())
def test_a_rule_sees_the_epochs_between_its_coming_and_its_going(
    streams: Rows, first: Text, second: Text, lateness: int, data: st.DataObject
):
    rules = (first, second)
    streams = short(streams, *rules)
    history = data.draw(histories(streams, lateness, len(rules)))
    replay = Replay(rules, lateness)
    overflows = replay.overflows(history)
    for i, rule in enumerate(rules):
        if not overflows:
            seen = replay.seen(i)
            outcome = expected(rule.program, seen)
            if "K507" not in outcome.values():  # as an overflow in one output says nothing of the others
                outcome = known_by(replay.times[i][1] - 1, outcome)
                actual = replay.found[i].outcome(output_names(rule.program), streams)
                check(f"{rule.text}\n{history}\nfrom and to {replay.times[i]}", seen, outcome, actual)


@given(rows(), texts(), st.integers(0, 3), st.data())
def test_resuming_from_a_snapshot_at_any_point_gives_the_same(streams: Rows, text: Text, lateness: int, data: st.DataObject):
    streams = short(streams, text)
    actions = data.draw(pushes(streams, lateness))
    stop = data.draw(st.integers(0, len(actions)))
    outcome = expected(text.program, streams)
    if "K507" in outcome.values():
        return
    found, outputs = Found(), output_names(text.program)
    with engine(lateness) as live:
        live.add(text.query, name="r")
        for action in actions[:stop]:
            found.take(live.push(action.stream, table(action.stream, action.rows)), "r", outputs)
        snapshot = live.snapshot()
        for action in actions[stop:]:  # what happens after it does not matter
            live.push(action.stream, table(action.stream, action.rows))
    with keuka.Engine() as live:
        live.restore(snapshot)
        for action in actions[stop:]:
            found.take(live.push(action.stream, table(action.stream, action.rows)), "r", outputs)
        found.take(live.close(), "r", outputs)
    check(text.text, streams, outcome, found.outcome(outputs, streams))


@given(rows(), texts().filter(lambda text: ";" in text.text), st.data())
def test_queries_as_rules_of_their_own_read_each_other_with_the_ids_of_one_set(streams: Rows, text: Text, data: st.DataObject):
    streams = short(streams, text)
    parts = [(language, query) for language, found in text.drawn.texts or (("cel", text.text),) for query in found.split(";\n")]
    if not re.search(r"PUBLISH [^\s()]+$", parts[-1][1]):  # a published subquery is not the last word
        parts[-1] = (parts[-1][0], f"{parts[-1][1]} PUBLISH Last")
    text = Text(replace(text.drawn, text=";\n".join([query for _, query in parts]), texts=tuple(parts)))
    outcome = expected(text.program, streams)
    if "K507" in outcome.values():
        return
    found = Found()
    with engine() as live:
        for i, (language, query) in enumerate(parts):
            live.add(query, name=f"r{i}", language=language)
        actions = data.draw(pushes(streams, 0))
        for matches in [*[live.push(a.stream, table(a.stream, a.rows)) for a in actions], live.close()]:
            for i, (language, query) in enumerate(parts):
                found.take(matches, f"r{i}", keuka.query(query, language).published)
    check(text.text, streams, outcome, found.outcome(list(outcome), streams))
    one_set = keuka.match_all(
        text.query, {s: keuka.Stream(table(s, streams[s]), time=SHAPES[s].time) for s in text.inputs}, contributors=True
    )
    for output, matches_of_set in one_set.items():
        ids = [id_ for one in found.tables.get(output, []) for id_ in one.column("_id").to_pylist()]
        assert sorted(ids) == sorted(matches_of_set.column("_id").to_pylist()), f"other ids of {output} in\n{text.text}"
        assert len({*ids}) == len(ids), f"matches of {output} share ids in\n{text.text}"
