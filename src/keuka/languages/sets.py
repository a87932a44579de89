"""Query texts of one or of several languages that read each other's published streams: what they read and publish, and their algebra.

Texts of one language are lowered together. Where languages are mixed, texts that read each other in a circle are lowered together, and
the others one after the other: what one publishes is a stream with known columns for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from keuka.algebra.operators import Operator, Program, Published, Source, inputs, with_inputs
from keuka.diagnostics import Diagnostic, listing
from keuka.errors import QueryError
from keuka.languages.cel import lower as cel
from keuka.languages.language import Language
from keuka.languages.parameters import superfluous
from keuka.languages.parsing import MAX_NESTING
from keuka.languages.published import nesting
from keuka.languages.sase import lower as sase
from keuka.schema import StreamType

LANGUAGES: Mapping[str, Language] = {"cel": cel.LANGUAGE, "sase": sase.LANGUAGE}


@dataclass(frozen=True)
class Text:
    """A parsed text and its language."""

    file: Any  # a syntax tree, with its `source`
    language: str


Texts = tuple[Text, ...]


def inputs_of(texts: Texts) -> tuple[str, ...]:
    """The streams that are read but published by none of the texts, in the order of first use."""
    published = {*published_by(texts)}
    return tuple(dict.fromkeys([name for part in _by_language(texts) for name in _ask("inputs", part) if name not in published]))


def published_by(texts: Texts) -> tuple[str, ...]:
    """The names under which results are published, in the order of the texts."""
    return tuple([name for part in _by_language(texts) for name in _ask("published", part)])


def parameters_of(texts: Texts) -> tuple[str, ...]:
    return tuple(dict.fromkeys([name for part in _by_language(texts) for name in _ask("parameters", part)]))


def lower_texts(texts: Texts, streams: Mapping[str, StreamType], params: Mapping[str, object]) -> Program:
    """The algebra of all texts, outputs in their order; a QueryError with what is wrong in them."""
    if len({text.language for text in texts}) <= 1:
        return _lower(texts, streams, params)
    _check(texts, params)
    known, operators = dict(streams), dict[str, Operator]()
    levels: dict[str, int] = {}
    findings: list[Diagnostic] = []
    unknown: set[str] = set()  # what wrong texts would have published
    outputs: dict[int, list[tuple[str, Operator]]] = {}
    for group in _groups(texts):
        mine = tuple([texts[i] for i in group])
        given = {name: value for name, value in params.items() if name in parameters_of(mine)}
        try:
            if unknown & {*inputs_of(mine)}:
                raise QueryError()  # nothing can be said of it until the others are right
            found = [(name, _with_published(operator, operators)) for name, operator in _lower(mine, known, given).outputs]
            _check_levels(mine, found, levels)
        except QueryError as error:
            findings.extend(error.diagnostics)
            unknown.update(published_by(mine))
            continue
        for name, operator in found:
            if name:
                operators[name] = operator
                known[name] = StreamType(operator.schema, next(iter(streams.values())).axis)
        outputs[max(group)] = found
    if findings:
        raise QueryError(*findings)
    return Program(tuple([output for position in sorted(outputs) for output in outputs[position]]))


def _check_levels(texts: Texts, outputs: list[tuple[str, Operator]], levels: dict[str, int]) -> None:
    """Texts of several languages that read one another nest like queries of one text."""
    for name, operator in outputs:
        deepest = nesting(operator, levels)
        levels |= {name: deepest} if name else {}
        if deepest > MAX_NESTING:
            message = f"queries that read one another are nested more than {MAX_NESTING} levels deep in `{texts[0].file.source.name}`"
            raise QueryError(Diagnostic("K103", message, help=("let it read a stream that is nearer to the input",)))


def _lower(texts: Texts, streams: Mapping[str, StreamType], params: Mapping[str, object]) -> Program:
    return LANGUAGES[texts[0].language].lower(tuple([text.file for text in texts]), streams, params)


def _by_language(texts: Texts) -> list[Texts]:
    """All texts if they are in one language, else each by itself."""
    return [texts] if len({text.language for text in texts}) <= 1 else [(text,) for text in texts]


def _ask(what: str, texts: Texts) -> tuple[str, ...]:
    asked: Callable[[tuple[Any, ...]], tuple[str, ...]] = getattr(LANGUAGES[texts[0].language], what)
    return asked(tuple([text.file for text in texts]))


def _check(texts: Texts, params: Mapping[str, object]) -> None:
    """What no language can see alone: two texts that publish one name, parameters that none of them has."""
    names = published_by(texts)
    for name in names:
        if names.count(name) > 1:
            raise QueryError(Diagnostic("K306", f"two queries publish `{name}`", help=("publish one of them under another name",)))
    if findings := superfluous(params, parameters_of(texts)):
        raise QueryError(*findings)


def _groups(texts: Texts) -> list[list[int]]:
    """Numbers of texts: those that read each other in a circle together, and every group after those it reads."""
    reads = [{k for k, other in enumerate(texts) if {*_ask("published", (other,))} & {*_ask("inputs", (text,))}} for text in texts]
    behind = [_reachable(i, reads) for i in range(len(texts))]
    groups: list[list[int]] = []
    placed: set[int] = set()
    for i in sorted(range(len(texts)), key=lambda i: len(behind[i])):
        if i in placed:
            continue
        circle = [k for k in range(len(texts)) if k == i or (k in behind[i] and i in behind[k])]
        if len({texts[k].language for k in circle}) > 1:
            names = listing([texts[k].file.source.name for k in circle])
            message = f"texts of different languages read each other in a circle: {names}"
            raise QueryError(Diagnostic("K305", message, help=("put queries that do not read each other into texts of their own",)))
        groups.append(circle)
        placed.update(circle)
    return groups


def _reachable(start: int, reads: list[set[int]]) -> set[int]:
    found: set[int] = set()
    front = [start]
    while front:
        new = reads[front.pop()] - found
        found |= new
        front += new
    return found


def _with_published(operator: Operator, operators: dict[str, Operator]) -> Operator:
    """The operator with streams that other texts publish in place of sources of their names. What it publishes itself is added."""
    if isinstance(operator, Source):
        return Published(operator.stream, operators[operator.stream], operator.span) if operator.stream in operators else operator
    if isinstance(operator, Published):
        if operator.name not in operators:
            operators[operator.name] = _with_published(operator.input, operators)
        return replace(operator, input=operators[operator.name])
    return with_inputs(operator, [_with_published(part, operators) for part in inputs(operator)])
