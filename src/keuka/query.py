"""The query path as one short function, and the public calls that use it: `cel`, `query`, `match`, `match_all`.

text -> languages -> algebra -> plan -> automaton -> tables happens in `prepare`; `run/embedded.py` does the rest.
"""

from __future__ import annotations

import logging
import os
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from keuka.algebra.operators import Filter, Operator, Program, Published, Source, inputs
from keuka.automaton.tables import Tables
from keuka.diagnostics import Diagnostic, SourceText, listing, similar
from keuka.errors import QueryError, data_error
from keuka.events.contributors import result_schema
from keuka.events.matches import convert
from keuka.events.order import common_axis
from keuka.events.sources import OpenStream, Stream, open_stream
from keuka.explain import explain
from keuka.expressions import FIRST, Call, Column, Literal
from keuka.languages.cel import lower as cel_lower
from keuka.languages.cel.syntax import CelFile, parse
from keuka.plan.planner import Plan, compile_tables, output_names, plan
from keuka.plan.rules import with_inputs
from keuka.run.embedded import run
from keuka.schema import StreamType, Type

log = logging.getLogger("keuka")

LANGUAGES = {"cel": ".cel"}  # language -> suffix of its files
EVENTS = "events"  # what one table of all events is called where it was given no name
HEADER_NAMES = ("_start", "_end", "_id", "_contributors")


@dataclass(frozen=True)
class Query:
    """One or more parsed queries that may read each other's published streams. Made by `cel` and `query`."""

    files: tuple[CelFile, ...]
    language: str

    def __repr__(self) -> str:
        return f"<{self.language} query over {', '.join(self.inputs)}>"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters `:name`.

        >>> import keuka
        >>> keuka.cel("SELECT * FROM FILTER {Volume > :v} (Stock)").parameters
        ('v',)
        """
        return cel_lower.parameters(self.files)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams that must be given.

        >>> import keuka
        >>> keuka.cel("SELECT * FROM Stock NEXT News").inputs
        ('Stock', 'News')
        """
        return cel_lower.inputs(self.files)

    def output_schema(
        self, streams: Any, *, params: Mapping[str, object] | None = None, output: str | None = None, **options: Any
    ) -> pa.Schema:
        """The columns of the result, without running the query. Takes what `match` takes."""
        prepared = prepare(self, streams, params=params, outputs=None if output is None else (output,), **options)
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

        Names and types come from the streams, so data (or an empty table with the right columns) must be given. `verbose` adds
        the algebra after every rule; `format` is "text", "json" or "dot".
        """
        if format not in ("text", "json", "dot"):
            raise ValueError(f"format must be 'text', 'json' or 'dot', not {format!r}")
        if streams is None:
            raise data_error(
                "K505",
                f"explain needs the columns of {listing(self.inputs)}",
                "give the data, or an empty table with the same columns",
            )
        prepared = prepare(self, streams, params=params, **options)
        return explain(prepared.program, prepared.plan, verbose=verbose, format=format)


@dataclass(frozen=True)
class Prepared:
    """A query bound to its streams: every stage of the query path, ready to run."""

    opened: tuple[OpenStream, ...]
    program: Program
    plan: Plan
    tables: Tables

    @property
    def default_output(self) -> str:
        """The last query's."""
        return output_names(self.program)[-1]

    def schema(self, output: str | None = None) -> pa.Schema:
        chosen = output or self.default_output
        columns = next(o for o in self.tables.outputs if o.name == chosen)
        inputs_ = [s for s in self.opened if s.name in {c.name for c in self.tables.sources}]
        return result_schema(columns.schema, common_axis(inputs_), self.plan.contributors)


def cel(text: str, *, name: str = "<query>") -> Query:
    """A query in Cayuga's event language.

    >>> import keuka
    >>> rises = keuka.cel("SELECT Price_1, Price FROM Stock NEXT {$2.Name = $1.Name AND $2.Price > $1.Price} Stock")
    >>> rises.inputs
    ('Stock',)
    """
    return Query((parse(SourceText(name, text)),), "cel")


