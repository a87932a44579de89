"""The environment of executors as one archive (`keuka pack`): this Python, Keuka and what it needs come in, a .tar.gz goes out.

Spark unpacks it beside each executor (`spark.archives=OUT.tar.gz#environment`) and starts `./environment/bin/python` there. Nothing of
it depends on where it lies. PySpark is left out: executors have their own, of the cluster's version.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
import tarfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path, PurePosixPath

from keuka.errors import data_error
from keuka.events.sinks import opened

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LIBRARY = PurePosixPath(sys.platlibdir, PYTHON)
# Folders of the standard library that no executor uses, and those of any package.
UNUSED_LIBRARY = {"site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"}
UNUSED = {"__pycache__", "tests", "include"}

Entry = tuple[PurePosixPath, Path | bytes]  # the place in the archive, and the file or text that goes there

# Python finds its library beside itself, but a shared libpython is looked for where it was built.
START = """\
#!/bin/sh
home=$(cd "${{0%/*}}/.." && pwd)
export LD_LIBRARY_PATH="$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$home/bin/{python}" "$@"
"""


@dataclass(frozen=True)
class Packed:
    """What an archive holds, with versions, and its size."""

    python: str
    packages: tuple[str, ...]
    n_bytes: int


def pack(archive: str) -> Packed:
    """Writes the archive; one that is there already is replaced when the new one is whole."""
    packages = sorted(closure("keuka"), key=lambda package: package.name.lower())
    try:
        with opened(archive) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=3, dereference=True) as tar:
            library = walk(Path(sysconfig.get_path("stdlib")), LIBRARY, UNUSED_LIBRARY | UNUSED)
            for entry in (*interpreter(), *library, *[entry for package in packages for entry in files_of(package)]):
                _add(tar, *entry)
    except OSError as error:
        raise data_error("K513", f"`{archive}` cannot be written: {error.strerror or error}") from error
    return Packed(platform.python_version(), tuple([f"{package.name} {package.version}" for package in packages]), os.path.getsize(archive))


def closure(package: str) -> list[Distribution]:
    """A package and all that it requires, as far as it is installed: what is not is for other platforms."""
    found: dict[str, Distribution] = {}
    waiting = [package]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        required = [text for text in found[name].requires or () if "extra ==" not in text]
        waiting += [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in required]
    return list(found.values())


def interpreter() -> Iterator[Entry]:
    """The program itself, not a virtual environment's link to it, and its shared library if it has one."""
    yield PurePosixPath("bin", "python"), START.format(python=PYTHON).encode()
    yield PurePosixPath("bin", PYTHON), Path(sys.executable).resolve()
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        name = sysconfig.get_config_var("INSTSONAME")
        folders = [Path(sys.base_prefix, "lib"), Path(sysconfig.get_config_var("LIBDIR"))]
        yield PurePosixPath("lib", name), next(folder / name for folder in folders if (folder / name).exists())


def files_of(package: Distribution) -> Iterator[Entry]:
    """The files of a package. They go beside the standard library: where else packages are looked for differs between systems."""
    if package.name == "keuka":  # an editable install lists none of its modules
        yield from walk(Path(__file__).parents[1], LIBRARY / "keuka", UNUSED)
        metadata = f"Metadata-Version: 2.1\nName: keuka\nVersion: {package.version}\n"
        yield LIBRARY / f"keuka-{package.version}.dist-info" / "METADATA", metadata.encode()
        return
    if package.files is None:
        problem = f"`{package.name}` does not say which files it consists of, so it cannot be packed"
        raise data_error("K513", problem, f"install it with pip: `pip install --force-reinstall {package.name}`")
    for file in package.files:
        if ".." not in file.parts and not UNUSED & set(file.parts):
            yield LIBRARY / file, Path(str(file.locate()))


def walk(folder: Path, place: PurePosixPath, unused: Collection[str]) -> Iterator[Entry]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted([name for name in folders if name not in unused and not name.startswith("config-")])
        for name in sorted(files):
            source = Path(root, name)
            yield place / source.relative_to(folder), source


def _add(tar: tarfile.TarFile, place: PurePosixPath, source: Path | bytes) -> None:
    if isinstance(source, bytes):
        info = tarfile.TarInfo(str(place))
        info.size, info.mode, info.mtime = len(source), 0o755, int(time.time())
        tar.addfile(info, BytesIO(source))
        return
    if not source.is_file():
        return  # slim images leave links to documentation they do not have
    info = tar.gettarinfo(source, str(place))
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    with source.open("rb") as file:
        tar.addfile(info, file)
