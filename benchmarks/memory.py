"""Peak memory of one process that streams a Parquet file through Query 7. Started by `run.py`; prints one JSON object.

python benchmarks/memory.py out/bench/stream.parquet
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import keuka
from workloads import k1


def peak_mb() -> float:
    """The largest resident set of this process. `getrusage` would count that of the process it was started from, too."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def main(path: str) -> None:
    began = time.perf_counter()
    matches = keuka.match(keuka.cel(k1.QUERY), keuka.Stream(path, time="ts"), params=k1.params(100))
    print(json.dumps({"matches": matches.num_rows, "seconds": time.perf_counter() - began, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main(sys.argv[1])
