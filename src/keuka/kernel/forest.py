"""The operators of all loaded queries, merged into one forest of flat arrays that machines run.

Tables of a query are numbered by themselves (`layout.py`); `loading.py` gives every part its number here. What another query has
already is shared: columns and gates by their content, and what the kinds of operators (`operators.py`) find to be the same. Every part
counts the queries that hold it; unloading takes back the numbers of those nobody holds, and `compact` closes the gaps in the code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keuka.kernel.arena import FREE, Arena, Array, spare
from keuka.kernel.bytecode import Op
from keuka.kernel.checks import OF_SETS
from keuka.kernel.operators import KINDS, Kind
from keuka.kernel.rows import DTYPES, Rows, StreamKind
from keuka.kernel.strings import StringTable

LEAST_GARBAGE = 65_536  # instructions of unloaded programs that are not worth compacting

PartKey = tuple[Any, ...]  # what a part is: its kind, and what tells it from others of the kind


@dataclass(eq=False)
class Shared:
    """A part that queries share."""

    number: Any
    drop: Callable[..., None] | None  # takes the number, and the key but for its first word; None: a method of the forest does
    needs: list[PartKey]  # other parts that it holds
    n_holders: int = 0


class Forest:
    """Arrays for the machines, and what stands behind their numbers."""

    def __init__(self) -> None:
        self.strings = StringTable()
        self.version = 0  # changes with every change that machines must follow
        self.stream, self.column, self.program = Arena(DTYPES["stream"]), Arena(DTYPES["column"]), Arena(DTYPES["program"])
        self.hash, self.hash_key = Arena(DTYPES["hash"]), Arena(DTYPES["hash_key"])
        self.empty_code()
        self.kinds: list[Kind] = [kind(self, number) for number, kind in enumerate(KINDS)]
        self.published: dict[str, tuple[tuple[PartKey, ...], int, dict[str, int]]] = {}  # (what computes it, stream, {column: place})
        self.queries: dict[str, list[PartKey]] = {}  # what each holds, in the order it was taken
        self.outputs: dict[str, list[int]] = {}  # by query: streams of its operators
        self.tracking: set[str] = set()  # queries that want to know the events behind their matches
        self.ordering: set[str] = set()  # those of them that choose by history, and want their times
        self.names: dict[int, str] = {}  # of streams
        self.fallible: dict[int, str] = {}  # by program: the expressions in it that can overflow
        self.origins: dict[int, str] = {}  # by stream: what it is, the same in every process
        self._rows: Rows | None = None
        self._shared: dict[PartKey, Shared] = {}
        self._places: dict[tuple[int, int], int] = {}  # (output, place) -> column
        self._part_of_column: dict[int, PartKey] = {}
        self._column_names: dict[int, dict[int, str]] = {}  # by source: {column: name}
        self._serial = 0

    def empty_code(self) -> None:
        self.code, self.operand, self.constant = Arena(DTYPES["code"]), Arena(np.int32), Arena(np.int64)
        self.set, self.set_value = Arena(DTYPES["set"]), Arena(np.int64)
        self._constant_ids: dict[tuple[int, bool], int] = {}
        self._set_ids: dict[tuple[bytes, bool], int] = {}
        self._n_garbage = 0

    # -- queries -----------------------------------------------------------------------------------------------------------

    def add_query(self, query: str, held: list[PartKey], outputs: list[int], lineage: int) -> None:
        """A query all of whose parts were taken. `lineage` is that of its tables' settings."""
        self.queries[query] = held
        self.outputs[query] = outputs
        if lineage:
            self.tracking.add(query)
        if lineage & 2:
            self.ordering.add(query)
        self.version += 1

    def unload(self, query: str) -> None:
        self.release(self.queries.pop(query))
        del self.outputs[query]
        self.tracking.discard(query)
        self.ordering.discard(query)
        self.version += 1
        if self._n_garbage > LEAST_GARBAGE and 2 * self._n_garbage > self.code.size:
            self.compact()

    def publish(self, name: str, query: str, operator: int, columns: Iterable[str]) -> None:
        """Let queries that are loaded from now on read an output as a source. They keep alive what computes it."""
        stream = self.outputs[query][operator]
        self.published[name] = (tuple(self.queries[query]), stream, {column: place for place, column in enumerate(columns)})

    def parts_of(self, query: str) -> list[tuple[int, int]]:
        """What a query has of operators: [(kind, number)], as `Machine.usage` takes them."""
        return [part for key in self.queries[query] for part in self._parts(key)]

    def operators_of(self, query: str) -> list[tuple[int, list[tuple[int, int]]]]:
        """The operators of a query: [(stream of the output, parts)]. What it takes over from others is among them."""
        operators: list[tuple[int, list[tuple[int, int]]]] = []
        for key in self.queries[query]:
            if key[0] == "result":
                operators.append((self.number(key), []))
            elif operators:
                operators[-1][1].extend(self._parts(key))
        return operators

    def _parts(self, key: PartKey) -> list[tuple[int, int]]:
        return [(number, self.number(key)) for number, kind in enumerate(self.kinds) if kind.part == key[0]]

    def source_columns(self, name: str) -> list[tuple[int, str]]:
        """What machines want of a source: [(column, name)]; nothing if no query reads it."""
        stream = self.source(name)
        return [] if stream is None else list(self._column_names[stream].items())

    def source(self, name: str) -> int | None:
        """The stream of a source, or None."""
        return self.number(("source", name)) if self.known(("source", name)) else None

    def hold(
        self,
        held: list[PartKey],
        key: PartKey,
        make: Callable[[], Any] | None = None,
        drop: Callable[..., None] | None = None,
        needs: Iterable[PartKey | int] = (),
    ) -> Any:
        """The number of a part, made if nobody has it. What it `needs` it holds itself: who shares it may not need the same.

        `make` may be left out where the part is there already, `drop` where the forest knows how.
        """
        if key not in self._shared:
            assert make is not None, "the part is gone"
            # Columns of outputs are no parts of their own.
            parts = [self._part_of_column.get(need) if isinstance(need, int) else need for need in needs]
            self._shared[key] = Shared(make(), drop, [part for part in parts if part is not None])
            for need in self._shared[key].needs:
                self._shared[need].n_holders += 1
        self._shared[key].n_holders += 1
        held.append(key)
        return self._shared[key].number

    def known(self, key: PartKey) -> bool:
        return key in self._shared

    def number(self, key: PartKey) -> Any:
        return self._shared[key].number

    def new_serial(self) -> int:
        """What tells a part from others that had its number before."""
        self._serial += 1
        return self._serial

    def release(self, held: list[PartKey]) -> None:
        for key in reversed(held):
            part = self._shared[key]
            part.n_holders -= 1
            if part.n_holders == 0:
                del self._shared[key]
                drop = part.drop or getattr(self, f"_drop_{key[0]}")
                drop(part.number, *key[1:])
                self.release(part.needs)

    def add_source(self, name: str) -> int:
        stream = self.stream.add(kind=StreamKind.SOURCE, n_columns=0, depth=0, serial=0, any_start=0)
        self.names[stream] = name
        self.origins[stream] = f"source {name!r}"
        self._column_names[stream] = {}
        return stream

    def _drop_source(self, stream: int, _: str) -> None:
        self.stream.remove(stream)
        del self.names[stream], self.origins[stream], self._column_names[stream]

    def add_column(self, stream: int, name: str) -> int:
        column = self.column.add(stream=stream, program=-1, must_hold=0, place=0)
        self._column_names[stream][column] = name
        self._part_of_column[column] = ("column", stream, name)
        return column

    def _drop_column(self, column: int, stream: int, _: str) -> None:
        self.column.remove(column)
        del self._column_names[stream][column], self._part_of_column[column]

    def add_derived(self, stream: int, code: Array, n_registers: int, must_hold: int, fallible: str) -> int:
        program = self.add_program(code, (), n_registers, fallible)
        column = self.column.add(stream=stream, program=program, must_hold=must_hold, place=0)
        self._part_of_column[column] = ("derived", stream, code.tobytes(), must_hold)
        return column

    def _drop_derived(self, column: int, *_: object) -> None:
        self.drop_program(self.column["program"][column])
        self.column.remove(column)
        del self._part_of_column[column]

    def add_hash(self, stream: int, keys: Sequence[tuple[int, int]], gate: int) -> int:
        return self.hash.add(stream=stream, first_key=self.hash_key.extend(keys), n_keys=len(keys), gate=gate)

    def _drop_hash(self, number: int, *_: object) -> None:
        self.hash.remove(number)

    def add_result(self, name: str, n_columns: int, depth: int, signature: Hashable, since: int, ports: tuple[int, ...]) -> int:
        stream = self.stream.add(kind=StreamKind.OUTPUT, n_columns=n_columns, depth=depth, serial=self.new_serial(), any_start=0)
        self.names[stream] = name
        self.origins[stream] = f"{signature} since {since} of [{', '.join(sorted([self.origins[port] for port in ports]))}]"
        for place in range(n_columns):
            self._places[stream, place] = self.column.add(stream=stream, program=-1, must_hold=0, place=place)
        return stream

    def place(self, stream: int, place: int) -> int:
        """The column of an operator's output."""
        return self._places[stream, place]

    def _drop_result(self, stream: int, *_: object) -> None:
        for place in range(self.stream["n_columns"][stream]):
            self.column.remove(self._places.pop((stream, place)))
        self.stream.remove(stream)
        del self.names[stream], self.origins[stream]

    def add_program(self, code: Array, operands: Sequence[int] | Array, n_registers: int, fallible: str) -> int:
        code = code.copy()
        code["b"][code["op"] == Op.EMIT] += self.operand.extend(operands)
        program = self.program.add(first_instruction=self.code.extend(code), n_instructions=len(code), n_registers=n_registers)
        self.fallible[program] = fallible
        return program

    def drop_program(self, program: int) -> None:
        self._n_garbage += int(self.program["n_instructions"][program])
        del self.fallible[int(program)]
        self.program.remove(int(program))

    def constant_id(self, value: int, is_text: bool) -> int:
        key = (value, is_text)
        if key not in self._constant_ids:
            self._constant_ids[key] = self.constant.extend([value])
        return self._constant_ids[key]

    def set_id(self, values: Array, are_texts: bool) -> int:
        key = (values.tobytes(), are_texts)
        if key not in self._set_ids:
            first = self.set_value.extend(values)
            self._set_ids[key] = self.set.extend([(first, first + len(values))])
        return self._set_ids[key]

    def text_codes(self) -> Array:
        """Codes of the texts that constants hold."""
        codes = [value for value, is_text in self._constant_ids if is_text]
        codes += [code for values, are_texts in self._set_ids if are_texts for code in np.frombuffer(values, np.int64).tolist()]
        return np.asarray(codes, np.int64)

    # -- the layout machines run ---------------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        """The arrays that machines run, as of now."""
        if self._rows is None or self._rows.version != self.version:
            self._rows = Rows(self)
        return self._rows

    def streams_read(self) -> set[int]:
        """What operators read."""
        return {port for kind in self.kinds for unit in kind.units() for port in unit.ports}

    def unit_array(self) -> Array:
        """What runs, in order: by depth, but what can stop in the middle, because nobody reads it, last."""
        read = self.streams_read()
        units = []
        for number, kind in enumerate(self.kinds):
            for unit in kind.units():
                stream = -1 if unit.stream in read else unit.stream
                units.append((stream >= 0, unit.depth, number, unit.number, stream))
        return spare([unit[2:] for unit in sorted(units)], DTYPES["unit"])

    def compact(self) -> None:
        """Write code, constants and keys anew, without what unloaded queries left behind. Numbers of parts stay."""
        code, operands, constants = self.code.rows, self.operand.rows, self.constant.rows
        texts = {number: is_text for (_, is_text), number in self._constant_ids.items()}
        sets = {number: key for key, number in self._set_ids.items()}
        self.empty_code()
        for program in self.fallible:
            first, n, _ = self.program.rows[program].tolist()
            moved = code[first : first + n].copy()
            for ins in moved:
                if ins["op"] == Op.LOAD_CONST:
                    ins["a"] = self.constant_id(int(constants[ins["a"]]), texts[int(ins["a"])])
                elif ins["op"] in OF_SETS:
                    values, are_texts = sets[int(ins["b"])]
                    ins["b"] = self.set_id(np.frombuffer(values, np.int64), are_texts)
                elif ins["op"] == Op.EMIT:
                    ins["b"] = self.operand.extend(operands[ins["b"] : ins["b"] + ins["c"]])
            self.program["first_instruction"][program] = self.code.extend(moved)
        hash_keys, self.hash_key = self.hash_key.rows, Arena(DTYPES["hash_key"])
        for row in self.hash.rows[: self.hash.size]:
            if row["stream"] != FREE:
                row["first_key"] = self.hash_key.extend(hash_keys[row["first_key"] :][: row["n_keys"]])
        for kind in self.kinds:
            kind.compact()
        self.version += 1
