"""Random CEL expressions over given attributes: typed by construction, so that nearly all of them are accepted.

An expression is text. What it may refer to is a list of (reference, type) pairs; the caller decides how references are decorated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

References = Sequence[tuple[str, str]]  # (how it is written here, its type)

LITERALS = {
    "integer": ["0", "1", "2", "3", "5", "10"],
    "double": ["0.0", "0.5", "1.5", "2.0", "1e3"],
    "string": ["'a'", "'b'", "'ab'", "''", "'É'", "'it''s'"],
    "boolean": ["TRUE", "FALSE"],
}
REGEXPS = ["'^a'", "'b$'", "'(a|b)+'", "'[^b]'", "''", "'É'"]
PATTERNS = ["'a%'", "'%b'", "'_'", "'%'", "''", r"'a\%b'", "'_%_'", "'É'"]
COMPARISONS = ["=", "<>", "!=", "<", "<=", ">", ">="]
NUMBERS = ("integer", "double")


def of_type(draw: st.DrawFn, kind: str, references: References, depth: int = 2) -> str:
    """An expression of the given type."""
    known = [reference for reference, reference_type in references if reference_type == kind]
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(known if known and draw(st.integers(0, 4)) < 4 else LITERALS[kind]))
    return draw(st.sampled_from(_FORMS[kind]))(draw, references, depth - 1)


def predicate(draw: st.DrawFn, references: References, depth: int = 2) -> str:
    """A truth value, more often satisfied than not: most of them are weak tests of a single attribute."""
    if references and draw(st.integers(0, 3)) < 3:
        reference, kind = draw(st.sampled_from(references))
        return draw(st.sampled_from(_WEAK_TESTS[kind])).format(reference)
    return draw(st.sampled_from(_FORMS["boolean"]))(draw, references, depth)


def risky(draw: st.DrawFn, references: References) -> str:
    """A truth value in which overflow, NULL, true and false are likely to meet."""
    terms = []
    for _ in range(draw(st.integers(2, 4))):
        reference, kind = draw(st.sampled_from(references))
        negation = draw(st.sampled_from(["", "NOT "]))
        terms.append(negation + draw(st.sampled_from(_RISKY_TESTS[kind])).format(reference))
    return f" {draw(st.sampled_from(['AND', 'OR']))} ".join(terms)


_RISKY_TESTS = {
    "integer": ["{0} * 4611686018427387904 > {0}", "{0} + 9223372036854775807 IN (NULL, {0})", "{0} > 2", "abs({0} - 1) BETWEEN 0 AND 3"],
    "double": ["floor({0}) < 2", "{0} > 1.0", "ceil({0} * 1e18) IS NULL", "1 / {0} <= 1"],
    "string": ["{0} = 'a'", "{0} < 'b'", "length({0}) * 9223372036854775807 = 0", "{0} LIKE '%b'"],
    "boolean": ["{0}", "{0} = TRUE", "{0} IS NULL"],
    "decimal": ["{0} + 9999999999999.99 > 0", "{0} = 0.1", "coalesce({0}, 99999999999999999) < 1", "{0} - {0} = 0.00"],
    "date": ["{0} + 106000000 > '2024-03-01'", "{0} <= '2024-03-01'", "{0} IS NULL"],
}

_WEAK_TESTS = {
    "integer": [
        "{} >= 0",
        "{} < 9",
        "{} <> 3",
        "{} IN (0, 1, 2, 3)",
        "{} BETWEEN 0 AND 20",
        "{} IS NOT NULL",
        "year(cast({} AS TIMESTAMP)) >= 1969",
    ],
    "double": ["{} > -2", "{} IS NOT NULL", "NOT {} = 1.5", "{} BETWEEN 0 AND 2.5", "{} < 1000"],
    "string": [
        "{} <> 'b'",
        "{} IN ('a', 'b', 'ab')",
        "{} LIKE '%'",
        "{} LIKE '%b'",
        "{} >= ''",
        "length({}) > 0",
        "regexp_like({}, '[ab]*')",
    ],
    "boolean": ["{}", "{} IS NOT NULL", "{} OR TRUE", "NOT {} IS NULL"],
    "decimal": ["{} >= 0", "{} < 1e3", "{} <> 0.1", "{} IN (0.1, 0.3, 1, 0.125)", "{} BETWEEN -1 AND 20.5", "{} IS NOT NULL"],
    "date": ["{} > '1970-01-01'", "{} <> '2024-03-01'", "{} IN ('2024-03-01', '2024-03-02')", "{} IS NOT NULL", "{} < '2024-03-02 12:00'"],
}
EXACT_LITERALS = ["0.1", "0.10", "0.125", "1", "0", "-7.25", "99999999999999.9999", "1e-3"]
DATE_LITERALS = ["'2024-03-01'", "'1970-01-01'", "'2024-02-29'"]


def exact(draw: st.DrawFn, references: References, depth: int = 2) -> str:
    """A decimal, with any number of digits behind the point. There must be a column of decimals, because a literal alone is none."""
    known = [reference for reference, kind in references if kind == "decimal"]
    reference = draw(st.sampled_from(known))
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return reference
    beside = [*EXACT_LITERALS, *known, *[reference for reference, kind in references if kind == "integer"]]
    one, other = exact(draw, references, depth - 1), draw(st.sampled_from(beside))
    return draw(st.sampled_from(EXACT_FORMS)).format(one, other)


EXACT_FORMS = ["({0} + {1})", "({1} - {0})", "-({0})", "abs({0})", "coalesce({0}, {1})", "least({0}, {1})", "greatest({1}, {0})"]
EXACT_FORMS += ["CASE WHEN {0} > {1} THEN {0} ELSE {1} END", "CASE {0} WHEN {1} THEN {0} END"]
EXACT_FORMS += ["cast({0} AS DECIMAL(18, 1))", "cast({0} AS DECIMAL(6, 3))", "cast({1} AS DECIMAL(12, 2))", "cast({1} AS DECIMAL)"]
EXACT_FORMS += ["cast(cast({0} AS STRING) AS DECIMAL(18, 3))", "cast(cast({0} AS DOUBLE) AS DECIMAL(18, 2))"]
EXACT_FORMS += ["cast(cast({0} AS BIGINT) AS DECIMAL(18, 4))", "cast({0} > {1} AS DECIMAL(2, 1))"]


def day(draw: st.DrawFn, references: References, depth: int = 2) -> str:
    """A date. There must be a column of dates, because a literal alone is a text."""
    known = [reference for reference, kind in references if kind == "date"]
    reference = draw(st.sampled_from(known))
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return reference
    one, other = day(draw, references, depth - 1), draw(st.sampled_from([*known, *DATE_LITERALS]))
    forms = ["({0} + 3)", "({0} - 2 days)", "coalesce({0}, {1})", "least({0}, {1})", "CASE WHEN {0} < {1} THEN {0} ELSE {1} END"]
    forms += ["cast(cast({0} AS STRING) AS DATE)", "cast(cast({0} AS TIMESTAMP) AS DATE)", "cast({1} AS DATE)"]
    return draw(st.sampled_from(forms)).format(one, other)


def exact_condition(draw: st.DrawFn, references: References, depth: int = 2) -> str:
    """A truth value about decimals or dates."""
    sign = draw(st.sampled_from(COMPARISONS))
    if draw(st.booleans()):
        one, other = exact(draw, references, depth), exact(draw, references, 1)
        number = draw(st.sampled_from([*EXACT_LITERALS, *[reference for reference, kind in references if kind in NUMBERS]]))
        forms = ["{0} {3} {1}", "{0} {3} {2}", "{2} {3} {0}", "{0} IN ({1}, {2}, 0.3)", "{0} BETWEEN {1} AND {2}", "{0} * {2} {3} {1}"]
        forms += ["cast({0} AS BIGINT) {3} {2}", "cast({0} AS STRING) {3} cast({1} AS STRING)", "cast({0} AS BOOLEAN)"]
        return draw(st.sampled_from(forms)).format(one, other, number, sign)
    one, other = day(draw, references, depth), draw(st.sampled_from([day(draw, references, 1), *DATE_LITERALS, "'2024-03-01 12:00'"]))
    forms = ["{0} {2} {1}", "{0} IN ({1}, '2024-03-01')", "{0} - {3} {2} 1", "{0} - {3} < 3 days", "NOT {0} BETWEEN '2024-03-01' AND {1}"]
    forms += ["cast({0} AS STRING) {2} cast({3} AS STRING)"]
    return draw(st.sampled_from(forms)).format(one, other, sign, day(draw, references, 0))


Form = Callable[[st.DrawFn, References, int], str]


def _template(template: str, **holes: str) -> Form:
    """A form of which each `{hole}` is an expression of the type it is given."""

    def build(draw: st.DrawFn, references: References, depth: int) -> str:
        return template.format(**{hole: of_type(draw, kind, references, depth) for hole, kind in holes.items()})

    return build


def _comparison(draw: st.DrawFn, references: References, depth: int) -> str:
    left, right = draw(
        st.sampled_from([("integer", "integer"), ("double", "double"), ("integer", "double"), ("string", "string"), ("boolean", "boolean")])
    )
    sign = draw(st.sampled_from(COMPARISONS))
    return f"({of_type(draw, left, references, depth)} {sign} {of_type(draw, right, references, depth)})"


def _logic(draw: st.DrawFn, references: References, depth: int) -> str:
    terms = [of_type(draw, "boolean", references, depth) for _ in range(draw(st.integers(2, 3)))]
    return "(" + draw(st.sampled_from([" AND ", " OR "])).join(terms) + ")"


def _null_test(draw: st.DrawFn, references: References, depth: int) -> str:
    kind = draw(st.sampled_from(sorted(LITERALS)))
    return f"({of_type(draw, kind, references, depth)} IS {draw(st.sampled_from(['', 'NOT ']))}NULL)"


def _membership(draw: st.DrawFn, references: References, depth: int) -> str:
    kind = draw(st.sampled_from(["integer", "double", "string"]))
    candidates = [of_type(draw, kind, references, min(depth, 1)) for _ in range(draw(st.integers(1, 3)))]
    candidates += draw(st.sampled_from([[], [], ["NULL"]]))
    return f"({of_type(draw, kind, references, depth)} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(candidates)}))"


def _like(draw: st.DrawFn, references: References, depth: int) -> str:
    text = of_type(draw, "string", references, depth)
    return f"({text} {draw(st.sampled_from(['', 'NOT ']))}LIKE {draw(st.sampled_from(PATTERNS))})"


def _regexp_like(draw: st.DrawFn, references: References, depth: int) -> str:
    return f"regexp_like({of_type(draw, 'string', references, depth)}, {draw(st.sampled_from(REGEXPS))})"


def _between(draw: st.DrawFn, references: References, depth: int) -> str:
    kind = draw(st.sampled_from(["integer", "double", "string"]))
    value, low, high = [of_type(draw, kind, references, depth) for _ in range(3)]
    return f"({value} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {low} AND {high})"


def _case(kind: str) -> Form:
    def build(draw: st.DrawFn, references: References, depth: int) -> str:
        pairs = [
            f"WHEN {of_type(draw, 'boolean', references, depth)} THEN {of_type(draw, kind, references, depth)}"
            for _ in range(draw(st.integers(1, 2)))
        ]
        otherwise = [f"ELSE {of_type(draw, kind, references, depth)}"] if draw(st.booleans()) else []
        return " ".join(["CASE", *pairs, *otherwise, "END"])

    return build


def _variadic(function: str, kind: str) -> Form:
    def build(draw: st.DrawFn, references: References, depth: int) -> str:
        arguments = [of_type(draw, kind, references, depth) for _ in range(draw(st.integers(2, 3)))]
        return f"{function}({', '.join(arguments)})"

    return build


def _large(draw: st.DrawFn, references: References, depth: int) -> str:
    return f"({of_type(draw, 'integer', references, depth)} * {draw(st.sampled_from(['4611686018427387904', '3000000000']))})"


_FORMS: dict[str, list[Form]] = {
    "integer": [
        _template("({i} + {j})", i="integer", j="integer"),
        _template("({i} - {j})", i="integer", j="integer"),
        _template("({i} + {j})", i="integer", j="integer"),
        _template("{i} % {j}", i="integer", j="integer"),
        _template("({i} * {j})", i="integer", j="integer"),
        _template("-({i})", i="integer"),
        _template("abs({i})", i="integer"),
        _template("round({i}, -1)", i="integer"),
        _template("length({s})", s="string"),
        _template("floor(least({x}, 100.0))", x="double"),
        _template("ceil({x})", x="double"),
        _template("coalesce(cast({s} AS BIGINT), {i})", s="string", i="integer"),
        _template("cast({x} AS INT)", x="double"),
        _template("cast({b} AS INT)", b="boolean"),
        _template("hour(cast({x} AS TIMESTAMP))", x="double"),
        _template("year(date_trunc('month', cast({i} AS TIMESTAMP)))", i="integer"),
        _template("dayofweek(cast({i} AS TIMESTAMP))", i="integer"),
        _variadic("coalesce", "integer"),
        _variadic("least", "integer"),
        _variadic("greatest", "integer"),
        _case("integer"),
        _large,
    ],
    "double": [
        _template("({x} + {y})", x="double", y="double"),
        _template("({x} - {i})", x="double", i="integer"),
        _template("({x} * {y})", x="double", y="double"),
        _template("({x} / {y})", x="double", y="double"),
        _template("({i} / {j})", i="integer", j="integer"),
        _template("{x} % {y}", x="double", y="double"),
        _template("-({x})", x="double"),
        _template("abs({x})", x="double"),
        _template("round({x})", x="double"),
        _template("sqrt({x})", x="double"),
        _template("coalesce(ln({x}), 1.5)", x="double"),
        _template("exp({x})", x="double"),
        _template("pow({x}, {i})", x="double", i="integer"),
        _template("coalesce(cast({s} AS DOUBLE), {x})", s="string", x="double"),
        _template("cast(cast({x} AS TIMESTAMP) AS DOUBLE)", x="double"),
        _template("round({x}, 1)", x="double"),
        _template("coalesce({x}, {i})", x="double", i="integer"),
        _variadic("least", "double"),
        _variadic("greatest", "double"),
        _case("double"),
    ],
    "string": [
        _variadic("concat", "string"),
        _variadic("coalesce", "string"),
        _variadic("greatest", "string"),
        _template("upper({s})", s="string"),
        _template("trim(concat(' ', {s}, ' '))", s="string"),
        _template("cast({i} AS STRING)", i="integer"),
        _template("cast({b} AS STRING)", b="boolean"),
        _template("cast(cast({i} AS TIMESTAMP) AS STRING)", i="integer"),
        _template("lower({s})", s="string"),
        _template("substring({s}, {i})", s="string", i="integer"),
        _template("substring({s}, {i}, {j})", s="string", i="integer", j="integer"),
        _case("string"),
    ],
    "boolean": [
        _comparison,
        _comparison,
        _logic,
        _template("(NOT {b})", b="boolean"),
        _null_test,
        _membership,
        _like,
        _regexp_like,
        _template("(cast({s} AS BOOLEAN) IS NULL)", s="string"),
        _template("cast({i} AS BOOLEAN)", i="integer"),
        _template("((cast({s} AS TIMESTAMP) < cast({i} AS TIMESTAMP)) IS NULL)", s="string", i="integer"),
        _between,
        _case("boolean"),
    ],
}
