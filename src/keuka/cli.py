"""The `keuka` command. Arguments come in; tables, files and messages go out, with the exit code 0, 2 (query) or 3 (data).

Everything it does is a call of the public API; what stands here is how options are written and results are shown.
Heavy imports are inside the functions that need them, so that `keuka --help` answers at once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from keuka.diagnostics import listing, similar
from keuka.errors import EXPLANATIONS, DataError, KeukaError, PipelineError, QueryError, unexpected
from keuka.pipeline_commands import EMBEDDED, check_pipeline, new, warn_on_standard_error
from keuka.pipeline_commands import run as run_pipeline
from keuka.terminal import EventCounter, as_keys, as_options, complain, counted, print_columns, print_rows, sized

if TYPE_CHECKING:
    from keuka.events.sources import Stream
    from keuka.query import Prepared, Query
    from keuka.run.results import MatchBatch

N_SHOWN = 20  # matches in the table when no `--limit` is given
MOST_ROWS = 2**63 - 1  # that Arrow can count
PIPELINE = ".toml"  # the suffix of pipeline files, whose keys are what remedies name


def run() -> NoReturn:
    """The entry point of the installed command."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Runs one command and turns whatever goes wrong into a message and an exit code."""
    try:
        # Not `cli.main`, which has its own opinion of interrupts and broken pipes.
        with cli.make_context("keuka", list(arguments)) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        click.echo("\n".join(["interrupted", *getattr(interrupt, "__notes__", [])]), err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`keuka match ... | head`). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MemoryError:
        click.echo("error: there is not enough memory for this query over this data", err=True)
        return 71
    except Exception as error:
        if os.environ.get("KEUKA_DEBUG"):
            raise
        known = error if isinstance(error, KeukaError) else unexpected(f"{type(error).__name__}: {error}")
        remedies = (as_keys if any(argument.endswith(PIPELINE) for argument in arguments) else as_options)(str(known))
        complain(remedies)
        return 2 if isinstance(known, QueryError | PipelineError) else 3 if isinstance(known, DataError) else 70
    return 0


@dataclass(frozen=True)
class Arguments:
    """What every command that works on a query is given: the query, its data, and how to read them."""

    query: str
    data: str | None
    stream: tuple[str, ...]
    time: tuple[str, ...]
    lateness: tuple[str, ...]
    unit: tuple[str, ...]
    id: tuple[str, ...]
    sort: bool
    type_column: str | None
    params: tuple[str, ...]
    schema: tuple[str, ...]
    separator: str | None
    no_header: bool
    null: tuple[str, ...]
    time_format: str | None
    zone: str | None
    on_bad_row: str | None


def takes_limits(command: Callable[..., None]) -> Callable[..., None]:
    """The options behind `keuka.Limits`, which the command gets by the names that they have there."""
    options = (
        click.option("--max-memory", "memory", metavar="AMOUNT", help="How much it may hold ('4 GB'); by default half of what there is."),
        click.option("--max-seconds", "seconds", type=float, metavar="N", help="How long it may run."),
        click.option("--max-matches", "matches", type=int, metavar="N", help="How many matches there may be; more are an error."),
    )
    return decorated(command, options)


