"""The automata of all loaded queries, merged into one forest of flat arrays that machines run.

Tables of a query are numbered by themselves (`layout.py`); loading gives every part its number here. What another query has
already is shared: columns and gates by their content, states by signature, edges by label and both ends. Every part counts
the queries that hold it; unloading takes back the numbers of those nobody holds, and `compact` closes the gaps in the code.
A query that is loaded in mid-stream may share states whose instances are older than it: `since` on its last edges holds
those back.
"""

import hashlib
from functools import partial

import numpy as np

from keuka.kernel.bytecode import Op
from keuka.kernel.layout import OF_SETS
from keuka.kernel.strings import StringTable

FREE = -2  # in place of a stream: the row is not in use
NEVER = 2**63 - 1  # ticks
PRUNED, WAITS = 4, 16  # settings of a sequence (automaton/stack_code.py)
LEAST_GARBAGE = 65_536  # instructions of unloaded programs that are not worth compacting


class Arena:
    """Rows of a growing array. Single rows are given out again after `remove`; runs of rows stay until everything is compacted."""

    def __init__(self, n_columns, dtype=np.int64):
        self.rows = np.zeros((16, n_columns) if n_columns else 16, dtype)
        self.size = 0
        self.free = []

    def extend(self, rows):
        """Append rows; the number of the first comes back."""
        first = self.size
        self.size += len(rows)
        # One spare row, so that a pointer to the first always exists.
        if self.size >= len(self.rows):
            grown = np.zeros((2 * self.size + 1, *self.rows.shape[1:]), self.rows.dtype)
            grown[:first] = self.rows[:first]
            self.rows = grown
        if len(rows):
            self.rows[first : self.size] = rows
        return first

    def add(self, row):
        if not self.free:
            return self.extend([row])
        number = self.free.pop()
        self.rows[number] = row
        return number

    def remove(self, number):
        self.rows[number, 0] = FREE
        self.free.append(number)


class Group:
    """The automata that read the same streams: they run together, because one merge of those streams serves them all."""

    def __init__(self, ports, depth):
        self.ports = ports
        self.depth = depth  # groups run in the order of depth, so that what they read is complete
        self.states = []
        self.starts = []


class SequenceArrays:
    """A sequence of all combinations (automaton/stacks.py) with the forest's numbers. Rows are described in stacks.pxd."""

    def __init__(self, stream, ports, row):
        self.serial = 0
        self.is_read = False  # do other operators read its matches?
        self.stream = stream
        self.within, self.settings, self.n_alternatives, self.key_type = row
        self.program, self.n_items = -1, 0
        self.n_ports = len(ports)
        self.ports = _spare(ports)
        self.programs = []  # that it holds


def _spare(rows):
    """As one row of words, with one more, so that a pointer to the first exists."""
    return np.append(np.asarray(rows, np.int64).reshape(-1), 0)


