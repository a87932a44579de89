"""The pipeline as users have it: `keuka.Pipeline`, from a file or from values, to be checked and run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType

import pyarrow as pa

from keuka.diagnostics import Diagnostic, SourceText
from keuka.errors import KeukaError, PipelineError
from keuka.pipelines import embedded as in_process
from keuka.pipelines.checking import Bound, as_error, bind, columns_of, empty_tables, located, look_into_files, outputs_of, staged_path
from keuka.pipelines.environment import Secrets, filled_in
from keuka.pipelines.file import read
from keuka.pipelines.staging import recover
from keuka.pipelines.values import REJECTED, STREAMING, Batch, Input, Progress, Queries, Report, RunSettings, Sink, SparkSettings
from keuka.query import check_limits
from keuka.run.limits import Limits
from keuka.spark import no_pyspark


@dataclass(frozen=True)
class Pipeline:
    """Streams, queries over them, and sinks for what they find.

    >>> import keuka
    >>> from keuka.pipelines import Input, Queries, Sink
    >>> pipeline = keuka.Pipeline(
    ...     streams={"Stock": Input("parquet", path="ticks", time="ts")},
    ...     queries=[Queries(text="SELECT * FROM FILTER {price > 100} (Stock) PUBLISH High")],
    ...     sinks=[Sink("parquet", of="High", path="high", mode="overwrite")],
    ... )
    >>> pipeline.sinks[0].mode
    'overwrite'

    `keuka.Pipeline.from_file("pipeline.toml")` reads the same from a file.
    """

    streams: Mapping[str, Input]
    queries: Sequence[Queries]
    sinks: Sequence[Sink]
    run_settings: RunSettings = field(default_factory=RunSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    limits: Limits = field(default_factory=Limits)
    folder: str = ""  # what paths are relative to; the working directory if empty
    source: SourceText | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        streams = list(self.streams.values()) if isinstance(self.streams, Mapping) else None
        _expect(streams, Input, "streams", 'a mapping: `{"Stock": Input("parquet", path="ticks")}`')
        _expect(self.queries, Queries, "queries", 'a list: `[Queries(text="SELECT ..."), Queries(file="rise.cel")]`')
        _expect(self.sinks, Sink, "sinks", 'a list: `[Sink("parquet", path="out")]`')
        _expect([self.run_settings], RunSettings, "run_settings", '`RunSettings(mode="streaming", checkpoint="checkpoint")`')
        _expect([self.spark], SparkSettings, "spark", '`SparkSettings(master="local[4]")`')
        check_limits(self.limits)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Pipeline:
        """The pipeline that a TOML file describes (docs/pipelines.md). Its paths are relative to the file."""
        with Secrets().kept():
            return cls(**read(path))

    def check(self, *, embedded: bool = False) -> dict[str, pa.Schema]:
        """Looks at everything that can be known before a run, and returns the columns of every output.

        Raises a KeukaError with all findings. Spark is started only if the columns of a stream are known to it alone.
        """
        found: list[Diagnostic] = []
        filled, secrets = filled_in(self, found)
        with secrets.kept():
            here = filled._is_here(embedded, None)
            bound, outputs, schemas = _checked(filled, bind(filled, embedded, here, found), embedded, here, found)
            look_into_files(bound, schemas, here)
            return outputs

    def run(
        self,
        *,
        embedded: bool = False,
        master: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_batch: Callable[[Batch], None] | None = None,
    ) -> Report:
        """Reads the streams to their end and writes every sink; a streaming run goes on until it is interrupted.

        embedded: run in this process, without Spark.
        master: Spark's master, instead of the pipeline's own. A Spark session that is active already is used as it is.
        on_progress: called now and then with how far the run is.
        on_batch: called after each micro-batch of a streaming run, which KeyboardInterrupt ends; the next one goes on from there.
        """
        found: list[Diagnostic] = []
        filled, secrets = filled_in(self, found)
        with secrets.kept():
            here = filled._is_here(embedded, master)
            if not found and (embedded or not filled.is_streaming):
                recover(filled._staged_paths(embedded, here))
            bound = bind(filled, embedded, here, found)
            if embedded:
                return in_process.run(_checked(filled, bound, embedded, here, found)[0], on_progress)
            if found or bound is None:
                raise as_error(found)
            report: Report = _on_spark().run(filled, bound, master, here, on_progress, on_batch)
            return report

    @property
    def is_streaming(self) -> bool:
        return self.run_settings.mode == STREAMING

    def _staged_paths(self, embedded: bool, here: bool) -> list[str]:
        sinks = [replace(sink, path=located(sink.path, self.folder, embedded)) for sink in self.sinks if sink.path is not None]
        return [path for sink in sinks if (path := staged_path(sink, here)) is not None]

    def _is_here(self, embedded: bool, master: str | None) -> bool:
        """Are paths without a scheme on this machine?"""
        return embedded or (master or self.spark.master or "local").startswith("local")


def _expect(parts: object, kind: type, name: str, example: str) -> None:
    if not isinstance(parts, Sequence) or not all(isinstance(part, kind) for part in parts):
        message = f"`{name}` of a Pipeline must be made of keuka.pipelines.{kind.__name__}"
        raise PipelineError(Diagnostic("K603", message, help=(f"give {example}",)))


def _on_spark() -> ModuleType:
    """What needs pyspark is imported when a pipeline meets Spark, not with Keuka."""
    try:
        from keuka.spark import pipelines
    except ImportError as error:
        raise no_pyspark(error) from None
    return pipelines


def _checked(
    pipeline: Pipeline, bound: Bound | None, embedded: bool, here: bool, found: list[Diagnostic]
) -> tuple[Bound, dict[str, pa.Schema], dict[str, pa.Schema]]:
    """The pipeline, the columns of its outputs and those of its streams, or an error with all that was found."""
    schemas = {} if bound is None else _columns(bound, embedded, here, found)
    if bound is not None and not found and None in schemas.values():
        schemas = _on_spark().columns_on_spark(bound, pipeline.spark, here, found)
    known = {name: schema for name, schema in schemas.items() if schema is not None}
    outputs: dict[str, pa.Schema] = {}
    if bound is not None and len(known) == len(bound.streams):
        bound, outputs = outputs_of(pipeline, bound, empty_tables(bound, known), found)
    if found or bound is None:
        raise as_error(found)
    return bound, outputs, known


def _columns(bound: Bound, embedded: bool, here: bool, found: list[Diagnostic]) -> dict[str, pa.Schema | None]:
    """The columns of every stream, as far as they are known without Spark; what is wrong is noted."""
    schemas: dict[str, pa.Schema | None] = {}
    on_bad_row = "reject" if bound.has_sink(REJECTED) else None
    for name, stream in bound.streams.items():
        try:
            schemas[name] = columns_of(name, stream, embedded, here, on_bad_row)
        except KeukaError as error:
            found.extend(error.diagnostics)
    return schemas
