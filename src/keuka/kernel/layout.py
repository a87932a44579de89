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

# Kinds of values: codes of the string table may go only where text is expected, or the machine would read foreign memory.
_PLAIN, _TEXT, _NULL = 0, 1, 2
_STRING = 3  # in column_type and slot_type

# op -> kinds of its register arguments and of its result; None: any kind, "same": one kind for these, which the result has too
_LOADS = (Op.LOAD_EVENT, Op.LOAD_SLOT, Op.LOAD_CONST, Op.LOAD_NULL, Op.LOAD_DUR)
_SIGNATURES = {op: ((_PLAIN, _PLAIN), _PLAIN) for op in Op if op < Op.JUMP_UNLESS and op not in _LOADS}
_SIGNATURES |= dict.fromkeys((Op.TO_DOUBLE, Op.NEG_I, Op.ABS_I, Op.NEG_D, Op.ABS_D, Op.FLOOR_D, Op.CEIL_D, Op.NOT), ((_PLAIN,), _PLAIN))
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
    Op.EQ_I: ((None, None), _PLAIN),
    Op.MOVE: (("same",), "same"),
    Op.COALESCE: (("same", "same"), "same"),
    Op.SELECT: ((_PLAIN, "same", "same"), "same"),
}


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
    targets = (first_state, n_states, _kinds(tables["column_type"], *tables["stream"][n_sources + which]))
    ports = range(first_port, first_port + n_ports)
    n_raw = {}
    kinds = {}  # by port: of every column, derived ones included
    for p in ports:
        stream, first_derived, n_derived = (int(x) for x in tables["port"][p])
        # Only streams that are complete when the operator runs.
        _require(0 <= stream < n_sources + which, "a port reads a stream that is not ready")
        kinds[p] = _kinds(tables["column_type"], *tables["stream"][stream])
        n_raw[p] = len(kinds[p])
        for d in range(n_derived):
            kinds[p].append(_check_program(tables, int(tables["derived"][first_derived + d, 0]), kinds[p], None, None))
    for start in range(first_start, first_start + n_starts):
        port, program, gate = (int(x) for x in tables["start"][start])
        _require(port in ports, "a start reads a port of another operator")
        _require(gate == -1 or n_raw[port] <= gate < len(kinds[port]), "a gate is out of range")
        _check_program(tables, program, kinds[port], None, targets)
    for s in range(first_state, first_state + n_states):
        port, program, gate, first_slot, n_slots, first_key, n_keys, _ = (int(x) for x in tables["state"][s])
        _require(port in ports, "a state reads a port of another operator")
        _require(gate == -1 or n_raw[port] <= gate < len(kinds[port]), "a gate is out of range")
        keys = tables["key"][first_key : first_key + n_keys]
        _in_range(keys[:, 0], 0, len(kinds[port]), "a key's column")
        _in_range(keys[:, 1], 0, n_slots, "a key's slot")
        _check_program(tables, program, kinds[port], _kinds(tables["slot_type"], first_slot, n_slots), targets)


def _kinds(types, first, n):
    return [_TEXT if t == _STRING else _PLAIN for t in types[first : first + n].tolist()]


def _check_program(tables, program, columns, slots, targets):
    """Follow the kinds of all registers. `slots` is None where there is no instance, `targets` for a program over columns.

    The kind of a column's value comes back.
    """
    first, n, n_registers = (int(x) for x in tables["program"][program])
    kinds = [None] * n_registers  # None: not written yet
    code = tables["code"][first : first + n].tolist()
    _require(n > 0 and code[n - 1][0] == Op.END, "a program has no end")
    _require(targets is not None or not any(op >= Op.JUMP_UNLESS for op, *_ in code[: n - 1]), "control over columns")

    def read(register):
        _require(0 <= register < n_registers and kinds[register] is not None, "a register is read before it is written")
        return kinds[register]

    for position, (op, dst, a, b, c) in enumerate(code):
        if op >= Op.JUMP_UNLESS:
            _require(op != Op.AFFECT or slots is not None, "an instance ends where there is none")
            _check_control(tables, position, n, (op, a, b, c), read, targets)
            continue
        _require(0 <= dst < n_registers, "a register is out of range")
        if op in _LOADS:
            kinds[dst] = _check_load(tables, op, a, columns, slots or [])
        else:
            kinds[dst] = _check_value(tables, op, (a, b, c), read)
    if targets is None:
        return read(0)
    return None


def _check_load(tables, op, index, columns, slots):
    if op == Op.LOAD_EVENT:
        _require(0 <= index < len(columns), "a column is out of range")
        return columns[index]
    if op == Op.LOAD_SLOT:
        _require(0 <= index < len(slots), "a slot is out of range")
        return slots[index]
    if op == Op.LOAD_CONST:
        _require(0 <= index < len(tables["constant"]), "a constant is out of range")
        return _TEXT if tables["constant_text"][index] >= 0 else _PLAIN
    return _NULL if op == Op.LOAD_NULL else _PLAIN


def _check_value(tables, op, arguments, read):
    _require(op in _SIGNATURES, "an instruction is unknown")
    wanted, result = _SIGNATURES[op]
    if op in (Op.IN_SET, Op.IN_SET_D):
        _require(0 <= arguments[1] < len(tables["set"]), "a set is out of range")
    same = _NULL
    for kind, register in zip(wanted, arguments, strict=False):
        found = read(register)
        if kind == "same":
            _require(found == _NULL or same in (_NULL, found), "values of two kinds are mixed")
            same = same if found == _NULL else found
        else:
            _require(kind is None or found in (kind, _NULL), "text and numbers are mixed up")
    return same if result == "same" else result


def _check_control(tables, position, n, instruction, read, targets):
    op, a, b, c = instruction
    if op == Op.END:
        _require(position == n - 1, "a program ends in its middle")
    elif op == Op.JUMP_UNLESS:
        read(a)
        # To the end or to the next instruction: what the compiler writes, and no register can be skipped and then read.
        _require(b in (position + 1, n - 1), "a jump is out of range")
    elif op == Op.EMIT:
        first_state, n_states, output = targets
        _require(a == -1 or first_state <= a < first_state + n_states, "an edge leads nowhere")
        wanted = output if a == -1 else _kinds(tables["slot_type"], *(int(x) for x in tables["state"][a, 3:5]))
        _require(c == len(wanted), "an edge binds the wrong number of values")
        _require(0 <= b and b + c <= len(tables["operand"]), "operands are out of range")
        for kind, register in zip(wanted, tables["operand"][b : b + c].tolist(), strict=True):
            _require(read(register) in (kind, _NULL), "an edge binds text to a number or a number to text")
    else:
        _require(op == Op.AFFECT, "an instruction is unknown")
