"""A day of RFID readings in a made-up store, and three SASE queries over it: stolen items, misplaced ones, ones that hide in fitting rooms.

Every item has a tag, and readers at shelves, fitting rooms, counters and exits see it pass. Most items are looked at and put back, or
bought. A few are stolen, misplaced or taken to a fitting room for too long, and the program checks that exactly these are found.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import keuka

HERE = Path(__file__).parent

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
        columns = {"at": pa.array(OPENING + (after * 60e6).astype("timedelta64[us]")), "id": items}
        streams[f"{kind}-READING"] = pa.table(columns | ({"shelf": shelves, "home": homes[items]} if kind == "SHELF" else {}))
    return streams, {fate: {int(item) for item in np.flatnonzero(fates == fate)} for fate in PLANTED}


def run_query(console: Console, title: str, path: Path, streams: dict[str, pa.Table], planted: set[int], n_shown: int = 5) -> bool:
    """Print the first matches of a query file, and whether their items are the planted ones."""
    query = keuka.query(path)
    began = time.perf_counter()
    matches = keuka.match(query, {name: streams[name] for name in query.inputs})
    seconds = time.perf_counter() - began
    console.print(f"[bold]{title}[/bold], {path.name}: {matches.num_rows} matches in {seconds:.2f} s")
    table = Table(box=None)
    for column in matches.column_names:
        table.add_column(column, justify="right", no_wrap=True)
    for row in matches.slice(0, n_shown).to_pylist():
        table.add_row(*(str(value) if isinstance(value, int) else f"{value:%H:%M:%S}" for value in row.values()))
    console.print(table)
    items = set(matches["id"].to_pylist())
    console.print(f"{len(items & planted)} of {len(planted)} planted cases found, {len(items - planted)} false alarms\n")
    return items == planted


def main() -> int:
    console = Console(highlight=False)
    streams, planted = generate_readings()
    n_readings = sum([table.num_rows for table in streams.values()])
    console.print(f"{n_readings:,} readings of {N_ITEMS:,} items on one day\n")
    right = [
        run_query(console, "Stolen", HERE / "shoplifting.sase", streams, planted["stolen"]),
        run_query(console, "Misplaced", HERE / "misplaced.sase", streams, planted["misplaced"]),
        run_query(console, "Twice too long in a fitting room", HERE / "overstay.sase", streams, planted["overstayed"]),
    ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