class Forest:
    """Arrays for the machines, and what stands behind their numbers."""

    def __init__(self):
        self.strings = StringTable()
        self.version = 0  # changes with every change that machines must follow
        self.stream = Arena(4)  # (0 a source, 1 an operator's output; number of columns; depth; serial number of an output)
        self.column = Arena(4)  # (stream, program of a derived one or -1, must it hold?, place among its stream's columns)
        self.hash = Arena(4)  # (stream, first key, number of keys, gate or -1): hashes of candidates' keys
        # (stream, program, hash, slots, first slot type, first key, keys, window, first edge, serial number, reading)
        self.state = Arena(11)
        self.edge = Arena(3)  # (program, since, next edge of the same state or -1)
        self.start = Arena(4)  # (stream, gate, edge, reading)
        self.program = Arena(3)  # (first instruction, instructions, registers)
        self.hash_key = Arena(2)  # (column, is it a double?)
        self.key = Arena(3)  # (column, slot, is it a double?)
        self.slot_type = Arena(0)
        self.code = Arena(5, np.int32)
        self.operand = Arena(0, np.int32)
        self.constant = Arena(0)
        self.set_bounds = Arena(2)
        self.set_values = Arena(0)
        self.groups = {}  # streams that are read -> Group
        self.sequences = []  # SequenceArrays, or None where a number is free
        self.combined = set()  # streams of sequences
        self.published = {}  # name -> (what computes it, stream, {column: place})
        self.queries = {}  # name -> what it holds, in the order it was taken
        self.outputs = {}  # name -> streams of its operators
        self.tracking = set()  # queries that want to know the events behind their matches
        self.ordering = set()  # those of them that choose by history, and want their times
        self.names = {}  # stream -> its name
        self.fallible = {}  # program -> the expressions in it that can overflow
        self.identities = {}  # state -> {identity of a slot: its number}
        self.signatures = {}  # state -> (signature, streams of its group)
        self.key_slots = {}  # state -> slots that hold the key of its plan, component by component
        self.origins = {}  # stream -> what it is, the same in every process
        self._ids = {}  # what a part is -> its number
        self._n_holders = {}
        self._needs = {}  # part -> other parts that it holds
        self._part_of_column = {}
        self._by_signature = {}  # (signature, streams of the group) -> states
        self._constant_ids = {}
        self._set_ids = {}
        self._column_names = {}  # source -> {column: name}
        self._serial = 0
        self._n_garbage = 0

    # -- loading -----------------------------------------------------------------------------------------------------------

    def load(self, query, arrays, texts, sources, names, fallible, since):
        """Add a query. `sources` are (name, columns), `names` of all streams, `fallible` the texts of its programs, for messages.

        The arrays were compiled in this process, or checked when they were read (`layout.check`). Only matches of contributors that
        ended after `since` are the query's own.
        """
        assert query not in self.queries
        loading = _Loading(self, arrays, texts, fallible, since)
        try:
            loading.run(sources, names)
        except BaseException:
            self._release(loading.held)
            raise
        self.queries[query] = loading.held
        self.outputs[query] = loading.streams[len(sources) :]  # by operator
        if arrays["settings"][2]:
            self.tracking.add(query)
        if arrays["settings"][2] & 2:
            self.ordering.add(query)
        self.version += 1

    def unload(self, query):
        self._release(self.queries.pop(query))
        del self.outputs[query]
        self.tracking.discard(query)
        self.ordering.discard(query)
        self.version += 1
        if self._n_garbage > LEAST_GARBAGE and 2 * self._n_garbage > self.code.size:
            self.compact()

    def publish(self, name, query, operator, columns):
        """Let queries that are loaded from now on read an output as a source. They keep alive what computes it."""
        stream = self.outputs[query][operator]
        self.published[name] = (tuple(self.queries[query]), stream, {column: place for place, column in enumerate(columns)})

    def states_of(self, query):
        return [key[1] for key in self.queries[query] if key[0] == "state"]

    def sequences_of(self, query):
        return [self._ids[key] for key in self.queries[query] if key[0] == "sequence"]

    def operators_of(self, query):
        """The operators of a query: [(stream of the output, states, sequences)]. What it takes over from others is among them."""
        operators = []
        for key in self.queries[query]:
            if key[0] == "result":
                operators.append((self._ids[key], [], []))
            elif key[0] == "state" and operators:
                operators[-1][1].append(key[1])
            elif key[0] == "sequence" and operators:
                operators[-1][2].append(self._ids[key])
        return operators

    def source_columns(self, name):
        """What machines want of a source: [(column, name)]; nothing if no query reads it."""
        stream = self._ids.get(("source", name))
        return [] if stream is None else [(column, name) for column, name in self._column_names[stream].items()]

    def source(self, name):
        """The stream of a source, or None."""
        return self._ids.get(("source", name))

    def hold(self, held, key, make, needs=()):
        """The number of a part, made if nobody has it. What it `needs` it holds itself: who shares it may not need the same."""
        if key not in self._ids:
            self._ids[key] = make()
            self._n_holders[key] = 0
            self._needs[key] = [self._part_of_column[need] if isinstance(need, int) else need for need in needs if self._is_part(need)]
            for need in self._needs[key]:
                self._n_holders[need] += 1
        self._n_holders[key] += 1
        held.append(key)
        return self._ids[key]

    def _is_part(self, need):
        """Columns of outputs are no parts of their own."""
        return not isinstance(need, int) or need in self._part_of_column

    def known(self, key):
        return key in self._ids

    def number(self, key):
        return self._ids[key]

    def _release(self, held):
        for key in reversed(held):
            self._n_holders[key] -= 1
            if self._n_holders[key] == 0:
                del self._n_holders[key]
                getattr(self, f"_drop_{key[0]}")(self._ids.pop(key), *key[1:])
                self._release(self._needs.pop(key))

    def add_source(self, name):
        stream = self.stream.add((0, 0, 0, 0))
        self.names[stream] = name
        self.origins[stream] = f"source {name!r}"
        self._column_names[stream] = {}
        return stream

    def _drop_source(self, stream, _):
        self.stream.remove(stream)
        del self.names[stream], self.origins[stream], self._column_names[stream]

    def add_column(self, stream, name):
        column = self.column.add((stream, -1, 0, 0))
        self._column_names[stream][column] = name
        self._part_of_column[column] = ("column", stream, name)
        return column

    def _drop_column(self, column, stream, _):
        self.column.remove(column)
        del self._column_names[stream][column], self._part_of_column[column]

    def add_derived(self, stream, code, n_registers, must_hold, fallible):
        column = self.column.add((stream, self.add_program(code, (), n_registers, fallible), must_hold, 0))
        self._part_of_column[column] = ("derived", stream, code.tobytes(), must_hold)
        return column

    def _drop_derived(self, column, *_):
        self._drop_program(self.column.rows[column, 1])
        self.column.remove(column)
        del self._part_of_column[column]

    def add_hash(self, stream, keys, gate):
        return self.hash.add((stream, self.hash_key.extend(keys), len(keys), gate))

    def _drop_hash(self, number, *_):
        self.hash.remove(number)

    def add_result(self, name, n_columns, depth, signature, since, ports):
        self._serial += 1
        stream = self.stream.add((1, n_columns, depth, self._serial))
        self.names[stream] = name
        self.origins[stream] = f"{signature} since {since} of [{', '.join(sorted([self.origins[port] for port in ports]))}]"
        for place in range(n_columns):
            self._ids["place", stream, place] = self.column.add((stream, -1, 0, place))
        return stream

    def place(self, stream, place):
        """The column of an operator's output."""
        return self._ids["place", stream, place]

    def _drop_result(self, stream, *_):
        for place in range(self.stream.rows[stream, 1]):
            self.column.remove(self._ids.pop(("place", stream, place)))
        self.stream.remove(stream)
        del self.names[stream], self.origins[stream]

    def add_group(self, ports, depth):
        self.groups[ports] = Group(ports, depth)
        return ports

    def _drop_group(self, _, ports):
        del self.groups[ports]

    def new_state(self):
        return self.state.add([FREE] * 11)

    def set_state(self, state, ports, signature, row, identities):
        """Fill in a new state: (stream, program, hash, slots, first slot type, first key, keys, window, reading)."""
        self._serial += 1
        self.state.rows[state] = (*row[:8], -1, self._serial, row[8])
        self.identities[state] = identities
        self.signatures[state] = (signature, ports)
        self._by_signature.setdefault((signature, ports), []).append(state)
        self.groups[ports].states.append(state)
        return state

    def _drop_state(self, state, _):
        signature, ports = self.signatures.pop(state)
        self._by_signature[signature, ports].remove(state)
        if not self._by_signature[signature, ports]:
            del self._by_signature[signature, ports]
        self.groups[ports].states.remove(state)
        self._drop_program(self.state.rows[state, 1])
        del self.identities[state], self.key_slots[state]
        self.state.remove(state)

    def state_name(self, state):
        """What a state is, the same in every process: its signature and the streams of its group."""
        (low, high), ports = self.signatures[state]
        streams = "; ".join(sorted([self.origins[port] for port in ports]))
        return f"{low & (2**64 - 1):016x}{high & (2**64 - 1):016x} {hashlib.blake2b(streams.encode(), digest_size=16).hexdigest()}"

    def same_states(self, signature, ports):
        return self._by_signature.get((signature, ports), ())

    def add_sequence(self, arrays):
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

    def _drop_sequence(self, number, *_):
        arrays = self.sequences[number]
        for program in arrays.programs:
            self._drop_program(program)
        self.combined.discard(arrays.stream)
        self.sequences[number] = None

    def sequence_name(self, number):
        """What a sequence is, the same in every process."""
        return hashlib.blake2b(self.origins[self.sequences[number].stream].encode(), digest_size=16).hexdigest()

    def add_edge(self, state, program, since):
        edge = self.edge.add((program, since, self.state.rows[state, 8]))
        self.state.rows[state, 8] = edge
        return edge

    def _drop_edge(self, edge, state, *_):
        following = self.edge.rows[edge, 2]
        before = self.state.rows[state, 8]
        if before == edge:
            self.state.rows[state, 8] = following
        else:
            while self.edge.rows[before, 2] != edge:
                before = self.edge.rows[before, 2]
            self.edge.rows[before, 2] = following
        self._drop_program(self.edge.rows[edge, 0])
        self.edge.remove(edge)

    def add_start(self, ports, stream, gate, program, reading):
        start = self.start.add((stream, gate, self.edge.add((program, np.iinfo(np.int64).min, -1)), reading))
        self.groups[ports].starts.append(start)
        return start

    def _drop_start(self, start, ports, *_):
        self.groups[ports].starts.remove(start)
        edge = self.start.rows[start, 2]
        self._drop_program(self.edge.rows[edge, 0])
        self.edge.remove(edge)
        self.start.remove(start)

    def add_program(self, code, operands, n_registers, fallible):
        code = code.copy()
        emits = code[:, 0] == Op.EMIT
        code[emits, 3] += self.operand.extend(operands)
        program = self.program.add((self.code.extend(code), len(code), n_registers))
        self.fallible[program] = fallible
        return program

    def _drop_program(self, program):
        self._n_garbage += int(self.program.rows[program, 1])
        del self.fallible[int(program)]
        self.program.remove(int(program))

    def constant_id(self, value, is_text):
        key = (value, is_text)
        if key not in self._constant_ids:
            self._constant_ids[key] = self.constant.extend([value])
        return self._constant_ids[key]

    def set_id(self, values, are_texts):
        key = (values.tobytes(), are_texts)
        if key not in self._set_ids:
            first = self.set_values.extend(values)
            self._set_ids[key] = self.set_bounds.extend([(first, first + len(values))])
        return self._set_ids[key]

    def text_codes(self):
        """Codes of the texts that constants hold."""
        codes = [value for value, is_text in self._constant_ids if is_text]
        codes += [code for values, are_texts in self._set_ids if are_texts for code in np.frombuffer(values, np.int64).tolist()]
        return np.asarray(codes, np.int64)

    # -- the layout machines run ---------------------------------------------------------------------------------------------

    def group_arrays(self):
        """(group, port, state, start): groups in the order they run as (first port, ports, first state, states, first start, starts)."""
        rows, ports, states, starts = [], [], [], []
        for group in sorted(self.groups.values(), key=lambda g: (g.depth, g.ports)):
            rows.append((len(ports), len(group.ports), len(states), len(group.states), len(starts), len(group.starts)))
            ports += group.ports
            states += group.states
            starts += group.starts
        # One spare element each, so that a pointer to the first exists.
        return np.asarray([*rows, (0,) * 6], np.int64), *(np.asarray([*x, 0], np.int64) for x in (ports, states, starts))

    def unit_array(self):
        """Groups (0, number) and sequences (1, number) in the order they run: by depth, but sequences whose matches nobody reads last."""
        read = {port for group in self.groups.values() for port in group.ports}
        read |= {int(port) for arrays in self.sequences if arrays is not None for port in arrays.ports[: arrays.n_ports]}
        groups = sorted(self.groups.values(), key=lambda g: (g.depth, g.ports))
        units = [(False, group.depth, 0, number) for number, group in enumerate(groups)]
        for number, arrays in enumerate(self.sequences):
            if arrays is not None:
                arrays.is_read = arrays.stream in read
                units.append((not arrays.is_read, int(self.stream.rows[arrays.stream, 2]), 1, number))
        return np.asarray([*[unit[2:] for unit in sorted(units)], (0, 0)], np.int64)

    def compact(self):
        """Write code, constants and keys anew, without what unloaded queries left behind. Numbers of parts stay."""
        old = self.code.rows, self.operand.rows, self.constant.rows
        texts = {self._constant_ids[key]: key[1] for key in self._constant_ids}
        sets = {number: key for key, number in self._set_ids.items()}
        self.code, self.operand, self.constant = Arena(5, np.int32), Arena(0, np.int32), Arena(0)
        self.set_bounds, self.set_values = Arena(2), Arena(0)
        self._constant_ids, self._set_ids = {}, {}
        for program in self.fallible:
            first, n, _ = self.program.rows[program].tolist()
            code = old[0][first : first + n].copy()
            for ins in code:
                if ins[0] == Op.LOAD_CONST:
                    ins[2] = self.constant_id(int(old[2][ins[2]]), texts[int(ins[2])])
                elif ins[0] in OF_SETS:
                    values, are_texts = sets[int(ins[3])]
                    ins[3] = self.set_id(np.frombuffer(values, np.int64), are_texts)
                elif ins[0] == Op.EMIT:
                    ins[3] = self.operand.extend(old[1][ins[3] : ins[3] + ins[4]])
            self.program.rows[program, 0] = self.code.extend(code)
        self._compact_keys()
        self._n_garbage = 0
        self.version += 1

    def _compact_keys(self):
        keys, types, hash_keys = self.key.rows, self.slot_type.rows, self.hash_key.rows
        self.key, self.slot_type, self.hash_key = Arena(3), Arena(0), Arena(2)
        for state in self.signatures:
            row = self.state.rows[state]
            row[4] = self.slot_type.extend(types[row[4] : row[4] + row[3]])
            row[5] = self.key.extend(keys[row[5] : row[5] + row[6]])
        for row in self.hash.rows[: self.hash.size]:
            if row[0] != FREE:
                row[1] = self.hash_key.extend(hash_keys[row[1] : row[1] + row[2]])


