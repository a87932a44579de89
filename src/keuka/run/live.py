"""Loaded rules over streams that are pushed: rows in, whole epochs through the runners, matches out. `engine.py` is its face.

Time goes to the smallest frontier of the streams that rules read. What rules publish never leaves the runner on its way to the rules
that read it.
"""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import OutputColumns, Tables
from keuka.diagnostics import Span
from keuka.errors import KeukaError
from keuka.events.clocks import show_time, time_of
from keuka.events.columns import Int64Array
from keuka.events.delivery import Delivery, about_bytes
from keuka.events.frontiers import BEGINNING, INFINITE, Arrivals, EventBatch, Frontiers, late_rows
from keuka.events.intake import Intake, RowsRead
from keuka.events.matches import result_schema
from keuka.events.order import common_axis
from keuka.events.sources import OpenStream
from keuka.events.types_seen import LiveTypes
from keuka.kernel.machine import OutOfRoom
from keuka.kernel.stacks import MATCH_CHUNK
from keuka.run import limits
from keuka.run.embedded import FEWEST_ROWS, MOST_ROWS, next_rows
from keuka.run.results import MatchBatch
from keuka.run.runner import NOTHING, Runner, Usage
from keuka.schema import Meaning, StreamType, TimeAxis

log = logging.getLogger("keuka")

# Up to so many rows are copied to go through the kernel in one call instead of two, because a call has its price.
FEW_ROWS = 4_096


@dataclass(frozen=True, eq=False)
class LoadedRule:
    """A rule whose streams are known: its tables, and what stands around them."""

    name: str
    tables: Tables
    since: int  # it sees the events of epochs after this tick
    is_bounded: bool  # every partial match is dropped when it has taken too long
    contributors: bool
    axis: TimeAxis  # the clock of its results
    names: dict[str, str]  # by output: what `_query` says of its matches
    published: dict[str, Meaning]  # the outputs that other rules can read
    types: Mapping[str, Span | None]  # with a type column, the types that it reads, and where

    def schema(self, output: OutputColumns) -> pa.Schema:
        """The columns of its results."""
        return result_schema(output.schema, self.axis, self.contributors)


@dataclass(frozen=True)
class Published:
    """A stream that a rule publishes."""

    name: str
    type: StreamType
    contributors: bool  # are the events behind its own events known?


@dataclass(frozen=True)
class Waiting:
    """What the events of an engine wait for.

    stream: the stream that holds time back.
    time: how far it has come: events from this time on wait. None if it has not come anywhere yet.
    since: when it was last heard of, by the clock on the wall.
    n_events: how many events wait, of all streams.
    """

    stream: str
    time: Any
    since: datetime.datetime
    n_events: int


class LiveStream:
    """An input stream: its door, the rows that wait, and what came too late."""

    def __init__(self, stream: OpenStream, now: float) -> None:
        self.stream = stream
        self.intake = Intake(stream)
        self.arrivals = Arrivals(stream)
        self.heard = now  # when it last pushed or promised
        self.n_late = 0
        self.late: list[pa.RecordBatch] = []

    @property
    def n_bytes(self) -> int:
        """About how much its waiting and late rows take."""
        n_rows = self.arrivals.n_held
        if self.late:
            n_rows += sum([batch.num_rows for batch in self.late])
        return int(n_rows * self.intake.row_bytes)

    def counters(self) -> dict[str, int]:
        n_rows, n_held = self.intake.n_rows, self.arrivals.n_held
        return {"events": n_rows, "processed": n_rows - self.n_late - n_held, "waiting": n_held, "late": self.n_late}


