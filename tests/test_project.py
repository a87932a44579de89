"""The project itself: who may import whom, what an installed wheel can do, whether the pages are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from keuka.plan.planner import OPERATORS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "keuka"

# From the outside in. A room may import from rooms in later lines, never from earlier ones or from its neighbours in a line.
ROOMS = (
    ({"cli", "pipeline_commands", "terminal"},),
    ({"", "engine", "rules", "snapshots", "query", "explain", "spark", "pipelines"},),  # "" is the package itself: the public names
    ({"run"},),
    ({"languages"}, {"plan"}),
    ({"automaton"}, {"events"}),
    ({"algebra"}, {"kernel"}),
    ({"expressions", "schema", "diagnostics", "errors"},),
)


def imports(path: Path) -> Iterator[str]:
    """Names of the modules of Keuka that a file imports, without `keuka.`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" if node.module == "keuka" else node.module or "" for alias in node.names]
        for name in names:
            if name == "keuka" or name.startswith("keuka."):
                yield name.removeprefix("keuka").removeprefix(".")


def room_of(module: str) -> tuple[int, int]:
    top = module.split(".")[0]
    for level, rooms in enumerate(ROOMS):
        for side, room in enumerate(rooms):
            if top in room:
                return level, side
    # `from keuka import match` names a thing of the package itself.
    assert not (PACKAGE / top).exists(), f"`{top}` has no room in the order of imports"
    assert not (PACKAGE / f"{top}.py").exists(), f"`{top}` has no room in the order of imports"
    return room_of("")


def test_no_module_imports_from_a_room_above_or_beside_its_own():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        own = room_of(module)
        for imported in imports(path):
            room = room_of(imported)
            if room != own and room[0] <= own[0]:
                wrong.append(f"{module} imports {imported}")
    assert wrong == []


def test_the_kernel_imports_nothing_else_of_keuka():
    found = {name for path in (PACKAGE / "kernel").glob("*.py") for name in imports(path)}
    assert {name for name in found if not name.startswith("kernel")} == set()


def test_one_place_of_the_plan_knows_which_operators_there_are():
    """All others ask what every operator answers (automaton/contract.py): a new one is a line of OPERATORS and of `choose_operator`."""
    operators = {operator.__name__ for operator in OPERATORS}
    knowing: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
        if names & operators:
            knowing[str(path.relative_to(PACKAGE))] = names & operators
    assert {path for path, named in knowing.items() if len(named) > 1} == {"plan/planner.py"}
    # Each is made by its own module; a trace follows automata alone.
    own = {f"{operator.__module__.removeprefix('keuka.').replace('.', '/')}.py" for operator in OPERATORS}
    assert knowing.keys() == {"plan/planner.py", "run/trace.py", "run/trace_text.py", *own}


def test_importing_keuka_imports_no_optional_package():
    optional = "{'pandas', 'polars', 'pyspark', 'matplotlib', 'click', 'rich'}"
    program = f"import sys, keuka; print(sorted({optional} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as its wheel installs it, and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel)], check=True)
    return folder


@pytest.mark.xdist_group("wheel")
def test_the_wheel_has_grammars_declarations_and_type_marker_but_no_generated_source(installed: Path):
    (wheel,) = installed.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for path in (*PACKAGE.rglob("*.lark"), *PACKAGE.rglob("*.pxd"), *PACKAGE.rglob("*.properties"), PACKAGE / "py.typed"):
        assert str(path.relative_to(PACKAGE.parent)) in names
    assert [name for name in names if name.endswith((".cpp", ".c"))] == []


