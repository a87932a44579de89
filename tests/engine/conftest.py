"""An engine with two streams of integers."""

from __future__ import annotations

import pytest

import keuka

from .live import SCHEMA


@pytest.fixture
def engine() -> keuka.Engine:
    return keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t")
