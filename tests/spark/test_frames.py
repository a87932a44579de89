"""Queries over DataFrames: what they give, how they are divided, and what is said of mistakes. Runs over Spark Connect as well."""

from __future__ import annotations

import datetime
import decimal
import logging
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

import keuka
from keuka.spark.frames import all_on_spark
from workloads import w1, w2

from .cases import bag

RISES = "SELECT name, price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S"
TICKS = pa.table(
    {
        "ts": list(range(40)),
        "name": [["a", "b", None, "c"][i % 4] for i in range(40)],
        "price": [(i * 7) % 11 + 0.5 for i in range(40)],
        "volume": [i % 5 for i in range(40)],
    }
)


def same(found: DataFrame, expected: pa.Table) -> None:
    table = found.toArrow()
    assert table.schema.names == expected.schema.names
    assert bag(table) == bag(expected)
    assert expected.num_rows > 0


def shuffles(frame: DataFrame) -> list[str]:
    """How rows are sent to workers, from the last to the first."""
    plan = frame._explain_string() if hasattr(frame, "_explain_string") else ""
    return [line.strip(" +-:") for line in plan.splitlines() if "Exchange" in line]


# -- the calls -------------------------------------------------------------------------------------------------------------


def test_match_takes_a_frame_and_gives_one(spark: SparkSession):
    found = keuka.match(RISES, spark.createDataFrame(TICKS), time="ts")
    assert isinstance(found, DataFrame)
    same(found, keuka.match(RISES, TICKS, time="ts"))


def test_a_query_is_a_transformation(spark: SparkSession):
    found = spark.createDataFrame(TICKS).transform(keuka.matching(RISES, time="ts")).where(sf.col("name") == "a")
    expected = keuka.match(RISES, TICKS, time="ts")
    same(found, expected.filter(pa.compute.equal(expected["name"], "a")))


def test_results_have_the_columns_that_output_schema_says(spark: SparkSession):
    query = keuka.cel(RISES)
    assert query.output_schema(spark.createDataFrame(TICKS), time="ts") == query.output_schema(TICKS, time="ts")


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_the_number_of_shards_changes_nothing(spark: SparkSession, shards: int):
    same(keuka.on_spark(RISES, spark.createDataFrame(TICKS), time="ts", shards=shards), keuka.match(RISES, TICKS, time="ts"))


def test_parameters_and_outputs_are_as_everywhere(spark: SparkSession):
    query = "FROM FILTER {volume > :v} (S) PUBLISH Large; FROM Large NEXT {$2.name = $1.name} Large PUBLISH Pairs"
    frame = spark.createDataFrame(TICKS)
    for output in ("Large", "Pairs"):
        expected = keuka.match(query, TICKS, time="ts", params={"v": 2}, output=output, language="cel")
        same(keuka.match(query, frame, time="ts", params={"v": 2}, output=output, language="cel"), expected)


def test_several_streams_with_other_columns(spark: SparkSession):
    news = pa.table({"at": [3, 9, 21], "symbol": ["a", "b", "a"], "text": ["x", None, "z"]})
    query = "SELECT name, text, price FROM News NEXT {$2.name = $1.symbol} Stock"
    streams = {"News": keuka.Stream(news, time="at"), "Stock": keuka.Stream(TICKS, time="ts")}
    frames = {name: keuka.Stream(spark.createDataFrame(stream.data), time=stream.time) for name, stream in streams.items()}
    same(keuka.match(query, frames), keuka.match(query, streams))


def test_intervals(spark: SparkSession):
    table = pa.table({"begin": [1, 2, 5, 9, 9], "end": [3, 4, 8, 9, 12], "n": [1, 2, 3, 4, 5]})
    query = "SELECT n_1, n FROM S NEXT S"
    same(keuka.match(query, spark.createDataFrame(table), time=("begin", "end")), keuka.match(query, table, time=("begin", "end")))


@pytest.mark.parametrize("id", [None, "volume"])
def test_contributors_and_ids_are_those_of_this_process(spark: SparkSession, id: str | None):
    """With an id column, and by content: equal rows are told apart by their number."""
    table = pa.concat_tables([TICKS, TICKS.slice(0, 8)]) if id is None else TICKS.set_column(3, "volume", pa.array(range(40)))
    query = "SELECT name FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S"
    frame = keuka.Stream(spark.createDataFrame(table), time="ts", id=id)
    same(keuka.match(query, frame, contributors=True), keuka.match(query, keuka.Stream(table, time="ts", id=id), contributors=True))


# -- columns ---------------------------------------------------------------------------------------------------------------


