"""UNORDERED: one event of each type, in any order; variables keep the place in the list."""

from __future__ import annotations

from .sase import matches, sequence


def test_every_order_matches():
    assert matches("UNORDERED(A a, B b) RETURN a.x AS a, b.x AS b", A="1:1 5:5", B="3:3,0") == [(1, 3, 3), (5, 3, 5)]


def test_simultaneous_events_do_not():
    assert matches("UNORDERED(A a, B b)", A="1:1", B="1:3,0") == []


def test_the_window_is_from_the_first_to_the_last_in_time():
    assert len(matches("UNORDERED(A a, B b, C c) WITHIN 10", A="10:1", B="1:1,0", C="5:1")) == 1
    assert len(matches("UNORDERED(A a, B b, C c) WITHIN 9", A="10:1", B="1:1,0", C="5:1")) == 0


def test_conditions_name_the_listed_places():
    assert matches("UNORDERED(A, B) WHERE $x1.x = 5 AND [x] RETURN $x2.y", A="5:5", B="3:5,8 7:5,9") == [(8, 5), (9, 7)]
    assert not sequence("UNORDERED(A, B)").ordered


def test_components_may_have_conditions_and_be_choices():
    assert matches("UNORDERED(A a (x > 1), ANY(B, C) n) RETURN a.x", A="1:1 2:2", C="3:0") == [(2, 3)]
