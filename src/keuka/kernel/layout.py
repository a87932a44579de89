"""The flat tables a machine runs: what each array holds, and the check that makes running them safe.

Everything is an index into another array, so one wrong number could read foreign memory: `check` tests every one of
them once, when tables are loaded, and the machine never tests again. Kept free of the rest of Keuka for executors.
"""

import numpy as np

from keuka.kernel.bytecode import Op

VERSION = 1

# array -> its columns (a plain name: one-dimensional). Sources come first in `stream`, then one output per operator.
ARRAYS = {
    "stream": ("first_column", "n_columns"),
    "column_type": (),  # by column: 0 boolean, 1 integer, 2 double, 3 string, 4 timestamp, 5 other (a row handle)
    "operator": ("first_port", "n_ports", "first_state", "n_states", "first_start", "n_starts"),  # in the order they run
    "port": ("stream", "first_derived", "n_derived"),
    "start": ("port", "program", "gate"),  # gate: derived column that is false where the program need not run; -1: none
    "derived": ("program", "must_hold"),  # columns computed per batch; must_hold: an error in any row is raised
    "state": ("port", "program", "gate", "first_slot", "n_slots", "first_key", "n_keys", "window"),
    "slot_type": (),  # by slot, as column_type
    "key": ("event_column", "slot", "is_double"),  # equality that finds the instances of a state
    "program": ("first_instruction", "n_instructions", "n_registers"),
    "code": ("op", "dst", "a", "b", "c"),  # 32-bit
    "operand": (),  # registers of EMIT, 32-bit
    "constant": (),
    "constant_text": (),  # by constant: index of its text, or -1
    "set": ("first", "n", "is_double"),  # constants of an IN list
    "settings": (),  # [version, number of sources, are contributors tracked?]
}
NARROW = ("code", "operand")

# op -> which of (dst, a, b, c) are registers
_REGISTERS = {op: (1, 1, 1, 0) for op in range(64)}
_REGISTERS |= {op: (1, 0, 0, 0) for op in (Op.LOAD_EVENT, Op.LOAD_SLOT, Op.LOAD_CONST, Op.LOAD_NULL, Op.LOAD_DUR)}
_REGISTERS |= {
    op: (1, 1, 0, 0)
    for op in (
        Op.TO_DOUBLE, Op.NEG_I, Op.ABS_I, Op.NEG_D, Op.ABS_D, Op.FLOOR_D, Op.CEIL_D, Op.NOT, Op.NULL_TEST,
        Op.LENGTH, Op.LOWER, Op.UPPER, Op.IN_SET, Op.IN_SET_D, Op.MOVE,
    )
}  # fmt: skip
_REGISTERS |= {op: (1, 1, 1, 1) for op in (Op.SELECT, Op.SUBSTRING)}
_REGISTERS |= {Op.JUMP_UNLESS: (0, 1, 0, 0), Op.AFFECT: (0, 0, 0, 0), Op.EMIT: (0, 0, 0, 0), Op.END: (0, 0, 0, 0)}


class Malformed(Exception):
    """The tables are not ones that the compiler writes."""


def _require(condition, what):
    if not condition:
        raise Malformed(what)


def _in_range(values, low, high, what):
    values = np.asarray(values)
    _require(values.size == 0 or (values.min() >= low and values.max() < high), f"{what} is out of range")


def _slices(table, first, n, size, what):
    _in_range(table[:, first], 0, size + 1, what)
    _in_range(table[:, n], 0, size + 1, what)
    if len(table):
        _require(int((table[:, first] + table[:, n]).max()) <= size, f"{what} is out of range")


def check(tables, texts):
    """Raise Malformed unless every index of every array is inside what it points into."""
    _require(set(tables) == set(ARRAYS), "an array is missing or unknown")
    for name, columns in ARRAYS.items():
        array = tables[name]
        _require(array.dtype == (np.int32 if name in NARROW else np.int64), f"`{name}` has the wrong type")
        _require(array.ndim == (2 if columns else 1), f"`{name}` has the wrong shape")
        _require(not columns or array.shape[1] == len(columns), f"`{name}` has the wrong shape")
    size = {name: len(array) for name, array in tables.items()}
    _require(size["settings"] == 3 and tables["settings"][0] == VERSION, "the version is not ours")
    n_sources = int(tables["settings"][1])
    _require(0 <= n_sources and n_sources + size["operator"] == size["stream"], "streams and operators do not fit")
    _slices(tables["stream"], 0, 1, size["column_type"], "a column")
    _in_range(tables["column_type"], 0, 6, "a column type")
    _in_range(tables["slot_type"], 0, 6, "a slot type")
    _slices(tables["operator"], 0, 1, size["port"], "a port")
    _slices(tables["operator"], 2, 3, size["state"], "a state")
    _slices(tables["operator"], 4, 5, size["start"], "a start")
    _slices(tables["port"], 1, 2, size["derived"], "a derived column")
    _slices(tables["state"], 3, 4, size["slot_type"], "a slot")
    _slices(tables["state"], 5, 6, size["key"], "a key")
    _slices(tables["program"], 0, 1, size["code"], "an instruction")
    _slices(tables["set"], 0, 1, size["constant"], "a set")
    _in_range(tables["program"][:, 2], 0, 1 << 20, "a register count")
    _require(size["constant_text"] == size["constant"], "constants and their texts do not fit")
    _in_range(tables["constant_text"], -1, len(texts), "a text")
    _in_range(tables["start"][:, 1], 0, size["program"], "a program")
    _in_range(tables["derived"][:, 0], 0, size["program"], "a program")
    _in_range(tables["state"][:, 1], 0, size["program"], "a program")
    for which in range(size["operator"]):
        _check_operator(tables, which, n_sources)


