"""The tables of a plan while its operators write them: programs, columns computed per batch, rows of the arrays of `kernel/layout.py`.

`compile.py` makes a Writer for a plan; every operator writes what is its own through one. A PortWriter adds what operators have in
common: they read columns of streams, as these are or through the steps of filters and projections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from keuka.automaton.assembler import Assembler, Pool
from keuka.automaton.model import Bind, Keep, Step
from keuka.expressions import FIRST, Expression, can_fail, columns
from keuka.kernel import layout
from keuka.schema import Type

TYPE_CODES = {Type.BOOLEAN: 0, Type.INTEGER: 1, Type.DOUBLE: 2, Type.STRING: 3, Type.TIMESTAMP: 4, Type.OTHER: 5, Type.NULL: 1}
TYPE_CODES |= {Type.DATE: 6, Type.DECIMAL: 7}


@dataclass(frozen=True, eq=False)
class Writer:
    """Columns are numbered over all streams: first the `n_raw` that streams have of their own, then those that are derived."""

    numbers: Mapping[str, int]  # of the streams
    layouts: Mapping[str, Mapping[int, int]]  # by stream: the column of each attribute that is read
    identities: Mapping[str, bytes]  # by stream: what it is (`signatures.py`)
    n_raw: int
    rows: dict[str, list[Any]]
    pool: Pool = field(default_factory=Pool)

    def derive(self, stream: str, program: int, must_hold: bool) -> int:
        """Add a column that is computed once per batch, and return its number. `must_hold`: every row must be free of errors."""
        self.rows["derived"].append(layout.Derived(self.numbers[stream], program, int(must_hold)))
        return self.n_raw + len(self.rows["derived"]) - 1

    def add_slots(self, slots: Sequence[tuple[Type, int]]) -> tuple[int, int]:
        """Add slots, each a type and which value it holds; the first and their number come back."""
        first = len(self.rows["slot"])
        self.rows["slot"].extend([layout.Slot(TYPE_CODES[type_], identity) for type_, identity in slots])
        return first, len(slots)


def words_of(signature: bytes) -> tuple[int, int]:
    """A 128-bit signature as two signed numbers."""
    return int.from_bytes(signature[:8], "little", signed=True), int.from_bytes(signature[8:], "little", signed=True)


def reads_before(steps: Sequence[Step], reads: set[int]) -> set[int]:
    """The columns at the beginning of the steps that are needed for these at their end."""
    for step in reversed(steps):
        if isinstance(step, Keep):
            reads = reads | {index for _, index in columns(step.predicate)}
        else:
            # An item that can fail is evaluated whether it is read or not.
            chosen = [item for i, item in enumerate(step.items) if i in reads or can_fail(item)]
            reads = {index for item in chosen for _, index in columns(item)}
    return reads


class Tuple:
    """A tuple of values that programs compute when first asked for: index -> register."""

    def __init__(self, compute: Callable[[int], int]) -> None:
        self._compute = compute
        self._registers: dict[int, int] = {}

    def __getitem__(self, index: int) -> int:
        if index not in self._registers:
            self._registers[index] = self._compute(index)
        return self._registers[index]


class PortWriter:
    """Columns of the streams that an operator reads: as they are, or computed per batch by the steps that lead to what it reads."""

    def __init__(self, writer: Writer, ports: tuple[str, ...]) -> None:
        self.writer = writer
        self.ports = ports
        self.rows = writer.rows
        self.pool = writer.pool

    def columns_of(self, port: int) -> Mapping[int, int]:
        return self.writer.layouts[self.ports[port]]

    def stream(self, port: int) -> int:
        return self.writer.numbers[self.ports[port]]

    def event(self, asm: Assembler, port: int) -> Tuple:
        columns_ = self.columns_of(port)
        return Tuple(lambda index: asm.load_event(columns_[index]))

    def candidate(self, asm: Assembler, port: int, steps: tuple[Step, ...]) -> Tuple:
        """The tuple after the steps, predicates left aside."""
        values = self.event(asm, port)
        for step in steps:
            if isinstance(step, Bind):
                values = self.bound(asm, step, values)
        return values

    def bound(self, asm: Assembler, step: Bind, before: Tuple) -> Tuple:
        return Tuple(lambda index: asm.keep(asm.value(step.items[index], {FIRST: before})))

    def derive(self, port: int, write: Callable[[Assembler], int], must_hold: bool) -> int:
        """Add a derived column and return its number."""
        asm = Assembler(self.pool)
        asm.finish_column(write(asm))
        return self.writer.derive(self.ports[port], asm.program(), must_hold)

    def holds(self, asm: Assembler, port: int, steps: Sequence[Step]) -> int | None:
        """A register that says whether the predicates of the steps hold one after the other; None if there are none."""
        values = self.event(asm, port)
        registers = []
        for step in steps:
            if isinstance(step, Bind):
                values = self.bound(asm, step, values)
            else:
                registers.append(asm.value(step.predicate, {FIRST: values}))
        return asm.all_in_turn(registers) if registers else None

    def gate(self, port: int, steps: tuple[Step, ...], terms: Sequence[Expression], side: int) -> int:
        """A column that is true where the steps and the terms, over their result, hold; -1 if there is nothing to test."""
        if not terms and not any(isinstance(step, Keep) for step in steps):
            return -1

        def write(asm: Assembler) -> int:
            own = self.holds(asm, port, steps)
            values = self.candidate(asm, port, steps)
            return asm.all_of(chain([] if own is None else [own], (asm.value(term, {side: values}) for term in terms)))

        return self.derive(port, write, False)

    def check_steps(self, port: int, steps: tuple[Step, ...]) -> None:
        """Evaluation is eager: what can fail in a candidate's own steps is computed for every event, and must not fail."""
        for i, step in enumerate(steps):
            if isinstance(step, Keep) and can_fail(step.predicate):
                self.derive(port, partial(self.all_hold, port=port, steps=steps[: i + 1]), True)
            if isinstance(step, Bind):
                for item in filter(can_fail, step.items):
                    self.derive(port, partial(self._if_reached, port=port, steps=steps[:i], item=item), True)

    def all_hold(self, asm: Assembler, port: int, steps: Sequence[Step]) -> int:
        register = self.holds(asm, port, steps)
        assert register is not None
        return register

    def _if_reached(self, asm: Assembler, port: int, steps: tuple[Step, ...], item: Expression) -> int:
        reached = self.holds(asm, port, steps)
        value = asm.value(item, {FIRST: self.candidate(asm, port, steps)})
        return value if reached is None else asm.value_if(reached, value)