def test_columns_may_differ_only_in_case(spark: SparkSession):
    table = TICKS.append_column("Price", pa.array([-1.0] * 40)).append_column("TS", pa.array(["x"] * 40))
    query = "SELECT name, price_1, Price, TS FROM S NEXT {$2.name = $1.name AND $2.price > $1.Price} S"
    same(keuka.match(query, spark.createDataFrame(table), time="ts"), keuka.match(query, table, time="ts"))


def test_column_names_may_have_dots_blanks_and_backticks(spark: SparkSession):
    table = TICKS.rename_columns(["ts", "a.b", "the price", "v`v"])
    query = "SELECT `a.b`, `the price` FROM S NEXT {$2.`a.b` = $1.`a.b` AND $2.`the price` > $1.`the price`} S"
    same(keuka.match(query, spark.createDataFrame(table), time="ts"), keuka.match(query, table, time="ts"))


MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2024, 3, 31, 2, 30),
    datetime.datetime(2024, 3, 31, 2, 30, 1),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("arrow", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()], ids=str)
def test_times_are_the_same_in_every_zone_of_the_session(spark: SparkSession, arrow: pa.DataType, zone: str):
    table = pa.table({"at": pa.array(MOMENTS * 3, pa.timestamp("us")).cast(arrow), "k": [1] * 3 + [2] * 3 + [3] * 3})
    queries = {
        "a key": "SELECT at_1, at FROM S NEXT {$2.k = $1.k} S",
        "a window": "SELECT k_1, k, at FROM S NEXT {DUR < 100000 days} S",
        "a comparison": "SELECT at FROM FILTER {at > TIMESTAMP '2024-01-01T00:00:00'} (S)" if pa.types.is_timestamp(arrow) else "FROM S",
    }
    before = spark.conf.get("spark.sql.session.timeZone")
    frame = spark.createDataFrame(table)
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        for query in queries.values():
            try:
                expected = keuka.match(query, table, time="at")
            except keuka.QueryError:
                continue
            found = keuka.match(
                query,
                frame,
                time="at",
            ).toArrow()
            assert bag(found.cast(expected.schema)) == bag(expected), query
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def test_other_types_pass_through(spark: SparkSession):
    table = pa.table(
        {
            "t": pa.array([1, 2, 3], pa.int32()),
            "small": pa.array([1, None, 3], pa.int8()),
            "real": pa.array([1.5, None, 2.5], pa.float32()),
            "exact": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")], pa.decimal128(10, 2)),
            "bytes": pa.array([b"", None, b"\x00"], pa.binary()),
            "day": pa.array([datetime.date(2024, 1, 1), None, datetime.date(1900, 1, 1)], pa.date32()),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "pair": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
            "truth": pa.array([True, None, False]),
        }
    )
    query = "SELECT small, real, exact, bytes, day, list, pair, truth_1, small_1, exact_1, list_1 FROM S NEXT {$2.t > $1.t} S"
    same(keuka.match(query, spark.createDataFrame(table), time="t"), keuka.match(query, table, time="t"))


# -- how rows are divided --------------------------------------------------------------------------------------------------


def test_rows_that_meet_no_others_are_not_sent_anywhere(spark: SparkSession):
    found = keuka.match("SELECT name, price * 2 AS double FROM FILTER {volume > 2} (S)", spark.createDataFrame(TICKS), time="ts")
    assert shuffles(found) == []
    assert found.count() == 16


def test_without_a_key_time_is_cut_into_slices(spark: SparkSession):
    query = "SELECT name_1, price FROM S NEXT {DUR <= 3 AND $2.price > $1.price} S"
    for n_shards in (1, 2, 3, 7):
        same(keuka.on_spark(query, spark.createDataFrame(TICKS), time="ts", shards=n_shards), keuka.match(query, TICKS, time="ts"))


def test_without_key_and_window_one_worker_does_it_and_that_is_said(spark: SparkSession, caplog: pytest.LogCaptureFixture):
    query = "SELECT name_1, price FROM S NEXT {$2.price > $1.price} S PUBLISH Following"
    with caplog.at_level(logging.WARNING, logger="keuka"):
        found = keuka.match(query, spark.createDataFrame(TICKS), time="ts")
    assert "`Following` runs on one worker" in caplog.text
    assert "add an equality" in caplog.text
    same(found, keuka.match(query, TICKS, time="ts"))


