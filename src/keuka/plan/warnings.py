"""Conditions and windows that can never hold, or always do: a query that is right but hardly meant so.

A lowered Program comes in, with the types of its streams; warnings go out, each with the place and the remedy. Names and types are known
here, and all languages have become one algebra, so no language looks for these itself. A warning is never wrong: what is said never to
hold is false or unknown for every event. The values of parameters are not looked at: the next call may have others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as List
from dataclasses import dataclass, field

import pyarrow as pa

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Program, Published, Sequence, Source, Union, inputs
from keuka.algebra.values import ERROR, Value, evaluate, precedes, same
from keuka.diagnostics import WARNING, Diagnostic, Span
from keuka.events.clocks import show_duration
from keuka.expressions import Call, Column, Duration, Expression, Literal, conjuncts, walk
from keuka.schema import MAX_TICK, MICROSECONDS, Schema, StreamType, TimeAxis, Type

DAY = MICROSECONDS["day"]
MOST_CONSTANTS = 200  # more of one column are not compared: every two are
EXACT = 2**53  # integers below it are doubles, too

_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "in": "not in", "is_null": "not null"}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def find_warnings(program: Program, streams: Mapping[str, StreamType]) -> tuple[Diagnostic, ...]:
    """What is suspicious in the conditions of a program, in the order of the text."""
    times = _Times(streams)
    found: dict[tuple[str, Span | None], Diagnostic] = {}
    for operator in _operators(program):
        for warning in _of_operator(operator, times):
            found.setdefault((warning.code, warning.span), warning)
    return tuple(sorted(found.values(), key=lambda w: (-1, "", 0) if w.span is None else (0, w.span.source.name, w.span.start)))


def never_holds(predicate: Expression) -> bool:
    """Is the condition certainly false or unknown, whatever the event?"""
    terms = conjuncts(_pushed(predicate))
    if any(_is_never(term) for term in terms) or _contradiction(_restrictions(terms)):
        return True
    return any(isinstance(term, Call) and term.op == "or" and all(never_holds(arg) for arg in term.args) for term in terms)


def _operators(program: Program) -> Iterator[Operator]:
    """Every operator; what is published once, however often it is read."""
    waiting, published = [operator for _, operator in program.outputs], set()
    while waiting:
        operator = waiting.pop()
        if isinstance(operator, Published):
            if operator.name in published:
                continue
            published.add(operator.name)
        yield operator
        waiting += inputs(operator)


def _of_operator(operator: Operator, times: _Times) -> Iterator[Diagnostic]:
    match operator:
        case Filter():
            place = _Place(_written([("", operator.schema)]), times.of(operator.input).shortest, times.axis)
            yield from place.warnings(_terms_of((operator.predicate,)))
        case Next() | Fold():
            sides = [("$1.", operator.first.schema), ("$2.", operator.second.schema)]
            place = _Place(_written(sides), times.of(operator).shortest, times.axis)
            yield from place.warnings(_terms_of((operator.skip, operator.take if isinstance(operator, Next) else operator.step)))
        case Sequence():
            yield from _of_window(operator, times)
            yield from _of_alternatives(operator)
        case _:
            pass


def _written(sides: Iterable[tuple[str, Schema]]) -> dict[str, str]:
    """How columns are written, by name; one that several sides have as that of the first."""
    return {name: f"{prefix}{name}" for prefix, schema in reversed(list(sides)) for name in schema.names}


def _terms_of(predicates: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys([term for predicate in predicates for term in conjuncts(_pushed(predicate))]))


def _warning(code: str, message: str, span: Span | None, label: str, *help: str) -> Diagnostic:
    return Diagnostic(code, message, span, label, help, WARNING)


# -- time --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Extent:
    """What is known of the times of a stream's events: their ends are multiples of `grid` ticks, and DUR is at least `shortest`."""

    grid: int
    shortest: int


@dataclass(frozen=True)
class _Times:
    streams: Mapping[str, StreamType]
    published: dict[str, _Extent] = field(default_factory=dict)

    @property
    def axis(self) -> TimeAxis:
        return next(iter(self.streams.values())).axis

    def of(self, operator: Operator) -> _Extent:
        match operator:
            case Source():
                stream = self.streams.get(operator.stream)
                # What another rule publishes can end at any tick, because an absence at the end does.
                on_days = stream is not None and stream.meaning is None and pa.types.is_date(stream.axis.arrow)
                return _Extent(DAY if on_days else 1, 1)
            case Published():
                if operator.name not in self.published:
                    self.published[operator.name] = self.of(operator.input)
                return self.published[operator.name]
            case Filter() | Map():
                return self.of(operator.input)
            case Union():
                sides = [self.of(side) for side in operator.inputs]
                return _Extent(min([side.grid for side in sides]), min([side.shortest for side in sides]))
            case Next() | Fold():
                first, second = self.of(operator.first), self.of(operator.second)
                return _Extent(second.grid, first.shortest + max(min(first.grid, second.grid), second.shortest))
            case Sequence():
                grid = min([self.of(component.input).grid for component in operator.components])
                return _Extent(1 if operator.components[-1].negated else grid, (len(operator.positive) - 1) * grid + 1)


