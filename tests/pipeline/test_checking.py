"""A pipeline as a whole: its parts against each other and against the columns of its data."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import keuka
from keuka.events.ddl import arrow_schema
from keuka.pipelines import Input, Queries, Sink, SparkSettings

from .market import CONSOLE, QUERY, STREAM, TICKS

TYPED = 'type_column = "name"\n[streams.T]\nformat = "csv"\npath = "x.csv"\n'


def findings(file: str, embedded: bool = True) -> list[tuple[str, str]]:
    with pytest.raises(keuka.KeukaError) as raised:
        keuka.Pipeline.from_file(file).check(embedded=embedded)
    return [(found.code, found.message) for found in raised.value.diagnostics]


@pytest.mark.parametrize("embedded", [True, False])
def test_a_right_pipeline_gives_the_columns_of_its_outputs(pipeline_file, embedded):
    outputs = keuka.Pipeline.from_file(pipeline_file(STREAM, QUERY, CONSOLE)).check(embedded=embedded)
    assert outputs["Rise"].names == ["name", "low", "high", "_start", "_end"]


def test_mistakes_of_all_parts_are_found_at_once(pipeline_file):
    second = '\n[streams.News]\nformat = "parquet"\npath = "nothing.parquet"\ntime = "${NOWHERE}"\n'
    wrong = '\n[[queries]]\ntext = "SELECT name FROM Stock NEXT {name = 1} Stok PUBLISH"\n'
    sinks = '\n[[sinks]]\nformat = "csv"\n[[sinks]]\nof = "Rise"\nformat = "console"\nmode = "stream"\n'
    assert [code for code, _ in findings(pipeline_file(STREAM, second, QUERY, wrong, sinks))] == ["K604", "K101", "K603", "K603"]


def test_queries_are_checked_against_the_columns_of_files(pipeline_file):
    query = '\n[[queries]]\ntext = "SELECT prise FROM Stock"\n'
    ((code, message),) = findings(pipeline_file(STREAM, query, CONSOLE))
    assert code == "K201"
    assert "`prise`" in message


def test_a_mistake_in_an_inline_text_is_shown_by_the_number_of_its_query(pipeline_file):
    query = '\n[[queries]]\ntext = "SELECT prise FROM Stock"\n'
    with pytest.raises(keuka.QueryError, match=r"--> pipeline.toml, query 2:1:8"):
        keuka.Pipeline.from_file(pipeline_file(STREAM, QUERY, query, CONSOLE)).check()


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize(
    ("path", "message"), [("tick.csv", "there is no file or directory `tick.csv`"), ("in/*.csv", "no file fits `in/*.csv`")]
)
def test_a_path_that_leads_nowhere_is_said_before_spark_starts(pipeline_file, monkeypatch, embedded, path, message):
    monkeypatch.setattr("keuka.pipelines.pipeline._on_spark", None)
    pipeline = keuka.Pipeline.from_file(pipeline_file(STREAM.replace("ticks.csv", path), QUERY, CONSOLE))
    for look in (pipeline.check, pipeline.run):
        with pytest.raises(keuka.DataError, match="K513") as raised:
            look(embedded=embedded)
        (found,) = raised.value.diagnostics
        assert found.message == message
        assert found.span is not None
        assert found.span.text == "path"
        assert found.help == (("did you mean `ticks.csv`?",) if path == "tick.csv" else ())


def test_a_path_with_a_variable_that_is_not_set_is_not_looked_for(pipeline_file):
    assert [code for code, _ in findings(pipeline_file(STREAM.replace("ticks.csv", "${NOWHERE}.csv"), QUERY, CONSOLE))] == ["K604"]


def test_a_stream_that_no_query_reads_may_be_missing(pipeline_file):
    other = '\n[streams.Other]\nformat = "csv"\npath = "other.csv"\n'
    assert keuka.Pipeline.from_file(pipeline_file(STREAM, other, QUERY, CONSOLE)).check(embedded=True)


def test_a_stream_that_is_not_declared_is_named_with_those_that_are(pipeline_file):
    with pytest.raises(keuka.DataError, match=r"K505\]: the queries read a stream `Stock`, which is not declared") as raised:
        keuka.Pipeline.from_file(pipeline_file(STREAM.replace("Stock", "Stocks"), QUERY, CONSOLE)).run()
    assert raised.value.diagnostics[0].help == ("did you mean `Stocks`?", "declared are `Stocks`")


@pytest.mark.parametrize(
    ("stream", "master"),
    [
        (Input("parquet", path="/on/hdfs/ticks"), None),
        (Input("parquet", path="ticks"), "sc://host"),
        (Input("parquet", path="file:///on/the/server"), "sc://host"),
        (Input("parquet", path="ticks"), "spark://host:7077"),
        (Input("delta", path="ticks@v1"), None),
        (Input("parquet", path="{a,b}"), None),
    ],
)
def test_what_may_be_elsewhere_is_left_to_spark(monkeypatch, stream, master):
    class Spark:
        run = staticmethod(lambda *_: "ran")

    monkeypatch.setattr("keuka.pipelines.pipeline._on_spark", Spark)
    pipeline = keuka.Pipeline({"Stock": stream}, [Queries(file="rise.cel")], [Sink("console")])
    assert pipeline.run(master=master) == "ran"
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert keuka.Pipeline({"Stock": Input("csv", path="nowhere")}, pipeline.queries, pipeline.sinks).run() == "ran"


def test_a_variable_that_is_not_set_hides_no_mistake_elsewhere(pipeline_file):
    query = '\n[[queries]]\ntext = "SELECT prise FROM Stock"\n'
    sink = '\n[[sinks]]\nformat = "csv"\npath = "${NOWHERE}/out"\n'
    assert [code for code, _ in findings(pipeline_file(STREAM, query, sink))] == ["K604", "K201"]


def test_missing_files_of_several_streams_are_all_named(pipeline_file):
    streams = "".join([f'\n[streams.{name}]\nformat = "csv"\npath = "{name}.csv"\n' for name in ("A", "B")])
    query = '\n[[queries]]\ntext = "SELECT * FROM A NEXT B"\n'
    assert [code for code, _ in findings(pipeline_file(streams, query, CONSOLE))] == ["K513", "K513"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((QUERY, CONSOLE), "the pipeline has no streams"),
        ((STREAM, CONSOLE), "the pipeline has no queries"),
        ((STREAM, QUERY), "the pipeline has no sinks"),
        ((STREAM.replace("path =", "id ="), QUERY, CONSOLE), "the stream `Stock` has no path"),
        ((STREAM, 'paths = ["x.csv"]\n', QUERY, CONSOLE), "both `path` and `paths` are given"),
        ((STREAM, 'schema = "time TIME"\n', QUERY, CONSOLE), "the schema cannot be read: `time TIME` has a type that Spark alone knows"),
        ((STREAM, "\n[[queries]]\nlanguage = 'cel'\n", CONSOLE), "neither `text` nor `file` nor `files` is given"),
        ((STREAM, QUERY, "language = 'sql'\n", CONSOLE), "there is no language `sql`"),
        ((STREAM, QUERY, '\n[[sinks]]\nformat = "console"\npath = "x"\n'), "the console has no path"),
        ((STREAM, QUERY, '\n[[sinks]]\nformat = "csv"\n'), "the sink has no path"),
        ((STREAM, QUERY, '\n[[sinks]]\nformat = "csv"\npath = "x"\nmode = "upsert"\n'), "there is no mode `upsert`"),
        ((STREAM, TYPED, QUERY, CONSOLE), "`type_column` is for a single stream, but there are several"),
    ],
)  # fmt: skip
def test_parts_that_are_missing_or_contradict_each_other(pipeline_file, parts, message):
    assert ("K603", message) in findings(pipeline_file(*parts))


def test_a_parameter_has_one_value_in_all_queries(pipeline_file):
    query = '\n[[queries]]\ntext = "SELECT * FROM FILTER {{price > :least}} (Stock) PUBLISH {}"\nparams = {{ least = {} }}\n'
    same = keuka.Pipeline.from_file(pipeline_file(STREAM, query.format("A", 1), query.format("B", 1), CONSOLE))
    assert list(same.check(embedded=True)) == ["A", "B"]
    assert findings(pipeline_file(STREAM, query.format("A", 1), query.format("B", 2), CONSOLE)) == [
        ("K603", "the parameter `:least` has two values")
    ]


def test_parameters_that_no_query_has_and_missing_ones_are_found(pipeline_file):
    query = '\n[[queries]]\ntext = "SELECT * FROM FILTER {price > :least} (Stock)"\nparams = { last = 1 }\n'
    messages = [message for _, message in findings(pipeline_file(STREAM, query, CONSOLE))]
    assert messages == ["the parameter `:least` has no value", "the query has no parameter `:last`"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ticks.csv", "the sink would write to what stream `Stock` reads"),
        ("ticks.csv/x", "the sink would write to what stream `Stock` reads"),
        ("rise.cel", "the path of the sink is a file, not a directory"),
        (".", "the sink would take the place of the directory of the pipeline"),
        ("full", "the path of the sink exists already"),
    ],
)
def test_a_sink_never_takes_the_place_of_what_is_there(pipeline_file, path, message):
    Path("full").mkdir()
    Path("full/file").touch()
    for embedded in (True, False):
        found = findings(pipeline_file(STREAM, QUERY, f'\n[[sinks]]\nformat = "csv"\npath = "{path}"\n'), embedded)
        assert ("K606", message) in found


def test_patterns_and_directories_that_are_read_are_not_written_to(pipeline_file):
    Path("in").mkdir()
    Path("in/ticks.csv").write_bytes(Path("ticks.csv").read_bytes())
    for read, written, wrong in [("in", "in/out", True), ("in/*.csv", "in", True), ("in/*.csv", "in/out", False), ("in", "inside", False)]:
        stream = STREAM.replace("ticks.csv", read)
        sink = f'\n[[sinks]]\nformat = "csv"\npath = "{written}"\nmode = "overwrite"\n'
        pipeline = keuka.Pipeline.from_file(pipeline_file(stream, QUERY, sink))
        if wrong:
            with pytest.raises(keuka.PipelineError, match=r"K606"):
                pipeline.check(embedded=True)
        else:
            assert pipeline.check(embedded=True)


def test_two_sinks_of_one_path_are_refused(pipeline_file):
    sink = '\n[[sinks]]\nformat = "csv"\npath = "out"\n'
    assert findings(pipeline_file(STREAM, QUERY, sink, sink)) == [("K606", "two sinks write to the same path")]


def test_other_names_of_one_path_are_seen_through(pipeline_file, tmp_path):
    sink = '\n[[sinks]]\nformat = "csv"\npath = "{}"\nmode = "overwrite"\n'
    two = [sink.format("out"), sink.format(f"{tmp_path}/x/../out")]
    assert findings(pipeline_file(STREAM, QUERY, *two)) == [("K606", "two sinks write to the same path")]
    nested = [sink.format("out"), sink.format("out/metrics")]
    assert findings(pipeline_file(STREAM, QUERY, *nested)) == [("K606", "of two sinks one would write into the directory of the other")]
    of_input = findings(pipeline_file(STREAM, QUERY, sink.format(f"{tmp_path}/./ticks.csv")))
    assert ("K606", "the sink would write to what stream `Stock` reads") in of_input


def test_a_name_of_a_side_output_cannot_be_published(pipeline_file):
    query = '\n[[queries]]\ntext = "SELECT * FROM Stock PUBLISH late"\n'
    ((code, message),) = findings(pipeline_file(STREAM, query, CONSOLE))
    assert (code, message) == ("K605", "a query publishes `late`, which in a pipeline is the name of a side output")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('path = "s3a://bucket/ticks"\nformat = "csv"\n', "a path with `s3a:` needs Spark"),
        ('path = "ticks.csv"\nformat = "orc"\n', "the format `orc` needs Spark"),
        ('path = "ticks.csv"\nformat = "csv"\noptions = { sep = ";" }\n', "the option `sep` needs Spark"),
    ],
)
def test_what_needs_spark_is_refused_in_an_embedded_run(pipeline_file, line, message):
    assert findings(pipeline_file("[streams.Stock]\n", line, QUERY, CONSOLE)) == [("K607", message)]


def test_arrow_files_need_an_embedded_run(pipeline_file):
    assert findings(pipeline_file(STREAM.replace('"csv"', '"arrow"'), QUERY, CONSOLE), embedded=False)[0] == (
        "K607",
        "Spark has no format `arrow`",
    )


def test_a_declared_schema_is_enough_to_check_a_stream_that_only_spark_reads(pipeline_file):
    stream = '[streams.Stock]\nformat = "kafka"\nschema = "time TIMESTAMP, name STRING, price DOUBLE, note DECIMAL(10, 2)"\n'
    outputs = keuka.Pipeline.from_file(pipeline_file(stream, QUERY, CONSOLE)).check()
    assert outputs["Rise"].field("_end").type == pa.timestamp("us", "UTC")


def test_patterns_of_query_files_must_fit_something(pipeline_file):
    Path("rules").mkdir()
    Path("rules/b.sase").write_text("SEQ(Rise a, Rise b) WHERE [name] WITHIN 1 hour RETURN a.low AS low PUBLISH Twice")
    Path("rules/a.cel").write_text(Path("rise.cel").read_text())
    files = '\n[[queries]]\nfiles = ["rules/*.cel", "rules/*"]\n'
    assert list(keuka.Pipeline.from_file(pipeline_file(STREAM, files, CONSOLE)).check(embedded=True)) == ["Rise", "Twice"]
    assert findings(pipeline_file(STREAM, '\n[[queries]]\nfiles = "*.txt"\n', CONSOLE)) == [("K104", "no query file fits `*.txt`")]


def test_secrets_never_appear_in_messages_or_values(pipeline_file, monkeypatch, folder):
    monkeypatch.setenv("KEUKA_TEST_SECRET", "swordfish")
    monkeypatch.setenv("KEUKA_TEST_FOLDER", f"{folder}/swordfish-data")
    monkeypatch.setenv("KEUKA_TEST_NAME", "swordfish")
    stream = '[streams.Stock]\nformat = "csv"\npath = "${KEUKA_TEST_FOLDER}/x.csv"\noptions = { password = "${KEUKA_TEST_SECRET}" }\n'
    query = '\n[[queries]]\ntext = "SELECT ${KEUKA_TEST_NAME} FROM"\n'
    pipeline = keuka.Pipeline.from_file(pipeline_file(stream, query, CONSOLE))
    for run in (pipeline.check, pipeline.run):
        with pytest.raises(keuka.KeukaError) as raised:
            run(embedded=True)
        assert "swordfish" not in str(raised.value) + repr(raised.value) + repr(pipeline)
        assert raised.value.__cause__ is raised.value.__context__ is None
    assert "SELECT ${KEUKA_TEST_" in str(raised.value)


def test_a_variable_may_have_a_default(pipeline_file, monkeypatch):
    stream = STREAM.replace("ticks.csv", "${KEUKA_TEST_DATA:-ticks}.csv")
    pipeline = keuka.Pipeline.from_file(pipeline_file(stream, QUERY, CONSOLE))
    assert pipeline.check(embedded=True)
    monkeypatch.setenv("KEUKA_TEST_DATA", "nothing")
    with pytest.raises(keuka.DataError, match=r"there is no file or directory `\$\{KEUKA_TEST_DATA\}.csv`"):
        pipeline.check(embedded=True)


def test_a_pipeline_made_in_python_is_checked_like_a_file():
    pipeline = keuka.Pipeline(
        streams={"Stock": Input("csv", path="ticks.csv")},
        queries=[Queries(file="rise.cel")],
        sinks=[Sink("console", of="Rises")],
    )
    with pytest.raises(keuka.PipelineError, match=r"no query publishes `Rises`\n  \[\[sinks\]\] number 1, of"):
        pipeline.check(embedded=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keuka.Pipeline({}, "SELECT * FROM Stock", []), "`queries` of a Pipeline must be made of keuka.pipelines.Queries"),
        (lambda: keuka.Pipeline({}, [keuka.cel("SELECT * FROM Stock")], []), "`queries` of a Pipeline"),
        (lambda: keuka.Pipeline({}, Queries(file="rise.cel"), []), "`queries` of a Pipeline"),
        (lambda: keuka.Pipeline([Input("csv")], [], []), "`streams` of a Pipeline must be made of keuka.pipelines.Input"),
        (lambda: keuka.Pipeline({"Stock": "ticks.csv"}, [], []), "`streams` of a Pipeline"),
        (lambda: keuka.Pipeline({}, [], ["out"]), "`sinks` of a Pipeline must be made of keuka.pipelines.Sink"),
        (lambda: keuka.Pipeline({}, [], [], spark={"master": "local[4]"}), "`spark` of a Pipeline"),
        (lambda: Input(None), "`format` of Input must be text, not NoneType"),
        (lambda: Input("csv", schema={"t": "int"}), "`schema` of Input must be text, not dict"),
        (lambda: Input("csv", time=("t", "u", "v")), "`time` of Input must be a column, or a list of two columns"),
        (lambda: Sink("csv", options={"sep": object()}), "`options` of Sink must be a table of texts, numbers and booleans"),
        (lambda: SparkSettings(shards=0), "`shards` of SparkSettings must be a whole number from 1 on"),
    ],
)
def test_parts_of_a_wrong_kind_are_refused_where_they_are_made(make, message):
    with pytest.raises(keuka.PipelineError) as raised:
        make()
    assert raised.value.code == "K603"
    assert message in str(raised.value)


def test_fields_may_be_given_as_python_has_them(folder):
    stream = Input("csv", paths=[folder / "ticks.csv"], options={"header": True, "maxColumns": 20})
    assert stream == Input("csv", paths=(str(folder / "ticks.csv"),), options={"header": "true", "maxColumns": "20"})
    streams = {"Stock": Input("csv", path=folder / "ticks.csv", options={"header": True})}
    pipeline = keuka.Pipeline(streams, [Queries(file=Path("rise.cel"))], [Sink("csv", path=Path("out"))])
    assert pipeline.run(embedded=True).matches == {"Rise": 4}
    assert Queries(files="*.cel").files == ("*.cel",)


def test_directories_in_directories_hold_columns(pipeline_file):
    Path("in/day=1").mkdir(parents=True)
    Path("in/more").mkdir()
    pa.parquet.write_table(pa.table({"time": [1]}), "in/day=1/x.parquet")
    stream = '[streams.Stock]\nformat = "parquet"\npath = "in"\n'
    ((code, message),) = findings(pipeline_file(stream, QUERY, CONSOLE))
    assert code == "K512"
    assert message.endswith("has a directory `more` in it, whose name is not of the form `column=value`")


def test_options_of_spark_that_keuka_has_by_another_name_are_named(pipeline_file):
    stream = '[streams.Stock]\nformat = "csv"\npath = "ticks.csv"\noptions = { sep = ";", timestampFormat = "dd/MM", quote = "x" }\n'
    with pytest.raises(keuka.PipelineError) as raised:
        keuka.Pipeline.from_file(pipeline_file(stream, QUERY, CONSOLE)).check(embedded=True)
    helps = [found.help[0] for found in raised.value.diagnostics]
    assert helps == [
        'write `csv = { separator = ";" }`, which works with and without Spark',
        'write `csv = { time_format = "%d/%m/%Y %H:%M" }`, which works with and without Spark',
        "leave it out, or run without `--embedded`",
    ]


def test_declarations_of_a_stream_are_checked_with_the_pipeline(pipeline_file):
    stream = '[streams.Stock]\nformat = "csv"\npath = "ticks.csv"\ncsv = { seperator = ";" }\n'
    ((code, message),) = findings(pipeline_file(stream, QUERY, CONSOLE))
    assert (code, message) == ("K603", "CSV has no option `seperator`")
    ((code, message),) = findings(pipeline_file(stream.replace("csv = {", "on_bad_row = {"), QUERY, CONSOLE))
    assert (code, message) == ("K603", '`on_bad_row` must be "error" or "reject"')


@pytest.mark.parametrize("embedded", [True, False])
def test_odd_values_among_numbers_are_found_without_a_run(pipeline_file, monkeypatch, embedded):
    monkeypatch.setattr("keuka.pipelines.pipeline._on_spark", None)
    file = pipeline_file(STREAM, QUERY, CONSOLE)
    Path("ticks.csv").write_text(TICKS + "2024-01-02 09:30:00,IBM,n/a\n")
    with pytest.raises(keuka.DataError) as raised:
        keuka.Pipeline.from_file(file).check(embedded=embedded)
    with pytest.raises(keuka.DataError) as run:
        keuka.Pipeline.from_file(file).run(embedded=True)
    assert raised.value.code == "K536"
    assert str(raised.value) == str(run.value)
    unread = '\n[[queries]]\ntext = "SELECT name FROM Stock"\n'
    assert keuka.Pipeline.from_file(pipeline_file(STREAM, unread, CONSOLE)).check(embedded=embedded)
    rejected = '\n[[sinks]]\nof = "rejected"\nformat = "console"\n'
    assert keuka.Pipeline.from_file(pipeline_file(STREAM, QUERY, CONSOLE, rejected)).check(embedded=embedded)


def test_what_is_said_of_csv_files_does_not_go_with_options_of_spark_alone(pipeline_file):
    said = 'options = { encoding = "ISO-8859-1" }\ncsv = { separator = ";" }\n'
    assert findings(pipeline_file(STREAM + said, QUERY, CONSOLE), embedded=False)[0] == (
        "K603",
        "`csv` has no effect beside the option `encoding`, with which Spark reads the files in its own way",
    )


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("a INT, b string", pa.schema([("a", pa.int32()), ("b", pa.string())])),
        ("`a b` DECIMAL(5,2) NOT NULL", pa.schema([("a b", pa.decimal128(5, 2))])),
        ("a: timestamp_ntz, b VARCHAR(3)", pa.schema([("a", pa.timestamp("us")), ("b", pa.string())])),
    ],
)
def test_schemas_are_read_as_spark_writes_them(text, schema):
    assert arrow_schema(text).equals(schema)


@pytest.mark.parametrize("text", ["", "a", "a INT b INT", "a ARRAY<INT>", "a DECIMAL(50,2)", "a INT(3)", "a INT,"])
def test_other_schemas_are_refused(text):
    with pytest.raises(ValueError, match=r"`|digits"):
        arrow_schema(text)


@pytest.mark.parametrize(
    "path", ["a" * 300, "é" * 150, "\0", "\ud800", "/".join(["d" * 150] * 30)], ids=["long", "wide", "NUL", "half", "deep"]
)
def test_a_path_that_no_directory_can_have_is_refused(path: str, tmp_path: Path):
    pa.parquet.write_table(pa.table({"t": [1]}), tmp_path / "s.parquet")
    stream = Input("parquet", path=str(tmp_path / "s.parquet"), time="t")
    sink = Sink("parquet", path=str(tmp_path / path))
    with pytest.raises(keuka.PipelineError) as raised:
        keuka.Pipeline(streams={"S": stream}, queries=[Queries(text="SELECT t FROM S")], sinks=[sink]).run(embedded=True)
    assert raised.value.code == "K603"
