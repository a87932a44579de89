"""Places in query text, and what is wrong there, as values.

Every stage of the query path speaks of mistakes with these. `errors.py` raises them; `render` here is the only
place that decides what they look like.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

ERROR, WARNING = "error", "warning"  # how bad a finding is
LONGEST_LINE = 160  # characters of a query's line that a message shows
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: Python's texts may hold one, UTF-8 has no bytes for it


HIDDEN = "***"
# What is called so is a secret: in the query of a URL, in a connection string, as an option.
SECRET_NAME = r"(?:password|passwd|pwd|secret|token|credentials?|(?:access|account|api|secret|shared)[_.-]?key|signature)"
_CREDENTIALS = (
    (re.compile(r"(?<=://)[^\s@/:`'\"]*:[^\s@`'\"]+(?=@)"), HIDDEN),  # of `s3a://key:secret@bucket`; a secret may hold a slash
    (re.compile(r"(?<=jdbc:oracle:)(\w+:)[^\s@/`'\"]+/[^\s@`'\"]+(?=@)"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)({SECRET_NAME}=|\bsig=)(?!\.\.\.|\$\{{)[^\s&;,)`'\"]+"), rf"\1{HIDDEN}"),
)


def hide_credentials(text: str) -> str:
    """The text without the credentials of URLs in it: `s3a://***@bucket`, `jdbc:...;password=***`."""
    for pattern, shown in _CREDENTIALS if "@" in text or "=" in text else ():
        text = pattern.sub(shown, text)
    return text


@dataclass(frozen=True)
class SourceText:
    """A query's text and the name it is known by (a path, or `<query>`)."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return line, column

    def line(self, number: int) -> str:
        return self.text.split("\n")[number - 1]


@dataclass(frozen=True)
class Span:
    """The characters start..end (exclusive) of a source text."""

    source: SourceText
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """From the beginning of this span to the end of the other."""
        return Span(self.source, self.start, other.end)


@dataclass(frozen=True)
class Diagnostic:
    """One finding: its code, one sentence, where it is (None: nowhere in the text), a word at the caret, the remedies.

    An error is raised; a warning is logged, because the query has a meaning, if hardly the one that was meant.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    help: tuple[str, ...] = ()
    severity: str = ERROR

    def __post_init__(self) -> None:
        """Paths and what other libraries say of them may hold credentials, and every message is made of these."""
        object.__setattr__(self, "message", hide_credentials(self.message))
        object.__setattr__(self, "label", hide_credentials(self.label))
        object.__setattr__(self, "help", tuple([hide_credentials(text) for text in self.help]))


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic in the shape of rustc's messages, ending without a newline."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    span = diagnostic.span
    margin = ""
    if span is not None:
        row, column = span.source.position(span.start)
        margin = " " * len(str(row))
        text, place, width = _excerpt(span.source.line(row).replace("\t", " "), column - 1, span.end - span.start)
        caret = " " * place + "^" * width + (f" {diagnostic.label}" if diagnostic.label else "")
        lines += [f"{margin}--> {span.source.name}:{row}:{column}", f"{margin} |", f"{row} | {text}", f"{margin} | {caret}"]
    elif diagnostic.label:
        lines.append(f"  {diagnostic.label}")
    if diagnostic.help:
        if span is not None:
            lines.append(f"{margin} |")
        lines += [f"{margin} = help: {text}" for text in diagnostic.help]
    # A message must be printable also if a name or a value in it is not.
    return "\n".join(lines).encode(errors="backslashreplace").decode()


def _excerpt(line: str, place: int, width: int) -> tuple[str, int, int]:
    """The part of a line to show, where the carets begin in it and how many there are. Long lines are cut round them."""
    width = max(1, min(width, len(line) - place))
    if len(line) <= LONGEST_LINE:
        return line, place, width
    width = min(width, LONGEST_LINE // 2)
    begin = max(0, place - LONGEST_LINE // 4)
    end = min(len(line), begin + LONGEST_LINE)
    before, after = "..." if begin > 0 else "", "..." if end < len(line) else ""
    return before + line[begin:end] + after, place - begin + len(before), width


def similar(name: object, known: Iterable[object]) -> tuple[str, ...]:
    """A help line that offers the known name nearest to this one, if one is near. What is not a text is near to nothing."""
    if not isinstance(name, str):
        return ()
    names = sorted({n for n in known if isinstance(n, str)})
    lowered = {n.lower(): n for n in reversed(names)}
    if name.lower() in lowered:
        return (f"names are case-sensitive; did you mean `{lowered[name.lower()]}`?",)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return (f"did you mean `{close[0]}`?",) if close else ()


def listing(names: Iterable[object], limit: int = 12) -> str:
    """Names in backticks for a help line, cut short when there are many."""
    all_names = list(names)
    shown = ", ".join(f"`{n}`" for n in all_names[:limit])
    return shown + (f" and {len(all_names) - limit} more" if len(all_names) > limit else "")
