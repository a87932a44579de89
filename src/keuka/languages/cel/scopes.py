"""What an attribute name means in a SELECT, a FILTER and the braces of NEXT and FOLD (docs/semantics.md, 4).

Each function here makes a look-up from references to columns; a look-up raises a QueryError for a name it cannot place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from keuka.diagnostics import Diagnostic, listing, similar
from keuka.errors import QueryError
from keuka.expressions import CANDIDATE, FIRST, LAST, Column
from keuka.languages.cel.hints import NO_ALIASES
from keuka.languages.values import Reference
from keuka.schema import RESULT, Schema

Lookup = Callable[[Reference], Column]


def in_select(schema: Schema) -> Lookup:
    def column(reference: Reference) -> Column:
        if reference.qualifier:
            help = f"write `{reference.name}`; after NEXT and FOLD an attribute of both inputs is `A_1` (first) and `A` (second)"
            raise _misplaced(reference, "in a SELECT", help)
        return _one_of(schema, FIRST, reference, "the selected stream")

    return column


def in_filter(schema: Schema) -> Lookup:
    def column(reference: Reference) -> Column:
        if reference.qualifier not in ("", "$1."):
            raise _misplaced(reference, "in a FILTER", f"a FILTER has one input; write `{reference.name}` or `$1.{reference.name}`")
        return _one_of(schema, FIRST, reference, "the filtered stream")

    return column


def in_next(first: Schema, second: Schema) -> Lookup:
    def column(reference: Reference) -> Column:
        if reference.qualifier:
            if reference.qualifier not in ("$1.", "$2."):
                raise _misplaced(reference, "in NEXT", "`$1.` is its first input, `$2.` the second")
            return _decorated(first, second, reference)
        if first.index(reference.name) is not None and second.index(reference.name) is not None:
            choice = f"write `$1.{reference.name}` (first input) or `$2.{reference.name}` (second)"
            raise _ambiguous(reference, "both inputs have it", choice)
        return _either(first, second, reference)

    return column


def in_fold(first: Schema, second: Schema, assigned: Collection[str]) -> Lookup:
    """An undecorated name of the first input alone never changes, so it does not matter that it is read from the start."""

    def column(reference: Reference) -> Column:
        if reference.qualifier:
            if reference.qualifier not in ("$1.", "$2.", "$."):
                raise _misplaced(reference, "in FOLD", "`$1.` is the start of the run, `$.` its last step, `$2.` the next event")
            return _decorated(first, second, reference)
        has_both = first.index(reference.name) is not None and second.index(reference.name) is not None
        if has_both or (reference.name in assigned and first.index(reference.name) is not None):
            name = reference.name
            choices = [f"`$1.{name}` (start of the run)", f"`$.{name}` (last step)", *([f"`$2.{name}` (next event)"] if has_both else [])]
            raise _ambiguous(reference, "both inputs have it" if has_both else "the FOLD assigns to it", f"write {' or '.join(choices)}")
        return _either(first, second, reference)

    return column


def _nearest(reference: Reference, known: Collection[str]) -> tuple[str, ...]:
    name = reference.name
    if reference.fields and not reference.qualifier:
        return (*similar(name, known), NO_ALIASES)
    if name in RESULT.names:
        return ("results get this column; a query uses the time column (`ts - ts_1`), or DUR in a condition",)
    return similar(name, known)


def _decorated(first: Schema, second: Schema, reference: Reference) -> Column:
    if reference.qualifier == "$2.":
        return _one_of(second, CANDIDATE, reference, "the second input")
    return _one_of(first, FIRST if reference.qualifier == "$1." else LAST, reference, "the first input")


def _either(first: Schema, second: Schema, reference: Reference) -> Column:
    if first.index(reference.name) is not None:
        return _one_of(first, FIRST, reference, "the first input")
    if second.index(reference.name) is not None:
        return _one_of(second, CANDIDATE, reference, "the second input")
    help = (
        *_nearest(reference, (*first.names, *second.names)),
        f"the first input has {listing(first.names)}",
        f"the second input has {listing(second.names)}",
    )
    raise QueryError(Diagnostic("K201", f"neither input has an attribute `{reference.name}`", reference.span, help=help))


def _one_of(schema: Schema, side: int, reference: Reference, stream: str) -> Column:
    index = schema.index(reference.name)
    if index is None:
        help = (*_nearest(reference, schema.names), f"{stream} has {listing(schema.names)}")
        raise QueryError(Diagnostic("K201", f"{stream} has no attribute `{reference.name}`", reference.span, help=help))
    return Column(side, index, schema[index].type, reference.name, reference.span, schema[index].arrow)


def _misplaced(reference: Reference, place: str, help: str) -> QueryError:
    return QueryError(Diagnostic("K204", f"`{reference.qualifier}` means nothing {place}", reference.span, help=(help,)))


def _ambiguous(reference: Reference, reason: str, help: str) -> QueryError:
    return QueryError(Diagnostic("K203", f"`{reference.name}` can mean more than one value here", reference.span, reason, (help,)))
