"""A query that would take gigabytes is refused, and the process stays small. Not for sanitizers, which keep what was freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

DOUBLING = ";".join([f"FROM {'S' if i == 0 else f'Q{i - 1}'} UNION {'S' if i == 0 else f'Q{i - 1}'} PUBLISH Q{i}" for i in range(30)])

# Each query would take gigabytes, or for ever. In a process of its own, so that its memory can be measured. Not by `getrusage`, which
# counts what the parent had when it forked.
MEASURED = r"""
import pathlib, re, sys, keuka, pyarrow as pa
query, language, data = sys.argv[1], sys.argv[2], eval(sys.argv[3])
limits = keuka.Limits(memory=100_000_000, seconds=30)
try:
    keuka.match(getattr(keuka, language)(query), data, time="t", contributors=sys.argv[4] == "contributors", limits=limits)
except keuka.KeukaError as error:
    print(error.code)
print(1024 * int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]))
"""
SIMULTANEOUS = '[{"t": i // 10, "n": i, "s": "x" * 1000, "l": [i]} for i in range(120)]'
LONG_TEXTS = '[{"t": i, "s": str(i) * 2_000} for i in range(1_000)]'
LONG_LISTS = '[{"t": i, "l": ["x" * 50_000]} for i in range(300)]'


@pytest.mark.parametrize("contributors", ["", "contributors"])
@pytest.mark.parametrize(
    ("query", "language", "data"),
    [
        ("SELECT n FROM S FOLD {TRUE, TRUE} S", "cel", SIMULTANEOUS),
        ("SELECT s, l FROM S FOLD {TRUE, TRUE} S", "cel", SIMULTANEOUS),
        ("SEQ(S a, S b) RETURN concat(a.s, b.s) AS both", "sase", LONG_TEXTS),
        (DOUBLING, "cel", '[{"t": 1, "n": 1}]'),
        ("SEQ(S a, S b, S c)", "sase", '[{"t": i, "n": i} for i in range(2_000)]'),
        ("SEQ(S a, S b) PUBLISH Pairs", "sase", LONG_LISTS),
    ],
)
def test_a_query_that_would_take_gigabytes_is_refused_and_the_process_stays_small(query: str, language: str, data: str, contributors: str):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, query, language, data, contributors], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    code, peak = done.stdout.split()
    assert code == "K518"
    assert int(peak) < 600_000_000
