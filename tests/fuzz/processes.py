"""Cases by the thousand, in child processes: a case that ends its process, hangs or fills the memory is known by its number.

Comes in: a fuzzer and how many cases. Goes out: a report with what became of them, and with every failure how to repeat it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60  # of the clock, for one case: it takes milliseconds, but the machine may be busy
BYTES = 1 << 30  # that a process may hold, and that a case may make it ask for beyond what it had
MOST_ENDED = 20  # after as many processes that ended it is known that something is wrong
MOST_SHOWN = 20  # failures of different kinds

# The case with this seed and number: what became of it. Anything that is raised is a failure.
Attempt = Callable[[int, int], str]


@dataclass(frozen=True)
class Fuzzer:
    """`prepare` does all that is the same for every case, and returns what tries one."""

    prepare: Callable[[], Attempt]
    batch: int  # cases of one process: what a case leaves behind must not be taken for the memory of a later one


@dataclass(frozen=True)
class Failure:
    index: int  # the first case that failed in this way
    what: str


@dataclass(frozen=True)
class Report:
    n_tried: int
    outcomes: Counter[str]  # of the cases that did not fail
    n_failed: int
    failures: tuple[Failure, ...]  # one of each kind
    peak: int  # bytes that the largest process held


# -- in the child ------------------------------------------------------------------------------------------------------------


def try_cases(fuzzer: Fuzzer, seed: int, first: int, last: int, progress: int) -> None:
    """Try cases and print what became of them as JSON. The number of the one at hand is in the file `progress`."""
    logging.disable()
    attempt = fuzzer.prepare()
    # The signal is dealt with in C, where a loop of the kernel cannot keep it waiting, and ends the process.
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    limit_memory()
    outcomes: Counter[str] = Counter()
    failures: dict[str, tuple[int, int, str]] = {}
    index = first
    for index in range(first, last):
        os.pwrite(progress, b"%20d" % index, 0)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            outcomes[attempt(seed, index)] += 1
            if held_bytes() > BYTES:
                raise MemoryError(f"the process held {held_bytes():,} bytes")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of polars is no Exception
            n, case, what = failures.get(kind_of(error), (0, index, traceback.format_exc()))
            failures[kind_of(error)] = (n + 1, case, what)
            if held_bytes() > BYTES:
                break
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps([index + 1, outcomes, list(failures.values()), held_bytes()]))


def kind_of(error: BaseException) -> str:
    """Failures that are probably one: the same exception at the same place."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {frames[-1].filename}:{frames[-1].lineno}"


def held_bytes() -> int:
    """The most that this process has held at a time."""
    # Not by `getrusage`, which counts what the parent had when it forked.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def limit_memory() -> None:
    """AddressSanitizer reserves terabytes of addresses; it has a limit of its own."""
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + BYTES))


# -- in the parent -----------------------------------------------------------------------------------------------------------


def fuzz(name: str, fuzzer: Fuzzer, n_cases: int, seed: int) -> Report:
    """Try this many cases, on all processors."""
    bounds = [*range(0, n_cases, fuzzer.batch), n_cases]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        reports = list(pool.map(lambda i: _watch(name, seed, bounds[i], bounds[i + 1]), range(len(bounds) - 1)))
    return _together(reports)


def _together(reports: list[Report]) -> Report:
    kinds = {_last_lines(failure.what): failure for report in reversed(reports) for failure in reversed(report.failures)}
    outcomes = sum([report.outcomes for report in reports], Counter())
    n_tried, n_failed = sum([report.n_tried for report in reports]), sum([report.n_failed for report in reports])
    return Report(n_tried, outcomes, n_failed, tuple(kinds.values()), max([report.peak for report in reports], default=0))


def _last_lines(what: str) -> str:
    """The place and the exception, without the values in its message."""
    lines = what.strip().splitlines()
    places = [line for line in lines if line.strip().startswith("File ")]
    return "".join(places[-1:]) + lines[-1].partition(":")[0]


def _watch(name: str, seed: int, first: int, last: int) -> Report:
    """Start a child, and another one behind every case that ends it."""
    outcomes: Counter[str] = Counter()
    failures: list[Failure] = []
    at, n_failed, n_ended, peak = first, 0, 0, 0
    with tempfile.TemporaryFile() as progress:
        place = progress.fileno()
        while at < last and n_ended < MOST_ENDED:
            child = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", name, "--seed", str(seed), "--child", f"{at}:{last}:{place}"]
            done = subprocess.run(child, cwd=ROOT, pass_fds=[place], capture_output=True, text=True, errors="replace")
            if done.returncode == 0:
                at, found, failed, held = json.loads(done.stdout.splitlines()[-1])
                outcomes.update(found)
                failures += [Failure(index, what) for _, index, what in failed]
                n_failed += sum([n for n, _, _ in failed])
                peak = max(peak, held)
                continue
            reached = os.pread(place, 20, 0)
            if not reached:
                raise RuntimeError(f"a child did not get as far as its first case:\n{done.stderr}")
            failures.append(Failure(int(reached), f"{done.stderr[-6000:]}\nthe process ended: {_end(done.returncode)}"))
            n_failed, n_ended, at = n_failed + 1, n_ended + 1, int(reached) + 1
    return Report(at - first, outcomes, n_failed, tuple(failures), peak)


def _end(code: int) -> str:
    if code == -signal.SIGALRM:
        return f"a case took more than {SECONDS} seconds"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"


def show(name: str, report: Report, seed: int, seconds: float) -> int:
    """Print what was found; 1 if that is a failure."""
    for failure in report.failures[:MOST_SHOWN]:
        repeat = f"{sys.executable} -m tests.fuzz {name} --seed {seed} --only {failure.index}"
        print(f"case {failure.index}, repeat it with: {repeat}\n{failure.what}\n", file=sys.stderr)
    shown = ", ".join([f"{n:,} {what}" for what, n in report.outcomes.most_common()])
    print(
        f"{name}: {report.n_tried:,} cases with seed {seed} in {seconds:,.0f} s, {report.n_tried / max(seconds, 0.001):,.0f} a second, ",
        end="",
    )
    print(f"at most {report.peak / 1e6:,.0f} MB: {shown}; {report.n_failed:,} failures", flush=True)
    return 1 if report.failures else 0
