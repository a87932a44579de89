"""What can be said of a pipeline before it runs: its parts one by one, and against each other.

A pipeline comes in; a Bound goes out, with variables filled in, paths found and queries read, or all findings at once. `outputs_of` then
puts the queries to the columns of the streams, which the caller knows: from files (`columns_of`), or from Spark.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keuka.diagnostics import Diagnostic, SourceText, listing, similar
from keuka.errors import DataError, KeukaError, PipelineError, QueryError
from keuka.events import ddl
from keuka.events.clocks import seconds_of
from keuka.events.declarations import csv_options
from keuka.events.files import is_possible
from keuka.events.parts import dangling_link
from keuka.events.sources import Stream, open_stream
from keuka.events.tables import Files
from keuka.languages.sets import LANGUAGES, Text
from keuka.pipelines.environment import VARIABLE
from keuka.pipelines.places import Place, finding
from keuka.pipelines.staging import find_obstacle, is_half_published
from keuka.pipelines.values import (
    AVAILABLE_NOW,
    BOUNDED,
    CONSOLE,
    FILE_FORMATS,
    MODES,
    REJECTED,
    SIDE_OUTPUTS,
    STREAMING,
    Input,
    Queries,
    RunSettings,
    Sink,
)
from keuka.query import Query, prepare, query
from keuka.run.limits import Limits

if TYPE_CHECKING:
    from keuka.pipelines.pipeline import Pipeline

# A path that leads nowhere, a stream that is not declared: then there is no data to look at.
NO_FILE, NO_STREAM = "K513", "K505"
# Formats whose paths are names of files; those of others mean what they like.
OF_FILES = (*FILE_FORMATS, "orc", "text", "avro", "xml")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# In bytes. Systems allow 255 and 4,095, and while a directory is written it has a longer name than its own.
LONGEST_NAME, LONGEST_PATH = 200, 3_800
# Spark's options about files that come later. They say nothing of how a file is read.
ARRIVING = (
    *("maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly"),
    *("cleansource", "sourcearchivedir", "maxcachedfiles", "discardcachedinputratio"),
)
BATCH_BYTES = 2**28  # of files in a micro-batch, which Spark and the shards hold
# What readers without Spark do anyway; other options they do not have.
ALWAYS = {("header", "true"), ("inferschema", "true"), ("multiline", "true"), ("mode", "failfast")}

# What Spark's options of CSV are called here.
OURS = {
    "sep": 'separator = "{}"',
    "delimiter": 'separator = "{}"',
    "header": "header = {}",
    "nullvalue": 'nulls = ["{}"]',
    "timestampformat": 'time_format = "%d/%m/%Y %H:%M"',
    "timezone": 'zone = "{}"',
}


@dataclass(frozen=True)
class Bound:
    """A pipeline that is ready to meet its data."""

    streams: dict[str, Input]  # those that are read, with paths from the root
    query: Query
    params: dict[str, Any]
    sinks: tuple[Sink, ...]  # `of` is filled in once outputs are known,
    limits: Limits
    run: RunSettings  # with a checkpoint from the root
    outputs: tuple[str, ...] = ()  # as are those that are wanted: what has a sink, else the last query's

    @property
    def type_column(self) -> str | None:
        return next((stream.type_column for stream in self.streams.values()), None)

    def has_sink(self, of: str) -> bool:
        return any(sink.of == of for sink in self.sinks)


def bind(pipeline: Pipeline, embedded: bool, here: bool, found: list[Diagnostic]) -> Bound | None:
    """The pipeline without its data; None if there is no use in looking at that. `here`: paths without a scheme are on this machine."""
    checker = _Checker(pipeline, embedded, here, found)
    checker.check_parts()
    run = checker.run_settings()
    streams = {name: checker.stream(name, stream) for name, stream in pipeline.streams.items()}
    parsed = [checker.queries(i, queries) for i, queries in enumerate(pipeline.queries)]
    params = checker.params()
    sinks = tuple([checker.sink(i, sink) for i, sink in enumerate(pipeline.sinks)])
    checker.check_paths(streams, sinks, run)
    texts = [text for part in parsed if part is not None for text in part.texts]
    if None in parsed or not texts:
        return None
    whole = Query(tuple(texts))
    one_table = any(stream.type_column is not None for stream in streams.values())
    if not one_table:
        checker.check_declared(whole.inputs)
    read = streams if one_table else {name: stream for name, stream in streams.items() if name in whole.inputs}
    unset = [name for name, stream in read.items() if VARIABLE.search(repr(stream))]
    checker.check_files([name for name in read if name not in unset])
    unknown = unset or checker.is_misdeclared or any(diagnostic.code in (NO_FILE, NO_STREAM) for diagnostic in found)
    return None if unknown else Bound(read, whole, params, sinks, pipeline.limits, run)


def outputs_of(pipeline: Pipeline, bound: Bound, data: Mapping[str, Any], found: list[Diagnostic]) -> tuple[Bound, dict[str, pa.Schema]]:
    """The columns of every output, and the pipeline with the names of outputs in its sinks. `data` has the streams' columns."""
    try:
        streams = {name: described(stream, data[name]) for name, stream in bound.streams.items()}
        prepared = prepare(bound.query, streams, type_column=bound.type_column, params=bound.params)
    except KeukaError as error:
        found.extend(error.diagnostics)
        return bound, {}
    outputs = {columns.name: prepared.schema(columns.name) for columns in prepared.tables.outputs}
    for name in outputs:
        if name in SIDE_OUTPUTS:
            message = f"a query publishes `{name}`, which in a pipeline is the name of a side output"
            found.append(Diagnostic("K605", message, help=("publish under another name",)))
    for i, sink in enumerate(bound.sinks):
        if sink.of is not None and sink.of not in (*outputs, *SIDE_OUTPUTS):
            help = (*similar(sink.of, (*outputs, *SIDE_OUTPUTS)), f"there are {listing((*outputs, *SIDE_OUTPUTS))}")
            found.append(finding(pipeline.source, "K605", f"no query publishes `{sink.of}`", ("sinks", i, "of"), *help))
    sinks = tuple([replace(sink, of=sink.of or prepared.default_output) for sink in bound.sinks])
    wanted = tuple(dict.fromkeys([sink.of for sink in sinks if sink.of is not None and sink.of not in SIDE_OUTPUTS]))
    return replace(bound, sinks=sinks, outputs=wanted or (prepared.default_output,)), outputs


