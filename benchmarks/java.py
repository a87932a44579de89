"""Other engines, in Java: their harnesses in `peers/` are built by Maven into out/ when a part needs them, and none is a part of Keuka.

A harness holds the events in memory and makes one pass over them whenever it is told to. Without Java 17 and Maven there are no figures,
and the rows say so.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from measure import OUT

PROJECTS = Path(__file__).parent / "peers"

Pass = dict[str, Any]  # what a harness prints for one run over all events


class NotMeasuredError(Exception):
    """Why there are no figures of the other engine, in one line."""


@dataclass(frozen=True)
class Harness:
    engine: str
    project: str  # its folder in peers/ and in out/
    jar: str
    heap: str


ESPER = Harness("Esper 9", "esper", "workloads.jar", "1g")
FLINK = Harness("Flink CEP 2.3", "flink", "sequences.jar", "2g")


def build(harness: Harness) -> None:
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        raise NotMeasuredError(f"it needs Java 17 and Maven; {' and '.join(f'`{program}`' for program in missing)} not found")
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(PROJECTS / harness.project / "pom.xml"), "package"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError("Maven did not build it within five minutes") from None
    if done.returncode:
        said = re.search(r"\[ERROR\] (.*)", re.sub(r"\x1b\[[0-9;]*m", "", done.stdout))
        why = textwrap.shorten(said[1], 110, placeholder=" ...") if said else "it does not say why"
        raise NotMeasuredError(f"Maven could not build it: {why}")


@contextmanager
def running(harness: Harness, workload: str, events: pa.Table, n_warm_up: int) -> Iterator[Callable[[], Pass]]:
    """A warm engine that holds the events. Each call is one run over them."""
    path = OUT / "peers" / f"{workload}.csv"
    pyarrow.csv.write_csv(events, path, pyarrow.csv.WriteOptions(include_header=False, quoting_style="none"))
    jar = OUT / "peers" / harness.project / harness.jar
    # The serial collector was the fastest: its barriers are the cheapest, and next to nothing is collected.
    start = ["java", "-XX:+UseSerialGC", f"-Xms{harness.heap}", f"-Xmx{harness.heap}", "-jar", str(jar)]
    with subprocess.Popen([*start, workload, str(path), str(n_warm_up)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None
        assert java.stdout is not None
        stdin, stdout = java.stdin, java.stdout

        def one_pass() -> Pass:
            stdin.write("go\n")
            stdin.flush()
            found: Pass = json.loads(stdout.readline())
            return found

        if stdout.readline() != "ready\n":
            raise SystemExit(f"{workload}: {harness.engine} did not start; its own message is above")
        yield one_pass
        stdin.close()
