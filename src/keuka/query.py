"""The query path as one short function, and the public calls that use it: `cel`, `sase`, `query`, `match`, `match_all`.

text -> languages -> algebra -> plan -> automaton -> tables happens in `prepare`; `run/embedded.py` does the rest.
"""

from __future__ import annotations

import logging
import os
import re
import time as clock
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from keuka.algebra.operators import Program
from keuka.automaton.compile import compile_tables
from keuka.automaton.contract import Plan
from keuka.automaton.statistics import Estimate, Statistics
from keuka.automaton.tables import Tables
from keuka.diagnostics import Diagnostic, SourceText, Span, listing, render, similar
from keuka.errors import QueryError, data_error
from keuka.events.matches import convert, header_names, result_schema
from keuka.events.order import common_axis
from keuka.events.rejection import PLACE, Rejections, row_schema
from keuka.events.sources import OpenStream, Stream, open_stream
from keuka.events.tables import check_shared
from keuka.events.types_seen import TypesSeen
from keuka.explain import explain, explain_text_alone
from keuka.languages.files import explain_paths, is_path, read_texts
from keuka.languages.sets import LANGUAGES, Text, Texts, inputs_of, lower_texts, parameters_of, published_by
from keuka.plan.planner import output_names, plan
from keuka.plan.type_column import sources_of, split_by_type
from keuka.plan.warnings import find_warnings
from keuka.run.embedded import run
from keuka.run.limits import Limits
from keuka.run.trace import Trace, trace
from keuka.schema import StreamType, TimeAxis, Type

log = logging.getLogger("keuka")

BY_TYPE = "if the table has the events of all, say which column names their streams: `type_column=`"
EVENTS = "events"  # what one table of all events is called where it was given no name

MOST_COMPILED = 8  # a query is seldom run over streams of more kinds than this


@dataclass(frozen=True)
class Query:
    """One or more parsed queries that may read each other's published streams. Made by `cel`, `sase` and `query`."""

    texts: Texts
    # What it was compiled to, by everything that decides it, so that running it again on streams like those before costs no planning.
    compiled: dict[object, Compiled] = field(default_factory=dict, init=False, compare=False)
    # Warnings that were logged, so that a query that runs a thousand times is complained of once.
    warned: set[Diagnostic] = field(default_factory=set, init=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"texts": self.texts, "compiled": {}, "warned": set()}

    def __repr__(self) -> str:
        return f"<{' and '.join(dict.fromkeys([text.language for text in self.texts]))} query over {', '.join(self.inputs)}>"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters `:name`.

        >>> import keuka
        >>> keuka.cel("SELECT * FROM FILTER {Volume > :v} (Stock)").parameters
        ('v',)
        """
        return parameters_of(self.texts)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams that must be given.

        >>> import keuka
        >>> keuka.cel("SELECT * FROM Stock NEXT News").inputs
        ('Stock', 'News')
        """
        return inputs_of(self.texts)

    @property
    def published(self) -> tuple[str, ...]:
        """The names under which results are published.

        >>> import keuka
        >>> keuka.cel("SELECT * FROM FILTER {Volume > 10000} (Stock) PUBLISH Large").published
        ('Large',)
        """
        return published_by(self.texts)

    def output_schema(
        self, streams: Any, *, params: Mapping[str, object] | None = None, output: str | None = None, **options: Any
    ) -> pa.Schema:
        """The columns of the result, without running the query. Takes what `match` takes."""
        prepared = prepare(self, _columns_only(streams), params=params, outputs=None if output is None else (output,), **options)
        return prepared.schema(output)

    def explain(
        self,
        streams: Any = None,
        *,
        params: Mapping[str, object] | None = None,
        verbose: bool = False,
        format: str = "text",
        **options: Any,
    ) -> str:
        """How the query runs: its algebra, the rules that changed the plan, the automata and their indices.

        Names and types come from the streams: give the data, or empty tables with the same columns. Without them only what the text
        alone says is shown. `verbose` adds the algebra after every rule; `format` is "text", "json" or "dot".
        """
        if format not in ("text", "json", "dot"):
            raise ValueError(f"format must be 'text', 'json' or 'dot', not {format!r}")
        if streams is None and format == "dot":
            raise data_error("K505", f"a drawing needs the columns of {listing(self.inputs)}", "give the data, or empty tables like it")
        if streams is None:
            return explain_text_alone(self.inputs, self.parameters, format)
        prepared = prepare(self, _columns_only(streams), params=params, **options)
        return explain(prepared.program, prepared.plan, prepared.axis, verbose=verbose, format=format)

    def trace(
        self,
        streams: Any,
        *,
        key: object = None,
        params: Mapping[str, object] | None = None,
        output: str | None = None,
        limit: int = 50,
        **options: Any,
    ) -> Trace:
        """Why it matches, or why not: event by event the partial matches it met, each condition with the values it saw, what came of it.

        key: show the events of one key only. A value if the query is partitioned (`explain` says by what), or values by columns,
            `{"Name": "IBM"}`.
        limit: show that many events and count the rest. Everything else is as in `match`.

        >>> import keuka
        >>> rises = keuka.cel("SELECT price FROM S NEXT {$2.price > $1.price} S")
        >>> rises.trace([{"t": 1, "price": 10}, {"t": 2, "price": 9}], time="t")  # doctest: +ELLIPSIS
        query_1
        ...
        2  S  price 9
          start    always                                 #2 waits in A
          #1 in A since 1 with $1.price 10
            next   $2.price > $1.price   9 > 10   false   waits on
        ...
        """
        if not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit must be a whole number from 1 on, not {limit!r}")
        chosen = () if output is None else (output,)
        prepared = prepare(self, streams, params=params, outputs=chosen, reads_all=True, **options)  # it shows events as they are
        return trace(prepared.plan, prepared.opened, key, limit)


