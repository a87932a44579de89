"""Reading streams to their end, and the messages that come of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keuka.errors import EXPLANATIONS, DataError
from keuka.events import csv_format, files, json_format
from keuka.events.order import common_axis, in_order
from keuka.events.sources import Stream, open_stream


def read_all(streams: tuple[Stream, ...]) -> None:
    opened = [open_stream(name, stream) for name, stream in zip("ST", streams, strict=False)]
    common_axis(opened)
    for _ in in_order(opened, {stream.name: stream.type.schema.names for stream in opened}):
        pass


@pytest.fixture
def message() -> Callable[..., str]:
    """What reading the streams S and T to their end says."""

    def message(*streams: Stream) -> str:
        with pytest.raises(DataError) as caught:
            read_all(streams)
        assert caught.value.code in EXPLANATIONS
        return str(caught.value)

    return message


@pytest.fixture
def expect(message: Callable[..., str]) -> Callable[..., None]:
    """The message is this one, where `...` at the end stands for Arrow's own words on the last line."""

    def expect(text: str, *streams: Stream) -> None:
        said = message(*streams)
        text = text.strip("\n")
        if text.endswith("..."):
            assert said.startswith(text.removesuffix("...")), said
            assert "\n" not in said.removeprefix(text.removesuffix("..."))
        else:
            assert said == text

    return expect


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | bytes], str]:
    """Writes files into an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text files are looked at and parsed in pieces of four kilobytes, so that a few hundred rows are many pieces."""
    for module in (files, csv_format, json_format):
        monkeypatch.setattr(module, "BLOCK_BYTES", 4096)
