"""One query on its way into a forest: from the numbers of its tables (`layout.py`) to the forest's.

What the forest has already is shared, the rest is added. A query that cannot be loaded leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from keuka.kernel import layout
from keuka.kernel.arena import Array
from keuka.kernel.bytecode import Op
from keuka.kernel.checks import OF_SETS
from keuka.kernel.forest import Forest, PartKey
from keuka.kernel.layout import Arrays


def load(
    forest: Forest,
    query: str,
    arrays: Arrays,
    texts: Sequence[str],
    sources: Sequence[tuple[str, Sequence[str]]],
    names: Sequence[str],
    fallible: Sequence[str],
    since: int,
) -> None:
    """Add a query. `sources` are (name, columns), `names` of all streams, `fallible` the texts of its programs, for messages.

    The arrays were compiled in this process, or checked when they were read (`checks.py`). Only matches of contributors that ended
    after `since` are the query's own.
    """
    assert query not in forest.queries
    loading = Loading(forest, arrays, texts, fallible, since)
    try:
        loading.run(sources, names)
    except BaseException:
        forest.release(loading.held)
        raise
    forest.add_query(query, loading.held, loading.streams[len(sources) :], int(arrays["settings"][2]))


class Loading:
    def __init__(self, forest: Forest, arrays: Arrays, texts: Sequence[str], fallible: Sequence[str], since: int) -> None:
        self.forest = forest
        self.rows = {name: layout.rows(name, array) for name, array in arrays.items() if name not in layout.NARROW}
        self.code = layout.fields("code", arrays["code"])
        self.operand = arrays["operand"]
        self.fallible = fallible
        self.since = since
        self.held: list[PartKey] = []
        self.hold = partial(forest.hold, self.held)
        self.streams: list[int] = []  # by stream of the tables
        self.columns = np.full(len(arrays["column_type"]) + len(arrays["derived"]), -1, np.int64)
        codes = np.asarray([forest.strings.intern_text(text) for text in texts], np.int64)
        is_text = arrays["constant_text"] >= 0
        values = arrays["constant"].copy()
        values[is_text] = codes[arrays["constant_text"][is_text]]
        # Only what is loaded: the constants of IN lists are in their sets.
        self.constants = np.full(len(values), -1, np.int64)
        loaded = self.code["a"][self.code["op"] == Op.LOAD_CONST]
        for i in np.unique(loaded[(loaded >= 0) & (loaded < len(values))]).tolist():
            self.constants[i] = forest.constant_id(int(values[i]), bool(is_text[i]))
        self.sets = np.zeros(len(arrays["set"]), np.int64)
        for i, (first, n, _) in enumerate(self.rows["set"]):
            self.sets[i] = forest.set_id(np.sort(values[first : first + n]), bool(is_text[first : first + n].any()))

    def slice(self, part: str, row: Any) -> list[Any]:
        """Rows of the tables that belong to another: from its `first_part` on, `n_parts` of them."""
        first = getattr(row, f"first_{part}")
        return list(self.rows[part][first : first + getattr(row, f"n_{part}s")])

    def run(self, sources: Sequence[tuple[str, Sequence[str]]], names: Sequence[str]) -> None:
        for name, columns in sources:
            self._add_source(name, columns)
        for which in range(len(self.rows["operator"])):
            self._add_operator(which, names[len(sources) + which])

    # -- streams and programs ------------------------------------------------------------------------------------------------

    def _add_source(self, name: str, columns: Sequence[str]) -> None:
        forest, first = self.forest, self.rows["stream"][len(self.streams)].first_column
        if name in forest.published:
            parts, stream, places = forest.published[name]
            for part in parts:
                self.hold(part)
            numbers = [forest.place(stream, places[column]) for column in columns]
        else:
            stream = self.hold(("source", name), lambda: forest.add_source(name))
            numbers = [self.hold(("column", stream, c), partial(forest.add_column, stream, c)) for c in columns]
        self.columns[first : first + len(columns)] = numbers
        self._add_stream(stream)

    def _add_stream(self, stream: int) -> None:
        """A stream whose columns are known: now those derived from them."""
        forest, number = self.forest, len(self.streams)
        self.streams.append(stream)
        for column, derived in enumerate(self.rows["derived"], len(self.rows["column_type"])):
            if derived.stream == number:
                code, n_registers = self.relocated(derived.program, None, 0)
                made = partial(forest.add_derived, stream, code, n_registers, derived.must_hold, self.fallible[derived.program])
                key = ("derived", stream, code.tobytes(), derived.must_hold)
                self.columns[column] = self.hold(key, made, needs=self.columns_read((code, n_registers)))

    def column(self, number: int) -> int:
        """The forest's number of a column; -1 stays -1."""
        return -1 if number < 0 else int(self.columns[number])

    def relocated(self, program: int, slots: Array | None, target: int) -> tuple[Array, int]:
        """The code of a program with the forest's numbers, and its registers. Operands are numbered from 0 on."""
        first, n, n_registers = self.rows["program"][program]
        code = self.code[first : first + n].copy()
        op, a, b = code["op"], code["a"], code["b"]
        present = set(op.tolist())
        for loads, numbers in ((Op.LOAD_EVENT, self.columns), (Op.LOAD_CONST, self.constants), (Op.LOAD_SLOT, slots)):
            if numbers is not None and loads in present:
                chosen = op == loads
                a[chosen] = numbers[a[chosen]]
        for reads in present.intersection(OF_SETS):
            chosen = op == reads
            b[chosen] = self.sets[b[chosen]]
        if Op.EMIT in present:
            chosen = op == Op.EMIT
            a[chosen] = target
            b[chosen] = np.cumsum(code["c"][chosen]) - code["c"][chosen]
        return code, n_registers

    def add_program(self, program: int, relocated: tuple[Array, int]) -> int:
        first, n, _ = self.rows["program"][program]
        code = self.code[first : first + n]
        emits = [self.operand[ins["b"] : ins["b"] + ins["c"]] for ins in code[code["op"] == Op.EMIT]]
        return self.forest.add_program(relocated[0], np.concatenate(emits) if emits else (), relocated[1], self.fallible[program])

    def columns_read(self, relocated: tuple[Array, int]) -> list[int]:
        code, _ = relocated
        return list(np.unique(code["a"][code["op"] == Op.LOAD_EVENT]).tolist())

    def hold_hash(self, stream: int, keys: tuple[tuple[int, int], ...], gate: int) -> PartKey:
        """Hashes of the keys of a stream's events: [(column, is it a double?)]. Its number is the forest's to tell."""
        key = ("hash", stream, keys, gate)
        self.hold(key, lambda: self.forest.add_hash(stream, keys, gate), needs=[gate, *[column for column, _ in keys]])
        return key

    # -- operators -------------------------------------------------------------------------------------------------------------

    def depth_of(self, ports: Iterable[int]) -> int:
        """Of what reads these streams."""
        return 1 + max(int(self.forest.stream["depth"][port]) for port in ports)

    def _add_operator(self, which: int, name: str) -> None:
        forest = self.forest
        operator: layout.Operator = self.rows["operator"][which]
        # Two inputs may be one stream here: both sides of an operator computed alike.
        ports = tuple(sorted({self.streams[s] for s in self.slice("port", operator)}))
        first_column, n_columns = self.rows["stream"][len(self.streams)]
        # The types are in the key, and in those of slots, because signatures may lie: then nothing is shared.
        types = tuple(self.rows["column_type"][first_column : first_column + n_columns])
        signature = (operator.signature_low, operator.signature_high, types)

        def make() -> int:
            return forest.add_result(name, n_columns, self.depth_of(ports), signature, self.since, ports)

        result = self.hold(("result", *signature, self.since, ports), make)
        self.columns[first_column : first_column + n_columns] = [forest.place(result, i) for i in range(n_columns)]
        for kind in forest.kinds:
            kind.load(self, which, ports, result)
        self._add_stream(result)