def look_into_files(bound: Bound, schemas: Mapping[str, pa.Schema], here: bool) -> None:
    """Says what only the contents of files tell, as a run would: odd values among numbers, and types that no row has."""
    on_bad_row = "reject" if bound.has_sink(REJECTED) else None
    empty = empty_tables(bound, schemas)
    files = {name: files_of(stream, here) if plainly_read(stream) else None for name, stream in bound.streams.items()}
    streams = {name: described(stream, files[name] or empty[name], on_bad_row) for name, stream in bound.streams.items()}
    prepared = prepare(bound.query, streams, type_column=bound.type_column, params=bound.params, outputs=bound.outputs)
    if prepared.types is not None and None not in files.values():
        prepared.types.look_at(prepared.opened[0])
        prepared.warn_of_types()


def described(stream: Input, data: Any, on_bad_row: str | None = None) -> Stream:
    """The stream with its data; a bounded run sorts it. Tables, which have types, are those of Spark or without rows."""
    said: dict[str, Any] = {}
    if isinstance(data, Files):
        said = {"schema": stream.schema, "csv": stream.csv, "on_bad_row": on_bad_row or stream.on_bad_row}
    return Stream(data, time=stream.time, lateness=stream.lateness, id=stream.id, unit=stream.unit, sort=True, **said)


def columns_of(name: str, stream: Input, embedded: bool, here: bool, on_bad_row: str | None = None) -> pa.Schema | None:
    """The columns of a stream as far as they are known without Spark: those of files on this machine, or the declared ones."""
    files = files_of(stream, here)
    if files is not None and (embedded or (plainly_read(stream) and not _has_partitions(files))):
        return open_stream(name, described(stream, files, on_bad_row)).data.schema
    return declared_columns(stream)


def declared_columns(stream: Input) -> pa.Schema | None:
    """The declared types; None if there are none, or only Spark knows them."""
    try:
        return None if stream.schema is None else ddl.arrow_schema(stream.schema)
    except ValueError:
        return None


def plainly_read(stream: Input) -> bool:
    """Has it no options but those that Keuka's own readers follow?"""
    return not _foreign(stream)