def decorated(command: Callable[..., None], options: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    """The command with options and arguments, which its help shows in this order."""
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


def takes_query_and_data(command: Callable[..., None]) -> Callable[..., None]:
    """The options behind `Arguments`, which the command gets as its first argument."""

    @functools.wraps(command)
    def with_arguments(**options: Any) -> None:
        fields = {name: options.pop(name) for name in Arguments.__dataclass_fields__}
        command(Arguments(**fields), **options)

    options = (
        click.argument("query"),
        click.argument("data", required=False),
        click.option("--stream", multiple=True, metavar="NAME=FILE", help="The data of one stream; once for each the query reads."),
        click.option("--time", multiple=True, metavar="COLUMN", help="Time column; START,END for intervals; NAME=COLUMN for one stream."),
        click.option("--lateness", multiple=True, metavar="DURATION", help="How far rows may be out of order ('5 s'); also NAME=DURATION."),
        click.option("--unit", multiple=True, metavar="UNIT", help="Unit of integer times (s, ms, us, ...); also NAME=UNIT."),
        click.option("--id", multiple=True, metavar="COLUMN", help="Column that identifies events, for --contributors; also NAME=COLUMN."),
        click.option("--sort", is_flag=True, help="Read everything and sort it by time first."),
        click.option("--type-column", metavar="COLUMN", help="Column of DATA that says which stream each row belongs to."),
        click.option("--params", multiple=True, metavar="NAME=VALUE", help="The value of a parameter :NAME; once for each."),
        click.option("--schema", multiple=True, metavar="COLUMNS", help="Types of columns ('at TIMESTAMP, id STRING'); also NAME=COLUMNS."),
        click.option("--separator", metavar="CHARACTER", help="What separates the fields of CSV files; \\t is a tab."),
        click.option("--no-header", is_flag=True, help="CSV files have no header; --schema names the columns, in order."),
        click.option("--null", multiple=True, metavar="TEXT", help="A text that means null in CSV files; once for each."),
        click.option("--time-format", metavar="FORMAT", help="How times are written in CSV files, if not in ISO form ('%d/%m/%Y %H:%M')."),
        click.option("--zone", metavar="ZONE", help="The zone of times in CSV files that are written without one; by default UTC."),
        click.option("--on-bad-row", type=click.Choice(["error", "reject"]), help="Stop at rows that cannot be events, or leave them out."),
    )
    return decorated(with_arguments, options)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="keuka", message="keuka %(version)s")
def cli() -> None:
    """Find patterns in streams of events.

    \b
    keuka match rebound.cel ticks.parquet              the matches as a table
    keuka match rebound.cel ticks.csv --out found.csv  the matches as a file
    keuka check rebound.cel                            is the query right?
    keuka explain rebound.cel ticks.parquet            how it is run
    keuka trace rebound.cel ticks.csv --key IBM        why it matches, or why not
    keuka error K304                                   what a code means
    keuka new demo; keuka run demo/pipeline.toml       streams, queries and sinks in one file, on Spark

    QUERY is a file, or a directory of *.cel and *.sase files. Data may be CSV, Parquet, Arrow IPC or newline-delimited JSON.

    Exit codes: 0; 2 for a mistake in the query, the pipeline or the command line; 3 for a mistake in the data.
    """


