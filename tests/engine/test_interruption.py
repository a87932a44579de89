"""An exception at any line of a call: it has changed nothing, or the engine says that it must be restored; nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import keuka

from .live import ALL, PAIRS, RISES, SCHEMA, raised, rows, ticks

SOURCES = str(Path(keuka.__file__).parent)
# Every line of these files is tried, and one of thirty of the others: a rule on its way to tables takes thousands.
FILES = ("engine.py", "run/turns.py", "run/live.py", "events/delivery.py", "events/intake.py", "events/frontiers.py")
SEVERAL = [  # parsed once: every point gets an engine of its own
    (keuka.cel(RISES), "rises"),
    (keuka.cel("SELECT * FROM FILTER {n > 2} (S) PUBLISH Large"), "large"),
    (keuka.sase("SEQ(Large a, T b) WITHIN 10 RETURN a.n AS first"), "sequences"),
]
Call = Callable[[keuka.Engine], object]


@dataclass(frozen=True)
class Scenario:
    """An engine, and the call that is interrupted."""

    make: Callable[[], keuka.Engine]
    call: Call


@dataclass
class Interruption:
    places: list[tuple[str, int]]  # file and line
    error: BaseException | None


def several_rules(**options: Any) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", contributors=True, keep_late=True, **options)
    for query, name in SEVERAL:
        engine.add(query, name=name)
    engine.push("S", rows((1, "a", 1), (2, "a", 5), (3, "b", 3)))
    engine.push("T", ticks(3, 1))
    return engine


def unknown_stream() -> keuka.Engine:
    engine = keuka.Engine({"T": SCHEMA}, time="t", contributors=True, keep_late=True)
    for query, name in SEVERAL[1:2]:
        engine.add(query, name=name)
    engine.push("T", ticks(1, 2))
    return engine


def many_matches() -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", memory_limit="1 MB")
    engine.add(keuka.sase("SEQ(S a, S b) RETURN a.t AS first"), name="pairs")
    return engine


def in_the_middle() -> keuka.Engine:
    """An engine that has more matches than it may hold."""
    engine = many_matches()
    assert raised(lambda: engine.push("S", ticks(*range(560)))).code == "K518"
    return engine


def one_rule(*times: int) -> keuka.Engine:
    engine = unknown_stream()
    engine.push("S", ticks(1, *times))
    return engine


SNAPSHOT = one_rule(4, 5, 6).snapshot()
SCENARIOS = {
    "a push with matches and late rows": Scenario(
        several_rules, lambda e: e.push("S", rows((6, "a", 7), (1, "a", 0), (7, "b", 8), (9, "b", 9)))
    ),
    "a push out of order": Scenario(lambda: several_rules(lateness=3), lambda e: e.push("S", rows((9, "a", 7), (7, "b", 8), (20, "b", 9)))),
    "a push that is refused": Scenario(several_rules, lambda e: e.push("S", [{"t": None, "k": "a", "n": 1}])),
    "the first push of a stream": Scenario(unknown_stream, lambda e: e.push("S", rows((1, "a", 1), (2, "a", 5), (3, "b", 3)))),
    "a first push that is refused": Scenario(unknown_stream, lambda e: e.push("S", [{"t": 1, "k": "a", "n": "a"}])),
    "a push with too many matches": Scenario(many_matches, lambda e: e.push("S", ticks(*range(560)))),
    "a poll with too many matches": Scenario(in_the_middle, lambda e: e.poll()),
    "add": Scenario(several_rules, lambda e: e.add(PAIRS, name="new")),
    "add before its stream": Scenario(several_rules, lambda e: e.add("SELECT n FROM U PUBLISH V", name="new")),
    "remove": Scenario(several_rules, lambda e: e.remove("sequences")),
    "advance": Scenario(several_rules, lambda e: e.advance(5)),
    "poll": Scenario(several_rules, lambda e: e.poll()),
    "close": Scenario(several_rules, lambda e: e.close()),
    "take_late": Scenario(several_rules, lambda e: e.take_late("T")),
    "snapshot": Scenario(several_rules, lambda e: bool(e.snapshot())),
    "restore": Scenario(one_rule, lambda e: e.restore(SNAPSHOT)),
    "counters": Scenario(several_rules, lambda e: e.counters()["matches"]),
}


def interrupt(call: Call, engine: keuka.Engine, n: int, error: type[BaseException], events: tuple[str, ...] = ("line",)) -> Interruption:
    """Makes a call, and raises an exception at the n-th event in Keuka's files: before a line, before or after a call of C."""
    run = Interruption([], None)

    def count(frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        if event in events and file.startswith(SOURCES):
            run.places.append((file.removeprefix(SOURCES + "/"), frame.f_lineno))
            if len(run.places) == n:
                raise error
        return count if file.startswith(SOURCES) else None

    def target() -> None:
        begin = sys.settrace if events == ("line",) else sys.setprofile
        begin(count)
        try:
            call(engine)
        except BaseException as raised:
            run.error = raised
        finally:
            begin(None)

    # In a thread of its own: after an exception at the last line of a handler, Python 3.11 believes that it is still being handled.
    in_thread(target)
    return run


def in_thread(target: Callable[[], object]) -> None:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def points(scenario: Scenario, events: tuple[str, ...]) -> list[int]:
    """Where to interrupt a call: when it comes to a place for the first time, and for the last."""
    first: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    for n, place in enumerate(interrupt(scenario.call, scenario.make(), 0, KeyboardInterrupt, events).places, start=1):
        first.setdefault(place, n)
        last[place] = n
    here = [n for at in (first, last) for place, n in at.items() if place[0] in FILES]
    elsewhere = [n for place, n in first.items() if place[0] not in FILES]
    return sorted({*here, *elsewhere[::30]})


def attempt(call: Call, engine: keuka.Engine) -> object:
    """What a call gives that can be compared; K518 and refusals by their code."""
    try:
        given = call(engine)
    except keuka.KeukaError as error:
        return error.code
    if isinstance(given, keuka.Matches):
        return len(given) if len(given) > 1_000 else sorted([str(row) for row in given.to_pylist()])
    return given.to_pylist() if isinstance(given, pa.Table) else str(given)


def rest(engine: keuka.Engine) -> list[object]:
    """Everything that comes of an engine after the call."""
    given: list[object] = [list(engine.rules), engine.late, engine.time]
    n_matches = 0
    while matches := engine.poll():  # of a step with very many
        n_matches += len(matches)
    given += [n_matches, attempt(lambda e: e.take_late("T"), engine)]
    for stream in ("S", "T"):
        given.append(attempt(lambda e, stream=stream: e.push(stream, rows((30, "a", 9), (31, "b", 9), (32, "a", 10))), engine))  # type: ignore[misc]
    given.append(attempt(lambda e: e.close(), engine))
    counters = engine.counters()
    return [*given, {name: counters[name] for name in ("events", "processed", "waiting", "late", "matches", "live_instances")}]


def expected(scenario: Scenario) -> list[object]:
    engine = scenario.make()
    result = attempt(scenario.call, engine)
    return [result] if engine._live.is_closed else [result, *rest(engine)]


def is_on_its_way(error: BaseException | None) -> bool:
    """Did the interrupt come while K518 was raised? Then that one says what became of the call."""
    while error is not None:
        if isinstance(error, keuka.KeukaError) and error.code == "K518":
            return True
        error = error.__context__
    return False


def check(scenario: Scenario, events: tuple[str, ...] = ("line",)) -> None:
    whole = expected(scenario)
    for n in points(scenario, events):
        engine = scenario.make()
        snapshot = None if engine._live.is_going else engine.snapshot()
        rules, counters = engine.rules, engine.counters()
        error = (KeyboardInterrupt, MemoryError)[n % 2]
        run = interrupt(scenario.call, engine, n, error, events)
        if not isinstance(run.error, error):
            continue  # the call was shorter this time
        where = "{}:{}".format(*run.places[-1])
        in_thread(engine.counters)  # another thread gets its turn
        assert engine.rules == rules, where
        if attempt(lambda e: e.snapshot() and "", engine) == "K523":
            assert raised(engine.poll).code == attempt(lambda e: e.take_late("S"), engine) == "K523", where
            if snapshot is None or n % 3:  # that is the costly part
                continue
            engine.restore(snapshot)
            assert engine.rules == rules, where
        elif is_on_its_way(run.error):
            assert ["K518", *rest(engine)] == whole, where
            continue
        else:
            assert engine.counters() == counters, where
        again = attempt(scenario.call, engine)
        assert ([again] if engine._live.is_closed else [again, *rest(engine)]) == whole, where


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_that_is_interrupted_at_any_line_has_changed_nothing_or_ends_the_engine_until_it_is_restored(name: str):
    check(SCENARIOS[name])


def test_a_push_that_is_interrupted_around_a_call_of_c_has_changed_nothing_or_ends_the_engine_until_it_is_restored():
    check(SCENARIOS["a push with matches and late rows"], ("c_call", "c_return"))


def test_a_first_batch_that_is_refused_does_not_decide_the_columns_of_its_stream():
    engine = keuka.Engine(time="t")
    rule = engine.add(ALL, name="all")
    assert raised(lambda: engine.push("S", [{"t": 1, "n": "a"}, {"t": None, "n": "a"}])).code == "K502"
    assert engine.counters()["streams"] == {}
    engine.push("S", ticks(1, 2))
    assert (rule.matches, engine.counters()["events"]) == (1, 2)


def test_pushes_that_signals_interrupt_lose_and_double_nothing():
    """Signals come between any two instructions, also inside the kernel."""
    n_rows, n_batches = 4_000, 40
    batches = [
        pa.table({"t": range(n_rows * i, n_rows * (i + 1)), "k": ["a", "b"] * (n_rows // 2), "n": range(n_rows)}) for i in range(n_batches)
    ]
    engine = keuka.Engine({"S": SCHEMA}, time="t", contributors=True)
    engine.add(RISES, name="rises")
    whole = [len(engine.push("S", batch)) for batch in batches]
    engine = keuka.Engine({"S": SCHEMA}, time="t", contributors=True)
    engine.add(RISES, name="rises")
    random_ = random.Random(6)
    given, n_interrupted = [], 0

    def interrupt_call(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt_call)
    try:
        for batch in batches:
            snapshot = engine.snapshot()
            matches: keuka.Matches | None = None
            seconds = 0.02
            while matches is None:
                try:
                    signal.setitimer(signal.ITIMER_REAL, random_.uniform(0.00001, seconds))
                    matches = engine.push("S", batch)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    n_interrupted += 1
                    seconds *= 2  # a slow machine shall come to an end
                    if matches is None and attempt(lambda e: e.snapshot() and "", engine) == "K523":
                        engine.restore(snapshot)
            given.append(len(matches))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert given == whole
    assert n_interrupted > 0
