"""One query on its way into a forest: from the numbers of its tables (`layout.py`) to the forest's.

What the forest has already is shared, the rest is added. A query that cannot be loaded leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from keuka.kernel import layout
from keuka.kernel.bytecode import Op
from keuka.kernel.checks import OF_SETS
from keuka.kernel.forest import ALWAYS, Array, Forest, PartKey, SequenceArrays, row_of, spare
from keuka.kernel.layout import Arrays
from keuka.kernel.rows import Reading

NEVER = 2**63 - 1  # ticks
DOUBLE = 2  # a column_type
PRUNED, WAITS = 4, 16  # settings of a sequence (automaton/stack_code.py)


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
    loading = _Loading(forest, arrays, texts, fallible, since)
    try:
        loading.run(sources, names)
    except BaseException:
        forest.release(loading.held)
        raise
    forest.add_query(query, loading.held, loading.streams[len(sources) :], int(arrays["settings"][2]))


class _Loading:
    def __init__(self, forest: Forest, arrays: Arrays, texts: Sequence[str], fallible: Sequence[str], since: int) -> None:
        self.forest = forest
        self.rows = {name: layout.rows(name, array) for name, array in arrays.items() if name not in layout.NARROW}
        self.code = layout.fields("code", arrays["code"])
        self.operand = arrays["operand"]
        self.fallible = fallible
        self.since = since
        self.held: list[PartKey] = []
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

    def hold(self, key: PartKey, make: Callable[[], Any] | None, needs: Iterable[PartKey | int] = ()) -> Any:
        """`make` is None where the part is there already."""
        return self.forest.hold(self.held, key, make, needs)

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
                self.hold(part, None)
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
                self.columns[column] = self.hold(key, made, _columns_read(code))

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

    # -- operators -------------------------------------------------------------------------------------------------------------

    def _add_operator(self, which: int, name: str) -> None:
        forest = self.forest
        operator: layout.Operator = self.rows["operator"][which]
        read = [self.streams[s] for s in self.rows["port"][operator.first_port : operator.first_port + operator.n_ports]]
        ports = tuple(sorted(set(read)))  # two inputs may be one stream here: both sides of an operator computed alike
        depth = 1 + max(int(forest.stream["depth"][s]) for s in ports)
        if operator.n_starts + operator.n_states > 0:
            self.hold(("group", ports), lambda: forest.add_group(ports, depth))
        first_column, n_columns = self.rows["stream"][len(self.streams)]
        # The types are in the key, and in those of slots, because signatures may lie: then nothing is shared.
        types = tuple(self.rows["column_type"][first_column : first_column + n_columns])
        signature = (operator.signature_low, operator.signature_high, types)
        key = ("result", operator.signature_low, operator.signature_high, types, self.since, ports)
        result = self.hold(key, lambda: forest.add_result(name, n_columns, depth, signature, self.since, ports))
        self.columns[first_column : first_column + n_columns] = [forest.place(result, i) for i in range(n_columns)]
        self._add_automaton(operator, ports, result)
        for row in self.rows["sequence"]:
            if row.operator == which:
                self.hold(("sequence", *key[1:]), partial(self._new_sequence, row, result, ports), self._sequence_needs(row))
        self._add_stream(result)

    # -- automata --------------------------------------------------------------------------------------------------------------

    def _add_automaton(self, operator: layout.Operator, ports: tuple[int, ...], result: int) -> None:
        starts: list[layout.Start] = self.rows["start"][operator.first_start : operator.first_start + operator.n_starts]
        states = range(operator.first_state, operator.first_state + operator.n_states)
        numbers = self._number_states(ports, states, starts)
        numbers[-1] = -1 - result
        for s in states:
            self._add_edge_of_state(s, numbers)
        for start in starts:
            self._add_start(ports, start, numbers)

    def _number_states(self, ports: tuple[int, ...], states: range, starts: list[layout.Start]) -> dict[int, int]:
        """By state of the tables its number in the forest. What comes before a state has a larger number and is looked at first."""
        forest = self.forest
        numbers: dict[int, int] = {}
        shared = set()
        for s in reversed(states):
            state: layout.State = self.rows["state"][s]
            slots = self._identities(state)
            for other in forest.same_states((state.signature_low, state.signature_high), ports):
                ways = self._ways(ports, s, other, starts, numbers)
                if slots.keys() <= forest.identities[other].keys() and all(map(forest.known, ways)):
                    numbers[s] = other
                    shared.add(s)
                    break
            else:
                numbers[s] = forest.new_state()
        for s in states:
            if s in shared:
                self.hold(("state", numbers[s]), None)
            else:
                self._fill_state(ports, self.rows["state"][s], numbers[s])
        return numbers

    def _ways(
        self, ports: tuple[int, ...], state: int, target: int, starts: list[layout.Start], numbers: dict[int, int]
    ) -> Iterator[PartKey]:
        """What the edges into a state would be, if it were `target`."""
        for start in starts:
            edge: layout.Edge = self.rows["edge"][start.edge]
            if edge.target == state:
                yield ("start", ports, self.streams[start.stream], edge.label_low, edge.label_high, target)
        for s, number in numbers.items():
            edge = self.rows["edge"][self.rows["state"][s].edge]
            if edge.target == state:
                yield ("edge", number, edge.label_low, edge.label_high, target)

    def _identities(self, state: layout.State) -> dict[tuple[int, int], int]:
        """By type and identity of a value, the slot that holds it."""
        slots: list[layout.Slot] = self.rows["slot"][state.first_slot : state.first_slot + state.n_slots]
        return {(slot.type, slot.identity): number for number, slot in enumerate(slots)}

    def _fill_state(self, ports: tuple[int, ...], state: layout.State, number: int) -> None:
        forest = self.forest
        keys: list[layout.Key] = self.rows["key"][state.first_key : state.first_key + state.n_keys]
        hashed = tuple([(self.column(key.column), key.is_double) for key in keys])
        gate, stream = self.column(state.gate), self.streams[state.stream]
        hash_key = ("hash", stream, hashed, gate)
        hash_ = self.hold(hash_key, lambda: forest.add_hash(stream, hashed, gate), [gate, *[column for column, _ in hashed]])
        relocated = self.relocated(state.program, None, number)
        self.hold(("state", number), lambda: number, [hash_key, *_columns_read(relocated[0])])
        slots = self.rows["slot"][state.first_slot : state.first_slot + state.n_slots]
        forest.key_slots[number] = [key.slot for key in sorted(keys, key=lambda key: key.component) if key.component >= 0]
        fields = {
            "stream": stream,
            "program": self.add_program(state.program, relocated),
            "hash": hash_,
            "n_slots": state.n_slots,
            "first_slot": forest.slot_type.extend([slot.type for slot in slots]),
            "first_key": forest.key.extend([(column, key.slot, key.is_double) for (column, _), key in zip(hashed, keys, strict=True)]),
            "n_keys": state.n_keys,
            "window": state.window,
            "reading": state.reading,
        }
        forest.set_state(number, ports, (state.signature_low, state.signature_high), fields, self._identities(state))

    def _add_edge_of_state(self, s: int, numbers: dict[int, int]) -> None:
        """The forward edge. A shared state may keep its values in other slots."""
        state: layout.State = self.rows["state"][s]
        edge: layout.Edge = self.rows["edge"][state.edge]
        theirs = self.forest.identities[numbers[s]]
        slots = np.asarray([*[theirs[identity] for identity in self._identities(state)], 0], np.int64)
        relocated = self.relocated(edge.program, slots, numbers[edge.target])

        def make() -> int:
            since = self.since if edge.target < 0 else ALWAYS
            return self.forest.add_edge(numbers[s], self.add_program(edge.program, relocated), since)

        key = ("edge", numbers[s], edge.label_low, edge.label_high, numbers[edge.target])
        self.hold(key, make, _columns_read(relocated[0]))

    def _add_start(self, ports: tuple[int, ...], start: layout.Start, numbers: dict[int, int]) -> None:
        edge: layout.Edge = self.rows["edge"][start.edge]
        gate, stream = self.column(start.gate), self.streams[start.stream]
        relocated = self.relocated(edge.program, None, numbers[edge.target])

        def make() -> int:
            return self.forest.add_start(ports, stream, gate, self.add_program(edge.program, relocated), start.reading)

        key = ("start", ports, stream, edge.label_low, edge.label_high, numbers[edge.target])
        self.hold(key, make, [gate, *_columns_read(relocated[0])])

    # -- sequences -------------------------------------------------------------------------------------------------------------

    def _feeds(self, sequence: layout.Sequence) -> Iterator[tuple[int, layout.Feed, list[int]]]:
        """(component, feed, columns of its slots), with the forest's numbers of streams and columns."""
        for number, component in enumerate(self._components(sequence)):
            for feed in self.rows["feed"][component.first_feed : component.first_feed + component.n_feeds]:
                slots = self.rows["feed_column"][feed.first_column : feed.first_column + component.n_slots]
                numbers = {"stream": self.streams[feed.stream], "gate": self.column(feed.gate), "key": self.column(feed.key)}
                yield number, feed._replace(**numbers), self.columns[slots].tolist()

    def _components(self, sequence: layout.Sequence) -> list[layout.Component]:
        return list(self.rows["component"][sequence.first_component : sequence.first_component + sequence.n_components])

    def _hash_of_key(self, feed: layout.Feed, key_type: int) -> PartKey:
        return ("hash", feed.stream, ((feed.key, int(key_type == DOUBLE)),), -1)

    def _sequence_needs(self, sequence: layout.Sequence) -> list[PartKey | int]:
        needs: list[PartKey | int] = []
        for _, feed, columns in self._feeds(sequence):
            needs += [column for column in (feed.gate, feed.key, *columns) if column >= 0]
            if feed.key >= 0:
                part = self._hash_of_key(feed, sequence.key_type)
                self.hold(part, partial(self.forest.add_hash, feed.stream, part[2], -1), [feed.key])
                needs.append(part)
        return needs

    def _new_sequence(self, sequence: layout.Sequence, result: int, ports: tuple[int, ...]) -> int:
        programs: list[int] = []

        def program(number: int) -> int:
            if number < 0:
                return -1
            programs.append(self.add_program(number, self.relocated(number, None, 0)))
            return programs[-1]

        components = self._components(sequence)
        slots: list[list[layout.Slot]] = [self.rows["slot"][c.first_slot : c.first_slot + c.n_slots] for c in components]
        feeds: list[tuple[int, ...]] = []
        feed_columns: list[int] = []
        for component, feed, columns in self._feeds(sequence):
            hash_ = -1 if feed.key < 0 else self.forest.number(self._hash_of_key(feed, sequence.key_type))
            feeds.append(
                row_of(
                    "feed",
                    stream=feed.stream,
                    port=ports.index(feed.stream),
                    gate=feed.gate,
                    key=feed.key,
                    hash=hash_,
                    first_column=len(feed_columns),
                    tag=feed.tag,
                    is_primitive=feed.reading & Reading.PRIMITIVE,
                    component=component,
                )
            )
            feed_columns += columns
        levels: list[tuple[int, ...]] = []
        tests: list[tuple[int, ...]] = []
        absences: list[tuple[int, ...]] = []
        for level in self.rows["level"][sequence.first_level : sequence.first_level + sequence.n_levels]:
            levels.append(row_of("level", **level._replace(first_test=len(tests), first_absence=len(absences))._asdict()))
            for test in self.rows["test"][level.first_test : level.first_test + level.n_tests]:
                tests.append(row_of("test", **test._replace(program=program(test.program))._asdict()))
            for absence in self.rows["absence"][level.first_absence : level.first_absence + level.n_absences]:
                absences.append(row_of("absence", **absence._replace(program=program(absence.program))._asdict()))
        arrays = SequenceArrays(
            stream=result,
            within=sequence.within,
            settings=sequence.settings,
            n_alternatives=sequence.n_alternatives,
            key_type=sequence.key_type,
            program=program(sequence.program),
            n_items=sequence.n_items,
            n_components=len(components),
            n_positive=sum([not component.is_negated for component in components]),
            n_ports=len(ports),
            n_feeds=len(feeds),
            n_slots=sum([component.n_slots for component in components]),
            components=spare("component", _component_rows(sequence, components)),
            feeds=spare("feed", feeds),
            feed_columns=_words(feed_columns),
            levels=spare("level", levels),
            tests=spare("test", tests),
            absences=spare("absence", absences),
            items=_words(self.rows["item"][sequence.first_item : sequence.first_item + sequence.n_items]),
            ports=_words(ports),
            slot_types=_words([slot.type for of_component in slots for slot in of_component]),
            slots=[[(slot.type, slot.identity) for slot in of_component] for of_component in slots],
            programs=programs,
        )
        return self.forest.add_sequence(arrays)


def _component_rows(sequence: layout.Sequence, components: list[layout.Component]) -> list[tuple[int, ...]]:
    positive = [i for i, component in enumerate(components) if not component.is_negated]
    rows: list[tuple[int, ...]] = []
    first_slot = 0
    for i, c in enumerate(components):
        before = max([k for k in positive if k < i], default=-1)
        # A match that waits for the end of its window looks for what came before its first event that much later.
        kept_for = sequence.within if not (sequence.settings & WAITS and i < positive[0]) else min(2 * sequence.within, NEVER)
        kept_for = kept_for if sequence.settings & PRUNED else NEVER
        own = c._replace(first_slot=first_slot)._asdict()
        rows.append(row_of("component", **own, positive_before=before, kept_for=kept_for))
        first_slot += c.n_slots
    return rows


def _words(numbers: Sequence[int]) -> Array:
    """Numbers with one more, so that a pointer to the first exists."""
    return np.asarray([*numbers, 0], np.int64)


def _columns_read(code: Array) -> list[int]:
    return list(np.unique(code["a"][code["op"] == Op.LOAD_EVENT]).tolist())
