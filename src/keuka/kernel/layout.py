"""The flat tables a machine runs: what each array holds, and the check that makes running them safe.

Everything is an index into another array, so one wrong number could read foreign memory: `check` tests every one of
them once, when tables are loaded, and the machine never tests again. Kept free of the rest of Keuka for executors.
"""

import numpy as np

from keuka.kernel.bytecode import Op

VERSION = 2

# array -> its columns (a plain name: one-dimensional). Sources come first in `stream`, then one output per operator. Columns are
# numbered over all streams, derived ones behind all others. Signatures and labels say what is the same in two sets of tables.
ARRAYS = {
    "stream": ("first_column", "n_columns"),
    "column_type": (),  # by column: 0 boolean, 1 integer, 2 double, 3 string, 4 timestamp, 5 other (a row handle)
    "derived": ("stream", "program", "must_hold"),  # columns computed per batch; must_hold: an error in any row is raised
    "operator": ("first_port", "n_ports", "first_state", "n_states", "first_start", "n_starts", "signature_low", "signature_high"),
    "port": (),  # streams that an operator reads
    "start": ("stream", "gate", "edge", "reading"),  # gate: derived column, false where the edge need not be looked at; -1: none
    "state": (
        "stream", "program", "gate", "first_slot", "n_slots", "first_key", "n_keys", "window", "edge", "signature_low", "signature_high",
        "reading",  # bit 0: the stream's events are primitive ones, bit 1: the first of simultaneous candidates is chosen by history
    ),
    "edge": ("program", "target", "label_low", "label_high"),  # target: a state, or -1: the operator's output
    "slot": ("type", "identity"),  # type as column_type; identity: which value it holds
    "key": ("column", "slot", "is_double", "component"),  # equality that finds instances; component: of the plan's key, or -1
    "program": ("first_instruction", "n_instructions", "n_registers"),
    "code": ("op", "dst", "a", "b", "c"),  # 32-bit
    "operand": (),  # registers of EMIT, 32-bit
    "constant": (),
    "constant_text": (),  # by constant: index of its text, or -1
    "set": ("first", "n", "is_double"),  # constants of an IN list
    "settings": (),  # [version, number of sources, lineage: bit 0 for contributors, bit 1 for histories]
}  # fmt: skip
NARROW = ("code", "operand")

# Kinds of values: codes of the string table may go only where text is expected, or the machine would read foreign memory, and row
# handles may only be passed on.
_PLAIN, _TEXT, _NULL, _HANDLE = 0, 1, 2, 3
_KINDS = {3: _TEXT, 5: _HANDLE}  # by column_type and the types of slots; the others are plain

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
    _in_range(tables["settings"][2:], 0, 4, "a setting")
    _in_range(tables["start"][:, 3], 0, 4, "a way of reading")
    _in_range(tables["state"][:, 11], 0, 4, "a way of reading")
    _in_range(tables["column_type"], 0, 6, "a column type")
    _in_range(tables["slot"][:, 0], 0, 6, "a slot type")
    _slices(tables["operator"], 0, 1, size["port"], "a port")
    _slices(tables["operator"], 2, 3, size["state"], "a state")
    _slices(tables["operator"], 4, 5, size["start"], "a start")
    _slices(tables["state"], 3, 4, size["slot"], "a slot")
    _slices(tables["state"], 5, 6, size["key"], "a key")
    _slices(tables["program"], 0, 1, size["code"], "an instruction")
    _slices(tables["set"], 0, 1, size["constant"], "a set")
    # Every register is written by an instruction; without a bound a few bytes could ask for gigabytes of registers.
    _require(bool((tables["program"][:, 2] <= tables["program"][:, 1]).all()), "a register count is out of range")
    _in_range(tables["program"][:, 2], 0, 1 << 16, "a register count")
    _require(size["constant_text"] == size["constant"], "constants and their texts do not fit")
    _in_range(tables["constant_text"], -1, len(texts), "a text")
    for first, n, _ in tables["set"].tolist():
        _require(len(set((tables["constant_text"][first : first + n] >= 0).tolist())) <= 1, "a set has texts and numbers")
    _in_range(tables["edge"][:, 0], 0, size["program"], "a program")
    _in_range(tables["state"][:, 1], 0, size["program"], "a program")
    _in_range(tables["start"][:, 2], 0, size["edge"], "an edge")
    _in_range(tables["state"][:, 8], 0, size["edge"], "an edge")
    columns = _check_columns(tables, size["stream"])
    for which in range(size["operator"]):
        _check_operator(tables, which, n_sources, columns)


def _check_columns(tables, n_streams):
    """By stream: number of a column -> its kind. Streams share no column, and derived columns are made of their stream's own."""
    columns = []
    end = 0
    for first, n in tables["stream"].tolist():
        _require(first == end, "the columns of streams do not follow each other")
        columns.append(dict(zip(range(first, first + n), _kinds(tables["column_type"], first, n), strict=True)))
        end = first + n
    _in_range(tables["derived"][:, 0], 0, n_streams, "a stream")
    _in_range(tables["derived"][:, 1], 0, len(tables["program"]), "a program")
    own = [dict(of_stream) for of_stream in columns]
    for number, (stream, program, _) in enumerate(tables["derived"].tolist(), len(tables["column_type"])):
        columns[stream][number] = _check_program(tables, program, own[stream], None, None)
    return columns


