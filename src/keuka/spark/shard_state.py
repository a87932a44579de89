"""A shard from one micro-batch to the next: what Spark's store keeps of it, and the kernels that this worker still has.

Comes in: the rows that a micro-batch brings (`shards.Arrived`) and Spark's map of names to bytes. Goes out: what the shard tells, and the
same map, changed. The state is a snapshot and a log of what came since; decision 22 has the reasons.
"""

from __future__ import annotations

import itertools
import json
import secrets
import time as clock
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from keuka.automaton.tables import from_bytes
from keuka.errors import DataError, data_error
from keuka.run import state_bytes
from keuka.spark.shards import METRICS, Arrived, Shard, ShardTask, load_task
from keuka.spark.worker import limits_of_task

PIECE_BYTES = 16 * 2**20  # of a snapshot in one value of Spark's store
LEAST_LOG = 1_000_000  # bytes of a log below which no snapshot is written
LOGS_PER_SNAPSHOT = 2  # a log may be so many times as long as the last snapshot
MOST_ENTRY = 256 * 2**20  # bytes of an entry, which is one value in Spark's store; a snapshot takes the place of a larger one
KEPT_ENTRIES = 16  # of a log stay behind a snapshot, for workers that saw the shard some batches ago


@dataclass(frozen=True)
class Head:
    """Where a shard stands, as its state says."""

    id: str  # of the shard in this checkpoint
    number: int = 0  # of batches that it has seen
    tokens: tuple[str, ...] = ()  # of the attempts that took the last batches, up to this one
    first: int = 1  # the log has entries of this batch and all after it
    snapshot: int = 0  # the number of the batch after which it was taken; 0 if there is none
    snapshot_bytes: int = 0
    log_bytes: int = 0  # since then

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Head:
        facts = json.loads(content)
        return cls(**{**facts, "tokens": tuple(facts["tokens"])})

    def can_follow(self, copy: Copy) -> bool:
        """Did the copy take the batches of this shard, and does the log have all that it missed?"""
        place = copy.number - (self.number + 1 - len(self.tokens))
        is_ours = 0 <= place < len(self.tokens) and self.tokens[place] == copy.token
        return is_ours and copy.number >= self.first - 1


@dataclass
class Copy:
    """A shard as this process last saw it."""

    shard: Shard
    task: bytes
    number: int
    token: str
    n_bytes: int
    call: int


# Workers serve many partitions, and go on with those they have seen.
_copies: dict[str, Copy] = {}
_calls = itertools.count()


def advance(task_: bytes, store: Store, arrived: Arrived) -> Iterator[tuple[int, pa.Table | None, dict[str, Any]]]:
    """Lets a shard take a batch: what it found, and in the end its numbers.

    A copy of the shard is taken up if the state says that it is not another attempt's. What it has missed stands in the log.
    """
    began = clock.perf_counter_ns()
    task = load_task(task_)
    head = store.head()
    shard, n_restored = _take_up(task_, store, head)
    before = shard.numbers()
    for of, table in shard.step(arrived):
        yield of, table, {}
    head, n_written = _write(store, head, arrived.to_bytes(), shard)
    after = shard.numbers()
    _keep(head.id, Copy(shard, task_, head.number, head.tokens[-1], after["state_bytes"], next(_calls)), task)
    counted = {name: after[name] - before[name] for name in ("events", "late", "matches")}
    held = {name: after[name] for name in ("waiting", "live_instances", "state_bytes")}
    kernel_us = (clock.perf_counter_ns() - began) // 1000
    n_received = sum([len(content) for _, content in arrived.rows])
    spent = {"received_bytes": n_received, "written_bytes": n_written, "kernel_us": kernel_us, "restored": n_restored}
    yield METRICS, None, {**counted, **held, **spent, **shard.streams(), "time": shard.time}


