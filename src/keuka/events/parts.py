"""Outputs in the making: a part stands beside its place under a name of its own, locked as long as its run lives.

A killed run leaves its part behind. The lock dies with the process, so the next run for the same place can tell an
abandoned part from one that is being written. Process ids cannot tell: in a container every run is process 1.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from keuka.errors import data_error

LOCK = "lock"  # the locked file of a part that is a directory; a part that is a file is locked itself


def resolve(path: str) -> Path:
    """The place that a path means: an output never replaces a symbolic link. A link to nothing is refused."""
    link = dangling_link(path)
    if link is not None:
        message = f"`{path}` cannot be written: `{link}` is a link to `{os.readlink(link)}`, which does not exist"
        raise data_error("K513", message, "make what the link leads to, or remove the link")
    return Path(os.path.realpath(path))


def dangling_link(path: str) -> str | None:
    """The symbolic link on the way of a path that leads to nothing, if there is one."""
    place = Path(path).absolute()
    links = [step for step in (place, *place.parents) if os.path.islink(step)]
    return next((str(link) for link in links if not os.path.exists(link)), None)


def new_part(folder: Path, name: str) -> Path:
    """A name that no other run has; a process id would come again."""
    return folder / f".{name}.{secrets.token_hex(6)}.part"


def parts_of(folder: Path, name: str) -> list[Path]:
    """What `new_part` has named. A folder that cannot be listed has no parts that we could remove."""
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.part")
    with contextlib.suppress(OSError):
        return [folder / entry for entry in sorted(os.listdir(folder)) if pattern.fullmatch(entry)]
    return []


def is_part(path: Path) -> bool:
    return re.fullmatch(r"\..*\.[0-9a-f]{12}\.part", path.name) is not None


def claim(part: Path) -> int | None:
    """A file descriptor with the lock of a part; None if a living run has the lock, or the file system does not say.

    Parts of other users are left alone. In a folder that all may write to, someone could make one with a false journal.
    """
    try:
        if part.stat().st_uid != os.geteuid():
            return None
        descriptor = os.open(part / LOCK, os.O_RDWR | os.O_CREAT, 0o666) if part.is_dir() else os.open(part, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def claimed(parts: Iterable[Path]) -> Iterator[list[Path]]:
    """Those of the parts that no living run has. They stay locked inside the block."""
    with contextlib.ExitStack() as locks:
        abandoned = []
        for part in parts:
            descriptor = claim(part)
            if descriptor is not None:
                locks.callback(os.close, descriptor)
                abandoned.append(part)
        yield abandoned


@contextlib.contextmanager
def locked(folders: Iterable[Path]) -> Iterator[None]:
    """Keeps other runs on this machine from making, publishing and removing parts of what is in these folders."""
    with contextlib.ExitStack() as locks:
        for folder in sorted(set(folders)):  # in one order, so that no two runs wait for each other
            with contextlib.suppress(OSError):  # a folder that cannot be listed
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def sync(path: Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk. Not every file system does so for directories."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)