def test_a_stream_that_is_read_on_another_key_makes_two_stages(spark: SparkSession, caplog: pytest.LogCaptureFixture):
    """No windows: by names first, then by volumes."""
    query = (
        "SELECT price AS p, volume AS v FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S PUBLISH Up;"
        "SELECT p_1, p, v FROM Up NEXT {$2.v = $1.v} Up PUBLISH Twice"
    )
    with caplog.at_level(logging.WARNING, logger="keuka"):
        found = keuka.match(query, spark.createDataFrame(TICKS), time="ts", language="cel")
    assert "one worker" not in caplog.text
    same(found, keuka.match(query, TICKS, time="ts", language="cel"))


def test_queries_of_a_set_are_divided_each_in_its_way(spark: SparkSession):
    query = (
        "SELECT price FROM S NEXT {$2.name = $1.name} S PUBLISH ByName;"
        "SELECT price FROM S NEXT {$2.volume = $1.volume} S PUBLISH ByVolume;"
        "SELECT name FROM S NEXT {DUR < 4 AND $2.price > $1.price} S PUBLISH InTime;"
        "SELECT name_1, name FROM S NEXT {$2.price > $1.price} S PUBLISH Any;"
        "SELECT volume FROM FILTER {price > 5} (S) PUBLISH Some"
    )
    results = all_on_spark(query, spark.createDataFrame(TICKS), time="ts", language="cel")
    expected = keuka.match_all(query, TICKS, time="ts", language="cel")
    assert results.names == tuple(expected)
    for name, table in expected.items():
        same(results.output(name), table)


def test_an_output_that_is_also_a_stage_of_another_is_there_once(spark: SparkSession):
    """`Up` and `Again` run together by name; `Pairs` reads `Up` in slices of time."""
    query = (
        "SELECT name, price AS p FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S PUBLISH Up;"
        "SELECT p_1, p FROM Up NEXT {DUR <= 30 AND $2.p < $1.p} Up PUBLISH Pairs;"
        "SELECT name, volume FROM S NEXT {$2.name = $1.name} S PUBLISH Again"
    )
    results = all_on_spark(query, spark.createDataFrame(TICKS), time="ts", language="cel")
    for name, table in keuka.match_all(query, TICKS, time="ts", language="cel").items():
        same(results.output(name), table)


def test_streams_with_dates_beside_streams_with_timestamps(spark: SparkSession):
    """Results of a set show all times in one type, also those of queries over dates alone."""
    days = pa.table({"at": pa.array([datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(40)]), "n": list(range(40))})
    ticks = pa.table({"at": pa.array([datetime.datetime(2024, 1, 5)] * 2, pa.timestamp("us", "UTC")), "n": [1, 1]})
    query = (
        "SELECT n_1, n FROM D NEXT {DUR < 3 days} D PUBLISH Days; SELECT n FROM T NEXT {$2.n = $1.n} T PUBLISH Ticks;"
        "SELECT n FROM T PUBLISH Every"
    )
    streams = {"D": days, "T": ticks}
    results = all_on_spark(query, {name: spark.createDataFrame(table) for name, table in streams.items()}, time="at", language="cel")
    expected = keuka.match_all(query, streams, time="at", language="cel")
    for name in ("Days", "Every"):
        same(results.output(name), expected[name])


def test_a_stream_between_two_stages_may_have_columns_named_as_those_of_results(spark: SparkSession):
    query = "SELECT price AS _end, volume AS v FROM S NEXT {DUR < 5} S PUBLISH P;SELECT v FROM P NEXT {$2.v = $1.v AND DUR < 9} P PUBLISH Q"
    same(keuka.match(query, spark.createDataFrame(TICKS), time="ts", language="cel"), keuka.match(query, TICKS, time="ts", language="cel"))


# -- mistakes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "options", "code"),
    [
        ("SELECT nme FROM S", {"time": "ts"}, "K201"),
        ("SELECT name FRM S", {"time": "ts"}, "K101"),
        ("SELECT name FROM S", {"time": "when"}, "K501"),
        ("SELECT name FROM S", {"time": "name"}, "K508"),
        ("SELECT name FROM S", {"time": "ts", "lateness": "5 parsecs"}, "K515"),
        ("SELECT name FROM S NEXT T", {"time": "ts"}, "K505"),
        ("SELECT name AS _end FROM S", {"time": "ts"}, "K208"),
    ],
)
def test_mistakes_are_said_before_a_job_starts(spark: SparkSession, query: str, options: dict[str, Any], code: str):
    with pytest.raises(keuka.KeukaError) as error:
        keuka.match(query, spark.createDataFrame(TICKS), language="cel", **options)
    assert error.value.code == code


