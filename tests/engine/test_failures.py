"""The end of an engine, and what goes wrong in the middle."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import threading

import pytest

import keuka

from .live import ALL, numbers, raised, rows, ticks


def test_a_closed_engine_says_so(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(1))
    assert numbers(engine.close()) == [1]
    for call in (lambda: engine.push("S", ticks(2)), engine.close, engine.poll, engine.snapshot, lambda: engine.add(ALL)):
        error = raised(call)
        assert (error.code, "is closed" in str(error)) == ("K523", True)


def test_leaving_an_engine_with_events_that_wait_is_warned_of(engine: keuka.Engine, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "keuka"), engine:
        engine.add(ALL)
        engine.push("S", ticks(1, 2))
    assert caplog.messages == ["the engine was left while 1 events wait; `close()` would have returned their matches"]
    assert raised(engine.poll).code == "K523"


def test_an_error_in_the_middle_of_a_batch_ends_the_engine_until_it_is_restored(engine: keuka.Engine):
    engine.add("SELECT n * n AS square FROM S", name="squares")
    engine.push("S", ticks(1, 2))
    snapshot = engine.snapshot()
    assert raised(lambda: engine.push("S", rows((3, "a", 2**62), (4, "a", 4)))).code == "K507"
    error = raised(lambda: engine.push("S", ticks(5)))
    assert error.code == "K523"
    assert "the result of `n * n` does not fit into 64 bits" in str(error)
    assert engine.counters()["rules"]["squares"]["matches"] == 1
    engine.restore(snapshot)
    assert [row["square"] for row in engine.push("S", ticks(3, 4)).to_pylist()] == [4, 9]


def test_an_interrupt_inside_the_kernel_ends_the_engine_with_a_clear_message(engine: keuka.Engine, monkeypatch: pytest.MonkeyPatch):
    engine.add(ALL)
    engine.push("S", ticks(1))

    def interrupted(step: object, upto: int, room: int) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine._live.runner, "process", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.push("S", ticks(2))
    assert "KeyboardInterrupt" in str(raised(engine.poll))


def test_an_engine_cannot_be_pickled_and_says_what_can(engine: keuka.Engine):
    rule = engine.add(ALL)
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        for thing in (engine, rule):
            with pytest.raises(TypeError, match=r"send `engine\.snapshot\(\)`"):
                make(thing)


def test_a_forked_child_is_told_to_make_its_own(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(1))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine.push("S", ticks(2))
            said = "nothing"
        except keuka.KeukaError as error:
            said = f"{error.code}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reading, 10_000).decode()
    assert said.startswith("K523")
    assert "forked" in said
    assert numbers(engine.push("S", ticks(2))) == [1]


def test_calls_of_several_threads_come_one_after_the_other(engine: keuka.Engine):
    engine.add(ALL, name="all")
    found: list[int] = []

    def push(stream: str) -> None:
        for t in range(200):
            found.append(len(engine.push(stream, rows((t, "a", t)))))

    threads = [threading.Thread(target=push, args=(stream,)) for stream in ("S", "T", "T2", "T3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found) + len(engine.close()) == 200
    assert engine.counters()["events"] == 800


def test_an_engine_called_from_inside_its_own_call_refuses(engine: keuka.Engine, monkeypatch: pytest.MonkeyPatch):
    engine.add(ALL)
    monkeypatch.setattr(engine._live.runner, "process", lambda step, upto, room: engine.poll())
    error = raised(lambda: engine.push("S", ticks(1, 2)))
    assert "from inside one of its own calls" in str(error)
