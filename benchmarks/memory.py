"""Peak memory of one process that streams a Parquet file through Query 7. Started by `run.py`; prints one JSON object.

python benchmarks/memory.py out/bench/stream.parquet
"""

from __future__ import annotations

import json
import resource
import sys
import time

import keuka
from workloads import k1


def main(path: str) -> None:
    began = time.perf_counter()
    matches = keuka.match(keuka.cel(k1.QUERY), keuka.Stream(path, time="ts"), params=k1.params(100))
    print(
        json.dumps(
            {
                "matches": matches.num_rows,
                "seconds": time.perf_counter() - began,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
