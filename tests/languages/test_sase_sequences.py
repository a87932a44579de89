"""SEQ and WITHIN: all combinations, in the strict order of `end`, less than the window apart."""

from __future__ import annotations

from datetime import timedelta

import pytest

from keuka.algebra.semantics import Event, evaluate
from keuka.schema import MAX_TICK

from .sase import matches, mistake, names, operator, outline, sequence


def test_the_sequence_stands_under_a_map_over_its_components():
    assert (
        outline(operator("SEQ(A a, !B (y > 2), C) WHERE a.x = $x3.x WITHIN 5"))
        == """\
map a_x, a_t, x3_x, x3_t
  sequence a, !x2, x3 within 5
    A
    filter $x2.y > 2
      B
    C"""
    )


def test_all_combinations_are_found():
    assert matches("SEQ(A a, B b) RETURN a.x AS a, b.x AS b", A="1:1 2:2", B="3:3 4:4") == [(1, 3, 3), (2, 3, 3), (1, 4, 4), (2, 4, 4)]


def test_simultaneous_events_are_in_no_order():
    assert matches("SEQ(A a, B b)", A="1:1 2:2", B="1:3") == []


def test_one_stream_can_be_several_components():
    assert matches("SEQ(A a, A b, A c) RETURN a.x AS a, b.x AS b, c.x AS c", A="1:1 2:2 3:3 3:4") == [(1, 2, 3, 3), (1, 2, 4, 3)]


def test_overlapping_events_are_ordered_by_their_end():
    long, short = Event((1, 5), 1, 5, (("A", 0),)), Event((2, 0, 4), 4, 6, (("B", 0),))
    found = evaluate(operator("SEQ(A a, B b)"), {"A": [long], "B": [short]})
    assert [(event.start, event.end, event.contributors) for event in found] == [(1, 6, (("A", 0), ("B", 0)))]


@pytest.mark.parametrize(("b", "found"), [("10:1", 1), ("11:1", 0), ("12:1", 0)])
def test_the_window_itself_is_too_far_apart(b, found):
    assert len(matches("SEQ(A a, B b) WITHIN 10", A="1:1", B=b)) == found


def test_the_window_is_from_the_first_to_the_last():
    assert len(matches("SEQ(A a, B b, C c) WITHIN 10", A="1:1", B="8:1", C="10:1 11:1")) == 1


@pytest.mark.parametrize(("b", "found"), [("10:1", 1), ("11:1", 1), ("12:1", 0)])
def test_a_window_can_include_its_end(b, found):
    assert len(matches("SEQ(A a, B b) WITHIN <= 10", A="1:1", B=b)) == found


@pytest.mark.parametrize(
    ("window", "ticks"),
    [
        *[("3 hours", 10_800), ("10001", 10_001), ("1 s", 1), (":w", 42), (":d", 90), ("1.5 min", 90), ("3 h", 10_800), ("2 m", 120)],
        *[("<= 1 min", 61), ("1 min + 1 s", 61), ("1 h - 1 min - 1 s", 3_539), (":t", 600), ("<= :t", 601), (":t + 1 s", 601), ("<= 0", 1)],
        *[("<= :d - 1 s", 90), (f"<= {MAX_TICK}", MAX_TICK - 1), (":t + :d", 690)],
    ],
)
def test_windows_are_ticks(window, ticks):
    params = {name: value for name, value in {"w": 42, "d": timedelta(seconds=90), "t": "10 min"}.items() if f":{name}" in window}
    assert sequence(f"SEQ(EXIT-READING, EXIT-READING) WITHIN {window}", **params).within == ticks


@pytest.mark.parametrize(
    ("window", "code"), [("1 h - 1 h", "K311"), ("<= -1", "K101"), ("< 3", "K101"), (f"{MAX_TICK} + 1", "K210"), ("1 s + 0.5", "K205")]
)
def test_windows_that_are_refused(window, code):
    assert mistake(f"SEQ(EXIT-READING, EXIT-READING) WITHIN {window}").code == code


def test_without_a_window_there_is_none():
    assert sequence("SEQ(A, B)").within == MAX_TICK


def test_a_window_without_a_unit_is_mentioned_where_ticks_are_microseconds(caplog):
    assert sequence("SEQ(Stock a, Stock b) WITHIN 10").within == 10
    assert caplog.messages == ["`WITHIN 10` has no unit: that is 10 microseconds"]


def test_a_single_type_is_a_sequence_of_one():
    assert matches("A a (x > 1)", A="1:1 2:2") == [(2, 2, 2)]
    assert matches("A WHERE $x1.x > 1 RETURN $1.x AS x", A="1:1 2:2") == [(2, 2)]
    assert names("A") == "x1_x x1_t"


def test_conditions_on_one_event_may_name_it():
    assert outline(operator("A a (x > 1 AND a.x < 5 AND $x1.x <> 3 AND $1.t > 0)")).splitlines()[2] == (
        "    filter a.x > 1 AND a.x < 5 AND a.x <> 3 AND a.t > 0"
    )


def test_null_satisfies_no_comparison():
    assert matches("SEQ(A a, B b) WHERE a.x = b.x", A="1:-", B="2:- 3:1") == []
    assert matches("SEQ(A a, B b) WHERE NOT a.x = b.x RETURN a.x", A="1:-", B="2:- 3:1") == []


def test_equal_events_are_different_ones():
    assert len(matches("SEQ(A a, B b)", A="1:1 1:1", B="2:1 2:1")) == 4