@dataclass(frozen=True)
class Compiled:
    """What a query becomes for streams of certain columns."""

    program: Program
    plan: Plan
    tables: Tables
    warnings: tuple[Diagnostic, ...]  # conditions that can never hold, or always do
    types: Mapping[str, Span | None]  # with a type column, the types that are read, and where
    statistics: Statistics  # what the planner asked for


@dataclass(frozen=True)
class Prepared:
    """A query bound to its streams: every stage of the query path, ready to run."""

    opened: tuple[OpenStream, ...]
    program: Program
    plan: Plan
    tables: Tables
    rejections: Rejections  # counts what `opened` leave out while they are read
    warnings: tuple[Diagnostic, ...] = ()
    types: TypesSeen | None = None  # with a type column

    @property
    def axis(self) -> TimeAxis:
        """The clock of the streams that are read."""
        return common_axis([s for s in self.opened if s.name in {c.name for c in self.tables.sources}])

    @property
    def default_output(self) -> str:
        """The last query's."""
        return output_names(self.program)[-1]

    def schema(self, output: str | None = None) -> pa.Schema:
        chosen = output or self.default_output
        columns = next(o for o in self.tables.outputs if o.name == chosen)
        return result_schema(columns.schema, self.axis, self.plan.contributors)

    def warn_of_types(self) -> None:
        """Logs which types no row had, once all rows were read."""
        if self.types is None:
            return
        if self.opened[0].in_memory:
            self.types.look_at(self.opened[0])
        for warning in self.types.warnings(self.opened[0].name):
            log.warning("%s", render(warning))


def cel(text: str, *, name: str = "<query>") -> Query:
    """A query in Cayuga's event language.

    >>> import keuka
    >>> rises = keuka.cel("SELECT Price_1, Price FROM Stock NEXT {$2.Name = $1.Name AND $2.Price > $1.Price} Stock")
    >>> rises.inputs
    ('Stock',)
    """
    return _parsed(text, name, "cel")


def sase(text: str, *, name: str = "<query>") -> Query:
    """A query in SASE: events in a certain order, and events that must not occur.

    >>> import keuka
    >>> unpaid = keuka.sase("SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 3 hours")
    >>> unpaid.inputs
    ('Shelf', 'Counter', 'Exit')
    """
    return _parsed(text, name, "sase")


