"""The check that makes running tables safe.

Everything in tables is an index into another array, so one wrong number could read foreign memory. `check` tests every one of them
once, when tables come from outside, and the machine never tests again. Kept free of the rest of Keuka for executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from keuka.kernel import layout
from keuka.kernel.bytecode import Op
from keuka.kernel.functions import Function
from keuka.kernel.layout import ARRAYS, NARROW, VERSION, Arrays

# Kinds of values: codes of the string table may go only where text is expected, or the machine would read foreign memory, and row
# handles may only be passed on.
_PLAIN, _TEXT, _NULL, _HANDLE = 0, 1, 2, 3
Kinds = Sequence[int | None]  # None: must not be read
_TEXTS, _HANDLES, N_TYPES = 3, 5, 8  # values of column_type and of the types of slots
_KINDS = {_TEXTS: _TEXT, _HANDLES: _HANDLE}  # the others are plain
MOST_DIGITS = 99  # that a number is scaled by

OF_SETS = (Op.IN_SET, Op.IN_SET_D, Op.LOCAL, Op.INSTANT)  # their b is a set
# op -> kinds of its register arguments and of its result; None: any kind, "same": one kind for these, which the result has too
_LOADS = (Op.LOAD_EVENT, Op.LOAD_SLOT, Op.LOAD_CONST, Op.LOAD_NULL, Op.LOAD_DUR)
_SIGNATURES: dict[int, Any] = {op: ((_PLAIN, _PLAIN), _PLAIN) for op in Op if op < Op.JUMP_UNLESS and op not in _LOADS}
_SIGNATURES |= dict.fromkeys((Op.TO_DOUBLE, Op.NEG_I, Op.ABS_I, Op.NEG_D, Op.ABS_D, Op.FLOOR_D, Op.CEIL_D, Op.NOT), ((_PLAIN,), _PLAIN))
_SIGNATURES |= dict.fromkeys((Op.SCALE_UP, Op.UNSCALE), ((_PLAIN,), _PLAIN))
_SIGNATURES |= dict.fromkeys((Op.LT_S, Op.LE_S, Op.LIKE), ((_TEXT, _TEXT), _PLAIN))
_SIGNATURES |= dict.fromkeys((Op.LEAST_S, Op.GREATEST_S, Op.CONCAT), ((_TEXT, _TEXT), _TEXT))
_SIGNATURES |= {
    Op.LOWER: ((_TEXT,), _TEXT),
    Op.UPPER: ((_TEXT,), _TEXT),
    Op.LENGTH: ((_TEXT,), _PLAIN),
    Op.SUBSTRING: ((_TEXT, _PLAIN, _PLAIN), _TEXT),
    Op.NULL_TEST: ((None,), _PLAIN),
    Op.IN_SET: ((None,), _PLAIN),
    Op.IN_SET_D: ((_PLAIN,), _PLAIN),
    Op.LOCAL: ((_PLAIN,), _PLAIN),
    Op.INSTANT: ((_PLAIN,), _PLAIN),
    Op.EQ_I: ((None, None), _PLAIN),
    Op.MOVE: (("same",), "same"),
    Op.COALESCE: (("same", "same"), "same"),
    Op.SELECT: ((_PLAIN, "same", "same"), "same"),
}
_OF_TEXT = (Function.PARSE_INTEGER, Function.PARSE_DOUBLE, Function.PARSE_BOOLEAN, Function.PARSE_TIME, Function.PARSE_DATE)
_FUNCTIONS: dict[int, Any] = dict.fromkeys(Function, ((_PLAIN,), _PLAIN))
_OF_TWO = [Function.TRUNCATE_TIME, Function.TRUNCATE_MONTHS, Function.MOVE_TIME, Function.POW]
_OF_TWO += [Function.RESCALE, Function.WITHOUT_FRACTION, Function.DOUBLE_TO_DECIMAL, Function.WITHIN]
_FUNCTIONS |= dict.fromkeys(_OF_TWO, ((_PLAIN, _PLAIN), _PLAIN))
_FUNCTIONS |= dict.fromkeys(_OF_TEXT, ((_TEXT,), _PLAIN))
_WRITE = (Function.WRITE_INTEGER, Function.WRITE_BOOLEAN, Function.WRITE_TIME, Function.WRITE_DATE)
_FUNCTIONS |= dict.fromkeys(_WRITE, ((_PLAIN,), _TEXT))
_FUNCTIONS |= {Function.WRITE_DECIMAL: ((_PLAIN, _PLAIN), _TEXT), Function.PARSE_DECIMAL: ((_TEXT, _PLAIN), _PLAIN)}
_FUNCTIONS |= {Function.TRIM: ((_TEXT,), _TEXT), Function.REGEXP_LIKE: ((_TEXT, _TEXT), _PLAIN)}


class Malformed(Exception):
    """The tables are not ones that the compiler writes."""


def _require(condition: object, what: str) -> None:
    if not condition:
        raise Malformed(what)


def _in_range(values: Any, low: int, high: int, what: str) -> None:
    values = np.asarray(values)
    _require(values.size == 0 or (values.min() >= low and values.max() < high), f"{what} is out of range")


def _slices(first: Any, n: Any, size: int, what: str) -> None:
    _in_range(first, 0, size + 1, what)
    _in_range(n, 0, size + 1, what)
    _require(len(first) == 0 or int((first + n).max()) <= size, f"{what} is out of range")


def check(arrays: Arrays, texts: Sequence[str]) -> None:
    """Raise Malformed unless every index of every array is inside what it points into."""
    _require(set(arrays) == set(ARRAYS), "an array is missing or unknown")
    for name, row in ARRAYS.items():
        array = arrays[name]
        _require(array.dtype == (np.int32 if name in NARROW else np.int64), f"`{name}` has the wrong type")
        _require(array.ndim == (1 if row is None else 2), f"`{name}` has the wrong shape")
        _require(row is None or array.shape[1] == len(row._fields), f"`{name}` has the wrong shape")
    _Checks(arrays, texts).run()


class _Checks:
    """`named`: arrays by the names of their fields; `rows`: the same as values."""

    def __init__(self, arrays: Arrays, texts: Sequence[str]) -> None:
        self.named = {name: layout.fields(name, array) for name, array in arrays.items()}
        self.rows = {name: layout.rows(name, array) for name, array in arrays.items()}
        self.size = {name: len(array) for name, array in arrays.items()}
        self.texts = texts
        _require(self.size["settings"] == 3 and self.rows["settings"][0] == VERSION, "the version is not ours")
        self.n_sources: int = self.rows["settings"][1]

    def run(self) -> None:
        named, size = self.named, self.size
        _require(0 <= self.n_sources and self.n_sources + size["operator"] == size["stream"], "streams and operators do not fit")
        _slices(named["stream"]["first_column"], named["stream"]["n_columns"], size["column_type"], "a column")
        _in_range(named["settings"][2:], 0, 4, "a setting")
        _in_range(named["start"]["reading"], 0, 4, "a way of reading")
        _in_range(named["state"]["reading"], 0, 4, "a way of reading")
        _in_range(named["column_type"], 0, N_TYPES, "a column type")
        _in_range(named["slot"]["type"], 0, N_TYPES, "a slot type")
        for part in ("port", "state", "start"):
            _slices(named["operator"][f"first_{part}"], named["operator"][f"n_{part}s"], size[part], f"a {part}")
        for part in ("slot", "key"):
            _slices(named["state"][f"first_{part}"], named["state"][f"n_{part}s"], size[part], f"a {part}")
        _slices(named["program"]["first_instruction"], named["program"]["n_instructions"], size["code"], "an instruction")
        _slices(named["set"]["first"], named["set"]["n"], size["constant"], "a set")
        # Every register is written by an instruction; without a bound a few bytes could ask for gigabytes of registers.
        n_registers = named["program"]["n_registers"]
        _require(bool((n_registers <= named["program"]["n_instructions"]).all()), "a register count is out of range")
        _in_range(n_registers, 0, 1 << 16, "a register count")
        _require(size["constant_text"] == size["constant"], "constants and their texts do not fit")
        _in_range(named["constant_text"], -1, len(self.texts), "a text")
        for row in self.rows["set"]:
            are_texts = named["constant_text"][row.first : row.first + row.n] >= 0
            _require(len(set(are_texts.tolist())) <= 1, "a set has texts and numbers")
        _in_range(named["edge"]["program"], 0, size["program"], "a program")
        _in_range(named["state"]["program"], 0, size["program"], "a program")
        _in_range(named["start"]["edge"], 0, size["edge"], "an edge")
        _in_range(named["state"]["edge"], 0, size["edge"], "an edge")
        self.columns = self._columns()
        for which in range(size["operator"]):
            self._operator(which)
        self._sequences()

    def _columns(self) -> list[dict[int, int | None]]:
        """By stream: number of a column -> its kind. Streams share no column, and derived columns are made of their stream's own."""
        columns: list[dict[int, int | None]] = []
        end = 0
        for first, n in self.rows["stream"]:
            _require(first == end, "the columns of streams do not follow each other")
            columns.append(dict(zip(range(first, first + n), self._column_kinds(first, n), strict=True)))
            end = first + n
        _in_range(self.named["derived"]["stream"], 0, self.size["stream"], "a stream")
        _in_range(self.named["derived"]["program"], 0, self.size["program"], "a program")
        own = [dict(of_stream) for of_stream in columns]
        for number, derived in enumerate(self.rows["derived"], self.size["column_type"]):
            columns[derived.stream][number] = self._value(derived.program, own[derived.stream], None)
        return columns

    def _column_kinds(self, first: int, n: int) -> list[int]:
        return [_KINDS.get(t, _PLAIN) for t in self.rows["column_type"][first : first + n]]

    def _slot_kinds(self, first: int, n: int) -> list[int]:
        return [_KINDS.get(slot.type, _PLAIN) for slot in self.rows["slot"][first : first + n]]

    def _output_kinds(self, operator: int) -> list[int]:
        return self._column_kinds(*self.rows["stream"][self.n_sources + operator])

    def _ports(self, operator: layout.Operator) -> list[int]:
        return list(self.rows["port"][operator.first_port : operator.first_port + operator.n_ports])

    def _gate(self, gate: int, stream: int) -> None:
        _require(gate == -1 or (gate >= self.size["column_type"] and gate in self.columns[stream]), "a gate is out of range")

    # -- automata ----------------------------------------------------------------------------------------------------------

    def _operator(self, which: int) -> None:
        operator: layout.Operator = self.rows["operator"][which]
        output, ports = self._output_kinds(which), self._ports(operator)
        # Only streams that are complete when the operator runs.
        is_ready = all(0 <= stream < self.n_sources + which for stream in ports)
        _require(operator.n_ports > 0 and is_ready, "a port reads a stream that is not ready")
        _require(len(set(ports)) == operator.n_ports, "a port is there twice")
        states = range(operator.first_state, operator.first_state + operator.n_states)

        def check_edge(edge: int, stream: int, slots: Kinds | None, last_target: int) -> None:
            program, target, _, _ = self.rows["edge"][edge]
            # Edges lead to smaller numbers: no circles.
            _require(target == -1 or operator.first_state <= target < last_target, "an edge leads nowhere")
            self._program(program, self.columns[stream], slots, (target, output, False))

        for start in self.rows["start"][operator.first_start : operator.first_start + operator.n_starts]:
            _require(start.stream in ports, "a start reads a stream of another operator")
            self._gate(start.gate, start.stream)
            check_edge(start.edge, start.stream, None, states.stop)
        for number in states:
            state: layout.State = self.rows["state"][number]
            _require(state.stream in ports, "a state reads a stream of another operator")
            self._gate(state.gate, state.stream)
            slots = self._state_slots(state)
            self._program(state.program, self.columns[state.stream], slots, (number, slots, True))
            check_edge(state.edge, state.stream, slots, number)

    def _state_slots(self, state: layout.State) -> list[int]:
        columns = self.columns[state.stream]
        keys: list[layout.Key] = self.rows["key"][state.first_key : state.first_key + state.n_keys]
        _require(all(key.column in columns for key in keys), "a key's column is out of range")
        _in_range([key.slot for key in keys], 0, state.n_slots, "a key's slot")
        _in_range([key.component for key in keys], -1, max(1, state.n_keys), "a component of the key")
        self._distinct_slots(state.first_slot, state.n_slots)
        slots = self._slot_kinds(state.first_slot, state.n_slots)
        # Row handles are no keys: they change when a state moves.
        kinds = [(columns[key.column], slots[key.slot]) for key in keys]
        _require(all(column in (slot, _NULL) and slot != _HANDLE for column, slot in kinds), "a key is not what it is compared with")
        return slots

    def _distinct_slots(self, first: int, n: int) -> None:
        _require(len({slot.identity for slot in self.rows["slot"][first : first + n]}) == n, "two slots hold the same")

    # -- sequences ---------------------------------------------------------------------------------------------------------

    def _sequences(self) -> None:
        """Everything that the search of matches takes for granted (kernel/sequences.py)."""
        sequence, component, level, size = (self.named["sequence"], self.named["component"], self.named["level"], self.size)
        _in_range(sequence["operator"], 0, size["operator"], "an operator")
        _require(len(set(sequence["operator"].tolist())) == size["sequence"], "an operator has two sequences")
        for part in ("component", "level", "item"):
            _slices(sequence[f"first_{part}"], sequence[f"n_{part}s"], size[part], f"a {part}")
        for part in ("slot", "feed"):
            _slices(component[f"first_{part}"], component[f"n_{part}s"], size[part], f"a {part}")
        for part in ("test", "absence"):
            _slices(level[f"first_{part}"], level[f"n_{part}s"], size[part], f"a {part}")
        _in_range(sequence["within"], 1, 1 << 63, "a window")
        _in_range(sequence["settings"], 0, 32, "a setting")
        _in_range(sequence["n_alternatives"], 1, 65, "a number of alternatives")
        _in_range(sequence["key_type"], -1, N_TYPES, "the type of a key")
        _require(not (sequence["key_type"] == _HANDLES).any(), "the type of a key is out of range")
        _in_range(sequence["program"], -1, size["program"], "a program")
        _in_range(component["is_negated"], 0, 2, "a flag")
        _in_range(component["first_only"], 0, 2, "a flag")
        _in_range(component["is_keyed"], 0, 3, "a flag")
        _in_range(self.named["feed"]["reading"], 0, 4, "a way of reading")
        _in_range(self.named["absence"]["scope"], 0, 3, "a scope")
        for row in self.rows["sequence"]:
            self._sequence(row)

    def _sequence(self, row: layout.Sequence) -> None:
        operator: layout.Operator = self.rows["operator"][row.operator]
        ports = self._ports(operator)
        components: list[layout.Component] = self.rows["component"][row.first_component : row.first_component + row.n_components]
        positive = [i for i, component in enumerate(components) if not component.is_negated]
        ordered, waits = bool(row.settings & 1), bool(row.settings & 16)
        _require(operator.n_states + operator.n_starts == 0, "a sequence has states")
        _require(len(positive) > 0 and row.n_components <= 64, "a sequence has no component that occurs, or too many")
        _require(ordered or (len(positive) == row.n_components and not waits), "a sequence in any order has an absence")
        _require(waits == bool(components[-1].is_negated) and (not waits or row.within < (1 << 63) - 1), "a sequence waits for ever")
        _require(not any(a.is_negated and b.is_negated for a, b in pairwise(components)), "two absences follow each other")
        _require((row.key_type >= 0) == any(component.is_keyed for component in components), "the key of a sequence has no type")
        begins = set(positive) if not ordered else {positive[0] if waits else positive[-1]}
        _require(row.key_type < 0 or all(components[i].is_keyed for i in begins), "a search does not know its stacks")
        slots: list[int] = []
        owners: list[int] = []
        for i, component in enumerate(components):
            before = i - 1 if i > 0 and components[i - 1].is_negated else -1
            _require(component.negated_before == before, "an absence is out of place")
            kinds = self._slot_kinds(component.first_slot, component.n_slots)
            self._distinct_slots(component.first_slot, component.n_slots)
            for feed in self.rows["feed"][component.first_feed : component.first_feed + component.n_feeds]:
                self._feed(feed, ports, kinds, _KINDS.get(row.key_type, _PLAIN) if component.is_keyed else None)
            slots += kinds
            owners += [i] * component.n_slots
        _require(sum([component.n_feeds for component in components]) <= 64, "a sequence has too many feeds")
        n_searches = 1 if ordered else len(positive)
        _require(row.n_levels == n_searches * len(positive), "a search does not bind every component")
        for search in range(n_searches):
            first = row.first_level + search * len(positive)
            levels: list[layout.Level] = self.rows["level"][first : first + len(positive)]
            wanted = positive[::-1] if ordered else [positive[search], *[i for i in positive if i != positive[search]]]
            _require([level.component for level in levels] == wanted, "a search binds its components in another order")
            bound: set[int] = set()
            for level in levels:
                bound.add(level.component)
                self._level(level, components, positive, row.n_alternatives, bound, slots, owners)
        self._matches(row, [kind if owner in positive else None for kind, owner in zip(slots, owners, strict=True)])

    def _matches(self, row: layout.Sequence, occurring: Kinds) -> None:
        output = self._output_kinds(row.operator)
        items = self.rows["item"][row.first_item : row.first_item + row.n_items]
        kinds = occurring if row.program < 0 else self._program(row.program, None, occurring, None)
        _require(all(0 <= item < len(kinds) and kinds[item] is not None for item in items), "an item is not there")
        _require(row.n_items == len(output) if row.program < 0 else row.n_items >= len(output), "a match has the wrong number of columns")
        for kind, item in zip(output, items, strict=False):
            _require(kinds[item] in (kind, _NULL), "a match binds text to a number or a number to text")

    def _feed(self, feed: layout.Feed, ports: list[int], kinds: list[int], key_kind: int | None) -> None:
        _require(feed.stream in ports, "a component reads a stream of another operator")
        columns = self.columns[feed.stream]
        self._gate(feed.gate, feed.stream)
        _require((feed.key >= 0) == (key_kind is not None), "a component has no key, or one too many")
        _require(feed.key < 0 or columns.get(feed.key) in (key_kind, _NULL), "a key is not what it is compared with")
        last = feed.first_column + len(kinds)
        _require(0 <= feed.first_column and last <= self.size["feed_column"], "a feed is out of range")
        _require(-(1 << 31) <= feed.tag < 1 << 31, "a tag is out of range")
        for kind, column in zip(kinds, self.rows["feed_column"][feed.first_column : last], strict=True):
            _require(columns.get(column) in (kind, _NULL), "a slot gets a value of another kind")

    def _level(
        self,
        level: layout.Level,
        components: list[layout.Component],
        positive: list[int],
        n_alternatives: int,
        bound: set[int],
        slots: list[int],
        owners: list[int],
    ) -> None:
        """A test may read the slots of what is bound already, an absence those of its own component, too."""

        def is_condition(program: int, more: Iterable[int]) -> None:
            readable = [kind if owner in bound or owner in more else None for kind, owner in zip(slots, owners, strict=True)]
            _require(self._value(program, None, readable) in (_PLAIN, _NULL), "a condition is text")

        for test in self.rows["test"][level.first_test : level.first_test + level.n_tests]:
            _require(0 <= test.program < self.size["program"] and -1 <= test.alternative < n_alternatives, "a test is out of range")
            is_condition(test.program, ())
        for absence in self.rows["absence"][level.first_absence : level.first_absence + level.n_absences]:
            component, scope = absence.component, absence.scope
            _require(0 <= component < len(components) and components[component].is_negated == 1, "an absence of what occurs")
            in_range = -1 <= absence.alternative < n_alternatives and -1 <= absence.program < self.size["program"]
            _require(in_range, "an absence is out of range")
            _require(scope == (1 if component < positive[0] else 2 if component > positive[-1] else 0), "an absence has another scope")
            near = {positive[0], positive[-1]} if scope == 1 else {positive[-1]} if scope == 2 else {component - 1, component + 1}
            _require(near <= bound, "an absence is looked for too early")
            can_bound = absence.program < 0 and absence.alternative < 0 and scope != 1
            _require(absence.bounds == 0 or (absence.bounds == 1 and can_bound), "an absence bounds nothing")
            _require(absence.bounds == 0 or level.component == component - 1, "an absence bounds another level")
            if absence.program >= 0:
                is_condition(absence.program, {component})

    # -- programs ----------------------------------------------------------------------------------------------------------

    def _value(self, program: int, columns: Mapping[int, int | None] | None, slots: Kinds | None) -> int | None:
        """The kind of the value that a program over columns or bound events computes."""
        kinds = self._program(program, columns, slots, None)
        _require(len(kinds) > 0 and kinds[0] is not None, "a register is read before it is written")
        return kinds[0]

    def _program(
        self, program: int, columns: Mapping[int, int | None] | None, slots: Kinds | None, target: tuple[int, list[int], bool] | None
    ) -> list[int | None]:
        """Follow the kinds of all registers. `slots` is None where there is no instance, `columns` where there is no event at hand.

        `target` is None for a program over columns or over bound events; else where it may emit to (a state, or -1), the kinds of the
        output, and whether it is the program of a state: that one ends instances, and emits only to the state itself.
        """
        first, n, n_registers = self.rows["program"][program]
        kinds: list[int | None] = [None] * n_registers  # None: not written yet
        code: list[layout.Instruction] = self.rows["code"][first : first + n]
        _require(n > 0 and code[n - 1].op == Op.END, "a program has no end")
        has_control = any(instruction.op >= Op.JUMP_UNLESS for instruction in code[: n - 1])
        _require(not has_control or target is not None, "control over columns")

        def read(register: int) -> int:
            kind = kinds[register] if 0 <= register < n_registers else None
            _require(kind is not None, "a register is read before it is written")
            assert kind is not None
            return kind

        for position, instruction in enumerate(code):
            if instruction.op >= Op.JUMP_UNLESS:
                self._control(position, n, instruction, read, target)
                continue
            _require(0 <= instruction.dst < n_registers, "a register is out of range")
            if instruction.op in _LOADS:
                kinds[instruction.dst] = self._load(instruction, columns, slots or [])
            else:
                kinds[instruction.dst] = self._computed(instruction, read)
        return kinds

    def _load(self, instruction: layout.Instruction, columns: Mapping[int, int | None] | None, slots: Kinds) -> int | None:
        op, index = instruction.op, instruction.a
        if op in (Op.LOAD_EVENT, Op.LOAD_DUR):
            _require(columns is not None, "a program reads an event where there is none")
        if op == Op.LOAD_EVENT:
            assert columns is not None
            _require(index in columns, "a column is out of range")
            return columns[index]
        if op == Op.LOAD_SLOT:
            _require(0 <= index < len(slots) and slots[index] is not None, "a slot is out of range")
            return slots[index]
        if op == Op.LOAD_CONST:
            _require(0 <= index < self.size["constant"], "a constant is out of range")
            return _TEXT if self.rows["constant_text"][index] >= 0 else _PLAIN
        return _NULL if op == Op.LOAD_NULL else _PLAIN

    def _computed(self, instruction: layout.Instruction, read: Callable[[int], int]) -> int:
        op, arguments = instruction.op, (instruction.a, instruction.b, instruction.c)
        _require(op in _SIGNATURES, "an instruction is unknown")
        _require(op != Op.FUNCTION or instruction.c in _FUNCTIONS, "a function is unknown")
        wanted, result = _FUNCTIONS[instruction.c] if op == Op.FUNCTION else _SIGNATURES[op]
        if op in OF_SETS:
            _require(0 <= instruction.b < self.size["set"], "a set is out of range")
        if op in (Op.SCALE_UP, Op.UNSCALE):
            _require(0 <= instruction.b <= MOST_DIGITS, "a scale is out of range")
        same = _NULL
        for kind, register in zip(wanted, arguments, strict=False):
            found = read(register)
            if kind == "same":
                _require(found == _NULL or same in (_NULL, found), "values of two kinds are mixed")
                same = same if found == _NULL else found
            else:
                _require(kind is None or found in (kind, _NULL), "text and numbers are mixed up")
        return same if result == "same" else int(result)

    def _control(
        self,
        position: int,
        n: int,
        instruction: layout.Instruction,
        read: Callable[[int], int],
        target: tuple[int, list[int], bool] | None,
    ) -> None:
        op, _, a, b, c = instruction
        if op == Op.END:
            _require(position == n - 1, "a program ends in its middle")
            return
        assert target is not None
        if op == Op.JUMP_UNLESS:
            read(a)
            # To the end or to the next instruction: what the compiler writes, and no register can be skipped and then read.
            _require(b in (position + 1, n - 1), "a jump is out of range")
        elif op == Op.EMIT:
            state, output, _ = target
            _require(a == state, "an edge leads elsewhere than it says")
            entered = None if a == -1 else self.rows["state"][a]
            wanted = output if entered is None else self._slot_kinds(entered.first_slot, entered.n_slots)
            _require(c == len(wanted), "an edge binds the wrong number of values")
            _require(0 <= b and b + c <= self.size["operand"], "operands are out of range")
            for kind, register in zip(wanted, self.rows["operand"][b : b + c], strict=True):
                _require(read(register) in (kind, _NULL), "an edge binds text to a number or a number to text")
        else:
            _require(op in (Op.AFFECT, Op.FORWARD) and target[2], "an instruction is unknown or not for this program")
