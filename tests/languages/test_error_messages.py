"""Every code a language can raise, as users see it: tests/golden/errors/<code>_<slug>/ holds query.cel or query.sase, and message.txt.

`pytest --rewrite-goldens` writes the messages anew; read the difference before it is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import keuka
from keuka.errors import EXPLANATIONS, QueryError
from keuka.languages.sets import lower_texts

from . import cel, sase

ERRORS = Path(__file__).parent.parent / "golden" / "errors"
STREAMS = {".cel": cel.STREAMS, ".sase": sase.STREAMS}
WARNINGS = "K32"  # the codes of warnings begin so; tests/plan/test_warnings.py has their messages
CASES = {
    suffix: sorted([query for query in ERRORS.glob(f"*/query{suffix}") if not query.parent.name.startswith(WARNINGS)]) for suffix in STREAMS
}
NOT_CEL = {"K220", "K304"}  # K220 needs rules of an engine, and CEL has no absence
ONLY_SASE = {"K304", "K308", "K309", "K310", "K311", "K312"}


def message_of(query: Path) -> str:
    read = keuka.cel if query.suffix == ".cel" else keuka.sase
    with pytest.raises(QueryError) as caught:
        lower_texts(read(query.read_text(), name=query.name).texts, STREAMS[query.suffix], {})
    return f"{caught.value}\n"


@pytest.mark.parametrize("query", [query for queries in CASES.values() for query in queries], ids=lambda query: query.parent.name)
def test_the_message_is_the_golden_one(query: Path, rewrite_goldens: bool):
    folder, message = query.parent, message_of(query)
    if rewrite_goldens:
        (folder / "message.txt").write_text(message)
    assert message == (folder / "message.txt").read_text()
    assert message.startswith(f"error[{folder.name[:4]}]: ")


def test_every_code_of_a_language_has_a_golden_message():
    codes = {code for code in EXPLANATIONS if "K101" <= code <= "K306"} - NOT_CEL
    assert codes == {query.parent.name[:4] for query in CASES[".cel"]}
    assert {query.parent.name[:4] for query in CASES[".sase"]} >= ONLY_SASE
