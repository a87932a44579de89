"""What the pattern and the window of a query must be like, whatever streams it reads (docs/semantics.md, 5)."""

from __future__ import annotations

import itertools
import logging
import re

from keuka.algebra.operators import MOST_FEEDS
from keuka.algebra.values import ERROR, evaluate
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.expressions import Column, Expression
from keuka.languages.coercion import wrong_type
from keuka.languages.sase import syntax
from keuka.languages.sase.context import Context
from keuka.languages.typing import duration_text, timespan, typed
from keuka.languages.values import Node, Number, Operation, Reference, Value, ungrouped
from keuka.schema import MAX_TICK, TimeAxis, Type

log = logging.getLogger("keuka")

_LIKE_A_POSITION = re.compile(r"x[0-9]+|\$.*")


def check_negations(query: syntax.Query, context: Context) -> None:
    """Which components may be negated."""
    negated = [component for component in query.components if component.negated]
    if not query.ordered:
        for component in negated:
            help = "UNORDERED has no `between` or `after`; write the orders you mean with SEQ"
            context.note("K312", "`!` means nothing in UNORDERED", component.span, "when should it not occur?", help)
        return
    if len(negated) == len(query.components):
        help = "add an event that does occur: `SEQ(A a, !B b) WITHIN 10 min`"
        context.note("K310", "nothing in this pattern occurs", query.components[0].span, "must not occur", help)
        return
    for one, other in itertools.pairwise(query.components):
        if one.negated and other.negated:
            help = f"for the absence of either write `!ANY({', '.join([name.text for name in (*one.types, *other.types)])})`"
            context.note("K309", "two absences stand side by side", other.span, "no event in between", help)
    if query.components[-1].negated and query.window is None:
        message = "a sequence that ends in an absence needs a window"
        help = "add a window, for example `WITHIN 12 hours`"
        context.note("K304", message, query.components[-1].span, "nothing says when to stop waiting", help)


def check_size(query: syntax.Query, context: Context) -> bool:
    """Are there no more components than can be planned? Said here: an equivalence test of n components is n * n comparisons."""
    n_types = sum([len(component.types) for component in query.components])
    if n_types > MOST_FEEDS:
        message = f"the sequence reads its streams more than {MOST_FEEDS} times"
        context.note("K401", message, query.span, "", "use fewer components and types")
    return n_types <= MOST_FEEDS


def check_variables(query: syntax.Query, context: Context) -> bool:
    """Has every component a name of its own? If not, nothing can be said of conditions and columns."""
    n_findings, seen = len(context.findings), set()
    for number, name in enumerate([component.name for component in query.components], start=1):
        if name is None:
            continue
        if name.text in seen:
            help = "give every component a variable of its own"
            context.note("K312", f"two components are named `{name.text}`", name.span, "the second one", help)
        elif _LIKE_A_POSITION.fullmatch(name.text) and name.text != f"x{number}":
            help = f"`$x1`, `$x2`, ... are the components by position; `{name.text}` here would be taken for one of them"
            context.note("K312", f"component {number} cannot be named `{name.text}`", name.span, "", help)
        seen.add(name.text)
    return len(context.findings) == n_findings


def check_equivalences(query: syntax.Query, context: Context) -> bool:
    """Do all equivalence tests stand in WHERE, where a condition may?"""
    allowed: list[Node] = []
    stack: list[Value] = [] if query.where is None else [query.where]
    while stack:
        value = ungrouped(stack.pop())
        if isinstance(value, Operation) and value.operator in ("and", "or", "not"):
            stack.extend(value.operands)
        allowed.append(value)
    tests = [node for node in query.inside if isinstance(node, Operation) and node.operator == syntax.EQUIVALENCE]
    misplaced = [test for test in tests if not any(test is one for one in allowed)]
    for test in misplaced:
        help = f"it stands in WHERE, by itself or joined with AND, OR and NOT: `WHERE {test.span.text} AND a.x > b.x`"
        context.note("K312", "an equivalence test means nothing here", test.span, "", help)
    return not misplaced


def window_of(query: syntax.Query, axis: TimeAxis, context: Context) -> int:
    """The window in ticks; MAX_TICK if there is none, or none that could be understood."""
    if query.window is None:
        return MAX_TICK
    scope = context.scope(_no_column, axis)
    try:
        is_text = duration_text(query.window, scope) is not None
        value = timespan(query.window, scope, axis.tick_us) if is_text else typed(query.window, scope)
        return MAX_TICK if value is None else _checked(query.window, value, axis, query.includes_window)
    except QueryError as error:
        context.findings.extend(error.diagnostics)
        return MAX_TICK


def _checked(window: Value, value: Expression, axis: TimeAxis, includes_it: bool) -> int:
    given = evaluate(value, ())
    if given is ERROR:
        raise QueryError(Diagnostic("K210", "this duration does not fit into 64 bits of ticks", window.span))
    if value.type is not Type.INTEGER or not isinstance(given, int):
        raise wrong_type("a window is a duration", value, "give it a unit, `WITHIN 3 hours`, or a whole number of ticks")
    n_ticks = given + 1 if includes_it else given
    if n_ticks <= 0:
        help = "`WITHIN 10 min` allows events less than ten minutes apart"
        raise QueryError(Diagnostic("K311", "a window must be longer than nothing", window.span, f"{given} ticks", (help,)))
    if isinstance(window, Number) and axis.tick_us == 1:
        log.warning("`WITHIN %s` has no unit: that is %s microseconds", window.digits, window.digits)
    return min(n_ticks, MAX_TICK - 1)  # the largest number says that there is no window


def _no_column(reference: Reference) -> Column:
    raise AssertionError(reference)  # the grammar has none in WITHIN