def query(path_or_text: str | os.PathLike[str], language: str | None = None) -> Query:
    """A query from a file, from all query files of a directory, or from text.

    The language follows from a file's suffix (`.cel`); text is CEL unless `language` says otherwise.
    """
    if language is not None and language not in LANGUAGES:
        raise ValueError(f"unknown language {language!r}; the languages are {', '.join(LANGUAGES)}")
    path = _as_path(path_or_text)
    if path is None:
        return cel(str(path_or_text))
    files = sorted(path.glob("*.cel")) if path.is_dir() else [path]
    if not files:
        raise QueryError(Diagnostic("K104", f"there is no query file (`*.cel`) in `{path}`"))
    return Query(tuple([parse(SourceText(str(file), _read_text(file))) for file in files]), "cel")


def _as_path(path_or_text: str | os.PathLike[str]) -> Path | None:
    """A path if it is one or looks like one: a single word with the suffix of a language, or something that exists."""
    if not isinstance(path_or_text, str):
        return Path(path_or_text)
    if "\n" in path_or_text or len(path_or_text) > 1024:
        return None
    path = Path(path_or_text)
    return path if path.suffix in LANGUAGES.values() or os.path.exists(path) else None


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        why = "it does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise QueryError(Diagnostic("K104", f"the query file `{file}` cannot be read: {why}")) from error
    except UnicodeDecodeError as error:
        raise QueryError(Diagnostic("K102", f"the query file `{file}` is not UTF-8 text", help=(str(error),))) from error


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
) -> Any:
    """All matches of a query, as a table of the kind that went in (pandas, polars, else Arrow).

    query: a Query, a path, or text (with `language`).
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

    >>> import keuka, pyarrow as pa
    >>> ticks = pa.table({"t": [1, 2, 3], "price": [10, 12, 11]})
    >>> keuka.match("SELECT price_1 AS low, price AS high FROM S NEXT {$2.price > $1.price} S", ticks, time="t").to_pylist()
    [{'low': 10, 'high': 12, '_start': 1, '_end': 2}]
    """
    prepared = prepare(
        query,
        streams,
        language=language,
        time=time,
        type_column=type_column,
        params=params,
        outputs=() if output is None else (output,),
        lateness=lateness,
        unit=unit,
        sort=sort,
        contributors=contributors,
    )
    chosen = output or prepared.default_output
    return _collect(prepared)[chosen]


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
) -> dict[str, Any]:
    """The matches of every query of a set, in one pass: published name -> table. An unnamed query is `query_1`, `query_2`, ..."""
    prepared = prepare(
        query,
        streams,
        language=language,
        time=time,
        type_column=type_column,
        params=params,
        lateness=lateness,
        unit=unit,
        sort=sort,
        contributors=contributors,
    )
    return _collect(prepared)


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
) -> Prepared:
    """The query path: open the streams, lower, plan, compile. `outputs`: None for all, () for the last query's."""
    began = clock.perf_counter()
    parsed = query_ if isinstance(query_, Query) else query(query_, language)
    said = {"time": time, "lateness": lateness, "unit": unit, "sort": sort or None}
    opened = _open(parsed, streams, said, type_column)
    if opened:
        common_axis(opened)  # streams on different clocks are a mistake in the data, not in the query
    if type_column is None:
        types: dict[str, StreamType] = {stream.name: stream.type for stream in opened}
    else:
        types = dict.fromkeys(parsed.inputs, opened[0].type)
    program = cel_lower.lower(parsed.files, types, params or {})
    if type_column is not None:
        program = _by_type(program, opened[0], type_column)
    names = output_names(program)
    _check_header_names(program)
    planned = plan(program, _chosen(outputs, names), contributors=contributors)
    tables = compile_tables(planned)
    log.info("planned %s in %.1f ms", listing(names, 4), 1000 * (clock.perf_counter() - began))
    return Prepared(opened, program, planned, tables)


def _check_header_names(program: Program) -> None:
    """Result tables have columns of their own; a query's may not have their names."""
    for _, operator in program.outputs:
        for attribute in operator.schema.names:
            if attribute in HEADER_NAMES:
                message = f"a column of the result is named `{attribute}`, which every result has of its own"
                help = f"rename it in the SELECT: `{attribute} AS {attribute.strip('_')}`, or leave it out"
                raise QueryError(Diagnostic("K208", message, operator.span, help=(help,)))


