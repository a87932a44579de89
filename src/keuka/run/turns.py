"""One call at a time: a lock for the calls of an engine that also knows whether the engine can still be used."""

from __future__ import annotations

import os
from threading import RLock
from types import TracebackType

from keuka.errors import DataError, data_error


class Turn:
    """A `with` block of it is one call. Calls of other threads wait; those that can no longer work are refused with K523."""

    def __init__(self) -> None:
        self.is_closed = False
        self.failure: BaseException | None = None  # what ended a call in the middle, so that nobody knows what it had done
        self._lock = RLock()
        self._is_inside = False
        self._process = os.getpid()

    def __enter__(self) -> None:
        self.begin()
        if self.failure is not None:
            self.end()
            raise _after(self.failure)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def begin(self) -> None:
        """Like `with`, but also after a failure."""
        if os.getpid() != self._process:
            problem = "this engine belongs to the process from which the present one was forked"
            raise data_error("K523", problem, "make the engine after the fork; to take its state along, `restore` a `snapshot()` of it")
        self._lock.acquire()
        if self._is_inside or self.is_closed:
            problem = "the engine is closed" if self.is_closed else "the engine is called from inside one of its own calls"
            self._lock.release()
            raise data_error("K523", problem, *(("make a new one",) if self.is_closed else ()))
        self._is_inside = True

    def end(self) -> None:
        self._is_inside = False
        self._lock.release()


def _after(failure: BaseException) -> DataError:
    reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
    return data_error(
        "K523",
        "the engine cannot go on: an earlier call was ended in the middle of a batch",
        "restore the last snapshot, `engine.restore(snapshot)`, and push what came after it",
        where=reason,
    )
