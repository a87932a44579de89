"""Limits of a run: how much memory, how many seconds, how many matches. How users write them, and what they are told (K518)."""

from __future__ import annotations

import functools
import math
import os
import re
import resource
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError, data_error
from keuka.run.runner import Usage

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_LOWERED = {unit.lower(): n_bytes for unit, n_bytes in UNITS.items()}

# A step may take this much beyond the limit. What grows slowly is so noticed between two steps, where nothing is lost by it.
STEP_ROOM = 128 * 10**6

CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Limits:
    """How much a query may take. When it would be more, the call stops with K518, which names the query and what would help.

    memory: what partial matches, waiting events and the matches of a call may take, for example "4 GB", or a number of bytes. By
        default half the memory of the machine, or of the container. The process itself needs some 200 MB beside it.
    seconds: how long a call may run.
    matches: how many matches there may be, of all outputs together.

    On Spark every task has these limits for itself; the default is then divided by the tasks that an executor runs at once.

    >>> import keuka
    >>> everything = "SELECT a_1 FROM S NEXT S"
    >>> keuka.match(everything, [{"t": t, "a": 1} for t in range(9)], time="t", limits=keuka.Limits(matches=5))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    keuka.errors.DataError: error[K518]: the query has more than 5 matches, its limit
    ...
    """

    memory: str | int | None = None
    seconds: float | None = None
    matches: int | None = None

    def __post_init__(self) -> None:
        memory_bytes(self.memory)
        for name, kinds in (("seconds", (int, float)), ("matches", (int,))):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value < math.inf):
                raise data_error("K515", f"{name} {value!r} is not a limit", f"give a number above 0, as in `keuka.Limits({name}=60)`")

    @property
    def n_bytes(self) -> int:
        """The limit of memory in bytes."""
        return memory_bytes(self.memory)


def memory_bytes(limit: object) -> int:
    """A limit of memory in bytes: a text such as "4 GB", a number of bytes, or None for the default."""
    if limit is None:
        return default_memory()
    n_bytes = None
    if isinstance(limit, int) and not isinstance(limit, bool):
        n_bytes = limit
    parts = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-zA-Z]+)\s*", limit) if isinstance(limit, str) else None
    if parts is not None and parts.group(2).lower() in _LOWERED:
        n_bytes = int(float(parts.group(1)) * _LOWERED[parts.group(2).lower()])
    if n_bytes is None or not 0 < n_bytes < 2**62:
        help = f"write it like '4 GB', with a unit of {', '.join(UNITS)}, or give a number of bytes"
        raise data_error("K515", f"{limit!r} is not an amount of memory", help)
    return n_bytes


@functools.cache
def default_memory() -> int:
    """Half of what this process can have: of the machine, of its container, of its own limit."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min([machine, *([own] if own != resource.RLIM_INFINITY else []), *_container_limits()]) // 2


def _container_limits() -> Iterator[int]:
    """The limits of the control groups that this process is in, version 2 or 1, and of those around them."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root, file = (CGROUPS, "memory.max") if controllers == "" else (CGROUPS / "memory", "memory.limit_in_bytes")
        inner = root / group.lstrip("/")
        for folder in [inner, *inner.parents]:
            try:
                text = (folder / file).read_text().strip()
            except OSError:
                continue
            if text.isdigit():
                yield int(text)


def show_bytes(n_bytes: int) -> str:
    unit = next((u for u in ("TB", "GB", "MB", "kB") if n_bytes >= UNITS[u]), "B")
    return f"{n_bytes / UNITS[unit]:.3g} {unit}"


# -- what users are told of a call -----------------------------------------------------------------------------------------

FEWER = "a shorter window, a key, or more conditions make fewer matches"
SMALLER = (
    "bound how long matches may take (`FILTER {DUR <= 10 min} (...)` in CEL, `WITHIN 10 min` in SASE), compare a key, or add conditions"
)


def out_of_memory(limit: int, held: Mapping[str, Usage], remedy: str) -> DataError:
    """Partial matches, or the matches of one step, are too much."""
    message = f"the query needs more memory than its limit of {show_bytes(limit)}"
    return data_error("K518", message, SMALLER, remedy, where=_most(held))


