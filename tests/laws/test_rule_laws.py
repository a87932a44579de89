"""The law of rules that come and go: each finds what the reference evaluator finds over the epochs of its life, ids included.

Rules are in all languages, read each other's published streams, say the same twice, and show contributors or not. Between pushes they
are added and removed at random, and the engine goes on from a snapshot. Ids are computed here by their definition (decision 5): from
the evaluator's contributors, each with the number of the source occurrence that it came through.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings

import keuka
from keuka.algebra.operators import Operator, Program, Published, Source, inputs, with_inputs
from keuka.algebra.semantics import Event, evaluate
from keuka.automaton.fingerprint import fingerprint
from keuka.events.matches import match_ids
from keuka.kernel import forest
from keuka.languages.sets import lower_texts
from keuka.plan.planner import output_names
from keuka.run import held_rows, texts
from keuka.schema import StreamType, TimeAxis

from . import queries, sase_queries
from .outcomes import Bag, bag_of, bag_of_table, bag_without_contributors, check, lowered, rows_by_id, without_contributors
from .queries import SOURCES, Attribute, Operand
from .sase_queries import Readable
from .streams import SHAPES, Row, Rows, rows, table
from .test_engine_laws import Add, Advance, Model, Push, Remove, engine, pushes

MOST_LEVELS = 2  # of rules below a rule


@dataclass(frozen=True)
class Resume:
    """Go on from a snapshot, in another engine or in the same."""

    is_same: bool


Action = Push | Add | Remove | Advance | Resume


@dataclass(frozen=True)
class RuleText:
    number: int
    language: str
    drawn: str  # published subqueries have no names yet
    is_published: bool
    contributors: bool
    attributes: tuple[tuple[str, str], ...]
    reads: tuple[RuleText, ...]  # rules whose streams it reads
    n_folds: int
    n_components: int

    @property
    def name(self) -> str:
        return f"r{self.number}"

    @property
    def published(self) -> str:
        return f"R{self.number}"

    @property
    def text(self) -> str:
        text = re.sub(r"\b(Inner-\d+)\b", rf"\1x{self.number}", queries.numbered(self.drawn))
        return f"{text}\nPUBLISH {self.published}" if self.is_published else text

    @cached_property
    def query(self) -> keuka.Query:
        return keuka.sase(self.text) if self.language == "sase" else keuka.cel(self.text)

    @property
    def behind(self) -> tuple[RuleText, ...]:
        """All rules that it depends on, then itself."""
        found = dict.fromkeys([rule for read in self.reads for rule in read.behind])
        return (*found, self)

    @property
    def levels(self) -> int:
        return max([rule.levels + 1 for rule in self.reads], default=0)

    @property
    def most_events(self) -> int:
        behind = self.behind
        folds, components = sum([rule.n_folds for rule in behind]), [rule.n_components for rule in behind]
        text = ";".join([rule.text for rule in behind])
        return min(queries.Program(text, folds, max(components)).most_events, 4 if sum(map(bool, components)) > 2 else 25)


@st.composite
def rule_sets(draw: st.DrawFn) -> tuple[RuleText, ...]:
    rules: list[RuleText] = []
    for number in range(draw(st.integers(2, 5))):
        if rules and draw(st.integers(0, 3)) == 0:
            rules.append(replace(draw(st.sampled_from(rules)), number=number, is_published=draw(st.booleans())))
        else:
            readable = [rule for rule in rules if rule.is_published and rule.levels < MOST_LEVELS]
            rules.append(_rule(draw, number, readable * 2 if draw(st.integers(0, 3)) else []))
    return tuple(rules)


def _rule(draw: st.DrawFn, number: int, readable: Sequence[RuleText]) -> RuleText:
    if draw(st.booleans()):
        language, n = "cel", 0
        operands = [Operand(rule.published, tuple([Attribute(*pair) for pair in rule.attributes])) for rule in readable]
        found = queries.query(draw, [*SOURCES.values(), *operands], depth=draw(st.integers(1, 2)))
        text = found.text
        attributes = tuple([(a.name, a.type) for a in queries.as_one_input(found.attributes)])
    else:
        language = "sase"
        streams = [*sase_queries.STREAMS, *[Readable(rule.published, rule.attributes) for rule in readable]]
        text, attributes, n = sase_queries.query(draw, streams, most=2 if readable else 3)
    names = {*re.findall(r"\bR\d\b", text)}
    reads = tuple(dict.fromkeys([rule for rule in readable if rule.published in names]))
    contributors = draw(st.integers(0, 3)) > 0 and all(rule.contributors for rule in reads)
    return RuleText(number, language, text, draw(st.integers(0, 3)) > 0, contributors, attributes, reads, text.count("FOLD"), n)


@st.composite
def histories(draw: st.DrawFn, rules: Sequence[RuleText], streams: Rows, lateness: int) -> list[Action]:
    """Pushes, and between them rules that come and go, also more than once, promises and snapshots."""
    actions: list[Action] = []
    active: list[RuleText] = []
    for push in draw(pushes(streams, lateness)):
        for _ in range(draw(st.integers(0, 3))):
            addable = [rule for rule in rules if rule not in active and {*rule.reads} <= {*active}]
            removable = [rule for rule in active if not any(rule in other.reads for other in active)]
            kind = draw(st.sampled_from(["add", "add", "add", "remove", "advance", "resume"]))
            if kind == "add" and addable:
                active.append(draw(st.sampled_from(addable)))
                actions.append(Add(active[-1].number))
            elif kind == "remove" and removable:
                active.remove(rule := draw(st.sampled_from(removable)))
                actions.append(Remove(rule.number))
            elif kind == "advance":
                actions.append(Advance(draw(st.integers(0, 12)), draw(st.sampled_from([None, *SHAPES]))))
            elif kind == "resume":
                actions.append(Resume(draw(st.booleans())))
        actions.append(push)
    return actions


@dataclass(eq=False)
class Life:
    """Of a rule, from its coming to its going."""

    rule: RuleText
    program: Program
    begin: int
    publishers: dict[str, Life]  # by stream that it reads
    stop: float = math.inf
    found: dict[str, list[pa.Table]] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[str, ...]:
        return output_names(self.program)

    def take(self, matches: keuka.Matches) -> None:
        for output in self.outputs:
            name = self.rule.name if len(self.outputs) == 1 else f"{self.rule.name}.{output}"
            if name in matches.queries:
                self.found.setdefault(output, []).append(matches.of(name))


class Replay:
    """An engine and the model of its time, through one history and to the end of time."""

    def __init__(self, rules: Sequence[RuleText], lateness: int) -> None:
        self.rules = rules
        self.model = Model(lateness)
        self.live = engine(lateness)
        self.lives: list[Life] = []
        self.active: dict[int, Life] = {}

    @property
    def read(self) -> set[str]:
        return {name for life in self.active.values() for name in life.rule.query.inputs if name in SHAPES}

    def play(self, action: Action) -> None:
        matches = None
        if isinstance(action, Add):
            self._add(self.rules[action.rule])
        elif isinstance(action, Remove):
            self.live.remove(self.rules[action.rule].name)
            self.active.pop(action.rule).stop = self.model.time
        elif isinstance(action, Resume):
            snapshot = self.live.snapshot()
            self.live = self.live if action.is_same else keuka.Engine()
            self.live.restore(snapshot)
        elif isinstance(action, Push):
            matches = self.live.push(action.stream, table(action.stream, action.rows))
            self.model.push(action, self.read)
        else:
            matches = self.live.advance(action.time, stream=action.stream)
            self.model.advance(action, self.read)
        self._take(self.live.poll() if matches is None else matches)
        self.model.go_on(self.read)

    def _add(self, rule: RuleText) -> None:
        by_name = {name: life for life in self.active.values() for name, _ in life.program.outputs if name}
        publishers = {name: by_name[name] for name in rule.query.inputs if name not in SHAPES}
        types = {name: shape.type for name, shape in SHAPES.items()}
        for name, life in publishers.items():
            types[name] = StreamType(dict(life.program.outputs)[name].schema, TimeAxis(None, pa.int64()))
        program = lower_texts(rule.query.texts, types, {})
        self.live.add(rule.query, name=rule.name, contributors=rule.contributors)
        self.lives.append(Life(rule, program, self.model.time, publishers))
        self.active[rule.number] = self.lives[-1]

    def _take(self, matches: keuka.Matches) -> None:
        for life in self.active.values():
            life.take(matches)

    def overflows(self, history: Sequence[Action]) -> bool:
        try:
            for action in history:
                self.play(action)
            self._take(self.live.close())
        except keuka.DataError as error:
            if error.code == "K507":
                return True
            raise
        return False


Tagged = tuple[str, int, int]  # stream, row, source occurrence


def tagged_events(life: Life, output: str, first: int, accepted: Rows) -> tuple[list[Event], int]:
    """What a rule finds in its life, with contributors that say through which occurrence they came, counted from `first` on.

    The next number comes back, too.
    """
    streams: dict[str, list[Event]] = {}

    def number(node: Operator, tag: int) -> tuple[Operator, int]:
        if isinstance(node, Source):
            name, own = f"{node.stream}@{tag}", tag
            if node.stream in life.publishers:
                found, tag = tagged_events(life.publishers[node.stream], node.stream, tag, accepted)
            else:
                numbered = enumerate(accepted[node.stream])
                found = [Event(row, *SHAPES[node.stream].ticks(row), ((node.stream, i, own),)) for i, row in numbered]  # type: ignore[arg-type]
                tag += 1
            streams[name] = [one for one in found if life.begin <= one.end < life.stop]
            return replace(node, stream=name), tag
        if isinstance(node, Published):
            name = f"{node.name}@{tag}"
            inside, tag = number(node.input, tag)
            return replace(node, name=name, input=inside), tag
        new = []
        for part in inputs(node):
            one, tag = number(part, tag)
            new.append(one)
        return with_inputs(node, new), tag

    operator = dict(zip(life.outputs, [operator for _, operator in life.program.outputs], strict=True))[output]
    numbered, following = number(operator, first)
    found = evaluate(numbered, streams)
    return [one for one in found if one.end < life.stop], following


def expected(life: Life, output: str, accepted: Rows, ids: dict[tuple[str, int], str]) -> Bag:
    """Results as in `outcomes`, with the id of the match after its contributors."""
    found, _ = tagged_events(life, output, 0, accepted)
    contributors: list[tuple[Tagged, ...]] = [one.contributors for one in found]  # type: ignore[misc]
    leaves = [leaf for one in contributors for leaf in one]
    texts = [ids[stream, i] for stream, i, _ in leaves]
    low, high = [np.asarray([int(text[a : a + 16], 16) for text in texts], np.uint64) for a in (0, 16)]
    offsets = np.cumsum([0, *map(len, contributors)])
    one_set = lowered(keuka.query([rule.query for rule in life.rule.behind]))
    of_set = dict(one_set.outputs)
    tags = np.asarray([tag for _, _, tag in leaves], np.int64)
    made = match_ids(fingerprint(of_set[output if output in of_set else ""]), offsets, low, high, tags).to_pylist()
    assert len({*made}) == len(made), "different matches share an id"
    shown = [tuple([(s, accepted[s][i]) for s, i, _ in one]) for one in contributors]
    rows_ = [(e.payload, e.start, e.end, (*c, ("_id", (id_,)))) for e, c, id_ in zip(found, shown, made, strict=True)]
    return bag_of(rows_)


def check_life(life: Life, accepted: Rows, sources: dict[tuple[str, str], Row], text: str) -> None:
    """Compare what the engine found with what the evaluator finds; equal rows are interchangeable, so any of their ids is theirs."""
    unused: dict[tuple[str, str], list[str]] = {}
    for (stream, id_), row in sources.items():
        unused.setdefault((stream, repr(row)), []).append(id_)
    ids = {(stream, i): unused[stream, repr(row)].pop() for stream, found in accepted.items() for i, row in enumerate(found)}
    outcome: dict[str, Bag | str] = {}
    actual: dict[str, Bag | str] = {}
    for output in life.outputs:
        outcome[output], actual[output] = expected(life, output, accepted, ids), Counter()
        if output in life.found:
            one = pa.concat_tables(life.found[output])
            assert one.column("_end").to_pylist() == sorted(one.column("_end").to_pylist())
            actual[output] = bag_of_table(one, sources, with_ids=True) if life.rule.contributors else bag_without_contributors(one)
    event("results" if any(outcome.values()) else "no results")
    check(text, accepted, outcome if life.rule.contributors else without_contributors(outcome), actual)


def sweep_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What removed rules and past events leave behind is usually swept only when there is much of it."""
    monkeypatch.setattr(forest, "LEAST_GARBAGE", -1)
    monkeypatch.setattr(held_rows, "LEAST_CARRIED", 0)
    for least in ("LEAST_STRINGS", "LEAST_TEXT_BYTES"):
        monkeypatch.setattr(texts, least, 0)


