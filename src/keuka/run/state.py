"""The state of a runner as Arrow tables, all of it or that of chosen keys: taken, put into another runner, dropped.

States are known by what they are, slots by what they hold, streams by name, so that state fits into any runner whose queries
have the same states, whatever else it runs. Numbers of events and nodes are given anew when state is put somewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keuka.events.carried import CarriedColumn
from keuka.events.columns import ByteArray, Int64Array, canonical, from_kernel, string_layout, text_pieces, to_kernel, validity
from keuka.kernel import upkeep
from keuka.run.runner import CARRIED_NUMBER, CARRIER_SHIFT, Runner
from keuka.schema import Attribute, Type, attribute_of

Sections = list[tuple[str, pa.Table]]

# Words of an instance before its slots (kernel/instances.pxd). The mark concerns one epoch and is not kept.
_HEADER = ("start", "finish", "born", "mark", "lineage")
_LINEAGE = _HEADER.index("lineage")
# Words of a stacked event before its slots (kernel/stacks.pxd). Links are made anew where events are put.
_EVENT = ("end", "start", "below", "rip", "absent", "node", "key", "tag")
_NODE, _KEY, _TAG = _EVENT.index("node"), _EVENT.index("key"), _EVENT.index("tag")
_WITHOUT_KEY = 2  # in the tag
_KEPT = ("end", "start", "node", "tag")
_DOUBLE, _STRING, _OTHER = 2, 3, 5  # types of slots in the kernel's tables


def take(runner: Runner, keys: pa.StructArray | None = None) -> Sections:
    """The state of all keys, or of those given: one field per component, in order. Nothing changes."""
    runner.look_through()
    machine = runner.machines[0]
    chosen: dict[int, Int64Array] = {}
    for state in sorted(runner.forest.signatures, key=runner.forest.state_name):
        rows = upkeep.instances(machine, state)
        rows = rows if keys is None else rows[_has_key(runner, state, rows, keys)]
        if len(rows):
            chosen[state] = rows
    stacks = {
        (number, component): _stacked(runner, number, component, keys)
        for number in sorted(_sequences(runner), key=runner.forest.sequence_name)
        for component in range(runner.forest.sequence(number).n_components)
    }
    no_numbers = np.empty(0, np.int64)
    lineage = [rows[:, _LINEAGE] for rows in chosen.values()] + [rows[:, _NODE] for rows in stacks.values()]
    nodes = _reachable(upkeep.nodes(machine), np.concatenate([no_numbers, *lineage]))
    held = np.concatenate(
        [
            no_numbers,
            *[handle for state, rows in chosen.items() for handle in _handles(_layout(runner, state), rows)],
            *[handle for of, rows in stacks.items() for handle in _handles(_stack_layout(runner, *of), rows)],
        ]
    )
    sections: Sections = [("nodes", _nodes_table(runner, nodes.rows, upkeep.node_times(machine)[nodes.moved >= 0]))]
    for state, rows in chosen.items():
        tracked = rows[:, _LINEAGE] >= 0
        rows[tracked, _LINEAGE] = nodes.moved[rows[tracked, _LINEAGE]]
        # Queries that keep other values have a state of the same name each: the number tells their sections apart.
        sections.append((f"state/{runner.forest.state_name(state)}/{state}", _to_table(runner, state, rows)))
    for (number, component), rows in stacks.items():
        if len(rows):
            tracked = rows[:, _NODE] >= 0
            rows[tracked, _NODE] = nodes.moved[rows[tracked, _NODE]]
            sections.append((_stack_section(runner, number, component), _stack_table(runner, number, component, rows)))
    for name, identities in runner.contributors.identities.items():
        source = runner.forest.source(name)
        kept = no_numbers if source is None else nodes.rows[nodes.rows[:, 0] == -2 - source, 1]
        sections += [(f"event/{name}/{part}", _some_of(column, kept)) for part, column in identities.columns.items()]
    for (name, column_name), carrier in runner.carriers.items():
        mine = held[held >> CARRIER_SHIFT == carrier] & CARRIED_NUMBER
        sections.append((f"value/{json.dumps([name, column_name, carrier])}", _some_of(runner.carried[carrier], mine)))
    return sections


def put(runner: Runner, sections: Sections, time: int = 2**63) -> None:
    """Add the state of another runner, which processed the events that ended before `time`. What belongs to states that this one does
    not have is left out.

    ValueError or an Arrow exception if the sections do not fit together; then nothing has changed.
    """
    tables = dict(sections)
    _require(len(tables) == len(sections), "two sections have one name")
    numbers = {name: _Renumbering.of(runner, name, tables) for name in runner.streams}
    handles = _new_handles(runner, tables, numbers)
    _require("nodes" in tables, "there are no nodes")
    nodes, times = _new_nodes(runner, tables, numbers), _node_times(tables["nodes"])
    machine = runner.machines[0]
    arriving: dict[int, Int64Array] = {}
    for state in runner.forest.signatures:
        table = _section_for(runner, state, tables)
        if table is not None:
            rows = _to_rows(runner, state, table, handles)
            lineage = rows[:, _LINEAGE]
            _require(len(rows) == 0 or -1 <= lineage.min() <= lineage.max() < len(nodes), "contributors are missing")
            lineage[lineage >= 0] += machine.n_nodes
            _check_times(rows[:, 0], rows[:, 1], time)
            _check_times(rows[:, 2], rows[:, 1], time)
            arriving[state] = rows
    stacks = _arriving_stacks(runner, tables, handles, len(nodes))
    for rows in [rows for found in stacks.values() for rows in found]:
        _check_times(rows[:, _EVENT.index("start")], rows[:, _EVENT.index("end")], time)
    held = [(column, table) for section, table in sections if (column := _column_of(runner, section)) is not None]
    restored = [(column, _renumbered(column, table, numbers[column.stream])) for column, table in held]
    for column, table in restored:
        column.carried.restore(table)
    for name, renumbering in numbers.items():
        runner.n_seen[name] += len(renumbering.old)
    upkeep.append_nodes(machine, nodes, times)
    for state, rows in arriving.items():
        upkeep.replace_instances(machine, state, np.concatenate([upkeep.instances(machine, state), rows]))
    for number, found in stacks.items():
        there = [upkeep.stacked(machine, number, component) for component in range(len(found))]
        upkeep.replace_stacked(machine, number, [np.concatenate(both) for both in zip(there, found, strict=True)])


def _check_times(starts: Int64Array, ends: Int64Array, time: int) -> None:
    """What was processed is over, and did not end before it began."""
    _require(len(ends) == 0 or int(ends.max()) < time, "an event is of a time that is still to come")
    _require(bool((starts <= ends).all()), "an event ends before it starts")


def drop(runner: Runner, keys: pa.StructArray | None = None) -> None:
    """Forget the state of all keys, or of those given."""
    machine = runner.machines[0]
    for state in runner.forest.signatures:
        rows = upkeep.instances(machine, state)
        kept = rows[:0] if keys is None else rows[~_has_key(runner, state, rows, keys)]
        upkeep.replace_instances(machine, state, np.ascontiguousarray(kept))
    for number in _sequences(runner):
        components = range(runner.forest.sequence(number).n_components)
        events = [upkeep.stacked(machine, number, component) for component in components]
        left = [rows[:0] if keys is None else rows[~_stack_has_key(runner, number, i, rows, keys)] for i, rows in enumerate(events)]
        upkeep.replace_stacked(machine, number, [np.ascontiguousarray(rows) for rows in left])
    runner.look_through()


# -- instances ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """How the words of a state's instances, or of a component's events, are used: a header, slots, a flag for each slot."""

    types: list[int]
    identities: Mapping[tuple[int, int], int]  # (type, what it holds) -> slot
    n_header: int = len(_HEADER)

    @property
    def n_slots(self) -> int:
        return len(self.types)


def _layout(runner: Runner, state: int) -> _Layout:
    row = runner.forest.state.rows[state]
    types = runner.forest.slot_type.rows[row["first_slot"] :][: row["n_slots"]].tolist()
    return _Layout(types, runner.forest.identities[state])


def _slot_name(value: tuple[int, int]) -> str:
    return f"slot {value[1]} type {value[0]}"


def _flags(rows: Int64Array, layout: _Layout) -> npt.NDArray[np.uint8]:
    """(instances, slots): is the slot null? One byte each, behind the slots."""
    behind = np.ascontiguousarray(rows[:, layout.n_header + layout.n_slots :])
    return behind.view(np.uint8).reshape(len(rows), 8 * behind.shape[1])[:, : layout.n_slots]


def _slot_column(runner: Runner, rows: Int64Array, slot: int, layout: _Layout) -> pa.Array:
    valid = _flags(rows, layout)[:, slot] ^ np.uint8(1)
    return _words_column(runner, np.ascontiguousarray(rows[:, layout.n_header + slot]), valid, layout.types[slot])


def _words_column(runner: Runner, values: Int64Array, valid: ByteArray, slot_type: int) -> pa.Array:
    type_, arrow = {_DOUBLE: (Type.DOUBLE, pa.float64()), _STRING: (Type.STRING, pa.string())}.get(slot_type, (Type.INTEGER, pa.int64()))
    if type_ is Type.STRING:
        values = np.where(valid.astype(bool), values, 0)
    return from_kernel(values, None if valid.all() else valid, Attribute("", type_, arrow), runner.texts)


def _to_table(runner: Runner, state: int, rows: Int64Array) -> pa.Table:
    columns = {name: pa.array(rows[:, i]) for i, name in enumerate(_HEADER) if name != "mark"}
    return pa.table(columns | _slot_columns(runner, rows, _layout(runner, state)))


def _slot_columns(runner: Runner, rows: Int64Array, layout: _Layout) -> dict[str, pa.Array]:
    return {_slot_name(value): _slot_column(runner, rows, slot, layout) for value, slot in layout.identities.items()}


def _section_for(runner: Runner, state: int, tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """The section with this state's instances, or None.

    Several may belong to it: of those with all the values it keeps, the largest. The others are of queries that came later and
    are parts of it.
    """
    name, kept = runner.forest.state_name(state), {_slot_name(value) for value in _layout(runner, state).identities}
    mine = [table for section, table in tables.items() if section.startswith("state/") and section.split("/")[1] == name]
    return max([table for table in mine if kept <= {*table.column_names}], key=lambda table: table.num_rows, default=None)


def _to_rows(runner: Runner, state: int, table: pa.Table, handles: Callable[[Int64Array], Int64Array]) -> Int64Array:
    rows = _slots_of(runner, _layout(runner, state), table, handles)
    for i, name in enumerate(_HEADER):
        if name != "mark":
            rows[:, i] = _whole(_column(table, name))
    return rows


def _slots_of(runner: Runner, layout: _Layout, table: pa.Table, handles: Callable[[Int64Array], Int64Array]) -> Int64Array:
    """Rows of words with the slots of a table, their headers empty."""
    n, n_slots = table.num_rows, layout.n_slots
    rows = np.zeros((n, layout.n_header + n_slots + (n_slots + 7) // 8), np.int64)
    flags = np.zeros((n, 8 * ((n_slots + 7) // 8)), np.uint8)
    for value, slot in layout.identities.items():
        column = _combined(_column(table, _slot_name(value)))
        valid = validity(column)
        if valid is not None:
            flags[:, slot] = valid ^ np.uint8(1)
        values = _to_words(runner, column, layout.types[slot], valid)
        present = slice(None) if valid is None else valid.astype(bool)
        rows[present, layout.n_header + slot] = handles(values[present]) if layout.types[slot] == _OTHER else values[present]
    rows[:, layout.n_header + n_slots :] = flags.view(np.int64)
    return rows


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _to_words(runner: Runner, column: pa.Array, type_: int, valid: ByteArray | None) -> Int64Array:
    if type_ == _STRING:
        _require(pa.types.is_string(column.type), "text is not text")
        codes = [runner.intern(*string_layout(piece), validity(piece), len(piece)) for piece in text_pieces(column)]
        return np.concatenate([np.empty(0, np.int64), *codes])
    if type_ == _DOUBLE:
        _require(pa.types.is_float64(column.type), "a double is none")
        return np.ascontiguousarray(column.fill_null(0.0).to_numpy(zero_copy_only=False)).view(np.int64)
    return _whole(column.fill_null(0))


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    _require(table.column_names.count(name) == 1, f"a column `{name}` is missing, or there are two")
    return table.column(name)


def _whole(column: pa.Array | pa.ChunkedArray) -> Int64Array:
    _require(pa.types.is_int64(column.type) and column.null_count == 0, "a number is none")
    array: Int64Array = column.to_numpy()
    return array


def _has_key(runner: Runner, state: int, rows: Int64Array, keys: pa.StructArray) -> npt.NDArray[np.bool_]:
    layout = _layout(runner, state)
    slots = runner.forest.key_slots[state]
    _require(len(slots) == keys.type.num_fields, "the queries have no common key of that many components")
    columns = [_slot_column(runner, rows, slot, layout) for slot in slots]
    wanted = [_as_key(_in_slots(keys.field(i)).cast(column.type)) for i, column in enumerate(columns)]
    if len(columns) == 1:
        found: npt.NDArray[np.bool_] = pc.is_in(_as_key(columns[0]), value_set=wanted[0]).to_numpy(zero_copy_only=False)
        return found
    chosen = set(_tuples(wanted))
    return np.array([key in chosen for key in _tuples([_as_key(column) for column in columns])], bool)


def _in_slots(keys: pa.Array) -> pa.Array:
    """Keys as slots hold them: decimals and dates are integers there."""
    type_ = attribute_of("", keys.type).type
    if type_ not in (Type.DECIMAL, Type.DATE):
        return keys
    values, valid = to_kernel(canonical(keys, attribute_of("", keys.type)), type_, lambda *layout: np.empty(0, np.int64))
    return pa.array(values, mask=None if valid is None else valid == 0)


def _as_key(column: pa.Array) -> pa.Array:
    """As the kernel compares keys: the zeros of either sign are one."""
    return pc.add(column, 0.0) if pa.types.is_float64(column.type) else column


def _tuples(columns: list[pa.Array]) -> Iterator[tuple[object, ...]]:
    """Row by row. NaN equals itself, which Python's does not."""
    return zip(*[["NaN" if value != value else value for value in column.to_pylist()] for column in columns], strict=True)