def _check_operator(tables, which, n_sources):
    first_port, n_ports, first_state, n_states, first_start, n_starts = (int(x) for x in tables["operator"][which])
    targets = (first_state, n_states, int(tables["stream"][n_sources + which, 1]))
    ports = range(first_port, first_port + n_ports)
    raw = {}
    for p in ports:
        stream, first_derived, n_derived = (int(x) for x in tables["port"][p])
        # Only streams that are complete when the operator runs.
        _require(0 <= stream < n_sources + which, "a port reads a stream that is not ready")
        raw[p] = (int(tables["stream"][stream, 1]), int(tables["stream"][stream, 1]) + n_derived)
        for d in range(n_derived):
            _check_program(tables, int(tables["derived"][first_derived + d, 0]), raw[p][0] + d, -1, None)
    for start in range(first_start, first_start + n_starts):
        port, program, gate = (int(x) for x in tables["start"][start])
        _require(port in ports, "a start reads a port of another operator")
        _require(gate == -1 or raw[port][0] <= gate < raw[port][1], "a gate is out of range")
        _check_program(tables, program, raw[port][1], 0, targets)
    for s in range(first_state, first_state + n_states):
        port, program, gate, _, n_slots, first_key, n_keys, _ = (int(x) for x in tables["state"][s])
        _require(port in ports, "a state reads a port of another operator")
        _require(gate == -1 or raw[port][0] <= gate < raw[port][1], "a gate is out of range")
        keys = tables["key"][first_key : first_key + n_keys]
        _in_range(keys[:, 0], 0, raw[port][1], "a key's column")
        _in_range(keys[:, 1], 0, n_slots, "a key's slot")
        _check_program(tables, program, raw[port][1], n_slots, targets)


def _check_program(tables, program, n_columns, n_slots, targets):
    """`targets` is None for a program over columns, whose only control instruction is END."""
    first, n, n_registers = (int(x) for x in tables["program"][program])
    code = tables["code"][first : first + n]
    ops = code[:, 0]
    _require(n > 0 and ops[n - 1] == Op.END and np.isin(ops, [int(op) for op in Op]).all(), "a program is not one")
    for op in np.unique(ops):
        rows = code[ops == op]
        for field, is_register in enumerate(_REGISTERS[int(op)], start=1):
            if is_register:
                _in_range(rows[:, field], 0, n_registers, "a register")
    _in_range(code[ops == Op.LOAD_EVENT, 2], 0, n_columns, "a column")
    _in_range(code[ops == Op.LOAD_SLOT, 2], 0, max(n_slots, 0), "a slot")
    _in_range(code[ops == Op.LOAD_CONST, 2], 0, len(tables["constant"]), "a constant")
    sets = code[np.isin(ops, [Op.IN_SET, Op.IN_SET_D])]
    _in_range(sets[:, 3], 0, len(tables["set"]), "a set")
    if targets is None:
        _require((ops[: n - 1] < Op.JUMP_UNLESS).all() and n_registers > 0, "control stands in a program over columns")
        return
    jumps = np.flatnonzero(ops == Op.JUMP_UNLESS)
    # Forward only, so every program ends.
    _require(bool((code[jumps, 3] > jumps).all() and (code[jumps, 3] < n).all()), "a jump is out of range")
    first_state, n_states, n_outputs = targets
    for _, _, target, first_operand, n_operands in code[ops == Op.EMIT]:
        _require(target == -1 or first_state <= target < first_state + n_states, "an edge leads nowhere")
        wanted = n_outputs if target == -1 else int(tables["state"][target, 4])
        _require(n_operands == wanted, "an edge binds the wrong number of values")
        _require(0 <= first_operand and first_operand + n_operands <= len(tables["operand"]), "operands are out of range")
        _in_range(tables["operand"][first_operand : first_operand + n_operands], 0, n_registers, "a register")
