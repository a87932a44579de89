"""Query texts at random: sentences of the grammars, valid queries, texts of the docs and tests, and all of these broken."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

from lark.grammar import NonTerminal, Symbol, Terminal

from keuka.languages.cel.syntax import CEL
from keuka.languages.parsing import keywords, parser
from keuka.languages.sase.syntax import SASE

from .processes import ROOT

GRAMMARS = {"cel": CEL, "sase": SASE}
# Columns of the streams S, T and U, with the type that most of them have in `queries.py`.
COLUMNS = {"n": "integer", "m": "integer", "x": "double", "s": "text", "k": "text", "b": "boolean", "te": "timestamp", "v": "list"}
STREAMS = ("S", "T", "U")


def query_text(language: str, random: Random) -> str:
    """One text; about a third of them is valid for streams with `COLUMNS`, or for streams with the columns that it names."""
    source = random.random()
    if source < 0.3:
        text = sentence(language, random)
    elif source < 0.6:
        text = valid_cel(random) if language == "cel" else valid_sase(random)
    else:
        text = random.choice(corpus(language))
    for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
        text = random.choice(CHANGES)(text, language, random)
    return text[:20_000]


# -- texts of the docs and tests ---------------------------------------------------------------------------------------------


@functools.cache
def corpus(language: str) -> tuple[str, ...]:
    """Every query in files, pages and tests of this repository. The order is that of the texts, not of the files."""
    files = [path for folder in ("docs", "examples", "tests") for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = {text for path in [*files, ROOT / "README.md"] for text in _texts_in(path)}
    looks = {"cel": re.compile(r"\bFROM\b"), "sase": re.compile(r"\b(?:SEQ|UNORDERED|ANY)\s*\(|\bWITHIN\b")}
    return tuple(sorted([text for text in texts if 8 < len(text) < 2_000 and looks[language].search(text)]))


def _texts_in(path: Path) -> list[str]:
    if path.suffix in (".cel", ".sase") or path.name in ("query", "query.txt"):
        return [path.read_text(encoding="utf-8")]
    if path.suffix == ".md":
        return re.findall(r"```(?:cel|sase|sql)?\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    if path.suffix == ".py" and path.parent.name != "fuzz":
        tree = ast.parse(path.read_text(encoding="utf-8"))
        return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return []


# -- sentences of the grammar ------------------------------------------------------------------------------------------------

SAMPLES = {
    "INTEGER": ["0", "1", "2", "7", "007", "1000", "9223372036854775807", "9223372036854775808", "9" * 40],
    "DECIMAL": ["0.5", ".5", "1.", "1e3", "1e-3", "2.5E2", "1e308", "1e309", "0.0"],
    "STRING": ["'a'", "'it''s'", '"b"', "''", "'%'", "'_a%'", "'2024-05-01'", "'2024-05-01T09:30:00+02:00'", "'ä\u0130'", "'10 min'"],
    "UNIT": ["us", "ms", "s", "sec", "min", "hours", "days", "weeks", "MIN", "Seconds"],
    "PARAMETER": [":p", ":q", ":w"],
    "QUOTED_NAME": ["`n`", "`a b`", "`S`", "`a``b`", "`FROM`"],
    "COMPARISON": ["=", "<>", "!=", "<", "<=", ">", ">="],
    "DECORATOR": ["$1.", "$2.", "$.", "$x1.", "$x2.", "$3."],
    "NAME": [*COLUMNS, *COLUMNS, "a", "b", "c", "t", "n_1", "abs", "round", "length", "coalesce", "concat", "substring", "least", "upper"],
    "DASHED_NAME": [*STREAMS, *STREAMS, *STREAMS, "a", "n", "P-1", "Q"],
}


@functools.cache
def expansions(language: str) -> dict[str, list[Sequence[Symbol]]]:
    """What each rule of the grammar may become, the shortest way to an end first."""
    found: dict[str, list[Sequence[Symbol]]] = {}
    for rule in parser(GRAMMARS[language].path).rules:
        found.setdefault(rule.origin.name, []).append(rule.expansion)
    heights: dict[str, float] = dict.fromkeys(found, math.inf)

    def height(expansion: Sequence[Symbol]) -> float:
        return max([0 if isinstance(symbol, Terminal) else heights[symbol.name] for symbol in expansion], default=0)

    for _ in found:
        heights = {name: 1 + min(map(height, options)) for name, options in found.items()}
    return {name: sorted(options, key=height) for name, options in found.items()}


@functools.cache
def terminals(language: str) -> dict[str, list[str]]:
    found = {}
    for terminal in parser(GRAMMARS[language].path).terminals:
        word = terminal.name.removeprefix("values__")
        is_keyword = terminal.name in keywords(GRAMMARS[language].path) or terminal.pattern.value == rf"(?ai:{word})\b"
        found[terminal.name] = [word, word.lower()] if is_keyword else SAMPLES.get(word) or [terminal.pattern.value.replace("\\", "")]
    return found


def sentence(language: str, random: Random) -> str:
    """A sentence of the grammar file. After some free choices every rule takes its shortest way."""
    n_choices = random.randrange(5, 60)
    pending: list[Symbol] = [NonTerminal("start")]
    words: list[str] = []
    while pending:
        symbol = pending.pop()
        if isinstance(symbol, Terminal):
            words.append(random.choice(terminals(language)[symbol.name]))
            continue
        options = expansions(language)[symbol.name]
        n_choices -= len(options) > 1
        pending.extend(reversed(random.choice(options) if n_choices > 0 else options[0]))
    return " ".join(words)


# -- valid queries -----------------------------------------------------------------------------------------------------------


def value(type_: str, sides: Sequence[str], random: Random, depth: int = 2) -> str:
    """An expression of a type over the columns behind these qualifiers (`$1.`, `a.`, or nothing)."""
    columns = [name for name, column_type in COLUMNS.items() if column_type == type_]
    inner = lambda of: value(of, sides, random, depth - 1)  # noqa: E731
    if depth == 0 or random.random() < 0.4:
        if random.random() < 0.7:
            return random.choice(sides) + random.choice(columns)
        constants = {"integer": ("0", "1", "-3", "100"), "double": ("0.5", "1e3"), "text": ("'a'", "'%'"),
                     "boolean": ("TRUE", "FALSE", "NULL")}  # fmt: skip
        return random.choice(constants[type_]) if type_ != "timestamp" else random.choice(sides) + "te"
    number = random.choice(("integer", "double"))
    options = {
        "integer": [f"{inner('integer')} {random.choice('+-*%')} {inner('integer')}", f"length({inner('text')})",
                    f"abs({inner('integer')})",
                    f"CASE WHEN {inner('boolean')} THEN {inner('integer')} ELSE 1 END", f"coalesce({inner('integer')}, 0)"],
        "double": [f"{inner(number)} / {inner(number)}", f"round({inner('double')}, 1)", f"({inner('double')} - {inner('integer')})"],
        "text": [f"concat({inner('text')}, {inner('text')})", f"upper({inner('text')})",
                 f"substring({inner('text')}, 1, {inner('integer')})"],
        "boolean": [f"{inner(number)} {random.choice(SAMPLES['COMPARISON'])} {inner(number)}", f"{inner('text')} LIKE 'a%'",
                    f"({inner('boolean')} {random.choice(('AND', 'OR'))} {inner('boolean')})", f"NOT {inner('boolean')}",
                    f"{inner('integer')} IN (1, 2, {inner('integer')})", f"{inner('text')} IS NOT NULL",
                    f"{inner('integer')} BETWEEN 0 AND {inner('integer')}", f"{inner('timestamp')} < {inner('timestamp')}",
                    f"{inner('text')} = {inner('text')}"],
        "timestamp": [f"{inner('timestamp')} + 5 s"],
    }  # fmt: skip
    return random.choice(options[type_])


def valid_cel(random: Random) -> str:
    stream = lambda: random.choice(STREAMS)  # noqa: E731
    condition = lambda *sides: value("boolean", sides, random)  # noqa: E731
    of = random.choice(list(COLUMNS)[:5])
    texts = [
        f"SELECT {of}, {value('integer', [''], random)} AS c FROM FILTER {{{condition('')}}} {stream()}",
        f"FROM {stream()} NEXT {{{condition('$1.', '$2.')}}} {stream()}",
        f"FROM {stream()} NEXT {{$1.{of} = $2.{of} AND {condition('$1.', '$2.')} AND DUR < {random.randrange(9)}}} {stream()}",
        f"FROM (FROM FILTER {{{condition('')}}} S) UNION S PUBLISH P; SELECT n_1, n FROM P NEXT {{$2.k = $1.k}} P",
        f"SELECT * FROM (SELECT *, 1 AS cnt FROM S) FOLD {{$2.k = $.k, {condition('$1.', '$2.')}, $.cnt + 1 AS cnt}} S",
        "SELECT n, cnt FROM FILTER {cnt > 1} ((SELECT *, 1 AS cnt FROM T) FOLD {TRUE, $2.x > $.x, $.cnt + 1 AS cnt} T)",
    ]
    return random.choice(texts)


def valid_sase(random: Random) -> str:
    names = "abcd"[: random.randrange(1, 5)]
    parts = []
    for name in names:
        type_ = random.choice((*STREAMS, "ANY(S, T)"))
        own = f" ({value('boolean', [''], random, 1)})" if random.random() < 0.2 else ""
        parts.append(f"{'!' if random.random() < 0.25 else ''}{type_} {name}{own}")
    sides = [f"{name}." for name in names]
    tests = [value("boolean", sides, random), f"[{random.choice('kns')}]", f"[n = {random.randrange(3)}]", f"{sides[0]}k = {sides[-1]}k"]
    where = " AND ".join(random.sample(tests, random.randrange(1, 4)))
    window = random.choice(("WITHIN 3", "WITHIN 10", "WITHIN 2 s", ""))
    back = random.choice(("", f"RETURN {sides[0]}n AS n, {sides[-1]}s AS s", f"RETURN {sides[0]}*"))
    return f"{random.choice(('SEQ', 'SEQ', 'SEQ', 'UNORDERED'))}({', '.join(parts)}) WHERE {where} {window} {back}"


# -- broken texts ------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"'[^']*'|\w+|\s+|.", re.DOTALL)
SCRAPS = ("", " ", "'", '"', "`", "(", ")", "{", "}", "[", "]", "$", "$1.", "$3.", "$x9.", ".", ",", ";", "--", "/*", "*/", ":p", "10 min",
          "1e999", "9" * 30, "0" * 5000 + "1", "9" * 5000, "1e-999999999", "\0", "\ud800", "\ufeff", "\u200b", "\u2028", "!", "*", "-", "=",
          "x" * 3000, "²", "x².a", "٣", "ſ", "é", "💥", "a\u0301", "SELECT", "FROM", "NEXT", "FOLD", "UNION", "FILTER", "PUBLISH", "AS",
          "NOT", "NULL", "DUR", "CASE", "WHEN", "END", "IN", "SEQ(", "ANY(", "WHERE", "WITHIN", "RETURN", "S", "T", "n", "k", "t", "_start",
          "_end", "GROUP BY", "JOIN", "PATTERN", "FOLLOWED BY", "count(*)")  # fmt: skip
LOOKALIKES = {"s": "ſ", "S": "ſ", "k": "\u212a", "K": "\u212a", "i": "ı", "I": "İ", "a": "а", "1": "１", "2": "²", "3": "٣", " ": "\u00a0",
              "'": "’", '"': "“", "-": "−", "(": "（", "=": "＝", ",": "،", "e": "е", ".": "․"}  # fmt: skip


def _break_tokens(text: str, language: str, random: Random) -> str:
    tokens = TOKEN.findall(text) or [""]
    for _ in range(random.randrange(1, 4)):
        at, other = random.randrange(len(tokens)), random.randrange(len(tokens))
        match random.randrange(5):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] *= 2
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = random.choice((tokens[other], random.choice(SCRAPS)))
            case _:
                tokens[at] += random.choice((" ", "")) + random.choice(SCRAPS)
    return "".join(tokens)


def _look_alike(text: str, language: str, random: Random) -> str:
    places = [i for i, sign in enumerate(text) if sign in LOOKALIKES]
    for at in random.sample(places, min(len(places), random.randrange(1, 4))):
        text = text[:at] + LOOKALIKES[text[at]] + text[at + 1 :]
    return text


def _nest(text: str, language: str, random: Random) -> str:
    """Brackets or operators round a word, now and then very many."""
    words = list(re.finditer(r"\w+", text))
    if not words:
        return text
    word, n = random.choice(words), random.choice((1, 2, 5, 50, 190, 210, 1000))
    before, after = random.choice(
        (("(", ")"), ("NOT ", ""), ("-", ""), ("abs(", ")"), ("(SELECT * FROM ", ")"), ("FILTER {TRUE} ", ""), ("SEQ(", ")"))
    )
    return text[: word.start()] + before * n + word[0] + after * n + text[word.end() :]


def _lengthen(text: str, language: str, random: Random) -> str:
    """A list, a chain or a sequence in place of a word."""
    words = list(re.finditer(r"\w+", text))
    if not words:
        return text
    word, n = random.choice(words), random.choice((2, 10, 60, 300, 1500))
    joined = random.choice((", ", " AND ", " OR ", " + ", " ; ", " UNION ", " NEXT ", ", b "))
    return text[: word.start()] + joined.join([word[0]] * n) + text[word.end() :]


def _splice(text: str, language: str, random: Random) -> str:
    """The beginning of one text and the end of another, perhaps of another language."""
    other = random.choice(corpus(random.choice(("cel", "sase"))))
    return text[: random.randrange(len(text) + 1)] + other[random.randrange(len(other)) :]


def _append(text: str, language: str, random: Random) -> str:
    return f"{text} ; {random.choice(corpus(language))}"


CHANGES = (_break_tokens, _break_tokens, _break_tokens, _look_alike, _nest, _lengthen, _splice, _append)
