"""The machines that run a forest: one, or several in threads, each for its share of the keys (decision 12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from keuka.events.columns import ByteArray, Int64Array
from keuka.events.contributors import Leaves
from keuka.kernel import batches, groups, lineage
from keuka.kernel.arrow import END_WORD, START_WORD
from keuka.kernel.forest import Forest
from keuka.kernel.machine import Machine

Owners = Callable[[int], list[tuple[int, int]]]  # by stream: the columns whose values say which machine runs a row; is it a double?


@dataclass(eq=False, slots=True)  # not frozen: every batch that is pushed makes one
class Found:
    """What an operator gave for a step, in the order of end and start."""

    words: Int64Array  # a row each for the starts, the ends and the columns, as `kernel/arrow.pxd` says
    machine: Int64Array | None  # which one found a match; None if there is one only
    nodes: Int64Array | None
    flags: list[ByteArray | None]

    def __len__(self) -> int:
        return int(self.words.shape[1])

    def chosen(self, rows: Int64Array) -> Found:
        return Found(
            self.words.take(rows, axis=1),
            None if self.machine is None else self.machine[rows],
            None if self.nodes is None else self.nodes[rows],
            [None if flags is None else flags[rows] for flags in self.flags],
        )


class Machines:
    def __init__(self, forest: Forest, n_threads: int) -> None:
        self.all = [Machine(forest) for _ in range(n_threads)]
        self.all[0].in_turns = n_threads == 1
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def run(self, inputs: Mapping[int, tuple[object, ...]], upto: int, owners: Owners) -> None:
        """Whole epochs of all streams, up to a tick."""
        leader = self.all[0]
        if self._pool is None:
            groups.process(leader, inputs, upto)
            return
        batches.prepare(leader, inputs, {source: owners(source) for source in inputs})
        self._together(self._pool, [partial(batches.compute, m, leader, i, len(self.all)) for i, m in enumerate(self.all)])
        self._together(self._pool, [partial(groups.run, m, leader, i, upto) for i, m in enumerate(self.all)])

    def _together(self, pool: ThreadPoolExecutor, tasks: list[Any]) -> None:
        """Run tasks in threads. What ends one of them, or this thread, ends them all: Ctrl-C, no memory, a limit."""
        futures: list[Future[None]] = []
        try:
            futures += [pool.submit(task) for task in tasks]
            for future in futures:
                future.result()
        except BaseException:
            for machine in self.all:
                machine.interrupt()
            wait(futures)
            raise

    def touched_streams(self) -> list[int]:
        """The outputs that have rows, in order."""
        if self._pool is None:
            return sorted(self.all[0].touched_streams())
        return sorted({stream for machine in self.all for stream in machine.touched_streams()})

    def output(self, stream: int) -> Found:
        """What all machines found, by end, then by start, then as it was found; what one machine found of a sequence by end only."""
        if self._pool is None:
            words, nodes, flags = self.all[0].output(stream)
            found = Found(words, None, nodes, flags)
            return found if self.all[0].is_in_order(stream) else found.chosen(np.lexsort((words[START_WORD], words[END_WORD])))
        outputs = [machine.output(stream) for machine in self.all]
        lengths = [words.shape[1] for words, _, _ in outputs]
        words = np.concatenate([words for words, _, _ in outputs], axis=1)
        nodes = None if outputs[0][1] is None else np.concatenate([nodes for _, nodes, _ in outputs])
        flags = []
        for columns in zip(*[flags for _, _, flags in outputs], strict=True):
            present = [np.zeros(n, np.uint8) if column is None else column for column, n in zip(columns, lengths, strict=True)]
            flags.append(np.concatenate(present))
        machine = np.repeat(np.arange(len(outputs)), lengths)
        return Found(words, machine, nodes, flags).chosen(np.lexsort((words[START_WORD], words[END_WORD])))

    def leaves(self, found: Found) -> Leaves:
        """The source events behind matches. Every machine has its own nodes."""
        assert found.nodes is not None
        if self._pool is None:
            return Leaves(*lineage.contributors(self.all[0], found.nodes))
        pieces = [lineage.contributors(m, found.nodes[found.machine == i]) for i, m in enumerate(self.all)]
        lengths = np.empty(len(found.nodes), np.int64)
        for i, piece in enumerate(pieces):
            lengths[found.machine == i] = np.diff(piece[0])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        flat = [np.empty(offsets[-1], np.int64) for _ in range(3)]
        for i, piece in enumerate(pieces):
            mine = np.repeat(found.machine == i, lengths)
            for whole, part in zip(flat, piece[1:], strict=True):
                whole[mine] = part
        return Leaves(offsets, *flat)
