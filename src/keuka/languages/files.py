"""Query files: which texts are paths, and the parsed texts of a file or of a directory of query files.

A text is data and a path opens a file: whoever may write a query must not read files with it. A path object is always a path;
of a text only its end can say that it is one.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

from keuka.diagnostics import Diagnostic, SourceText
from keuka.errors import QueryError
from keuka.languages.sets import LANGUAGES, Text, Texts

MOST_BYTES = 16_000_000  # of a file that a text names; who gives a path object has chosen the file
AS_TEXT = "if this is the text of a query, say its language: `language=`"


def is_path(path_or_text: str | os.PathLike[str], language: str | None) -> bool:
    """A path object always is; a text if it ends in the suffix of a language or in `/`, unless `language=` is given."""
    if not isinstance(path_or_text, str):
        return True
    if language is not None or "\n" in path_or_text or path_or_text.endswith("*/"):  # which ends a comment
        return False
    return path_or_text.endswith(_ends())


def read_texts(path_or_text: str | os.PathLike[str], language: str | None) -> Texts:
    """The parsed texts of a query file, or of all query files of a directory in the order of their names."""
    is_text = isinstance(path_or_text, str)
    path = Path(path_or_text)
    if "\0" in str(path):
        raise _no_query(f"the query file {str(path)!a} cannot be read: the name of a file has no NUL")
    suffixes = {LANGUAGES[one].suffix: one for one in ([language] if language else LANGUAGES)}
    files = sorted([file for suffix in suffixes for file in path.glob(f"*{suffix}")]) if os.path.isdir(path) else [path]
    known = " or ".join([f"`*{suffix}`" for suffix in suffixes])
    if not files:
        raise _no_query(f"there is no query file ({known}) in `{path}`")
    if language is None and files[0].suffix not in suffixes:
        has_blanks = any(blank in str(path) for blank in " \n\t")
        remedy = f"write the text of the query into a file {known}" if has_blanks else f"name it {known}, or say `language=`"
        raise _no_query(f"the language of `{path}` is not known from its name", remedy)
    texts = [(SourceText(str(file), _read(file, is_text)), language or suffixes[file.suffix]) for file in files]
    return tuple([Text(LANGUAGES[of].parse(source), of) for source, of in texts])


def explain_paths(error: QueryError, text: str, language: str | None) -> QueryError:
    """The error of a text that is no query, with the right spelling if the text seems to be meant as a path."""
    is_word = not any(c.isspace() for c in text)
    if language is not None:
        seems_path = is_word and text.endswith(_ends())  # the file system is not asked
    else:
        seems_path = (is_word and ("/" in text or "." in text)) or ("\n" not in text and os.path.exists(text))
    if not seems_path:
        return error
    as_path = f'`Path("{text}")`'
    spelling = as_path if text.endswith(_ends()) else f"`{text}/` for a directory, or {as_path}"
    first, *others = error.diagnostics
    return QueryError(replace(first, help=(*first.help, f"a text is not a path; if a path is meant, write {spelling}")), *others)


def _ends() -> tuple[str, ...]:
    return ("/", *[language.suffix for language in LANGUAGES.values()])


def _read(file: Path, is_text: bool) -> str:
    try:
        with open(file, "rb", opener=_open_regular) as opened:
            content = opened.read(MOST_BYTES + 1 if is_text else -1)
    except OSError as error:
        why = "it does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        help = (AS_TEXT,) if is_text and " " in str(file) else ()
        raise _no_query(f"the query file `{file}` cannot be read: {why}", *help) from error
    if is_text and len(content) > MOST_BYTES:
        remedy = f'if it is a query, give its path as a path object: `Path("{file}")`'
        raise _no_query(f"the query file `{file}` is larger than 16 MB", remedy)
    try:
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise QueryError(Diagnostic("K102", f"the query file `{file}` is not UTF-8 text", help=(str(error),))) from error


def _open_regular(path: str, flags: int) -> int:
    """Opens nothing but a regular file: a pipe would wait for a writer, and a device may act when it is opened."""
    _check_regular(os.stat(path))
    # Another kind of file may have taken its place since.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check_regular(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it is not a regular file")


def _no_query(message: str, *help: str) -> QueryError:
    return QueryError(Diagnostic("K104", message, help=help))
