"""The parts of a pipeline as frozen values, with the names that the keys of a pipeline file have; and what a run reports.

Texts may hold `${NAME}`, which is filled in from the environment only when a pipeline is checked or run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from keuka.diagnostics import Diagnostic
from keuka.errors import PipelineError
from keuka.events.text_values import Csv
from keuka.pipelines.kinds import COUNT, CSV, DURATION, LATENESS, ON_BAD_ROW, OPTIONS, PARAMS, PATH, PATHS, TEXT, TIME

REJECTED, LATE, METRICS = "rejected", "late", "metrics"
SIDE_OUTPUTS = (REJECTED, LATE, METRICS)
CONSOLE = "console"
N_SHOWN = 20  # rows of a console sink

# Formats that are read and written without Spark too, as `events/files.py` calls them; files have them as suffixes.
FILE_FORMATS = {"parquet": "Parquet", "csv": "CSV", "json": "JSON", "arrow": "Arrow IPC"}

MODES = ("error", "overwrite", "append")

BOUNDED, STREAMING = "bounded", "streaming"
AVAILABLE_NOW = "available_now"


@dataclass(frozen=True)
class _Part:
    """Fields may be given as Python has them: a Path for a path, a list for a tuple, True for an option "true"."""

    def __post_init__(self) -> None:
        for known in fields(self):
            value = getattr(self, known.name)
            try:
                converted = None if value is known.default is None else known.metadata["convert"](value)
                object.__setattr__(self, known.name, converted)
            except ValueError:
                what = known.metadata["what"]
                message = f"`{known.name}` of {type(self).__name__} must be {what}, not {type(value).__name__}"
                raise PipelineError(Diagnostic("K603", message)) from None


@dataclass(frozen=True)
class Input(_Part):
    """Where the events of a stream come from, and what must be said about them.

    format: "parquet", "csv", "json", "arrow" (without Spark only), or any format that Spark can read.
    path, paths: files, directories or patterns. schema: columns and types, as in `ts TIMESTAMP, name STRING`.
    type_column: the column that says which stream each row belongs to, where one table holds the events of all.
    csv: how CSV files are written: a `keuka.Csv`, or a dict such as `{"separator": ";"}`.
    on_bad_row: "error", or "reject" to go on without rows that cannot be events.
    """

    format: str = field(metadata=TEXT)
    path: str | None = field(default=None, metadata=PATH)
    paths: tuple[str, ...] = field(default=(), metadata=PATHS)
    schema: str | None = field(default=None, metadata=TEXT)
    options: Mapping[str, str] = field(default_factory=dict, metadata=OPTIONS)
    time: str | tuple[str, str] | None = field(default=None, metadata=TIME)
    unit: str | None = field(default=None, metadata=TEXT)
    lateness: str | int | None = field(default=None, metadata=LATENESS)
    id: str | None = field(default=None, metadata=TEXT)
    type_column: str | None = field(default=None, metadata=TEXT)
    csv: Csv | None = field(default=None, metadata=CSV)
    on_bad_row: str | None = field(default=None, metadata=ON_BAD_ROW)

    @property
    def all_paths(self) -> tuple[str, ...]:
        return self.paths if self.path is None else (self.path, *self.paths)


@dataclass(frozen=True)
class Queries(_Part):
    """Queries as a text, as a file or directory, or as files that fit patterns; and the values of their parameters."""

    text: str | None = field(default=None, metadata=TEXT)
    file: str | None = field(default=None, metadata=PATH)
    files: tuple[str, ...] = field(default=(), metadata=PATHS)
    language: str | None = field(default=None, metadata=TEXT)
    params: Mapping[str, Any] = field(default_factory=dict, metadata=PARAMS)


@dataclass(frozen=True)
class Sink(_Part):
    """Where matches go. `of` is the name of an output (the last query's if None), "rejected", "late" or "metrics"."""

    format: str = field(metadata=TEXT)
    of: str | None = field(default=None, metadata=TEXT)
    path: str | None = field(default=None, metadata=PATH)
    mode: str = field(default="error", metadata=TEXT)
    options: Mapping[str, str] = field(default_factory=dict, metadata=OPTIONS)


@dataclass(frozen=True)
class SparkSettings(_Part):
    """How Spark is started, and into how many shards events are divided."""

    master: str | None = field(default=None, metadata=TEXT)
    conf: Mapping[str, str] = field(default_factory=dict, metadata=OPTIONS)
    shards: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True)