@cli.command()
@takes_query_and_data
@click.option("--output", metavar="NAME", help="The published stream that is wanted; the last query's if none is named.")
@click.option("--contributors", is_flag=True, help="Add `_id` and `_contributors`, the events behind each match.")
@click.option("--out", metavar="FILE", help="Write to a .parquet, .csv, .ndjson or .arrow file; - is standard output.")
@click.option("--format", type=click.Choice(["parquet", "csv", "ndjson", "arrow"]), help="Format of FILE, if its name does not say.")
@click.option("--limit", type=click.IntRange(0, MOST_ROWS), metavar="N", help="Show or write the first N matches; all are counted.")
@click.option("--rejected", metavar="FILE", help="Leave out rows that cannot be events, and write them to FILE with reason and place.")
@takes_limits
def match(
    arguments: Arguments,
    output: str | None,
    contributors: bool,
    out: str | None,
    format: str | None,
    limit: int | None,
    rejected: str | None,
    **limits: Any,
) -> None:
    """Run QUERY over DATA; show its matches, or write them to a file.

    \b
    keuka match rebound.cel ticks.parquet --time ts
    keuka match rebound.cel ticks.csv --params v=10000 --out matches.parquet
    keuka match theft.sase readings.csv --type-column reader
    keuka match news.cel --stream Stock=ticks.parquet --stream News=news.ndjson --time Stock=ts --time News=at
    cat ticks.ndjson | keuka match rebound.cel - --out - | head

    DATA is the one stream the query reads; - is standard input (newline-delimited JSON, CSV or an Arrow stream).
    """
    from keuka.events.sinks import python_rows, write_batches
    from keuka.run.embedded import run as run_tables
    from keuka.run.limits import Limits

    began = time.perf_counter()
    allowed = Limits(**limits)
    every = os.path.isdir(arguments.query) and output is None
    if rejected is not None:
        arguments = replace(arguments, on_bad_row="reject")
    prepared = prepare(arguments, outputs=None if every else () if output is None else (output,), contributors=contributors)
    names = [columns.name for columns in prepared.tables.outputs]
    if out is not None and len(names) > 1:
        raise click.UsageError(f"--out holds one stream; choose with --output: {listing(names)}")
    read_files = [arguments.query, *[file for stream in prepared.opened for file in stream.data.files]]
    if out is not None:
        refuse_input("--out", out, read_files)
    if rejected is not None:
        refuse_input("--rejected", rejected, [*read_files, *([out] if out is not None else [])])
    crowded = out == "-" and sys.stdout.isatty()  # a bar among the matches would be in their way
    counter = EventCounter(prepared.opened, visible=sys.stderr.isatty() and not crowded)
    with keeping_rejected(prepared, rejected), counter as seen:
        batches = run_tables(prepared.tables, prepared.opened, on_progress=seen.count, limits=allowed)
        counts = Counter[str]()
        first = first_rows(batches, N_SHOWN if limit is None and out is None else limit, counts)
        shown: dict[str, list[dict[str, object]]] = {name: [] for name in names}
        if out is None:
            for batch in first:
                shown[batch.output] += python_rows(batch.rows)
        else:
            suffix = None if format is None else f".{format}"
            n_written = write_batches(prepared.schema(names[0]), (batch.rows for batch in first), out, suffix)
    prepared.warn_of_types()
    for name in names if out is None else ():
        title = f"{name}: {counted(counts[name], 'match', 'matches')}" if len(names) > 1 else ""
        remedy = "--limit shows more, --out writes all of them"
        print_rows(title, prepared.schema(name), shown[name], counts[name], remedy)
    n_matches = counts.total()
    seconds = time.perf_counter() - began
    held = f"at most {counted(seen.most_instances, 'partial match', 'partial matches')} held ({sized(seen.most_bytes)})"
    written = f" ({n_written:,} written: --limit)" if out is not None and n_written < n_matches else ""
    read = f"{counted(n_matches, 'match', 'matches')}{written}, {counted(seen.n_events, 'event', 'events')}"
    n_rejected = prepared.rejections.n_rejected
    read += f", {counted(n_rejected, 'row', 'rows')} rejected" if n_rejected else ""
    click.echo(f"{read}, {held}, {seconds:.2f} s", err=True)
    for name, rows in prepared.rejections.counts.items():
        if rows.n_rejected and rejected is None:
            click.echo(f"warning: {prepared.rejections.summary(name)}; --rejected FILE keeps them", err=True)
    others = [name for name, _ in prepared.program.outputs if name and name not in names]
    if others and output is None:
        click.echo(f"also published: {listing(others)} (choose with --output)", err=True)


cli.add_command(run_pipeline)
cli.add_command(new)


@cli.command()
@takes_query_and_data
@EMBEDDED
def check(arguments: Arguments, embedded: bool) -> None:
    """Say whether QUERY is right, and what it reads and gives.

    \b
    keuka check rebound.cel                    the text alone
    keuka check rebound.cel ticks.parquet      names and types too, against the columns of the data
    keuka check pipeline.toml                  a pipeline as a whole: streams, queries, sinks

    Nothing is run, and of the data only the columns are looked at, and with --type-column the types in it.
    """
    import keuka

    if arguments.query.endswith(PIPELINE):
        check_pipeline(arguments.query, embedded)
        return
    query = keuka.query(Path(arguments.query))
    prepared = prepare(arguments) if has_data(arguments) else None
    if prepared is not None and prepared.types is not None and arguments.data != "-":
        prepared.types.look_at(prepared.opened[0])
        prepared.warn_of_types()
    click.echo(f"reads       {listing(query.inputs)}")
    if query.parameters:
        click.echo(f"parameters  {listing(query.parameters)}")
    if prepared is None:
        click.echo("The text is right. Give the data too, to check names and types against its columns.")
        return
    for columns in prepared.tables.outputs:
        print_columns(columns.name, prepared.schema(columns.name))


@cli.command()
@takes_query_and_data
@click.option("--verbose", is_flag=True, help="Show the plan after every rule that changed it.")
@click.option("--format", type=click.Choice(["text", "json", "dot"]), default="text", show_default=True)
def explain(arguments: Arguments, verbose: bool, format: str) -> None:
    """Show how QUERY is run: algebra, rules, automaton, indices.

    \b
    keuka explain rebound.cel ticks.parquet
    keuka explain rebound.cel ticks.parquet --verbose
    keuka explain rebound.cel ticks.parquet --format dot | dot -Tsvg > rebound.svg
    """
    import keuka

    query = keuka.query(Path(arguments.query))
    streams = streams_of(query, arguments) if has_data(arguments) else None
    said: dict[str, Any] = {} if streams is None else {"type_column": arguments.type_column}
    click.echo(query.explain(streams, params=params_of(arguments), verbose=verbose, format=format, **said))


