"""From order of arrival to event-time order: compared with a plain sort, for any disorder and any split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keuka.errors import DataError
from keuka.events.order import EventBatch, common_axis, in_order
from keuka.events.sources import OpenStream, Stream, open_stream

Row = tuple[int, int, int]  # start, end, number in order of arrival


@dataclass(frozen=True)
class Arrival:
    """Rows in order of arrival, how they come, and in which pieces."""

    rows: list[Row]
    way: str  # "table", "reader" or "sorted reader"
    lateness: int
    sizes: list[int]

    def opened(self, name: str) -> OpenStream:
        columns = {key: [row[i] for row in self.rows] for i, key in enumerate(("start", "end", "number"))}
        table = pa.table(columns, schema=pa.schema([(key, pa.int64()) for key in columns]))
        pieces = [batch for piece in split(table, self.sizes) for batch in piece.to_batches()]
        data = pa.Table.from_batches(pieces, table.schema)
        return open_stream(
            name,
            Stream(
                data if self.way == "table" else pa.RecordBatchReader.from_batches(table.schema, pieces),
                time=("start", "end"),
                lateness=self.lateness,
                sort=self.way == "sorted reader",
            ),
        )

    def first_late(self) -> int | None:
        """The first row that is further back than the lateness, where that matters."""
        largest = -(2**63)
        for number, (_, end, _) in enumerate(self.rows):
            if end < largest - self.lateness and self.way == "reader":
                return number
            largest = max(largest, end)
        return None


def split(table: pa.Table, sizes: Sequence[int]) -> Iterator[pa.Table]:
    begin = 0
    for size in [*sizes, table.num_rows]:
        yield table.slice(begin, size)
        begin += size


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    pairs = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(-12, 12)), max_size=30))
    way = draw(st.sampled_from(["table", "reader", "sorted reader"]))
    lateness = draw(st.integers(0, 8))
    if way == "reader" and draw(st.booleans()):  # mostly in order, as files are
        pairs.sort(key=lambda pair: pair[1] + draw(st.integers(0, lateness)))
    rows = [(end - length, end, number) for number, (length, end) in enumerate(pairs)]
    return Arrival(rows, way, lateness, draw(st.lists(st.integers(0, 6), max_size=10)))


def rows_of(batch: EventBatch) -> list[Row]:
    assert batch.table.schema.names == ["number"]
    assert batch.table.column("number").to_pylist() == batch.rows.tolist()
    return list(zip(batch.start.tolist(), batch.end.tolist(), batch.rows.tolist(), strict=True))


def outcome(opened: list[OpenStream], columns: Sequence[str], chunk_rows: int) -> list[dict[str, EventBatch]] | DataError:
    try:
        return list(in_order(opened, {stream.name: columns for stream in opened}, chunk_rows))
    except DataError as error:
        return error


@given(st.lists(arrivals(), min_size=1, max_size=3), st.integers(1, 9))
def test_steps_are_whole_epochs_of_all_streams_in_order(arrivals: list[Arrival], chunk_rows: int) -> None:
    opened = [arrival.opened(f"S{i}") for i, arrival in enumerate(arrivals)]
    late = [f"stream `S{i}`, row {row + 1}," for i, arrival in enumerate(arrivals) if (row := arrival.first_late()) is not None]
    result = outcome(opened, ["number"], chunk_rows)
    if isinstance(result, DataError):
        assert result.code == "K504"
        assert any(place in str(result) for place in late)
        return
    assert not late
    last = -(2**63)
    for step in result:
        assert all(len(batch) for batch in step.values())
        assert min(int(batch.end[0]) for batch in step.values()) > last
        last = max(int(batch.end[-1]) for batch in step.values())
    for stream, arrival in zip(opened, arrivals, strict=True):
        seen = [row for step in result if stream.name in step for row in rows_of(step[stream.name])]
        assert seen == sorted(arrival.rows, key=lambda row: row[1])


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(0, 40), st.lists(st.integers(0, 9), max_size=12))
def test_how_rows_are_split_does_not_change_which_row_is_late(ends: list[int], lateness: int, sizes: list[int]) -> None:
    rows = [(end, end, number) for number, end in enumerate(ends)]

    def said(sizes: list[int], chunk_rows: int) -> str:
        result = outcome([Arrival(rows, "reader", lateness, sizes).opened("S")], [], chunk_rows)
        return str(result) if isinstance(result, DataError) else "fine"

    assert said(sizes, 1) == said([], 1000) == said(sizes, 4)


def ticks(ends: Sequence[int], **columns: Any) -> pa.Table:
    return pa.table({"n": pa.array(ends, pa.int64()), **columns})


def steps(*tables: Any, columns: Sequence[str] = (), chunk_rows: int = 65_536, **options: Any) -> list[dict[str, EventBatch]]:
    opened = [open_stream(name, Stream(table, time="n", **options)) for name, table in zip("ST", tables, strict=False)]
    return list(in_order(opened, {stream.name: columns for stream in opened}, chunk_rows))


def test_a_sorted_table_is_not_copied() -> None:
    table = ticks(range(1000), p=np.arange(1000.0))
    p = table["p"].chunk(0)
    begin = p.buffers()[1].address
    for step in steps(table, columns=["p"], chunk_rows=100):
        column = step["S"].table.column("p")
        assert column.buffers()[1].address == begin
        assert np.shares_memory(step["S"].end, table["n"].chunk(0).to_numpy())
        assert column.to_pylist() == step["S"].end.tolist()


def test_an_ordered_reader_is_copied_only_at_the_seams() -> None:
    batches = [pa.record_batch({"n": np.arange(i * 100, (i + 1) * 100), "p": np.zeros(100)}) for i in range(5)]
    at = {batch.column("p").buffers()[1].address for batch in batches}
    shared = [step["S"].table.column("p").buffers()[1].address in at for step in steps(iter(batches), columns=["p"], chunk_rows=100)]
    assert sum(shared) >= 5
    assert [len(step["S"]) for step in steps(iter(batches), chunk_rows=100)] == [99, 1, 99, 1, 99, 1, 99, 1, 99, 1]


def test_an_epoch_that_spans_many_batches_is_one_step() -> None:
    batches = [pa.record_batch({"n": [7, 7]}) for _ in range(100)] + [pa.record_batch({"n": [8]})]
    (first, second) = steps(iter(batches), chunk_rows=1)
    assert first["S"].rows.tolist() == list(range(200))
    assert second["S"].end.tolist() == [8]


def test_small_batches_are_put_together() -> None:
    batches = (pa.record_batch({"n": [i]}) for i in range(1000))
    assert len(steps(batches, chunk_rows=400)) < 25


def test_a_stream_is_read_only_as_far_as_the_others_have_come() -> None:
    taken = {"S": 0, "T": 0}

    def source(name: str, stride: int) -> Iterator[pa.RecordBatch]:
        for i in range(100):
            taken[name] += 1
            yield pa.record_batch({"n": [i * stride, i * stride + 1]})

    opened = [open_stream(name, Stream(source(name, stride), time="n")) for name, stride in (("S", 100), ("T", 2))]
    for step in in_order(opened, {"S": [], "T": []}, chunk_rows=1):
        if max(int(batch.end[-1]) for batch in step.values()) > 150:
            break
    assert taken["S"] <= 5
    assert 75 <= taken["T"] <= 80


def test_streams_with_no_events_do_not_hold_others_up() -> None:
    assert [step["T"].end.tolist() for step in steps(ticks([]), ticks([2, 1]))] == [[1, 2]]
    assert steps(ticks([]), ticks([])) == []


def test_rows_may_be_late_by_exactly_the_lateness() -> None:
    table = ticks([10, 5, 11, 6])
    assert [e for step in steps(table.to_reader(), lateness=5, chunk_rows=1) for e in step["S"].end] == [5, 6, 10, 11]


def test_ends_near_the_limits_of_64_bits() -> None:
    limits = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]
    for data in (ticks(limits), ticks(limits).to_reader()):
        assert [e for step in steps(data, lateness=2**62, chunk_rows=1) for e in step["S"].end] == limits


def test_sorting_keeps_row_numbers_and_every_type_of_column() -> None:
    table = ticks(
        [3, 1, 2],
        text=["c", "a", "b"],
        coded=pa.array(["c", "a", "b"]).dictionary_encode(),
        view=pa.array(["c", "a", "b"], pa.string_view()),
        list=[[3], [1], [2]],
        flag=[None, True, False],
    )
    for data in (table, table.to_reader(), iter(table.to_batches(max_chunksize=2))):
        (step,) = steps(data, columns=["text", "coded", "view", "list", "flag"], sort=True)
        batch = step["S"]
        assert batch.rows.tolist() == [1, 2, 0]
        for name in ("text", "coded", "view"):
            assert batch.table.column(name).to_pylist() == ["a", "b", "c"]
        assert batch.table.column("list").to_pylist() == [[1], [2], [3]]
        assert batch.table.column("flag").to_pylist() == [True, False, None]


def test_wanted_columns_come_in_the_order_asked_for_with_or_without_the_time() -> None:
    table = ticks([1], a=[2], b=[3])
    assert steps(table, columns=["b", "n"])[0]["S"].table.to_pylist() == [{"b": 3, "n": 1}]
    assert steps(table.to_reader(), columns=["b", "a"])[0]["S"].table.to_pylist() == [{"b": 3, "a": 2}]
    empty = steps(table.to_reader(), columns=[])[0]["S"]
    assert (len(empty), empty.table.num_columns) == (1, 0)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2], pa.timestamp("s")), [1_000_000, 2_000_000]),
        (pa.array([1, 2], pa.timestamp("ms")), [1_000, 2_000]),
        (pa.array([1, 2], pa.timestamp("us", "Asia/Tokyo")), [1, 2]),
        (pa.array([1_000, 2_000], pa.timestamp("ns")), [1, 2]),
        (pa.array([1, 2], pa.date32()), [86_400_000_000, 172_800_000_000]),
        (pa.array([86_400_000, 172_800_000], pa.date64()), [86_400_000_000, 172_800_000_000]),
        (pa.array([1, 2], pa.uint8()), [1, 2]),
        (pa.array([-1, 2], pa.int32()), [-1, 2]),
        (pa.array([1, 2], pa.uint64()), [1, 2]),
    ],
)
def test_every_type_of_time_becomes_ticks(column: pa.Array, expected: list[int]) -> None:
    for data in (pa.table({"n": column}), pa.table({"n": pa.chunked_array([column[:1], column[1:]])}).to_reader()):
        assert [e for step in steps(data) for e in step["S"].end] == expected


def axes(*columns: pa.Array, unit: str | None = None) -> pa.DataType:
    opened = [open_stream(f"S{i}", Stream(pa.table({"n": c}), time="n", unit=unit)) for i, c in enumerate(columns)]
    return common_axis(opened).arrow


def test_streams_in_different_zones_give_results_in_utc() -> None:
    berlin, tokyo = (pa.array([1], pa.timestamp("s", zone)) for zone in ("Europe/Berlin", "Asia/Tokyo"))
    local, date = pa.array([1], pa.timestamp("us")), pa.array([1], pa.date32())
    assert axes(berlin, berlin) == pa.timestamp("us", "Europe/Berlin")
    assert axes(berlin, tokyo) == pa.timestamp("us", "UTC")
    assert axes(local, local) == pa.timestamp("us")
    assert axes(local, date) == pa.timestamp("us")
    assert axes(date, date) == pa.date32()
    assert axes(pa.array([1], pa.int8()), pa.array([1], pa.uint32()), unit="ms") == pa.int64()