def _check_operator(tables, which, n_sources, columns):
    first_port, n_ports, first_state, n_states, first_start, n_starts = tables["operator"][which, :6].tolist()
    output = _kinds(tables["column_type"], *tables["stream"][n_sources + which].tolist())
    ports = tables["port"][first_port : first_port + n_ports].tolist()
    # Only streams that are complete when the operator runs.
    _require(n_ports > 0 and all(0 <= stream < n_sources + which for stream in ports), "a port reads a stream that is not ready")
    _require(len(set(ports)) == n_ports, "a port is there twice")

    def check_gate(gate, stream):
        _require(gate == -1 or (gate >= len(tables["column_type"]) and gate in columns[stream]), "a gate is out of range")

    def check_edge(edge, stream, slots, last_target):
        program, target = tables["edge"][edge, :2].tolist()
        # Edges lead to smaller numbers: no circles.
        _require(target == -1 or first_state <= target < last_target, "an edge leads nowhere")
        _check_program(tables, program, columns[stream], slots, (target, output, False))

    for stream, gate, edge, _ in tables["start"][first_start : first_start + n_starts].tolist():
        _require(stream in ports, "a start reads a stream of another operator")
        check_gate(gate, stream)
        check_edge(edge, stream, None, first_state + n_states)
    for s in range(first_state, first_state + n_states):
        stream, program, gate, first_slot, n_slots, first_key, n_keys, _, edge = tables["state"][s, :9].tolist()
        _require(stream in ports, "a state reads a stream of another operator")
        check_gate(gate, stream)
        keys = tables["key"][first_key : first_key + n_keys]
        _require(all(column in columns[stream] for column in keys[:, 0].tolist()), "a key's column is out of range")
        _in_range(keys[:, 1], 0, n_slots, "a key's slot")
        _in_range(keys[:, 3], -1, max(1, n_keys), "a component of the key")
        identities = tables["slot"][first_slot : first_slot + n_slots, 1].tolist()
        _require(len(set(identities)) == n_slots, "two slots hold the same")
        slots = _kinds(tables["slot"][:, 0], first_slot, n_slots)
        _check_program(tables, program, columns[stream], slots, (s, slots, True))
        check_edge(edge, stream, slots, s)


def _kinds(types, first, n):
    return [_KINDS.get(t, _PLAIN) for t in types[first : first + n].tolist()]


def _check_program(tables, program, columns, slots, target):
    """Follow the kinds of all registers. `slots` is None where there is no instance.

    `target` is None for a program over columns, whose value's kind comes back; else where it may emit to (a state, or -1), the kinds
    of the output, and whether it is the program of a state: that one ends instances, and emits only to the state itself.
    """
    first, n, n_registers = (int(x) for x in tables["program"][program])
    kinds = [None] * n_registers  # None: not written yet
    code = tables["code"][first : first + n].tolist()
    _require(n > 0 and code[n - 1][0] == Op.END, "a program has no end")
    _require(target is not None or not any(op >= Op.JUMP_UNLESS for op, *_ in code[: n - 1]), "control over columns")

    def read(register):
        _require(0 <= register < n_registers and kinds[register] is not None, "a register is read before it is written")
        return kinds[register]

    for position, (op, dst, a, b, c) in enumerate(code):
        if op >= Op.JUMP_UNLESS:
            _check_control(tables, position, n, (op, a, b, c), read, target)
            continue
        _require(0 <= dst < n_registers, "a register is out of range")
        if op in _LOADS:
            kinds[dst] = _check_load(tables, op, a, columns, slots or [])
        else:
            kinds[dst] = _check_value(tables, op, (a, b, c), read)
    if target is None:
        return read(0)
    return None


def _check_load(tables, op, index, columns, slots):
    if op == Op.LOAD_EVENT:
        _require(index in columns, "a column is out of range")
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


def _check_control(tables, position, n, instruction, read, target):
    op, a, b, c = instruction
    if op == Op.END:
        _require(position == n - 1, "a program ends in its middle")
    elif op == Op.JUMP_UNLESS:
        read(a)
        # To the end or to the next instruction: what the compiler writes, and no register can be skipped and then read.
        _require(b in (position + 1, n - 1), "a jump is out of range")
    elif op == Op.EMIT:
        state, output, _ = target
        _require(a == state, "an edge leads elsewhere than it says")
        wanted = output if a == -1 else _kinds(tables["slot"][:, 0], *tables["state"][a, 3:5].tolist())
        _require(c == len(wanted), "an edge binds the wrong number of values")
        _require(0 <= b and b + c <= len(tables["operand"]), "operands are out of range")
        for kind, register in zip(wanted, tables["operand"][b : b + c].tolist(), strict=True):
            _require(read(register) in (kind, _NULL), "an edge binds text to a number or a number to text")
    else:
        _require(op in (Op.AFFECT, Op.FORWARD) and target is not None and target[2], "an instruction is unknown or not for this program")
