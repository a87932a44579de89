"""Sinks become visible together: killed and failed runs, runs at the same time, directories of others, links."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

import keuka
from keuka.cli import main
from keuka.events.sinks import opened
from keuka.pipelines import Input, Queries, Sink, staging

from .crashing import Crasher
from .market import LOWS, TICKS

N_ROWS = len(TICKS.splitlines()) - 1


def run(*sinks: Sink, version: int = 1) -> keuka.pipelines.Report:
    queries = [Queries(text="SELECT name, price + :version AS price FROM Stock", params={"version": version})]
    return keuka.Pipeline({"Stock": Input("csv", path="ticks.csv")}, queries, sinks).run(embedded=True)


def rows_of(version: int) -> list[float]:
    return [float(line.rpartition(",")[2]) + version for line in TICKS.splitlines()[1:]]


def content(path: str | Path) -> list[float] | None:
    """What readers see, who skip names with a dot; None if there is nothing."""
    if not Path(path).exists():
        return None
    files = sorted([file for file in Path(path).iterdir() if not file.name.startswith(".")])
    assert all(file.is_file() for file in files)
    return sorted([json.loads(line)["price"] for file in files for line in file.read_text().splitlines()])


def versions(path: str | Path) -> list[int] | None:
    """Which runs the content is made of; every run is there whole."""
    found = content(path)
    if found is None:
        return None
    for candidate in ([], [1], [2], [3], [1, 2], [1, 3], [2, 3], [1, 2, 3]):
        if found == sorted([row for version in candidate for row in rows_of(version)]):
            return candidate
    raise AssertionError(f"{path} holds parts of runs: {found}")


def leftovers(*folders: str | Path) -> list[str]:
    return [str(path) for folder in folders for path in Path(folder).rglob("*") if ".part" in str(path)]


@pytest.fixture
def crasher() -> Iterator[Crasher]:
    with contextlib.closing(Crasher()) as started:
        yield started


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system, where the machine has one."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    yield Path(folder)
    shutil.rmtree(folder)


# -- killed runs


def a_run_of_every_mode(crasher: Crasher, elsewhere: Path, version: int, kill_at: int = 0):
    return crasher.run(
        version,
        {"path": "replaced", "mode": "overwrite"},
        {"path": "new/one"},
        {"path": str(elsewhere / "added"), "mode": "append"},
        {"path": "first", "mode": "append"},
        {"path": "metrics", "of": "metrics", "mode": "overwrite"},
        kill_at=kill_at,
    )


def begin_anew(folder: Path, elsewhere: Path) -> None:
    """The state before a run: two of its sinks are there from a run of version 1."""
    for place in (folder, elsewhere):
        for entry in place.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
    for path in (folder / "replaced", elsewhere / "added"):
        path.mkdir()
        (path / ".keuka").touch()
        (path / "part-0.json").write_text("".join(f'{{"price": {row}}}\n' for row in rows_of(1)))


def state(elsewhere: Path) -> tuple[list[int] | None, ...]:
    return tuple([versions(path) for path in ("replaced", "new/one", elsewhere / "added", "first")])


BEFORE = ([1], None, [1], None)


def test_a_run_killed_at_any_change_is_taken_back_or_complete_after_the_next(crasher, folder, elsewhere):
    outcomes = []
    for kill_at in range(1, 1000):
        begin_anew(folder, elsewhere)
        if not a_run_of_every_mode(crasher, elsewhere, 2, kill_at).killed:
            break
        for old, new, found in zip(BEFORE, ([2], [2], [1, 2], [2]), state(elsewhere), strict=True):
            assert found in (old, new) or (old == [1] and found is None)  # between two moves, nothing is at the place
        error = a_run_of_every_mode(crasher, elsewhere, 3).error
        outcomes.append(error is None)
        if error is None:
            assert state(elsewhere) == ([3], [3], [1, 3], [3])
        else:  # the killed run counts, so its sink without `mode` exists
            assert error.startswith("error[K606]: the path of the sink exists already")
            assert state(elsewhere) == ([2], [2], [1, 2], [2])
        assert leftovers(folder, elsewhere) == []
    assert state(elsewhere) == ([2], [2], [1, 2], [2])
    assert outcomes == sorted(outcomes, reverse=True)  # there is one moment from which on a run counts
    assert outcomes.count(True) > 25
    assert outcomes.count(False) > 10


@pytest.mark.parametrize("sink", range(4))
def test_a_recovery_killed_at_any_change_is_completed_by_the_next_over_any_sink(crasher, folder, elsewhere, sink):
    n_kills = 0
    for kill_at in range(10 + sink, 1000, 4):  # every change after the first, for one of the sinks
        begin_anew(folder, elsewhere)
        if not a_run_of_every_mode(crasher, elsewhere, 2, kill_at).killed:
            break
        paths = ["replaced", "new/one", str(elsewhere / "added"), "first"]
        for kill_recovery_at in range(1, 1000):
            if not crasher.recover(paths[sink], kill_at=kill_recovery_at).killed:
                break
            n_kills += 1
        assert state(elsewhere) in (BEFORE, ([2], [2], [1, 2], [2]))
        crasher.recover(*paths, "metrics")
        assert state(elsewhere) in (BEFORE, ([2], [2], [1, 2], [2]))
        assert leftovers(folder, elsewhere) == []
    assert n_kills > 20


def test_a_killed_run_with_the_same_process_id_doubles_nothing(crasher, folder):
    sink = {"path": "out", "mode": "overwrite"}
    assert crasher.run(1, sink, kill_at=5).killed
    assert leftovers(folder)
    assert not crasher.run(1, sink).killed
    assert (versions("out"), leftovers(folder)) == ([1], [])


def test_a_check_knows_that_the_next_run_takes_back_what_is_half_there(crasher, folder):
    sinks = [{"path": "a"}, {"path": "b"}]
    kill_at = next(n for n in range(8, 100) if crasher.run(1, *sinks, kill_at=n).killed and Path("a").exists())
    assert versions("a") == [1]
    assert (versions("b"), bool(leftovers(folder))) == (None, True)
    pipeline = keuka.Pipeline({"Stock": Input("csv", path="ticks.csv")}, [Queries(text="SELECT name FROM Stock")], [Sink("json", path="a")])
    assert pipeline.check(embedded=True)
    assert versions("a") == [1], "a check changes nothing"
    assert crasher.run(2, *sinks).error is None
    assert (versions("a"), versions("b"), leftovers(folder), kill_at > 8) == ([2], [2], [], True)


def test_what_was_visible_is_not_lost_with_the_journal_of_the_first_sink(crasher, folder):
    run(Sink("json", path="b"), version=1)
    sinks = [{"path": "far/a"}, {"path": "b", "mode": "overwrite"}]
    for kill_at in range(8, 100):
        shutil.rmtree("far", ignore_errors=True)
        assert crasher.run(2, *sinks, kill_at=kill_at).killed
        if not Path("b").exists():
            break
    shutil.rmtree("far")
    assert crasher.recover("b").error is None
    assert (versions("b"), leftovers(folder)) == ([1], [])


@pytest.mark.parametrize(
    "journal",
    [
        "half a jour",
        '{"stages": 1}',
        '{"stages": [{"folder": ".", "added": null}, {"folder": "../../home", "added": null}]}',
        '{"stages": [{"folder": ".", "added": ["../../home/letter"]}]}',
    ],
)
def test_a_false_journal_moves_nothing(folder, journal):
    stage = Path(".out.0123456789ab.part")
    stage.mkdir()
    (stage / "journal").write_text(journal)
    with pytest.raises(keuka.DataError, match=r"K513.*journal` is no journal of Keuka"):
        run(Sink("json", path="out"))
    assert stage.exists()


def test_what_another_user_left_is_not_touched(crasher, folder, monkeypatch):
    assert crasher.run(1, {"path": "out"}, kill_at=5).killed
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    staging.recover(["out"])
    assert leftovers(folder)


# -- runs at the same time


def test_a_living_run_keeps_its_stage(folder):
    with staging.staging([]) as slow:
        stage = slow.stage(Sink("json", path="out", mode="overwrite"), "out")
        stage.mkdir()
        run(Sink("json", path="out", mode="overwrite"), version=2)
        assert stage.exists()
        (stage / "part.json").write_text("".join(f'{{"price": {row}}}\n' for row in rows_of(3)))
    assert (versions("out"), leftovers(folder)) == ([3], [])


def test_of_two_runs_that_make_one_directory_the_second_is_refused():
    slow = staging.Staging([])
    slow.stage(Sink("json", path="out"), "out")
    run(Sink("json", path="out"), version=1)
    with pytest.raises(keuka.PipelineError, match=r"K606.*exists already"):
        slow.publish()
    slow.close()
    assert versions("out") == [1]


def test_two_runs_append_to_one_directory_at_the_same_time(folder):
    with staging.staging([]) as slow:
        stage = slow.stage(Sink("json", path="out", mode="append"), "out")
        stage.mkdir()
        (stage / "part.json").write_text("".join(f'{{"price": {row}}}\n' for row in rows_of(2)))
        run(Sink("json", path="out", mode="append"), version=1)
    assert (versions("out"), leftovers(folder)) == ([1, 2], [])


def test_a_directory_to_which_another_run_is_adding_is_not_replaced(folder):
    run(Sink("json", path="out"), version=1)
    with staging.staging([]) as slow:
        stage = slow.stage(Sink("json", path="out", mode="append"), "out")
        with pytest.raises(keuka.PipelineError, match=r"K606.*another run is adding"):
            run(Sink("json", path="out", mode="overwrite"), version=2)
        stage.mkdir()
        (stage / "part.json").write_text("".join(f'{{"price": {row}}}\n' for row in rows_of(3)))
    assert (versions("out"), leftovers(folder)) == ([1, 3], [])


# -- runs that fail


def failing_rename(monkeypatch: pytest.MonkeyPatch, *fails: str) -> None:
    """Moves to places with these names fail, as on a disk that has become read-only."""
    rename = os.rename

    def move(source: str | Path, target: str | Path) -> None:
        if any(Path(path).name in fails for path in (source, target)):
            raise OSError(30, "Read-only file system")
        rename(source, target)

    monkeypatch.setattr(os, "rename", move)


def test_a_run_that_cannot_move_a_sink_takes_back_the_others(folder, monkeypatch):
    run(Sink("json", path="a"), version=1)
    failing_rename(monkeypatch, "c")
    with pytest.raises(keuka.DataError) as raised:
        run(Sink("json", path="a", mode="overwrite"), Sink("json", path="b"), Sink("json", path="c"), version=2)
    assert str(raised.value) == f"error[K513]: `{folder / 'c'}` cannot be written: Read-only file system"
    assert (versions("a"), versions("b"), versions("c"), leftovers(folder)) == ([1], None, None, [])


def test_a_run_that_cannot_take_back_says_what_is_visible_and_the_next_takes_it_back(folder, monkeypatch):
    run(Sink("json", path="a"), version=1)
    with monkeypatch.context() as patch:
        failing_rename(patch, "c")
        patch.setattr(staging._Stage, "take_back", lambda stage: os.rename(stage.target, stage.folder / "c"))
        with pytest.raises(keuka.DataError) as raised:
            run(Sink("json", path="a", mode="overwrite"), Sink("json", path="c"), version=2)
    assert raised.value.diagnostics[0].help == (
        f"visible already: `query_1` in `{folder / 'a'}`; not visible: `query_1` in `{folder / 'c'}`",
    )
    assert versions("a") == [2]
    staging.recover(["c"])
    assert (versions("a"), leftovers(folder)) == ([1], [])


@pytest.mark.parametrize("path", ["x" * 300, "x" * 250, "a\0b"])
def test_names_that_no_directory_can_have_are_refused(folder, path):
    for mode in ("error", "overwrite", "append"):
        with pytest.raises(keuka.KeukaError, match="K603"):
            run(Sink("json", path=path, mode=mode))
    assert leftovers(folder) == []


def test_an_interrupt_while_sinks_become_visible_takes_them_back(folder, monkeypatch):
    move_in = staging._Stage.move_in

    def interrupted(stage: staging._Stage) -> None:
        move_in(stage)
        if stage.target.name == "b":
            raise KeyboardInterrupt

    monkeypatch.setattr(staging._Stage, "move_in", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(Sink("json", path="a"), Sink("json", path="b"))
    assert (versions("a"), versions("b"), leftovers(folder)) == (None, None, [])


# -- directories of others


@pytest.mark.parametrize("embedded", [True, False])
def test_a_directory_that_no_run_wrote_is_not_overwritten(pipeline_file, embedded):
    Path("photos").mkdir()
    Path("photos/summer.jpg").touch()
    sink = Sink("json", path="photos", mode="overwrite")
    pipeline = keuka.Pipeline({"Stock": Input("csv", path="ticks.csv")}, [Queries(file="rise.cel")], [sink])
    for refuse in (pipeline.check, pipeline.run):
        with pytest.raises(keuka.PipelineError, match=r"K606.*a directory that Keuka did not write"):
            refuse(embedded=embedded)
    assert [path.name for path in Path("photos").iterdir()] == ["summer.jpg"]
    Path("photos/.keuka").touch()
    assert pipeline.check(embedded=embedded)


def test_what_a_run_wrote_is_overwritten_and_an_empty_directory_too(folder):
    Path("out").mkdir()
    for version in (1, 2, 3):
        run(Sink("json", path="out", mode="overwrite"), version=version)
        assert versions("out") == [version]


def test_appending_does_not_make_a_directory_ours():
    Path("out").mkdir()
    Path("out/theirs.json").write_text("")
    run(Sink("json", path="out", mode="append"))
    assert not Path("out/.keuka").exists()
    with pytest.raises(keuka.PipelineError, match=r"K606"):
        run(Sink("json", path="out", mode="overwrite"))


def test_a_directory_that_begins_with_an_append_can_be_overwritten():
    Path("empty").mkdir()
    for path in ("empty", "new"):
        run(Sink("json", path=path, mode="append"), version=1)
        run(Sink("json", path=path, mode="append"), version=2)
        assert versions(path) == [1, 2]
        run(Sink("json", path=path, mode="overwrite"), version=3)
        assert versions(path) == [3]


def test_the_marker_is_no_file_of_the_data():
    run(Sink("parquet", path="out"))
    assert pyarrow.parquet.read_table("out").num_rows == N_ROWS
    assert ".keuka" in os.listdir("out")


# -- links


def test_a_link_as_a_sink_is_followed_and_stays(folder):
    Path("disk/deep").mkdir(parents=True)
    os.symlink("disk/deep", "link")
    os.symlink("disk", "way")
    for version in (1, 2):
        run(Sink("json", path="link", mode="overwrite"), Sink("json", path="way/other", mode="overwrite"), version=version)
        assert os.readlink("link") == "disk/deep"
        assert versions("disk/deep") == versions("disk/other") == [version]
    assert leftovers(folder) == []


def test_a_link_to_nothing_is_refused():
    os.symlink("gone", "link")
    for path in ("link", "link/out"):
        with pytest.raises(keuka.PipelineError, match=r"K606.*leads through the link `.*link` to `gone`, which does not exist"):
            run(Sink("json", path=path))
    assert os.path.islink("link")


def test_a_link_to_the_directory_of_the_pipeline_is_seen_through(folder):
    os.symlink(folder, "link")
    with pytest.raises(keuka.PipelineError, match=r"K606.*the directory of the pipeline"):
        run(Sink("json", path="link", mode="overwrite"))


# -- single files


def test_a_file_that_is_a_link_is_written_where_the_link_leads(folder, capsys):
    Path("disk").mkdir()
    Path("disk/found.parquet").touch()
    os.symlink("disk/found.parquet", "link.parquet")
    assert main(["match", "rise.cel", "ticks.csv", "--out", "link.parquet"]) == 0
    assert os.readlink("link.parquet") == "disk/found.parquet"
    assert pyarrow.parquet.read_table("disk/found.parquet").num_rows == len(LOWS)
    os.symlink("gone.parquet", "dangling.parquet")
    assert main(["match", "rise.cel", "ticks.csv", "--out", "dangling.parquet"]) == 3
    assert "is a link to `gone.parquet`, which does not exist" in capsys.readouterr().err
    assert leftovers(folder) == []


def test_a_killed_match_leaves_the_old_file_and_the_next_removes_what_it_left(crasher, folder):
    Path("found.csv").write_text("old")
    assert crasher.match("found.csv", kill_at=1).killed
    assert Path("found.csv").read_text() == "old"
    assert len(leftovers(folder)) == 1
    assert not crasher.match("found.csv").killed
    assert len(Path("found.csv").read_text().splitlines()) == 1 + len(LOWS)
    assert leftovers(folder) == []


def test_a_living_match_keeps_its_part(folder):
    with opened("found.csv") as file:
        file.write(b"slow")
        assert main(["match", "rise.cel", "ticks.csv", "--out", "found.csv"]) == 0
        (part,) = leftovers(folder)
        with open(part, "rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert Path("found.csv").read_text() == "slow"
    assert leftovers(folder) == []
