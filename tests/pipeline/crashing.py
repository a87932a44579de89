"""Runs that die at a chosen change of the file system, as by SIGKILL.

`Crasher` starts this file as a process that does nothing but fork, so that hundreds of runs cost one import. Every run
has the same process id, as in a container.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, NamedTuple

CHANGES = ("mkdir", "rename", "replace", "unlink", "rmdir")


class Outcome(NamedTuple):
    killed: bool
    error: str | None


class Crasher:
    """Runs pipelines, or recovers sinks, in processes that are killed before their `kill_at`th change of the file system."""

    def __init__(self) -> None:
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, version: int, *sinks: dict[str, Any], kill_at: int = 0) -> Outcome:
        return self._ask({"version": version, "sinks": sinks, "kill_at": kill_at})

    def recover(self, *paths: str, kill_at: int = 0) -> Outcome:
        return self._ask({"recover": paths, "kill_at": kill_at})

    def match(self, out: str, kill_at: int = 0) -> Outcome:
        return self._ask({"match": out, "kill_at": kill_at})

    def _ask(self, task: dict[str, Any]) -> Outcome:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({**task, "folder": os.getcwd()}), file=self.process.stdin, flush=True)
        return Outcome(*json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate()


def serve() -> None:
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.write(writer, json.dumps(perform(json.loads(line))).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps([killed, None if killed else json.loads(said)]), flush=True)


def perform(task: dict[str, Any]) -> str | None:
    import keuka
    from keuka.pipelines import Input, Queries, Sink
    from keuka.pipelines.staging import recover

    os.chdir(task["folder"])
    kill_at_change(task["kill_at"])
    try:
        if "recover" in task:
            recover(task["recover"])
        elif "match" in task:
            from keuka.cli import main

            main(["match", "rise.cel", "ticks.csv", "--out", task["match"]])
        else:
            text = "SELECT name, price + :version AS price FROM Stock"
            queries = [Queries(text=text, params={"version": task["version"]})]
            sinks = [Sink(format="json", **sink) for sink in task["sinks"]]
            keuka.Pipeline({"Stock": Input("csv", path="ticks.csv")}, queries, sinks).run(embedded=True)
    except keuka.KeukaError as error:
        return str(error)
    return None


def kill_at_change(number: int) -> None:
    pid, n_left = os.getpid(), number

    def counted(change: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal n_left
            n_left -= 1
            if n_left == 0:
                os.kill(pid, signal.SIGKILL)
            return change(*arguments, **options)

        return call

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    os.getpid = lambda: 1
    os.fsync = lambda _: None  # only the loss of power would show a difference


if __name__ == "__main__":
    # What every run loads is loaded once, before all forks; Arrow looks for pandas. No thread is started by that.
    import pandas  # noqa: F401

    import keuka.cli

    keuka.cel("SELECT name FROM Stock")
    serve()