@cli.command()
@takes_query_and_data
@click.option("--key", multiple=True, metavar="VALUE", help="Show the events of one key only; COLUMN=VALUE for those of a column.")
@click.option("--output", metavar="NAME", help="The published stream that is wanted; the last query's if none is named.")
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=50, show_default=True, metavar="N", help="Show N events.")
def trace(arguments: Arguments, key: tuple[str, ...], output: str | None, limit: int) -> None:
    """Show event by event why QUERY matches, or why not.

    \b
    keuka trace rebound.cel ticks.csv --key IBM
    keuka trace rebound.cel ticks.csv --key name=IBM

    Each event is shown with the partial matches it met, and each condition with the values it saw.
    """
    import keuka

    query = keuka.query(Path(arguments.query))
    streams = streams_of(query, arguments)
    said: dict[str, Any] = {"params": params_of(arguments), "type_column": arguments.type_column}
    found = query.trace(streams, key=key_of(key), output=output, limit=limit, **said)
    click.echo(as_options(found.text))


def key_of(texts: Sequence[str]) -> object:
    """`IBM`, several for a key of several columns, or `name=IBM`."""
    if not texts:
        return None
    if all("=" in text for text in texts):
        return dict(named(text, "--key") for text in texts)
    return tuple(texts)


@cli.command()
@click.argument("archive", metavar="OUT.tar.gz")
def pack(archive: str) -> None:
    """Pack Keuka and its Python for the executors of a Spark cluster.

    \b
    keuka pack environment.tar.gz

    Start Spark with spark.archives=environment.tar.gz#environment and spark.pyspark.python=./environment/bin/python.
    The executors need no Python of their own, but the same kind of machine and system as this one.
    """
    from keuka.spark.pack import pack as pack_environment

    if not archive.endswith((".tar.gz", ".tgz")):
        raise click.UsageError(f"`{archive}` is unpacked by Spark, which looks at its name: end it in .tar.gz")
    began = time.perf_counter()
    packed = pack_environment(archive)
    click.echo(f"Python {packed.python}, {', '.join(packed.packages)}")
    click.echo(f"`{archive}`: {sized(packed.n_bytes)}, {time.perf_counter() - began:.1f} s", err=True)


@cli.command()
@click.argument("code", required=False)
def error(code: str | None) -> None:
    """Say what an error CODE means; list all codes.

    \b
    keuka error K304
    """
    if code is None:
        for known, text in EXPLANATIONS.items():
            click.echo(f"{known}  {text.partition('. ')[0].rstrip('.')}.")
        return
    if code.upper() not in EXPLANATIONS:
        hint = "; ".join(similar(code.upper(), EXPLANATIONS)) or "`keuka error` lists all of them"
        raise click.UsageError(f"there is no error `{code}`; {hint}")
    click.echo(f"{code.upper()}: {EXPLANATIONS[code.upper()]}")


def prepare(arguments: Arguments, outputs: tuple[str, ...] | None = None, contributors: bool = False) -> Prepared:
    """The query bound to its data, ready to run; `outputs` as in `keuka.query.prepare`."""
    import keuka
    from keuka.query import prepare as prepare_query

    warn_on_standard_error(as_options)
    query = keuka.query(Path(arguments.query))
    streams = streams_of(query, arguments)
    said: dict[str, Any] = {"params": params_of(arguments), "type_column": arguments.type_column}
    return prepare_query(query, streams, outputs=outputs, contributors=contributors, **said)


def has_data(arguments: Arguments) -> bool:
    return arguments.data is not None or bool(arguments.stream)


def params_of(arguments: Arguments) -> dict[str, object]:
    """`v=10000` and `name=IBM`: values are written as in JSON, and what is not JSON is text."""
    params: dict[str, object] = {}
    for text in arguments.params:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--params `{text}` gives no value; write `{name}=...`")
        try:
            params[name] = json.loads(value)
        except (ValueError, RecursionError):  # also numbers of thousands of digits and brackets without end
            params[name] = value
    return params


