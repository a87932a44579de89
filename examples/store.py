"""A day of RFID readings in a made-up store. Used by `demo.py`.

Every item has a tag, and readers at shelves, fitting rooms, counters and exits see it pass. Most items are looked at and put back, or
bought. A few are stolen, misplaced or taken to a fitting room for too long: these are known, and a query must find exactly them.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

N_ITEMS = 20_000
N_SHELVES = 40
SEED = 20060627
OPENING = np.datetime64("2024-03-01T09:00:00", "us")

# What becomes of an item, and how often. The last three are what the queries look for.
FATES = {"put back": 0.4, "bought": 0.35, "strayed, put back": 0.1, "strayed, bought": 0.1, "tried on": 0.035}
PLANTED = {"stolen": 0.005, "misplaced": 0.006, "overstayed": 0.004}

Floats = npt.NDArray[np.float64]
Reading = tuple[str, float, int]  # type, minutes after it was picked, shelf or -1


def readings_of(fate: str, home: int, other: int, minutes: Floats) -> list[Reading]:
    """The readings of an item after the one at its own shelf. `minutes` are four random gaps, each of 2 to 13 minutes."""
    a, b, c, d = np.cumsum(minutes)
    back, bought = [("SHELF", c, home)], [("COUNTER", c, -1), ("EXIT", d, -1)]
    match fate:
        case "put back":
            return back
        case "bought":
            return bought
        case "strayed, put back":
            return [("SHELF", a, other), *back]
        case "strayed, bought":
            return [("SHELF", a, other), *bought]
        case "tried on":
            return [("FITTING", a, -1), ("FITTING", b, -1), *back]
        case "stolen":
            return [("EXIT", d, -1)]
        case "misplaced":
            return [("SHELF", a, other)]
        case _:
            return [("FITTING", a, -1), ("SHELF", a + 45, home), ("FITTING", b + 90, -1), ("SHELF", b + 150, home)]


def generate_readings(seed: int = SEED) -> tuple[dict[str, pa.Table], dict[str, set[int]]]:
    """The readings by type, in the order of time, and the items of each planted fate."""
    rng = np.random.default_rng(seed)
    shares = {**FATES, **PLANTED}
    fates = rng.choice(list(shares), N_ITEMS, p=list(shares.values()))
    homes = rng.integers(N_SHELVES, size=N_ITEMS)
    others = (homes + rng.integers(1, N_SHELVES, N_ITEMS)) % N_SHELVES
    picked = rng.uniform(0, 540, N_ITEMS)
    gaps = rng.uniform(2, 13, (N_ITEMS, 4))
    found: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for item in range(N_ITEMS):
        home = int(homes[item])
        for kind, minutes, shelf in [("SHELF", 0.0, home), *readings_of(fates[item], home, int(others[item]), gaps[item])]:
            found[kind].append((picked[item] + minutes, item, shelf))
    streams = {}
    for kind, rows in found.items():
        after, items, shelves = (np.array(column) for column in zip(*sorted(rows), strict=True))
        columns = {"at": pa.array(OPENING + (after * 60).astype("timedelta64[s]")), "id": items}
        streams[f"{kind}-READING"] = pa.table(columns | ({"shelf": shelves, "home": homes[items]} if kind == "SHELF" else {}))
    return streams, {fate: {int(item) for item in np.flatnonzero(fates == fate)} for fate in PLANTED}
