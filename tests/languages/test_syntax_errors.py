"""Syntax errors say what was found, what could stand there, and how to write it in CEL."""

from __future__ import annotations

import re

import pytest

from keuka.errors import QueryError
from keuka.languages.cel.syntax import CEL
from keuka.languages.parsing import keywords, parser

from .cel import parsed


def message_of(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parsed(text)
    return str(caught.value)


EXPECTED = [
    ("SELECT Name Stock", "expected `AS`, `FROM`, `,` or an operator, found `Stock`"),
    ("FROM", "expected a stream, found the end of the text"),
    ("FROM A NEXT", "expected `{` or a stream, found the end of the text"),
    ("SELECT , FROM A", "expected `*` or an expression, found `,`"),
    ("SELECT a AS FROM A", "expected a name, found `FROM`"),
    ("FROM A PUBLISH", "expected a name, found the end of the text"),
    ("FROM A FOLD B", "expected `{`, found `B`"),
    ("FROM A B", "expected `FOLD`, `NEXT`, `PUBLISH`, `UNION`, `;` or the end of the text, found `B`"),
    ("FROM (A B)", "expected `FOLD`, `NEXT`, `UNION` or `)`, found `B`"),
    ("FROM FILTER {a NOT 3} A", "expected `BETWEEN`, `IN` or `LIKE`, found `3`"),
    ("FROM FILTER {a BETWEEN 1} A", "expected `AND` or an operator, found `}`"),
    ("FROM FILTER {CASE WHEN a THEN b} A", "expected `ELSE`, `END` or `WHEN`, found `}`"),
    ("FROM FILTER {a IS 3} A", "expected `NOT` or `NULL`, found `3`"),
    ("FROM FILTER {$1. = 3} A", "expected a name, found `=`"),
    ("FROM A; ;", "expected a query or the end of the text, found `;`"),
]


@pytest.mark.parametrize(("text", "expected"), EXPECTED)
def test_what_was_found_and_what_could_stand_there(text, expected):
    assert message_of(text).startswith(f"error[K101]: {expected}")


HINTS = [
    # words of other languages
    ("SELECT * FROM Stock WHERE a = 1", "`WHERE` is not CEL; CEL writes `FILTER {predicate} (stream)`"),
    ("SEQ(A a, B b)", "CEL writes `A NEXT {predicate} B`"),
    ("FROM A NEXT B WITHIN 10 min", "`FILTER {DUR <= 10 min} (stream)`"),
    ("EVENT E WHEN SEQUENCE(A, B, 10)", "CEL writes `FROM ... PUBLISH name`"),
    ("FROM A RETURN a", "CEL begins with `SELECT`"),
    ("FROM A ; B", "`;` ends a query; for one event after another CEL writes `A NEXT B`"),
    ("SELECT Name FROM Stock GROUP BY Name", "`GROUP BY` is not CEL"),
    ("FROM A JOIN B", "`JOIN` is not CEL"),
    ("FROM A UNION ALL B", "`UNION` keeps every copy already"),
    ("FROM SEQ(A a, B b)", "CEL writes `A NEXT {predicate} B`"),
    ("FROM A NEXT {a = 1} within 30 min B", "`FILTER {DUR <= 10 min} (stream)`"),
    ("SELECT DISTINCT a FROM A", "`DISTINCT` is not CEL"),
    ("SELECT TOP 5 a FROM A", "`keuka match --limit 10`"),
    ("FROM A LIMIT 10", "`keuka match --limit 10`"),
    ("SELECT * EXCEPT(ts) FROM A", "name the attributes to keep"),
    ("FROM FILTER {DUR < INTERVAL 10 MINUTES} A", "a duration is a number with its unit: `10 min`"),
    ("FROM FILTER {DUR < INTERVAL '10' MINUTE} A", "a duration is a number with its unit: `10 min`"),
    ("SELECT count(*) FROM A", "kept by a FOLD"),
    ("SELECT cast(a, double) AS b FROM A", "write the type after `AS`: `cast(x AS BIGINT)`"),
    ("FROM A, B", "events of two are joined in time"),
    # aliases
    ("FROM A a NEXT B b", "CEL has no aliases"),
    ("FROM A AS a NEXT B AS b", "CEL has no aliases"),
    ("FROM A.x", "CEL has no aliases"),
    # misspelt keywords
    ("SELECT a FORM A", "did you mean `FROM`?"),
    ("SELECT a AS b frm A", "did you mean `FROM`?"),
    ("SELCT a FROM A", "did you mean `SELECT`?"),
    ("FROM A NXT B", "did you mean `NEXT`?"),
    ("FROM FILTER {a = 3 adn b = 4} A", "did you mean `AND`?"),
    ("FROM FILTER {a IS NOT NULLL} A", "did you mean `NULL`?"),
    ("FROM FITLER {a = 3} A", "did you mean `FILTER`?"),
    ("FROM (SELCT a FROM A)", "did you mean `SELECT`?"),
    ("FROM A {a = 3}", "braces follow FILTER, NEXT and FOLD"),
    # slips
    ("FROM FILTER {a == 3} A", "write one `=`"),
    ("FROM FILTER {a = “x”} A", "text stands in straight quotes"),
    ("FROM FILTER {a = 3 && b} A", "write `AND`"),
    ("FROM FILTER {a = 3 || b} A", "write `OR`"),
    ("FROM FILTER {!a} A", "write `NOT`"),
    ("FROM FILTER {a => 3} A", "write `>=`"),
    ("FROM FILTER {a =< 3} A", "write `<=`"),
    ("FROM FILTER {a < b < c} A", "comparisons do not chain"),
    ("FROM FILTER {a IN [1, 2]} A", "in parentheses"),
    ("FROM FILTER {$1 = 3} A", "`$1.Price` is the first input's"),
    ("FROM FILTER {DUR < 10 mins} A", "durations have the units"),
    ("FROM FILTER Price > 3 (Stock)", "conditions stand in braces: `FILTER {...}`"),
    ("FROM FILTER {Price > 3 (Stock)", "the `{` opened at 1:13 is still open"),
    ("FROM FILTER {Price > 3) (Stock)", "the `{` opened at 1:13 is still open"),
    ("FROM A)", "no `(` is open here"),
    ("SELECT a, b", "a SELECT needs a FROM"),
    ("SELECT a PUBLISH b", "a SELECT needs a FROM"),
    ("SELECT FROM A", "`SELECT *` keeps every attribute"),
    ("SELECT a, FROM A", "remove the `,` before it"),
    ("SELECT Price p FROM A", "to give a column another name write `AS p`"),
    ("SELECT End FROM A", "`End` is a keyword; as a name it stands in backticks"),
    ("FROM A PUBLISH 3rd", "a name begins with a letter"),
    ("FROM A FROM B", "queries of one text are separated by `;`"),
    ("FROM SELECT a FROM A", "a query inside a query stands in parentheses"),
    ("FILTER {a = 1} (A)", "a query begins with SELECT or FROM"),
    ("FROM A FOLD {a} B", "FOLD has two conditions"),
    ("FROM A FOLD {a, b, c} B", "after its two conditions FOLD has assignments"),
    ("FROM A NEXT {} B", "a NEXT that takes every event has no braces"),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_hints(text, hint):
    assert hint in message_of(text)


@pytest.mark.parametrize("text", ["SELECT a FORM A", "SELECT DISTINCT a FROM A", "SELCT a FROM A", "FROM FITLER {a = 3} A"])
def test_what_is_explained_is_not_taken_for_a_name_as_well(text):
    assert message_of(text).count("= help:") == 1


def test_a_string_that_does_not_fit_is_shown_whole():
    assert "found `'x y'`" in message_of("FROM A 'x y'")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("FROM (A NEXT B", "error[K101]: this `(` is never closed", "1:6"),
        ("FROM A NEXT\n  {a = 1", "error[K101]: this `{` is never closed", "2:3"),
        ("FROM FILTER {f(a} A", "error[K101]: expected `,` or `)`, found `}`", "1:17"),
        ("FROM FILTER {a = 'IBM} (A)\nPUBLISH x", "error[K102]: this text is never closed", "1:18"),
        ('FROM FILTER {a = "IBM} (A)', "error[K102]: this text is never closed", "1:18"),
        ("FROM `A", "error[K102]: this name is never closed", "1:6"),
        ("FROM A /* and\nso on", "error[K102]: this comment is never closed", "1:8"),
        ("FROM FILTER {a /* and\nso on} A", "error[K102]: this comment is never closed", "1:16"),
        ("FROM A @ 3", "error[K102]: `@` has no meaning in CEL", "1:8"),
        ("FROM \x00", r"error[K102]: `\x00` has no meaning in CEL", "1:6"),
    ],
)
def test_what_never_ends_is_shown_where_it_begins(text, message, place):
    found = message_of(text)
    assert found.startswith(message)
    assert f"--> <query>:{place}\n" in found


@pytest.mark.parametrize("text", ["", "  \n ", "-- nothing", "/* nothing */", "\ufeff "])
def test_an_empty_text_has_no_query(text):
    assert message_of(text).startswith("error[K104]")


@pytest.mark.parametrize("text", [text for text, _ in EXPECTED + HINTS])
def test_messages_never_name_terminals(text):
    internal = {terminal.name for terminal in parser(CEL.path).terminals} - keywords(CEL.path)
    assert not internal & set(re.findall(r"[A-Z_]{2,}", message_of(text)))


def test_the_grammar_knows_its_keywords():
    assert {"SELECT", "FROM", "FOLD", "AND", "END", "DUR"} <= keywords(CEL.path)
    assert not {"NAME", "UNIT", "COMMA"} & keywords(CEL.path)