def _of_window(operator: Sequence, times: _Times) -> Iterator[Diagnostic]:
    """Events of a sequence have different times, and all of them lie within less than the window."""
    if operator.within == MAX_TICK:
        return
    grid = min([times.of(component.input).grid for component in operator.components])
    n_events = len(operator.positive)
    clock = "the times are days, and" if grid == DAY else "times are whole ticks, and"
    label = f"{clock} events that follow each other have different ones"
    if (n_events - 1) * grid >= operator.within:
        message = f"no {n_events} events fit into this window, so the sequence never matches"
        yield _warning("K323", message, operator.window, label, f"write at least `WITHIN {_duration(n_events * grid, times.axis)}`")
    elif operator.negated and n_events * grid >= operator.within:
        name = operator.components[operator.negated[0]].name
        message = f"no event `{name}` fits into this window beside the others, so its absence is always true"
        remedy = f"write at least `WITHIN {_duration((n_events + 1) * grid, times.axis)}`"
        yield _warning("K323", message, operator.window, label, remedy)


def _duration(n_ticks: int, axis: TimeAxis) -> str:
    text = show_duration(n_ticks, axis)
    return f"{text}s" if text.endswith("day") and not text.startswith("1 ") else text


# -- conditions --------------------------------------------------------------------------------------------------------------


def _of_alternatives(operator: Sequence) -> Iterator[Diagnostic]:
    """Each way to satisfy a sequence, and for each absence what would break it.

    Conditions written as AND of ORs become many alternatives, of which some may be impossible without any mistake. So terms that
    contradict each other are reported only if one of them occurs nowhere without the other.
    """
    sides = [(f"{component.name}.", component.input.schema) for component in operator.components]
    place = _Place(_written(sides))
    parts: list[tuple[Expression, ...]] = []
    for alternative in operator.alternatives:
        parts += [alternative.terms, *[(*alternative.terms, *terms) for terms in alternative.absent if terms]]
    pushed = [_terms_of(terms) for terms in parts]

    def is_reported(one: Expression | None, other: Expression | None) -> bool:
        return all(other in terms for terms in pushed if one in terms) or all(one in terms for terms in pushed if other in terms)

    for terms in pushed:
        yield from place.warnings(terms, reported=is_reported)


_Reported = Callable[[Expression | None, Expression | None], bool]


@dataclass(frozen=True)
class _Place:
    """Where a condition stands: how columns are written there, by name, and the least value of DUR."""

    written: Mapping[str, str]
    shortest: int = 1
    axis: TimeAxis | None = None

    def warnings(
        self, terms: tuple[Expression, ...], before: tuple[_Restriction, ...] = (), reported: _Reported | None = None
    ) -> Iterator[Diagnostic]:
        """What is suspicious in a conjunction, where `before` holds already."""
        for term in terms:
            yield from self._of_term(term)
        known = (*before, *_restrictions(terms))
        found = _contradiction((*known, _Restriction("DUR", "ge", (self.shortest,), True, None)))
        if found:
            if reported is None or all(reported(one.term, other.term) for one, other in _pairs(found)):
                yield self._contradictory(found)
            return
        for term in terms:
            for disjunct in term.args if isinstance(term, Call) and term.op == "or" else ():
                yield from self.warnings(conjuncts(disjunct), known, reported)

    def _of_term(self, term: Expression) -> Iterator[Diagnostic]:
        core, negated = _core(term)
        if core.span is None or not isinstance(core, Call) or core.op in ("and", "or"):
            return
        text = _text(term)
        if _compares_with_null(core, negated):
            yield _warning("K321", f"`{text}` never holds: a comparison with NULL is unknown", core.span, "", *_null_remedy(core, negated))
        elif (value := _constant(term)) is not ERROR:
            holds = "always holds" if value is True else "never holds"
            yield _warning("K320", f"`{text}` {holds}: it compares constants", core.span, "", *self._constant_remedy(core))

    def _constant_remedy(self, call: Call) -> tuple[str, ...]:
        quoted = [arg for arg in call.args if isinstance(arg, Literal) and arg.span is not None and arg.span.text.startswith('"')]
        meant = [self.written[str(literal.value)] for literal in quoted if literal.value in self.written]
        if meant:
            return (f"double quotes make a text, as single ones do; the column is written without quotes: `{meant[0]}`",)
        if quoted:
            return ("double quotes make a text, as single ones do; a column is written without quotes, or in backticks",)
        return ("compare a column with a constant, or leave the condition out",)

    def _contradictory(self, found: tuple[_Restriction, ...]) -> Diagnostic:
        last = found[-1]
        texts = list(dict.fromkeys([_text(restriction.term) for restriction in found if restriction.term is not None]))
        if any(restriction.term is None for restriction in found):  # DUR is at least so long
            least = "at least 1" if self.shortest == 1 or self.axis is None else f"more than {show_duration(self.shortest - 1, self.axis)}"
            message = f"`{texts[0]}` never holds: DUR counts the first tick and the last, and is {least} here"
            return _warning("K322", message, found[0].span, "", "ask for a longer DUR, or leave the condition out")
        if len(texts) == 1:
            return _warning("K322", f"no value satisfies `{texts[0]}`", last.span, "", "write the smaller bound first")
        joined = " and ".join([f"`{text}`" for text in texts])
        message = f"{joined} are never {'both' if len(texts) == 2 else 'all'} true"
        return _warning("K322", message, last.span, "", "write OR if one of them is enough")


