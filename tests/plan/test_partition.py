"""Which plans have a key, and which: every construct by a query over streams of different columns."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import keuka
from keuka.automaton.automata import AutomatonOperator
from keuka.automaton.contract import Partition, Plan
from keuka.automaton.keys import MOST_WAYS
from keuka.diagnostics import SourceText
from keuka.expressions import show
from keuka.languages.cel.lower import LANGUAGE
from keuka.languages.cel.syntax import parse
from keuka.plan.planner import plan
from keuka.schema import StreamType, TimeAxis, Type, schema_of

COLUMNS = {
    "Stock": [("t", pa.int64()), ("Name", pa.string()), ("Day", pa.int64()), ("Price", pa.float64()), ("Raw", pa.binary())],
    "News": [("at", pa.int64()), ("Symbol", pa.string()), ("Source", pa.string()), ("Date", pa.int64()), ("Weight", pa.float64())],
}
STREAMS = {name: StreamType(schema_of(pa.schema(columns)), TimeAxis(None, pa.int64())) for name, columns in COLUMNS.items()}


def planned(text: str, **options: bool) -> Plan:
    return plan(LANGUAGE.lower((parse(SourceText("<query>", text)),), STREAMS, {}), **options)


def key_of(text: str) -> dict[str, tuple[str, ...]] | None:
    partition = planned(text).partition
    return None if partition is None else dict(partition.columns)


QUERY_7 = """
SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
FROM FILTER {Price > 1.05 * MinPrice} (
       FILTER {DUR >= 10} (
         SELECT Name, Price_1 AS MaxPrice, Price AS MinPrice
         FROM FILTER {Day > 10000} (Stock) FOLD {$2.Name = $.Name, $2.Price < $.Price} Stock)
       NEXT {$2.Name = $1.Name} Stock)