@pytest.mark.xdist_group("wheel")
def test_the_installed_wheel_answers_a_query_from_another_directory(installed: Path, tmp_path: Path):
    (tmp_path / "rises.cel").write_text("SELECT n_1 AS before, n FROM S NEXT {$2.n > $1.n} S PUBLISH Rises;\n")
    (tmp_path / "numbers.csv").write_text("t,n\n1,5\n2,3\n3,7\n")
    environment = {**os.environ, "PYTHONPATH": str(installed / "site")}
    program = "import keuka, sys; from keuka.cli import main; print(keuka.__file__); sys.exit(main(sys.argv[1:]))"
    arguments = ["match", "rises.cel", "numbers.csv", "--time", "t", "--out", "-", "--format", "csv"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, *table = done.stdout.splitlines()
    assert Path(place).is_relative_to(installed / "site")
    assert table[0] == '"before","n","_start","_end"'
    assert sorted(table[1:]) == ["3,7,2,3", "5,7,1,3"]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `file` is the name a comment `<!-- file: name -->` before it gives it."""

    place: str
    language: str
    text: str
    file: str


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    fence = re.compile(r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
    for found in fence.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(f"{page}:{line}", found["language"], found["text"], found["file"] or "")


def same_output(expected: str, found: str) -> bool:
    """Equal apart from blanks; `...` in a page stands for anything, for example a time."""
    return doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


# What a reader does once, in a clone: the test runs in a directory of its own and with Keuka already installed.
ONCE = re.compile(r"(git clone|cd|pip install|make)\b")


def run_console(block: Block, folder: Path) -> None:
    """Lines after `$ ` are commands; what follows a command, up to the next one, is its output."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if ONCE.match(command):
            continue
        done = subprocess.run(command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert same_output(expected, done.stdout), f"{block.place}: `{command}` gives\n{done.stdout}"


def run_bash(block: Block, folder: Path) -> None:
    commands = [command for command in block.text.splitlines() if not ONCE.match(command)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-e", "-c", "\n".join(commands)], cwd=folder, env={**os.environ, "PATH": path}, check=True)


def run_python(block: Block, expected: str | None, names: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block.text, block.place, "exec"), names)
    found = capsys.readouterr().out
    assert expected is None or same_output(expected, found), f"{block.place} prints\n{found}"


PAGES = ("cel", "sase", "one_stream", "engine", "pipelines", "dirty_data")
WITH_SPARK = pytest.param("docs/spark.md", marks=pytest.mark.xdist_group("spark"))


@pytest.mark.parametrize("page", ["README.md", *[f"docs/{name}.md" for name in PAGES], WITH_SPARK])
def test_every_block_of_the_documentation_does_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, object] = {}
    found = list(blocks(page))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            expected = following.text if following is not None and following.language == "text" else None
            run_python(block, expected, names, capsys)
        elif block.language == "console":
            run_console(block, tmp_path)
        elif block.language == "bash":
            run_bash(block, tmp_path)
    assert {"console", "python"} & {block.language for block in found}


def test_references_to_the_definitions_and_links_lead_somewhere():
    sections = set(re.findall(r"^## (\d)\.", (ROOT / "docs/semantics.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert sections == set("123456789")
    wrong, n_references = [], 0
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "examples", "docs")]
    for path in sorted([*ROOT.glob("*.md"), *[path for folder in folders for path in folder.rglob("*.*")]]):
        if path.suffix not in (".py", ".pxd", ".lark", ".md"):
            continue
        text = path.read_text(encoding="utf-8")
        references = re.findall(r"semantics(?:\.md|\]\(\S+\)),\s+(?:sections? )?(\d)(?: (?:and|to) (\d))?", text)
        n_references += len(references)
        wrong += [f"{path}: section {number}" for pair in references for number in pair if number and number not in sections]
        links = re.findall(r"\]\(([^)#\s]+)(?:#\S+)?\)", text) if path.suffix == ".md" else []
        wrong += [f"{path}: {link}" for link in links if "://" not in link and not (path.parent / link).exists()]
    assert wrong == []
    assert n_references > 40


def test_every_make_target_of_the_readme_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"(?:`|\$ )make ([a-z]+)\b", readme)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"README.md speaks of `make {target}`"


def test_the_examples_in_docstrings_are_true():
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in modules]
    outcomes = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert outcomes
    assert [name for name, outcome in outcomes.items() if outcome.failed or not outcome.attempted] == []


def test_the_page_of_error_codes_is_up_to_date():
    program = f"import runpy; print(runpy.run_path({str(ROOT / 'docs' / 'make_errors.py')!r})['page'](), end='')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == done.stdout, "run `make docs`"