def _handles(layout: _Layout, rows: Int64Array) -> list[Int64Array]:
    """The pass-through values that instances or stacked events hold."""
    flags = _flags(rows, layout)
    slots = [slot for slot, type_ in enumerate(layout.types) if type_ == _OTHER]
    return [rows[flags[:, slot] == 0, layout.n_header + slot] for slot in slots]


# -- stacked events ----------------------------------------------------------------------------------------------------------


def _sequences(runner: Runner) -> list[int]:
    return [number for number, arrays in enumerate(runner.forest.sequences) if arrays is not None]


def _stack_section(runner: Runner, number: int, component: int) -> str:
    return f"stack/{runner.forest.sequence_name(number)}/{component}"


def _stack_layout(runner: Runner, number: int, component: int) -> _Layout:
    slots = runner.forest.sequence(number).slots[component]
    return _Layout([type_ for type_, _ in slots], {(type_, identity): i for i, (type_, identity) in enumerate(slots)}, len(_EVENT))


def _stacked(runner: Runner, number: int, component: int, keys: pa.StructArray | None) -> Int64Array:
    rows: Int64Array = upkeep.stacked(runner.machines[0], number, component)
    return rows if keys is None else rows[_stack_has_key(runner, number, component, rows, keys)]


def _stack_key(runner: Runner, number: int, rows: Int64Array) -> pa.Array:
    has_key = (rows[:, _TAG] & _WITHOUT_KEY == 0).astype(np.uint8)
    return _words_column(runner, np.ascontiguousarray(rows[:, _KEY]), has_key, runner.forest.sequence(number).key_type)


