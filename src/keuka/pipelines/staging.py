"""Directories that appear, or change, only when everything in them is written."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from keuka.errors import DataError, data_error


@contextlib.contextmanager
def staged(path: str) -> Iterator[Path]:
    """A directory that the caller makes and fills. It takes the place of `path` if all went well."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    before = target.with_name(f".{target.name}.{os.getpid()}.old")
    missing = [folder for folder in target.parents if not folder.exists()]
    make_directory(target.parent)
    try:
        yield beside
        try:
            if target.exists():
                target.replace(before)
            beside.replace(target)
        except OSError as error:
            raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        with contextlib.suppress(OSError):
            if before.exists() and not target.exists():
                before.replace(target)
        if target.exists():
            shutil.rmtree(before, ignore_errors=True)
        else:
            for folder in missing:
                with contextlib.suppress(OSError):  # something else is in it
                    folder.rmdir()


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return data_error("K513", f"`{path}` cannot be written: {error.strerror or error}")