def _parsed(text: str, name: str, language: str) -> Query:
    if not isinstance(text, str):
        raise TypeError(f"the text of a query must be a str, not {type(text).__name__}")
    return Query((Text(LANGUAGES[language].parse(SourceText(name, text)), language),))


def query(path_or_text: str | os.PathLike[str] | Iterable[Query], language: str | None = None) -> Query:
    """A query from text, from a file, from all query files of a directory, or from several queries as one set.

    A `Path` is always a path. A str is a path if it ends in the suffix of a language (`rises.cel`, `theft.sase`) or in `/`
    (`rules/`), and text otherwise; with `language` it is text whatever its end. A file is in the language of its suffix unless
    `language` says otherwise; text is CEL.

    >>> import keuka
    >>> large = keuka.cel("FROM FILTER {Volume > 10000} (Stock) PUBLISH Large")
    >>> pairs = keuka.sase("SEQ(Large a, Large b) WHERE [Name] WITHIN 10 min")
    >>> keuka.query([large, pairs]).inputs
    ('Stock',)
    """
    if not isinstance(path_or_text, str | os.PathLike):
        return _together(path_or_text)
    if language is not None and not (isinstance(language, str) and language in LANGUAGES):
        raise ValueError(f"unknown language {language!r}; the languages are {', '.join(LANGUAGES)}")
    if is_path(path_or_text, language):
        return Query(read_texts(path_or_text, language))
    text = str(path_or_text)
    try:
        return _parsed(text, "<query>", language or "cel")
    except QueryError as error:
        raise explain_paths(error, text, language) from None


def _together(queries: object) -> Query:
    parts = list(queries) if isinstance(queries, Iterable) else []
    if not parts or not all(isinstance(part, Query) for part in parts):
        raise TypeError(f"a query must be a Query, several of them, a path or text (str), not {type(queries).__name__}")
    return Query(tuple([text for part in parts for text in part.texts]))


def match(
    query: Query | str | os.PathLike[str],
    streams: Any,
    *,
    language: str | None = None,
    time: Any = None,
    type_column: str | None = None,
    params: Mapping[str, object] | None = None,
    output: str | None = None,
    lateness: Any = None,
    unit: Any = None,
    sort: bool = False,
    contributors: bool = False,
    threads: int = 1,
    limits: Limits | None = None,
    on_bad_row: str | None = None,
    rejected: list[Any] | None = None,
) -> Any:
    """All matches of a query, as a table of the kind that went in (pandas, polars, a DataFrame of Spark, else Arrow).

    query: a Query, text (with `language`), or a path: a `Path`, or a str that ends in `.cel`, `.sase` or `/`. Text from others needs
        `language`, with which a str is never a path.
    streams: table-like data or a path if the query reads one stream, else a dict from stream name to data; a `Stream` where more
        must be said than the column of time.
    time: the time column, a pair of columns (start, end), or a dict of these by stream; by default the only timestamp column.
    type_column: a column of one table that says which stream each row belongs to.
    params: values for `:name`.
    output: which published stream to return; by default the last query's.
    lateness: how far files and readers may be out of order, for example "5 s".
    unit: what one tick of integer times is, for example "s".
    sort: read files and readers whole and sort them, instead of streaming them.
    contributors: add `_id` and `_contributors` (the source events behind a match, in order).
    threads: how many threads share the work. They divide the events by the query's key (`explain` shows it: `partitioned by Name`);
        a query without one runs on one thread, with a warning.
    limits: how much memory, how many seconds and how many matches it may take: `keuka.Limits(memory="4 GB", seconds=60)`.
    on_bad_row: "error", or "reject" to go on without rows that cannot be events: broken rows, values that are none of their column's
        type, no time, a start after the end.
    rejected: a list to which one table for each stream is added: its rejected rows, with the reason and the place. Implies "reject".

    What is wrong with the query or the data is a KeukaError; an argument of a wrong Python type is a TypeError, or a DataError if it
    says something of a stream.

    >>> import keuka, pyarrow as pa
    >>> ticks = pa.table({"t": [1, 2, 3], "price": [10, 12, 11]})
    >>> keuka.match("SELECT price_1 AS low, price AS high FROM S NEXT {$2.price > $1.price} S", ticks, time="t").to_pylist()
    [{'low': 10, 'high': 12, '_start': 1, '_end': 2}]
    """
    options: dict[str, Any] = {"language": language, "time": time, "type_column": type_column, "params": params}
    options |= {"lateness": lateness, "unit": unit, "contributors": contributors}
    if _are_on_spark(streams):
        from keuka.spark.frames import on_spark

        options |= _spark_options(threads, on_bad_row, rejected)
        return on_spark(query, streams, output=output, limits=limits, **options)
    options |= {"sort": sort, "on_bad_row": on_bad_row if rejected is None else "reject"}
    prepared = prepare(query, streams, outputs=() if output is None else (output,), **options)
    return _collect(prepared, threads, limits, rejected)[output or prepared.default_output]