def test_frames_do_not_go_with_other_data(spark: SparkSession):
    with pytest.raises(keuka.DataError) as error:
        keuka.match("FROM A NEXT B", {"A": spark.createDataFrame(TICKS), "B": TICKS}, time="ts", language="cel")
    assert error.value.code == "K512"
    assert "spark.createDataFrame" in str(error.value)


def test_declared_columns_are_chosen_and_converted(spark: SparkSession):
    frame = spark.createDataFrame([(1, "a", 1, b"x"), (2, "a", 2, b"x")], "ts int, name string, price int, unread binary")
    text = "SELECT name, price_1 AS low, price AS high FROM Stock NEXT {$2.price > $1.price} Stock"
    for schema in ("ts BIGINT, name STRING, price DOUBLE", StructType().add("ts", "long").add("name", "string").add("price", "double")):
        for streams, said in ((frame, schema), ({"Stock": frame}, {"Stock": schema}), ({"Stock": keuka.Stream(frame)}, schema)):
            found = keuka.on_spark(text, streams, time="ts", schema=said)
            assert [(field.name, field.dataType.simpleString()) for field in found.schema][1:3] == [("low", "double"), ("high", "double")]
            assert [(row.low, row.high) for row in found.collect()] == [(1.0, 2.0)]
    every = all_on_spark(f"{text} PUBLISH Rises", frame, time="ts", language="cel", schema="ts BIGINT, name STRING, price DOUBLE")
    assert [(row.low, row.high) for row in every.output("Rises").collect()] == [(1.0, 2.0)]
    with pytest.raises(keuka.QueryError, match="`unread`"):
        keuka.on_spark("SELECT unread FROM Stock", frame, time="ts", schema="ts BIGINT, name STRING")
    with pytest.raises(ValueError, match="there is no stream `Stok`; there are `Stock`"):
        keuka.on_spark(text, {"Stock": frame}, time="ts", schema={"Stok": "ts BIGINT"})
    with pytest.raises(ValueError, match="one DataFrame was given"):
        keuka.on_spark(text, frame, time="ts", schema={"Stock": "ts BIGINT"})
    with pytest.raises(ValueError, match="`ts VARIANT` has a type that Spark alone knows; other types need a StructType"):
        keuka.on_spark(text, frame, time="ts", schema="ts VARIANT")


def test_streaming_frames_give_streaming_frames_if_their_state_can_be_kept(spark: SparkSession):
    frame = spark.readStream.format("rate").load()
    for schema in (None, "timestamp TIMESTAMP, value BIGINT"):
        assert keuka.on_spark("SELECT value FROM S", frame, time="timestamp", schema=schema, shards=2).isStreaming
    provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider.replace("RocksDB", "HDFSBacked"))
    try:
        with pytest.raises(keuka.DataError, match="K556"):
            keuka.on_spark("SELECT value FROM S", frame, time="timestamp")
    finally:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    with pytest.raises(keuka.DataError, match=r"K515.*`idle_after=` is for streams that go on"):
        keuka.on_spark("SELECT id FROM S", spark.range(3), time="id", idle_after="10 s")


def test_large_tables_reach_the_workers(spark: SparkSession):
    """More than what Spark sends as part of a task without a broadcast of its own, and than a message of gRPC holds by default."""
    names = [f"{i:06d}{'x' * 994}" for i in range(10_000)]
    listed = ", ".join([f"'{name}'" for name in names])
    frame = spark.createDataFrame([(t, names[t]) for t in range(5)] + [(5, "y")], "ts bigint, name string")
    found = keuka.match(f"SELECT ts AS t FROM FILTER {{name IN ({listed})}} (S)", frame, time="ts", language="cel")
    assert sorted(row.t for row in found.collect()) == [0, 1, 2, 3, 4]


def test_a_type_that_python_has_no_room_for_is_named(spark: SparkSession):
    frame = spark.sql("SELECT 1 AS ts, INTERVAL '1-2' YEAR TO MONTH AS gap")
    with pytest.raises(keuka.DataError, match="column `gap` is interval year to month"):
        keuka.match("SELECT ts FROM S", frame, time="ts")


def test_a_row_without_a_time_ends_the_job_with_our_message(spark: SparkSession):
    frame = spark.createDataFrame([(1, "a"), (None, "b")], "ts bigint, name string")
    for query in ("SELECT name FROM S NEXT {$2.name = $1.name} S", "SELECT name FROM S NEXT {DUR < 5} S"):
        with pytest.raises(PySparkException, match=r"error\[K502\]"):
            keuka.match(query, frame, time="ts").collect()