class RunSettings(_Part):
    """How long a pipeline runs, and how it goes on after it was stopped.

    mode: "bounded" reads the streams to their end; "streaming" goes on as long as they do, on Spark.
    checkpoint: the directory in which a streaming run keeps where it is.
    trigger: how long after the beginning of a micro-batch the next one begins, as in "10 s"; as soon as possible if nothing is said;
        "available_now" takes what is there now, lets time go to its end, and ends.
    idle_after: a stream that brings no rows for so long, as in "10 min", no longer holds time back.
    """

    mode: str = field(default=BOUNDED, metadata=TEXT)
    checkpoint: str | None = field(default=None, metadata=PATH)
    trigger: str | int | float | None = field(default=None, metadata=DURATION)
    idle_after: str | int | float | None = field(default=None, metadata=DURATION)


@dataclass(frozen=True)
class Progress:
    """How far a run is: `n_done` of `n_total` (None: unknown) events or tasks."""

    of: str  # "events" or "tasks"
    n_done: int
    n_total: int | None


@dataclass(frozen=True)
class Report:
    """What a run did: rows read and rejected by stream, matches by output, and the first rows of what goes to the console.

    steps: what the run did in this order, and the seconds that each step took.
    """

    read: dict[str, int]
    rejected: dict[str, int]
    matches: dict[str, int]
    steps: dict[str, float]
    shown: dict[str, tuple[pa.Table, int]] = field(repr=False)  # the first rows, and the number of all

    @property
    def seconds(self) -> float:
        return sum(self.steps.values())


class Steps:
    """Measures the steps of a run: each begins where the one before ended."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def end(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._began
        self._began = now

    @property
    def total(self) -> float:
        return sum(self.seconds.values()) + time.perf_counter() - self._began


@dataclass(frozen=True)
class Batch:
    """What a micro-batch of a streaming run did: rows read and rejected by stream, late rows, and matches by output.

    seconds, kernel_seconds: how long it took, and how long shards worked, all together.
    time: everything before it is done; None if nothing is yet, or if the streams have ended.
    n_instances, n_bytes: the partial matches that live now, and the memory that they and waiting rows take.
    idle: streams that are no longer waited for; waits_for: the stream that rows of others wait for.
    shown: the first rows of what goes to the console, and the number of all.
    """

    number: int
    read: dict[str, int]
    rejected: dict[str, int]
    late: int
    matches: dict[str, int]
    seconds: float
    kernel_seconds: float
    time: Any
    n_waiting: int
    n_instances: int
    n_bytes: int
    idle: str
    waits_for: str
    shown: dict[str, tuple[pa.Table, int]] = field(default_factory=dict, repr=False)

    @property
    def rows_per_second(self) -> float:
        return sum(self.read.values()) / self.seconds if self.seconds else 0.0


METRICS_SCHEMA = pa.schema([("kind", pa.string()), ("name", pa.string()), ("rows", pa.int64()), ("seconds", pa.float64())])


def metrics_table(read: Mapping[str, int], rejected: Mapping[str, int], matches: Mapping[str, int], seconds: float) -> pa.Table:
    """What a sink `of = "metrics"` gets."""
    kinds = {"read": read, "rejected": rejected, "matches": matches}
    rows = [(kind, name, n_rows, seconds) for kind, counts in kinds.items() for name, n_rows in counts.items()]
    return pa.Table.from_arrays([pa.array([row[i] for row in rows], METRICS_SCHEMA.types[i]) for i in range(4)], schema=METRICS_SCHEMA)
