"""The flat tables a machine runs: what each array holds, and the check that makes running them safe.

Everything is an index into another array, so one wrong number could read foreign memory: `check` tests every one of
them once, when tables are loaded, and the machine never tests again. Kept free of the rest of Keuka for executors.
"""

from itertools import pairwise

import numpy as np

from keuka.kernel.bytecode import Op
from keuka.kernel.functions import Function

VERSION = 4
OLDEST = 2  # tables without sequences, which are read as tables with none; those of version 3 have no functions of time and no casts

# array -> its columns (a plain name: one-dimensional). Sources come first in `stream`, then one output per operator. Columns are
# numbered over all streams, derived ones behind all others. Signatures and labels say what is the same in two sets of tables.
ARRAYS = {
    "stream": ("first_column", "n_columns"),
    "column_type": (),  # by column: 0 boolean, 1 integer, 2 double, 3 string, 4 timestamp, 5 other (a row handle), 6 date, 7 decimal
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
    # All combinations of events (automaton/stacks.py). Levels: those of one search after those of another, a level a positive component.
    "sequence": (
        "operator", "first_component", "n_components", "first_level", "n_levels", "within", "settings", "n_alternatives", "key_type",
        "program", "first_item", "n_items",
    ),
    "component": ("negated", "keyed", "first_only", "negated_before", "first_slot", "n_slots", "first_feed", "n_feeds"),
    "feed": ("stream", "gate", "key", "first_column", "tag", "reading"),  # a stream as a component reads it; gate and key: -1 for none
    "feed_column": (),  # by feed: the columns that become the slots of its component
    "level": ("component", "first_test", "n_tests", "first_absence", "n_absences"),
    "test": ("program", "alternative"),  # alternative: -1 for every one
    "absence": ("component", "scope", "alternative", "program", "bounds"),  # scope: 0 between two, 1 before the first, 2 after the last
    "item": (),  # registers of the sequence's program, or slots of its components if it has none; the first are the output's columns
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
_TEXTS, _HANDLES, N_TYPES = 3, 5, 8  # values of column_type and of the types of slots
_KINDS = {_TEXTS: _TEXT, _HANDLES: _HANDLE}  # the others are plain
MOST_DIGITS = 99  # that a number is scaled by

OF_SETS = (Op.IN_SET, Op.IN_SET_D, Op.LOCAL, Op.INSTANT)  # their b is a set
# op -> kinds of its register arguments and of its result; None: any kind, "same": one kind for these, which the result has too
_LOADS = (Op.LOAD_EVENT, Op.LOAD_SLOT, Op.LOAD_CONST, Op.LOAD_NULL, Op.LOAD_DUR)
_SIGNATURES = {op: ((_PLAIN, _PLAIN), _PLAIN) for op in Op if op < Op.JUMP_UNLESS and op not in _LOADS}
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
_FUNCTIONS = dict.fromkeys(Function, ((_PLAIN,), _PLAIN))
_OF_TWO = (Function.TRUNCATE_TIME, Function.TRUNCATE_MONTHS, Function.MOVE_TIME, Function.POW)
_OF_TWO += (Function.RESCALE, Function.WITHOUT_FRACTION, Function.DOUBLE_TO_DECIMAL, Function.WITHIN)
_FUNCTIONS |= dict.fromkeys(_OF_TWO, ((_PLAIN, _PLAIN), _PLAIN))
_FUNCTIONS |= dict.fromkeys(_OF_TEXT, ((_TEXT,), _PLAIN))
_WRITE = (Function.WRITE_INTEGER, Function.WRITE_BOOLEAN, Function.WRITE_TIME, Function.WRITE_DATE)
_FUNCTIONS |= dict.fromkeys(_WRITE, ((_PLAIN,), _TEXT))
_FUNCTIONS |= {Function.WRITE_DECIMAL: ((_PLAIN, _PLAIN), _TEXT), Function.PARSE_DECIMAL: ((_TEXT, _PLAIN), _PLAIN)}
_FUNCTIONS |= {Function.TRIM: ((_TEXT,), _TEXT), Function.REGEXP_LIKE: ((_TEXT, _TEXT), _PLAIN)}


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
    _in_range(tables["column_type"], 0, N_TYPES, "a column type")
    _in_range(tables["slot"][:, 0], 0, N_TYPES, "a slot type")
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
    _check_sequences(tables, size, n_sources, columns)


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
        # Row handles are no keys: they change when a state moves.
        kinds = [(columns[stream][column], slots[slot]) for column, slot in keys[:, :2].tolist()]
        _require(all(column in (slot, _NULL) and slot != _HANDLE for column, slot in kinds), "a key is not what it is compared with")
        _check_program(tables, program, columns[stream], slots, (s, slots, True))
        check_edge(edge, stream, slots, s)


def _check_sequences(tables, size, n_sources, columns):
    """Everything that the search of matches takes for granted (kernel/sequences.py)."""
    _in_range(tables["sequence"][:, 0], 0, size["operator"], "an operator")
    _require(len(set(tables["sequence"][:, 0].tolist())) == size["sequence"], "an operator has two sequences")
    _slices(tables["sequence"], 1, 2, size["component"], "a component")
    _slices(tables["sequence"], 3, 4, size["level"], "a level")
    _slices(tables["sequence"], 10, 11, size["item"], "an item")
    _slices(tables["component"], 4, 5, size["slot"], "a slot")
    _slices(tables["component"], 6, 7, size["feed"], "a feed")
    _slices(tables["level"], 1, 2, size["test"], "a test")
    _slices(tables["level"], 3, 4, size["absence"], "an absence")
    _in_range(tables["sequence"][:, 5], 1, 1 << 63, "a window")
    _in_range(tables["sequence"][:, 6], 0, 32, "a setting")
    _in_range(tables["sequence"][:, 7], 1, 65, "a number of alternatives")
    _in_range(tables["sequence"][:, 8], -1, N_TYPES, "the type of a key")
    _require(not (tables["sequence"][:, 8] == _HANDLES).any(), "the type of a key is out of range")
    _in_range(tables["sequence"][:, 9], -1, size["program"], "a program")
    _in_range(tables["component"][:, [0, 2]], 0, 2, "a flag")
    _in_range(tables["component"][:, 1], 0, 3, "a flag")
    _in_range(tables["feed"][:, 5], 0, 4, "a way of reading")
    _in_range(tables["absence"][:, 1], 0, 3, "a scope")
    for row in tables["sequence"].tolist():
        _check_sequence(tables, row, n_sources, columns)


def _check_sequence(tables, row, n_sources, columns):
    operator, first, n, first_level, n_levels, within, settings, n_alternatives, key_type, program, first_item, n_items = row
    first_port, n_ports, _, n_states, _, n_starts = tables["operator"][operator, :6].tolist()
    ports = tables["port"][first_port : first_port + n_ports].tolist()
    components = tables["component"][first : first + n].tolist()
    positive = [i for i, component in enumerate(components) if not component[0]]
    ordered, waits = bool(settings & 1), bool(settings & 16)
    _require(n_states + n_starts == 0, "a sequence has states")
    _require(len(positive) > 0 and n <= 64, "a sequence has no component that occurs, or too many")
    _require(ordered or (len(positive) == n and not waits), "a sequence in any order has an absence")
    _require(waits == bool(components[-1][0]) and (not waits or within < (1 << 63) - 1), "a sequence waits for ever")
    _require(not any(a[0] and b[0] for a, b in pairwise(components)), "two absences follow each other")
    _require((key_type >= 0) == any(component[1] for component in components), "the key of a sequence has no type")
    begins = set(positive) if not ordered else {positive[0] if waits else positive[-1]}
    _require(key_type < 0 or all(components[i][1] for i in begins), "a search does not know its stacks")
    slots, owners = [], []
    for i, (_, keyed, _, before, first_slot, n_slots, first_feed, n_feeds) in enumerate(components):
        _require(before == (i - 1 if i > 0 and components[i - 1][0] else -1), "an absence is out of place")
        kinds = _kinds(tables["slot"][:, 0], first_slot, n_slots)
        identities = tables["slot"][first_slot : first_slot + n_slots, 1].tolist()
        _require(len(set(identities)) == n_slots, "two slots hold the same")
        for feed in tables["feed"][first_feed : first_feed + n_feeds].tolist():
            _check_feed(tables, feed, ports, columns, kinds, _KINDS.get(key_type, _PLAIN) if keyed else None)
        slots += kinds
        owners += [i] * n_slots
    _require(sum([component[7] for component in components]) <= 64, "a sequence has too many feeds")
    n_searches = 1 if ordered else len(positive)
    _require(n_levels == n_searches * len(positive), "a search does not bind every component")
    for search in range(n_searches):
        levels = tables["level"][first_level + search * len(positive) : first_level + (search + 1) * len(positive)].tolist()
        wanted = positive[::-1] if ordered else [positive[search], *[i for i in positive if i != positive[search]]]
        _require([level[0] for level in levels] == wanted, "a search binds its components in another order")
        bound = set()
        for level in levels:
            bound.add(level[0])
            _check_level(tables, level, (components, positive, n_alternatives, bound), slots, owners)
    output = _kinds(tables["column_type"], *tables["stream"][n_sources + operator].tolist())
    items = tables["item"][first_item : first_item + n_items].tolist()
    occurring = [kind if owner in positive else None for kind, owner in zip(slots, owners, strict=True)]
    found = occurring if program < 0 else _check_program(tables, program, None, occurring, "registers")
    _require(all(0 <= item < len(found) and found[item] is not None for item in items), "an item is not there")
    _require(n_items == len(output) if program < 0 else n_items >= len(output), "a match has the wrong number of columns")
    for kind, item in zip(output, items, strict=False):
        _require(found[item] in (kind, _NULL), "a match binds text to a number or a number to text")


def _check_feed(tables, feed, ports, columns, kinds, key_kind):
    stream, gate, key, first_column, tag, _ = feed
    _require(stream in ports, "a component reads a stream of another operator")
    _require(gate == -1 or (gate >= len(tables["column_type"]) and gate in columns[stream]), "a gate is out of range")
    _require((key >= 0) == (key_kind is not None), "a component has no key, or one too many")
    _require(key < 0 or columns[stream].get(key) in (key_kind, _NULL), "a key is not what it is compared with")
    _require(0 <= first_column and first_column + len(kinds) <= len(tables["feed_column"]), "a feed is out of range")
    _require(-(1 << 31) <= tag < 1 << 31, "a tag is out of range")
    for kind, column in zip(kinds, tables["feed_column"][first_column : first_column + len(kinds)].tolist(), strict=True):
        _require(columns[stream].get(column) in (kind, _NULL), "a slot gets a value of another kind")


def _check_level(tables, level, sequence, slots, owners):
    """A test may read the slots of what is bound already, an absence those of its own component, too."""
    components, positive, n_alternatives, bound = sequence
    _, first_test, n_tests, first_absence, n_absences = level

    def readable(more):
        return [kind if owner in bound or owner in more else None for kind, owner in zip(slots, owners, strict=True)]

    for program, alternative in tables["test"][first_test : first_test + n_tests].tolist():
        _require(0 <= program < len(tables["program"]) and -1 <= alternative < n_alternatives, "a test is out of range")
        _require(_check_program(tables, program, None, readable(()), None) in (_PLAIN, _NULL), "a condition is text")
    for component, scope, alternative, program, bounds in tables["absence"][first_absence : first_absence + n_absences].tolist():
        _require(0 <= component < len(components) and components[component][0] == 1, "an absence of what occurs")
        _require(-1 <= alternative < n_alternatives and -1 <= program < len(tables["program"]), "an absence is out of range")
        _require(scope == (1 if component < positive[0] else 2 if component > positive[-1] else 0), "an absence has another scope")
        near = {positive[0], positive[-1]} if scope == 1 else {positive[-1]} if scope == 2 else {component - 1, component + 1}
        _require(near <= bound, "an absence is looked for too early")
        last_bound = level[0]
        _require(bounds == 0 or (bounds == 1 and program < 0 and alternative < 0 and scope != 1), "an absence bounds nothing")
        _require(bounds == 0 or last_bound == component - 1, "an absence bounds another level")
        if program >= 0:
            kind = _check_program(tables, program, None, readable({component}), None)
            _require(kind in (_PLAIN, _NULL), "a condition is text")


def _kinds(types, first, n):
    return [_KINDS.get(t, _PLAIN) for t in types[first : first + n].tolist()]


def _check_program(tables, program, columns, slots, target):
    """Follow the kinds of all registers. `slots` is None where there is no instance, `columns` where there is no event at hand.

    `target` is None for a program over columns or over bound events, whose value's kind comes back, and "registers" if the kinds of all
    its registers do; else where it may emit to (a state, or -1), the kinds of the output, and whether it is the program of a state: that
    one ends instances, and emits only to the state itself. Slots of kind None must not be read.
    """
    first, n, n_registers = (int(x) for x in tables["program"][program])
    kinds = [None] * n_registers  # None: not written yet
    code = tables["code"][first : first + n].tolist()
    _require(n > 0 and code[n - 1][0] == Op.END, "a program has no end")
    has_control = any(op >= Op.JUMP_UNLESS for op, *_ in code[: n - 1])
    _require(not has_control or (target is not None and target != "registers"), "control over columns")

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
    if target == "registers":
        return kinds
    if target is None:
        return read(0)
    return None


def _check_load(tables, op, index, columns, slots):
    if op in (Op.LOAD_EVENT, Op.LOAD_DUR):
        _require(columns is not None, "a program reads an event where there is none")
    if op == Op.LOAD_EVENT:
        _require(index in columns, "a column is out of range")
        return columns[index]
    if op == Op.LOAD_SLOT:
        _require(0 <= index < len(slots) and slots[index] is not None, "a slot is out of range")
        return slots[index]
    if op == Op.LOAD_CONST:
        _require(0 <= index < len(tables["constant"]), "a constant is out of range")
        return _TEXT if tables["constant_text"][index] >= 0 else _PLAIN
    return _NULL if op == Op.LOAD_NULL else _PLAIN


def _check_value(tables, op, arguments, read):
    _require(op in _SIGNATURES, "an instruction is unknown")
    _require(op != Op.FUNCTION or arguments[2] in _FUNCTIONS, "a function is unknown")
    wanted, result = _FUNCTIONS[arguments[2]] if op == Op.FUNCTION else _SIGNATURES[op]
    if op in OF_SETS:
        _require(0 <= arguments[1] < len(tables["set"]), "a set is out of range")
    if op in (Op.SCALE_UP, Op.UNSCALE):
        _require(0 <= arguments[1] <= MOST_DIGITS, "a scale is out of range")
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