def _pushed(expression: Expression, negated: bool = False) -> Expression:
    """The same condition with NOT only before what is neither AND nor OR. Three-valued logic has De Morgan's laws, too."""
    if isinstance(expression, Call) and expression.op == "not":
        return _pushed(expression.args[0], not negated)
    if isinstance(expression, Call) and expression.op in ("and", "or"):
        op = {"and": "or", "or": "and"}[expression.op] if negated else expression.op
        return Call(op, tuple([_pushed(arg, negated) for arg in expression.args]), Type.BOOLEAN, expression.span)
    return Call("not", (expression,), Type.BOOLEAN, expression.span) if negated else expression


def _core(term: Expression) -> tuple[Expression, bool]:
    """What stands behind NOT, and whether NOT stands there."""
    return (term.args[0], True) if isinstance(term, Call) and term.op == "not" else (term, False)


def _text(term: Expression | None) -> str:
    if term is None or term.span is None:
        return ""
    core, negated = _core(term)
    written = " ".join((core.span or term.span).text.split())
    return f"NOT {written}" if negated and "NOT" not in written.upper().split() else written  # `x NOT IN (1, 2)` has its own


def _is_parameter(literal: Literal) -> bool:
    return literal.span is not None and literal.span.text.startswith(":")


def _is_never(term: Expression) -> bool:
    core, negated = _core(term)
    return (isinstance(core, Call) and _compares_with_null(core, negated)) or _constant(term) in (False, None)


def _constant(term: Expression) -> Value:
    """The value of a term without columns and parameters; ERROR if there is none. TRUE and FALSE alone are meant as they are."""
    nodes = list(walk(term))
    is_written = isinstance(_core(term)[0], Call) and not any(
        isinstance(node, Column | Duration) or (isinstance(node, Literal) and _is_parameter(node)) for node in nodes
    )
    # The time of patterns explodes, that of LIKE with the number of %.
    has_like = any(isinstance(node, Call) and node.op in ("like", "regexp_like") for node in nodes)
    return evaluate(term, ()) if is_written and not has_like else ERROR


def _compares_with_null(call: Call, negated: bool) -> bool:
    nulls = [isinstance(arg, Literal) and arg.value is None and not _is_parameter(arg) for arg in call.args]
    if call.op == "in":
        return nulls[0] or all(nulls[1:]) or (negated and any(nulls))
    return (call.op in _MIRRORED or call.op == "like") and any(nulls)


def _null_remedy(call: Call, negated: bool) -> tuple[str, ...]:
    others = [arg.span.text for arg in call.args if arg.span is not None and not (isinstance(arg, Literal) and arg.value is None)]
    if call.op == "in" and others:
        return ("leave NULL out of the list, and test for it beside it: `IS NULL` or `IS NOT NULL`",)
    is_null = "IS NOT NULL" if (call.op == "ne") != negated else "IS NULL"
    return (f"write `{others[0]} {is_null}`",) if others else ("write `IS NULL` or `IS NOT NULL`",)


