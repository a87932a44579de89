"""What a query language must offer, and what every language then does alike: from parsed files to one Program.

In: the files that are to see each other's published streams, the types of the input streams, the parameters.
Out: a Program, or one QueryError with every mistake of names, types and meaning that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from keuka.algebra.operators import Operator, Program
from keuka.diagnostics import Diagnostic, SourceText, Span
from keuka.errors import QueryError
from keuka.expressions import Column
from keuka.languages.parameters import Given, read_parameters
from keuka.languages.parsing import File
from keuka.languages.published import Output, Publications, check_levels, check_names, evaluation_order, place, publications
from keuka.languages.typing import Scope
from keuka.languages.values import Name, Parameter, Reference
from keuka.schema import StreamType, TimeAxis

Files = tuple[File[Any], ...]


class _Lowered(Protocol):
    """A query as its language has lowered it."""

    @property
    def operator(self) -> Operator: ...


Query = TypeVar("Query", bound=Output)
Lowered = TypeVar("Lowered", bound=_Lowered)


@dataclass(frozen=True)
class Context(Generic[Query, Lowered]):
    """What lowering carries along: what is known of the program around a query."""

    streams: Mapping[str, StreamType]
    parameters: Mapping[str, Given]
    published: Publications[Query]
    outputs: dict[int, Lowered]  # the outputs lowered so far, by the identity of their query
    findings: list[Diagnostic]
    no_duration: str  # why DUR cannot be used anywhere; empty if it can

    def scope(self, column: Callable[[Reference], Column], axis: TimeAxis, no_duration: str = "") -> Scope:
        """`no_duration` says why DUR cannot be used there."""
        return Scope(column, self.parameters, axis.tick_us, no_duration or self.no_duration, self.findings)

    def note(self, code: str, message: str, span: Span, label: str = "", *help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, label, help))


@dataclass(frozen=True)
class Language:
    suffix: str  # of its files
    parse: Callable[[SourceText], File[Any]]
    outputs: Callable[[Files], tuple[Any, ...]]  # the queries that publish or stand on their own, in the order of the text
    reads: Callable[[Files], Iterable[Name]]  # the streams that are named, in the order of the text
    needs: Callable[[Any, Publications[Any]], list[tuple[Any, Span]]]  # what a query reads of others (`evaluation_order`)
    lower_query: Callable[[Any, Any], Any]  # a query in its Context; None after noting what is wrong
    no_duration: str = ""  # why the language has no DUR

    def lower(self, files: Files, streams: Mapping[str, StreamType], params: Mapping[str, object]) -> Program:
        findings: list[Diagnostic] = []
        published = publications(self.outputs(files), streams)
        check_names(published.outputs, streams, findings)
        given = read_parameters(self._parameters(files), params, findings)
        context: Context[Any, Any] = Context(streams, given, published, {}, findings, self.no_duration)
        levels: dict[str, int] = {}
        for query in evaluation_order(published.outputs, lambda query: self.needs(query, published), findings):
            lowered = self.lower_query(query, context)
            if lowered is not None and check_levels(query, lowered.operator, levels, findings):
                context.outputs[id(query)] = lowered
        if findings:
            # One reason may be behind many findings at one place: an equivalence test is many comparisons.
            once: dict[object, Diagnostic] = {}
            for finding in findings:
                once.setdefault((finding.code, finding.message, place(finding)), finding)
            raise QueryError(*sorted(once.values(), key=place))
        return Program(tuple([(q.publish.text if q.publish else "", context.outputs[id(q)].operator) for q in published.outputs]))

    def inputs(self, files: Files) -> tuple[str, ...]:
        """The streams that are read but published by no query, in the order of first use."""
        published = publications(self.outputs(files), ()).by_name
        return tuple(dict.fromkeys([name.text for name in self.reads(files) if name.text not in published]))

    def published(self, files: Files) -> tuple[str, ...]:
        """The names under which queries publish, in the order of the text."""
        return tuple([query.publish.text for query in self.outputs(files) if query.publish is not None])

    def parameters(self, files: Files) -> tuple[str, ...]:
        return tuple(dict.fromkeys([parameter.name for parameter in self._parameters(files)]))

    def _parameters(self, files: Files) -> list[Parameter]:
        return [node for file in files for query in file.queries for node in query.inside if isinstance(node, Parameter)]
