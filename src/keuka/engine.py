"""Live use: rules that are added and removed while streams are pushed. `run/live.py` does the work.

Here are the calls users make, let in one at a time whatever threads they come from; `rules.py` brings a rule from its text to
tables, `snapshots.py` an engine to a value and back.
"""

from __future__ import annotations

import datetime
import logging
import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa

from keuka import snapshots
from keuka.diagnostics import Diagnostic, listing, render, similar
from keuka.errors import KeukaError, QueryError, data_error
from keuka.events.clocks import seconds_of, tick_of
from keuka.events.delivery import Matches
from keuka.events.files import place
from keuka.events.frontiers import INFINITE
from keuka.events.intake import RowsRead, empty_table, memory_table
from keuka.events.sources import OpenStream, Stream, open_stream
from keuka.events.types_seen import LiveTypes, TypesSeen
from keuka.plan.type_column import TypeColumn
from keuka.query import EVENTS, Query, described
from keuka.query import query as as_query
from keuka.rules import Rule, RuleSpec, check_published, conflict, of_rule, plan_rule, publishers, rule_name
from keuka.run import signing
from keuka.run.limits import ManyMatchesError, memory_bytes
from keuka.run.live import Live, Waiting
from keuka.run.turns import Turn, call

log = logging.getLogger("keuka")

ENOUGH_EVENTS = 10_000  # among so many every type should have come


def _live_types(types: TypeColumn | None, seen: Sequence[str]) -> LiveTypes | None:
    return None if types is None else LiveTypes(types.stream, TypesSeen(types.column, {}, set(seen)))


def _log(warnings: Sequence[Diagnostic]) -> None:
    for warning in warnings:
        log.warning("%s", render(warning))


