"""Whatever text comes in, a result or a K code comes out: sentences of the grammar, and valid programs with something broken."""

from __future__ import annotations

import re

import hypothesis.strategies as st
from hypothesis import given, note
from lark.grammar import NonTerminal, Symbol, Terminal

import keuka
from keuka.languages.cel.syntax import CEL
from keuka.languages.parsing import parser

from ..fuzz.texts import expansions
from .queries import programs
from .streams import KEYS, SHAPES, Rows, table

ROWS: Rows = {
    "S": [(1, "a", 1, 1.5, True), (2, "a", 2, 2.5, None), (2, "b", None, float("nan"), False), (3, "a", 3, None, True)],
    "Q": [(1, "b", 1, 0.0, True), (4, "a", 2**63 - 1, -0.0, False)],
    "I": [(0, 2, "a", 1, 1.0, b""), (3, 4, "ab", 2, None, None)],
}
NAMES = [*KEYS, "t", "k", "n", "x", "y", "s", "e", "z", "t_1", "k_1", "abs", "length", "coalesce", "round", "concat"]


def run(text: str) -> None:
    """Raises unless the text has a result or is refused with a code, in the usual shape, that is not the one for our own bugs."""
    try:
        query = keuka.cel(text)
        streams = {s: keuka.Stream(table(s, ROWS[s]), time=SHAPES[s].time) for s in query.inputs if s in SHAPES}
        keuka.match(query, streams, params=dict.fromkeys(query.parameters, 1))
    except keuka.KeukaError as error:
        if not re.match(rf"error\[{error.code}\]: ", str(error)) or not "K100" < error.code < "K900":
            raise


def terminals() -> dict[str, st.SearchStrategy[str]]:
    """A strategy for every terminal: its pattern, except that words need blanks and names had better exist."""
    found: dict[str, st.SearchStrategy[str]] = {}
    for terminal in parser(CEL.path).terminals:
        word = terminal.name.removeprefix("values__")
        pattern = terminal.pattern.to_regexp()
        known = {"NAME": NAMES, "DASHED_NAME": [*SHAPES, *SHAPES, "a", "k", "P-1"], "DECORATOR": ["$1.", "$2.", "$."]}
        if pattern == rf"(?ai:{word})\b":
            found[terminal.name] = st.sampled_from([f" {word} ", f" {word.lower()} "])
        elif word in known:
            found[terminal.name] = st.sampled_from([f" {name}" for name in known[word]])
        else:
            found[terminal.name] = st.from_regex(pattern, fullmatch=True)
    return found


@st.composite
def sentences(draw: st.DrawFn) -> str:
    """A sentence of the grammar file. After some free choices every rule takes its shortest way.

    `hypothesis.extra.lark` chooses freely for ever, and with this many binary rules hardly a sentence comes to its end.
    """
    n_choices = draw(st.integers(10, 80))
    pending: list[Symbol] = [NonTerminal("start")]
    text: list[str] = []
    while pending:
        symbol = pending.pop()
        if isinstance(symbol, Terminal):
            text.append(draw(TERMINALS[symbol.name]))
            continue
        options = EXPANSIONS[symbol.name]
        n_choices -= len(options) > 1
        pending.extend(reversed(draw(st.sampled_from(options)) if n_choices > 0 else options[0]))
    return "".join(text)


EXPANSIONS, TERMINALS = expansions("cel"), terminals()


@given(sentences())
def test_every_sentence_of_the_grammar_gives_a_result_or_a_code(text: str):
    note(text)
    run(text)


TOKEN = re.compile(r"'[^']*'|\w+|\s+|.", re.DOTALL)
SCRAPS = [
    "",
    " ",
    "'",
    '"',
    "`",
    "(",
    ")",
    "{",
    "}",
    "$",
    "$1.",
    "$3.",
    ".",
    ",",
    ";",
    "--",
    "/*",
    ":p",
    "10 min",
    "1e999",
    "9" * 30,
    "\0",
    "\ud800",
]
WORDS = [
    "SELECT",
    "FROM",
    "NEXT",
    "FOLD",
    "UNION",
    "FILTER",
    "PUBLISH",
    "AS",
    "NOT",
    "NULL",
    "DUR",
    "CASE",
    "END",
    "IN",
    "S",
    "t",
    "*",
    "-",
    "=",
]


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A valid program with one to three tokens removed, doubled, exchanged or replaced."""
    tokens = TOKEN.findall(draw(programs()).text)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        scrap = draw(st.one_of(st.sampled_from(SCRAPS), st.sampled_from(WORDS), st.text(max_size=3)))
        match draw(st.sampled_from(["remove", "double", "exchange", "replace", "insert"])):
            case "remove":
                tokens[at] = ""
            case "double":
                tokens[at] *= 2
            case "exchange":
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at] = scrap
            case _:
                tokens[at] += scrap
    return "".join(tokens)


@given(broken())
def test_every_broken_program_gives_a_result_or_a_code(text: str):
    note(text)
    run(text)