def _take_up(task_: bytes, store: Store, head: Head) -> tuple[Shard, int]:
    """The shard after the last batch, and 1 if it had to be built anew. If the batch fails, this process has no copy of it."""
    copy = _copies.pop(head.id, None)
    n_restored = 0
    if copy is None or copy.task != task_ or not head.can_follow(copy):
        task = load_task(task_)
        copy = Copy(Shard(task, store.tables(task)), task_, 0, "", 0, 0)
        if head.snapshot:
            copy.shard.put(store.snapshot(head))
            copy.number = head.snapshot
        n_restored = 1
    for number in range(copy.number + 1, head.number + 1):
        for _ in copy.shard.step(Arrived.from_bytes(store.entry(number))):
            pass
    return copy.shard, n_restored


def _write(store: Store, head: Head, entry: bytes, shard: Shard) -> tuple[Head, int]:
    """Writes what has become of the shard; returns where it stands now, and how many bytes that took.

    The log gets the entry. When the log grows too long, a snapshot takes its place, and the entry is left out if the snapshot is smaller:
    where few events are remembered, each batch is so. W1 with 1M rows a batch took 2.0 s with every entry in the log, 1.5 s so.
    """
    number, n_log = head.number + 1, head.log_bytes + len(entry)
    after = replace(head, number=number, tokens=(*head.tokens[-KEPT_ENTRIES:], secrets.token_hex(8)), log_bytes=n_log)
    if n_log <= max(LEAST_LOG, LOGS_PER_SNAPSHOT * head.snapshot_bytes) and len(entry) <= MOST_ENTRY:
        store.append(number, entry)
        n_written = len(entry)
    else:
        snapshot = shard.take()
        store.put_snapshot(snapshot, head)
        first, n_written = number + 1, len(snapshot)
        if len(entry) < len(snapshot) and len(entry) <= MOST_ENTRY:
            store.append(number, entry)
            first, n_written = max(head.first, number - KEPT_ENTRIES), len(entry) + len(snapshot)
        store.remove(range(head.first, min(first, number)))
        after = replace(after, first=first, snapshot=number, snapshot_bytes=len(snapshot), log_bytes=0)
    store.put_head(after)
    return after, n_written


def _keep(id: str, copy: Copy, task: ShardTask) -> None:
    """Keeps the copy, and as many others as take half of what a task may take: the rest is for the shard that runs.

    Copies that were not called for so long that the log has forgotten what they missed go first. Shards are called in turn, so of the
    others the one that was called last goes first: it will be called last again.
    """
    limit = limits_of_task(task.limits, task.n_tasks).n_bytes // 2
    n_bytes = copy.n_bytes + sum([other.n_bytes for other in _copies.values()])
    oldest = copy.call - KEPT_ENTRIES * (len(_copies) + 1)
    outdated = [other for other, kept in _copies.items() if kept.call < oldest]
    for other in [*outdated, *reversed([other for other in _copies if other not in outdated])]:
        if n_bytes <= limit:
            break
        n_bytes -= _copies.pop(other).n_bytes
    _copies[id] = copy


ANOTHER = {
    "meaning": "another meaning",
    "results": "other columns of its results",
    "columns": "other columns of its streams",
    "key": "another key",
    "lateness": "another lateness",
    "idle_after": "another `idle_after`",
}


def describe(task: ShardTask) -> dict[str, Any]:
    """What must stay as it is as long as a checkpoint is used. Tables may change: a later version may plan in another way."""
    columns = {i.name: [[[f.name, str(f.type)] for f in i.schema], i.header.times, i.header.id, i.unit] for i in task.inputs}
    names = list(columns)
    facts: dict[str, Any] = {
        "meaning": {output.name: output.fingerprint.hex() for output in from_bytes(task.tables).outputs},
        "results": {output.name: [[f.name, str(f.type)] for f in output.schema] for output in task.outputs},
        "columns": columns,
        "key": dict(zip(names, task.key, strict=True)),
        "lateness": dict(zip(names, task.lateness, strict=True)),
        "idle_after": task.idle_after,
        "shards": len(task.keys),
    }
    return dict(json.loads(json.dumps(facts)))  # as it comes out of a checkpoint


