"""CEL and SASE in one set: texts that read each other's streams, and what can be wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import keuka

ONE = {"S": [{"t": 1, "n": 1}, {"t": 2, "n": 5}, {"t": 3, "n": 7}]}
LARGE = keuka.cel("FROM FILTER {n > 2} (S) PUBLISH Large")
PAIRS = keuka.sase("SEQ(Large a, Large b) RETURN a.n AS low, b.n AS high PUBLISH Pairs")


def mistakes(*queries: keuka.Query) -> list[str]:
    with pytest.raises(keuka.QueryError) as caught:
        keuka.match_all(keuka.query(queries), ONE, time="t")
    return [finding.code for finding in caught.value.diagnostics]


@pytest.mark.parametrize("queries", [[LARGE, PAIRS], [PAIRS, LARGE]])
def test_the_order_of_texts_does_not_matter(queries: list[keuka.Query]):
    both = keuka.query(queries)
    assert (both.inputs, {*both.published}) == (("S",), {"Large", "Pairs"})
    assert keuka.match(both, ONE, time="t", output="Pairs").to_pylist() == [{"low": 5, "high": 7, "_start": 2, "_end": 3}]


def test_cel_reads_what_sase_publishes():
    wide = keuka.cel("SELECT high - low AS gap FROM Pairs")
    assert keuka.match(keuka.query([LARGE, PAIRS, wide]), ONE, time="t").to_pylist() == [{"gap": 2, "_start": 2, "_end": 3}]


def test_a_directory_may_hold_both(tmp_path: Path):
    (tmp_path / "a.sase").write_text(PAIRS.texts[0].file.source.text)
    (tmp_path / "b.cel").write_text(LARGE.texts[0].file.source.text)
    assert {*keuka.match_all(tmp_path, ONE, time="t")} == {"Large", "Pairs"}


def test_a_text_that_is_there_twice_has_two_results():
    every, pairs = keuka.cel("FROM S"), keuka.sase("SEQ(S a, S b)")
    for queries in ([every, pairs, pairs], [every, every, pairs], [pairs, every, pairs]):
        assert list(keuka.match_all(keuka.query(queries), ONE, time="t")) == ["query_1", "query_2", "query_3"]


def test_parameters_go_to_the_texts_that_have_them():
    some = keuka.query([keuka.cel("FROM FILTER {n > :least} (S) PUBLISH Some"), keuka.sase("SEQ(Some a, Some b) WITHIN :w")])
    assert some.parameters == ("least", "w")
    assert keuka.match(some, ONE, time="t", params={"least": 0, "w": 2}).num_rows == 2
    with pytest.raises(keuka.QueryError, match="no parameter `:x`"):
        keuka.match(some, ONE, time="t", params={"least": 0, "w": 2, "x": 1})


def test_mistakes_of_all_texts_are_reported_at_once():
    assert mistakes(keuka.cel("FROM FILTER {x > 1} (S) PUBLISH P"), keuka.sase("SEQ(S a) WHERE a.y = 1"), PAIRS, LARGE) == ["K201", "K201"]


def test_one_name_is_published_once():
    assert mistakes(LARGE, keuka.sase("SEQ(S a) PUBLISH Large")) == ["K306"]


def test_a_circle_is_refused():
    assert mistakes(keuka.cel("FROM B PUBLISH A"), keuka.sase("SEQ(A a, S s) PUBLISH B")) == ["K305"]


def test_texts_nest_as_deep_as_queries_of_one_text():
    texts = [keuka.cel("FROM S PUBLISH P0")]
    for i in range(1, 300):
        texts.append(keuka.sase(f"SEQ(P{i - 1} a) RETURN a.t AS t PUBLISH P{i}") if i % 2 else keuka.cel(f"FROM P{i - 1} PUBLISH P{i}"))
    assert mistakes(*texts) == ["K103"]


def test_several_queries_are_queries():
    with pytest.raises(TypeError, match="several of them"):
        keuka.query([LARGE, "FROM S"])  # type: ignore[list-item]
