"""Directories that appear, or change, only when everything in them is written."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from keuka.errors import data_error


@contextlib.contextmanager
def staged(path: str) -> Iterator[Path]:
    """A directory that the caller makes and fills. It takes the place of `path` if all went well."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    before = target.with_name(f".{target.name}.{os.getpid()}.old")
    make_directory(target.parent)
    try:
        yield beside
        if target.exists():
            target.replace(before)
        beside.replace(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if before.exists() and not target.exists():
            before.replace(target)
        shutil.rmtree(before, ignore_errors=True)


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise data_error("K513", f"`{path}` cannot be written: {error.strerror or error}") from error
