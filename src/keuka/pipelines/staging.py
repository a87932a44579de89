"""Sinks that are directories on this machine: written beside their places, and visible all at once or not at all.

Each sink is written into a stage: a hidden directory beside its place, or inside of it where files are added.

    .out.4f1d0c2a9b3e.part/
        lock      locked as long as the run lives
        data/     what will be visible
        old/      what was visible before
        journal   the stages of the run, and which files each adds

Every stage has its journal before the first sink becomes visible. The run counts from the moment in which the journal of
the first stage is gone. As long as that is there, the next run over any of the sinks takes all of them back (decision 18).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keuka.diagnostics import Diagnostic
from keuka.errors import KeukaError, PipelineError, data_error
from keuka.events.parts import claim, claimed, is_part, locked, new_part, parts_of, resolve, sync
from keuka.pipelines.values import Sink

DATA, OLD, JOURNAL = "data", "old", "journal"
# Spark, Hive and pyarrow read no file whose name begins with a dot.
MARKER = ".keuka"
# The name of stages inside the directory of a sink: none, because a sink in that directory has stages of its name there.
INSIDE = ""


@dataclass(frozen=True)
class _Stage:
    """A sink in the making, as its journal describes it."""

    folder: Path
    added: tuple[str, ...] | None = None  # the files that are added to the target; None if the target is replaced

    @property
    def target(self) -> Path:
        """The place of the sink. The name of the stage says it, so that no journal can name a foreign place."""
        name = self.folder.name[1:].rsplit(".", 2)[0]
        return self.folder.parent if name == INSIDE else self.folder.parent / name

    def move_in(self) -> None:
        """Makes the sink visible."""
        if self.added is not None:
            for name in self.added:
                os.rename(self.folder / DATA / name, self.target / name)
            return
        if self.target.exists():
            os.rename(self.target, self.folder / OLD)
        os.rename(self.folder / DATA, self.target)

    def take_back(self) -> None:
        """Undoes `move_in`, as far as it got. Taking back may be interrupted anywhere, and begin again."""
        if self.added is not None:
            for name in self.moved():
                (self.target / name).unlink(missing_ok=True)
        elif self.is_visible():
            os.rename(self.target, self.folder / DATA)
        self.restore_old()

    def restore_old(self) -> None:
        if (self.folder / OLD).exists() and not self.target.exists():
            os.rename(self.folder / OLD, self.target)

    def moved(self) -> list[str]:
        return [name for name in self.added or () if not (self.folder / DATA / name).exists()]

    def is_visible(self) -> bool:
        if self.added is not None:
            return bool(self.moved())
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return _id(self.folder) in (self.target / MARKER).read_text(encoding="utf-8")
        return False

    def sync(self) -> None:
        for folder in (self.folder, self.target, self.target.parent):
            if folder.exists():
                sync(folder)


class Staging:
    """The sinks of one run. `sinks` are all that are written, also those that Spark writes by itself."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = sinks
        self.visible: list[Sink] = []
        self._staged: list[tuple[Sink, _Stage]] = []
        self._locks: list[int] = []
        self._made: list[Path] = []

    def stage(self, sink: Sink, path: str) -> Path:
        """A directory that the caller makes and fills. It becomes visible as `path` with all others."""
        target = resolve(path)
        self._made += [folder for folder in target.parents if not os.path.exists(folder)]
        make_directory(target.parent)
        with _explained(target), locked([target.parent]):
            # The directory to which files are added may be the root of a disk, with nothing beside it.
            inside = sink.mode == "append" and target.is_dir()
            folder = new_part(target, INSIDE) if inside else new_part(target.parent, target.name)
            folder.mkdir()
            self._staged.append((sink, _Stage(folder)))
            descriptor = claim(folder)
            self._locks += [] if descriptor is None else [descriptor]
        return folder / DATA

    def publish(self) -> None:
        """Makes every sink visible, or none."""
        recover([stage.target for _, stage in self._staged])
        with locked([stage.target.parent for _, stage in self._staged]):
            self._staged = [(sink, _complete(stage, sink.mode)) for sink, stage in self._staged]
            stages = [stage for _, stage in self._staged]
            try:
                _write_journals(stages)
                for stage in stages:
                    with _explained(stage.target):
                        stage.move_in()
                        stage.sync()
                _remove_journal(stages)
            except BaseException:
                _undo(stages)
                raise
            self.visible += [sink for sink, _ in self._staged]

    def close(self) -> None:
        """Removes what is not visible. Where sinks could not be taken back, their journals stay for the next run."""
        stages = [stage for _, stage in self._staged]
        if not _is_valid(stages):
            for stage in reversed(stages):
                _remove(stage.folder)
            for folder in self._made:
                with contextlib.suppress(OSError):  # something is in it
                    folder.rmdir()
        for descriptor in self._locks:
            os.close(descriptor)
        self.visible += [sink for sink, stage in self._staged if _is_valid(stages) and stage.is_visible()]

    def explain(self, error: BaseException) -> BaseException:
        """The error, and which sinks are visible where others are not."""
        hidden = [sink for sink in self.sinks if not any(sink is one for one in self.visible)]
        if not self.visible or not hidden:
            return error
        note = f"visible already: {_named(self.visible)}; not visible: {_named(hidden)}"
        if not isinstance(error, KeukaError):
            error.add_note(note)
            return error
        first, *others = error.diagnostics
        return type(error)(replace(first, help=(*first.help, note)), *others)


