"""The codes SASE raises for reasons of its own, as users see them: tests/golden/errors/<code>_<slug>/ holds query.sase and message.txt.

`pytest --rewrite-goldens` writes the messages anew; read the difference before it is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from keuka.diagnostics import SourceText
from keuka.errors import QueryError
from keuka.languages.sase.lower import lower
from keuka.languages.sase.syntax import parse

from .sase import STREAMS
from .test_error_messages import ERRORS

CASES = sorted([folder for folder in ERRORS.iterdir() if (folder / "query.sase").exists()])
OWN = {"K304", "K308", "K309", "K310", "K311", "K312"}


def message_of(query: Path) -> str:
    with pytest.raises(QueryError) as caught:
        lower((parse(SourceText(query.name, query.read_text())),), STREAMS, {})
    return f"{caught.value}\n"


@pytest.mark.parametrize("folder", CASES, ids=[folder.name for folder in CASES])
def test_the_message_is_the_golden_one(folder: Path, rewrite_goldens: bool):
    message = message_of(folder / "query.sase")
    if rewrite_goldens:
        (folder / "message.txt").write_text(message)
    assert message == (folder / "message.txt").read_text()
    assert message.startswith(f"error[{folder.name[:4]}]: ")


def test_every_code_of_its_own_has_a_golden_message():
    assert {folder.name[:4] for folder in CASES} >= OWN
