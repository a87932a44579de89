"""How results, progress and errors look in a terminal, and in a pipe or file that takes its place.

Used by the commands alone. Comes in: matches as batches, messages as text. Goes out: tables, a progress bar, colours.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress
    from rich.table import Table

    from keuka.events.sources import OpenStream
    from keuka.pipelines import Progress as PipelineProgress
    from keuka.run.embedded import Progress as RunProgress

# Remedies are written for Python; on the command line they are options.
_AS_OPTIONS = (
    (r'`lateness="([^"`]+)"`', r"`--lateness '\1'`"),
    (r"`lateness=(\d+)`", r"`--lateness \1`"),
    (r"`lateness=`", "`--lateness`"),
    (r"`sort=True`", "`--sort`"),
    (r"`limit=`", "`--limit`"),
    (r"`type_column=`", "`--type-column`"),
    (r'`key=\{"([^"`]+)": [^`]*\}`', r"`--key \1=...`"),
    (r'`unit="([^"`]+)"`', r"`--unit \1`"),
    (r"`unit=`", "`--unit`"),
    (r'`params=\{"([^"`]+)": \.\.\.\}`', r"`--params \1=...`"),
    (r"`time='([^'`]+)'`", r"`--time \1`"),
    (r"`time=\('([^'`]+)', '([^'`]+)'\)`", r"`--time \1,\2`"),
    (r"`limits=keuka\.Limits\((\w+)=([^`]*)\)`", r"`--max-\1 \2`"),
    (r'`keuka\.Stream\(\.\.\., schema="([^`]*)"\)`', r"`--schema '\1'`"),
    (r'`keuka\.Stream\(\.\.\., csv=\{"nulls": \["([^`]*)"\]\}\)`', r"`--null '\1'`"),
    (r'`keuka\.Stream\(\.\.\., csv=\{"time_format": "([^`]*)"\}\)`', r"`--time-format '\1'`"),
    (r'`keuka\.Stream\(\.\.\., csv=\{"separator": "([^`]*)"\}\)`', r"`--separator '\1'`"),
    (r'`keuka\.Stream\(\.\.\., csv=\{"header": False\}\)`', "`--no-header`"),
    (r'`on_bad_row="reject"`', "`--on-bad-row reject`"),
    (r"`csv=`", "`--separator`, `--no-header`, `--null`, `--time-format`, `--zone`"),
    (r"`schema=`", "`--schema`"),
    (r"give a dict from stream name to data", "give each stream its data: `--stream NAME=FILE`"),
)

# In a pipeline they are keys of its file.
_AS_KEYS = (
    (r'`(lateness|unit)="([^"`]+)"`', r'`\1 = "\2"`'),
    (r"`lateness=(\d+)`", r"`lateness = \1`"),
    (r"`(lateness|unit|type_column)=`", r"`\1`"),
    (r"`limits=keuka\.Limits\((\w+)=([^`]*)\)`", r"`\1 = \2` below `[limits]`"),
    (r'`params=\{"([^"`]+)": \.\.\.\}`', r"`params = { \1 = ... }` below `[[queries]]`"),
    (r"`time='([^'`]+)'`", r'`time = "\1"`'),
    (r"`time=\('([^'`]+)', '([^'`]+)'\)`", r'`time = ["\1", "\2"]`'),
    (r'`keuka\.Stream\(\.\.\., schema="([^`]*)"\)`', r'`schema = "\1"`'),
    (r'`keuka\.Stream\(\.\.\., csv=\{"(\w+)": False\}\)`', r"`csv = { \1 = false }`"),
    (r'`keuka\.Stream\(\.\.\., csv=\{"(\w+)": ([^`]*)\}\)`', r"`csv = { \1 = \2 }`"),
    (r'`on_bad_row="reject"`', '`on_bad_row = "reject"`'),
)


def as_options(message: str) -> str:
    """The message with remedies as a user of the command writes them."""
    return _rewritten(message, _AS_OPTIONS)


def as_keys(message: str) -> str:
    """The message with remedies as they are written in a pipeline."""
    return _rewritten(message, _AS_KEYS)


def _rewritten(message: str, rules: Iterable[tuple[str, str]]) -> str:
    for pattern, written in rules:
        message = re.sub(pattern, written, message)
    return message


def coloured(message: str) -> str:
    """An error message or a warning with colours, which `click.echo` removes where nobody would see them."""
    lines = message.split("\n")
    for i, line in enumerate(lines):
        if line.startswith(("error[", "warning")):
            code, _, rest = line.partition(":")
            lines[i] = click.style(code, fg="red" if line.startswith("error") else "yellow", bold=True) + click.style(":" + rest, bold=True)
        elif line.lstrip().startswith("= help:"):
            lines[i] = click.style(line, fg="cyan")
        elif line.lstrip().startswith("|") and "^" in line:
            lines[i] = click.style(line, fg="red")
    return "\n".join(lines)


def complain(message: str) -> None:
    """Shows an error or a warning."""
    click.echo(coloured(message), err=True, color=False if os.environ.get("NO_COLOR") else None)


def print_columns(output: str, schema: pa.Schema) -> None:
    """What a query gives."""
    click.echo(f"gives       `{output}`")
    width = max(map(len, schema.names))
    for field in schema:
        click.echo(f"            {field.name:{width}}  {field.type}")


def print_rows(title: str, schema: pa.Schema, rows: Sequence[dict[str, object]], n_rows: int, remedy: str) -> None:
    """The first rows of an output and, if there are more, how to see them. One of several outputs has a title."""
    if title:
        click.echo(title)
    if rows:
        from rich.console import Console

        # A terminal decides itself how wide a table may be; in a pipe or a file it is as wide as it needs to be.
        width = None if sys.stdout.isatty() else 10_000
        Console(width=width, highlight=False, markup=False).print(table_of(schema, rows))
    if n_rows > len(rows):
        click.echo(f"... and {n_rows - len(rows):,} more; {remedy}")
    if title:
        click.echo()


def counted(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def sized(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.0f} kB"


def table_of(schema: pa.Schema, rows: Sequence[dict[str, object]]) -> Table:
    import pyarrow as pa
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for field in schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*[cell(value) for value in row.values()])
    return table


def cell(value: object) -> str:
    """A value as a person reads it: ten digits of a double are enough, and null is not the text `None`."""
    if value is None:
        return "NULL"
    return format(value, ".10g") if isinstance(value, float) else str(value)


class RunBar:
    """Draws how far a pipeline is, once it has run for a second, if it is `visible`."""

    def __init__(self, visible: bool) -> None:
        self.visible = visible
        self.began = time.perf_counter()
        self.bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, progress: PipelineProgress) -> None:
        self.draw(progress.of, progress.n_done, progress.n_total)

    def draw(self, of: str, n_done: int, n_total: int | None) -> None:
        if self.bar is None and self.visible and time.perf_counter() - self.began > 1:
            self.bar = start_bar(of, n_total)
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=n_done, total=n_total)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


class EventCounter(RunBar):
    """Counts the events of a run, and draws a bar of them."""

    def __init__(self, opened: Sequence[OpenStream], visible: bool) -> None:
        super().__init__(visible)
        sizes = [stream.n_rows for stream in opened]
        self.n_total = None if None in sizes else sum(size for size in sizes if size is not None)
        self.n_events = 0
        self.most_instances = 0
        self.most_bytes = 0

    def count(self, progress: RunProgress) -> None:
        self.n_events = progress.n_events
        self.most_instances = progress.most_instances
        self.most_bytes = max(self.most_bytes, progress.n_bytes)
        self.draw("events", self.n_events, self.n_total)


def start_bar(of: str, n_total: int | None) -> Progress:
    """A bar of so many events or tasks, which vanishes when it stops."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn(f"{{task.completed:,.0f}} {of}"), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("", total=n_total)
    bar.start()
    return bar
