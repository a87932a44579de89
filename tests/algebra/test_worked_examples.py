"""The worked examples of the CESAR paper (sections 1.1, 2 and 3), on the reference evaluator."""

from __future__ import annotations

from keuka.algebra.operators import Operator, Source
from keuka.expressions import TRUE, Call, Duration
from keuka.schema import Type

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

PRICES = only(STREAM, name="name", price="price")


def test_query_1_filters_single_events():
    query = where(STREAM, call("and", call("eq", first("name"), "IBM"), call("gt", first("price"), 100)))
    assert run(query, quotes((1, "IBM", 101), (2, "IBM", 100), (3, "Dell", 200))) == [("IBM", 101, 0, 1, 1)]


def test_query_2_judges_only_the_first_microsoft_quote_afterwards():
    high = where(PRICES, call("and", call("eq", first("name"), "IBM"), call("gt", first("price"), 100)))
    pair = followed_by(high, PRICES, skip=call("eq", candidate("name"), "MSFT"))
    query = where(pair, call("lt", first("price", pair.schema), 25))
    assert run(query, quotes((1, "IBM", 101), (2, "Dell", 9), (3, "MSFT", 24))) == [("IBM", 101, "MSFT", 24, 1, 3)]
    assert run(query, quotes((1, "IBM", 101), (2, "MSFT", 26), (3, "MSFT", 24))) == []


def test_query_3_compares_each_sale_with_the_next_of_the_same_stock():
    pair = followed_by(PRICES, PRICES, skip=SAME_NAME)
    above = call("gt", call("mul", 100, first("price", pair.schema)), call("mul", 105, first("price_1", pair.schema)))
    events = quotes((1, "IBM", 100), (2, "Dell", 10), (3, "IBM", 106), (4, "Dell", 10), (5, "IBM", 107))
    assert run(where(pair, above), events) == [("IBM", 100, "IBM", 106, 1, 3)]


def increasing(origin: Operator, at_least: int) -> Operator:
    rising = call("gt", candidate("price", PRICES.schema), last("price", PRICES.schema))
    return where(run_of(origin, PRICES, SAME_NAME, rising), call("ge", Duration(), at_least))


def test_query_4_follows_one_stock_and_query_5_all():
    ibm = where(PRICES, call("eq", first("name"), "IBM"))
    events = quotes((1, "IBM", 10), (2, "Dell", 5), (3, "IBM", 11), (4, "Dell", 6), (5, "IBM", 12), (6, "IBM", 9))
    assert run(increasing(ibm, 5), events) == [("IBM", 10, "IBM", 12, 1, 5)]
    assert run(increasing(PRICES, 3), events) == [
        ("Dell", 5, "Dell", 6, 2, 4),
        ("IBM", 10, "IBM", 11, 1, 3),
        ("IBM", 10, "IBM", 12, 1, 5),
        ("IBM", 11, "IBM", 12, 3, 5),
    ]


def test_query_6_averages_over_a_run_and_compares_the_next_quote_with_it():
    ibm = where(PRICES, call("eq", first("name"), "IBM"))
    average = Call("to_double", (first("price"),), Type.DOUBLE)
    started = only(ibm, name="name", price="price", average=average, count=constant(1))
    schema = started.schema
    count, mean = last("count", schema), last("average", schema)
    total = Call("mul", (call("to_double", count), mean), Type.DOUBLE)
    summed = Call("add", (total, call("to_double", candidate("price"))), Type.DOUBLE)
    following = Call("div", (summed, call("to_double", call("add", count, 1))), Type.DOUBLE)
    update = (candidate("name"), candidate("price"), following, call("add", count, 1))
    year = where(run_of(started, ibm, TRUE, TRUE, update), call("eq", Duration(), 4))
    above = followed_by(only(year, name="name", average="average"), ibm)
    query = where(above, call("gt", call("to_double", first("price", above.schema)), first("average", above.schema)))
    events = quotes((1, "IBM", 10), (2, "IBM", 20), (3, "Dell", 99), (4, "IBM", 60), (5, "IBM", 31), (6, "IBM", 5))
    assert run(query, events) == [("IBM", 30.0, "IBM", 31, 1, 5)]