def require_same(theirs: dict[str, Any], own: dict[str, Any]) -> None:
    """K557 if a checkpoint was made for something else."""
    differing = [text for what, text in ANOTHER.items() if own[what] != theirs[what]]
    differing += _other_types(theirs["columns"], own["columns"])
    if own["shards"] != theirs["shards"]:
        differing.append(f"{theirs['shards']} shards instead of {own['shards']}")
    if differing:
        raise another_checkpoint(differing)


def _other_types(theirs: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """The columns that have another type now: types of files are those of the files that are there when a run begins."""
    found = []
    for stream in [stream for stream in own if stream in theirs]:
        before = dict(theirs[stream][0])
        changed = [(name, before[name], now) for name, now in own[stream][0] if before.get(name, now) != now]
        found += [f"`{name}` of `{stream}` as {was} instead of {now}, which `schema` can declare" for name, was, now in changed]
    return found[:3]


def another_checkpoint(differing: Sequence[str]) -> DataError:
    first = "".join([f"{text}, " for text in differing[:-2]])
    problem = f"the checkpoint belongs to a streaming query with {first}{' and '.join(differing[-2:])}"
    return data_error("K557", problem, "start with another checkpoint, or go back to what it was made with")


class Map(Protocol):
    """Spark's state variable, as far as it is used."""

    def getValue(self, key: Any) -> Any: ...  # noqa: N802  Spark's name, as the next two

    def updateValue(self, key: Any, value: Any) -> None: ...  # noqa: N802

    def removeKey(self, key: Any) -> None: ...  # noqa: N802


class Store:
    """The state of one shard in Spark's store: what it was made for, a head, a log, a snapshot in pieces.

    All of it is in one variable, because Spark makes every variable known anew in every task.
    """

    def __init__(self, values: Map) -> None:
        self._values = values

    def tables(self, task: ShardTask) -> bytes:
        """Those that the checkpoint was made with. Another query, other columns and another number of shards are refused (K557)."""
        own = describe(task)
        content = self._get("plan")
        if content is None:
            self._put("plan", state_bytes.pack({"tables": task.tables, "description": json.dumps(own).encode()}))
            return task.tables
        sections = state_bytes.unpack(content)
        require_same(json.loads(sections["description"]), own)
        return sections["tables"]

    def head(self) -> Head:
        content = self._get("head")
        return Head(secrets.token_hex(16)) if content is None else Head.from_bytes(content)

    def put_head(self, head: Head) -> None:
        self._put("head", head.to_bytes())

    def entry(self, number: int) -> bytes:
        return self._there(f"log/{number}")

    def append(self, number: int, entry: bytes) -> None:
        self._put(f"log/{number}", entry)

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._values.removeKey((f"log/{number}",))

    def snapshot(self, head: Head) -> bytes:
        return b"".join([self._there(name) for name in _pieces(head.snapshot_bytes)])

    def put_snapshot(self, snapshot: bytes, before: Head) -> None:
        names, old_names = _pieces(len(snapshot)), _pieces(before.snapshot_bytes)
        for i, name in enumerate(names):
            self._put(name, snapshot[i * PIECE_BYTES : (i + 1) * PIECE_BYTES])
        for name in old_names[len(names) :]:
            self._values.removeKey((name,))

    def _get(self, name: str) -> bytes | None:
        row = self._values.getValue((name,))
        return None if row is None else bytes(row[0])

    def _there(self, name: str) -> bytes:
        content = self._get(name)
        assert content is not None, name
        return content

    def _put(self, name: str, content: bytes) -> None:
        self._values.updateValue((name,), (content,))


def _pieces(n_bytes: int) -> list[str]:
    return [f"snapshot/{i}" for i in range(-(-n_bytes // PIECE_BYTES))]
