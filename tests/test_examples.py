"""The programs of `examples/` that are quick enough to be run by a test."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_shop_finds_every_planted_case_and_nothing_else(capsys: pytest.CaptureFixture[str]):
    main = runpy.run_path(str(EXAMPLES / "shoplifting.py"))["main"]
    assert main() == 0
    verdicts = [line for line in capsys.readouterr().out.splitlines() if "planted" in line]
    assert verdicts == [f"{n} of {n} planted cases found, 0 false alarms" for n in (90, 135, 87)]