def _are_on_spark(streams: Any) -> bool:
    """Is one of them a DataFrame of Spark? Known by its name, because pyspark is not imported here."""
    given = streams.values() if isinstance(streams, Mapping) else (streams,)
    kinds = [type(stream.data if isinstance(stream, Stream) else stream) for stream in given]
    return any(kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame" for kind in kinds)


def _spark_options(threads: int, on_bad_row: str | None, rejected: list[Any] | None) -> dict[str, Any]:
    """What is said of bad rows, if anything is; threads cannot be asked for there."""
    if threads != 1:
        raise ValueError("threads are for data in this process; `keuka.on_spark(..., shards=n)` says how Spark divides it")
    said = {"on_bad_row": on_bad_row, "rejected": rejected}
    return {name: value for name, value in said.items() if value is not None}


def check_limits(limits: object) -> None:
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits must be a keuka.Limits, not {type(limits).__name__}")


def _columns_only(streams: Any) -> Any:
    """DataFrames of Spark without their rows, which nobody should have to wait for."""
    if not _are_on_spark(streams):
        return streams
    from keuka.spark.jobs import emptied

    return emptied(streams)


def match_all(
    query: Query | str | os.PathLike[str],
    streams: Any,
    *,
    language: str | None = None,
    time: Any = None,
    type_column: str | None = None,
    params: Mapping[str, object] | None = None,
    lateness: Any = None,
    unit: Any = None,
    sort: bool = False,
    contributors: bool = False,
    threads: int = 1,
    limits: Limits | None = None,
    on_bad_row: str | None = None,
    rejected: list[Any] | None = None,
) -> dict[str, Any]:
    """The matches of every query of a set, in one pass: published name -> table. An unnamed query is `query_1`, `query_2`, ...

    On Spark each of the DataFrames computes all of them when it is used.
    """
    options: dict[str, Any] = {"language": language, "time": time, "type_column": type_column, "params": params}
    options |= {"lateness": lateness, "unit": unit, "contributors": contributors}
    if _are_on_spark(streams):
        from keuka.spark.frames import all_on_spark

        options |= _spark_options(threads, on_bad_row, rejected)
        results = all_on_spark(query, streams, limits=limits, **options)
        return {name: results.output(name) for name in results.names}
    options |= {"sort": sort, "on_bad_row": on_bad_row if rejected is None else "reject"}
    return _collect(prepare(query, streams, **options), threads, limits, rejected)


def prepare(
    query_: Query | str | os.PathLike[str],
    streams: Any,
    *,
    language: str | None = None,
    time: Any = None,
    type_column: str | None = None,
    params: Mapping[str, object] | None = None,
    outputs: tuple[str, ...] | None = None,
    lateness: Any = None,
    unit: Any = None,
    sort: bool = False,
    contributors: bool = False,
    reads_all: bool = False,
    on_bad_row: str | None = None,
) -> Prepared:
    """The query path: open the streams, lower, plan, compile. `outputs`: None for all, () for the last query's.

    Columns of frames and rows that the query does not read are not converted, unless the caller `reads_all`.
    """
    began = clock.perf_counter()
    parsed = query_ if isinstance(query_, Query) else query(query_, language)
    said = {"time": time, "lateness": lateness, "unit": unit, "sort": sort or None, "on_bad_row": on_bad_row}
    if not parsed.inputs:
        lower_texts(parsed.texts, {}, params or {})  # nothing but a circle reads no stream, and it is refused there
    opened = _open(parsed, streams, said, type_column, None if reads_all else _mentions(parsed, type_column))
    if opened:
        common_axis(opened)  # streams on different clocks are a mistake in the data, not in the query

    def compile_(statistics: Statistics) -> Compiled:
        if type_column is None:
            types: dict[str, StreamType] = {stream.name: stream.type for stream in opened}
        else:
            types = dict.fromkeys(parsed.inputs, opened[0].type)
        program = lower_texts(parsed.texts, types, params or {})
        warnings = find_warnings(program, types)
        read = {} if type_column is None else sources_of(program)
        if type_column is not None:
            program = by_type(program, opened[0], type_column, read)
        planned, tables = compile_program(program, outputs, bool(contributors), header_names(bool(contributors)), statistics)
        asked = Statistics(distinct=dict(statistics.distinct))  # without the streams behind it
        return Compiled(program, planned, tables, warnings, read, asked)

    decides = (type_column, _values(params or {}), repr(outputs), bool(contributors))
    while True:
        identity = tuple([_identity(stream) for stream in opened])
        found = _compiled_once(parsed, (identity, *decides), known_statistics(opened), compile_)
        # What is passed on by `*` is read although the text does not mention it. Its type was a guess, and mostly right.
        opened = tuple([stream.with_exact_types(_columns_read(stream, found.tables, bool(contributors))) for stream in opened])
        if identity == tuple([_identity(stream) for stream in opened]):
            break
    _check_doubts(opened, found.tables, bool(contributors))
    rejections = Rejections()
    opened = tuple([rejections.watch(stream) if stream.rejects else stream for stream in opened])
    log.info("planned %s in %.1f ms", listing(output_names(found.program), 4), 1000 * (clock.perf_counter() - began))
    log_warnings(parsed, found.warnings)
    if type_column is None:
        return Prepared(opened, found.program, found.plan, found.tables, rejections, found.warnings)
    seen = TypesSeen(type_column, found.types)
    return Prepared((seen.watched(opened[0]),), found.program, found.plan, found.tables, rejections, found.warnings, seen)


def log_warnings(query_: Query, warnings: Iterable[Diagnostic]) -> None:
    """Logs each warning once for a query, however often it is compiled."""
    for warning in warnings:
        if warning not in query_.warned:
            query_.warned.add(warning)
            log.warning("%s", render(warning))


def _mentions(query_: Query, type_column: str | None) -> Callable[[str], bool]:
    """Does the text have the name of a column in it, perhaps as a part of another as in `price_1`? Else no expression can read it."""
    text = "\n".join([text.file.source.text for text in query_.texts])

    def mentions(name: str) -> bool:
        written = re.escape(name.replace("`", "``"))
        return name == type_column or re.search(rf"(?<![^\W_]){written}(?![^\W_])", text) is not None

    return mentions


def _columns_read(stream: OpenStream, tables: Tables, contributors: bool) -> Collection[str]:
    """The columns of a stream that a run reads; an event without an id is known by all of them."""
    if contributors and stream.id is None:
        return stream.type.schema.names
    return {column for source in tables.sources if source.name == stream.name for column in source.columns}


def _check_doubts(opened: Iterable[OpenStream], tables: Tables, contributors: bool) -> None:
    """Columns with odd values are an error where the query reads them, and nowhere else. Without an id, events are known by all of them."""
    read = {source.name: set(source.columns) for source in tables.sources}
    for stream in opened:
        for column, say in stream.data.doubts.items():
            if column in read.get(stream.name, ()) or column in stream.time or (contributors and stream.id in (None, column)):
                raise say()


def _identity(stream: OpenStream) -> object:
    """All of a stream that can change what a query is compiled to."""
    columns = tuple([(a.name, a.type, _type_identity(a.arrow)) for a in stream.type.schema.attributes])
    return stream.name, columns, stream.type.axis.tick_us, stream.type.axis.arrow


def _type_identity(arrow: pa.DataType) -> object:
    """Types that are defined in Python cannot be hashed unless their authors thought of it."""
    is_extension = isinstance(arrow, pa.BaseExtensionType)
    return pa.schema([pa.field("", arrow)]).serialize().to_pybytes() if is_extension else arrow


def _values(params: object) -> object:
    """Parameters as part of a key: 1, 1.0 and True, or 0.0 and -0.0, are equal in Python but not in a query."""
    # Whoever lowers the query says what is wrong with them if they are no dict.
    return (
        tuple([(repr(name), type(value), repr(value)) for name, value in params.items()]) if isinstance(params, Mapping) else repr(params)
    )


def _compiled_once(query_: Query, key: object, statistics: Statistics, compile_: Callable[[Statistics], Compiled]) -> Compiled:
    """What the query was compiled to before, unless what the planner asked of the streams is answered otherwise now."""
    known = query_.compiled.get(key)
    if known is not None and all(statistics.n_distinct(*column) == n.value for column, n in known.statistics.distinct.items()):
        return known
    made = compile_(statistics)
    query_.compiled[key] = made
    for oldest in list(query_.compiled)[:-MOST_COMPILED]:
        query_.compiled.pop(oldest, None)
    return made


def compile_program(
    program: Program, outputs: tuple[str, ...] | None, contributors: bool, header: tuple[str, ...], statistics: Statistics
) -> tuple[Plan, Tables]:
    """The query path from the algebra on, for the wanted outputs; `header` are the columns that results have of their own."""
    chosen = _chosen(outputs, output_names(program))
    _check_header_names(program, chosen, header)
    planned = plan(program, chosen, contributors=contributors, statistics=statistics)
    return planned, compile_tables(planned)


class _Distinct(dict[tuple[str, str], Estimate]):
    """How many values the columns of streams have. A column is looked at when the planner asks for it."""

    def __init__(self, opened: Iterable[OpenStream]) -> None:
        super().__init__()
        self.streams = {stream.name: stream for stream in opened}

    def __contains__(self, column: object) -> bool:
        return isinstance(column, tuple) and column[0] in self.streams

    def __missing__(self, column: tuple[str, str]) -> Estimate:
        stream, name = self.streams[column[0]], column[1]
        n_distinct = stream.n_distinct(name)
        self[column] = Estimate(n_distinct, "declared" if name in stream.distinct else "first rows" if n_distinct else "nothing")
        return self[column]


def known_statistics(opened: Iterable[OpenStream]) -> Statistics:
    """What is known of these streams; nothing is known of others."""
    return Statistics(distinct=_Distinct(opened))


def _check_header_names(program: Program, chosen: tuple[str, ...], header: tuple[str, ...]) -> None:
    """Result tables have columns of their own; those of the query may not have their names."""
    for output, (_, operator) in zip(output_names(program), program.outputs, strict=True):
        for attribute in operator.schema.names:
            if output in chosen and attribute in header:
                message = f"a column of the result is named `{attribute}`, which every result has of its own"
                help = f"rename it in the SELECT: `{attribute} AS {attribute.strip('_')}`, or leave it out"
                raise QueryError(Diagnostic("K208", message, operator.span, help=(help,)))


def _chosen(outputs: tuple[str, ...] | None, names: tuple[str, ...]) -> tuple[str, ...]:
    if outputs is None:
        return names
    for name in outputs:
        if name not in names:
            help = (*similar(name, names), f"the query set publishes {listing(names)}")
            raise QueryError(Diagnostic("K202", f"no query publishes `{name}`", help=help))
    return outputs or names[-1:]


def _open(
    query_: Query, streams: Any, said: Mapping[str, Any], type_column: str | None, reads: Callable[[str], bool] | None
) -> tuple[OpenStream, ...]:
    """Every stream the query reads, opened; what was said to `match` of all streams fills in what a Stream leaves out."""
    if type_column is not None and not isinstance(type_column, str):
        raise TypeError(f"type_column must be the name of a column (str), not {type(type_column).__name__}")
    wanted = query_.inputs
    if isinstance(streams, Mapping):
        given = dict(streams)
    elif len(wanted) == 1 or type_column is not None:
        given = {wanted[0] if type_column is None else EVENTS: streams}
    else:
        raise data_error(
            "K505",
            f"the query reads {len(wanted)} streams, {listing(wanted)}, but one was given",
            "give a dict from stream name to data",
            BY_TYPE,
        )
    if type_column is not None:
        if len(given) != 1:
            raise data_error("K505", "with `type_column` all events come in one table", "give one table, not several streams")
        wanted = tuple(given)
    missing = [name for name in wanted if name not in given]
    if missing:
        help = (*similar(missing[0], given), f"data was given for {listing(given)}") if given else ("give a dict from stream name to data",)
        if len(given) == 1 and len(wanted) > 1:
            help = (*help, BY_TYPE)
        raise data_error("K505", f"no data was given for {listing(missing)}, which the query reads", *help)
    streams_ = {name: described(name, given[name], said) for name in wanted}
    check_shared({name: stream.data for name, stream in streams_.items()})
    return tuple([open_stream(name, stream, reads) for name, stream in streams_.items()])


def described(name: str, data: Any, said: Mapping[str, Any]) -> Stream:
    """The stream, with what was said of all streams filled in where it says nothing itself."""
    stream = data if isinstance(data, Stream) else Stream(data)
    added: dict[str, Any] = {}
    for option, value in said.items():
        own = value.get(name) if isinstance(value, Mapping) else value
        if own is not None and not getattr(stream, option):
            added[option] = own
    return replace(stream, **added)


def by_type(program: Program, stream: OpenStream, type_column: str, types: Collection[str]) -> Program:
    """Read each of these streams of the query as the rows of one table whose type column holds its name."""
    schema = stream.type.schema
    index = schema.index(type_column)
    if index is None or schema[index].type is not Type.STRING:
        problem = "does not exist" if index is None else f"holds {schema[index].type.value} values, not text"
        raise data_error("K512", f"the type column `{type_column}` {problem}", *similar(type_column, schema.names))
    if stream.name in [name for name, _ in program.outputs]:
        message = f"a query publishes `{stream.name}`, which is the name of the table with all events"
        raise QueryError(Diagnostic("K306", message, help=("publish under another name, or give the table another: {name: table}",)))
    return split_by_type(program, stream.name, schema, index, types)


def _collect(prepared: Prepared, threads: int, limits: Limits | None, rejected: list[Any] | None) -> dict[str, Any]:
    """Run to the end and give every output the kind that went in."""
    if rejected is not None and not isinstance(rejected, list):
        raise TypeError(f"rejected must be a list, to which tables are added, not {type(rejected).__name__}")
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise ValueError(f"threads must be a number of threads from 1 on, not {threads!r}")
    check_limits(limits)
    began = clock.perf_counter()
    found: dict[str, list[pa.RecordBatch]] = {output.name: [] for output in prepared.tables.outputs}
    bad: dict[str, list[pa.RecordBatch]] = {stream.name: [] for stream in prepared.opened}
    if rejected is not None:
        prepared.rejections.keep = lambda stream, rows: bad[stream].append(rows)
    for batch in run(prepared.tables, prepared.opened, threads=threads, limits=limits, keeps=True):
        found[batch.output].append(batch.rows)
    prepared.warn_of_types()
    kinds = {stream.kind for stream in prepared.opened}
    kind = kinds.pop() if len(kinds) == 1 else "arrow"
    tables = {name: pa.Table.from_batches(batches, prepared.schema(name)) for name, batches in found.items()}
    n_matches = sum([table.num_rows for table in tables.values()])
    log.info("%d %s in %.3f s", n_matches, "match" if n_matches == 1 else "matches", clock.perf_counter() - began)
    if rejected is None:
        prepared.rejections.warn()
    else:
        schemas = {stream.name: pa.schema([*row_schema(stream), *PLACE]) for stream in prepared.opened}
        rejected += [convert(pa.Table.from_batches(rows, schemas[name]), kind) for name, rows in bad.items()]
    return {name: convert(table, kind) for name, table in tables.items()}
