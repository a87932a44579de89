"""Every code CEL can raise, as users see it: tests/golden/errors/<code>_<slug>/ holds query.cel and message.txt.

`pytest --rewrite-goldens` writes the messages anew; read the difference before it is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from keuka.diagnostics import SourceText
from keuka.errors import EXPLANATIONS, QueryError
from keuka.languages.cel.lower import lower
from keuka.languages.cel.syntax import parse

from .cel import STREAMS

ERRORS = Path(__file__).parent.parent / "golden" / "errors"
CASES = sorted([folder for folder in ERRORS.iterdir() if (folder / "query.cel").exists()])
NOT_CEL = {"K304"}  # CEL has no absence


def message_of(query: Path) -> str:
    with pytest.raises(QueryError) as caught:
        lower((parse(SourceText(query.name, query.read_text())),), STREAMS, {})
    return f"{caught.value}\n"


@pytest.mark.parametrize("folder", CASES, ids=[folder.name for folder in CASES])
def test_the_message_is_the_golden_one(folder: Path, rewrite_goldens: bool):
    message = message_of(folder / "query.cel")
    if rewrite_goldens:
        (folder / "message.txt").write_text(message)
    assert message == (folder / "message.txt").read_text()
    assert message.startswith(f"error[{folder.name[:4]}]: ")


def test_every_code_of_the_language_has_a_golden_message():
    codes = {code for code in EXPLANATIONS if "K101" <= code <= "K306"} - NOT_CEL
    assert codes == {folder.name[:4] for folder in CASES}
