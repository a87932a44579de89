"""What `make soak` runs: 200 million events with 100 million keys, each of which comes twice and never again. Memory must stay flat.

Half of the keys come again inside the window. The matches are counted and summed here without the engine, and compared. Keys are
integers in one run, text in the other, each in a process of its own. Writes out/soak.json and out/soak.png.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import keuka
from keuka.query import prepare
from keuka.run.embedded import Progress, run

OUT = Path("out")
N_EVENTS = 200_000_000
N_SAMPLES = 40  # of the curve: one for every 5 million events
N_FIRST = 10_000_000  # events, 20 windows of them, say how much memory is needed; later ones may need GROWTH times as much
GROWTH = 1.1
BLOCK = 1_000_000  # events; the first half of them brings 500,000 keys, the second half the same keys in another order
BATCH = 62_500
WINDOW = 250_000  # ticks of two events: half of the pairs are so close
SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that different numbers become different keys

QUERY = "SELECT n_1 AS first, n AS second FROM S NEXT {$2.k = $1.k AND DUR < :window} S"
SCHEMAS = {
    kind: pa.schema([("t", pa.int64()), ("k", arrow), ("n", pa.int64())])
    for kind, arrow in (("integer", pa.int64()), ("text", pa.string()))
}

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Matches:
    """How many there are, and the sums of the numbers of their events."""

    n: int
    first: int
    second: int


@dataclass(frozen=True)
class Sample:
    """The largest memory since the sample before."""

    n_events: int
    seconds: float
    rss_mb: float
    kernel_mb: float


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=N_EVENTS, help="a multiple of 1,000,000, more than 10,000,000")
    parser.add_argument("--child", choices=SCHEMAS, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.child is not None:
        print(json.dumps(soak(said.child, said.events)))
        return 0
    OUT.mkdir(exist_ok=True)
    runs = {}
    for kind in SCHEMAS:
        command = [sys.executable, __file__, "--events", str(said.events), "--child", kind]
        runs[kind] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(line(kind, runs[kind]), flush=True)
    (OUT / "soak.json").write_text(json.dumps(runs, indent=1) + "\n")
    import plots  # not in the children, whose memory is measured

    plots.draw_soak(runs, GROWTH, OUT / "soak.png")
    print(f"\nsoak.json and soak.png are in {OUT}")
    return 0 if all(found["flat"] and found["right"] for found in runs.values()) else 1


def line(kind: str, found: dict[str, Any]) -> str:
    rate = found["n_events"] / found["cpu_seconds"] / 1e6
    right = "as expected" if found["right"] else f"WRONG, {found['expected']['n']:,} expected"
    flat = "flat" if found["flat"] else "NOT FLAT"
    return (
        f"{kind} keys: {found['n_events'] / 1e6:.0f} M events in {found['seconds']:.0f} s, {rate:.1f} M events per CPU second; "
        f"{found['matches']['n']:,} matches, {right}; "
        f"at most {found['first_mb']:.0f} MB in the first windows and {found['later_mb']:.0f} MB later: {flat}"
    )


# -- the stream --------------------------------------------------------------------------------------------------------------


def pattern() -> Int64Array:
    """The keys of a block, as numbers from 0 on."""
    rng = np.random.default_rng(1)
    return np.concatenate([rng.permutation(BLOCK // 2), rng.permutation(BLOCK // 2)])


def batches(kind: str, n_events: int) -> Iterator[pa.RecordBatch]:
    """All events. Drawn only once: the keys of a block are those of the first one, moved on and scrambled."""
    keys = pattern().astype(np.uint64)
    for first in range(0, n_events, BATCH):
        block, at = divmod(first, BLOCK)
        n = np.arange(first, first + BATCH)
        key = (keys[at : at + BATCH] + np.uint64(block * BLOCK // 2)) * SCRAMBLE
        column = pa.array(key.view(np.int64)) if kind == "integer" else hexadecimal(key)
        yield pa.record_batch([pa.array(n // 2), column, pa.array(n)], schema=SCHEMAS[kind])


DIGITS = np.array([f"{byte:02x}" for byte in range(256)], "S2").view(np.uint16)


def hexadecimal(numbers: UInt64Array) -> pa.Array:
    """16 digits a number; 2 ns each, Python's formatting takes 100 times as long."""
    text = DIGITS[numbers.view(np.uint8)]
    offsets = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def expected(n_events: int) -> Matches:
    """Where the two events of each key stand in a block says whether they match; the blocks differ by their place alone."""
    keys = pattern()
    first, second = np.argsort(keys[: BLOCK // 2]), BLOCK // 2 + np.argsort(keys[BLOCK // 2 :])
    gap = second // 2 - first // 2
    close = (gap > 0) & (gap + 1 < WINDOW)
    n, n_blocks = int(close.sum()), n_events // BLOCK
    moved = n * BLOCK * (n_blocks * (n_blocks - 1) // 2)
    return Matches(n * n_blocks, int(first[close].sum()) * n_blocks + moved, int(second[close].sum()) * n_blocks + moved)


# -- one run -----------------------------------------------------------------------------------------------------------------


def soak(kind: str, n_events: int) -> dict[str, Any]:
    samples: list[Sample] = []
    most = {"rss": 0.0, "kernel": 0.0}
    began = time.perf_counter()

    def watch(progress: Progress) -> None:
        most["rss"] = max(most["rss"], rss_mb())
        most["kernel"] = max(most["kernel"], progress.n_bytes / 1e6)
        if progress.n_events >= (len(samples) + 1) * n_events // N_SAMPLES:
            samples.append(Sample(progress.n_events, time.perf_counter() - began, most["rss"], most["kernel"]))
            print(
                f"{kind:8} {progress.n_events / 1e6:5.0f} M events  {most['rss']:6.0f} MB  {most['kernel']:6.0f} MB in the kernel",
                file=sys.stderr,
            )
            most.update(rss=0.0, kernel=0.0)

    found = matches(kind, n_events, watch)
    first_mb, later_mb = [max([s.rss_mb for s in samples if (s.n_events <= N_FIRST) is first]) for first in (True, False)]
    return {
        "n_events": n_events,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time(),
        "matches": asdict(found),
        "expected": asdict(expected(n_events)),
        "right": found == expected(n_events),
        "first_mb": first_mb,
        "later_mb": later_mb,
        "flat": later_mb <= GROWTH * first_mb,
        "samples": [asdict(sample) for sample in samples],
    }


def matches(kind: str, n_events: int, watch: Any) -> Matches:
    """Run the query and let every batch of matches go as soon as it is summed."""
    reader = pa.RecordBatchReader.from_batches(SCHEMAS[kind], batches(kind, n_events))
    prepared = prepare(QUERY, keuka.Stream(reader, time="t"), params={"window": WINDOW})
    n = first = second = 0
    for batch in run(prepared.tables, prepared.opened, on_progress=watch):
        n += batch.rows.num_rows
        first += int(batch.rows["first"].to_numpy().sum())
        second += int(batch.rows["second"].to_numpy().sum())
    return Matches(n, first, second)


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    sys.exit(main())
