"""Syntax errors say what was found, what could stand there, and how to write it in SASE."""

from __future__ import annotations

import re

import pytest

from keuka.errors import QueryError
from keuka.languages.parsing import keywords, parser
from keuka.languages.sase.syntax import SASE

from .sase import parsed


def message_of(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parsed(text)
    return str(caught.value)


EXPECTED = [
    ("SEQ", "expected `(`, found the end of the text"),
    ("SEQ()", "expected an event type, found `)`"),
    ("SEQ(A a B b)", "expected `,`, `(` or `)`, found `B`"),
    ("SEQ(A a, B b) C", "expected `PUBLISH`, `RETURN`, `WHERE`, `WITHIN`, `;` or the end of the text, found `C`"),
    ("SEQ(A a, B b) WHERE", "expected an expression, found the end of the text"),
    ("SEQ(A a, B b) WITHIN", "expected a duration, found the end of the text"),
    ("SEQ(A a, B b) WITHIN 3 hrs", "expected `PUBLISH`, `RETURN`, `;`, a unit of time or the end of the text, found `hrs`"),
    ("SEQ(A a, B b) RETURN", "expected `*` or an expression, found the end of the text"),
    ("SEQ(A a, B b) WHERE a.x b.y", "expected `PUBLISH`, `RETURN`, `WITHIN`, `;`, an operator or the end of the text, found `b`"),
    (";", "expected a query, found `;`"),
]


@pytest.mark.parametrize(("text", "expected"), EXPECTED)
def test_what_was_found_and_what_could_stand_there(text, expected):
    assert message_of(text).startswith(f"error[K101]: {expected}")


HINTS = [
    # words of other languages
    ("SELECT * FROM A", "`SELECT` is not SASE; SASE says at the end what a match returns"),
    ("SELECT x FROM A", "`FROM` is not SASE"),
    ("FROM A NEXT B", "`NEXT` is CEL; for one event after another SASE writes `SEQ(A a, B b)`"),
    ("A NEXT B", "`NEXT` is CEL"),
    ("A FOLD {x, y} B", "`FOLD` is CEL; SASE has no repetition"),
    ("FILTER {x > 3} A", "`FILTER` is not SASE; conditions on one event stand in parentheses"),
    ("A UNION B", "SASE writes `ANY(A, B)`"),
    ("EVENT E WHEN SEQUENCE(A, B, 10)", "SASE writes `SEQ(...) PUBLISH name`"),
    ("SEQUENCE(A a, B b, 10 min)", "SASE writes `SEQ(A, B) WITHIN 10 min`"),
    ("SEQUENCE(A, B, 10 min)", "SASE writes `SEQ(A, B) WITHIN 10 min`"),
    ("ALL(A, B, 10 min)", "SASE writes `UNORDERED(A, B) WITHIN 10 min`"),
    ("UNLESS(A, B, 10)", "SASE writes `SEQ(A a, !B b) WITHIN 10 min`"),
    ("A UNLESS B", "SASE writes `SEQ(A a, !B b) WITHIN 10 min`"),
    ("SEQ_WITHOUT(A, {B}, C)", "SASE writes `SEQ(A a, !B b) WITHIN 10 min`"),
    ("SEQ(A a, B b) OUTPUT a.x", "`SEQ(A a, B b) RETURN a.id, b.price`"),
    ("SEQ(A a, B b) OCCURS WITHIN 3", "`OCCURS WITHIN` is EQL"),
    ("(a, b) OCCURS WITHIN 3", "a query begins with a pattern"),
    ("A FOLLOWED BY B", "`FOLLOWED BY` is not SASE"),
    ("PATTERN SEQ(A a, B b)", "begins with the pattern itself"),
    ("SEQ(A a, B b) GROUP BY x", "an equivalence test: `WHERE [id]`"),
    ("SEQ(A a, B b) PARTITION BY x", "an equivalence test: `WHERE [id]`"),
    ("SEQ(A a, B b) ORDER BY x", "results come in the order of their end"),
    ("SEQ(A a, B b) LIMIT 10", "`keuka match --limit 10`"),
    ("SEQ(A a, B b) RETURN DISTINCT a.x", "`DISTINCT` is not SASE"),
    ("SEQ(A a, B b) WHERE b.t - a.t < INTERVAL 10 MINUTES", "a duration is a number with its unit"),
    # patterns
    ("SEQ(A a B b)", "components are separated by commas"),
    ("SEQ(A a; B b)", "components are separated by commas"),
    ("SEQ(A a !B b, C c)", "components are separated by commas"),
    ("SEQ(A a -> B b)", "components are separated by commas"),
    ("SEQ(A a | B b)", "an event of either type is `ANY(A, B)`"),
    ("SEQ(A a, NOT B b, C c)", "an event that must not occur is written with `!`"),
    ("SEQ(A a, !(B b), C c)", "a component is a type and its variable"),
    ("SEQ(A AS a, B b)", "a variable follows its type without AS"),
    ("SEQ(A+ a, B b)", "SASE has no repetition of an event"),
    ("SEQ(A a, SEQ(B, C))", "patterns do not nest"),
    ("SEQ(A a, ANY(B b, C))", "the variable stands behind it: `ANY(A, B) b`"),
    ("SEQ(A.x a)", "their attributes stand in WHERE and RETURN"),
    ("SEQ(A a, end e)", "`end` is a keyword; as a name it stands in backticks"),
    ("SEQ(A a (x > 3, B b)", "the `(` before them is still open"),
    ("SEQ(A a,)", "remove the `,` before it"),
    ("SQE(A a, B b)", "did you mean `SEQ`?"),
    ("SEQ(A a, B b) SEQ(C c, D d)", "queries of one text are separated by `;`"),
    # clauses
    ("SEQ(A a, B b) WEHRE [x]", "did you mean `WHERE`?"),
    ("SEQ(A a, B b) WHERE [x] AND WITHIN 3", "remove the `AND`: WITHIN is a clause of its own"),
    ("SEQ(A a, B b) WITHIN 3 WHERE [x]", "the clauses come in the order WHERE, WITHIN, RETURN, PUBLISH"),
    ("SEQ(A a, B b) WITHIN 3 hours AND [x]", "conditions stand in WHERE, before WITHIN"),
    ("SEQ(A a, B b) WITHIN hours", "a window is a number with its unit"),
    ("SEQ(A a, B b) WITHIN -3", "a window is a number with its unit"),
    ("SEQ(A a, B b) WITHIN 3 hrs", "durations have the units"),
    ("SEQ(A a, B b) WHERE {a.x = 3}", "conditions stand without braces"),
    ("SEQ(A a, B b) RETURN a.x y", "to give a column another name write `AS y`"),
    ("SEQ(A a, B b) [x]", "an equivalence test stands in WHERE"),
    ("WHERE [x]", "a query begins with a pattern"),
    # conditions
    ("SEQ(A a, B b) WHERE [x] ∧ [y]", "write `AND`"),
    ("SEQ(A a, B b) WHERE [x] ∨ [y]", "write `OR`"),
    ("SEQ(A a, B b) WHERE a.x ≠ 3", "write `<>` or `!=`"),
    ("SEQ(A a, B b) WHERE a.x ≤ 3", "write `<=`"),
    ("SEQ(A a, B b) WHERE a.x ≥ 3", "write `>=`"),
    ("SEQ(A a, B b) WHERE ¬[x]", "write `NOT`"),
    ("SEQ(A a, B b) WHERE !a.x = 3", "write `NOT`"),
    ("SEQ(A a, B b) WHERE a.x == 3", "write one `=`"),
    ("SEQ(A a, B b) WHERE a.x | b.x", "write `OR`"),
    ("SEQ(A a, B b) WHERE a.x IN [1, 2]", "a list of values stands in parentheses"),
    ("SEQ(A a, B b) WHERE [x] [y]", "conditions are joined with AND"),
    ("SEQ(A a, B b) WHERE []", "an equivalence test lists attributes"),
    ("SEQ(A a, B b) WHERE $x1 = 3", "`$x1.id` is the `id` of the first component"),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_hints(text, hint):
    assert hint in message_of(text)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SEQ(A a, B b", "error[K101]: this `(` is never closed", "1:4"),
        ("SEQ(A a, B b) WHERE [x", "error[K101]: this `[` is never closed", "1:21"),
        ("A WHERE $x1.x = 'IBM", "error[K102]: this text is never closed", "1:17"),
        ("A @ 3", "error[K102]: `@` has no meaning in SASE", "1:3"),
    ],
)
def test_where_it_is_shown(text, message, place):
    found = message_of(text)
    assert found.startswith(message)
    assert f"--> <query>:{place}\n" in found


@pytest.mark.parametrize("text", ["", "  \n ", "-- nothing"])
def test_an_empty_text_has_no_query(text):
    assert message_of(text).startswith("error[K104]")


@pytest.mark.parametrize("text", [text for text, _ in EXPECTED + HINTS])
def test_messages_never_name_terminals(text):
    internal = {terminal.name for terminal in parser(SASE.path).terminals} - keywords(SASE.path)
    assert not internal & set(re.findall(r"[A-Z_]{2,}", message_of(text)))


def test_the_grammar_knows_its_keywords():
    assert {"SEQ", "UNORDERED", "ANY", "WHERE", "WITHIN", "RETURN", "PUBLISH", "AS", "AND"} <= keywords(SASE.path)
    assert not {"NAME", "UNIT", "NEGATION"} & keywords(SASE.path)
