"""Which equivalence test divides the stacks of a sequence: the one with most values, as far as that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka

EVENTS = pa.table({"t": range(200), "type": ["A", "B"] * 100, "few": [i % 3 for i in range(200)], "many": [i // 2 for i in range(200)]})
BOTH = "SEQ(A a, B b) WHERE [few, many] WITHIN 50"


def divided_by(data: Any, query: str = BOTH, **said: Any) -> str:
    text = keuka.sase(query).explain({"E": keuka.Stream(data, time="t", **said)}, type_column="type")
    return next(line.strip().removeprefix("stacks divided by ") for line in text.splitlines() if "stacks" in line)


def test_data_in_memory_is_looked_at():
    assert divided_by(EVENTS) == "a.many = b.many"


def test_the_first_rows_of_a_file_are_looked_at(tmp_path: Path):
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    assert divided_by(str(tmp_path / "events.parquet")) == "a.many = b.many"


def test_of_a_reader_nothing_is_known_so_the_first_one_is_taken():
    assert divided_by(EVENTS.to_reader()) == "a.few = b.few"


def test_what_is_declared_counts_more_than_what_is_seen():
    assert divided_by(EVENTS, distinct={"few": 1_000_000}) == "a.few = b.few"
    assert divided_by(EVENTS.to_reader(), distinct={"many": 100}) == "a.many = b.many"


def test_a_test_of_all_components_is_better_than_one_of_some():
    query = "SEQ(A a, B b, A c) WHERE [few] AND a.many = c.many WITHIN 50"
    assert divided_by(EVENTS, query) == "a.few = b.few = c.few"


def test_one_event_and_an_absence_share_a_key():
    assert divided_by(EVENTS, "SEQ(A a, !B b) WHERE [many] WITHIN 50") == "a.many = b.many"
    assert divided_by(EVENTS, "SEQ(!B b, A a) WHERE b.few = a.few") == "b.few = a.few"


def test_without_a_test_stacks_are_not_divided():
    assert "not divided" in divided_by(EVENTS, "SEQ(A a, B b) WHERE a.few < b.few WITHIN 50")


@pytest.mark.parametrize("said", [{"other": 5}, {"few": 0}, {"few": "many"}, 5])
def test_a_wrong_declaration_is_refused(said: Any):
    with pytest.raises(keuka.DataError) as error:
        divided_by(EVENTS, distinct=said)
    assert error.value.code == "K515"