def out_of_memory_in_shard(limit: int, outputs: str, used: Usage, waiting: Mapping[str, tuple[int, int]]) -> DataError:
    """A shard of a query over streams that go on holds too much. `waiting`: by stream, rows that wait, and the bytes they take."""
    stream = max(waiting, key=lambda name: waiting[name][1])
    n_rows, n_bytes = waiting[stream]
    held = (
        _most({outputs: used}) if n_bytes < used.n_bytes else f"stream `{stream}` holds most: {show_bytes(n_bytes)} for {n_rows:,} events"
    )
    message = f"a shard of the query needs more memory than its limit of {show_bytes(limit)}"
    fewer = "or let fewer rows wait: less `lateness`, `idle_after=` for a stream that falls silent, and fewer rows in a micro-batch"
    return data_error("K518", message, SMALLER, fewer, raise_memory(limit), where=held)


def too_much_waits(limit: int, n_bytes: int, stream: str) -> DataError:
    """Rows that were read wait for others."""
    message = f"{show_bytes(n_bytes)} of events wait to be brought into order, and the limit of memory is {show_bytes(limit)}"
    help = "less `lateness=` lets events go earlier; files that are in order need no `sort=True`"
    return data_error("K518", message, help, raise_memory(limit), where=f"most of them of stream `{stream}`")


def too_large_result(limit: int, n_matches: Mapping[str, int], remedy: str) -> DataError:
    """The matches that a call has collected are too much."""
    message = f"the matches take more memory than the limit of {show_bytes(limit)}"
    written = "`keuka match --out FILE` and sinks of pipelines write matches as they are found, and hold none"
    return data_error("K518", message, FEWER, written, remedy, where=_had(n_matches))


def too_many(limits: Limits, n_matches: Mapping[str, int]) -> DataError:
    remedy = "or raise the limit: `limits=keuka.Limits(matches=...)`"
    return data_error("K518", f"the query has more than {limits.matches:,} matches, its limit", FEWER, remedy, where=_had(n_matches))


def too_long(limits: Limits, held: Mapping[str, Usage], n_events: int) -> DataError:
    message = f"the query has run for {limits.seconds:g} s, its limit"
    where = f"after {n_events:,} events; {_most(held)}"
    return data_error("K518", message, SMALLER, "or raise the limit: `limits=keuka.Limits(seconds=...)`", where=where)


def raise_memory(limit: int) -> str:
    return f'or raise the limit: `limits=keuka.Limits(memory="{show_bytes(2 * limit)}")`'


def _had(n_matches: Mapping[str, int]) -> str:
    name = max(n_matches, key=lambda name: n_matches[name], default="")
    return f"`{name}` has had {n_matches[name]:,}" if name else ""


def _most(held: Mapping[str, Usage], kind: str = "") -> str:
    name = max(held, key=lambda name: held[name].n_bytes, default="")
    if not name:
        return ""
    used = held[name]
    results = f" and {used.n_results:,} results of one step" if used.n_results else ""
    return f"{kind}`{name}` holds most: {show_bytes(used.n_bytes)} for {used.n_instances:,} partial matches{results}"


# -- what users are told of an engine --------------------------------------------------------------------------------------


class LimitError(DataError):
    """K518 of an engine that is whole: the error says what became of the call."""


class ManyMatchesError(LimitError):
    """K518 for matches that nobody has taken yet: the next call takes them, and goes on."""


def out_of_memory_within(limit: int, used: Mapping[str, Usage]) -> DataError:
    """A single step takes so much more than the limit that it had to be stopped in the middle."""
    message = f"a step of the engine needs more memory than its memory_limit of {show_bytes(limit)}, and was stopped in the middle"
    restore = "`engine.restore(snapshot)` goes back to the last snapshot; then remove the rule, or raise `engine.memory_limit`"
    return data_error("K518", message, restore, SMALLER, where=_most(used, "rule "))


def too_many_matches(n_matches: Mapping[str, int], limit: int) -> ManyMatchesError:
    """Says whose matches they are, and how to get at them."""
    rule = max(n_matches, key=lambda name: n_matches[name], default="")
    message = f"a step of the engine has more matches than its memory_limit of {show_bytes(limit)} holds, and is only partly done"
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
) -> LimitError:
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
            return LimitError(Diagnostic("K518", message, help=("raise the limit: `engine.memory_limit = ...`",)))
        where = f"rule `{rule}` holds most: {show_bytes(used[rule].n_bytes)} for {used[rule].n_instances:,} partial matches"
        bound = "bound how long its matches may take, for example `FILTER {DUR <= 10 min} (...)`; now partial matches wait for ever"
        shorter = "a smaller bound on DUR, a more selective first FILTER, fewer columns, or no contributors would need less"
        remedies = [bound if rule in unbounded else shorter, "remove it: `rule.remove()`"]
    remedies.append(f"or raise the limit, `engine.memory_limit = ...`, and go on; {batch}")
    return LimitError(Diagnostic("K518", message, label=where, help=tuple(remedies)))
