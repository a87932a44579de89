"""Writes docs/errors.md: every code, what it means, and the message its golden file keeps. `make docs` runs it."""

from __future__ import annotations

from pathlib import Path

from keuka.errors import EXPLANATIONS

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "errors"
PAGE = ROOT / "docs" / "errors.md"

STAGES = {
    "K1": "Syntax",
    "K2": "Names and types",
    "K3": "Meaning",
    "K4": "Limits",
    "K5": "Data",
    "K6": "Pipelines",
    "K9": "Bugs in Keuka",
}


def page() -> str:
    lines = [
        "# Error codes",
        "",
        "<!-- Written by docs/make_errors.py from errors.py and tests/golden/errors; change those and run `make docs`. -->",
        "",
        "`keuka error K304` says the same on the command line. In Python every error is a `keuka.KeukaError`: a `QueryError` for the codes",
        "K1 to K4, a `DataError` for K5, or a `PipelineError` for K6 (K608 is a `DataError`). It has the `code`, and its `diagnostics`",
        "hold the place and the remedies as fields.",
    ]
    stage = ""
    for code, text in EXPLANATIONS.items():
        if code[:2] != stage:
            stage = code[:2]
            lines += ["", f"## {stage}: {STAGES[stage]}"]
        lines += ["", f"### {code}", "", text]
        for message in sorted(GOLDEN.glob(f"{code}_*/message.txt"))[:1]:
            lines += ["", "```text", message.read_text(encoding="utf-8").rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