class Live:
    """Streams, rules and time of one engine. Whoever calls it sees to it that calls do not overlap."""

    def __init__(self, clock: Callable[[], float], idle_after: float | None, keep_late: bool, tells_late: bool = True) -> None:
        """`keep_late`: are late rows kept for who wants them? `tells_late`: is the first of each stream a warning in the log?"""
        self.clock = clock
        self.idle_after = idle_after
        self.keep_late = keep_late
        self.tells_late = tells_late
        self.memory_limit = limits.default_memory()
        self.streams: dict[str, LiveStream] = {}  # replaced as a whole, never changed, so that `turns.py` can take a change back
        self.rules: dict[str, LoadedRule] = {}
        self.n_matches: Counter[str] = Counter()  # by rule
        self.frontiers = Frontiers(few_rows=FEW_ROWS)
        self.delivery = Delivery()
        self.runner: Runner | None = None  # from the first rule on
        self.unknown: list[str] = []  # streams that rules read and whose columns nobody has said yet
        self.promised = BEGINNING  # for streams that are not known yet, too
        # An exception now would leave rows, rules or partial matches neither here nor there. Whatever changes something sets it first;
        # only the end of a call, or of undoing one, clears it (`turns.py`).
        self.is_in_doubt = False
        self.is_torn = False  # a stream or a rule is only half there, so that its coming cannot be undone
        self.failure: str | None = None  # what ended a call in the middle
        self.is_closed = False
        self.types: LiveTypes | None = None  # where one stream has the events of all types
        self._readers: Counter[str] = Counter()  # how many rules read an input stream
        self._read: list[LiveStream] = []  # the streams among them that are known
        self._expected: dict[str, float] = {}  # when a rule first asked for a stream
        self._published: dict[str, Published] = {}
        self._sources: Counter[str] = Counter()  # how many loaded rules read a stream, input or published
        self._wanted: dict[str, tuple[str, ...]] = {}  # what loaded rules read of each input stream
        self.is_full = False  # the limit was reached by the last call
        self._n_allocated = 0  # bytes of the kernel after the last step: at least what it holds
        self._n_waiting = 0  # bytes of rows that waited when time last stopped
        self._going: Iterator[list[MatchBatch]] | None = None  # a step in the middle, whose matches did not fit into the limit
        self._n_rows = FEWEST_ROWS  # of the next step, at the most

    # -- streams and rules -------------------------------------------------------------------------------------------------

    @property
    def axis(self) -> TimeAxis | None:
        """The clock of all streams; None while there is none."""
        return common_axis([live.stream for live in self.streams.values()]) if self.streams else None

    def open(self, stream: OpenStream) -> None:
        """A stream is known from now on. All streams share one clock."""
        common_axis([*[live.stream for live in self.streams.values()], stream])
        live = LiveStream(stream, self.clock())
        live.arrivals.promise(self.promised)
        self.is_in_doubt = self.is_torn = True
        self.streams = {**self.streams, stream.name: live}
        self.frontiers.arrivals[stream.name] = live.arrivals
        self._count_readers()
        self.is_torn = False

    def close(self, name: str) -> None:
        """A stream is not known any more. No event of it was taken, and no rule that runs reads it."""
        self.is_in_doubt = True
        self.streams = {other: live for other, live in self.streams.items() if other != name}
        del self.frontiers.arrivals[name]
        if not self.rules:
            self.runner = None
        elif self.runner is not None:
            self.runner.close(name)
        self._count_readers()

    def expect(self, names: Iterable[str]) -> None:
        """A rule will read these input streams, known or not: time goes no further than they have come."""
        self.is_in_doubt = True
        for name in names:
            self._readers[name] += 1
            self._expected.setdefault(name, self.clock())
        self._count_readers()

    def forget(self, names: Iterable[str]) -> None:
        """A rule no longer reads these input streams."""
        self.is_in_doubt = True
        self._readers -= Counter(names)
        self._expected = {name: at for name, at in self._expected.items() if name in self._readers}
        self._count_readers()

    def _count_readers(self) -> None:
        self.unknown = [name for name in self._readers if name not in self.streams]
        self._read = [live for name, live in self.streams.items() if name in self._readers]

    def find(self, name: str) -> OpenStream | Published | None:
        """A stream that a rule can read, input or published; None if there is none of that name."""
        live = self.streams.get(name)
        return self._published.get(name) if live is None else live.stream

    def load(self, rule: LoadedRule) -> None:
        """The rule runs from now on; if it cannot, nothing has changed."""
        self.check_whole()
        before = self.is_in_doubt
        self.is_in_doubt = self.is_torn = True
        if self.runner is None:
            self.runner = Runner((), rule.axis)
        try:
            self._load(rule, self.runner)
        except KeukaError:
            self.is_torn = False
            self.is_in_doubt = before
            raise
        self.rules[rule.name] = rule
        for output in rule.tables.outputs:
            self.delivery.announce(rule.name, output.name, rule.names[output.name], rule.schema(output))
            if output.name in rule.published:
                self.runner.publish(output.name, rule.name, output)
                type_ = StreamType(output.schema, rule.axis, rule.published[output.name])
                self._published[output.name] = Published(output.name, type_, rule.contributors)
        self.is_torn = False

    def _load(self, rule: LoadedRule, runner: Runner) -> None:
        sources = [source.name for source in rule.tables.sources]
        for name in sources:
            if name in self.streams:
                runner.open(self.streams[name].stream)
        runner.load(rule.name, rule.tables, rule.since, rule.axis)
        try:
            self._sources.update(sources)
            self._read_columns()
        except KeukaError:
            self._sources -= Counter(sources)
            runner.unload(rule.name)
            raise

    def unload(self, name: str) -> None:
        """The rule and its partial matches go. Matches already found are still delivered."""
        self.check_whole()
        assert self.runner is not None
        self.is_in_doubt = True
        rule = self.rules.pop(name)
        for output in rule.tables.outputs:
            self.delivery.withdraw(name, output.name)
            if output.name in rule.published:  # one without PUBLISH may have a name that another rule publishes
                del self._published[output.name]
                self.runner.withdraw(output.name)
        self.runner.unload(name)
        self._sources -= Counter([source.name for source in rule.tables.sources])
        self._read_columns()
        self.n_matches.pop(name, None)

    def _read_columns(self) -> None:
        """Looks up what rules read, and brings the waiting rows of columns that are new into their canonical types."""
        assert self.runner is not None
        wanted = {name: columns for name, columns in self.runner.columns().items() if name in self._sources}
        # All before the first is changed: a value that does not fit must leave everything as it was.
        converted = {}
        for name, names in wanted.items():
            intake, runs = self.streams[name].intake, self.streams[name].arrivals.runs
            for batch in runs:
                intake.check_fields(batch.table, batch.rows, self.runner.fields(name))
            converted[name] = intake.converted(runs, names)
        for name, runs in converted.items():
            self.streams[name].arrivals.runs = runs
            self.streams[name].intake.want(wanted[name])
            self.streams[name].intake.fields = self.runner.fields(name)
        self._wanted = wanted

    def usage(self, name: str) -> Usage:
        return self.runner.usage(name) if self.runner is not None and name in self.rules else NOTHING

    # -- rows and time -----------------------------------------------------------------------------------------------------

    def take(self, name: str, batches: RowsRead) -> None:
        """Takes in rows that the stream's intake has read."""
        live = self.streams[name]
        self.is_in_doubt = True
        live.intake.count(batches)
        live.heard = self.clock()
        floor = self.frontiers.time
        for raw, batch in batches:
            frontier = live.arrivals.frontier
            late = live.arrivals.push(batch, floor)
            if late is not None and name not in self._readers:
                late = late_rows(batch.end, frontier, live.stream.lateness)  # that time has passed a row matters to nobody
            if late is not None:
                self._set_aside(live, raw, batch, late)

    def _set_aside(self, live: LiveStream, raw: pa.RecordBatch, batch: EventBatch, late: Int64Array) -> None:
        if not live.n_late and self.tells_late:
            first = show_time(int(batch.end[late[0]]), live.stream.type.axis)
            place = live.stream.where(int(batch.rows[late[0]]))
            remedy = "`engine.late` counts them, `lateness=` allows them"
            log.warning("rows come too late to be used, the first with the time %s (%s); %s", first, place, remedy)
        live.n_late += len(late)
        if self.keep_late:
            # By slices: Arrow has types that it cannot pick single rows from.
            runs = np.split(late, np.flatnonzero(np.diff(late) != 1) + 1)
            live.late.append(pa.concat_batches([raw.slice(int(run[0]), len(run)) for run in runs]))

    def promise(self, frontier: int, names: Iterable[str]) -> None:
        """These streams have come to the frontier: nothing before it will be pushed."""
        self.is_in_doubt = True
        now = self.clock()
        for name in names:
            self.streams[name].arrivals.promise(frontier)
            self.streams[name].heard = now

    def frontier(self) -> int:
        """How far time may go: to the smallest frontier of the streams that rules read and that are not idle."""
        if self.unknown:
            return self.frontiers.time
        if self._read and self.idle_after is None:
            return min([live.arrivals.frontier for live in self._read])
        counted, awake = self._counted()
        if awake:
            return min([live.arrivals.frontier for live in awake])
        return max([live.arrivals.frontier for live in counted], default=BEGINNING)

    def _counted(self) -> tuple[list[LiveStream], list[LiveStream]]:
        """The streams whose frontiers count, and those of them that are not idle."""
        # Without rules nothing waits for a stream of which nothing was heard.
        counted = self._read or [live for live in self.streams.values() if live.arrivals.frontier > BEGINNING]
        if self.idle_after is None:
            return counted, counted
        now = self.clock()
        return counted, [live for live in counted if now - live.heard < self.idle_after]

    def idle(self) -> list[str]:
        """The streams that are read and no longer waited for."""
        counted, awake = self._counted()
        return [live.stream.name for live in counted if live not in awake]

    def waiting(self) -> Waiting | None:
        """What events wait for; None if none waits."""
        n_events = sum([live.arrivals.n_held for live in self.streams.values()])
        if n_events == 0:
            return None
        if self.unknown:
            name, frontier = self.unknown[0], BEGINNING
            heard = self._expected[name]
        else:
            counted, awake = self._counted()
            slowest = min(awake or counted or self.streams.values(), key=lambda live: live.arrivals.frontier)
            name, heard, frontier = slowest.stream.name, slowest.heard, slowest.arrivals.frontier
        since = datetime.datetime.now().astimezone() - datetime.timedelta(seconds=self.clock() - heard)
        return Waiting(name, self.event_time(frontier), since, n_events)

    def event_time(self, tick: int) -> Any:
        """A tick as a user would give it; None for the beginning and the end of time."""
        axis = self.axis
        return None if axis is None or not BEGINNING < tick < INFINITE else time_of(tick, axis)

    def run(self, frontier: int | None = None) -> None:
        """Lets time go on as far as it may, or to a given frontier.

        K518 if more memory is held than allowed, by what waits or by matches; what was not processed then still waits.
        """
        self.is_in_doubt = True
        if self.delivery.n_found and self._are_too_many(()):  # what was found goes first
            raise limits.too_many_matches(self.n_matches, self.memory_limit)
        # A stream that a new rule reads, or one that was idle, may be behind: time never goes back.
        frontier = max(self.frontier() if frontier is None else frontier, self.frontiers.time)
        if self.is_full:
            self._check_kernel_memory()
        try:
            while self._begin(frontier):
                n_found = self._go_on()
                self._n_rows = min(next_rows(self._n_rows, n_found), MOST_ROWS)
                self._check_kernel_memory()
                if self.frontiers.time == frontier:
                    break  # a step does all there is to be done up to the time at its end
        except OutOfRoom:  # the step stays in the middle, and with it the engine in doubt
            raise limits.out_of_memory_within(self.memory_limit, self._used()) from None
        self._n_waiting = self._waiting_bytes()
        if self._n_allocated + self._n_waiting > self.memory_limit and self.n_bytes > self.memory_limit:
            raise self._too_much(False, "the events that were pushed are kept")

    def _used(self) -> dict[str, Usage]:
        """By rule: what it holds, the results of the step at hand included."""
        assert self.runner is not None
        return {name: self.runner.usage_of_step(name) for name in self.rules}

    def _begin(self, frontier: int) -> bool:
        """The next step, unless one is in the middle; False if time has come to the frontier."""
        if self._going is None and self.runner is not None:
            if step := self.frontiers.step(frontier, self._wanted, self._n_rows):
                self._going = self.runner.process(step, self.frontiers.time - 1, self._room())
            elif self.runner.has_work(frontier - 1):
                self._going = self.runner.process({}, frontier - 1, self._room())
        elif self._going is None:
            while self.frontiers.step(frontier, self._wanted, self._n_rows):
                pass  # nobody reads them
        return self._going is not None

    def _go_on(self) -> int:
        """Runs the step at hand to its end; returns how many matches it had. If they do not fit into the limit it stays in the middle."""
        assert self._going is not None
        found: list[MatchBatch] = []  # of all turns, because rules take theirs one after the other
        for batches in self._going:
            found += batches
            if found and self._are_too_many(found):
                self._collect(found)
                raise limits.too_many_matches(self.n_matches, self.memory_limit)
        self._going = None
        return self._collect(found)

    def _are_too_many(self, found: Sequence[MatchBatch]) -> bool:
        """Do matches that were not taken hold more than allowed? So many that a call would return anyway are always allowed."""
        n_rows = self.delivery.n_found
        for batch in found:
            n_rows += batch.rows.num_rows
        if n_rows < MATCH_CHUNK:
            return False
        return self.delivery.n_bytes + sum([about_bytes(batch.rows) for batch in found]) > self.memory_limit

    @property
    def is_going(self) -> bool:
        """Is a step in the middle?"""
        return self._going is not None

    def check_whole(self) -> None:
        """Refuse what cannot be done while a step is in the middle."""
        if self._going is not None:
            raise limits.partly_done()

    def _collect(self, found: Sequence[MatchBatch]) -> int:
        """Keeps what was found for the next delivery; returns how many matches there are."""
        if not found:
            return 0
        for batch in found:
            self.n_matches[batch.query] += batch.rows.num_rows
        return self.delivery.collect([(batch.query, batch.output, batch.rows) for batch in found])

    # -- counters and memory -----------------------------------------------------------------------------------------------

    def counters(self, names: Iterable[str]) -> dict[str, Any]:
        """The counters as a whole, by stream, and by rule for these rules."""
        streams = {name: live.counters() for name, live in self.streams.items()}
        rules = {name: self.rule_counters(name) for name in names}
        total = {key: sum([one[key] for one in streams.values()]) for key in ("events", "processed", "waiting", "late")}
        total |= {key: sum([one[key] for one in rules.values()]) for key in ("matches", "live_instances")}
        return {**total, "bytes": self.n_bytes, "streams": streams, "rules": rules}

    def rule_counters(self, name: str) -> dict[str, int]:
        used = self.usage(name)
        return {"matches": self.n_matches[name], "live_instances": used.n_instances, "bytes": used.n_bytes}

    @property
    def n_bytes(self) -> int:
        """What partial matches, waiting rows and late rows take."""
        return self._kernel_bytes + self._waiting_bytes()

    def _waiting_bytes(self) -> int:
        n_bytes = 0
        for live in self.streams.values():
            n_bytes += live.n_bytes
        return n_bytes

    def _room(self) -> int:
        """What the next step may take of memory."""
        return max(0, self.memory_limit + limits.STEP_ROOM - self._n_allocated - self._n_waiting)

    @property
    def _kernel_bytes(self) -> int:
        return 0 if self.runner is None else self.runner.n_bytes

    def check_room(self, name: str) -> None:
        """May rows of this stream come in? Not if too much is held already, unless others wait for just this stream."""
        self.is_full = self.n_bytes > self.memory_limit
        if not self.is_full:
            return
        live = self.streams.get(name)
        is_kernel = self._kernel_bytes > self.memory_limit
        if is_kernel or (live is not None and live.arrivals.frontier > self.frontier()):
            raise self._too_much(is_kernel, "the batch was not taken: push it again")

    def _check_kernel_memory(self) -> None:
        self._n_allocated = 0 if self.runner is None else self.runner.n_allocated
        if self._n_allocated > self.memory_limit and self._kernel_bytes > self.memory_limit:
            raise self._too_much(True, "the events that were pushed are kept")

    def _too_much(self, is_kernel: bool, batch: str) -> KeukaError:
        """`is_kernel`: partial matches alone are too much; rows may wait only because the kernel takes no more."""
        self.is_full = True
        used = {name: self.usage(name) for name in self.rules}
        waiting = {} if is_kernel else {name: (live.arrivals.n_held, live.n_bytes) for name, live in self.streams.items()}
        unbounded = [name for name, rule in self.rules.items() if not rule.is_bounded]
        n_bytes = self._kernel_bytes if is_kernel else self.n_bytes
        return limits.too_much(n_bytes, self.memory_limit, used, unbounded, waiting, batch)
