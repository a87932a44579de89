"""Snapshots that earlier versions wrote: every one of them goes on in this version as if nothing had happened."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import keuka

FOLDER = Path(__file__).parents[1] / "golden" / "snapshots"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_snapshot", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.snapshot")), ids=lambda path: path.stem)
def test_a_snapshot_of_an_earlier_version_goes_on(path: Path):
    make = maker()
    uninterrupted, resumed = make.first_half(), keuka.Engine()
    resumed.restore(path.read_bytes())
    assert resumed.rules["rules"].live_instances == uninterrupted.rules["rules"].live_instances > 10
    expected = make.push(uninterrupted, range(60, 120)) + uninterrupted.close().to_pylist()
    assert make.push(resumed, range(60, 120)) + resumed.close().to_pylist() == expected
    assert {row["_query"] for row in expected} == {"rules.Rebound", "rules.Noted"}
    assert all(len(row["_contributors"]) >= 2 for row in expected)


def test_the_version_of_today_has_a_snapshot():
    assert (FOLDER / "version_1.snapshot").exists()
