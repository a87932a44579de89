"""Syntax errors in the user's words: what was found, what could stand there, and how the slip is usually repaired.

In: where the parser stopped and the terminals it could have gone on with. Out: one Diagnostic, K101, K102 or K104.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from keuka.diagnostics import Diagnostic, SourceText, Span, similar
from keuka.languages.functions import ADVICE

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedInput


@dataclass(frozen=True)
class Phrase:
    """Words for a set of terminals: used when all of `needed` could stand there; takes `covered` off the list as well."""

    words: str
    needed: frozenset[str]
    covered: frozenset[str]


@dataclass(frozen=True)
class Mistake:
    """Where the parser stopped. `found` is empty at the end of the text; `before` is the word or sign in front of it.

    `function` is the word before the innermost open parenthesis; `causes` says what is wrong where that is certain.
    """

    found: str
    before: str
    function: str
    expected: frozenset[str]  # terminals
    keywords: frozenset[str]
    causes: tuple[str, ...] = ()

    @property
    def is_word(self) -> bool:
        """A word that is no keyword."""
        return (self.found[:1].isalpha() or self.found[:1] in ("_", "`")) and self.found.upper() not in self.keywords

    @property
    def is_name(self) -> bool:
        """A word that nothing else explains: a name the user gave, in the wrong place."""
        return self.is_word and not self.causes


@dataclass(frozen=True)
class Vocabulary:
    """How a language speaks of its syntax. `foreign` explains words of other languages; `hints` looks at the whole mistake.

    `prefixes` are the foreign words that pass for a name until something follows them: `DISTINCT Name`, `SEQ(A, B)`. `own_signs` are
    signs that are slips in other languages.
    """

    language: str
    example: str
    phrases: tuple[Phrase, ...]
    foreign: Mapping[str, str]
    prefixes: frozenset[str]
    hints: Callable[[Mistake], tuple[str, ...]]
    own_signs: frozenset[str] = frozenset()


_NAMES = frozenset({"NAME", "DASHED_NAME", "QUOTED_NAME"})
_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "LPAR", "DOT", "UNIT"})
_VALUE = (
    frozenset({"NAME", "QUOTED_NAME", "DECORATOR", "INTEGER", "DECIMAL", "STRING", "PARAMETER", "TRUE", "FALSE", "NULL", "DUR"})
    | frozenset({"NOT", "MINUS", "CASE", "CAST", "LPAR", "LSQB"})
)  # fmt: skip
# After a name or a number; `AND` alone, without `OR`, is the AND of a BETWEEN and is listed by itself.
VALUE_PHRASES = (
    Phrase("an expression", frozenset({"NAME", "INTEGER", "STRING"}), _VALUE),
    Phrase("an operator", frozenset({"OR"}), _ARITHMETIC | {"COMPARISON", "AND", "OR", "NOT", "IS", "LIKE", "IN", "BETWEEN"}),
    Phrase("an operator", frozenset({"PLUS"}), _ARITHMETIC),
)
LIST_PHRASE = Phrase("a parameter", frozenset({"PARAMETER"}), frozenset({"PARAMETER"}))
NAME_PHRASES = (
    Phrase("a name", frozenset({"DASHED_NAME"}), _NAMES),
    Phrase("a name", frozenset({"NAME"}), _NAMES),
)
_BRACKETS = {"LPAR": "(", "RPAR": ")", "LBRACE": "{", "RBRACE": "}", "LSQB": "[", "RSQB": "]"}
_SIGNS = {**_BRACKETS, "COMMA": ",", "SEMICOLON": ";", "STAR": "*", "NEGATION": "!"}
_OPENED_BY = {")": "(", "}": "{", "]": "["}

_WORD = re.compile(r"'(?:[^'\n]|'')*'|\"(?:[^\"\n]|\"\")*\"|[^\W\d]\w*|\$\w*\.?|[0-9]\w*|<=|>=|<>|!=|==|&&|\|\||.", re.DOTALL)
# What brackets are looked for in: whole strings, names in backticks and comments count as one piece each.
_PIECE = re.compile(r"'(?:[^'\n]|'')*'|\"(?:[^\"\n]|\"\")*\"|`[^`\n]*`|--[^\n]*|/\*.*?\*/|\w+|[\s\ufeff]+|.", re.DOTALL)
_UNENDED = {"'": "text", '"': "text", "`": "name", "/*": "comment"}

_SLIPS = {
    "==": "write one `=`: it compares",
    "&&": "write `AND`",
    "&": "write `AND`",
    "||": "write `OR`, or `concat(a, b)` to join texts",
    "|": "write `OR`, or `concat(a, b)` to join texts",
    "!": "write `NOT`; not equal is `<>` or `!=`",
    "=<": "write `<=`",
    "=>": "write `>=`",
    "^": "there is no operator for powers",
    "[": "a list of values stands in parentheses: `Name IN ('IBM', 'MSFT')`",
    **dict.fromkeys("‘’‚“”„", "text stands in straight quotes: `'IBM'`"),
    **dict.fromkeys("∧⋀", "write `AND`"),
    **dict.fromkeys("∨⋁", "write `OR`"),
    "¬": "write `NOT`",
    "≠": "write `<>` or `!=`",
    "≤": "write `<=`",
    "≥": "write `>=`",
}


def explain_mistake(vocabulary: Vocabulary, keywords: frozenset[str], source: SourceText, error: UnexpectedInput) -> Diagnostic:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    offset = len(source.text) if at_end or error.pos_in_stream is None else error.pos_in_stream
    pieces = _pieces(source.text[:offset])
    if at_end and not pieces:
        return Diagnostic("K104", f"there is no query in `{source.name}`", help=(f"the shortest one is `{vocabulary.example}`",))
    unended = _unended(source, offset)
    if unended is not None:
        return unended
    word = _WORD.match(source.text, offset)
    found = "" if word is None else word[0]
    # The parser's own list also has terminals of rules that would fail right after; `accepts` tries each.
    expected = frozenset(error.interactive_parser.accepts())  # type: ignore[no-untyped-call]
    opened = _open_brackets(pieces)
    mistake = Mistake(found, pieces[-1][1] if pieces else "", _function(pieces, opened), expected, keywords)
    mistake = replace(mistake, causes=_causes(vocabulary, mistake))
    if not found and opened:
        return _never_closed(source, opened[-1], vocabulary.hints(mistake))
    span = Span(source, offset, offset + len(found)) if found else _after_last(source, pieces)
    shown = f"`{found if found.isprintable() else ascii(found)[1:-1]}`"
    help = _help(vocabulary, mistake, source, opened)
    if isinstance(error, UnexpectedCharacters) and not found[0].isalnum() and found[0] != "_":
        return Diagnostic("K102", f"{shown} has no meaning in {vocabulary.language}", span, help=help)
    message = f"expected {_in_words(vocabulary.phrases, expected)}, found {shown if found else 'the end of the text'}"
    return Diagnostic("K101", message, span, help=help)


def _in_words(phrases: tuple[Phrase, ...], expected: frozenset[str]) -> str:
    rest, groups = set(expected), []
    for phrase in phrases:
        if phrase.needed <= rest:
            rest -= phrase.covered
            groups.append(phrase.words)
    at_end = ["the end of the text"] if "$END" in rest else []
    words = [f"`{_SIGNS.get(name, name)}`" for name in sorted(rest - {"$END"}, key=lambda name: (name in _SIGNS, name))]
    every = words + groups + at_end
    return every[0] if len(every) == 1 else ", ".join(every[:-1]) + " or " + every[-1]


def _pieces(text: str) -> list[tuple[int, str]]:
    """The words, signs and strings of a text with their offsets, without blanks and comments."""
    found = [(m.start(), m[0]) for m in _PIECE.finditer(text)]
    return [(start, piece) for start, piece in found if piece.strip("\ufeff").strip() and not piece.startswith(("--", "/*"))]


def _open_brackets(pieces: list[tuple[int, str]]) -> list[tuple[int, str]]:
    opened: list[tuple[int, str]] = []
    for offset, piece in pieces:
        if piece in ("(", "{", "["):
            opened.append((offset, piece))
        elif opened and opened[-1][1] == _OPENED_BY.get(piece):
            opened.pop()
    return opened


def _function(pieces: list[tuple[int, str]], opened: list[tuple[int, str]]) -> str:
    position = pieces.index(opened[-1]) if opened and opened[-1][1] == "(" else 0
    return pieces[position - 1][1] if position > 0 else ""


def _causes(vocabulary: Vocabulary, mistake: Mistake) -> tuple[str, ...]:
    """What leaves no doubt: a sign or word of another language, a function that is none of ours, a misspelt keyword."""
    found, word, before = mistake.found, mistake.found.upper(), mistake.before.upper()
    slip = None if found in vocabulary.own_signs else _SLIPS.get(found) or _SLIPS.get(mistake.before + found)
    causes = [slip] if slip else []
    if word in vocabulary.foreign:
        causes.append(vocabulary.foreign[word])
    if before in vocabulary.prefixes:
        causes.append(vocabulary.foreign[before])
    causes += ADVICE.get(mistake.function.lower(), ())
    if mistake.is_word and len(word) > 2 and not causes:
        # In words of two letters a wrong one leaves too little to guess from.
        causes += similar(word, [keyword for keyword in mistake.expected & mistake.keywords if len(keyword) > 2])
    return tuple(causes)


def _unended(source: SourceText, offset: int) -> Diagnostic | None:
    """A quoted text, a name in backticks or a comment that begins here and has no end."""
    text = source.text
    # `/` and `*` are operators as well, so the parser may have read the first of the two already.
    if text[max(0, offset - 1) : offset + 1] == "/*":
        offset -= 1
    sign = "/*" if text.startswith("/*", offset) else text[offset : offset + 1]
    closing = "*/" if sign == "/*" else sign
    line_end = len(text) if text.find("\n", offset) < 0 else text.find("\n", offset)
    if sign not in _UNENDED or text.find(closing, offset + len(sign), len(text) if sign == "/*" else line_end) >= 0:
        return None
    label = "no backtick follows" if sign == "`" else f"no `{closing}` follows"
    return Diagnostic("K102", f"this {_UNENDED[sign]} is never closed", Span(source, offset, line_end), label)


def _never_closed(source: SourceText, opened: tuple[int, str], help: tuple[str, ...]) -> Diagnostic:
    offset, bracket = opened
    return Diagnostic("K101", f"this `{bracket}` is never closed", Span(source, offset, offset + 1), "opened here", help)


def _after_last(source: SourceText, pieces: list[tuple[int, str]]) -> Span:
    """The place right after the last word: where something is missing at the end of a text."""
    end = pieces[-1][0] + len(pieces[-1][1])
    return Span(source, end, end)


def _help(vocabulary: Vocabulary, mistake: Mistake, source: SourceText, opened: list[tuple[int, str]]) -> tuple[str, ...]:
    found, word = mistake.found, mistake.found.upper()
    help = [*mistake.causes, *_bracket_help(mistake, source, opened)]
    hints = vocabulary.hints(mistake)
    if mistake.before == "," and word in mistake.keywords | {")", "}", ";", ""} and not hints:
        help.append("remove the `,` before it, or add what should follow")
    elif word in mistake.keywords and mistake.expected & _NAMES and found != word:
        help.append(f"`{found}` is a keyword; as a name it stands in backticks")
    if mistake.before[:1].isdigit() and mistake.is_name:
        help.append("durations have the units us, ms, s, min, hours, days or weeks: `10 min`")
    if found[:1].isdigit() and "DASHED_NAME" in mistake.expected:
        help.append("a name begins with a letter; any other stands in backticks")
    if re.fullmatch("[<>=!]+", found) and "AND" in mistake.expected and not mistake.causes:
        help.append("comparisons do not chain; write `a < b AND b < c`")
    return (*help, *[hint for hint in hints if hint not in help])


def _bracket_help(mistake: Mistake, source: SourceText, opened: list[tuple[int, str]]) -> list[str]:
    found = mistake.found
    if not opened:
        return [f"no `{_OPENED_BY[found]}` is open here"] if found in _OPENED_BY else []
    offset, bracket = opened[-1]
    is_other = found in _OPENED_BY and _OPENED_BY[found] != bracket
    if is_other or (bracket == "{" and "RBRACE" in mistake.expected and (found == "(" or found.upper() in mistake.keywords)):
        row, column = source.position(offset)
        return [f"the `{bracket}` opened at {row}:{column} is still open"]
    return []
