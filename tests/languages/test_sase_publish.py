"""PUBLISH: queries that read each other's matches, in one file or several; circles and double names."""

from __future__ import annotations

import pytest

import keuka
from keuka.languages.sase.lower import LANGUAGE

from .sase import matches, mistake, mistakes, outline, parsed, program


def outputs(*texts: str) -> list[str]:
    return [name for name, _ in program(*texts).outputs]


def test_outputs_come_in_the_order_of_the_text():
    assert outputs("SEQ(Late l, A a); A PUBLISH Late; B PUBLISH b-late;") == ["", "Late", "b-late"]
    assert outputs("SEQ(Late l, A a)", "A PUBLISH Late") == ["", "Late"]


def test_a_match_is_an_event_for_others():
    text = "SEQ(A a, B b) RETURN a.x, b.y PUBLISH Pairs; SEQ(Pairs p, C c) WHERE p.a_x = c.x"
    assert (
        outline(program(text).outputs[1][1])
        == """\
map p_a_x, p_b_y, c_x, c_t
  sequence p, c
    published Pairs
      map a_x, b_y
        sequence a, b
          A
          B
    C"""
    )
    assert matches(text, A="1:1", B="2:5,6", C="2:1 3:1") == [(1, 6, 1, 3, 3)]


@pytest.mark.parametrize(
    ("texts", "message", "place"),
    [
        (("A a PUBLISH P; SEQ(Q q, A a) PUBLISH Q",), "`Q` reads itself", "Q"),
        (("ANY(Q, A) PUBLISH P", "SEQ(P, A) PUBLISH Q"), "`P` reads itself by way of `Q`", "P"),
    ],
)
def test_circles_are_refused_by_name(texts, message, place):
    finding = mistake(*texts)
    assert (finding.code, finding.message, finding.span.text) == ("K305", message, place)


def test_a_name_is_published_once_and_is_no_input():
    assert [m.code for m in mistakes("A PUBLISH P; B PUBLISH P; C PUBLISH A")] == ["K306", "K306"]


def test_a_wrong_query_does_not_make_its_readers_wrong():
    assert [m.span.text for m in mistakes("Nothing PUBLISH P; SEQ(P p, A a) WHERE p.x = 1; ANY(A, P)")] == ["Nothing"]
    assert [m.span.text for m in mistakes("A a RETURN a.nothing PUBLISH P; SEQ(P p, A a) WHERE p.a_nothing = a.x")] == ["a.nothing"]


def test_long_chains_of_queries_are_refused():
    chain = ["A PUBLISH q0", *[f"q{i} q RETURN q.* PUBLISH q{i + 1}" for i in range(300)]]
    assert {m.code for m in mistakes("; ".join(chain))} == {"K103"}


def test_what_a_text_reads_and_publishes():
    files = (parsed("SEQ(A, !B, ANY(P, C)) WHERE [x = :p] WITHIN :w; SEQ(C, A) PUBLISH P"),)
    assert LANGUAGE.inputs(files) == ("A", "B", "C")
    assert LANGUAGE.published(files) == ("P",)
    assert LANGUAGE.parameters(files) == ("p", "w")


def test_a_query_from_python():
    query = keuka.sase("SEQ(A a, B b) WHERE a.x = :v PUBLISH P", name="mine.sase")
    assert (query.texts[0].language, query.inputs, query.published, query.parameters) == ("sase", ("A", "B"), ("P",), ("v",))
    with pytest.raises(TypeError, match="must be a str"):
        keuka.sase(3)
    with pytest.raises(keuka.QueryError, match=r"mine\.sase:1:1"):
        keuka.sase("(", name="mine.sase")
