"""Components that must not occur: before, between and after those that do, each with its own stretch of time."""

from __future__ import annotations

import pytest

from .sase import matches, mistake, mistakes, where


def found(text: str, **events: str) -> list[int]:
    """The values of the first positive component."""
    return [match[0] for match in matches(text, **events)]


@pytest.mark.parametrize(("b", "is_found"), [("1:0", True), ("2:0", False), ("4:0", False), ("5:0", True), ("6:0", True)])
def test_between_two_events(b, is_found):
    assert found("SEQ(A a, !B, C c) RETURN a.x", A="1:7", B=b, C="5:0") == [7] * is_found


@pytest.mark.parametrize(("b", "is_found"), [("0:0", False), ("4:0", False), ("5:0", True), ("6:0", True)])
def test_before_the_first_event_without_a_window_at_any_time(b, is_found):
    assert found("SEQ(!B, A a, C c) RETURN a.x", A="5:7", B=b, C="6:0") == [7] * is_found


@pytest.mark.parametrize(("b", "is_found"), [("10:0", True), ("11:0", False), ("17:0", False), ("18:0", True)])
def test_before_the_first_event_with_a_window_counted_from_the_last(b, is_found):
    assert found("SEQ(!B, A a, C c) WITHIN 10 RETURN a.x", A="18:7", B=b, C="20:0") == [7] * is_found


@pytest.mark.parametrize(("b", "is_found"), [("3:0", True), ("4:0", False), ("10:0", False), ("11:0", True)])
def test_after_the_last_event_up_to_the_end_of_the_window(b, is_found):
    matched = [(7, 10)] if is_found else []
    assert matches("SEQ(A a, C c, !B) WITHIN 10 RETURN a.x", A="1:7", C="3:0", B=b) == matched


@pytest.mark.parametrize(("b", "is_found"), [("9:0", True), ("10:0", False), ("17:0", False), ("18:0", True)])
def test_before_the_first_event_with_a_window_that_includes_its_end(b, is_found):
    assert found("SEQ(!B, A a, C c) WITHIN <= 10 RETURN a.x", A="18:7", B=b, C="20:0") == [7] * is_found


@pytest.mark.parametrize(("b", "is_found"), [("3:0", True), ("4:0", False), ("11:0", False), ("12:0", True)])
def test_after_the_last_event_up_to_a_window_that_includes_its_end(b, is_found):
    matched = [(7, 11)] if is_found else []
    assert matches("SEQ(A a, C c, !B) WITHIN <= 10 RETURN a.x", A="1:7", C="3:0", B=b) == matched


def test_a_negated_end_is_known_one_tick_before_the_window_is_over():
    assert matches("SEQ(A a, !B) WITHIN 10 RETURN a.x", A="1:7 100:8") == [(7, 10), (8, 109)]


def test_a_window_of_one_tick_leaves_no_time_for_anything():
    assert matches("SEQ(A a, !B) WITHIN 1 RETURN a.x", A="1:7", B="1:0 2:0") == [(7, 1)]


def test_several_absences_are_each_asked_for():
    query = "SEQ(!B, A a, !B, C c, !B) WITHIN 10 RETURN a.x"
    assert found(query, A="5:7", C="8:0") == [7]
    for b in ("4:0", "6:0", "9:0"):
        assert found(query, A="5:7", C="8:0", B=b) == []
    for b in ("-2:0", "5:0", "8:0", "15:0"):
        assert found(query, A="5:7", C="8:0", B=b) == [7]


def test_a_condition_says_which_event_is_in_the_way():
    query = "SEQ(A a, !B b, C c) WHERE b.x = a.x AND b.y > 2 AND c.x > 0 RETURN a.x"
    assert where(query) == [["c.x > 0", "b.x = a.x; b.y > 2"]]
    assert found(query, A="1:7", B="2:7,2 3:8,3", C="5:1") == [7]
    assert found(query, A="1:7", B="2:7,3", C="5:1") == []


def test_the_condition_of_a_component_does_too():
    assert found("SEQ(A a, !B b (y > 2), C c) RETURN a.x", A="1:7", B="2:7,2", C="5:1") == [7]
    assert found("SEQ(A a, !B b (y > 2), C c) RETURN a.x", A="1:7", B="2:7,3", C="5:1") == []


def test_an_unknown_comparison_is_in_nobodys_way():
    assert found("SEQ(A a, !B b, C c) WHERE b.x = a.x RETURN a.x", A="1:7", B="2:-", C="5:1") == [7]


@pytest.mark.parametrize(("events", "is_found"), [({}, True), ({"B": "2:1"}, False), ({"C": "2:1"}, False), ({"C": "9:1"}, True)])
def test_neither_of_two_types(events, is_found):
    assert found("SEQ(A a, !ANY(B, C) n, D d) RETURN a.x", A="1:7", D="5:1", **events) == [7] * is_found


def test_a_negated_end_needs_a_window():
    finding = mistake("SEQ(A a, B b, !C c)")
    assert (finding.code, finding.span.text, finding.label) == ("K304", "!C c", "nothing says when to stop waiting")
    assert finding.help == ("add a window, for example `WITHIN 12 hours`",)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("SEQ(A a, !B, !C) WITHIN 3", "K309", "!C"),
        ("SEQ(!A, !B)", "K310", "!A"),
        ("!A", "K310", "!A"),
        ("UNORDERED(A, !B)", "K312", "!B"),
        ("SEQ(!A a, B b, !C c) WHERE a.x = c.x WITHIN 4", "K308", "a.x = c.x"),
        ("SEQ(!A a, B b, !C c) WHERE b.x = 1 OR NOT (a.x + c.x > 3) WITHIN 4", "K308", "a.x + c.x > 3"),
        ("SEQ(A a, C c) WITHIN 0", "K311", "0"),
    ],
)
def test_patterns_that_mean_nothing(text, code, place):
    finding = mistake(text)
    assert (finding.code, finding.span.text) == (code, place)


def test_two_absences_that_stand_side_by_side_may_be_one():
    assert mistake("SEQ(A a, !B, !ANY(C, A)) WITHIN 3").help == ("for the absence of either write `!ANY(B, C, A)`",)


def test_a_window_given_as_a_parameter_must_be_positive():
    assert mistake("SEQ(A a, C c) WITHIN :w", w=-3).code == "K311"
    assert mistake("SEQ(A a, C c) WITHIN :w", w="soon").code == "K205"


def test_the_shape_is_checked_whatever_the_streams_are():
    assert [m.code for m in mistakes("SEQ(Nothing n, !A, !B)")] == ["K202", "K309", "K304"]
