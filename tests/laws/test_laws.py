"""The laws of docs/semantics.md, section 9, that a single process can show, over random programs in all languages and random streams.

Every law compares with the reference evaluator, so that a failing example says what would have been right.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import fields
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import event, given, settings

from keuka.algebra.operators import Program
from keuka.automaton.stacks import StackRules
from keuka.automaton.statistics import Estimate, Statistics
from keuka.events.files import BATCH_ROWS
from keuka.plan.rules import RULES

from .outcomes import Outcome, by_match, by_match_all, by_plan, by_reference, check, ids_by_plan, lowered
from .queries import Program as ProgramText
from .queries import computations
from .sase_queries import any_programs
from .streams import SHAPES, Row, Rows, rows, table

Example = tuple[ProgramText, Program, Rows]


@st.composite
def examples(draw: st.DrawFn, of: st.SearchStrategy[ProgramText] | None = None) -> Example:
    """A program and streams for it.

    The streams are drawn first: hypothesis likes what it draws last to be simple, and nothing matches in empty streams.
    """
    streams, program = draw(rows()), draw(any_programs() if of is None else of)
    return program, lowered(program), {stream: stream_rows[: program.most_events] for stream, stream_rows in streams.items()}


def expected(program: Program, streams: Rows) -> Outcome:
    outcome = by_reference(program, streams)
    event("overflow" if "K507" in outcome.values() else "results" if any(outcome.values()) else "no results")
    return outcome


@given(examples())
def test_the_engine_gives_what_the_definitions_say(example: Example):
    text, program, streams = example
    check(text.text, streams, expected(program, streams), by_match(program, text.query, streams))


@given(st.booleans().flatmap(lambda wide: rows(max_events=4, wide=wide)), computations())
def test_the_engine_computes_what_the_definitions_say(streams: Rows, program: ProgramText):
    lowered_program = lowered(program)
    check(program.text, streams, expected(lowered_program, streams), by_match(lowered_program, program.query, streams))


@given(examples())
def test_all_outputs_in_one_pass_are_what_each_is_alone(example: Example):
    text, program, streams = example
    outcome, together = expected(program, streams), by_match_all(text.query, streams)
    if isinstance(together, str):
        assert together in outcome.values()
    else:
        check(text.text, streams, outcome, together)


@st.composite
def splits(draw: st.DrawFn) -> dict[str, list[int]]:
    """Where to cut each stream into batches; equal numbers make empty batches."""
    return {stream: draw(st.lists(st.integers(0, 25), max_size=6).map(sorted)) for stream in SHAPES}


def reader(stream: str, stream_rows: list[Row], cuts: list[int]) -> pa.RecordBatchReader:
    bounds = [0, *[min(cut, len(stream_rows)) for cut in cuts], len(stream_rows)]
    pieces = [table(stream, stream_rows[a:b]).combine_chunks() for a, b in itertools.pairwise(bounds)]
    batches = [batch for piece in pieces for batch in piece.to_batches()]
    return pa.RecordBatchReader.from_batches(SHAPES[stream].arrow, batches)


@given(examples(), splits(), st.sampled_from([1, 2, 5, BATCH_ROWS]))
def test_any_split_into_batches_gives_the_same(example: Example, cuts: dict[str, list[int]], chunk_rows: int):
    text, program, streams = example
    actual = by_plan(program, streams, lambda s: reader(s, streams[s], cuts[s]), chunk_rows)
    check(text.text, streams, expected(program, streams), actual)


@st.composite
def shuffled(draw: st.DrawFn, streams: Rows) -> Rows:
    """The same streams, the rows of every epoch in another order."""
    return {
        stream: [row for _, epoch in itertools.groupby(found, key=SHAPES[stream].end) for row in draw(st.permutations(list(epoch)))]
        for stream, found in streams.items()
    }


@given(examples().flatmap(lambda example: st.tuples(st.just(example), shuffled(example[2]))))
def test_any_order_inside_an_epoch_gives_the_same(example: tuple[tuple[str, Program, Rows], Rows]):
    (text, program, streams), others = example
    actual = by_plan(program, others, lambda s: reader(s, others[s], []))
    check(text.text, streams, expected(program, streams), actual)


def _known(sign: int) -> dict[tuple[str, str], Estimate]:
    """Numbers of values that no data has, different for every column."""
    columns = {(name, column) for name, shape in SHAPES.items() for column in shape.arrow.names}
    return {(stream, column): Estimate(sign * ord(column[0]), "declared") for stream, column in columns}


OPTIONS = st.fixed_dictionaries(
    {
        "rules": st.one_of(
            st.just(()), st.lists(st.sampled_from(RULES), unique=True).map(lambda kept: tuple([r for r in RULES if r in kept]))
        ),
        "linear": st.booleans(),
        "indices": st.booleans(),
        "stack_rules": st.builds(StackRules, *[st.booleans()] * len(fields(StackRules))),
        "statistics": st.sampled_from([Statistics(), *[Statistics(distinct=_known(sign)) for sign in (1, -1)]]),
    }
)


@given(examples(), OPTIONS)
def test_every_optimisation_switched_off_gives_the_same(example: Example, options: dict[str, Any]):
    text, program, streams = example
    check(text.text, streams, expected(program, streams), by_plan(program, streams, **options))


@given(examples(), OPTIONS, st.sampled_from([1, 3, BATCH_ROWS]))
def test_ids_tell_matches_apart_and_depend_on_neither_plan_nor_batches(example: Example, options: dict[str, Any], chunk_rows: int):
    text, program, streams = example
    plain = ids_by_plan(program, streams)
    for name, ids in plain.items():
        assert isinstance(ids, str) or len(set(ids)) == len(ids), f"{text.text}\n{streams}\n{name}: {ids}"
    assert plain == ids_by_plan(program, streams, chunk_rows, **options), f"{text.text}\n{streams}"


def test_most_examples_have_results():
    """A law over examples in which nothing matches would say little."""
    found: Counter[bool] = Counter()

    @settings(max_examples=200, derandomize=True)
    @given(examples())
    def count(example: Example) -> None:
        _, program, streams = example
        *_, last = by_reference(program, streams).values()
        found[bool(last) and last != "K507"] += 1

    count()
    assert found[True] > found[False]
