"""One call at a time: a lock for the calls of an engine that also knows whether the engine can still be used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import TracebackType

from keuka.errors import DataError, data_error

_n_forks = 0  # how many processes lie between this one and the first


def _count_fork() -> None:
    global _n_forks
    _n_forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Turn:
    """A `with` block of it is one call. Calls of other threads wait; an engine that can no longer work refuses them with K523."""

    def __init__(self) -> None:
        self.is_closed = False
        self.failure: BaseException | None = None  # what ended a call in the middle, so that nobody knows what it had done
        self._lock = RLock()
        self._is_inside = False
        self._n_forks = _n_forks

    def __enter__(self) -> None:
        self._begin()
        if self.is_closed or self.failure is not None:
            self._end()
            raise _closed() if self.failure is None else _after(self.failure)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    @contextmanager
    def look(self) -> Iterator[None]:
        """A call that changes nothing: also after the end, or a failure."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def again(self) -> Iterator[None]:
        """A call after which a failure is forgotten."""
        with self.look():
            if self.is_closed:
                raise _closed()
            yield
            self.failure = None

    def _begin(self) -> None:
        if _n_forks != self._n_forks:  # before the lock: another thread may have held it when this process was forked
            problem = "the engine belongs to the process from which this one was forked"
            raise data_error("K523", problem, "make the engine after the fork; a snapshot of another one can be restored in it")
        self._lock.acquire()
        if self._is_inside:
            self._lock.release()
            raise data_error("K523", "the engine is called from inside one of its own calls", "call it when that one is done")
        self._is_inside = True

    def _end(self) -> None:
        self._is_inside = False
        self._lock.release()


def _closed() -> DataError:
    return data_error("K523", "the engine is closed", "make a new one")


def _after(failure: BaseException) -> DataError:
    reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
    return data_error(
        "K523",
        "the engine cannot go on: an earlier call ended in the middle of a batch",
        "restore the last snapshot, `engine.restore(snapshot)`, and push what came after it",
        where=reason,
    )
