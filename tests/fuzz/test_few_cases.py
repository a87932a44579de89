"""The same cases as `make fuzz` tries, but fewer and always the same."""

from __future__ import annotations

import pytest

from . import FUZZERS
from .processes import fuzz

# How many cases, and what most of their outcomes begin with.
FEW = {"queries": 600, "data": 300, "snapshots": 1_500, "tables": 2_000}
USUAL = {"queries": ("K1", "match"), "data": ("run_match", "run_engine"), "snapshots": ("refused", "used"), "tables": ("refused", "used")}


@pytest.mark.parametrize("name", FEW)
def test_whatever_comes_from_outside_is_refused_or_can_be_used(name: str):
    report = fuzz(name, FUZZERS[name], FEW[name], seed=1)
    assert [f"case {failure.index}: {failure.what}" for failure in report.failures] == []
    assert report.n_tried == FEW[name]
    for usual in USUAL[name]:
        assert sum([n for what, n in report.outcomes.items() if what.startswith(usual)]) > FEW[name] // 30
