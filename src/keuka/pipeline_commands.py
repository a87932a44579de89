"""The commands about pipelines: `run`, `new`, and `check` of a pipeline file. Used by `cli.py` alone."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from keuka.diagnostics import WARNING, hide_credentials, listing
from keuka.terminal import RunBar, as_keys, complain, counted, print_columns, print_rows, sized

if TYPE_CHECKING:
    from keuka.pipelines import Batch, Pipeline, Report

EMBEDDED = click.option("--embedded", is_flag=True, help="Run in this process, without Spark and Java.")


@click.command("run")
@click.argument("file")
@click.option("--master", metavar="MASTER", help="Spark's master instead of the one in FILE, for example local[4] or spark://host:7077.")
@EMBEDDED
def run(file: str, master: str | None, embedded: bool) -> None:
    """Run the pipeline in FILE: streams, queries and sinks.

    \b
    keuka run pipeline.toml                        on Spark, on all cores of this machine
    keuka run pipeline.toml --master spark://host:7077
    keuka run pipeline.toml --embedded             in this process

    `keuka new DIR` writes a pipeline to begin with.
    """
    import keuka
    from keuka.pipelines.checking import from_here

    if embedded and master is not None:
        raise click.UsageError("--master is Spark's, and --embedded runs without it; give one of them")
    warn_on_standard_error()
    pipeline = keuka.Pipeline.from_file(file)
    if pipeline.is_streaming and not embedded:
        follow(pipeline, master)
        return
    with RunBar(visible=sys.stderr.isatty()) as bar:
        report = pipeline.run(embedded=embedded, master=master, on_progress=bar)
    show(report)
    for sink in pipeline.sinks:
        if sink.path is not None:
            click.echo(f"{sink.of or 'matches'} -> {hide_credentials(from_here(sink.path, pipeline.folder))}", err=True)
    if not embedded:
        click.echo(", ".join([f"{step} {seconds:.2f} s" for step, seconds in report.steps.items()]), err=True)
    click.echo(summary(report), err=True)


def follow(pipeline: Pipeline, master: str | None) -> None:
    """Runs a pipeline over streams that go on, with a line for each micro-batch, until they end or somebody stops it."""
    n_batches, n_matches = 0, 0

    def on_batch(batch: Batch) -> None:
        nonlocal n_batches, n_matches
        n_batches, n_matches = n_batches + 1, n_matches + sum(batch.matches.values())
        show(batch)
        click.echo(batch_line(batch), err=True)

    try:
        with terminated_as_interrupted():
            report = pipeline.run(master=master, on_batch=on_batch)
    except KeyboardInterrupt:
        done = f"{counted(n_matches, 'match', 'matches')} in {counted(n_batches, 'micro-batch', 'micro-batches')}"
        click.echo(f"stopped after {done}; the next run goes on from here", err=True)
        return
    click.echo(summary(report), err=True)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, with which services are stopped, does what Ctrl-C does."""

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def batch_line(batch: Batch) -> str:
    n_rejected = sum(batch.rejected.values())
    parts = [
        f"{counted(sum(batch.read.values()), 'row', 'rows')} ({batch.rows_per_second:,.0f}/s)",
        counted(sum(batch.matches.values()), "match", "matches"),
        *([f"{n_rejected:,} rejected"] if n_rejected else []),
        *([f"{batch.late:,} late"] if batch.late else []),
        *([] if batch.time is None else [f"done up to {batch.time}"]),
        *([f"{batch.n_waiting:,} waiting for `{batch.waits_for}`"] if batch.n_waiting else []),
        f"{counted(batch.n_instances, 'partial match', 'partial matches')} in {sized(batch.n_bytes)}",
        *([f"not waiting for {batch.idle}"] if batch.idle else []),
        f"{batch.seconds:.2f} s ({batch.kernel_seconds:.2f} s in the kernel)",
    ]
    return f"micro-batch {batch.number}: {', '.join(parts)}"


def show(report: Report | Batch) -> None:
    """What goes to the console."""
    from keuka.events.sinks import python_rows

    for of, (rows, n_rows) in report.shown.items():
        many = ("match", "matches") if of in report.matches else ("row", "rows")
        shown = [row for batch in rows.to_batches() for row in python_rows(batch)]
        print_rows(f"{of}: {counted(n_rows, *many)}", rows.schema, shown, n_rows, "a sink with a path gets all of them")


def summary(report: Report) -> str:
    n_rejected = sum(report.rejected.values())
    parts = [
        counted(sum(report.matches.values()), "match", "matches"),
        counted(sum(report.read.values()), "row read", "rows read"),
        *([f"{n_rejected:,} rejected"] if n_rejected else []),
        f"{report.seconds:.2f} s",
    ]
    return ", ".join(parts)


class Warnings(logging.Handler):
    """Our own warnings, for instance of a query that cannot be divided, on standard error. Those with a code say that they are some."""

    def __init__(self, reword: Callable[[str], str]) -> None:
        """`reword` writes remedies as the user of a command would."""
        super().__init__(logging.WARNING)
        self.reword = reword

    def emit(self, record: logging.LogRecord) -> None:
        message = self.reword(record.getMessage())
        complain(message if message.startswith(f"{WARNING}[") else f"{WARNING}: {message}")


def warn_on_standard_error(reword: Callable[[str], str] = as_keys) -> None:
    """What other libraries log is not shown: py4j logs a traceback at an interrupt."""
    ours, root = logging.getLogger("keuka"), logging.getLogger()
    ours.handlers = [handler for handler in ours.handlers if not isinstance(handler, Warnings)]  # of an earlier command
    if not ours.handlers:
        ours.addHandler(Warnings(reword))
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def check_pipeline(file: str, embedded: bool) -> None:
    """What `keuka check` says of a pipeline file."""
    import keuka

    warn_on_standard_error()
    pipeline = keuka.Pipeline.from_file(file)
    outputs = pipeline.check(embedded=embedded)
    click.echo(f"reads       {listing(pipeline.streams)}")
    for name, schema in outputs.items():
        print_columns(name, schema)
    for line in written(pipeline, list(outputs)[-1]):
        click.echo(f"writes      {line}")


def written(pipeline: Pipeline, last: str) -> list[str]:
    from keuka.pipelines.checking import from_here

    places = [f" to `{hide_credentials(from_here(sink.path, pipeline.folder))}`" if sink.path else "" for sink in pipeline.sinks]
    return [f"`{sink.of or last}` as {sink.format}{place}" for sink, place in zip(pipeline.sinks, places, strict=True)]


@click.command("new")
@click.argument("directory")
def new(directory: str) -> None:
    """Write a pipeline that works into DIRECTORY: a file, queries, a little data.

    \b
    keuka new demo
    keuka run demo/pipeline.toml --embedded
    """
    from keuka.pipelines.example import write_example

    folder = Path(directory)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"`{directory}` exists and is not empty; name a directory that is new")
    try:
        write_example(folder)
    except OSError as error:
        raise click.UsageError(f"`{directory}` cannot be written: {error.strerror or error}") from error
    click.echo(f"A pipeline is in {directory}. Run it with: keuka run {folder / 'pipeline.toml'} --embedded")
