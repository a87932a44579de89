"""Law 4 for what is dropped before the kernel: without the events that `needed` says cannot matter, a plan gives the same.

Random programs seldom filter what they read, so most streams they read are filtered here, by a type of events (one table of all events)
or by something that may fail.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import event, given, settings

from keuka.algebra.operators import Filter, Operator, Program, Published, Source, inputs, with_inputs
from keuka.algebra.values import ERROR, evaluate
from keuka.expressions import can_fail, show
from keuka.plan.planner import plan
from keuka.plan.prefilter import needed

from . import expressions
from .outcomes import by_plan, by_reference, check, ids_by_plan, lowered
from .queries import SOURCES
from .queries import Program as ProgramText
from .sase_queries import any_programs
from .streams import Row, Rows, rows
from .test_history_law import composite, turned
from .test_laws import OPTIONS

TYPES = ("k = 'a'", "k = 'b'", "'ab' = k", "k IN ('a', 'b')", "k = 'a' AND n > 1", "n = 1", "n IN (2, 3) AND k <> 'b'")
Example = tuple[str, Program, Rows]

# Where terms on one event alone decide nothing by themselves: in `step`, and in one of several alternatives. `?` is a term on the event
# that is named beside the text.
DECISIVE = (
    ("cel", "FROM S FOLD {$2.k = $.k, ?} Q", "$2."),
    ("cel", "FROM S FOLD {?, ?} Q", "$2."),
    ("cel", "FROM S FOLD {? AND ?, ? AND $2.n >= $.n, $.n AS n} (SELECT * FROM S)", "$2."),
    ("cel", "FROM S NEXT {? AND $2.k = $1.k} Q", "$2."),
    ("cel", "FROM S NEXT {?} Q NEXT {? AND ?} I", "$2."),
    ("sase", "SEQ(S a, !Q b, I c) WHERE (? AND b.k = a.k) OR (? AND b.n = 1) WITHIN 5", "a."),
    ("sase", "SEQ(S a, !Q b, I c) WHERE (? AND b.k = a.k) OR (? AND b.n > c.n) WITHIN 5", "b."),
    ("sase", "SEQ(S a, Q b, !I c) WHERE ? AND (c.k = 'a' OR ?) WITHIN 4", "b."),
    ("sase", "SEQ(!Q a, S b) WHERE ? AND ? AND b.n >= 0 WITHIN 4", "a."),
    ("sase", "UNORDERED(S a, Q b) WHERE ? AND (? OR b.k = 'a') WITHIN 4", "a."),
)
TERMS = ("k = 'a'", "n > 1", "n < 2", "k <> 'b'", "n * 4611686018427387904 > 0", "n IS NOT NULL")


@st.composite
def decisive(draw: st.DrawFn) -> ProgramText:
    language, text, prefix = draw(st.sampled_from(DECISIVE))
    while "?" in text:
        text = text.replace("?", prefix + draw(st.sampled_from(TERMS)), 1)
    return ProgramText(text, text.count("FOLD"), 3 if language == "sase" else 0, ((language, text),))


@st.composite
def examples(draw: st.DrawFn, of: st.SearchStrategy[ProgramText] | None = None) -> Example:
    """A program whose sources are mostly filtered, and streams for it."""
    streams, text = draw(rows()), draw(any_programs() if of is None else of)
    program = draw(narrowed(lowered(text)))
    shown = f"{text.text}\nover {[show(f.predicate) for _, operator in program.outputs for f in filters(operator)]}"
    return shown, program, {stream: stream_rows[: text.most_events] for stream, stream_rows in streams.items()}


def filters(operator: Operator) -> list[Filter]:
    below = [found for part in inputs(operator) for found in filters(part)]
    return [operator, *below] if isinstance(operator, Filter) and isinstance(operator.input, Source) else below


@st.composite
def narrowed(draw: st.DrawFn, program: Program) -> Program:
    """The program, with filters on most of the sources that it reads."""
    published: dict[str, Operator] = {}  # one meaning for each name, wherever it is read

    def narrow(operator: Operator) -> Operator:
        if isinstance(operator, Source):
            text = draw(st.one_of(st.sampled_from(TYPES), st.sampled_from(TYPES), conditions(operator.stream), st.just("")))
            return Filter(operator, condition(text, operator.stream)) if text else operator
        if isinstance(operator, Published):
            return Published(operator.name, output(operator.name, operator.input), operator.span, operator.named)
        return with_inputs(operator, [narrow(part) for part in inputs(operator)])

    def output(name: str, operator: Operator) -> Operator:
        if not name:
            return narrow(operator)
        if name not in published:
            published[name] = narrow(operator)
        return published[name]

    return Program(tuple([(name, output(name, operator)) for name, operator in program.outputs]))


@st.composite
def conditions(draw: st.DrawFn, stream: str) -> str:
    """One to three terms, some of which can fail."""
    references = [(a.name, a.type) for a in SOURCES[stream].attributes if a.type != "other"]
    forms = [expressions.predicate, expressions.predicate, lambda draw, refs: f"({expressions.risky(draw, refs)})"]
    return " AND ".join([draw(st.sampled_from(forms))(draw, references) for _ in range(draw(st.integers(1, 3)))])


def condition(text: str, stream: str) -> Any:
    found = lowered(f"FROM FILTER {{{text}}} {stream}").outputs[0][1]
    assert isinstance(found, Filter)
    return found.predicate


def prefiltered(program: Program, streams: Rows, **options: Any) -> Rows:
    """The rows that can matter to the plan."""
    predicates = needed(plan(program, **options))
    left: dict[str, list[Row]] = dict(streams)
    for stream, predicate in predicates.items():
        assert not can_fail(predicate)
        values = [evaluate(predicate, (row,)) for row in streams[stream]]
        assert ERROR not in values
        left[stream] = [row for row, value in zip(streams[stream], values, strict=True) if value is True]
    read = {source.stream for source in plan(program).sources}
    n_dropped = sum([len(streams[stream]) - len(left[stream]) for stream in read])
    event("no predicate" if not predicates else "some events dropped" if n_dropped else "no event dropped")
    return left


@given(examples(), OPTIONS)
def test_events_that_are_not_needed_change_nothing(example: Example, options: dict[str, Any]):
    text, program, streams = example
    left = prefiltered(program, streams, **options)
    outcome = by_reference(program, streams)
    event("overflow" if "K507" in outcome.values() else "results" if any(outcome.values()) else "no results")
    check(f"{text}\nwithout what is not needed: {left}", streams, outcome, by_reference(program, left))


@given(examples(decisive()))
def test_terms_that_decide_nothing_by_themselves_drop_nothing(example: Example):
    text, program, streams = example
    left = prefiltered(program, streams)
    check(f"{text}\nwithout what is not needed: {left}", streams, by_reference(program, streams), by_reference(program, left))


@given(examples())
def test_each_output_alone_needs_no_more_than_its_own_plan_says(example: Example):
    text, program, streams = example
    for name, operator in program.outputs:
        alone = Program(((name, operator),))
        left = prefiltered(alone, streams)
        check(f"{text}\nwithout what is not needed: {left}", streams, by_reference(alone, streams), by_plan(alone, left))


@given(examples(st.one_of(composite(), any_programs())))
def test_events_that_are_not_needed_change_nothing_where_histories_decide(example: Example):
    text, program, streams = example
    program = turned(program)
    left = prefiltered(program, streams)
    check(f"{text}\nby history, without what is not needed: {left}", streams, by_reference(program, streams), by_reference(program, left))


@given(examples())
def test_ids_that_count_equal_rows_stay_the_same(example: Example):
    text, program, streams = example
    # Every row twice: ids tell equal rows apart by their number.
    doubled = {stream: [row for row in found[:4] for _ in range(2)] for stream, found in streams.items()}
    left = prefiltered(program, doubled)
    assert ids_by_plan(program, doubled) == ids_by_plan(program, left), f"{text}\n{doubled}\n{left}"


def test_most_examples_drop_something_and_many_have_results():
    """A law over examples in which everything is needed would say little."""
    n_dropped = n_results = 0

    @settings(max_examples=200, derandomize=True)
    @given(examples())
    def count(example: Example) -> None:
        nonlocal n_dropped, n_results
        _, program, streams = example
        dropped = prefiltered(program, streams) != streams
        n_dropped += dropped
        n_results += dropped and any(not isinstance(found, str) and bool(found) for found in by_reference(program, streams).values())

    count()
    assert n_dropped > 100
    assert n_results > 40