def _chosen(outputs: tuple[str, ...] | None, names: tuple[str, ...]) -> tuple[str, ...] | None:
    if outputs is None:
        return None
    for name in outputs:
        if name not in names:
            help = (*similar(name, names), f"the query set publishes {listing(names)}")
            raise QueryError(Diagnostic("K202", f"no query publishes `{name}`", help=help))
    return outputs or names[-1:]


def _open(query_: Query, streams: Any, said: Mapping[str, Any], type_column: str | None) -> tuple[OpenStream, ...]:
    """Every stream the query reads, opened; what was said to `match` of all streams fills in what a Stream leaves out."""
    wanted = query_.inputs
    if isinstance(streams, Mapping):
        given = dict(streams)
    elif len(wanted) == 1 or type_column is not None:
        given = {wanted[0] if type_column is None else EVENTS: streams}
    else:
        raise data_error(
            "K505", f"the query reads {len(wanted)} streams, {listing(wanted)}, but one was given", "give a dict from stream name to data"
        )
    if type_column is not None:
        if len(given) != 1:
            raise data_error("K505", "with `type_column` all events come in one table", "give one table, not several streams")
        wanted = tuple(given)
    missing = [name for name in wanted if name not in given]
    if missing:
        help = (*similar(missing[0], given), f"data was given for {listing(given)}") if given else ("give a dict from stream name to data",)
        raise data_error("K505", f"no data was given for {listing(missing)}, which the query reads", *help)
    return tuple([open_stream(name, _described(name, given[name], said)) for name in wanted])


def _described(name: str, data: Any, said: Mapping[str, Any]) -> Stream:
    stream = data if isinstance(data, Stream) else Stream(data)
    added: dict[str, Any] = {}
    for option, value in said.items():
        own = value.get(name) if isinstance(value, Mapping) else value
        if own is not None and not getattr(stream, option):
            added[option] = tuple(own) if isinstance(own, list) else own
    return replace(stream, **added)


def _by_type(program: Program, stream: OpenStream, type_column: str) -> Program:
    """Read each stream of the query as the rows of one table whose type column holds its name."""
    schema = stream.type.schema
    index = schema.index(type_column)
    if index is None or schema[index].type is not Type.STRING:
        problem = "does not exist" if index is None else f"holds {schema[index].type.value} values, not text"
        raise data_error("K512", f"the type column `{type_column}` {problem}", *similar(type_column, schema.names))
    if stream.name in [name for name, _ in program.outputs]:
        message = f"a query publishes `{stream.name}`, which is the name of the table with all events"
        raise QueryError(Diagnostic("K306", message, help=("publish under another name, or give the table another: {name: table}",)))
    column = Column(FIRST, index, Type.STRING, type_column)
    published: dict[str, Operator] = {}

    def reads(operator: Operator) -> Operator:
        if isinstance(operator, Source):
            named = Literal(operator.stream, Type.STRING)
            return Filter(Source(stream.name, schema, operator.span), Call("eq", (column, named), Type.BOOLEAN), operator.span)
        if isinstance(operator, Published):
            if operator.name not in published:
                published[operator.name] = reads(operator.input)
            return replace(operator, input=published[operator.name])
        return with_inputs(operator, [reads(i) for i in inputs(operator)])

    return Program(tuple([(name, reads(operator)) for name, operator in program.outputs]))


def _collect(prepared: Prepared) -> dict[str, Any]:
    """Run to the end and give every output the kind that went in."""
    began = clock.perf_counter()
    found: dict[str, list[pa.RecordBatch]] = {output.name: [] for output in prepared.tables.outputs}
    for batch in run(prepared.tables, prepared.opened):
        found[batch.output].append(batch.rows)
    kinds = {stream.kind for stream in prepared.opened}
    kind = kinds.pop() if len(kinds) == 1 else "arrow"
    tables = {name: pa.Table.from_batches(batches, prepared.schema(name)) for name, batches in found.items()}
    n_matches = sum([table.num_rows for table in tables.values()])
    log.info("%d %s in %.3f s", n_matches, "match" if n_matches == 1 else "matches", clock.perf_counter() - began)
    return {name: convert(table, kind) for name, table in tables.items()}
