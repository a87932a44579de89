"""The memory limit of an engine: how users write it, and what they are told when it is reached."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError, data_error
from keuka.run.runner import Usage

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_LOWERED = {unit.lower(): n_bytes for unit, n_bytes in UNITS.items()}


def limit_bytes(limit: object) -> int | None:
    """A limit in bytes: a text such as "4 GB", a number of bytes, or None."""
    if limit is None:
        return None
    n_bytes = None
    if isinstance(limit, int) and not isinstance(limit, bool):
        n_bytes = limit
    parts = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-zA-Z]+)\s*", limit) if isinstance(limit, str) else None
    if parts is not None and parts.group(2).lower() in _LOWERED:
        n_bytes = int(float(parts.group(1)) * _LOWERED[parts.group(2).lower()])
    if n_bytes is None or n_bytes <= 0:
        help = f"write it like '4 GB', with a unit of {', '.join(UNITS)}, or give a number of bytes"
        raise data_error("K515", f"memory_limit {limit!r} is not an amount of memory", help)
    return n_bytes


def show_bytes(n_bytes: int) -> str:
    unit = next((u for u in ("TB", "GB", "MB", "kB") if n_bytes >= UNITS[u]), "B")
    return f"{n_bytes / UNITS[unit]:.3g} {unit}"


class ManyMatchesError(DataError):
    """K518 for matches that nobody has taken yet: the next call takes them, and goes on."""


def too_many_matches(n_matches: Mapping[str, int], limit: int | None) -> ManyMatchesError:
    """Says whose matches they are, and how to get at them."""
    rule = max(n_matches, key=lambda name: n_matches[name], default="")
    message = f"a step of the engine has more matches than its memory_limit of {show_bytes(limit or 0)} holds, and is only partly done"
    help = (
        "`engine.poll()` returns them, and goes on with the rest: call it until it returns none",
        "a shorter WITHIN, an equivalence test such as `[id]` or more conditions make fewer matches; or raise `engine.memory_limit`",
    )
    return ManyMatchesError(Diagnostic("K518", message, label=f"rule `{rule}` has had {n_matches[rule]:,} so far", help=help))


def partly_done() -> DataError:
    """Why rules cannot change, nor a snapshot be taken, just now."""
    message = "a step with more matches than the memory_limit holds is only partly done, so this has to wait; nothing has changed"
    return data_error("K518", message, "take its matches first: call `engine.poll()` until it returns none")


def too_much(
    n_bytes: int,
    limit: int,
    used: Mapping[str, Usage],
    unbounded: Collection[str],
    waiting: Mapping[str, tuple[int, int]],  # by stream: rows that wait, bytes they take
    batch: str,  # what became of the last batch
) -> DataError:
    """Says who holds most, and what would make it less."""
    message = f"the engine holds {show_bytes(n_bytes)}, and its memory_limit is {show_bytes(limit)}"
    rule = max(used, key=lambda name: used[name].n_bytes, default=None)
    stream = max(waiting, key=lambda name: waiting[name][1], default=None)
    if stream is not None and (rule is None or waiting[stream][1] > used[rule].n_bytes):
        n_rows, size = waiting[stream]
        where = f"stream `{stream}` holds most: {show_bytes(size)} for {n_rows:,} events that wait"
        remedies = [
            "`engine.waiting()` says which stream they wait for: push it, `advance` it, or set `idle_after=`",
            "less `lateness=` lets events go earlier, and late ones that are kept can be taken: `take_late`",
        ]
    else:
        if rule is None:
            return data_error("K518", message, "raise the limit: `engine.memory_limit = ...`")
        where = f"rule `{rule}` holds most: {show_bytes(used[rule].n_bytes)} for {used[rule].n_instances:,} partial matches"
        bound = "bound how long its matches may take, for example `FILTER {DUR <= 10 min} (...)`; now partial matches wait for ever"
        shorter = "a smaller bound on DUR, a more selective first FILTER, fewer columns, or no contributors would need less"
        remedies = [bound if rule in unbounded else shorter, "remove it: `rule.remove()`"]
    return data_error("K518", message, *remedies, f"or raise the limit, `engine.memory_limit = ...`, and go on; {batch}", where=where)
