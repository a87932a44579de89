"""The automata of all loaded queries, merged into one forest of flat arrays that machines run.

Tables of a query are numbered by themselves (`layout.py`); `loading.py` gives every part its number here. What another query has
already is shared: columns and gates by their content, states by signature, edges by label and both ends. Every part counts
the queries that hold it; unloading takes back the numbers of those nobody holds, and `compact` closes the gaps in the code.
A query that is loaded in mid-stream may share states whose instances are older than it: `since` on its last edges holds
those back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from keuka.kernel.bytecode import Op
from keuka.kernel.checks import OF_SETS
from keuka.kernel.rows import DTYPES, Rows, StreamKind, UnitKind
from keuka.kernel.strings import StringTable

FREE = -2  # in place of a stream: the row is not in use
ALWAYS = -(2**63)  # `since` of edges that every instance may take
LEAST_GARBAGE = 65_536  # instructions of unloaded programs that are not worth compacting


Array = npt.NDArray[Any]
PartKey = tuple[Any, ...]  # what a part is: its kind, and what tells it from others of the kind
Identities = Mapping[tuple[int, int], int]  # (type, what it holds) -> slot


class Arena:
    """Rows of a growing array. Single rows are given out again after `remove`; runs of rows stay until everything is compacted."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.rows: Array = np.zeros(16, dtype)
        self.size = 0
        self.free: list[int] = []

    def __getitem__(self, name: str) -> Array:
        """A field of all rows."""
        column: Array = self.rows[name]
        return column

    def extend(self, rows: Sequence[Any] | Array) -> int:
        """Append rows; the number of the first comes back."""
        first = self.size
        self.size += len(rows)
        # One spare row, so that a pointer to the first always exists.
        if self.size >= len(self.rows):
            grown = np.zeros(2 * self.size + 1, self.rows.dtype)
            grown[:first] = self.rows[:first]
            self.rows = grown
        if len(rows):
            self.rows[first : self.size] = rows if isinstance(rows, np.ndarray) else list(rows)
        return first

    def add(self, **fields: int) -> int:
        number = self.free.pop() if self.free else self.extend(self.rows[:1])
        self.set(number, fields)
        return number

    def set(self, number: int, fields: Mapping[str, int]) -> None:
        self.rows[number] = tuple([fields[name] for name in self.rows.dtype.names or ()])

    def remove(self, number: int) -> None:
        """The first field of a free row is FREE."""
        self.rows[number][0] = FREE
        self.free.append(number)


@dataclass(eq=False)
class Group:
    """The automata that read the same streams: they run together, because one merge of those streams serves them all."""

    ports: tuple[int, ...]
    depth: int  # groups run in the order of depth, so that what they read is complete
    states: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


@dataclass(eq=False)
class SequenceArrays:
    """A sequence of all combinations (automaton/stacks.py) with the forest's numbers. Rows are described in rows.pxd; every array has a
    row to spare, so that a pointer to the first exists."""

    stream: int
    within: int
    settings: int
    n_alternatives: int
    key_type: int
    program: int
    n_items: int
    n_components: int
    n_positive: int
    n_ports: int
    n_feeds: int
    n_slots: int
    components: Array
    feeds: Array
    feed_columns: Array
    levels: Array
    tests: Array
    absences: Array
    items: Array
    ports: Array
    slot_types: Array
    slots: list[list[tuple[int, int]]]  # by component: (type, identity)
    programs: list[int]  # that it holds
    serial: int = 0
    is_read: bool = False  # do other operators read its matches?