class _Loading:
    """One query on its way into the forest: from its own numbers to the forest's."""

    def __init__(self, forest, arrays, texts, fallible, since):
        self.forest = forest
        self.arrays = arrays
        self.fallible = fallible
        self.since = since
        self.held = []
        self.streams = []  # by stream of the tables
        self.columns = np.full(len(arrays["column_type"]) + len(arrays["derived"]), -1, np.int64)
        codes = np.asarray([forest.strings.intern_text(text) for text in texts], np.int64)
        is_text = arrays["constant_text"] >= 0
        values = arrays["constant"].copy()
        values[is_text] = codes[arrays["constant_text"][is_text]]
        # Only what is loaded: the constants of IN lists are in their sets.
        self.constants = np.full(len(values), -1, np.int64)
        loaded = arrays["code"][arrays["code"][:, 0] == Op.LOAD_CONST, 2]
        for i in np.unique(loaded[(loaded >= 0) & (loaded < len(values))]).tolist():
            self.constants[i] = forest.constant_id(int(values[i]), bool(is_text[i]))
        self.sets = np.zeros(len(arrays["set"]), np.int64)
        for i, (first, n, _) in enumerate(arrays["set"].tolist()):
            self.sets[i] = forest.set_id(np.sort(values[first : first + n]), bool(is_text[first : first + n].any()))

    def hold(self, key, make, needs=()):
        return self.forest.hold(self.held, key, make, needs)

    def run(self, sources, names):
        for name, columns in sources:
            self._add_source(name, columns)
        for which in range(len(self.arrays["operator"])):
            self._add_operator(which, names[len(sources) + which])

    def _add_source(self, name, columns):
        forest, first = self.forest, int(self.arrays["stream"][len(self.streams), 0])
        if name in forest.published:
            parts, stream, places = forest.published[name]
            for part in parts:
                self.hold(part, None)
            numbers = [forest.place(stream, places[column]) for column in columns]
        else:
            stream = self.hold(("source", name), lambda: forest.add_source(name))
            numbers = [self.hold(("column", stream, c), lambda c=c: forest.add_column(stream, c)) for c in columns]
        self.columns[first : first + len(columns)] = numbers
        self._add_stream(stream)

    def _add_stream(self, stream):
        """A stream whose columns are known: now those derived from them."""
        forest, number = self.forest, len(self.streams)
        self.streams.append(stream)
        derived = self.arrays["derived"]
        for d in np.flatnonzero(derived[:, 0] == number).tolist():
            code, n_registers = self._relocated(int(derived[d, 1]), None, 0)
            made = partial(forest.add_derived, stream, code, n_registers, int(derived[d, 2]), self.fallible[derived[d, 1]])
            key = ("derived", stream, code.tobytes(), int(derived[d, 2]))
            self.columns[len(self.arrays["column_type"]) + d] = self.hold(key, made, _columns_read(code))

    def _add_operator(self, which, name):
        forest, arrays = self.forest, self.arrays
        first_port, n_ports, first_state, n_states, first_start, n_starts, *signature = arrays["operator"][which].tolist()
        read = [self.streams[s] for s in arrays["port"][first_port : first_port + n_ports].tolist()]
        ports = tuple(sorted(set(read)))  # two inputs may be one stream here: both sides of an operator computed alike
        depth = 1 + max(int(forest.stream.rows[s, 2]) for s in ports)
        if n_starts + n_states > 0:
            self.hold(("group", ports), lambda: forest.add_group(ports, depth))
        first_column, n_columns = arrays["stream"][len(self.streams)].tolist()
        # The types are in the key, and in those of slots, because signatures may lie: then nothing is shared.
        types = tuple(arrays["column_type"][first_column : first_column + n_columns].tolist())
        key = ("result", *signature, types, self.since, ports)
        result = self.hold(key, lambda: forest.add_result(name, n_columns, depth, (*signature, types), self.since, ports))
        self.columns[first_column : first_column + n_columns] = [forest.place(result, i) for i in range(n_columns)]
        starts = range(first_start, first_start + n_starts)
        states = range(first_state, first_state + n_states)
        numbers = self._number_states(ports, states, starts)
        numbers[-1] = -1 - result
        for s in states:
            self._add_edge_of_state(s, numbers)
        for s in starts:
            self._add_start(ports, s, numbers)
        for row in arrays["sequence"][arrays["sequence"][:, 0] == which].tolist():
            self.hold(("sequence", *key[1:]), partial(self._new_sequence, row, result, ports), self._sequence_needs(row))
        self._add_stream(result)

    def _number_states(self, ports, states, starts):
        """By state of the tables its number in the forest. What comes before a state has a larger number and is looked at first."""
        forest, arrays = self.forest, self.arrays
        numbers = {}
        shared = set()
        for s in reversed(states):
            signature = tuple(arrays["state"][s, 9:11].tolist())
            slots = self._identities(s)
            for other in forest.same_states(signature, ports):
                if slots.keys() <= forest.identities[other].keys() and all(map(forest.known, self._ways(ports, s, other, starts, numbers))):
                    numbers[s] = other
                    shared.add(s)
                    break
            else:
                numbers[s] = forest.new_state()
        for s in states:
            if s in shared:
                self.hold(("state", numbers[s]), None)
            else:
                self._fill_state(ports, s, numbers[s])
        return numbers

    def _ways(self, ports, state, target, starts, numbers):
        """What the edges into a state would be, if it were `target`."""
        arrays = self.arrays
        for s in starts:
            stream, _, edge, _ = arrays["start"][s].tolist()
            if arrays["edge"][edge, 1] == state:
                yield ("start", ports, self.streams[stream], *arrays["edge"][edge, 2:].tolist(), target)
        for s, number in numbers.items():
            edge = arrays["state"][s, 8]
            if arrays["edge"][edge, 1] == state:
                yield ("edge", number, *arrays["edge"][edge, 2:].tolist(), target)

    def _identities(self, state):
        """By type and identity of a value, the slot that holds it."""
        first, n = self.arrays["state"][state, 3:5].tolist()
        return {tuple(value): slot for slot, value in enumerate(self.arrays["slot"][first : first + n].tolist())}

    def _fill_state(self, ports, s, number):
        forest, arrays = self.forest, self.arrays
        stream, program, gate, first_slot, n_slots, first_key, n_keys, window, _, *signature, reading = arrays["state"][s].tolist()
        keys = arrays["key"][first_key : first_key + n_keys].copy()
        keys[:, 0] = self.columns[keys[:, 0]]
        hashed = tuple([(column, is_double) for column, _, is_double, _ in keys.tolist()])
        gate = -1 if gate < 0 else int(self.columns[gate])
        on = self.streams[stream]
        key = ("hash", on, hashed, gate)
        hash_ = self.hold(key, lambda: forest.add_hash(on, hashed, gate), [gate, *[column for column, _ in hashed]])
        code, n_registers = self._relocated(program, None, number)
        self.hold(("state", number), lambda: number, [key, *_columns_read(code)])
        made = forest.add_program(code, self._operands(program), n_registers, self.fallible[program])
        types = forest.slot_type.extend(arrays["slot"][first_slot : first_slot + n_slots, 0])
        forest.key_slots[number] = [slot for _, slot, _, component in sorted(keys.tolist(), key=lambda k: k[3]) if component >= 0]
        row = (on, made, hash_, n_slots, types, forest.key.extend(keys[:, :3]), n_keys, window, reading)
        forest.set_state(number, ports, tuple(signature), row, self._identities(s))

    def _add_edge_of_state(self, s, numbers):
        """The forward edge. A shared state may keep its values in other slots."""
        program, target, *label = self.arrays["edge"][self.arrays["state"][s, 8]].tolist()
        theirs = self.forest.identities[numbers[s]]
        slots = np.asarray([*[theirs[identity] for identity in self._identities(s)], 0], np.int64)

        code, n_registers = self._relocated(program, slots, numbers[target])

        def make():
            made = self.forest.add_program(code, self._operands(program), n_registers, self.fallible[program])
            return self.forest.add_edge(numbers[s], made, self.since if target < 0 else np.iinfo(np.int64).min)

        self.hold(("edge", numbers[s], *label, numbers[target]), make, _columns_read(code))

    def _add_start(self, ports, s, numbers):
        stream, gate, edge, reading = self.arrays["start"][s].tolist()
        program, target, *label = self.arrays["edge"][edge].tolist()
        gate = -1 if gate < 0 else int(self.columns[gate])

        code, n_registers = self._relocated(program, None, numbers[target])

        def make():
            made = self.forest.add_program(code, self._operands(program), n_registers, self.fallible[program])
            return self.forest.add_start(ports, self.streams[stream], gate, made, reading)

        self.hold(("start", ports, self.streams[stream], *label, numbers[target]), make, [gate, *_columns_read(code)])

    def _feeds(self, row):
        """The feeds of a sequence: (component, stream, gate, key, columns, tag, reading), with the forest's numbers of columns."""
        arrays = self.arrays
        for component in range(row[2]):
            first_feed, n_feeds = arrays["component"][row[1] + component, 6:8].tolist()
            n_slots = int(arrays["component"][row[1] + component, 5])
            for stream, gate, key, first, tag, reading in arrays["feed"][first_feed : first_feed + n_feeds].tolist():
                gate, key = (-1 if column < 0 else int(self.columns[column]) for column in (gate, key))
                columns = self.columns[arrays["feed_column"][first : first + n_slots]].tolist()
                yield component, self.streams[stream], gate, key, columns, tag, reading

    def _hash_of_key(self, stream, column, key_type):
        keys = ((column, int(key_type == 2)),)
        return ("hash", stream, keys, -1), keys

    def _sequence_needs(self, row):
        needs = []
        for _, stream, gate, key, columns, _, _ in self._feeds(row):
            needs += [column for column in (gate, key, *columns) if column >= 0]
            if key >= 0:
                part, keys = self._hash_of_key(stream, key, row[8])
                self.hold(part, partial(self.forest.add_hash, stream, keys, -1), [key])
                needs.append(part)
        return needs

    def _new_sequence(self, row, result, ports):
        _, first, n, first_level, n_levels, within, settings, n_alternatives, key_type, program, first_item, n_items = row
        forest, arrays = self.forest, self.arrays
        made = SequenceArrays(result, ports, (within, settings, n_alternatives, key_type))

        def load(number):
            if number < 0:
                return -1
            code, n_registers = self._relocated(number, None, 0)
            made.programs.append(forest.add_program(code, (), n_registers, self.fallible[number]))
            return made.programs[-1]

        components = arrays["component"][first : first + n].tolist()
        positive = [i for i, component in enumerate(components) if not component[0]]
        made.n_components, made.n_positive = n, len(positive)
        rows, types = [], []
        for i, (negated, keyed, first_only, negated_before, first_slot, n_slots, _, _) in enumerate(components):
            before = max([k for k in positive if k < i], default=-1)
            # A match that waits for the end of its window looks for what came before its first event that much later.
            kept = within if not (settings & WAITS and i < positive[0]) else min(2 * within, NEVER)
            rows.append((negated, keyed, first_only, negated_before, before, len(types), n_slots, kept if settings & PRUNED else NEVER))
            types += arrays["slot"][first_slot : first_slot + n_slots, 0].tolist()
        made.components, made.slot_types, made.n_slots = _spare(rows), _spare(types), len(types)
        made.is_keyed = [component[1] for component in components]
        made.slots = [arrays["slot"][c[4] : c[4] + c[5]].tolist() for c in components]  # by component: (type, identity)
        feeds, columns = [], []
        for component, stream, gate, key, read, tag, reading in self._feeds(row):
            hash_ = -1 if key < 0 else forest.number(self._hash_of_key(stream, key, key_type)[0])
            feeds.append((stream, ports.index(stream), gate, key, hash_, len(columns), tag, reading & 1, component))
            columns += read
        made.feeds, made.feed_columns, made.n_feeds = _spare(feeds), _spare(columns), len(feeds)
        levels, tests, absences = [], [], []
        for component, first_test, n_tests, first_absence, n_absences in arrays["level"][first_level : first_level + n_levels].tolist():
            levels.append((component, len(tests), n_tests, len(absences), n_absences))
            tests += [(load(number), a) for number, a in arrays["test"][first_test : first_test + n_tests].tolist()]
            for c, scope, alternative, number, bounds in arrays["absence"][first_absence : first_absence + n_absences].tolist():
                absences.append((c, scope, alternative, load(number), bounds))
        made.levels, made.tests, made.absences = _spare(levels), _spare(tests), _spare(absences)
        made.program, made.n_items = load(program), n_items
        made.items = _spare(arrays["item"][first_item : first_item + n_items])
        return forest.add_sequence(made)

    def _relocated(self, program, slots, target):
        """The code of a program with the forest's numbers, and its registers. Operands are numbered from 0 on."""
        first, n, n_registers = self.arrays["program"][program].tolist()
        code = self.arrays["code"][first : first + n].copy()
        op = code[:, 0]
        for loads, numbers in ((Op.LOAD_EVENT, self.columns), (Op.LOAD_CONST, self.constants), (Op.LOAD_SLOT, slots)):
            chosen = op == loads
            if numbers is not None and chosen.any():
                code[chosen, 2] = numbers[code[chosen, 2]]
        for reads in OF_SETS:
            chosen = op == reads
            if chosen.any():
                code[chosen, 3] = self.sets[code[chosen, 3]]
        chosen = op == Op.EMIT
        code[chosen, 2] = target
        code[chosen, 3] = np.cumsum(code[chosen, 4]) - code[chosen, 4]
        return code, n_registers

    def _operands(self, program):
        first, n, _ = self.arrays["program"][program].tolist()
        code = self.arrays["code"][first : first + n]
        emits = code[code[:, 0] == Op.EMIT]
        return np.concatenate([np.empty(0, np.int32), *[self.arrays["operand"][b : b + c] for b, c in emits[:, 3:5].tolist()]])


def _columns_read(code):
    return np.unique(code[code[:, 0] == Op.LOAD_EVENT, 2]).tolist()