@contextlib.contextmanager
def staging(sinks: Sequence[Sink]) -> Iterator[Staging]:
    """Sinks are staged inside the block, and become visible at its end if all went well."""
    staged = Staging(sinks)
    try:
        try:
            yield staged
            staged.publish()
        finally:
            staged.close()
    except BaseException as error:
        explained = staged.explain(error)
        if explained is error:
            raise
        raise explained from error.__cause__


def recover(paths: Iterable[str | Path]) -> None:
    """Takes back what killed runs made visible in part, and removes what else they left at these sinks."""
    for target in [Path(os.path.realpath(path)) for path in paths]:
        folders = {target.parent}
        while True:
            with _explained(target), locked(folders), claimed(_parts(target)) as abandoned:
                journals = [_read_journal(part) for part in abandoned]
                needed = {stage.target.parent for stages in journals for stage in stages}
                if needed <= folders:
                    for part, stages in zip(abandoned, journals, strict=True):
                        _undo(stages)
                        for folder in [*[stage.folder for stage in reversed(stages)], part]:
                            _remove(folder)
                    break
            folders |= needed  # another file system, for instance; all folders are locked in one order


def is_half_published(path: str) -> bool:
    """Will the next run take back what is visible here?"""
    with claimed(_parts(Path(os.path.realpath(path)))) as abandoned:
        return any(_is_valid(_read_journal(part)) for part in abandoned)


def find_obstacle(path: str | Path, mode: str) -> tuple[str, ...] | None:
    """Why a sink cannot be written to a path, and the remedies."""
    if not os.path.exists(path):
        return None
    if not os.path.isdir(path):
        return "the path of the sink is a file, not a directory", "name a directory; it is made if it is missing"
    target = Path(os.path.realpath(path))
    entries = {*os.listdir(target)} - {part.name for part in parts_of(target, INSIDE)}
    if mode == "error" and entries:
        return "the path of the sink exists already", 'say what is to be done: `mode = "overwrite"` or `mode = "append"`'
    if mode == "overwrite" and entries and MARKER not in entries:
        return (
            "the sink would overwrite a directory that Keuka did not write",
            "delete the directory yourself, or name another path",
            f"if an older version of Keuka wrote the directory, add an empty file `{MARKER}` to it",
        )
    return None


def make_directory(path: Path) -> None:
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)


# -- the steps of publishing -------------------------------------------------------------------------------------------