def _foreign(stream: Input) -> list[str]:
    """The options that say how Spark reads a file."""
    options = {name: (name.lower(), value.lower()) for name, value in stream.options.items()}
    return [name for name, option in options.items() if option not in ALWAYS and option[0] not in ARRIVING]


def arriving_options(stream: Input) -> dict[str, str]:
    """Spark's options about files that come later. Without a limit the first micro-batch would be all files that are there."""
    said = {name: value for name, value in stream.options.items() if name.lower() in ARRIVING}
    is_limited = stream.format not in OF_FILES or {name.lower() for name in said} & {"maxfilespertrigger", "maxbytespertrigger"}
    return said if is_limited else {**said, "maxBytesPerTrigger": str(BATCH_BYTES)}


def _has_partitions(files: Files) -> bool:
    """Spark takes directories in directories for values of further columns."""
    return any(os.path.isdir(path) and any(entry.is_dir() for entry in os.scandir(path)) for path in files.paths)


def files_of(stream: Input, here: bool) -> Files | None:
    """The files of a stream, if Keuka reads them itself."""
    paths = [local_path(path, here) for path in stream.all_paths]
    if stream.format not in FILE_FORMATS or not paths or None in paths:
        return None
    return Files(tuple([path for path in paths if path is not None]), FILE_FORMATS[stream.format])


def located(path: str, folder: str, embedded: bool) -> str:
    """A path from the root. What is relative is on this machine, also where Spark would look elsewhere for a path without a scheme."""
    if URI.match(path) or os.path.isabs(path):
        return path
    absolute = os.path.normpath(os.path.join(folder or os.getcwd(), path))
    return absolute if embedded else f"file://{absolute}"


def from_here(path: str, folder: str) -> str:
    """A path of a pipeline as one would write it in the working directory: messages show it. What begins with a variable stays."""
    stays = URI.match(path) or os.path.isabs(path) or VARIABLE.match(path)
    return path if stays else os.path.relpath(os.path.join(folder, path))


def local_path(path: str, here: bool) -> str | None:
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return None if URI.match(path) or not here else path


def staged_path(sink: Sink, here: bool) -> str | None:
    """The directory of a sink that Keuka itself makes visible. Other places, and tables, are Spark's to commit."""
    if not here or sink.path is None or sink.format not in OF_FILES or not is_possible(sink.path):
        return None
    return local_path(sink.path, here)


def as_error(found: list[Diagnostic]) -> KeukaError:
    """One error with all findings, of the kind of the worst: mistakes in the pipeline first, then in queries, then in data."""
    codes = {diagnostic.code for diagnostic in found}
    if any(code.startswith("K6") and code != "K608" for code in codes):
        return PipelineError(*found)
    return QueryError(*found) if any(code[1] in "1234" for code in codes) else DataError(*found)


