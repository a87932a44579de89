"""What CEL says about its own syntax errors: names for its clauses, and how to write in CEL what other languages write otherwise."""

from __future__ import annotations

from keuka.diagnostics import similar
from keuka.languages.mistakes import LIST_PHRASE, NAME_PHRASES, VALUE_PHRASES, Mistake, Phrase, Vocabulary

_STREAM = Phrase("a stream", frozenset(["DASHED_NAME", "FILTER", "LPAR"]), frozenset(["DASHED_NAME", "QUOTED_NAME", "FILTER", "LPAR"]))
_QUERY = Phrase("a query", frozenset(["SELECT", "FROM", "$END"]), frozenset(["SELECT", "FROM"]))

DUR_IN_SELECT = "DUR is for the conditions of FILTER, NEXT and FOLD; a SELECT subtracts two time columns: `ts - ts_1 AS gap`"

NO_ALIASES = (
    "CEL has no aliases; in the braces of NEXT and FOLD `$1.` is the first input and `$2.` the second, elsewhere the plain name will do"
)
_NO_EXCEPT = "CEL has no `*` with exceptions; name the attributes to keep: `SELECT Name, Price FROM Stock`"
_NO_LIMIT = "CEL does not limit the number of results; the command line does: `keuka match --limit 10`"
_ABSENCE = "CEL has no operator for absence; write the query in SASE: `SEQ(A a, !B b) WITHIN 10 min`"
_FOREIGN = {
    "WHERE": "`WHERE` is not CEL; CEL writes `FILTER {predicate} (stream)`",
    "SEQ": '`SEQ(A a, B b)` is SASE, which is read by `keuka.sase(...)` or with `language="sase"`; CEL writes `A NEXT {predicate} B`',
    "WITHIN": "`WITHIN` is not CEL; CEL limits the duration: `FILTER {DUR <= 10 min} (stream)`",
    "RETURN": "`RETURN` is SASE; CEL begins with `SELECT`",
    "UNORDERED": "`UNORDERED` is SASE; CEL writes the orders one by one and joins them with `UNION`",
    "ANY": "`ANY(A, B)` is not CEL; CEL writes `(A UNION B)`",
    "EVENT": "`EVENT name WHEN ...` is CEDR; CEL writes `FROM ... PUBLISH name`",
    "WHEN": "`EVENT name WHEN ...` is CEDR; CEL writes `FROM ... PUBLISH name`",
    "SEQUENCE": "`SEQUENCE(A, B, 10 min)` is CEDR; CEL writes `FILTER {DUR <= 10 min} (A NEXT {predicate} B)`",
    "ALL": "`ALL` is not CEL",
    "ATLEAST": "`ATLEAST` is CEDR; CEL counts in a FOLD: `FOLD {p, q, $.cnt + 1 AS cnt} stream`",
    "ATMOST": "`ATMOST` is CEDR; CEL counts in a FOLD: `FOLD {p, q, $.cnt + 1 AS cnt} stream`",
    "UNLESS": _ABSENCE,
    "OUTPUT": "`OUTPUT` is CEDR; CEL begins with `SELECT`",
    "CONSISTENCY": "`CONSISTENCY` is CEDR; CEL leaves it to where the query is run",
    "OCCURS": "`OCCURS WITHIN` is EQL; CEL limits the duration: `FILTER {DUR <= 10 min} (stream)`",
    "FOLLOWED": "`FOLLOWED BY` is not CEL; CEL writes `A NEXT {predicate} B`",
    "JOIN": "`JOIN` is not CEL; events are joined in time: `A NEXT {predicate} B`",
    "ON": "a condition stands in braces: `A NEXT {predicate} B`",
    "GROUP": "`GROUP BY` is not CEL; compare the key instead: `FOLD {$2.key = $.key, predicate} stream`",
    "HAVING": "`HAVING` is not CEL; CEL writes `FILTER {predicate} (stream)`",
    "ORDER": "`ORDER BY` is not CEL; results come in the order of their end",
    "LIMIT": _NO_LIMIT,
    "TOP": _NO_LIMIT,
    "DISTINCT": "`DISTINCT` is not CEL; a query keeps every copy, so remove duplicates from its results",
    "EXCEPT": _NO_EXCEPT,
    "EXCLUDE": _NO_EXCEPT,
    "INTERVAL": "`INTERVAL` is not CEL; a duration is a number with its unit: `10 min`",
}
_PREFIXES = frozenset(["SEQ", "SEQUENCE", "ANY", "WITHIN", "TOP", "DISTINCT", "INTERVAL"])


