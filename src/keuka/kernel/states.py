"""Automata as the forest knows them: states, edges and starts of all queries, in groups that read the same streams.

What another query has already is shared: states by signature, edges by label and both ends. A query that is loaded in mid-stream may
share states whose instances are older than it: `since` on its last edges holds those back. `automata.py` is the machine's side.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from keuka.kernel import layout
from keuka.kernel.arena import FREE, Arena, Unit, spare
from keuka.kernel.automata import DTYPES, Automata
from keuka.kernel.held import Held, Keys, Part, Store, Words, check_nodes, check_times, pack, slot_name, unpack
from keuka.kernel.instances import BORN, FINISH, HEADER, LINEAGE, START

if TYPE_CHECKING:
    from keuka.kernel.forest import Forest, PartKey
    from keuka.kernel.loading import Loading
    from keuka.kernel.machine import Machine

ALWAYS = -(2**63)  # `since` of edges that every instance may take
Identities = Mapping[tuple[int, int], int]  # (type, what it holds) -> slot


@dataclass(eq=False)
class Group:
    """The automata that read the same streams: they run together, because one merge of those streams serves them all."""

    ports: tuple[int, ...]
    depth: int
    states: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class States:
    part = "state"
    operators = Automata

    def __init__(self, forest: Forest, kind: int) -> None:
        self.forest: Forest = weakref.proxy(forest)  # which holds this: a circle would keep both for longer
        self.kind = kind
        self.state, self.edge, self.start = [Arena(DTYPES[name]) for name in ("state", "edge", "start")]
        self.groups: dict[tuple[int, ...], Group] = {}  # by the streams that are read
        self.identities: dict[int, Identities] = {}  # of the slots of a state
        self.signatures: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {}  # by state: signature, streams of its group
        self.key_slots: dict[int, list[int]] = {}  # by state: slots that hold the key of its plan, component by component
        self._by_signature: dict[Hashable, list[int]] = {}  # (signature, streams of the group) -> states
        self._empty_keys()

    def _empty_keys(self) -> None:
        self.key, self.slot_type = Arena(DTYPES["key"]), Arena(np.int64)

    def name_of(self, state: int) -> str:
        """What a state is, the same in every process: its signature and the streams of its group."""
        (low, high), ports = self.signatures[state]
        streams = "; ".join(sorted([self.forest.origins[port] for port in ports]))
        return f"{low & (2**64 - 1):016x}{high & (2**64 - 1):016x} {hashlib.blake2b(streams.encode(), digest_size=16).hexdigest()}"

    def stores(self) -> list[Store]:
        return [_Instances(self, state) for state in sorted(self.signatures, key=self.name_of)]

    # -- what machines run -------------------------------------------------------------------------------------------------

    def _groups_in_order(self) -> list[Group]:
        return sorted(self.groups.values(), key=lambda group: (group.depth, group.ports))

    def units(self) -> list[Unit]:
        return [Unit(number, group.depth, group.ports, -1) for number, group in enumerate(self._groups_in_order())]

    def rows(self) -> dict[str, Any]:
        rows: list[tuple[int, ...]] = []
        ports: list[int] = []
        states: list[int] = []
        starts: list[int] = []
        for group in self._groups_in_order():
            rows.append((len(ports), len(group.ports), len(states), len(group.states), len(starts), len(group.starts)))
            ports += group.ports
            states += group.states
            starts += group.starts
        arenas = {"state": self.state, "key": self.key, "slot_type": self.slot_type, "edge": self.edge, "start": self.start}
        flat = {"group_port": ports, "group_state": states, "group_start": starts}
        arrays = {name: arena.rows for name, arena in arenas.items()} | {name: spare(numbers) for name, numbers in flat.items()}
        return {**arrays, "group": spare(rows, DTYPES["group"]), "n_states": self.state.size}

    def compact(self) -> None:
        keys, types = self.key.rows, self.slot_type.rows
        self._empty_keys()
        for state in self.signatures:
            row = self.state.rows[state]
            row["first_slot"] = self.slot_type.extend(types[row["first_slot"] :][: row["n_slots"]])
            row["first_key"] = self.key.extend(keys[row["first_key"] :][: row["n_keys"]])

    # -- loading -----------------------------------------------------------------------------------------------------------

    def load(self, loading: Loading, which: int, ports: tuple[int, ...], result: int) -> None:
        operator: layout.Operator = loading.rows["operator"][which]
        if operator.n_starts + operator.n_states == 0:
            return
        loading.hold(("group", ports), lambda: self._add_group(ports, loading.depth_of(ports)), self._drop_group)
        starts: list[layout.Start] = loading.slice("start", operator)
        states = range(operator.first_state, operator.first_state + operator.n_states)
        numbers = self._number_states(loading, ports, states, starts)
        numbers[-1] = -1 - result
        for s in states:
            self._add_edge(loading, s, numbers)
        for start in starts:
            self._add_start(loading, ports, start, numbers)

    def _add_group(self, ports: tuple[int, ...], depth: int) -> tuple[int, ...]:
        self.groups[ports] = Group(ports, depth)
        return ports

    def _drop_group(self, _: object, ports: tuple[int, ...]) -> None:
        del self.groups[ports]

    def _number_states(self, loading: Loading, ports: tuple[int, ...], states: range, starts: list[layout.Start]) -> dict[int, int]:
        """By state of the tables its number in the forest. What comes before a state has a larger number and is looked at first."""
        numbers: dict[int, int] = {}
        shared = set()
        for s in reversed(states):
            state: layout.State = loading.rows["state"][s]
            slots = _identities(loading, state)
            for other in self._by_signature.get(((state.signature_low, state.signature_high), ports), ()):
                ways = _ways(loading, ports, s, other, starts, numbers)
                if slots.keys() <= self.identities[other].keys() and all(map(self.forest.known, ways)):
                    numbers[s] = other
                    shared.add(s)
                    break
            else:
                numbers[s] = self.state.add(**dict.fromkeys(self.state.rows.dtype.names or (), FREE))
        for s in states:
            if s in shared:
                loading.hold(("state", numbers[s]))
            else:
                self._fill_state(loading, ports, loading.rows["state"][s], numbers[s])
        return numbers

    def _fill_state(self, loading: Loading, ports: tuple[int, ...], state: layout.State, number: int) -> None:
        """A new state, which has no edge yet."""
        keys: list[layout.Key] = loading.slice("key", state)
        hashed = tuple([(loading.column(key.column), key.is_double) for key in keys])
        hash_key = loading.hold_hash(loading.streams[state.stream], hashed, loading.column(state.gate))
        code = loading.relocated(state.program, None, number)
        loading.hold(("state", number), lambda: number, self._drop_state, [hash_key, *loading.columns_read(code)])
        self.key_slots[number] = [key.slot for key in sorted(keys, key=lambda key: key.component) if key.component >= 0]
        fields = {
            "stream": loading.streams[state.stream],
            "program": loading.add_program(state.program, code),
            "hash": self.forest.number(hash_key),
            "n_slots": state.n_slots,
            "first_slot": self.slot_type.extend([slot.type for slot in loading.slice("slot", state)]),
            "first_key": self.key.extend([(column, key.slot, key.is_double) for (column, _), key in zip(hashed, keys, strict=True)]),
            "n_keys": state.n_keys,
            "window": state.window,
            "first_edge": -1,
            "serial": self.forest.new_serial(),
            "reading": state.reading,
        }
        self.state.set(number, fields)
        signature = ((state.signature_low, state.signature_high), ports)
        self.identities[number] = _identities(loading, state)
        self.signatures[number] = signature
        self._by_signature.setdefault(signature, []).append(number)
        self.groups[ports].states.append(number)

    def _drop_state(self, state: int, _: int) -> None:
        signature, ports = self.signatures.pop(state)
        self._by_signature[signature, ports].remove(state)
        if not self._by_signature[signature, ports]:
            del self._by_signature[signature, ports]
        self.groups[ports].states.remove(state)
        self.forest.drop_program(self.state["program"][state])
        del self.identities[state], self.key_slots[state]
        self.state.remove(state)

    def _add_edge(self, loading: Loading, s: int, numbers: dict[int, int]) -> None:
        """The forward edge of a state. A shared state may keep its values in other slots."""
        state: layout.State = loading.rows["state"][s]
        edge: layout.Edge = loading.rows["edge"][state.edge]
        theirs = self.identities[numbers[s]]
        slots = np.asarray([*[theirs[identity] for identity in _identities(loading, state)], 0], np.int64)
        code = loading.relocated(edge.program, slots, numbers[edge.target])

        def make() -> int:
            since = loading.since if edge.target < 0 else ALWAYS
            program, next_ = loading.add_program(edge.program, code), self.state["first_edge"][numbers[s]]
            number = self.edge.add(program=program, since=since, next=next_)
            self.state["first_edge"][numbers[s]] = number
            return number

        key = ("edge", numbers[s], edge.label_low, edge.label_high, numbers[edge.target])
        loading.hold(key, make, self._drop_edge, loading.columns_read(code))

    def _drop_edge(self, edge: int, state: int, *_: object) -> None:
        next_, before = self.edge["next"], self.state["first_edge"][state]
        if before == edge:
            self.state["first_edge"][state] = next_[edge]
        else:
            while next_[before] != edge:
                before = next_[before]
            next_[before] = next_[edge]
        self.forest.drop_program(self.edge["program"][edge])
        self.edge.remove(edge)

    def _add_start(self, loading: Loading, ports: tuple[int, ...], start: layout.Start, numbers: dict[int, int]) -> None:
        edge: layout.Edge = loading.rows["edge"][start.edge]
        gate, stream = loading.column(start.gate), loading.streams[start.stream]
        code = loading.relocated(edge.program, None, numbers[edge.target])

        def make() -> int:
            first = self.edge.add(program=loading.add_program(edge.program, code), since=ALWAYS, next=-1)
            number = self.start.add(stream=stream, gate=gate, edge=first, reading=start.reading)
            self.groups[ports].starts.append(number)
            return number

        key = ("start", ports, stream, edge.label_low, edge.label_high, numbers[edge.target])
        loading.hold(key, make, self._drop_start, [gate, *loading.columns_read(code)])

    def _drop_start(self, start: int, ports: tuple[int, ...], *_: object) -> None:
        self.groups[ports].starts.remove(start)
        edge = int(self.start["edge"][start])
        self.forest.drop_program(self.edge["program"][edge])
        self.edge.remove(edge)
        self.start.remove(start)


def _ways(
    loading: Loading, ports: tuple[int, ...], state: int, target: int, starts: list[layout.Start], numbers: dict[int, int]
) -> Iterator[PartKey]:
    """What the edges into a state would be, if it were `target`."""
    for start in starts:
        edge: layout.Edge = loading.rows["edge"][start.edge]
        if edge.target == state:
            yield ("start", ports, loading.streams[start.stream], edge.label_low, edge.label_high, target)
    for s, number in numbers.items():
        edge = loading.rows["edge"][loading.rows["state"][s].edge]
        if edge.target == state:
            yield ("edge", number, edge.label_low, edge.label_high, target)


def _identities(loading: Loading, state: layout.State) -> dict[tuple[int, int], int]:
    """By type and identity of a value, the slot that holds it."""
    return {(slot.type, slot.identity): number for number, slot in enumerate(loading.slice("slot", state))}


class _Instances:
    """What a state holds."""

    def __init__(self, states: States, state: int) -> None:
        self.kind = states.kind
        self.state = state
        self.slots = [slot_name(*value) for value in states.identities[state]]
        self.key_slots = np.asarray(states.key_slots[state], np.int64)
        values = {slot_name(*value): value[0] for value in states.identities[state]}
        # The mark concerns one epoch, and is not kept.
        numbers = {"start": START, "finish": FINISH, "born": BORN, "lineage": LINEAGE}
        self.parts = [Part(f"state/{states.name_of(state)}", f"/{state}", numbers, "lineage", values)]

    def take(self, machine: Machine, keys: Keys | None) -> list[Held]:
        rows = machine.kind(self.kind).instances(self.state, *self._arguments(keys))
        return [unpack(rows, self.parts[0], self.slots, HEADER)]

    def check(self, held: Sequence[Held | None], time: int, n_nodes: int) -> None:
        if held[0] is not None:
            numbers = held[0].numbers
            check_times(numbers["start"], numbers["finish"], time)
            check_times(numbers["born"], numbers["finish"], time)
            check_nodes(numbers["lineage"], -1, n_nodes)

    def put(self, machine: Machine, held: Sequence[Held | None]) -> None:
        if held[0] is not None:
            machine.kind(self.kind).put_instances(machine, self.state, pack(held[0], self.parts[0], self.slots, HEADER))

    def drop(self, machine: Machine, keys: Keys | None) -> None:
        machine.kind(self.kind).drop_instances(self.state, *self._arguments(keys))

    def _arguments(self, keys: Keys | None) -> tuple[Words | None, Words | None]:
        if keys is None:
            return None, None
        if len(self.key_slots) != keys.words.shape[1]:
            raise ValueError("the queries have no common key of that many components")
        # A null in its key equals nothing: no such instance is kept.
        return self.key_slots, np.ascontiguousarray(keys.words[~keys.nulls.any(axis=1)])
