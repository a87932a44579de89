"""A working directory with a little market, and pipelines over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .market import RISE, TICKS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rise.cel").write_text(RISE)
    Path("ticks.csv").write_text(TICKS)
    return tmp_path


@pytest.fixture
def pipeline_file(folder: Path) -> Callable[..., str]:
    """Writes a pipeline of these parts."""

    def write(*parts: str) -> str:
        (folder / "pipeline.toml").write_text("".join(parts))
        return "pipeline.toml"

    return write