# -- values that a column can have ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Restriction:
    """What a term says of one column: that it is eq, ne, lt, le, gt, ge, in or not in these constants, or null, or not."""

    key: object  # side, index and path of the column, or DUR
    op: str
    constants: tuple[Value, ...]
    is_whole: bool  # the column holds integers
    term: Expression | None

    @property
    def span(self) -> Span | None:
        return None if self.term is None else self.term.span

    def admits(self, value: Value) -> bool:
        is_equal = any(same(value, constant) for constant in self.constants)
        if self.op in ("eq", "in", "ne", "not in"):
            return is_equal == (self.op in ("eq", "in"))
        if self.op in ("is_null", "not null"):
            return self.op == "not null"
        bound = self.constants[0]
        inside = precedes(value, bound) if self.op in ("lt", "le") else precedes(bound, value)
        return inside or (is_equal and self.op in ("le", "ge"))


def _restrictions(terms: Iterable[Expression]) -> tuple[_Restriction, ...]:
    return tuple([found for term in terms if (found := _restriction(term)) is not None])


def _restriction(term: Expression) -> _Restriction | None:
    core, negated = _core(term)
    if isinstance(core, Column) and core.type is Type.BOOLEAN:
        return _Restriction((core.side, core.index, core.path), "eq", (not negated,), False, term)
    if not isinstance(core, Call) or core.op not in _OPPOSITE:
        return None
    op, (first, *others) = core.op, core.args
    if op in _MIRRORED and isinstance(first, Literal):
        op, first, others = _MIRRORED[op], others[0], [first]
    is_converted = isinstance(first, Call) and first.op == "to_double"
    column = first.args[0] if isinstance(first, Call) and is_converted else first
    if not isinstance(column, Column | Duration):
        return None
    # A constant with the span of the whole term was not written there: it is how ANY of SASE tells its types apart.
    written = [other for other in others if isinstance(other, Literal) and not _is_parameter(other) and other.span != core.span]
    constants = [other.value for other in written]
    known = tuple([constant for constant in constants if constant is not None])
    # Large integers are rounded when they become doubles; NULL is looked for by itself.
    is_rounded = is_converted and any(not -EXACT < float(constant) < EXACT for constant in known)
    if len(constants) < len(others) or is_rounded or (len(known) < len(constants) and (op != "in" or negated)) or (others and not known):
        return None
    key = "DUR" if isinstance(column, Duration) else (column.side, column.index, column.path)
    return _Restriction(key, _OPPOSITE[op] if negated else op, known, column.type in (Type.INTEGER, Type.TIMESTAMP), term)


def _contradiction(restrictions: List[_Restriction]) -> tuple[_Restriction, ...]:
    """Restrictions of one column that no value satisfies together, as few as possible; none if there are no such."""
    by_column: dict[object, list[_Restriction]] = {}
    for restriction in restrictions:
        by_column.setdefault(restriction.key, []).append(restriction)
    for together in by_column.values():
        if sum([max(1, len(restriction.constants)) for restriction in together]) > MOST_CONSTANTS:
            continue
        for pair in itertools.combinations(together, 2):
            if _is_empty(pair):
                return pair
        if len(together) > 2 and _is_empty(together):
            return tuple(together)
    return ()


def _pairs(restrictions: tuple[_Restriction, ...]) -> Iterator[tuple[_Restriction, _Restriction]]:
    return ((one, other) for one, other in itertools.pairwise(restrictions))


def _is_empty(restrictions: List[_Restriction]) -> bool:
    if any(restriction.op == "is_null" for restriction in restrictions):
        return any(restriction.op != "is_null" for restriction in restrictions)
    choices = [restriction.constants for restriction in restrictions if restriction.op in ("eq", "in")]
    if choices:
        return not any(all(restriction.admits(value) for restriction in restrictions) for value in choices[0])
    lows = [_bound(restriction) for restriction in restrictions if restriction.op in ("gt", "ge")]
    highs = [_bound(restriction) for restriction in restrictions if restriction.op in ("lt", "le")]
    for low, high in itertools.product(lows, highs):
        if precedes(high, low):
            return True
        if same(low, high) and not all(restriction.admits(low) for restriction in restrictions):
            return True
    return False


def _bound(restriction: _Restriction) -> Value:
    """The least or largest value that is left: of integers `x > 5` leaves 6."""
    value = restriction.constants[0]
    if not restriction.is_whole or not math.isfinite(value):
        return value
    if restriction.op in ("gt", "ge"):
        return math.floor(value) + 1 if restriction.op == "gt" else math.ceil(value)
    return math.ceil(value) - 1 if restriction.op == "lt" else math.floor(value)
