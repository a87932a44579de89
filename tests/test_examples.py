"""The demo, without Spark: a test of `tests/spark` shows that the two give the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_demo_finds_every_planted_case_and_nothing_else_and_draws_a_match(tmp_path: Path):
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "examples/demo.py", "--embedded"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    verdicts = [line for line in done.stdout.splitlines() if "planted" in line]
    assert verdicts == [
        "Shoplifting: 90 of 90 planted cases found, 0 false alarms",
        "Misplaced: 135 of 135 planted cases found, 0 false alarms",
        "Repeated-Overstay: 87 of 87 planted cases found, 0 false alarms",
        "Rebound: 50 found; 40 forced sales that end in one were planted",
    ]
    assert "DoubleTop: 13 matches" in done.stdout
    assert (tmp_path / "out" / "demo" / "rebound.png").stat().st_size > 10_000