def _hints(mistake: Mistake) -> tuple[str, ...]:
    word, before, expected = mistake.found.upper(), mistake.before.upper(), mistake.expected
    hints = [*_clause_hints(mistake), *_stream_hints(mistake), *_brace_hints(mistake)]
    if word in ("SELECT", "FROM") and "SEMICOLON" in expected:
        hints.append("queries of one text are separated by `;`")
    if word in ("SELECT", "FROM") and expected >= {"DASHED_NAME", "LPAR"}:
        hints.append("a query inside a query stands in parentheses: `FROM (SELECT ... FROM ...)`")
    if before == "ALL" and "UNION" in expected:
        hints.append("`UNION` keeps every copy already: `A UNION B`")
    if {"SELECT", "FROM"} <= expected:
        if before == ";" and (mistake.is_name or word == "("):
            hints.append("`;` ends a query; for one event after another CEL writes `A NEXT B`")
        elif word in ("FILTER", "(") or mistake.is_name:
            hints.append("a query begins with SELECT or FROM: `FROM FILTER {Price > 10} (Stock)`")
    return tuple(hints)


def _clause_hints(mistake: Mistake) -> list[str]:
    """About SELECT, AS and decorators."""
    word, expected = mistake.found.upper(), mistake.expected
    hints = []
    if "FROM" in expected and "SELECT" not in expected and word in ("", "PUBLISH", ")", ";"):
        hints.append("a SELECT needs a FROM: `SELECT Name FROM Stock`")
    if mistake.before.upper() == "SELECT" and word == "FROM":
        hints.append("`SELECT *` keeps every attribute; so does leaving SELECT out")
    if mistake.is_name and {"AS", "FROM"} <= expected:
        hints.append(f"to give a column another name write `AS {mistake.found}`")
    if word.startswith("$"):
        hints.append("`$1.Price` is the first input's, `$2.Price` the second's, `$.Price` that of the last step of a FOLD")
    if word == "." and not mistake.before[:1].isdigit():
        hints.append(NO_ALIASES)
    return hints


def _stream_hints(mistake: Mistake) -> list[str]:
    """About what follows a stream, or a misspelt word that passed for one."""
    found = mistake.found
    if "UNION" not in mistake.expected or mistake.causes:
        return []
    misspelt = similar(mistake.before.upper(), ("SELECT", "FILTER"))
    if misspelt and (mistake.is_name or found in ("{", "*")):
        return [*misspelt]
    if found == "{":
        return ["braces follow FILTER, NEXT and FOLD: `FILTER {Price > 10} (Stock)`"]
    if found == ",":
        return ["a FROM has one stream; events of two are joined in time: `A NEXT {predicate} B`"]
    return [NO_ALIASES] if mistake.is_name or found.upper() == "AS" else []


def _brace_hints(mistake: Mistake) -> list[str]:
    """About the conditions of FILTER, NEXT and FOLD."""
    found, before, expected = mistake.found, mistake.before.upper(), mistake.expected
    hints = []
    if expected == {"LBRACE"}:
        hints.append(f"conditions stand in braces: `{before} {{...}}`")
    if found == "}" and before == "{":
        hints.append("a NEXT that takes every event has no braces: `A NEXT B`")
    elif found == "}" and "COMMA" in expected and not expected & {"RBRACE", "RPAR"}:
        hints.append("FOLD has two conditions: `FOLD {which events count, whether the run goes on} stream`")
    elif found in ("}", ",") and "AS" in expected and "FROM" not in expected and not mistake.function.lower().endswith("cast"):
        hints.append("after its two conditions FOLD has assignments: `$.cnt + 1 AS cnt`")
    return hints


CEL_WORDS = Vocabulary("CEL", "FROM Stock", (_STREAM, _QUERY, *VALUE_PHRASES, LIST_PHRASE, *NAME_PHRASES), _FOREIGN, _PREFIXES, _hints)
