"""One call at a time: calls of an engine wait for each other, and a call that did not come to its end is not forgotten.

An exception can be raised at any line of a call: Ctrl-C, or no memory. Whatever changes something marks the engine first
(`Live.is_in_doubt`), and the mark is cleared when the call ends. So a call that raises has changed nothing, or the engine refuses
further calls with K523.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from keuka.errors import DataError, data_error
from keuka.run.limits import LimitError
from keuka.run.live import Live

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Known = tuple[object, object]  # rules and streams by name: dicts that are replaced and never changed
Method = Callable[Concatenate[Any, Arguments], Result]

_n_forks = 0  # how many processes lie between this one and the first


def _count_fork() -> None:
    global _n_forks
    _n_forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Turn:
    """Whose turn it is to call an engine."""

    def __init__(self) -> None:
        self.lock = RLock()
        # Is it this thread's turn? The lock itself knows best: a variable beside it could not be set in the same instant.
        self.is_mine: Callable[[], bool] = self.lock._is_owned  # type: ignore[attr-defined]
        self.n_forks = _n_forks

    def free(self) -> None:
        """Let the next call in. Nothing happens if this thread's call has ended already."""
        if self.is_mine():
            self.lock.release()


def call(*, after_close: bool = False, after_failure: bool = False) -> Callable[[Method[Arguments, Result]], Method[Arguments, Result]]:
    """Makes a method of an engine one of its calls. It says whether the method works on a closed or a failed engine, too."""

    def decorate(method: Method[Arguments, Result]) -> Method[Arguments, Result]:
        @wraps(method)
        def in_turn(engine: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            turn: Turn = engine._turn
            if turn.n_forks != _n_forks or turn.is_mine():  # neither may wait for the lock
                raise _refused(turn)
            before = outcome = after = None
            has_changed = False
            try:
                with turn.lock:
                    live = engine._live
                    if live.is_in_doubt or live.failure is not None or live.is_closed:
                        _check_usable(live, after_close, after_failure)
                    before = engine._rules, engine._live.streams
                    outcome, after, has_changed = _attempt(method, engine, before, args, kwargs)
                    engine._live.is_in_doubt = False
                if isinstance(outcome, LimitError):
                    raise outcome
                return outcome
            except BaseException as error:
                # It may come after the work is done, and what the call found is lost; it may come at the end of `with`, before that
                # has let go of the lock.
                if has_changed and error is not outcome and before is not None and after is not None:
                    _fail(engine, before, after, error)
                turn.free()
                outcome = None  # else an error, its traceback and this frame would hold each other, and with them the batch
                raise

        return in_turn

    return decorate


def _refused(turn: Turn) -> DataError:
    if turn.n_forks != _n_forks:
        problem = "the engine belongs to the process from which this one was forked"
        return data_error("K523", problem, "make the engine after the fork; a snapshot of another one can be restored in it")
    return data_error("K523", "the engine is called from inside one of its own calls", "call it when that one is done")


def _attempt(
    method: Callable[..., Result], engine: Any, before: Known, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Result | LimitError, Known, bool]:
    """What a call gives, what the engine knows after it, and whether the call has changed anything.

    A limit that was reached is given back, too: the engine is whole, and the error says what became of the call.

    Not a `try` inside that of the caller: Python protects the line of an inner `try` by neither.
    """
    try:
        result = method(engine, *args, **kwargs)
        return result, (engine._rules, engine._live.streams), engine._live.is_in_doubt
    except LimitError as limit:
        return limit, (engine._rules, engine._live.streams), engine._live.is_in_doubt
    except BaseException as error:
        if engine._live.is_in_doubt:
            _fail(engine, before, (engine._rules, engine._live.streams), error)
        raise


def _fail(engine: Any, before: Known, after: Known, error: BaseException) -> None:
    """The engine knows again what it knew before the call, unless another thread has changed that; who restores it goes on from there."""
    if engine._rules is after[0]:
        engine._rules = before[0]
    if engine._live.streams is after[1]:
        engine._live.streams = before[1]
    engine._live.failure = str(error).partition("\n")[0] or type(error).__name__


def _check_usable(live: Live, after_close: bool, after_failure: bool) -> None:
    if live.is_in_doubt:  # the exception came while another one was noted
        live.failure = live.failure or "interrupted"
        live.is_in_doubt = False
    if live.failure is not None and not after_failure:
        raise _after(live.failure)
    if live.is_closed and live.failure is None and not after_close:
        raise data_error("K523", "the engine is closed", "make a new one")


def _after(failure: str) -> DataError:
    return data_error(
        "K523",
        "the engine cannot go on: an earlier call ended in the middle",
        "restore the last snapshot, `engine.restore(snapshot)`, and push what came after it",
        "without a snapshot, make a new engine",
        where=failure,
    )
