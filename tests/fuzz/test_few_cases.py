"""The same damage as `make fuzz` does, but less of it and always the same."""

from __future__ import annotations

import pytest

from .fuzz import TARGETS, fuzz


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_bytes_are_refused_or_can_be_used(name: str):
    report = fuzz(name, 3_000, seed=1)
    assert [f"damage {failure.index}: {failure.what}" for failure in report.failures] == []
    assert report.n_tried == 3_000
    assert sum([n for what, n in report.outcomes.items() if what.startswith("refused")]) > 1_000
    assert sum([n for what, n in report.outcomes.items() if what.startswith("used")]) > 100
