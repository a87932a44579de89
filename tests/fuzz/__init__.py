"""The fuzzers by name. They are imported when they are asked for: each brings libraries along that the others do not need."""

from __future__ import annotations

import importlib

from .processes import Attempt, Fuzzer


def _fuzzer(module: str, function: str, batch: int) -> Fuzzer:
    def prepare() -> Attempt:
        found: Attempt = getattr(importlib.import_module(f"{__name__}.{module}"), function)()
        return found

    return Fuzzer(prepare, batch)


FUZZERS = {
    "queries": _fuzzer("queries", "prepare", 2_000),
    "data": _fuzzer("data", "prepare", 1_000),
    "snapshots": _fuzzer("snapshots", "prepare", 2_000),
    "tables": _fuzzer("damage", "prepare_tables", 10_000),
}
