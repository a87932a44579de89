"""Simultaneous and interval events, skip and take, bags, contributors: the reference evaluator by the definitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keuka.algebra.operators import Filter, Map, Next, Operator, Published, Source, Union
from keuka.algebra.semantics import Event, earliest, evaluate
from keuka.errors import DataError
from keuka.expressions import TRUE, Duration, Literal
from keuka.schema import MAX_TICK, Type

from .stock import (
    SAME_NAME,
    STOCK,
    STREAM,
    call,
    candidate,
    constant,
    first,
    followed_by,
    intervals,
    last,
    only,
    quotes,
    run,
    run_of,
    where,
)

OTHER = Source("Other", STOCK)
BIG = 2**62


def names(results: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [tuple([v for v in row if isinstance(v, str)]) for row in results]


def test_simultaneous_firsts_of_the_other_stream_are_all_taken():
    results = run(followed_by(STREAM, OTHER), quotes((1, "a", 0)), Other=quotes((2, "x", 0), (2, "y", 0), (3, "z", 0)))
    assert names(results) == [("a", "x"), ("a", "y")]


def test_simultaneous_events_never_follow_each_other():
    assert run(followed_by(STREAM, STREAM), quotes((1, "a", 0), (1, "b", 0))) == []


def test_an_interval_that_overlaps_is_passed_over():
    others = intervals((3, 4, "overlaps", 0), (4, 5, "follows", 0))
    assert names(run(followed_by(STREAM, OTHER), intervals((1, 3, "a", 0)), Other=others)) == [("a", "follows")]


def test_a_candidate_that_fails_skip_is_passed_over_and_one_that_fails_take_ends_the_instance():
    cheap = call("lt", candidate("price"), 5)
    events = quotes((1, "a", 9), (2, "b", 9), (3, "a", 7), (4, "a", 3))
    others = {"Other": events[1:]}
    assert names(run(followed_by(STREAM, OTHER, skip=SAME_NAME, take=cheap), events[:1], **others)) == []
    assert names(run(followed_by(STREAM, OTHER, skip=call("and", SAME_NAME, cheap)), events[:1], **others)) == [("a", "a")]


def test_of_simultaneous_firsts_those_that_satisfy_take_are_kept():
    cheap = call("lt", candidate("price"), 5)
    others = quotes((2, "a", 9), (2, "a", 3), (2, "b", 1))
    assert run(followed_by(STREAM, OTHER, SAME_NAME, cheap), quotes((1, "a", 9)), Other=others) == [("a", 9, 0, "a", 3, 0, 1, 2)]


def test_dur_in_next_spans_both_events_and_in_filter_the_event_itself():
    short = call("le", Duration(), 3)
    events = quotes((1, "a", 0), (3, "b", 0), (9, "c", 0))
    assert names(run(followed_by(STREAM, STREAM, skip=short), events)) == [("a", "b")]
    assert names(run(where(followed_by(STREAM, STREAM), short), events)) == [("a", "b")]


def test_dur_of_the_whole_range_of_ticks_saturates():
    whole = Event(("a", 0, 0), -(2**63), MAX_TICK)
    assert run(where(STREAM, call("eq", Duration(), MAX_TICK)), [whole]) == [("a", 0, 0, whole.start, whole.end)]


def test_equal_rows_are_different_events():
    assert len(run(Union((STREAM, STREAM), STOCK), quotes((1, "a", 0), (1, "a", 0)))) == 4
    assert len(run(followed_by(STREAM, OTHER), quotes((1, "a", 0), (1, "a", 0)), Other=quotes((2, "b", 0)))) == 2


def test_the_order_inside_an_epoch_does_not_matter():
    query = run_of(STREAM, STREAM, SAME_NAME, call("ge", candidate("price"), last("price")))
    events = quotes((1, "a", 1), (1, "a", 2), (2, "a", 2), (2, "b", 1), (2, "a", 3), (3, "a", 3), (3, "b", 0))
    assert run(query, events) == run(query, events[::-1]) != []


def test_fold_does_not_test_its_starting_event_and_gives_every_longer_run():
    query = run_of(STREAM, STREAM, call("lt", candidate("price"), 5), TRUE)
    assert names(run(query, quotes((1, "a", 9), (2, "b", 1), (3, "c", 2)))) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_a_run_splits_at_simultaneous_events_and_dies_when_none_satisfies_step():
    query = run_of(STREAM, OTHER, TRUE, call("gt", candidate("price"), last("price")))
    others = quotes((2, "b", 2), (2, "c", 3), (3, "d", 3), (4, "e", 9))
    # From c the first candidate is d, which is no step up: that run ends and never sees e.
    assert names(run(query, quotes((1, "a", 1)), Other=others)) == [("a", "b"), ("a", "c"), ("a", "d"), ("a", "e")]
    assert names(run(query, quotes((1, "a", 1)), Other=others[1:])) == [("a", "c")]


def test_assignments_see_the_values_before_the_step():
    swap = (last("name"), last("volume"), last("price"))
    query = run_of(STREAM, OTHER, TRUE, TRUE, swap)
    assert run(query, quotes((1, "a", 1, 2)), Other=quotes((2, "b", 0), (3, "c", 0))) == [
        ("a", 1, 2, "a", 1, 2, 1, 3),
        ("a", 1, 2, "a", 2, 1, 1, 2),
    ]


def test_contributors_are_the_source_events_in_order():
    streams = {s: [Event(e.payload, e.start, e.end, ((s, i),)) for i, e in enumerate(quotes((1, "a", 0), (2, "b", 0)))] for s in ("S", "T")}
    query = followed_by(Source("S", STOCK), Published("P", Union((Source("S", STOCK), Source("T", STOCK)), STOCK)))
    assert [e.contributors for e in evaluate(query, streams)] == [(("S", 0), ("S", 1)), (("S", 0), ("T", 1))]
    fold = run_of(Source("S", STOCK), Source("T", STOCK), TRUE, TRUE)
    assert [e.contributors for e in evaluate(fold, streams)] == [(("S", 0), ("T", 1))]


def test_an_unknown_predicate_is_not_satisfied():
    unknown = call("eq", first("price"), Literal(None, Type.INTEGER))
    assert run(Filter(STREAM, unknown), quotes((1, "a", 1))) == []
    assert run(Filter(STREAM, call("not", unknown)), quotes((1, "a", 1))) == []


DOUBLED = call("add", candidate("price"), candidate("price"))


@pytest.mark.parametrize(
    "query",
    [
        Filter(STREAM, call("gt", call("add", first("price"), first("price")), 0)),
        Map(STREAM, (first("name"), call("add", first("price"), first("price")), first("volume")), STOCK),
        followed_by(STREAM, STREAM, skip=call("gt", DOUBLED, 0)),
        followed_by(STREAM, STREAM, take=call("gt", DOUBLED, 0)),
        run_of(STREAM, STREAM, TRUE, TRUE, (candidate("name"), DOUBLED, candidate("volume"))),
    ],
    ids=["filter", "map", "skip", "take", "update"],
)
def test_overflow_is_raised_wherever_a_predicate_or_an_attribute_is_computed(query: Operator):
    with pytest.raises(DataError) as raised:
        run(query, quotes((1, "a", 1), (2, "b", BIG)))
    assert raised.value.code == "K507"
    assert "row 1 of `Stock`" in str(raised.value)


def test_overflow_is_not_met_behind_the_deciding_epoch_but_inside_it():
    positive = call("gt", DOUBLED, 0)
    early, late = quotes((1, "a", 1)), quotes((2, "b", 1), (3, "c", BIG))
    assert names(run(followed_by(STREAM, OTHER, skip=positive), early, Other=late)) == [("a", "b")]
    with pytest.raises(DataError, match="row 2 of `Other`"):
        run(followed_by(STREAM, OTHER, skip=positive), early, Other=[*late[:1], *late[:1], *quotes((2, "c", BIG))])


def test_take_is_evaluated_only_where_skip_holds():
    query: Next = followed_by(STREAM, OTHER, SAME_NAME, call("gt", DOUBLED, 0))
    assert names(run(query, quotes((1, "a", 1)), Other=quotes((2, "b", BIG), (2, "a", 1)))) == [("a", "a")]


@pytest.mark.parametrize(
    ("histories", "first"),
    [
        ([(2, 2, 5, 5), (1, 1, 5, 5)], [1]),  # equal up to the end of the event before the last
        ([(2, 3, 5, 5), (1, 4, 5, 5)], [0]),  # that end counts before its start
        ([(3, 5), (1, 1, 4, 5)], [0]),  # the last start counts before anything earlier
        ([(5, 5), (1, 1, 5, 5)], [1]),  # no difference: the longer one
        ([(1, 1, 5, 5), (1, 1, 5, 5), (2, 2, 5, 5)], [0, 1]),
    ],
)
def test_the_earliest_history_is_found_from_the_end(histories: list[tuple[int, ...]], first: list[int]):
    events = [Event((i,), history[0], history[-1], (), history) for i, history in enumerate(histories)]
    assert [event.payload[0] for event in earliest(events)] == first


def test_by_history_only_the_right_operand_with_the_earliest_history_is_the_first():
    """Two pairs end with `z`, and in the interval model both are the first."""
    pairs = followed_by(OTHER, OTHER, skip=call("eq", candidate("name"), "z"))
    others = quotes((2, "x", 0), (3, "y", 0), (4, "z", 0))
    both = followed_by(STREAM, pairs)
    assert names(run(both, quotes((1, "a", 0)), Other=others)) == [("a", "x", "z"), ("a", "y", "z")]
    assert names(run(replace(both, by_history=True), quotes((1, "a", 0)), Other=others)) == [("a", "x", "z")]
    assert names(run(replace(both, by_history=True), quotes((2, "a", 0)), Other=others)) == [("a", "y", "z")]


def test_an_event_read_by_name_is_a_primitive_one():
    """As parts of a query, w before z is earlier than w, y before z; by name only start and end of the whole count, and they are equal."""
    w, y, z = [where(OTHER, call("eq", first("name"), name)) for name in "wyz"]
    sides = [only(followed_by(w, z), which=constant("short")), only(followed_by(followed_by(w, y), z), which=constant("long"))]
    others = {"Other": quotes((2, "w", 0), (3, "y", 0), (4, "z", 0))}
    results = {}
    for named in (False, True):
        pattern = Published("P", Union(tuple(sides), sides[0].schema), named=named)
        results[named] = names(run(replace(followed_by(STREAM, pattern), by_history=True), quotes((1, "a", 0)), **others))
    assert results == {False: [("a", "short")], True: [("a", "long"), ("a", "short")]}