"""
NAME = {"Stock": ("Name",)}
SAME_NEWS = "(SELECT Symbol AS Name FROM News)"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (QUERY_7, NAME),
        ("FROM Stock NEXT {$2.Name = $1.Name} Stock NEXT {$2.Name = $1.Name_1} Stock NEXT {$1.Name_2 = $2.Name} Stock", NAME),
        ("FROM Stock NEXT {$2.Name = $1.Name} Stock NEXT {$2.Price > 3} Stock", None),
        ("FROM Stock NEXT {$2.Name = $1.Name} Stock NEXT {$2.Day = $1.Day} Stock", None),
    ],
)
def test_every_step_of_a_chain_must_compare_the_key(text, key):
    assert key_of(text) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("FROM Stock NEXT {Symbol = Name} News", {"Stock": ("Name",), "News": ("Symbol",)}),
        ("FROM News NEXT {$2.Name = $1.Symbol} Stock NEXT {$2.Symbol = $1.Name} News", {"News": ("Symbol",), "Stock": ("Name",)}),
        ("FROM News NEXT {$2.Name = $1.Symbol} Stock NEXT {$2.Source = $1.Name} News", None),
        ("FROM Stock NEXT {$2.Date = $1.t} News", {"Stock": ("t",), "News": ("Date",)}),
    ],
)
def test_streams_may_call_the_key_differently_but_each_has_one_column_for_it(text, key):
    assert key_of(text) == key


@pytest.mark.parametrize(
    "condition",
    [
        "TRUE",
        "$2.Price > $1.Price",
        "$2.Name = 'IBM'",
        "$2.Name = $1.Name OR $2.Price > 3",
        "NOT $2.Name <> $1.Name",
        "$2.t = $1.Day",  # two columns of one stream: a row would have to go to two places
        "upper($2.Name) = upper($1.Name)",
        "$2.Price = $1.Day",  # an integer made a double is another value
        "$2.Day + 1 = $1.Day",
        "$2.Name = concat($1.Name, '')",
    ],
)
def test_only_a_plain_equality_of_one_column_makes_a_key(condition):
    assert key_of(f"FROM Stock NEXT {{{condition}}} Stock") is None


def test_a_filter_above_does_not_make_a_key():
    """It only judges what was found: the first event of another key ends the instance."""
    assert key_of("FROM FILTER {Name = Name_1} (Stock NEXT Stock)") is None


@pytest.mark.parametrize(
    ("braces", "key"),
    [
        ("$2.Name = $.Name, TRUE", NAME),  # the current name is the candidate's, which is that of the run
        ("$2.Name = $1.Name, TRUE", NAME),
        ("$2.Name = $1.Name, TRUE, 'x' AS Name", NAME),
        ("$2.Name = $.Name, TRUE, 'x' AS Name", None),
        ("$2.Name = $.Name, TRUE, concat($.Name, '') AS Name", None),
        ("$2.Name = $.Name, TRUE, $1.Name AS Name", NAME),
        ("$2.Name = $.Name, TRUE, $.Name AS Name", NAME),
        ("$2.Day = $.Day, TRUE, $.t AS Day", None),
        ("$2.Day = $.Day, TRUE, $.Day AS t, $.t AS Day", None),
        ("TRUE, $2.Name = $.Name", None),
    ],
)
def test_the_current_values_of_a_run_must_keep_the_key(braces, key):
    assert key_of(f"FROM Stock FOLD {{{braces}}} Stock") == key


def test_a_value_that_is_lost_in_the_second_step_is_lost():
    copies = "(SELECT Name, Name AS Other FROM Stock) FOLD {$2.Name = $.Name, TRUE, $.Other AS Name"
    assert key_of(f"FROM {copies}}} (SELECT Name FROM Stock)") == NAME
    assert key_of(f"FROM {copies}, 'x' AS Other}} (SELECT Name FROM Stock)") is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("FROM (SELECT Name AS u, Day FROM Stock NEXT {$2.Name = $1.Name} Stock) NEXT {Name = u} Stock", NAME),
        ("FROM (SELECT upper(Name) AS u FROM Stock NEXT {$2.Name = $1.Name} Stock) NEXT {Name = u} Stock", None),
        ("SELECT Price FROM Stock NEXT {$2.Name = $1.Name} Stock", NAME),
        ("FROM (SELECT Price AS p FROM Stock NEXT {$2.Name = $1.Name} Stock) NEXT {$2.Price = p} Stock", None),
    ],
)
def test_a_projection_keeps_the_key_where_it_names_it(text, key):
    assert key_of(text) == key


@pytest.mark.parametrize(
    ("braces", "last", "key"),
    [
        ("$2.Name = $1.Name, TRUE", "Name", NAME),
        ("$2.Name = $1.Name, TRUE, 'x' AS Name", "Name", None),
        ("$2.Name = $1.Name, TRUE, 'x' AS Name", "Name_1", NAME),
    ],
)
def test_after_a_run_the_key_is_where_its_last_step_left_it(braces, last, key):
    assert key_of(f"FROM Stock FOLD {{{braces}}} Stock NEXT {{$2.Name = $1.{last}}} Stock") == key


def test_a_run_may_find_its_key_in_an_attribute_that_only_steps_give_it():
    text = "FROM (SELECT Name, 'none' AS Latest FROM Stock) FOLD {$2.Name = $1.Name, TRUE, $2.Name AS Latest} (SELECT Name FROM Stock)"
    assert key_of(f"{text} NEXT {{$2.Name = $1.Latest}} Stock") == NAME
    assert key_of(text.replace("$2.Name = $1.Name, ", "$2.Name = $.Latest, ")) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"FROM (SELECT Name FROM Stock) UNION {SAME_NEWS} NEXT {{$2.Name = $1.Name}} Stock", {"Stock": ("Name",), "News": ("Symbol",)}),
        (f"FROM Stock NEXT {{$2.Name = $1.Name}} ({SAME_NEWS} UNION (SELECT Name FROM Stock))", {"Stock": ("Name",), "News": ("Symbol",)}),
        ("FROM (SELECT t AS a FROM Stock) UNION (SELECT Day AS a FROM Stock) NEXT {$2.t = $1.a} Stock", None),
        (
            "FROM (SELECT Name AS a, Name AS b FROM Stock) UNION (SELECT Symbol AS a, Source AS b FROM News) NEXT {$2.Name = $1.a} Stock",
            {"Stock": ("Name",), "News": ("Symbol",)},
        ),
        # After the union `b` holds the key of the one side only.
        (
            "FROM (SELECT Name AS a, Name AS b FROM Stock) UNION (SELECT Symbol AS a, Source AS b FROM News) "
            "NEXT {$2.Name = $1.a} Stock NEXT {$2.Name = $1.b} Stock",
            None,
        ),
    ],
)
def test_all_sides_of_a_union_must_have_the_key_in_the_same_place(text, key):
    assert key_of(text) == key


def test_a_stream_that_meets_no_other_is_not_divided():
    assert key_of(f"FROM (SELECT Name FROM Stock NEXT {{$2.Name = $1.Name}} Stock) UNION {SAME_NEWS}") == NAME


def test_a_query_without_next_and_fold_can_be_divided_at_will():
    partition = planned("FROM FILTER {Price > 3} Stock").partition
    assert partition == Partition({}, (), {"query_1": ()})


def test_all_outputs_must_agree_on_the_key():
    by_name, by_day = "FROM Stock NEXT {$2.Name = $1.Name} Stock PUBLISH A", "FROM Stock NEXT {$2.Day = $1.Day} Stock PUBLISH B"
    assert key_of(by_name) == NAME
    assert key_of(by_day) == {"Stock": ("Day",)}
    assert key_of(f"{by_name}; {by_day}") is None
    assert key_of(f"{by_name}; FROM News NEXT {{$2.Source = $1.Source}} News") == {"Stock": ("Name",), "News": ("Source",)}


def test_a_component_has_one_type_in_all_streams():
    """Streams that never meet could be divided by different things, but one shuffle has one type of key."""
    by_name, by_date = "FROM Stock NEXT {$2.Name = $1.Name} Stock", "FROM News NEXT {$2.Date = $1.Date} News"
    assert key_of(f"{by_name} PUBLISH A; {by_date} PUBLISH B") is None
    by_both = by_name.replace("}", " AND $2.Day = $1.Day}")
    assert key_of(f"{by_both} PUBLISH A; {by_date} PUBLISH B") == {"Stock": ("Day",), "News": ("Date",)}


def test_published_streams_are_read_with_their_key():
    text = "SELECT Name AS n FROM Stock NEXT {$2.Name = $1.Name} Stock PUBLISH P; SELECT n_1 AS m FROM P NEXT {$2.n = $1.n} P PUBLISH R; "
    assert key_of(f"{text} FROM R NEXT {{$2.n = $1.m}} P") == NAME
    assert key_of(f"{text} FROM R NEXT {{$2.n <> $1.m}} P") is None


def test_a_second_input_that_is_more_than_a_stream_is_read_with_its_key():
    second = "(SELECT Symbol AS s FROM News NEXT {$2.Name = $1.Symbol} Stock)"
    assert key_of(f"FROM Stock NEXT {{$2.s = $1.Name}} {second}") == {"News": ("Symbol",), "Stock": ("Name",)}


def test_several_equalities_make_several_components():
    text = "FROM Stock NEXT {$2.Date = $1.Day AND $2.Weight > 3 AND $1.Name = $2.Symbol} News"
    partition = planned(text).partition
    assert partition is not None
    assert partition.columns == {"Stock": ("Name", "Day"), "News": ("Symbol", "Date")}
    assert partition.types == (Type.STRING, Type.INTEGER)
    assert str(partition) == "Stock.Name = News.Symbol, Stock.Day = News.Date"
    assert key_of(f"{text} NEXT {{$2.Symbol = $1.Name}} News") == {"Stock": ("Name",), "News": ("Symbol",)}


def test_a_column_is_in_one_component_only():
    assert key_of("FROM Stock NEXT {$2.Source = $1.Name AND $2.Symbol = $1.Name} News") == {"Stock": ("Name",), "News": ("Symbol",)}


def keys_of(plan_: Plan) -> dict[str, list[list[str]]]:
    """By automaton and state, the hash keys that hold the components."""
    assert plan_.partition is not None
    found: dict[str, list[list[str]]] = {}
    for stage in plan_.stages:
        found[stage.name] = []
        assert isinstance(stage.physical, AutomatonOperator)
        for state, ordinals in zip(stage.physical.automaton.states, plan_.partition.ordinals[stage.name], strict=True):
            keys = state.conditions.keys
            found[stage.name].append([f"{show(a, sided=True)} = {show(b, sided=True)}" for a, b in [keys[i] for i in ordinals]])
    return found


@pytest.mark.parametrize("linear", [True, False])
def test_each_state_says_which_of_its_hash_keys_hold_the_components(linear):
    text = (
        "FROM Stock NEXT {$2.Price = $1.Price AND $2.Date + 1 = $1.Day AND $2.Date = $1.Day AND $2.Symbol = $1.Name} "
        "(SELECT Weight AS Price, Symbol, Date FROM News) NEXT {$2.Symbol = $1.Name AND $2.Date = $1.Day} News PUBLISH R"
    )
    found = keys_of(planned(text, linear=linear))
    states = [state for states in found.values() for state in states]
    assert sorted(states) == [
        ["$2.Symbol = $1.Name", "$2.Date = $1.Day"],
        ["$2.Symbol = $1.Name", "$2.Date = $1.Day"],
    ]
    assert len(found) == (1 if linear else 3)


def test_the_key_of_a_run_is_a_current_value_where_the_query_says_so():
    assert keys_of(planned(f"{QUERY_7} PUBLISH R")) == {"R": [["$2.Name = $1.Name"], ["$2.Name = $.Name"]]}


def test_without_indices_a_plan_has_no_key():
    assert planned("FROM Stock NEXT {$2.Name = $1.Name} Stock", indices=False).partition is None


def test_the_number_of_ways_is_bounded():
    """Each side can be divided in two ways, so that the union of twelve sides could be in 4096."""
    columns = pa.schema([("t", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    sides = [f"(SELECT a FROM S{i} NEXT {{$2.a = $1.a AND $2.b = $1.b}} S{i})" for i in range(12)]
    streams = {f"S{i}": StreamType(schema_of(columns), TimeAxis(None, pa.int64())) for i in range(12)}
    program = LANGUAGE.lower((parse(SourceText("<query>", "FROM " + " UNION ".join(sides))),), streams, {})
    started = time.process_time()
    partition = plan(program).partition
    assert time.process_time() - started < 1
    assert partition is not None
    assert {names[0] for names in partition.columns.values()} <= {"a", "b"}
    assert len(partition.columns) == 12


def test_a_key_is_found_among_more_columns_than_ways_are_kept():
    columns = [("t", pa.int64()), *[(f"c{i}", pa.int64()) for i in range(4 * MOST_WAYS)]]
    streams = {name: StreamType(schema_of(pa.schema(columns)), TimeAxis(None, pa.int64())) for name in "SQ"}
    last = columns[-1][0]
    program = LANGUAGE.lower((parse(SourceText("<query>", f"FROM S UNION Q NEXT {{$2.{last} = $1.{last}}} Q")),), streams, {})
    partition = plan(program).partition
    assert partition is not None
    assert partition.columns == {"S": (last,), "Q": (last,)}


def test_two_hundred_levels_have_a_key():
    text = "; ".join(
        [
            "SELECT Name FROM Stock NEXT {$2.Name = $1.Name} Stock PUBLISH q0",
            *[f"SELECT Name FROM q{i} NEXT {{$2.Name = $1.Name}} q{i} PUBLISH q{i + 1}" for i in range(15)],
            "FROM (SELECT Name, 1 AS level FROM q15)" + " NEXT {$2.Name = $1.Name} Stock" * 90,
        ]
    )
    assert key_of(text) == NAME


def test_explain_says_by_what_a_query_is_divided():
    stock = pa.schema(COLUMNS["Stock"]).empty_table()
    rises = keuka.cel("FROM Stock NEXT {$2.Name = $1.Name} Stock")
    assert "  partitioned by Name\n" in rises.explain(stock, time="t")
    assert "  not partitioned\n" in keuka.cel("FROM Stock NEXT Stock").explain(stock, time="t")
    assert "  partitioned at will, " in keuka.cel("FROM Stock").explain(stock, time="t")
