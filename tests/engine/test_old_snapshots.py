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


@pytest.mark.parametrize("path", sorted(FOLDER.glob("version_*.snapshot")), ids=lambda path: path.stem)
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


@pytest.mark.parametrize("has_rules", [False, True])
def test_rules_of_an_earlier_version_that_read_each_other_go_on(has_rules: bool, caplog: pytest.LogCaptureFixture):
    """Their ids stay as they were: what is pushed again after a restart must not look new."""
    make = maker()
    uninterrupted, resumed = make.first_half_of_readers(), make.readers() if has_rules else keuka.Engine()
    if has_rules:
        resumed.push("Ticks", make.ticks(range(1)))
    resumed.restore((FOLDER / "readers_version_1.snapshot").read_bytes())
    assert caplog.messages == []
    for name in make.READERS:
        assert resumed.rules[name].live_instances == uninterrupted.rules[name].live_instances
    resumed.add("SELECT third FROM Trips UNION Trips", name="late", contributors=True)
    uninterrupted.add("SELECT third FROM Trips UNION Trips", name="late", contributors=True)
    found, expected = [engine.push("Ticks", make.ticks(range(60, 120))).to_pylist() for engine in (resumed, uninterrupted)]
    assert [without_id(row) for row in found] == [without_id(row) for row in expected]
    assert {row["_query"] for row in found} == {*make.READERS, "late"}
    assert len({row["_id"] for row in found}) == len(found)
    of_source = [{row["_id"] for row in rows if row["_query"] == "Busy"} for rows in (found, expected)]
    assert of_source[0] == of_source[1]


def without_id(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != "_id"}
