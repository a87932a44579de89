"""The laws of SEMANTICS 9 that a single process can show, over random CEL programs and streams.

Every law compares with the reference evaluator, so that a failing example says what would have been right.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import event, given, settings

from keuka.algebra.operators import Program
from keuka.events.files import BATCH_ROWS
from keuka.plan.rules import RULES

from .outcomes import Outcome, by_match, by_match_all, by_plan, by_reference, check, ids_by_plan, lowered
from .queries import Program as ProgramText
from .queries import computations, programs
from .streams import SHAPES, Row, Rows, rows, table


@st.composite
def examples(draw: st.DrawFn) -> tuple[str, Program, Rows]:
    """A program and streams for it. Runs branch at simultaneous events, so several FOLDs get shorter streams.

    The streams are drawn first: hypothesis likes what it draws last to be simple, and nothing matches in empty streams.
    """
    streams, program = draw(rows()), draw(programs())
    if program.n_folds > 1:
        streams = {stream: stream_rows[:12] for stream, stream_rows in streams.items()}
    return program.text, lowered(program.text), streams


def expected(program: Program, streams: Rows) -> Outcome:
    outcome = by_reference(program, streams)
    event("overflow" if "K507" in outcome.values() else "results" if any(outcome.values()) else "no results")
    return outcome


@given(examples())
def test_the_engine_gives_what_the_definitions_say(example: tuple[str, Program, Rows]):
    text, program, streams = example
    check(text, streams, expected(program, streams), by_match(program, text, streams))


@given(st.booleans().flatmap(lambda wide: rows(max_events=4, wide=wide)), computations())
def test_the_engine_computes_what_the_definitions_say(streams: Rows, program: ProgramText):
    lowered_program = lowered(program.text)
    check(program.text, streams, expected(lowered_program, streams), by_match(lowered_program, program.text, streams))


@given(examples())
def test_all_outputs_in_one_pass_are_what_each_is_alone(example: tuple[str, Program, Rows]):
    text, program, streams = example
    outcome, together = expected(program, streams), by_match_all(text, streams)
    if isinstance(together, str):
        assert together in outcome.values()
    else:
        check(text, streams, outcome, together)


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
def test_any_split_into_batches_gives_the_same(example: tuple[str, Program, Rows], cuts: dict[str, list[int]], chunk_rows: int):
    text, program, streams = example
    actual = by_plan(program, streams, lambda s: reader(s, streams[s], cuts[s]), chunk_rows)
    check(text, streams, expected(program, streams), actual)


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
    check(text, streams, expected(program, streams), actual)


OPTIONS = st.fixed_dictionaries(
    {
        "rules": st.one_of(
            st.just(()), st.lists(st.sampled_from(RULES), unique=True).map(lambda kept: tuple([r for r in RULES if r in kept]))
        ),
        "linear": st.booleans(),
        "indices": st.booleans(),
    }
)


@given(examples(), OPTIONS)
def test_every_optimisation_switched_off_gives_the_same(example: tuple[str, Program, Rows], options: dict[str, Any]):
    text, program, streams = example
    check(text, streams, expected(program, streams), by_plan(program, streams, **options))


@given(examples(), OPTIONS, st.sampled_from([1, 3, BATCH_ROWS]))
def test_ids_tell_matches_apart_and_depend_on_neither_plan_nor_batches(
    example: tuple[str, Program, Rows], options: dict[str, Any], chunk_rows: int
):
    text, program, streams = example
    plain = ids_by_plan(program, streams)
    for name, ids in plain.items():
        assert isinstance(ids, str) or len(set(ids)) == len(ids), f"{text}\n{streams}\n{name}: {ids}"
    assert plain == ids_by_plan(program, streams, chunk_rows, **options), f"{text}\n{streams}"


def test_most_examples_have_results():
    """A law over examples in which nothing matches would say little."""
    found: Counter[bool] = Counter()

    @settings(max_examples=200, derandomize=True)
    @given(examples())
    def count(example: tuple[str, Program, Rows]) -> None:
        _, program, streams = example
        *_, last = by_reference(program, streams).values()
        found[bool(last) and last != "K507"] += 1

    count()
    assert found[True] > found[False]
