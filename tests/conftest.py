"""Settings shared by all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# --- hypothesis profiles ----------------------------------------------------------------------------------------------
# `make test` takes the same examples every time. `make laws` sets KEUKA_LAW_EXAMPLES: that many for every law,
# from the seed it prints.

LAW_EXAMPLES = int(os.environ.get("KEUKA_LAW_EXAMPLES", "0"))

settings.register_profile(
    "fixed",
    max_examples=120,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.load_profile("fixed")
if LAW_EXAMPLES:
    settings.register_profile("laws", settings.get_profile("fixed"), max_examples=LAW_EXAMPLES, derandomize=False)
    settings.load_profile("laws")

# --- end of hypothesis profiles ---------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-goldens", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite-goldens"))
