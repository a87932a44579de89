"""Whatever comes from outside gives a result or a message: query texts, data, snapshots, compiled tables.

`make fuzz` tries very many cases, a test and `.ci/run` fewer. `python -m tests.fuzz queries --seed 1 --only 4711` repeats one.
"""

from __future__ import annotations

import argparse
import sys
import time

from . import FUZZERS
from .processes import fuzz, show, try_cases

USUAL = {"queries": 200_000, "data": 50_000, "snapshots": 100_000, "tables": 100_000}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("fuzzers", nargs="*", default=list(FUZZERS), help=", ".join(FUZZERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="try the case with this number, here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    for name, n_cases in USUAL.items():
        parser.add_argument(f"--{name}", type=int, default=n_cases, metavar="CASES")
    said = parser.parse_args()
    if said.child is not None:
        try_cases(FUZZERS[said.fuzzers[0]], said.seed, *map(int, said.child.split(":")))
        return 0
    if said.only is not None:
        print(FUZZERS[said.fuzzers[0]].prepare()(said.seed, said.only))
        return 0
    failed = 0
    for name in said.fuzzers:
        began = time.monotonic()
        failed |= show(name, fuzz(name, FUZZERS[name], getattr(said, name), said.seed), said.seed, time.monotonic() - began)
    return failed


if __name__ == "__main__":
    sys.exit(main())