def _is_keyed(runner: Runner, number: int, component: int) -> bool:
    return bool(runner.forest.sequence(number).components["is_keyed"][component])


def _stack_has_key(runner: Runner, number: int, component: int, rows: Int64Array, keys: pa.StructArray) -> npt.NDArray[np.bool_]:
    _require(_is_keyed(runner, number, component) and keys.type.num_fields == 1, "a sequence has no key of that many components")
    column = _stack_key(runner, number, rows)
    wanted = _as_key(_in_slots(keys.field(0)).cast(column.type))
    found: npt.NDArray[np.bool_] = pc.is_in(_as_key(column), value_set=wanted).to_numpy(zero_copy_only=False)
    return found


def _stack_table(runner: Runner, number: int, component: int, rows: Int64Array) -> pa.Table:
    columns = {name: pa.array(np.ascontiguousarray(rows[:, _EVENT.index(name)])) for name in _KEPT}
    if _is_keyed(runner, number, component):
        columns["key"] = _stack_key(runner, number, rows)
    return pa.table(columns | _slot_columns(runner, rows, _stack_layout(runner, number, component)))


def _arriving_stacks(
    runner: Runner, tables: Mapping[str, pa.Table], handles: Callable[[Int64Array], Int64Array], n_nodes: int
) -> dict[int, list[Int64Array]]:
    """By sequence and component the events that a snapshot has of it."""
    tracked = {number for query in runner.forest.tracking for number in runner.forest.sequences_of(query)}
    found = {}
    for number in _sequences(runner):
        first_node = 0 if number in tracked else -1
        arrays = runner.forest.sequence(number)
        all_rows = []
        for component in range(arrays.n_components):
            layout = _stack_layout(runner, number, component)
            table = tables.get(_stack_section(runner, number, component))
            if table is None:
                all_rows.append(np.empty((0, layout.n_header + layout.n_slots + (layout.n_slots + 7) // 8), np.int64))
                continue
            rows = _slots_of(runner, layout, table, handles)
            for name in _KEPT:
                rows[:, _EVENT.index(name)] = _whole(_column(table, name))
            if _is_keyed(runner, number, component):
                column = _combined(_column(table, "key"))
                has_key = rows[:, _TAG] & _WITHOUT_KEY == 0
                valid = validity(column)
                _require(bool((has_key == (True if valid is None else valid.astype(bool))).all()), "a key is null")
                _require(bool(has_key.all()) or arrays.components["is_keyed"][component] == 2, "an event has no key")
                rows[has_key, _KEY] = _to_words(runner, _as_key(column), arrays.key_type, valid)[has_key]
            node = rows[:, _NODE]
            _require(len(rows) == 0 or first_node <= node.min() <= node.max() < n_nodes, "contributors are missing")
            node[node >= 0] += runner.machines[0].n_nodes
            all_rows.append(rows)
        found[number] = all_rows
    return found


# -- contributors and values -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Nodes:
    rows: Int64Array  # (left, right, tag), parts numbered among themselves
    moved: Int64Array  # by old number: the new one


def _reachable(nodes: Int64Array, lineage: Int64Array) -> _Nodes:
    """The nodes that instances lead to."""
    marked = np.zeros(len(nodes), bool)
    front = np.unique(lineage[lineage >= 0])
    while len(front):
        marked[front] = True
        inner = nodes[front][nodes[front][:, 0] > -2]
        parts = np.concatenate([inner[:, 1], inner[inner[:, 0] >= 0, 0]])
        front = np.unique(parts[~marked[parts]])
    moved = np.where(marked, np.cumsum(marked) - 1, -1)
    kept = nodes[marked]
    made = kept[:, 0] > -2
    kept[made, 1] = moved[kept[made, 1]]
    both = kept[:, 0] >= 0
    kept[both, 0] = moved[kept[both, 0]]
    return _Nodes(kept, moved)


def _nodes_table(runner: Runner, nodes: Int64Array, times: Int64Array) -> pa.Table:
    """Leaves name their stream; numbers of streams are the runner's own."""
    names = [runner.forest.names[-2 - left] if left <= -2 else None for left in nodes[:, 0].tolist()]
    left, right, tag = (pa.array(np.ascontiguousarray(nodes[:, i])) for i in range(3))
    start, end = (pa.array(np.ascontiguousarray(times[:, i])) for i in range(2))
    return pa.table({"left": left, "right": right, "tag": tag, "stream": pa.array(names, pa.string()), "start": start, "end": end})


def _node_times(table: pa.Table) -> Int64Array:
    return np.ascontiguousarray(np.column_stack([_whole(_column(table, name)) for name in ("start", "end")]))


def _check_identities(runner: Runner, stream: str, tables: Mapping[str, pa.Table], events: Int64Array) -> None:
    """Everything that is known of an event must be there for all of these."""
    for part in runner.contributors.identities[stream].columns:
        table = tables.get(f"event/{stream}/{part}")
        _require(table is not None and bool(np.isin(events, _whole(_column(table, "number"))).all()), "an event is missing")


def _new_nodes(runner: Runner, tables: Mapping[str, pa.Table], numbers: Mapping[str, _Renumbering]) -> Int64Array:
    """Nodes with this runner's numbers of streams and events."""
    table = tables["nodes"]
    nodes = np.column_stack([_whole(_column(table, name)) for name in ("left", "right", "tag")])
    _require(pa.types.is_string(_column(table, "stream").type), "the name of a stream is not text")
    names = np.array(table.column("stream").to_pylist(), dtype=object)
    leaves = nodes[:, 0] <= -2
    _require(len(nodes) == 0 or nodes[~leaves, 0].min(initial=0) >= -1, "a node is none")
    for name in {*names[leaves]}:
        chosen = leaves & (names == name)
        source = runner.forest.source(name) if name in numbers else None
        if source is not None:
            _check_identities(runner, name, tables, nodes[chosen, 1])
        # Events of a stream that nobody reads here are behind no instance that is taken over.
        nodes[chosen, 0] = -2 - (0 if source is None else source)
        nodes[chosen, 1] = 0 if source is None else numbers[name].new(nodes[chosen, 1])
    return np.ascontiguousarray(nodes)


@dataclass(frozen=True)
class _Renumbering:
    """Events of a stream get the next numbers it has here, in the same order."""

    old: Int64Array  # ascending
    first: int

    @staticmethod
    def of(runner: Runner, name: str, tables: Mapping[str, pa.Table]) -> _Renumbering:
        parts = [tables[section] for section in tables if section.startswith("event/") and section.split("/", 2)[1] == name]
        parts += [tables[section] for section in tables if section.startswith("value/") and _value_of(section)[0] == name]
        numbers = [_whole(_column(part, "number")) for part in parts]
        return _Renumbering(np.unique(np.concatenate([np.empty(0, np.int64), *numbers])), runner.n_seen[name])

    def new(self, numbers: Int64Array) -> Int64Array:
        places = np.searchsorted(self.old, numbers)
        _require(bool((places < len(self.old)).all()) and bool((self.old[places] == numbers).all()), "an event is missing")
        return places + self.first


def _new_handles(runner: Runner, tables: Mapping[str, pa.Table], numbers: Mapping[str, _Renumbering]) -> Callable[[Int64Array], Int64Array]:
    """From handles of pass-through values to this runner's."""
    carriers = {}
    for section in tables:
        if section.startswith("value/"):
            name, column, carrier = _value_of(section)
            if (name, column) in runner.carriers:
                held = _whole(_column(tables[section], "number"))
                carriers[carrier] = (runner.carriers[name, column], numbers[name], held)

    def new(handles: Int64Array) -> Int64Array:
        found = np.zeros(len(handles), np.int64)
        for carrier in np.unique(handles >> CARRIER_SHIFT).tolist():
            _require(carrier in carriers, "a value is missing")
            chosen = handles >> CARRIER_SHIFT == carrier
            mine, renumbering, held = carriers[carrier]
            _require(bool(np.isin(handles[chosen] & CARRIED_NUMBER, held).all()), "a value is missing")
            found[chosen] = renumbering.new(handles[chosen] & CARRIED_NUMBER) | (mine << CARRIER_SHIFT)
        return found

    return new


@dataclass(frozen=True)
class _Column:
    stream: str
    carried: CarriedColumn
    is_known: bool = False  # is there a value for every event?


def _value_of(section: str) -> tuple[str, str, int]:
    """What the name of a section of values says: the stream, the column, and the number of the carrier."""
    try:
        said = json.loads(section[6:])
    except RecursionError:
        said = None
    _require(isinstance(said, list) and [type(part) for part in said] == [str, str, int], "values have no column")
    return said[0], said[1], said[2]


def _column_of(runner: Runner, section: str) -> _Column | None:
    """Where a section of values belongs; None if nobody wants them here."""
    if section.startswith("event/"):
        _, name, *part = section.split("/", 2)
        if name in runner.streams:
            columns = runner.contributors.identities[name].columns
            _require(len(part) == 1 and part[0] in columns, "what is known of events has no name")
            return _Column(name, columns[part[0]], is_known=part[0] != "text")
    if section.startswith("value/"):
        name, column, _ = _value_of(section)
        if (name, column) in runner.carriers:
            return _Column(name, runner.carried[runner.carriers[name, column]])
    return None


def _some_of(column: CarriedColumn, numbers: Int64Array) -> pa.Table:
    kept = np.unique(numbers)
    return pa.table({"number": pa.array(kept), "value": column.take(kept)})


def _renumbered(column: _Column, table: pa.Table, numbers: _Renumbering) -> pa.Table:
    new, values = numbers.new(_whole(_column(table, "number"))), _column(table, "value")
    _require(bool((np.diff(new) > 0).all()), "events are not in order")
    _require(not column.is_known or values.null_count == 0, "an event has no id")
    return pa.table({"number": pa.array(new), "value": values})


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)
