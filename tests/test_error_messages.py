"""Messages about data and tables as users see them: tests/golden/errors/<code>_<slug>/ holds case.py and message.txt.

Together with the queries of tests/languages every code has one, and `docs/errors.md` shows them. `pytest --rewrite-goldens` writes
the messages anew; read the difference before it is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import keuka
from keuka.errors import EXPLANATIONS

ERRORS = Path(__file__).parent / "golden" / "errors"
CASES = sorted([folder for folder in ERRORS.iterdir() if (folder / "case.py").exists()])
# A bug of our own, and a file that cannot be written, are messages of the command line (tests/test_cli.py); K608 is Spark's (tests/spark).
ELSEWHERE = {"K517", "K608", "K901"}


@pytest.mark.parametrize("folder", CASES, ids=[folder.name for folder in CASES])
def test_the_message_is_the_golden_one(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrite_goldens: bool):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(keuka.KeukaError) as raised:
        exec(compile((folder / "case.py").read_text(), folder.name, "exec"), {})
    message = f"{raised.value}\n"
    if rewrite_goldens:
        (folder / "message.txt").write_text(message)
    assert message == (folder / "message.txt").read_text()
    assert message.startswith(f"error[{folder.name[:4]}]: ")


def test_every_code_has_a_golden_message():
    assert set(EXPLANATIONS) - ELSEWHERE == {folder.name[:4] for folder in ERRORS.iterdir()}