class Forest:
    """Arrays for the machines, and what stands behind their numbers."""

    def __init__(self) -> None:
        self.strings = StringTable()
        self.version = 0  # changes with every change that machines must follow
        self.stream, self.column, self.program = Arena(DTYPES["stream"]), Arena(DTYPES["column"]), Arena(DTYPES["program"])
        self.hash, self.state, self.edge, self.start = [Arena(DTYPES[name]) for name in ("hash", "state", "edge", "start")]
        self.empty_code()
        self.empty_keys()
        self.groups: dict[tuple[int, ...], Group] = {}  # by the streams that are read
        self.sequences: list[SequenceArrays | None] = []  # None where a number is free
        self.combined: set[int] = set()  # streams of sequences
        self.published: dict[str, tuple[tuple[PartKey, ...], int, dict[str, int]]] = {}  # (what computes it, stream, {column: place})
        self.queries: dict[str, list[PartKey]] = {}  # what each holds, in the order it was taken
        self.outputs: dict[str, list[int]] = {}  # by query: streams of its operators
        self.tracking: set[str] = set()  # queries that want to know the events behind their matches
        self.ordering: set[str] = set()  # those of them that choose by history, and want their times
        self.names: dict[int, str] = {}  # of streams
        self.fallible: dict[int, str] = {}  # by program: the expressions in it that can overflow
        self.identities: dict[int, Identities] = {}  # of the slots of a state
        self.signatures: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {}  # by state: signature, streams of its group
        self.key_slots: dict[int, list[int]] = {}  # by state: slots that hold the key of its plan, component by component
        self.origins: dict[int, str] = {}  # by stream: what it is, the same in every process
        self._rows: Rows | None = None
        self._ids: dict[PartKey, Any] = {}  # number of a part
        self._n_holders: dict[PartKey, int] = {}
        self._needs: dict[PartKey, list[PartKey]] = {}  # other parts that a part holds
        self._part_of_column: dict[int, PartKey] = {}
        self._by_signature: dict[Hashable, list[int]] = {}  # (signature, streams of the group) -> states
        self._column_names: dict[int, dict[int, str]] = {}  # by source: {column: name}
        self._serial = 0

    def empty_code(self) -> None:
        self.code, self.operand, self.constant = Arena(DTYPES["code"]), Arena(np.int32), Arena(np.int64)
        self.set, self.set_value = Arena(DTYPES["set"]), Arena(np.int64)
        self._constant_ids: dict[tuple[int, bool], int] = {}
        self._set_ids: dict[tuple[bytes, bool], int] = {}
        self._n_garbage = 0

    def empty_keys(self) -> None:
        self.key, self.slot_type, self.hash_key = Arena(DTYPES["key"]), Arena(np.int64), Arena(DTYPES["hash_key"])

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

    def states_of(self, query: str) -> list[int]:
        return [key[1] for key in self.queries[query] if key[0] == "state"]

    def sequences_of(self, query: str) -> list[int]:
        return [self._ids[key] for key in self.queries[query] if key[0] == "sequence"]

    def operators_of(self, query: str) -> list[tuple[int, list[int], list[int]]]:
        """The operators of a query: [(stream of the output, states, sequences)]. What it takes over from others is among them."""
        operators: list[tuple[int, list[int], list[int]]] = []
        for key in self.queries[query]:
            if key[0] == "result":
                operators.append((self._ids[key], [], []))
            elif key[0] == "state" and operators:
                operators[-1][1].append(key[1])
            elif key[0] == "sequence" and operators:
                operators[-1][2].append(self._ids[key])
        return operators

    def source_columns(self, name: str) -> list[tuple[int, str]]:
        """What machines want of a source: [(column, name)]; nothing if no query reads it."""
        stream = self._ids.get(("source", name))
        return [] if stream is None else [(column, name) for column, name in self._column_names[stream].items()]

    def source(self, name: str) -> int | None:
        """The stream of a source, or None."""
        return self._ids.get(("source", name))

    def hold(self, held: list[PartKey], key: PartKey, make: Callable[[], Any] | None, needs: Iterable[PartKey | int] = ()) -> Any:
        """The number of a part, made if nobody has it. What it `needs` it holds itself: who shares it may not need the same."""
        if key not in self._ids:
            assert make is not None, "the part is gone"
            self._ids[key] = make()
            self._n_holders[key] = 0
            self._needs[key] = [self._part_of_column[need] if isinstance(need, int) else need for need in needs if self._is_part(need)]
            for need in self._needs[key]:
                self._n_holders[need] += 1
        self._n_holders[key] += 1
        held.append(key)
        return self._ids[key]

    def _is_part(self, need: PartKey | int) -> bool:
        """Columns of outputs are no parts of their own."""
        return not isinstance(need, int) or need in self._part_of_column

    def known(self, key: PartKey) -> bool:
        return key in self._ids

    def number(self, key: PartKey) -> Any:
        return self._ids[key]

    def release(self, held: list[PartKey]) -> None:
        for key in reversed(held):
            self._n_holders[key] -= 1
            if self._n_holders[key] == 0:
                del self._n_holders[key]
                getattr(self, f"_drop_{key[0]}")(self._ids.pop(key), *key[1:])
                self.release(self._needs.pop(key))

    def add_source(self, name: str) -> int:
        stream = self.stream.add(kind=StreamKind.SOURCE, n_columns=0, depth=0, serial=0)
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
        self._drop_program(self.column["program"][column])
        self.column.remove(column)
        del self._part_of_column[column]

    def add_hash(self, stream: int, keys: Sequence[tuple[int, int]], gate: int) -> int:
        return self.hash.add(stream=stream, first_key=self.hash_key.extend(keys), n_keys=len(keys), gate=gate)

    def _drop_hash(self, number: int, *_: object) -> None:
        self.hash.remove(number)

    def add_result(self, name: str, n_columns: int, depth: int, signature: Hashable, since: int, ports: tuple[int, ...]) -> int:
        self._serial += 1
        stream = self.stream.add(kind=StreamKind.OUTPUT, n_columns=n_columns, depth=depth, serial=self._serial)
        self.names[stream] = name
        self.origins[stream] = f"{signature} since {since} of [{', '.join(sorted([self.origins[port] for port in ports]))}]"
        for place in range(n_columns):
            self._ids["place", stream, place] = self.column.add(stream=stream, program=-1, must_hold=0, place=place)
        return stream

    def place(self, stream: int, place: int) -> int:
        """The column of an operator's output."""
        return int(self._ids["place", stream, place])

    def _drop_result(self, stream: int, *_: object) -> None:
        for place in range(self.stream["n_columns"][stream]):
            self.column.remove(self._ids.pop(("place", stream, place)))
        self.stream.remove(stream)
        del self.names[stream], self.origins[stream]

    def add_group(self, ports: tuple[int, ...], depth: int) -> tuple[int, ...]:
        self.groups[ports] = Group(ports, depth)
        return ports

    def _drop_group(self, _: object, ports: tuple[int, ...]) -> None:
        del self.groups[ports]

    def new_state(self) -> int:
        return self.state.add(**dict.fromkeys(self.state.rows.dtype.names or (), FREE))

    def set_state(
        self, state: int, ports: tuple[int, ...], signature: tuple[int, int], fields: Mapping[str, int], identities: Identities
    ) -> None:
        """Fill in a new state, which has no edge yet."""
        self._serial += 1
        self.state.set(state, {**fields, "first_edge": -1, "serial": self._serial})
        self.identities[state] = identities
        self.signatures[state] = (signature, ports)
        self._by_signature.setdefault((signature, ports), []).append(state)
        self.groups[ports].states.append(state)

    def _drop_state(self, state: int, _: int) -> None:
        signature, ports = self.signatures.pop(state)
        self._by_signature[signature, ports].remove(state)
        if not self._by_signature[signature, ports]:
            del self._by_signature[signature, ports]
        self.groups[ports].states.remove(state)
        self._drop_program(self.state["program"][state])
        del self.identities[state], self.key_slots[state]
        self.state.remove(state)

    def state_name(self, state: int) -> str:
        """What a state is, the same in every process: its signature and the streams of its group."""
        (low, high), ports = self.signatures[state]
        streams = "; ".join(sorted([self.origins[port] for port in ports]))
        return f"{low & (2**64 - 1):016x}{high & (2**64 - 1):016x} {hashlib.blake2b(streams.encode(), digest_size=16).hexdigest()}"

    def same_states(self, signature: tuple[int, int], ports: tuple[int, ...]) -> Sequence[int]:
        return self._by_signature.get((signature, ports), ())

    def add_sequence(self, arrays: SequenceArrays) -> int:
        self._serial += 1
        arrays.serial = self._serial
        self.combined.add(arrays.stream)
        if None in self.sequences:
            number = self.sequences.index(None)
            self.sequences[number] = arrays
        else:
            number = len(self.sequences)
            self.sequences.append(arrays)
        return number

    def _drop_sequence(self, number: int, *_: object) -> None:
        arrays = self.sequence(number)
        for program in arrays.programs:
            self._drop_program(program)
        self.combined.discard(arrays.stream)
        self.sequences[number] = None

    def sequence(self, number: int) -> SequenceArrays:
        arrays = self.sequences[number]
        assert arrays is not None, "there is no such sequence"
        return arrays

    def sequence_name(self, number: int) -> str:
        """What a sequence is, the same in every process."""
        return hashlib.blake2b(self.origins[self.sequence(number).stream].encode(), digest_size=16).hexdigest()

    def add_edge(self, state: int, program: int, since: int) -> int:
        edge = self.edge.add(program=program, since=since, next=self.state["first_edge"][state])
        self.state["first_edge"][state] = edge
        return edge

    def _drop_edge(self, edge: int, state: int, *_: object) -> None:
        next_, before = self.edge["next"], self.state["first_edge"][state]
        if before == edge:
            self.state["first_edge"][state] = next_[edge]
        else:
            while next_[before] != edge:
                before = next_[before]
            next_[before] = next_[edge]
        self._drop_program(self.edge["program"][edge])
        self.edge.remove(edge)

    def add_start(self, ports: tuple[int, ...], stream: int, gate: int, program: int, reading: int) -> int:
        edge = self.edge.add(program=program, since=ALWAYS, next=-1)
        start = self.start.add(stream=stream, gate=gate, edge=edge, reading=reading)
        self.groups[ports].starts.append(start)
        return start

    def _drop_start(self, start: int, ports: tuple[int, ...], *_: object) -> None:
        self.groups[ports].starts.remove(start)
        edge = int(self.start["edge"][start])
        self._drop_program(self.edge["program"][edge])
        self.edge.remove(edge)
        self.start.remove(start)

    def add_program(self, code: Array, operands: Sequence[int] | Array, n_registers: int, fallible: str) -> int:
        code = code.copy()
        code["b"][code["op"] == Op.EMIT] += self.operand.extend(operands)
        program = self.program.add(first_instruction=self.code.extend(code), n_instructions=len(code), n_registers=n_registers)
        self.fallible[program] = fallible
        return program

    def _drop_program(self, program: int) -> None:
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

    def group_arrays(self) -> tuple[Array, Array, Array, Array]:
        """(group, port, state, start): groups in the order they run."""
        rows: list[tuple[int, ...]] = []
        ports: list[int] = []
        states: list[int] = []
        starts: list[int] = []
        for group in self._groups_in_order():
            rows.append((len(ports), len(group.ports), len(states), len(group.states), len(starts), len(group.starts)))
            ports += group.ports
            states += group.states
            starts += group.starts
        flat = [np.asarray([*numbers, 0], np.int64) for numbers in (ports, states, starts)]
        return spare("group", rows), flat[0], flat[1], flat[2]

    def _groups_in_order(self) -> list[Group]:
        return sorted(self.groups.values(), key=lambda group: (group.depth, group.ports))

    def unit_array(self) -> Array:
        """Groups and sequences in the order they run: by depth, but sequences whose matches nobody reads last."""
        read = {port for group in self.groups.values() for port in group.ports}
        read |= {int(port) for arrays in self.sequences if arrays is not None for port in arrays.ports[: arrays.n_ports]}
        units = [(False, group.depth, int(UnitKind.GROUP), number) for number, group in enumerate(self._groups_in_order())]
        for number, arrays in enumerate(self.sequences):
            if arrays is not None:
                arrays.is_read = arrays.stream in read
                units.append((not arrays.is_read, int(self.stream["depth"][arrays.stream]), int(UnitKind.SEQUENCE), number))
        return spare("unit", [unit[2:] for unit in sorted(units)])

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
        self._compact_keys()
        self.version += 1

    def _compact_keys(self) -> None:
        keys, types, hash_keys = self.key.rows, self.slot_type.rows, self.hash_key.rows
        self.empty_keys()
        for state in self.signatures:
            row = self.state.rows[state]
            row["first_slot"] = self.slot_type.extend(types[row["first_slot"] :][: row["n_slots"]])
            row["first_key"] = self.key.extend(keys[row["first_key"] :][: row["n_keys"]])
        for row in self.hash.rows[: self.hash.size]:
            if row["stream"] != FREE:
                row["first_key"] = self.hash_key.extend(hash_keys[row["first_key"] :][: row["n_keys"]])


def row_of(kind: str, **fields: int) -> tuple[int, ...]:
    """A row in the order of rows.pxd."""
    return tuple([fields[name] for name in DTYPES[kind].names or ()])


def spare(kind: str, rows: Sequence[tuple[int, ...]]) -> Array:
    """Rows with one more, so that a pointer to the first exists."""
    array: Array = np.zeros(len(rows) + 1, DTYPES[kind])
    if rows:
        array[:-1] = rows
    return array
