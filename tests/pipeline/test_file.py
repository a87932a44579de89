"""What a pipeline file may say, and what is said of its mistakes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import keuka
from keuka.diagnostics import SourceText
from keuka.pipelines import Input, Queries, Sink, SparkSettings
from keuka.pipelines.places import span_of, written

WHOLE = """
[streams.Stock]
format = "csv"
paths = ["a.csv", "b/*.csv"]
schema = "time TIMESTAMP, name STRING"
time = ["start", "end"]
lateness = 5
unit = "s"
id = "number"

[streams.Stock.options]
sep = ";"
header = true
maxColumns = 20

[streams."SHELF-READING"]
format = "kafka"
options = { "kafka.bootstrap.servers" = "${SERVERS}", subscribe = "shelf" }
lateness = "5 s"

[[queries]]
language = "sase"
text = '''
SEQ(Stock a, Stock b)
[streams.Stock]
'''
params = { least = 10, name = "IBM" }

[[queries]]
files = "rules/*.cel"

[[sinks]]
of = "rejected"
format = "parquet"
path = "out"
mode = "append"

[[sinks]]
format = "console"

[spark]
master = "local[2]"
shards = 4
conf.spark.sql.ansi.enabled = false
conf.spark.sql.shuffle.partitions = 8
"""


def findings(text: str) -> list[tuple[str, str]]:
    Path("pipeline.toml").write_text(text)
    with pytest.raises(keuka.PipelineError) as raised:
        keuka.Pipeline.from_file("pipeline.toml")
    return [(found.code, found.message) for found in raised.value.diagnostics]


def test_a_file_becomes_the_values_one_would_write_in_python(folder):
    Path("pipeline.toml").write_text(WHOLE)
    assert keuka.Pipeline.from_file("pipeline.toml") == keuka.Pipeline(
        streams={
            "Stock": Input(
                "csv",
                paths=("a.csv", "b/*.csv"),
                schema="time TIMESTAMP, name STRING",
                options={"sep": ";", "header": "true", "maxColumns": "20"},
                time=("start", "end"),
                lateness=5,
                unit="s",
                id="number",
            ),
            "SHELF-READING": Input("kafka", options={"kafka.bootstrap.servers": "${SERVERS}", "subscribe": "shelf"}, lateness="5 s"),
        },
        queries=(
            Queries(text="SEQ(Stock a, Stock b)\n[streams.Stock]\n", language="sase", params={"least": 10, "name": "IBM"}),
            Queries(files=("rules/*.cel",)),
        ),
        sinks=(Sink("parquet", of="rejected", path="out", mode="append"), Sink("console")),
        spark=SparkSettings("local[2]", {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "8"}, 4),
        folder=str(folder),
    )


def test_all_unknown_keys_and_wrong_kinds_are_found_at_once():
    text = """
[streams.Stock]
format = "csv"
pth = "x"
time = ["a", "b", "c"]
[query]
[[sinks]]
format = 3
mode = "append"
[spark]
shards = 0
"""
    assert findings(text) == [
        ("K602", "`query` is no table of a pipeline"),
        ("K602", "there is no key `pth` here"),
        ("K603", "`time` must be a column, or a list of two columns [start, end]"),
        ("K603", "`format` must be text"),
        ("K603", "`shards` must be a whole number from 1 on"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("streams = 1", "`streams` must hold a table for each stream"),
        ("[streams]\nStock = 1", "`streams` must hold a table for each stream"),
        ("[queries]\ntext = 'x'", "`queries` must be an array of tables"),
        ("spark = 1", "`spark` must be a table"),
        ("[streams.S]\npath = 'x'", "the format is missing"),
        ("[streams.S]\nformat = 'csv'\noptions = { a = [1] }", "`options` must be a table of texts, numbers and booleans"),
        ("[[queries]]\nparams = 1", "`params` must be a table of values by name"),
        ("[streams.S]\nformat = 'csv'\nlateness = true", '`lateness` must be a text such as "5 s", or a whole number of ticks'),
    ],
)
def test_a_value_of_a_wrong_kind_is_refused(text, message):
    assert findings(text) == [("K603", message)]


@pytest.mark.parametrize("text", ["[streams", "a = 1\na = 2", "= 3", 'x = "', "\x00"])
def test_what_is_not_toml_is_shown_where_it_ends(text):
    ((code, message),) = findings(text)
    assert code == "K601"
    assert message.startswith("the pipeline file is not TOML: ")


def test_a_file_that_cannot_be_read_is_said_plainly(folder):
    with pytest.raises(keuka.PipelineError, match=r"K601.*`nothing.toml` cannot be read: it does not exist"):
        keuka.Pipeline.from_file("nothing.toml")
    Path("latin.toml").write_bytes(b"# \xff")
    with pytest.raises(keuka.PipelineError, match="is not UTF-8"):
        keuka.Pipeline.from_file("latin.toml")
    with pytest.raises(keuka.PipelineError, match="cannot be read: Is a directory"):
        keuka.Pipeline.from_file(folder)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("streams", "Stock"), "[streams.Stock]"),
        (("streams", "Stock", "path"), "path = 1"),
        (("streams", "A-B", "options", "x"), "options = {x = 1}"),
        (("sinks", 1, "of"), 'of = "second"'),
        (("queries", 0, "text"), 'text = """'),
        (("streams", "Stock", "nothing"), "[streams.Stock]"),
    ],
)
def test_places_are_found_in_the_text(place, line):
    text = """
[streams.Stock]  # first
path = 1
[streams."A-B"]
options = {x = 1}
[[queries]]
text = \"\"\"
[streams.Stock]
of = 3
\"\"\"
[[sinks]]
of = "first"
[[sinks]]
of = "second"
"""
    assert tomllib.loads(text)["sinks"][1]["of"] == "second"
    span = span_of(SourceText("p", text), place)
    assert span is not None
    assert span.source.line(span.source.position(span.start)[0]).partition("  #")[0] == line


def test_a_place_that_is_not_found_is_said_in_words():
    assert span_of(SourceText("p", "sinks = [{of = 1}]"), ("streams", "Stock")) is None
    assert written(("sinks", 1, "of")) == "[[sinks]] number 2, of"
    assert written(("streams", "Stock", "options", "x")) == "[streams.Stock] options.x"
    assert written(("streams",)) == "[streams]"
