"""What SASE says about its own syntax errors: names for its clauses, and how to write in SASE what other languages write otherwise."""

from __future__ import annotations

from keuka.diagnostics import similar
from keuka.languages.mistakes import LIST_PHRASE, NAME_PHRASES, VALUE_PHRASES, Mistake, Phrase, Vocabulary

_TYPES = frozenset(["DASHED_NAME", "QUOTED_NAME", "ANY", "NEGATION"])
_QUERY = Phrase("a query", frozenset(["SEQ", "UNORDERED", "DASHED_NAME"]), _TYPES | {"SEQ", "UNORDERED"})
_COMPONENT = Phrase("an event type", frozenset(["DASHED_NAME", "ANY"]), _TYPES)
_WINDOW = Phrase("a duration", frozenset(["INTEGER", "PARAMETER"]), frozenset(["INTEGER", "DECIMAL", "PARAMETER", "COMPARISON"]))
# After a window a sum may go on, which is worth no word.
_UNIT = Phrase("a unit of time", frozenset(["UNIT", "PLUS", "RETURN"]), frozenset(["UNIT", "PLUS", "MINUS"]))
_EQUALS = Phrase("`=`", frozenset(["COMPARISON"]), frozenset(["COMPARISON"]))

NO_DUR = "SASE has no DUR; `WITHIN 10 min` limits the whole match, and two times can be subtracted: `e.ts - s.ts`"

_ONE_AFTER_ANOTHER = "for one event after another SASE writes `SEQ(A a, B b)`"
_ABSENCE = "for an event that must not occur SASE writes `SEQ(A a, !B b) WITHIN 10 min`"
_CONDITIONS = "conditions on one event stand in parentheses after its type, `A a (price > 10)`, all others in WHERE"
_OUTPUT = "SASE says at the end what a match returns: `SEQ(A a, B b) RETURN a.id, b.price`"
_NO_LIMIT = "SASE does not limit the number of results; the command line does: `keuka match --limit 10`"
_NO_RUNS = "SASE has no repetition of an event; CEL's FOLD has"
_KEY = "a key that all events share is an equivalence test: `WHERE [id]`"
_FOREIGN = {
    "SELECT": f"`SELECT` is not SASE; {_OUTPUT}",
    "FROM": f"`FROM` is not SASE; {_ONE_AFTER_ANOTHER}",
    "NEXT": f"`NEXT` is CEL; {_ONE_AFTER_ANOTHER}",
    "FOLD": f"`FOLD` is CEL; {_NO_RUNS}",
    "FILTER": f"`FILTER` is not SASE; {_CONDITIONS}",
    "UNION": "`UNION` is CEL; for an event of either type SASE writes `ANY(A, B)`",
    "EVENT": "`EVENT name WHEN ...` is CEDR; SASE writes `SEQ(...) PUBLISH name`",
    "WHEN": "`EVENT name WHEN ...` is CEDR; SASE writes `SEQ(...) PUBLISH name`",
    "SEQUENCE": "`SEQUENCE(A, B, 10 min)` is CEDR; SASE writes `SEQ(A, B) WITHIN 10 min`",
    "ALL": "`ALL(A, B, 10 min)` is CEDR; SASE writes `UNORDERED(A, B) WITHIN 10 min`",
    "ATLEAST": "`ATLEAST` is CEDR; SASE has `SEQ`, `UNORDERED` and `ANY`",
    "ATMOST": "`ATMOST` is CEDR; SASE has `SEQ`, `UNORDERED` and `ANY`",
    "UNLESS": f"`UNLESS` is CEDR; {_ABSENCE}",
    "CANCEL": f"`CANCEL-WHEN` is CEDR; {_ABSENCE}",
    "SEQ_WITHOUT": f"`SEQ_WITHOUT` is how the paper defines it; {_ABSENCE}",
    "OUTPUT": f"`OUTPUT` is CEDR; {_OUTPUT}",
    "CONSISTENCY": "`CONSISTENCY` is CEDR; SASE leaves it to where the query is run",
    "OCCURS": "`OCCURS WITHIN` is EQL; SASE limits the whole match: `SEQ(A a, B b) WITHIN 10 min`",
    "FOLLOWED": f"`FOLLOWED BY` is not SASE; {_ONE_AFTER_ANOTHER}",
    "PATTERN": "a query of SASE begins with the pattern itself: `SEQ(A a, B b)`",
    "JOIN": f"`JOIN` is not SASE; {_ONE_AFTER_ANOTHER}",
    "ON": f"`ON` is not SASE; {_CONDITIONS}",
    "PARTITION": f"`PARTITION BY` is not SASE; {_KEY}",
    "GROUP": f"`GROUP BY` is not SASE; {_KEY}",
    "HAVING": f"`HAVING` is not SASE; {_CONDITIONS}",
    "ORDER": "`ORDER BY` is not SASE; results come in the order of their end",
    "LIMIT": _NO_LIMIT,
    "DISTINCT": "`DISTINCT` is not SASE; a query keeps every copy, so remove duplicates from its results",
    "INTERVAL": "`INTERVAL` is not SASE; a duration is a number with its unit: `10 min`",
}
_PREFIXES = frozenset(_FOREIGN) - {"WHEN", "ON", "ORDER", "LIMIT", "ALL", "CANCEL"}
_CLAUSES = ("WHERE", "WITHIN", "RETURN", "PUBLISH")


def _hints(mistake: Mistake) -> tuple[str, ...]:
    return (*_query_hints(mistake), *_component_hints(mistake), *_clause_hints(mistake), *_value_hints(mistake))