def streams_of(query: Query, arguments: Arguments) -> dict[str, Stream]:
    """The streams named on the command line; DATA stands for the only one the query reads, or for the table of all events."""
    import keuka
    from keuka.query import EVENTS

    if arguments.data is not None and arguments.stream:
        raise click.UsageError("give either DATA or --stream, not both")
    if not has_data(arguments):
        raise click.UsageError(f"give the data of {listing(query.inputs)}: DATA, or --stream NAME=FILE")
    files = dict(named(text, "--stream") for text in arguments.stream)
    if arguments.data is not None:
        if arguments.type_column is None and len(query.inputs) != 1:
            each = f"give each its data: --stream {query.inputs[0]}=..."
            raise click.UsageError(f"the query reads {listing(query.inputs)}; {each}, or say which --type-column of DATA names them")
        files = {query.inputs[0] if arguments.type_column is None else EVENTS: arguments.data}
    names = tuple(files)
    said = {each: per_stream(getattr(arguments, each), names, f"--{each}") for each in ("time", "lateness", "unit", "id", "schema")}
    csv = csv_of(arguments)
    return {
        name: keuka.Stream(
            file,
            time=time_of(said["time"][name]),
            lateness=lateness_of(said["lateness"][name]),
            id=said["id"][name],
            unit=said["unit"][name],
            sort=arguments.sort,
            schema=said["schema"][name],
            csv=csv,
            on_bad_row=arguments.on_bad_row,
        )
        for name, file in files.items()
    }


def csv_of(arguments: Arguments) -> dict[str, object] | None:
    """The options of CSV that were given; None if none was, because other formats have none."""
    separator = "\t" if arguments.separator == "\\t" else arguments.separator
    options: dict[str, object] = {
        "separator": separator,
        "header": False if arguments.no_header else None,
        "nulls": list(arguments.null) or None,
        "time_format": arguments.time_format,
        "zone": arguments.zone,
    }
    return {name: value for name, value in options.items() if value is not None} or None


def named(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{option} `{text}` does not say of which stream; write `NAME={text}`")
    return name, value


def per_stream(texts: Sequence[str], names: Sequence[str], option: str) -> dict[str, str | None]:
    """The value of an option for each stream: `NAME=value` for one, a bare value for all that have none of their own."""
    own: dict[str, str] = {}
    common: str | None = None
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            common = text
        elif name in names:
            own[name] = value
        else:
            raise click.UsageError(f"{option} `{text}` names a stream that has no data; there are {listing(names)}")
    return {name: own.get(name, common) for name in names}


def time_of(text: str | None) -> str | tuple[str, str] | None:
    """`ts`, or the columns `start,end` of intervals."""
    if text is None or "," not in text:
        return text
    start, _, end = text.partition(",")
    return start, end


def lateness_of(text: str | None) -> str | int | None:
    """`5 s`, or a plain number of ticks."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,30}", text) else text


@contextlib.contextmanager
def keeping_rejected(prepared: Prepared, file: str | None) -> Iterator[None]:
    """Writes rejected rows of all streams to a file while the query runs."""
    from keuka.events.rejection import in_columns, rejected_schema, row_schema
    from keuka.events.sinks import writing

    if file is None:
        yield
        return
    schema = rejected_schema([row_schema(stream) for stream in prepared.opened])
    with writing(schema, file) as write:
        prepared.rejections.keep = lambda stream, rows: write(in_columns(rows, schema))
        yield


def refuse_input(option: str, out: str, read: Sequence[str]) -> None:
    """The rows take the place of what was in FILE; if that was read for them, it is hardly meant."""
    for file in read:
        if os.path.isfile(out) and os.path.isfile(file) and os.path.samefile(out, file):
            raise click.UsageError(f"{option} `{out}` would overwrite `{file}`, which is read; name another file")


def first_rows(batches: Iterable[MatchBatch], limit: int | None, n_matches: Counter[str]) -> Iterator[MatchBatch]:
    """The first matches of every output, as many as wanted; all are counted."""
    for batch in batches:
        n_left = batch.rows.num_rows if limit is None else max(0, limit - n_matches[batch.output])
        n_matches[batch.output] += batch.rows.num_rows
        if n_left:
            yield replace(batch, rows=batch.rows.slice(0, n_left))