class _Checker:
    """Looks at every part and notes what is wrong with it."""

    def __init__(self, pipeline: Pipeline, embedded: bool, here: bool, found: list[Diagnostic]) -> None:
        self.pipeline = pipeline
        self.embedded = embedded
        self.here = here
        self.found = found
        self.is_misdeclared = False  # is something said of a stream's files with which they cannot be read?

    def note(self, code: str, message: str, place: Place, *help: str) -> None:
        self.found.append(finding(self.pipeline.source, code, message, place, *help))

    def check_parts(self) -> None:
        examples = {"streams": "[streams.NAME]", "queries": "[[queries]]", "sinks": '[[sinks]]`, for example with `format = "console"'}
        for part, example in examples.items():
            if not getattr(self.pipeline, part):
                self.note("K603", f"the pipeline has no {part}", (part,), f"add `{example}`")

    # -- the run

    def run_settings(self) -> RunSettings:
        run = self.pipeline.run_settings
        if run.mode not in (BOUNDED, STREAMING):
            help = (*similar(run.mode, (BOUNDED, STREAMING)), f"there are {listing((BOUNDED, STREAMING))}")
            self.note("K603", f"there is no mode `{run.mode}` of a run", ("run", "mode"), *help)
            return run
        said = [key for key in ("checkpoint", "trigger", "idle_after") if getattr(run, key) is not None]
        if run.mode == BOUNDED and said:
            self.note("K603", f"`{said[0]}` is for streaming runs", ("run", said[0]), 'add `mode = "streaming"`, or leave it out')
        if run.mode == STREAMING and run.checkpoint is None:
            missing = 'add `checkpoint = "..."`: the directory in which it keeps where it is'
            self.note("K603", "a streaming run has no checkpoint", ("run", "mode"), missing)
        for key in ("trigger", "idle_after"):
            value = getattr(run, key)
            if value is not None and (key, value) != ("trigger", AVAILABLE_NOW):
                try:
                    seconds_of(key, value)
                except DataError as error:
                    also = f', or `"{AVAILABLE_NOW}"`' if key == "trigger" else ""
                    self.note("K603", error.diagnostics[0].message, ("run", key), f'give a duration, for example `"10 s"`{also}')
        path = run.checkpoint
        return run if path is None else replace(run, checkpoint=located(path, self.pipeline.folder, self.embedded))

    # -- streams

    def stream(self, name: str, stream: Input) -> Input:
        place: Place = ("streams", name)
        if stream.path is not None and stream.paths:
            self.note("K603", "both `path` and `paths` are given", (*place, "paths"), "give one of them")
        if stream.format in FILE_FORMATS and not stream.all_paths:
            self.note("K603", f"the stream `{name}` has no path", place, 'add `path = "..."`: a file, a directory or a pattern')
        if stream.type_column is not None and len(self.pipeline.streams) > 1:
            help = "declare one stream that holds the events of all, or a stream for each and no `type_column`"
            self.note("K603", "`type_column` is for a single stream, but there are several", (*place, "type_column"), help)
        self.check_engine(stream, place)
        if self.embedded and stream.schema is not None:
            try:
                ddl.arrow_schema(stream.schema)
            except ValueError as error:
                self.is_misdeclared = True
                self.note("K603", f"the schema cannot be read: {error}", (*place, "schema"), "write `column TYPE, column TYPE`")
        self.check_csv(stream, place)
        paths = tuple([located(path, self.pipeline.folder, self.embedded) for path in stream.all_paths])
        return replace(stream, path=None, paths=paths)

    def check_csv(self, stream: Input, place: Place) -> None:
        if stream.csv is None:
            return
        if stream.format != "csv":
            self.is_misdeclared = True
            self.note("K603", f"`csv` is for CSV files, but the format is `{stream.format}`", (*place, "csv"), "leave it out")
        foreign = _foreign(stream)
        if foreign and not self.embedded:
            help = "leave the option out, or say all in `options`, as Spark names it"
            problem = f"`csv` has no effect beside the option `{foreign[0]}`, with which Spark reads the files in its own way"
            self.note("K603", problem, (*place, "csv"), help)
        try:
            csv_options(stream.csv, "")
        except DataError as error:
            self.is_misdeclared = True
            self.note("K603", error.diagnostics[0].message, (*place, "csv"), *error.diagnostics[0].help)

    def check_declared(self, inputs: Sequence[str]) -> None:
        declared = self.pipeline.streams
        for name in inputs:
            if name not in declared and declared:
                help = (*similar(name, declared), f"declared are {listing(declared)}")
                self.note(NO_STREAM, f"the queries read a stream `{name}`, which is not declared", ("streams",), *help)

    def check_files(self, read: Iterable[str]) -> None:
        """Before Spark starts, which takes longer than to look; what may be on another machine is not looked for."""
        if not self.embedded and (not self.here or _over_connect()):
            return
        for name in read:
            stream = self.pipeline.streams[name]
            for path in stream.all_paths if stream.format in OF_FILES else ():
                self.check_file(path, ("streams", name, "paths" if stream.paths else "path"))

    def check_file(self, path: str, place: Place) -> None:
        # Without a scheme, Spark may be configured to look elsewhere.
        local = local_path(located(path, self.pipeline.folder, self.embedded), self.embedded)
        if local is None or os.path.exists(local.rstrip("/")):
            return
        if re.search(r"[][{}\\]", local):
            return  # a pattern that Spark may read otherwise than we do
        if glob.has_magic(local):
            if not glob.glob(local):
                self.note(NO_FILE, f"no file fits `{path}`", place)
            return
        folder, name = os.path.split(local.rstrip("/"))
        beside = [os.path.basename(other) for other in glob.glob(os.path.join(glob.escape(folder), "*"))]
        self.note(NO_FILE, f"there is no file or directory `{path}`", place, *similar(name, beside))

    def check_engine(self, part: Input | Sink, place: Place) -> None:
        """Is the format one that the chosen engine has, with these options?"""
        if self.embedded:
            if part.format not in (*FILE_FORMATS, *([CONSOLE] if isinstance(part, Sink) else [])):
                help = (*similar(part.format, FILE_FORMATS), f"without it there are {listing(FILE_FORMATS)}; or run without `--embedded`")
                self.note("K607", f"the format `{part.format}` needs Spark", (*place, "format"), *help)
            for option, value in part.options.items():
                if isinstance(part, Sink) or (option.lower(), value.lower()) not in ALWAYS:
                    without = "leave it out, or run without `--embedded`"
                    if isinstance(part, Input) and part.format == "csv" and option.lower() in OURS:
                        without = f"write `csv = {{ {OURS[option.lower()].format(value)} }}`, which works with and without Spark"
                    self.note("K607", f"the option `{option}` needs Spark", (*place, "options", option), without)
            paths = part.all_paths if isinstance(part, Input) else [part.path or ""]
            if remote := next((path for path in paths if URI.match(path)), None):
                scheme = remote.partition(":")[0]
                self.note("K607", f"a path with `{scheme}:` needs Spark", (*place, "path"), "run without `--embedded`")
        elif part.format == "arrow":
            parquet = 'write Parquet instead: `format = "parquet"`, or run with `--embedded`'
            self.note("K607", "Spark has no format `arrow`", (*place, "format"), parquet)

    # -- queries

    def queries(self, i: int, queries: Queries) -> Query | None:
        place: Place = ("queries", i)
        given = [key for key in ("text", "file", "files") if getattr(queries, key)]
        if len(given) != 1:
            problem = f"both `{given[0]}` and `{given[1]}` are given" if given else "neither `text` nor `file` nor `files` is given"
            self.note("K603", problem, place, "give one of them")
            return None
        if queries.language is not None and queries.language not in LANGUAGES:
            help = (*similar(queries.language, LANGUAGES), f"the languages are {listing(LANGUAGES)}")
            self.note("K603", f"there is no language `{queries.language}`", (*place, "language"), *help)
            return None
        try:
            return Query(tuple([text for part in self.parsed(i, queries) for text in part.texts]))
        except QueryError as error:
            self.found.extend(error.diagnostics)
            return None

    def parsed(self, i: int, queries: Queries) -> list[Query]:
        if queries.text is not None:
            file = "" if self.pipeline.source is None else f"{self.pipeline.source.name}, "
            language = queries.language or "cel"
            source = SourceText(f"{file}query {i + 1}", queries.text)
            return [Query((Text(LANGUAGES[language].parse(source), language),))]
        if queries.file is not None:
            return [query(Path(from_here(queries.file, self.pipeline.folder)), queries.language)]
        files: dict[str, None] = {}
        for pattern in queries.files:
            fitting = sorted(glob.glob(from_here(pattern, self.pipeline.folder), recursive=True))
            if not fitting:
                raise QueryError(finding(self.pipeline.source, "K104", f"no query file fits `{pattern}`", ("queries", i, "files")))
            files |= dict.fromkeys(fitting)
        return [query(Path(file), queries.language) for file in files]

    def params(self) -> dict[str, Any]:
        """Queries that read each other are one set, so a name has one value in all of them."""
        params: dict[str, Any] = {}
        for i, queries in enumerate(self.pipeline.queries):
            for name, value in queries.params.items():
                if name in params and (type(value), value) != (type(params[name]), params[name]):
                    help = "use another name in one of the queries"
                    self.note("K603", f"the parameter `:{name}` has two values", ("queries", i, "params", name), help)
                params.setdefault(name, value)
        return params

    # -- sinks

    def sink(self, i: int, sink: Sink) -> Sink:
        place: Place = ("sinks", i)
        if sink.mode not in MODES:
            help = (*similar(sink.mode, MODES), f"there are {listing(MODES)}; a pipeline reads its streams to their end")
            self.note("K603", f"there is no mode `{sink.mode}`", (*place, "mode"), *help)
        if sink.format == CONSOLE and sink.path is not None:
            self.note("K603", "the console has no path", (*place, "path"), "leave it out, or name another format")
        if sink.format in FILE_FORMATS and sink.path is None:
            self.note("K603", "the sink has no path", place, 'add `path = "..."`: the directory to write to')
        self.check_engine(sink, place)
        return sink if sink.path is None else replace(sink, path=located(sink.path, self.pipeline.folder, self.embedded))

    def one_name(self, path: str) -> str:
        """One of the many names of a path; patterns are resolved up to their first wildcard."""
        local = local_path(path, self.here)
        return path if local is None or not is_possible(local) else os.path.realpath(local)

    def check_paths(self, streams: Mapping[str, Input], sinks: tuple[Sink, ...], run: RunSettings) -> None:
        """No sink may take the place of something that is read, of another sink, or of the checkpoint."""
        written: list[str] = []
        kept = None if run.checkpoint is None else self.one_name(run.checkpoint)
        if read := [name for name, of in streams.items() if kept and any(_overlap(kept, self.one_name(path)) for path in of.all_paths)]:
            problem = f"the checkpoint and what stream `{read[0]}` reads are in one another"
            self.note("K606", problem, ("run", "checkpoint"), "name another directory")
        for i, sink in enumerate(sinks):
            place: Place = ("sinks", i, "path")
            if sink.path is None:
                continue
            target = self.one_name(sink.path)
            if target in written:
                self.note("K606", "two sinks write to the same path", place, "give each a path of its own")
            elif any(_inside(target, other) or _inside(other, target) for other in written):
                self.note("K606", "of two sinks one would write into the directory of the other", place, "give each a path of its own")
            elif kept is not None and (_inside(target, kept) or _inside(kept, target)):
                self.note("K606", "the sink and the checkpoint are in one another", place, "give each a path of its own")
            written.append(target)
            for name, stream in streams.items():
                if any(_overlap(target, self.one_name(path)) for path in stream.all_paths):
                    self.note("K606", f"the sink would write to what stream `{name}` reads", place, "name another directory")
            local = local_path(sink.path, self.here)
            if local is not None and not is_possible(local):
                self.note("K603", f"the path of the sink, {sink.path!a}, cannot be one: a path is text without NUL", place)
                continue
            size = 0 if local is None else max(_n_bytes(name) for name in local.split("/"))
            if size > LONGEST_NAME or _n_bytes(local or "") > LONGEST_PATH:
                what = f"a name in the path of the sink has {size} bytes" if size > LONGEST_NAME else "the path of the sink is too long"
                self.note("K603", what, place, f"a path has at most {LONGEST_PATH} bytes, and a name in it {LONGEST_NAME}")
                continue
            if local is None:
                continue
            if os.path.exists(local) and _inside(os.path.realpath(self.pipeline.folder), target):
                self.note("K606", "the sink would take the place of the directory of the pipeline", place, "name another directory")
            elif link := dangling_link(local):
                problem = f"the path of the sink leads through the link `{link}` to `{os.readlink(link)}`, which does not exist"
                self.note("K606", problem, place, "make what the link leads to, or remove the link")
            elif self.embedded or not self.pipeline.is_streaming:  # a streaming run may go on with its own sinks
                self.check_directory(sink, local, place)

    def check_directory(self, sink: Sink, local: str, place: Place) -> None:
        """May the sink be written to what is there? What a killed run made visible in part is taken back by the next run."""
        staged = staged_path(sink, self.here and (self.embedded or not _over_connect())) is not None
        mode = sink.mode if staged or sink.mode == "error" else "append"  # a table that Spark overwrites has no marker
        obstacle = find_obstacle(local, mode)
        if obstacle is not None and not (staged and is_half_published(local)):
            self.note("K606", obstacle[0], place, *obstacle[1:])


def _n_bytes(name: str) -> int:
    return len(name.encode(errors="replace"))


def _overlap(sink: str, read: str) -> bool:
    if glob.has_magic(read):
        fixed = re.split(r"[*?[]", read, maxsplit=1)[0]
        return _inside(os.path.dirname(fixed), sink) or fnmatch.fnmatch(sink, read)
    return _inside(read, sink) or _inside(sink, read)


def _inside(path: str, folder: str) -> bool:
    """Is the path the folder or in it?"""
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _over_connect() -> bool:
    """Will, or does, a server of Spark Connect read the files?"""
    return "SPARK_REMOTE" in os.environ or "pyspark.sql.connect.session" in sys.modules


def empty_tables(bound: Bound, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    """Streams without rows, for a look at the queries alone."""
    # Not `empty_table`, which fails for types that can pass through a query.
    return {name: pa.table([pa.nulls(0, f.type) for f in schemas[name]], schema=schemas[name]) for name in bound.streams}