def _query_hints(mistake: Mistake) -> list[str]:
    """About where a query begins, and which of them a word belongs to."""
    word, expected, function = mistake.found.upper(), mistake.expected, mistake.function.upper()
    hints = []
    if word in ("SEQ", "UNORDERED") and "SEMICOLON" in expected and not mistake.causes:
        hints.append("queries of one text are separated by `;`")
    elif word in ("SEQ", "UNORDERED") and "ANY" in expected:
        hints.append("patterns do not nest; PUBLISH the inner one and use its name as a type")
    if "SEQ" in expected and (word == "(" or word in _CLAUSES):
        hints.append("a query begins with a pattern: `SEQ(A a, B b)`, `UNORDERED(A, B)`, `ANY(A, B)` or a type")
    # A word before parentheses passes for a type with a condition until something follows that no condition has.
    if function in _FOREIGN and _FOREIGN[function] not in mistake.causes and not expected & {"ANY"}:
        hints.append(_FOREIGN[function])
    elif mistake.found not in ("", ".") and "OR" in expected and not mistake.causes:
        hints += similar(function, ("SEQ", "UNORDERED", "ANY"))
    return hints


def _component_hints(mistake: Mistake) -> list[str]:
    """About what stands between the parentheses of SEQ."""
    found, word, expected = mistake.found, mistake.found.upper(), mistake.expected
    hints = []
    in_pattern = mistake.function.upper() in ("SEQ", "UNORDERED")
    if in_pattern and {"COMMA", "RPAR"} <= expected and (mistake.is_name or found in ("!", ";", "-")):
        hints.append("components are separated by commas: `SEQ(A a, B b)`")
    if found == "|":
        hints.append("an event of either type is `ANY(A, B)`" if in_pattern else "write `OR`")
    if mistake.function.upper() == "ANY" and mistake.is_name:
        hints.append(f"ANY lists types; the variable stands behind it: `ANY(A, B) {found}`")
    if found == "," and "RPAR" in expected and "COMMA" not in expected and mistake.function.upper() not in _FOREIGN:
        hints.append("conditions on one event are joined with AND; the `(` before them is still open")
    if word == "AS" and {"NAME", "LPAR"} <= expected:
        hints.append("a variable follows its type without AS: `SEQ(A a, B b)`")
    if found in ("+", "*", "{") and in_pattern:
        hints.append(_NO_RUNS)
    if word == "NOT" and "ANY" in expected:
        hints.append("an event that must not occur is written with `!`: `SEQ(A a, !B b, C c)`")
    elif word in mistake.keywords - {"SEQ", "UNORDERED", *_CLAUSES} and "ANY" in expected:
        hints.append(f"`{found}` is a keyword; as a name it stands in backticks")
    if found == "(" and "ANY" in expected and "SEQ" not in expected:
        hints.append("a component is a type and its variable, `!B b`; alternatives are `ANY(B, C)`")
    if found == "[" and mistake.before.upper() == "IN":
        hints.append("a list of values stands in parentheses: `a.name IN ('x', 'y')`")
    elif found == "[" and "AND" in expected:
        hints.append("conditions are joined with AND: `[id] AND [category]`, or `[id, category]`")
    elif found == "[":
        hints.append("an equivalence test stands in WHERE: `SEQ(A a, B b) WHERE [id]`")
    if word == "." and "NAME" in expected and not mistake.before[:1].isdigit():
        hints.append("here stand types and variables, `A a`; their attributes stand in WHERE and RETURN")
    return hints


def _clause_hints(mistake: Mistake) -> list[str]:
    """About WHERE, WITHIN, RETURN and PUBLISH."""
    found, word, before, expected = mistake.found, mistake.found.upper(), mistake.before.upper(), mistake.expected
    hints = []
    if word in _CLAUSES and before in ("AND", "OR"):
        hints.append(f"remove the `{mistake.before}`: {word} is a clause of its own")
    elif word in _CLAUSES and "SEMICOLON" in expected:
        hints.append("the clauses come in the order WHERE, WITHIN, RETURN, PUBLISH, each once")
    if _WINDOW.needed <= expected and "STRING" not in expected:
        hints.append("a window is a number with its unit, `WITHIN 3 hours`, a number of ticks, or a parameter: `WITHIN :w`")
    if word in ("AND", "OR") and "PUBLISH" in expected:
        hints.append("conditions stand in WHERE, before WITHIN: `SEQ(A a, B b) WHERE [id] AND a.x > 3 WITHIN 3 hours`")
    if found == "{" and ("OR" in expected or before in _CLAUSES):
        hints.append("conditions stand without braces: `WHERE a.id = b.id`")
    if mistake.is_name and "AS" in expected:
        hints.append(f"to give a column another name write `AS {found}`")
    return hints


def _value_hints(mistake: Mistake) -> list[str]:
    """About variables and equivalence tests."""
    found, expected = mistake.found, mistake.expected
    hints = []
    if found.startswith("$"):
        hints.append("`$x1.id` is the `id` of the first component; so is `$1.id`, or `a.id` if its variable is `a`")
    if found == "!" and "STRING" in expected:
        hints.append("write `NOT`; `!` stands before the type of an event that must not occur")
    if found in ("[", "]", ",") and expected == {"NAME", "QUOTED_NAME"}:
        hints.append("an equivalence test lists attributes: `[id]`, `[id, category = 'food']`")
    return hints


SASE_WORDS = Vocabulary(
    "SASE",
    "SEQ(A a, B b)",
    (_QUERY, _COMPONENT, *VALUE_PHRASES[:2], _WINDOW, _UNIT, *VALUE_PHRASES[2:], LIST_PHRASE, _EQUALS, *NAME_PHRASES),
    _FOREIGN,
    _PREFIXES,
    _hints,
    own_signs=frozenset(["!", "[", "|"]),
)