def test_an_event_that_ends_before_it_starts_is_refused_in_every_zone(spark: SparkSession):
    frame = spark.sql("SELECT TIMESTAMP_NTZ '2024-01-01 03:00:00' AS s, DATE '2024-01-01' AS e, 1 AS n")
    with pytest.raises(PySparkException, match=r"error\[K503\]"):
        keuka.match("SELECT n FROM FILTER {n > 5} (S)", frame, time=("s", "e")).collect()


def test_every_task_has_the_limits_of_the_call(spark: SparkSession):
    frame = spark.createDataFrame([(i // 10, i) for i in range(120)], "t bigint, n bigint")
    explosive = "SELECT n FROM S FOLD {TRUE, TRUE} S"
    with pytest.raises(PySparkException, match=r"K518.*its limit of 50 MB"):
        keuka.match(explosive, frame, time="t", limits=keuka.Limits(memory="50 MB")).collect()
    with pytest.raises(PySparkException, match=r"K518.*more than 3 matches"):
        keuka.match_all("SELECT n FROM S PUBLISH A", frame, time="t", limits=keuka.Limits(matches=3))["A"].collect()
    with pytest.raises(TypeError, match=r"limits must be a keuka\.Limits"):
        keuka.on_spark(explosive, frame, time="t", limits="4 GB")  # type: ignore[arg-type]


def test_threads_and_shards_are_not_mixed_up(spark: SparkSession):
    with pytest.raises(ValueError, match="shards"):
        keuka.match(RISES, spark.createDataFrame(TICKS), time="ts", threads=2)
    with pytest.raises(ValueError, match="shards must be"):
        keuka.on_spark(RISES, spark.createDataFrame(TICKS), time="ts", shards=0)


# -- workloads -------------------------------------------------------------------------------------------------------------


def test_w1_has_its_262_matches(spark: SparkSession):
    found = keuka.match(keuka.cel(w1.QUERY), spark.createDataFrame(w1.generate()), time="ts").toArrow()
    assert (found.num_rows, w1.digest(found)) == (w1.N_MATCHES, w1.DIGEST)


@pytest.mark.parametrize("workload", [w2.W2, w2.W3, w2.W3_AFTER], ids=lambda workload: workload.name)
def test_a_sequence_has_its_known_matches(spark: SparkSession, workload: w2.Workload):
    found = keuka.match(keuka.sase(workload.query), spark.createDataFrame(w2.generate(workload)), time="ts", type_column="type")
    assert w2.answer(workload, found.toArrow()) == (workload.n_matches, workload.digest)


def test_a_condition_that_never_holds_is_warned_of_by_the_driver(spark: SparkSession, caplog: pytest.LogCaptureFixture):
    query = "SELECT name FROM FILTER {price > 5 AND price < 3} (S)"
    assert keuka.match(query, spark.createDataFrame(TICKS), time="ts").collect() == []
    (warning,) = [message for message in caplog.messages if "K32" in message]
    assert warning.startswith("warning[K322]: `price > 5` and `price < 3` are never both true")


# -- rows that are no events -------------------------------------------------------------------------------------------------

JOBS = pa.table(
    {
        "a": pa.array([1, 5, None, 7, 8], pa.int64()),
        "b": pa.array([2, 4, 3, None, 9], pa.int64()),
        "n": [1, 2, 3, 4, 5],
    }
)


def test_rows_that_are_no_events_are_left_out_and_kept_if_asked(spark: SparkSession):
    frame = spark.createDataFrame(JOBS)
    kept: list[DataFrame] = []
    query = "SELECT n FROM FILTER {n > 1} (S)"
    found = keuka.on_spark(query, {"S": keuka.Stream(frame, time=("a", "b"))}, rejected=kept)
    assert found.toArrow()["n"].to_pylist() == [5]
    (rejected,) = kept
    assert rejected.columns == ["a", "b", "n", "_stream", "_reason", "_file", "_line", "_text"]
    rows = [(row["n"], row["_stream"], row["_reason"]) for row in rejected.orderBy("n").collect()]
    assert rows == [(2, "S", "starts after its end"), (3, "S", "no time"), (4, "S", "no time")]
    quietly = keuka.on_spark(query, {"S": keuka.Stream(frame, time=("a", "b"), on_bad_row="reject")})
    assert quietly.toArrow()["n"].to_pylist() == [5]


def test_rows_that_are_no_events_are_an_error_unless_they_are_rejected(spark: SparkSession):
    found = keuka.on_spark("SELECT n FROM S", {"S": keuka.Stream(spark.createDataFrame(JOBS), time=("a", "b"), on_bad_row="error")})
    with pytest.raises(PySparkException, match=r"K50[23]"):
        found.collect()
