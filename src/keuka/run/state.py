"""The state of a shard as a value, and the part of it that a runner holds: taken, put into another runner, dropped, of all keys or some.

`kernel/held.py` gives what the operators hold as columns; here texts, pass-through values and contributors come with it. Streams
are known by name, so that state fits into any runner whose queries have the same states, whatever else it runs. Numbers of events
and nodes are given anew when state is put somewhere. `live_state.py` adds the rows that wait, `state_bytes.py` makes bytes of it all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from keuka.events.carried import CarriedColumn
from keuka.events.columns import Int64Array, canonical, from_kernel, string_layout, text_pieces, to_kernel, validity
from keuka.events.frontiers import BEGINNING, INFINITE
from keuka.kernel import lineage
from keuka.kernel.held import Held, Keys, Part, Store, Values, stores
from keuka.run.held_rows import CARRIED_NUMBER, CARRIER_SHIFT
from keuka.run.runner import Runner
from keuka.schema import Attribute, Header, Type, attribute_of

_DOUBLE, _STRING, _OTHER = 2, 3, 5  # types of values in the kernel's tables
_NO_NUMBERS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class StreamState:
    """A stream as it was declared, how far it has come, and its rows that wait, in order of arrival."""

    name: str
    header: Header
    lateness: int  # ticks
    unit: str | None
    frontier: int
    n_rows: int
    n_late: int
    wanted: tuple[str, ...]  # the columns that are in their canonical types in `held`
    schema: pa.Schema
    held: pa.Table
    held_rows: pa.Table  # one column: the number of each waiting row
    late: pa.Table


@dataclass(frozen=True, eq=False)
class ShardState:
    """What has to be kept of a shard, so that its rules can go on from here, in this process or another. It does not say which rules."""

    kernel: Mapping[str, pa.Table] = field(default_factory=dict)  # what the runner holds, by name
    time: int = INFINITE  # every event with a smaller end was processed
    promised: int = BEGINNING  # so far streams have come that are not known yet
    streams: tuple[StreamState, ...] = ()


def take(runner: Runner, keys: pa.StructArray | None = None) -> ShardState:
    """What a runner holds of all keys, or of those given: one field per component, in order. Nothing changes."""
    if keys is None:
        runner.rows.look_through()
    machine, wanted = runner.machines[0], None if keys is None else _as_words(runner, keys)
    held = [(part, each) for store in stores(runner.forest) for part, each in zip(store.parts, store.take(machine, wanted), strict=True)]
    held = [(part, each) for part, each in held if len(each)]
    roots = np.concatenate([_NO_NUMBERS, *[each.numbers[part.node] for part, each in held]])
    numbers, nodes, times = lineage.reachable_nodes(machine, roots)
    leaves = nodes[nodes[:, 0] <= -2, :2]
    tables = {"nodes": _nodes_table(runner, numbers, nodes, times)}
    tables |= {f"{part.name}{part.number}": _to_table(runner, part, each, numbers) for part, each in held}
    for name, identities in runner.rows.contributors.identities.items():
        source = runner.forest.source(name)
        kept = _NO_NUMBERS if source is None else leaves[leaves[:, 0] == -2 - source, 1]
        tables |= {f"event/{name}/{part}": _some_of(column, kept) for part, column in identities.columns.items()}
    handles = [values.words[~values.nulls] for _, each in held for values in each.values.values() if values.type == _OTHER]
    carried = np.concatenate([_NO_NUMBERS, *handles])
    for (name, column_name), carrier in runner.rows.carriers.items():
        mine = carried[carried >> CARRIER_SHIFT == carrier] & CARRIED_NUMBER
        tables[f"value/{json.dumps([name, column_name, carrier])}"] = _some_of(runner.rows.columns[carrier], mine)
    return ShardState(tables)


def put(runner: Runner, state: ShardState) -> None:
    """Add what another runner held, which processed the events that ended before the time of the state. What belongs to states that
    this one does not have is left out.

    ValueError or an Arrow exception if the tables do not fit together; then nothing has changed.
    """
    tables = state.kernel
    numbers = {name: _Renumbering.of(runner, name, tables) for name in runner.streams}
    handles = _new_handles(runner, tables, numbers)
    _require("nodes" in tables, "there are no nodes")
    nodes, times = _new_nodes(runner, tables, numbers), _node_times(tables["nodes"])
    machine = runner.machines[0]
    arriving: list[tuple[Store, list[Held | None]]] = []
    for store in stores(runner.forest):
        found = [_from_tables(runner, part, tables, handles) for part in store.parts]
        store.check(found, state.time, len(nodes))
        for part, each in zip(store.parts, found, strict=True):
            if each is not None:  # from the numbers of the snapshot to those that its nodes will have here
                roots = each.numbers[part.node]
                roots[roots >= 0] += machine.n_nodes
        arriving.append((store, found))
    held = [(column, table) for section, table in tables.items() if (column := _column_of(runner, section)) is not None]
    restored = [(column, _renumbered(column, table, numbers[column.stream])) for column, table in held]
    for column, table in restored:
        column.carried.restore(table)
    for name, renumbering in numbers.items():
        runner.rows.n_seen[name] += len(renumbering.old)
    lineage.append_nodes(machine, nodes, times)
    for store, found in arriving:
        store.put(machine, found)


def drop(runner: Runner, keys: pa.StructArray | None = None) -> None:
    """Forget the state of all keys, or of those given. What only that state referred to is forgotten with the next sweep."""
    wanted = None if keys is None else _as_words(runner, keys)
    for store in stores(runner.forest):
        store.drop(runner.machines[0], wanted)
    if keys is None:
        runner.rows.look_through()


def _as_words(runner: Runner, keys: pa.StructArray) -> Keys:
    """Keys as the kernel has them. A text that it does not know becomes known, and is forgotten with the next sweep."""
    columns = []
    for i in range(keys.type.num_fields):
        attribute = attribute_of("", keys.field(i).type)
        values, valid = to_kernel(canonical(keys.field(i), attribute), attribute.type, runner.texts.intern)
        columns.append((values, np.zeros(len(keys), bool) if valid is None else valid == 0))
    return Keys(np.column_stack([values for values, _ in columns]), np.column_stack([nulls for _, nulls in columns]))


# -- columns of the kernel as columns of Arrow ---------------------------------------------------------------------------------


def _to_table(runner: Runner, part: Part, held: Held, nodes: Int64Array) -> pa.Table:
    columns = {name: pa.array(words) for name, words in held.numbers.items()}
    roots = held.numbers[part.node]
    columns[part.node] = pa.array(np.where(roots >= 0, np.searchsorted(nodes, roots), -1))
    return pa.table(columns | {name: _to_column(runner, values) for name, values in held.values.items()})


def _to_column(runner: Runner, values: Values) -> pa.Array:
    types = {_DOUBLE: (Type.DOUBLE, pa.float64()), _STRING: (Type.STRING, pa.string())}
    type_, arrow = types.get(values.type, (Type.INTEGER, pa.int64()))
    words = np.where(values.nulls, 0, values.words) if type_ is Type.STRING else np.ascontiguousarray(values.words)
    valid = None if not values.nulls.any() else (~values.nulls).astype(np.uint8)
    return from_kernel(words, valid, Attribute("", type_, arrow), runner.texts.copy)


def _from_tables(runner: Runner, part: Part, tables: Mapping[str, pa.Table], handles: Callable[[Int64Array], Int64Array]) -> Held | None:
    """What the section of a part holds, or None.

    Several may belong to it: of those with all the values it keeps, the largest. The others are of queries that came later and
    are parts of it.
    """
    mine = [table for section, table in tables.items() if section == part.name or section.startswith(f"{part.name}/")]
    mine = mine if not part.number else [table for table in mine if part.values.keys() <= {*table.column_names}]
    table = max(mine, key=lambda table: table.num_rows, default=None)
    if table is None:
        return None
    numbers = {name: _whole(_column(table, name)).copy() for name in part.numbers}
    return Held(numbers, {name: _to_values(runner, _column(table, name), type_, handles) for name, type_ in part.values.items()})


def _to_values(runner: Runner, chunked: pa.ChunkedArray, type_: int, handles: Callable[[Int64Array], Int64Array]) -> Values:
    combined = chunked.combine_chunks()
    column = pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
    valid = validity(column)
    nulls = np.zeros(len(column), bool) if valid is None else valid == 0
    words = _to_words(runner, column, type_)
    if type_ == _OTHER:
        words = words.copy()
        words[~nulls] = handles(words[~nulls])
    return Values(type_, words, nulls)


def _to_words(runner: Runner, column: pa.Array, type_: int) -> Int64Array:
    if type_ == _STRING:
        _require(pa.types.is_string(column.type), "text is not text")
        codes = [runner.texts.intern(*string_layout(piece), validity(piece), len(piece)) for piece in text_pieces(column)]
        return np.concatenate([_NO_NUMBERS, *codes])
    if type_ == _DOUBLE:
        _require(pa.types.is_float64(column.type), "expected a double column")
        return np.ascontiguousarray(column.fill_null(0.0).to_numpy(zero_copy_only=False)).view(np.int64)
    return _whole(column.fill_null(0))


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    _require(table.column_names.count(name) == 1, f"a column `{name}` is missing, or there are two")
    return table.column(name)


def _whole(column: pa.Array | pa.ChunkedArray) -> Int64Array:
    _require(pa.types.is_int64(column.type) and column.null_count == 0, "a number is none")
    array: Int64Array = column.to_numpy()
    return array


# -- contributors and values -------------------------------------------------------------------------------------------------


def _nodes_table(runner: Runner, numbers: Int64Array, nodes: Int64Array, times: Int64Array) -> pa.Table:
    """Nodes numbered among themselves. Leaves name their stream; numbers of streams are the runner's own."""
    made, both = nodes[:, 0] > -2, nodes[:, 0] >= 0
    nodes[made, 1] = np.searchsorted(numbers, nodes[made, 1])
    nodes[both, 0] = np.searchsorted(numbers, nodes[both, 0])
    names = [runner.forest.names[-2 - left] if left <= -2 else None for left in nodes[:, 0].tolist()]
    left, right, tag = (pa.array(np.ascontiguousarray(nodes[:, i])) for i in range(3))
    start, end = (pa.array(np.ascontiguousarray(times[:, i])) for i in range(2))
    return pa.table({"left": left, "right": right, "tag": tag, "stream": pa.array(names, pa.string()), "start": start, "end": end})


def _node_times(table: pa.Table) -> Int64Array:
    return np.ascontiguousarray(np.column_stack([_whole(_column(table, name)) for name in ("start", "end")]))


def _check_identities(runner: Runner, stream: str, tables: Mapping[str, pa.Table], events: Int64Array) -> None:
    """Everything that is known of an event must be there for all of these."""
    for part in runner.rows.contributors.identities[stream].columns:
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
        return _Renumbering(np.unique(np.concatenate([np.empty(0, np.int64), *numbers])), runner.rows.n_seen[name])

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
            if (name, column) in runner.rows.carriers:
                held = _whole(_column(tables[section], "number"))
                carriers[carrier] = (runner.rows.carriers[name, column], numbers[name], held)

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
            columns = runner.rows.contributors.identities[name].columns
            _require(len(part) == 1 and part[0] in columns, "what is known of events has no name")
            return _Column(name, columns[part[0]], is_known=part[0] != "text")
    if section.startswith("value/"):
        name, column, _ = _value_of(section)
        if (name, column) in runner.rows.carriers:
            return _Column(name, runner.rows.columns[runner.rows.carriers[name, column]])
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