def _complete(stage: _Stage, mode: str) -> _Stage:
    """The stage with its marker and everything on the disk, if the target is still as it must be."""
    data, target = stage.folder / DATA, stage.target
    obstacle = find_obstacle(target, mode)
    adds = mode == "append" and target.exists()
    rivals = [part for part in parts_of(target, INSIDE) if part != stage.folder]
    if obstacle is None and not adds and rivals:
        obstacle = "another run is adding to the directory of the sink", "run this one again when the other has ended"
    if obstacle is not None:
        raise PipelineError(Diagnostic("K606", obstacle[0], label=f"`{target}`", help=obstacle[1:]))
    text = f'Keuka wrote this directory. A run with mode = "overwrite" replaces the directory.\n{_id(stage.folder)}\n'
    with _explained(target):
        data.mkdir(exist_ok=True)
        (data / MARKER).write_text(text, encoding="utf-8")
        for folder, _, files in os.walk(data):
            for path in (*files, ""):
                sync(Path(folder, path))
    if not adds:
        return stage
    marked = {MARKER} if {*os.listdir(target)} - {part.name for part in parts_of(target, INSIDE)} else set()
    added = [name for name in sorted(os.listdir(data)) if name not in marked and not name.startswith(("_", "._"))]
    return replace(stage, added=tuple(added))


def _write_journals(stages: Sequence[_Stage]) -> None:
    """The first stage's comes last, because it makes the others valid.

    Folders are relative to the journal: the next container may mount the sinks elsewhere.
    """
    for stage in reversed(stages):
        lines = [{"folder": os.path.relpath(one.folder, stage.folder), "added": one.added} for one in stages]
        with _explained(stage.target):
            unfinished = stage.folder / f"{JOURNAL}.part"
            unfinished.write_text(json.dumps({"stages": lines}), encoding="utf-8")
            sync(unfinished)
            os.rename(unfinished, stage.folder / JOURNAL)
            sync(stage.folder)


def _read_journal(folder: Path) -> list[_Stage]:
    try:
        text = (folder / JOURNAL).read_text(encoding="utf-8")
    except OSError:  # there is none
        return []
    try:
        lines = [(line["folder"], line["added"]) for line in json.loads(text)["stages"]]
        stages = [_Stage(Path(os.path.normpath(folder / path)), None if added is None else tuple(added)) for path, added in lines]
        names = [name for stage in stages for name in stage.added or ()]
        if all(is_part(stage.folder) for stage in stages) and all(name == os.path.basename(name) for name in names):
            return stages
    except (ValueError, LookupError, TypeError):
        pass
    raise data_error("K513", f"`{folder / JOURNAL}` is no journal of Keuka", f"look into `{folder}`, and remove it")


def _is_valid(stages: Sequence[_Stage]) -> bool:
    """Must these stages be taken back?"""
    return bool(stages) and (stages[0].folder / JOURNAL).exists()


def _remove_journal(stages: Sequence[_Stage]) -> None:
    if stages:
        (stages[0].folder / JOURNAL).unlink()
        sync(stages[0].folder)


def _undo(stages: Sequence[_Stage]) -> None:
    if _is_valid(stages):
        for stage in reversed(stages):
            with _explained(stage.target):
                stage.take_back()
                stage.sync()
        _remove_journal(stages)


def _remove(part: Path) -> None:
    """Removes a stage, or an unfinished file, that nobody needs any more."""
    if not part.is_dir():
        part.unlink(missing_ok=True)
        return
    for stage in _read_journal(part):
        if stage.folder == part:
            stage.restore_old()  # where the first stage is out of reach, what was visible is not lost with the others
    (part / JOURNAL).unlink(missing_ok=True)  # before what it speaks of
    shutil.rmtree(part, ignore_errors=True)


def _parts(target: Path) -> list[Path]:
    return parts_of(target.parent, target.name) + parts_of(target, INSIDE)


def _id(folder: Path) -> str:
    return folder.name.split(".")[-2]


def _named(sinks: Sequence[Sink]) -> str:
    places = [f" in `{sink.path}`" if sink.path else f" as {sink.format}" for sink in sinks]
    return ", ".join([f"`{sink.of}`{place}" for sink, place in zip(sinks, places, strict=True)])


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise data_error("K513", f"`{path}` cannot be written: {error.strerror or error}") from error
