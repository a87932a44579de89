"""The contract of operators: kinds know nothing of each other, and one module lists them."""

from __future__ import annotations

import re
from pathlib import Path

KERNEL = Path(__file__).parents[2] / "src" / "keuka" / "kernel"
LIST = "operators"
# What all kinds share. Every other module belongs to the one kind that imports it.
SHARED = {
    *("allocation", "arena", "arrow", "batches", "buffers", "bytecode", "checks", "forest", "functions", "groups", "hashing", "held"),
    *("layout", "lineage", "loading", "machine", "rows", "strings", "system", "thread"),
}
IMPORTS = re.compile(r"(?:cimports\.)?keuka\.kernel(?:\.(\w+))? c?import (\([^)]*\)|[^\n]*)")


def imported(module: str) -> set[str]:
    """The modules of the kernel that a module names, in its code or its declarations."""
    found = set()
    for path in (KERNEL / f"{module}.py", KERNEL / f"{module}.pxd"):
        for name, names in IMPORTS.findall(path.read_text(encoding="utf-8") if path.exists() else ""):
            found |= {name} if name else set(re.findall(r"\w+", names))
    return found


def reached(module: str) -> set[str]:
    """A module and all that it needs of its own kind."""
    found: set[str] = set()
    ahead = {module}
    while ahead:
        found |= ahead
        ahead = {name for each in ahead for name in imported(each)} - found - SHARED
    return found


def test_one_module_lists_the_kinds_of_operators():
    modules = {path.stem for path in KERNEL.iterdir() if path.suffix in (".py", ".pxd")} - {"__init__"}
    assert modules >= SHARED, "SHARED names modules that are gone"
    owners = {name: [kind for kind in imported(LIST) - SHARED if name in reached(kind)] for name in modules - SHARED - {LIST}}
    for name, kinds in owners.items():
        assert len(kinds) == 1, (
            f"kernel/{name}.py belongs to {' and '.join(sorted(kinds)) or 'no kind of operators'}. A module is of one kind, found by "
            f"imports from kernel/{LIST}.py, where every kind has a line in KINDS; what several need goes into a shared module."
        )
    for name in SHARED:
        wrong = imported(name) - SHARED - ({LIST} if name == "forest" else set())
        assert not wrong, (
            f"kernel/{name}.py is shared by all kinds of operators and imports {', '.join(sorted(wrong))}. What it needs to know of one "
            f"kind is to be asked by the contract: Kind in kernel/{LIST}.py for the forest, Operators in kernel/machine.pxd for machines."
        )