TABLE_1 = quotes(
    (910, "IBM", 90, 15000),
    (915, "IBM", 85, 7000),
    (917, "Dell", 40, 11000),
    (921, "IBM", 81, 8000),
    (923, "MSFT", 25, 6000),
    (924, "IBM", 91, 9000),
)


def query_7() -> Operator:
    large = only(where(STREAM, call("gt", first("volume"), 10000)), name="name", price="price")
    falling = call("lt", candidate("price", PRICES.schema), last("price", PRICES.schema))
    fall = run_of(large, PRICES, call("eq", candidate("name"), last("name")), falling)
    long_fall = where(only(fall, name="name", highest="price_1", lowest="price"), call("ge", Duration(), 10))
    rebound = followed_by(long_fall, PRICES, skip=SAME_NAME)
    above = call("gt", call("mul", 100, first("price", rebound.schema)), call("mul", 105, first("lowest", rebound.schema)))
    return only(where(rebound, above), name="name", highest="highest", lowest="lowest", final="price")


def test_query_7_on_table_1():
    assert run(query_7(), TABLE_1) == [("IBM", 90, 81, 91, 910, 924)]


def test_a_simultaneous_lower_quote_does_not_hinder_the_rebound():
    assert run(query_7(), [*TABLE_1, *quotes((924, "IBM", 80, 8000))]) == [("IBM", 90, 81, 91, 910, 924)]


def test_a_simultaneous_higher_quote_of_the_same_stock_ends_the_fall():
    assert run(query_7(), [*TABLE_1, *quotes((917, "IBM", 99, 8000))]) == []


def test_the_iteration_example_of_section_2_3():
    events = quotes((1, "IBM", 10), (2, "Dell", 22), (3, "IBM", 19), (4, "Dell", 24), (5, "IBM", 22), (6, "Dell", 22))
    assert run(increasing(PRICES, 0), events) == [
        ("Dell", 22, "Dell", 24, 2, 4),
        ("IBM", 10, "IBM", 19, 1, 3),
        ("IBM", 10, "IBM", 22, 1, 5),
        ("IBM", 19, "IBM", 22, 3, 5),
    ]


def nested() -> Operator:
    """S1 ;_(S3.price > S1.price) (S2 ; S3), the simplest expression that is not linear-plus (section 3.5)."""
    pairs = followed_by(PRICES, PRICES)
    return followed_by(PRICES, pairs, skip=call("gt", candidate("price", pairs.schema), first("price")))


def test_stream_s_of_section_3_5_finds_the_overlapping_pair():
    events = quotes((1, "IBM", 10), (2, "Dell", 22), (3, "IBM", 9), (4, "Dell", 24), (5, "IBM", 11))
    assert run(nested(), events) == [
        ("Dell", 22, "IBM", 9, "Dell", 24, 2, 4),
        ("IBM", 9, "Dell", 24, "IBM", 11, 3, 5),
        ("IBM", 10, "IBM", 9, "Dell", 24, 1, 4),
    ]


def test_stream_s_prime_of_section_3_5_takes_the_simultaneous_pair_that_ends_first():
    events = quotes((1, "IBM", 10), (2, "Dell", 22), (3, "IBM", 9), (3, "Dell", 23), (4, "Dell", 24), (5, "IBM", 11))
    results = run(nested(), events)
    assert ("IBM", 10, "Dell", 22, "Dell", 23, 1, 3) in results
    assert ("IBM", 10, "Dell", 23, "Dell", 24, 1, 4) not in results
    assert ("IBM", 10, "IBM", 9, "Dell", 24, 1, 4) not in results


def test_figure_1_combines_with_the_event_that_ends_first_among_those_that_start_later():
    others = Source("Other", STOCK)
    figure = intervals((2, 5, "e2", 0), (4, 9, "e3", 0), (5, 7, "e4", 0), (8, 10, "e5", 0))
    result = run(followed_by(STREAM, others), intervals((1, 3, "e1", 0)), Other=figure)
    assert result == [("e1", 0, 0, "e4", 0, 0, 1, 7)]