class Engine:
    """Queries over live streams: events are pushed in, matches come out.

    streams: what is known of streams beforehand, by name: a schema or an empty table, or a `Stream` of one that says more. A stream
        that is not named here takes its columns from the first batch that is pushed.
    time, lateness, unit: as in `match`, for all streams that do not say it themselves.
    memory_limit: how much partial matches and waiting events may take, for example "4 GB"; by default half the memory of the machine,
        or of the container. When it is reached a call raises K518; the engine goes on after a rule is removed or the limit is raised.
        A single step that takes far more is stopped in the middle; then the engine must be restored.
    idle_after: a stream that was silent for so long, for example "10 s", no longer holds time back.
    type_column: all events come in one stream, and this column says of which type each is: the streams that rules read are types. The
        stream is called `events`, or as the only one in `streams`. A type that no event has is warned of after 10,000 events, and at
        the end.
    contributors: results of rules that do not say otherwise have `_id` and `_contributors`.
    keep_late: rows that come too late are kept for `take_late`.

    >>> import keuka
    >>> with keuka.Engine(time="t") as engine:
    ...     rule = engine.add("SELECT price_1 AS low, price AS high FROM S NEXT {$2.price > $1.price} S", name="rises")
    ...     first = engine.push("S", [{"t": 1, "price": 10}, {"t": 2, "price": 12}])
    ...     second = engine.push("S", [{"t": 3, "price": 11}])
    ...     last = engine.close()
    >>> len(first), len(second), len(last)
    (0, 1, 0)
    >>> second.to_pylist()
    [{'_query': 'rises', 'low': 10, 'high': 12, '_start': 1, '_end': 2}]
    """

    def __init__(
        self,
        streams: Mapping[str, Any] | None = None,
        *,
        time: Any = None,
        lateness: Any = None,
        unit: Any = None,
        type_column: str | None = None,
        memory_limit: str | int | None = None,
        idle_after: str | float | datetime.timedelta | None = None,
        contributors: bool = False,
        keep_late: bool = False,
        _clock: Callable[[], float] = clock.monotonic,
    ) -> None:
        if streams is not None and not isinstance(streams, Mapping):
            raise TypeError(f"streams must be a dict from name to schema, table or Stream, not {type(streams).__name__}")
        if type_column is not None and not isinstance(type_column, str):
            raise TypeError(f"type_column must be the name of a column (str), not {type(type_column).__name__}")
        if type_column is not None and len(streams or {}) > 1:
            raise data_error("K505", "with `type_column` all events come in one stream", "declare one stream, not several")
        self._said = {"time": time, "lateness": lateness, "unit": unit}
        self._types = None if type_column is None else TypeColumn(type_column, next(iter(streams or {}), EVENTS))
        self._contributors = bool(contributors)
        self._turn = Turn()
        self._rules: dict[str, Rule] = {}  # replaced as a whole, never changed, so that `turns.py` can take a change back
        self._live = Live(_clock, None if idle_after is None else seconds_of("idle_after", idle_after), bool(keep_late))
        self._live.memory_limit = memory_bytes(memory_limit)
        self._live.types = _live_types(self._types, ())
        for name, data in (streams or {}).items():
            self._live.open(self._declared(name, data))
        self._live.is_in_doubt = False

    # -- rules -------------------------------------------------------------------------------------------------------------

    @call()
    def add(
        self,
        query: Query | str | os.PathLike[str],
        *,
        params: Mapping[str, object] | None = None,
        name: str | None = None,
        outputs: Sequence[str] | None = None,
        contributors: bool | None = None,
        language: str | None = None,
    ) -> Rule:
        """Runs a query from now on. It sees the events that time has not passed yet, and those to come.

        query, params, language: as in `match`. The query may also read streams that rules before it publish.
        name: what the rule is called in `_query` and in messages; by default the name it publishes under, else `rule_1`, ...
        outputs: which of its queries have results, by published name; by default all.
        contributors: add `_id` and `_contributors` to its results; by default as the engine says.

        Mistakes of the query are raised here if the streams it reads are known, else by the `push` that makes them known.

        >>> import keuka
        >>> engine = keuka.Engine(time="t")
        >>> engine.add("SELECT n FROM FILTER {n > :least} (S) PUBLISH Large", params={"least": 5})
        <rule `Large` over `S`>
        """
        parsed = query if isinstance(query, Query) else as_query(query, language)
        if outputs is not None and (isinstance(outputs, str) or not outputs):
            raise TypeError("outputs must be a list with at least one published name in it")
        if params is not None and not isinstance(params, Mapping):
            raise TypeError(f"params must be a dict from name to value, not {type(params).__name__}")
        spec = RuleSpec(
            rule_name(name, parsed, self._rules),
            parsed,
            dict(params or {}),
            None if outputs is None else tuple(outputs),
            self._contributors if contributors is None else bool(contributors),
            self._types,
        )
        types = {name for other in self._rules.values() for name in other.types}
        check_published(spec, {*self._live.streams, *self._live.unknown, *types}, publishers(self._rules))
        loaded = plan_rule(spec, self._live)
        if loaded is not None:
            self._live.load(loaded)
        rule = Rule(self, spec, self._rules)
        self._live.expect(rule.streams)
        self._rules = {**self._rules, rule.name: rule}
        self._expect_types()
        for unknown in [stream for stream in rule.streams if stream in self._live.unknown]:
            if similar(unknown, self._live.streams):
                near = similar(unknown, self._live.streams)[0]
                log.warning("rule `%s` reads `%s`, of which nothing came yet, and time waits for it; %s", rule.name, unknown, near)
        return rule

    @property
    def rules(self) -> dict[str, Rule]:
        """All rules by name."""
        return dict(self._rules)

    @call()
    def remove(self, rule: Rule | str) -> None:
        """Takes a rule out; its partial matches go. Matches found before are still delivered."""
        name = rule if isinstance(rule, str) else rule.name
        known = self._rules.get(name)
        if known is None or (known is not rule and not isinstance(rule, str)):
            raise conflict(f"the engine has no such rule `{name}`", *similar(name, self._rules))
        readers = [other.name for other in self._rules.values() if name in other.publishers.values()] if known.spec.published else []
        if readers:
            raise conflict(f"rule `{name}` cannot be removed: {listing(readers)} read what it publishes", "remove these first")
        self._live.check_whole()
        known.final_matches = self._live.n_matches[name]
        if name in self._live.rules:
            self._live.unload(name)
        self._live.forget(known.streams)
        self._rules = {other: rule for other, rule in self._rules.items() if other != name}
        self._expect_types()

    # -- events and time ---------------------------------------------------------------------------------------------------

    @call()
    def push(self, stream: str, data: Any) -> Matches:
        """Takes events of a stream and returns the matches that became certain.

        data: a RecordBatch or Table, a pandas or polars frame, or a list of dicts. Its rows count one after the other, and may be out
            of order by the lateness of the stream. The events of the latest tick wait until there is a later one.

        A push that raises an error has taken nothing, but for K518, which says what became of the batch. If it raises in the middle of
        its work (Ctrl-C, no memory, an overflow), every further call says so (K523) until the engine is restored.
        """
        if not isinstance(stream, str):
            raise TypeError(f"the name of a stream must be a str, not {type(stream).__name__}: push(stream, data)")
        live = self._live
        if live.is_full:
            live.check_room(stream)
        batches = live.streams[stream].intake.read(data) if stream in live.streams else self._meet(stream, data)
        live.take(stream, batches)
        if live.types is not None:
            self._look_at_types(live.types, batches)
        live.run()
        return live.delivery.deliver()

    @call()
    def advance(self, time: Any, *, stream: str | None = None) -> Matches:
        """Promises that all events up to this time, and at it, have been pushed: of one stream, or of all.

        time: a datetime, ISO text, or a tick. An event with that time or an earlier one is late afterwards.

        >>> import keuka
        >>> engine = keuka.Engine(time="t")
        >>> rule = engine.add("SELECT n FROM S", name="all")
        >>> engine.push("S", [{"t": 1, "n": 7}])
        <0 matches>
        >>> engine.advance(1)
        <1 match: 1 of `all`>
        """
        live = self._live
        names = list(live.streams) if stream is None else [self._known(stream)]
        axis = live.axis
        if axis is None:
            problem = "no stream is known yet, so the engine has no clock"
            raise data_error("K505", problem, "declare one, `Engine(streams={...})`, or push events first")
        frontier = tick_of(time, axis) + 1
        live.promise(frontier, names)
        if stream is None:
            live.promised = max(live.promised, frontier)
        live.run()
        return live.delivery.deliver()

    @call()
    def poll(self) -> Matches:
        """Lets time go on where it can without new events: after a stream became idle, a rule was removed, a limit raised.

        Where there are more matches than `memory_limit` has room for, each call returns some of them.
        """
        with suppress(ManyMatchesError):
            self._live.run()
        return self._live.delivery.deliver()

    @call()
    def close(self) -> Matches:
        """Lets time go to its end and returns the last matches. No more events can be pushed.

        If these are more than `memory_limit` holds (K518), the engine stays open: `poll` them, then close it again.
        """
        live = self._live
        live.promise(INFINITE, live.streams)
        live.run(INFINITE)
        matches = live.delivery.deliver()
        never = [name for name in self._rules if name not in live.rules]
        if never:
            log.warning("no events came of %s, so %s never ran", listing(live.unknown), listing(never))
        if live.types is not None and live.types.stream in live.streams:
            _log(live.types.warnings(live.streams[live.types.stream].intake.n_rows, 1))
        live.is_closed = True
        return matches

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        n_waiting = sum([live.arrivals.n_held for live in self._live.streams.values()])
        if error is None and n_waiting and not self._live.is_closed:
            log.warning("the engine was left while %d events wait; `close()` would have returned their matches", n_waiting)
        if error is None and self._live.is_going:
            log.warning("the engine was left in the middle of a step with very many matches; `poll()` would have returned the others")
        self._live.is_closed = True

    # -- streams -----------------------------------------------------------------------------------------------------------

    def _declared(self, name: str, data: Any) -> OpenStream:
        stream = described(name, data, self._said)
        table = empty_table(name, stream.data) if isinstance(stream.data, pa.Schema) else memory_table(name, stream.data, stream.time)
        if table.num_rows:
            problem = f"a declared stream has no events yet, but this table has {table.num_rows:,} rows"
            raise data_error("K512", problem, "declare the schema or an empty table, and `push` the rows", where=place(name, None))
        return self._opened(name, replace(stream, data=table))

    def _opened(self, name: str, stream: Stream) -> OpenStream:
        if not isinstance(name, str):
            raise TypeError(f"the name of a stream must be a str, not {type(name).__name__}")
        if stream.sort:
            problem = "`sort=` is for files and readers that are read to their end"
            raise data_error("K515", problem, "say how late rows may come: `lateness=`", where=place(name, None))
        if self._types is not None and name != self._types.stream:
            problem = f"with `type_column` all events come in one stream, `{self._types.stream}`, not in `{name}`"
            raise data_error(
                "K505", problem, f'push them as `{self._types.stream}`, or declare its name: `Engine({{"{name}": schema}}, ...)`'
            )
        published = publishers(self._rules)
        if name in published:
            problem = f"rule `{published[name]}` publishes `{name}`, so nothing can be pushed into it"
            raise QueryError(Diagnostic("K306", problem, help=("push under another name",)))
        return open_stream(name, stream)

    def _meet(self, name: str, data: Any) -> RowsRead:
        """The first batch of a stream says what its columns are; then the rules that waited for it can be planned.

        Returns its rows. If a row or a rule does not fit the stream, nothing has changed: the rule or the batch may be the wrong one.
        """
        stream = described(name, data, self._said)
        table = memory_table(name, stream.data, stream.time)
        opened = self._opened(name, replace(stream, data=table.slice(0, 0)))
        live = self._live
        known = set(live.rules)
        try:
            live.open(opened)
            self._begin_rules()
            rows = live.streams[name].intake.read(table)
            self._warn_of_name(name)
            return rows
        except BaseException:
            if not live.is_torn:
                for rule in reversed([rule for rule in live.rules if rule not in known]):
                    live.unload(rule)
                if name in live.streams:
                    live.close(name)
                live.is_in_doubt = False
            raise

    def _begin_rules(self) -> None:
        """Loads the rules whose streams are all known now."""
        live = self._live
        findings: list[Diagnostic] = []
        for rule in [rule for rule in self._rules.values() if rule.name not in live.rules]:
            try:
                loaded = plan_rule(rule.spec, live)
                if loaded is not None:
                    live.load(loaded)
            except KeukaError as error:
                findings += of_rule(rule.name, error)
                last = f"the batch was not taken: push one that fits, or remove the rule first, `engine.remove({rule.name!r})`"
                findings[-1] = replace(findings[-1], help=(*findings[-1].help, last))
        if findings:
            raise QueryError(*findings)
        self._expect_types()

    def _expect_types(self) -> None:
        """The types that rules read now are looked for."""
        live = self._live
        if live.types is not None and live.types.stream in live.streams:
            read = {name: span for rule in live.rules.values() for name, span in rule.types.items()}
            live.types.expect(read, live.streams[live.types.stream].intake.n_rows)

    def _look_at_types(self, types: LiveTypes, batches: RowsRead) -> None:
        for raw, _ in batches:
            types.types.look(raw)
        _log(types.new_warnings(self._live.streams[types.stream].intake.n_rows, ENOUGH_EVENTS))

    def _warn_of_name(self, name: str) -> None:
        read = {other for rule in self._rules.values() for other in rule.streams}
        if read and name not in read and similar(name, read):
            log.warning("no rule reads `%s`, of which events were pushed; %s", name, similar(name, read)[0])

    def _known(self, name: str) -> str:
        if name not in self._live.streams:
            known = f"known are {listing(self._live.streams)}" if self._live.streams else "declare it: `Engine(streams={...})`"
            raise data_error("K505", f"no stream `{name}` is known yet", *similar(name, self._live.streams), known)
        return name

    # -- looking at it -----------------------------------------------------------------------------------------------------

    @property
    def memory_limit(self) -> int:
        """In bytes. It can be set, also to a text such as "8 GB"."""
        return self._live.memory_limit

    @memory_limit.setter
    def memory_limit(self, limit: str | int | None) -> None:
        self._live.memory_limit = memory_bytes(limit)

    @property
    def time(self) -> Any:
        """Every event before this time has been processed. None before the first, and at the end of time."""
        return self._live.event_time(self._live.frontiers.time)

    @call(after_close=True, after_failure=True)
    def waiting(self) -> Waiting | None:
        """Which stream events wait for, and since when; None if no event waits."""
        return self._live.waiting()

    @property
    @call(after_close=True, after_failure=True)
    def late(self) -> dict[str, int]:
        """How many rows of each stream came too late to be used."""
        return {name: live.n_late for name, live in self._live.streams.items()}

    @call(after_close=True)
    def take_late(self, stream: str) -> pa.Table:
        """The late rows of a stream since the last time, as they were pushed. They are kept only with `keep_late=True`."""
        live = self._live.streams[self._known(stream)]
        late = pa.Table.from_batches(live.late, live.intake.schema)
        self._live.is_in_doubt = True
        live.late = []
        return late

    @call(after_close=True, after_failure=True)
    def counters(self) -> dict[str, Any]:
        """Events that came, were processed, wait, were late; matches; what is held. As a whole, by stream and by rule."""
        return self._live.counters(self._rules)

    @call(after_close=True, after_failure=True)
    def _counters_of(self, rule: Rule) -> dict[str, int]:
        """The counters of one rule, also of one that was removed."""
        if self._rules.get(rule.name) is not rule:
            return {"matches": rule.final_matches, "live_instances": 0, "bytes": 0}
        return self._live.rule_counters(rule.name)

    # -- snapshots ---------------------------------------------------------------------------------------------------------

    @call()
    def snapshot(self, *, key: bytes | str | None = None) -> bytes:
        """The engine between two calls, as bytes: rules, partial matches, events that wait, matches not delivered yet.

        key: sign it (HMAC, SHA-256) with these 16 or more bytes, so that `restore` with the same key refuses what others wrote.
        """
        secret = None if key is None else signing.key_bytes(key)  # before the engine is asked, which may take long
        self._live.check_whole()
        taken = snapshots.to_bytes(snapshots.take([rule.spec for rule in self._rules.values()], self._live))
        return taken if secret is None else signing.sign(taken, secret)

    @call(after_failure=True)
    def restore(self, snapshot: bytes | bytearray | memoryview, *, key: bytes | str | None = None) -> None:
        """Goes back to a snapshot, also one of another process. What came after it must be pushed again.

        An engine without rules gets those of the snapshot. Otherwise its own rules stay: those that the snapshot has under the same
        name and with the same meaning go on where it was taken, the others begin anew.

        key: the key with which the snapshot was signed. The signature is checked before anything else, and with a key an unsigned
            snapshot is refused; a signed one is refused without its key.
        """
        if not isinstance(snapshot, bytes | bytearray | memoryview):
            raise TypeError(f"a snapshot is bytes, not {type(snapshot).__name__}")
        value = snapshots.from_bytes(signing.verify(bytes(snapshot), key))
        live = Live(self._live.clock, self._live.idle_after, self._live.keep_late)
        live.memory_limit = self._live.memory_limit
        types = snapshots.agreeing_types(self._types, value.types, is_new=not self._rules and not self._live.streams)
        live.types = _live_types(types, () if value.types is None else value.types.seen)
        specs = snapshots.resume(value, [rule.spec for rule in self._rules.values()], self._live, live)
        rules: dict[str, Rule] = {}
        for spec in specs:
            rules[spec.name] = self._rules.get(spec.name) or Rule(self, spec, rules)
            live.expect(rules[spec.name].streams)
        live.is_in_doubt = True
        self._rules, self._live, self._types = rules, live, types
        self._expect_types()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be pickled; send `engine.snapshot()` instead, and `restore` it in a new engine")

    def __repr__(self) -> str:
        return f"<engine with {listing(self._rules) or 'no rules'}>"
