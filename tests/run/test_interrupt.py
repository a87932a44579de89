"""Ctrl-C stops a long call of the kernel within a second, and nothing is broken by it."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# Every event waits for a smaller one, which never comes, and without a key it meets all that wait: 20 billion pairs.
QUERY = "SELECT n FROM S NEXT {$2.n < $1.n} S"
N_EVENTS = 200_000

MATCH = f"""
import sys, keuka, pyarrow as pa
rises = pa.table({{"t": [n // int(sys.argv[1]) for n in range({N_EVENTS})], "n": range({N_EVENTS})}})
print("ready", flush=True)
try:
    keuka.match({QUERY!r}, rises, time="t")
except KeyboardInterrupt:
    print("interrupted", flush=True)
falls = pa.table({{"t": [1, 2], "n": [2, 1]}})
print(keuka.match({QUERY!r}, falls, time="t").to_pylist(), flush=True)
"""


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program, and its end, however the test goes."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("seconds", [0.5, 4])
@pytest.mark.parametrize("simultaneous", [1, N_EVENTS // 2])
def test_a_long_match_is_interrupted_within_a_second(seconds: float, simultaneous: int):
    with started("-c", MATCH, str(simultaneous)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        answered, _, _ = select.select([process.stdout], [], [], 1)
        assert answered
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "[{'n': 1, '_start': 1, '_end': 2}]\n"
        assert process.wait(timeout=60) == 0


# A trillion combinations, none of which is a match.
SEARCH = """
import keuka, pyarrow as pa
query = keuka.sase("SEQ(S a, S b, S c) WHERE a.n + b.n + c.n < 0")
falls = pa.table({"t": range(20_000), "n": range(20_000)})
print("ready", flush=True)
try:
    keuka.match(query, falls, time="t")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(len(keuka.match(query, pa.table({"t": [1, 2, 3], "n": [0, 0, -1]}), time="t")), flush=True)
"""


def test_a_long_search_is_interrupted_within_a_second():
    with started("-c", SEARCH) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        answered, _, _ = select.select([process.stdout], [], [], 1)
        assert answered
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "1\n"
        assert process.wait(timeout=60) == 0


def test_the_command_is_interrupted_within_a_second_with_exit_code_130(tmp_path: Path):
    pq.write_table(pa.table({"t": range(N_EVENTS), "n": range(N_EVENTS)}), tmp_path / "rises.parquet")
    (tmp_path / "rises.cel").write_text(QUERY)
    arguments = ["match", str(tmp_path / "rises.cel"), str(tmp_path / "rises.parquet"), "--time", "t"]
    # Importing takes seconds under sanitizers or on a busy machine, and before it is done a signal just ends the process.
    with started("-c", "from keuka.cli import run; print('ready', flush=True); run()", *arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=2)  # a second, and the end of the interpreter
        assert process.returncode == 130
        assert "Traceback" not in said
        assert said.endswith("interrupted\n")