@pytest.mark.parametrize("is_eager", [False, True], ids=["swept rarely", "swept at once"])
@given(streams=rows(max_events=12), rules=rule_sets(), lateness=st.integers(0, 3), data=st.data())
@settings(suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture])
def test_rules_that_come_and_go_find_what_the_epochs_of_their_lives_hold(
    streams: Rows, rules: tuple[RuleText, ...], lateness: int, data: st.DataObject, is_eager: bool, monkeypatch: pytest.MonkeyPatch
):
    if is_eager:
        sweep_at_once(monkeypatch)
    n = min([rule.most_events for rule in rules])
    history = data.draw(histories(rules, {stream: found[:n] for stream, found in streams.items()}, lateness))
    replay = Replay(rules, lateness)
    if replay.overflows(history):
        return
    accepted = replay.model.accepted
    sources = rows_by_id({stream: sorted(found, key=SHAPES[stream].end) for stream, found in accepted.items()})
    for life in replay.lives:
        texts = "\n".join([f"{rule.name}: {rule.text}" for rule in life.rule.behind])
        try:
            check_life(life, accepted, sources, f"{texts}\nfrom {life.begin} to {life.stop}\n{history}")
        except keuka.DataError as error:
            if error.code != "K507":  # the engine may never meet what the evaluator meets
                raise
