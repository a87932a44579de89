"""Construction of matches from stacked events: a search backwards through the stacks (the SASE paper, sections 4.1 to 4.3).

It begins with the event that completes matches, or with the end of a window, and binds the components one after the other, the latest
events first. Every condition is tested at the level where the last event it names is bound. A search can stop after a chunk of matches
and go on later.
"""

import cython
from cython.cimports.keuka.kernel.buffers import grow, grow_flags, push
from cython.cimports.keuka.kernel.bytecode import IS_ERROR, Frame, evaluate_one
from cython.cimports.keuka.kernel.lineage import leaf_node, push_node
from cython.cimports.keuka.kernel.machine import Fault, View, code_of, count_work
from cython.cimports.keuka.kernel.stacks import (
    AFTER,
    BEFORE,
    EVENT_ABSENT,
    EVENT_BELOW,
    EVENT_END,
    EVENT_HEADER,
    EVENT_KEY,
    EVENT_NODE,
    EVENT_RIP,
    EVENT_START,
    EVENT_TAG,
    FAILED,
    IS_PRIMITIVE,
    MATCH_CHUNK,
    NO,
    ORDERED,
    STOPPED,
    UNKNOWN,
    WINDOW_EARLY,
    YES,
    Bound,
    ComponentRow,
    First,
    LevelRow,
    earlier,
    event_at,
    find_key,
    first_component,
    hash_of_event,
    is_past,
    next_waiting,
    top_before,
)
from cython.cimports.keuka.kernel.system import prefetch
from cython.cimports.libc.stdint import INT64_MAX, INT64_MIN, uint64_t


def begin_search(machine, seq, feed, row, tops, first_level):
    """An event that can complete matches; the search itself is `search`."""
    view: cython.pointer(View) = cython.address(machine.streams[feed.stream].view)
    component: int64_t = feed.component
    components: cython.pointer(cython.const[ComponentRow]) = seq.components + component
    bound: cython.pointer(Bound) = seq.bound + component
    tick: int64_t = view.ends[row]
    bound.rip = UNKNOWN
    if seq.settings & ORDERED and components.positive_before >= 0:
        bound.rip = top_before(seq, component, components.positive_before, tops, tick)
        if bound.rip != UNKNOWN and bound.rip < seq.rings[components.positive_before].tail:
            return Status.FINE  # the usual case: nothing to be completed
    bound.absent = UNKNOWN
    if components.negated_before >= 0:
        bound.absent = top_before(seq, component, components.negated_before, tops, tick)
    bound.end = tick
    bound.start = view.starts[row]
    bound.node = -1
    bound.tag = 4 * feed.tag + feed.is_primitive
    read_slots(machine, feed, seq, row, seq.values + components.first_slot, seq.flags + components.first_slot)
    seq.by_deadline = False
    seq.search = first_level
    seq.root = component
    seq.root_stream = feed.stream
    seq.root_row = row
    seq.tick = tick
    seq.own = tops
    seq.alive[0] = all_alternatives(seq)
    seq.failed[0] = 0
    seq.since[0] = bound.start
    passed: cython.int = passes(machine, seq, 0)
    if passed <= 0:
        return Status.FINE if passed == 0 else seq.reason
    if seq.n_positive == 1:
        return emit_match(machine, seq, 0)
    enter(seq, 1)
    seq.level = seq.floor = 1
    seq.is_searching = True
    return Status.FINE


def all_alternatives(seq):
    return ~cython.cast(uint64_t, 0) >> (64 - seq.n_alternatives)


def next_deadline(seq):
    """When the next search begins by itself: the last tick of the oldest first event's window. INT64_MAX if there is none."""
    first: cython.pointer(First) = next_waiting(seq)
    if first == cython.NULL:
        return INT64_MAX
    return first.end + (seq.within - 1) if first.end < 0 or seq.within - 1 <= INT64_MAX - first.end else INT64_MAX


def has_first(seq):
    """Is there a first event whose window will end?"""
    return next_waiting(seq) != cython.NULL


def begin_by_deadline(seq, deadline):
    """The window of the oldest first event is over: its matches are those after which nothing came."""
    component: int64_t = first_component(seq)
    number: int64_t = next_waiting(seq).number
    words: cython.pointer(int64_t) = event_at(seq.rings + component, number)
    words[EVENT_BELOW] = -1  # what is below it had its turn
    seq.by_deadline = True
    seq.search = 0
    seq.root = component
    seq.root_event = number
    seq.tick = deadline
    seq.own = seq.nothing
    if seq.components[component].is_keyed:
        seq.own = find_key(cython.address(seq.keys), hash_of_event(words), words[EVENT_KEY])
    seq.level = seq.floor = 0
    enter(seq, 0)
    seq.is_searching = True


def top_of(seq, component):
    """Where the stack of a component ends, for the key at hand."""
    return seq.own[component] if seq.components[component].is_keyed else seq.shared[component]


def window_begin(tick, within):
    """The first tick of the window that ends with this one; the smallest of all if the window goes back behind it."""
    if within == INT64_MAX:
        return INT64_MIN
    return tick - (within - 1) if tick >= 0 or tick - INT64_MIN >= within - 1 else INT64_MIN


def enter(seq, level):
    """From which event down a level is searched, and how far."""
    row: cython.pointer(cython.const[LevelRow]) = seq.levels + seq.search + level
    component: int64_t = row.component
    number: int64_t = UNKNOWN
    low: int64_t = INT64_MIN
    if seq.by_deadline:
        end = event_at(seq.rings + seq.root, seq.root_event)[EVENT_END]
        low = end if end == INT64_MAX else end + 1
        if level == seq.n_positive - 1:
            number = seq.root_event
            low = end
    else:
        if seq.settings & WINDOW_EARLY:
            low = window_begin(seq.tick, seq.within)
        if level > 0 and seq.settings & ORDERED:
            number = seq.bound[(row - 1).component].rip
    if number == UNKNOWN:
        number = top_of(seq, component)
    for i in range(row.n_absences):
        absence = seq.absences + row.first_absence + i
        if absence.bounds:
            low = max(low, latest_absent(seq, absence))  # what ended before it, it follows
    seq.cursor[level] = number
    seq.low[level] = low


def absent_from(seq, absence):
    """The event of a negated component from which its scope is to be searched downwards."""
    component: int64_t = absence.component
    if absence.scope == AFTER:
        return top_of(seq, component)
    number = seq.bound[component + 1].absent
    if number == UNKNOWN:
        number = top_of(seq, component)
    return earlier(seq.rings + component, number, seq.bound[component + 1].end)


def latest_absent(seq, absence):
    """The end of the latest event of a negated component in the scope that is known so far; INT64_MIN if there is none."""
    ring: cython.pointer(Ring) = seq.rings + absence.component
    number: int64_t = absent_from(seq, absence)
    return event_at(ring, number)[EVENT_END] if number >= ring.tail else INT64_MIN


def search(machine, seq):
    """Go on through the stacks, the latest events first, until there is no combination left or a chunk of matches is full."""
    level: int64_t = seq.level
    result: cython.pointer(Result) = cython.address(machine.streams[seq.stream].result)
    plain: cython.bint = is_plain(machine, seq)
    while level >= seq.floor:
        row = seq.levels + seq.search + level
        ring = seq.rings + row.component
        if plain and level == seq.n_positive - 1 and level > 0 and (seq.alive[level - 1] & ~seq.failed[level - 1]) != 0:
            status = emit_plain(machine, seq, ring, row.component)
            if status != Status.FINE:
                seq.level = level
                return status
            level -= 1
            continue
        if seq.cursor[level] < ring.tail:
            level -= 1
            continue
        words = event_at(ring, seq.cursor[level])
        if words[EVENT_END] < seq.low[level]:
            level -= 1
            continue
        seq.cursor[level] = words[EVENT_BELOW]
        prefetch(event_at(ring, words[EVENT_BELOW]))
        status = count_work(machine, 1)
        if status != Status.FINE:
            return status
        if not fits(seq, level, words[EVENT_END]):
            continue
        bind(seq, row.component, words)
        if level == 0:
            seq.alive[0] = all_alternatives(seq)
            seq.failed[0] = 0
            seq.since[0] = words[EVENT_START]
        else:
            seq.alive[level] = seq.alive[level - 1]
            seq.failed[level] = seq.failed[level - 1]
            seq.since[level] = min(seq.since[level - 1], words[EVENT_START])
        if row.n_tests + row.n_absences > 0:
            passed = passes(machine, seq, level)
            if passed <= 0:
                if passed < 0:
                    return seq.reason
                continue
        if level < seq.n_positive - 1:
            level += 1
            enter(seq, level)
            continue
        status = emit_match(machine, seq, level)
        if status != Status.FINE:
            return status
        if result.ends.size >= MATCH_CHUNK and machine.in_turns and not seq.is_read:
            seq.level = level
            return Status.MORE
    return Status.FINE


def is_plain(machine, seq):
    """Is every event that the last level finds a match, with values as they are?"""
    row: cython.pointer(cython.const[LevelRow]) = seq.levels + seq.search + seq.n_positive - 1
    if seq.program >= 0 or machine.lineage.is_wanted or row.n_tests > 0 or not seq.settings & ORDERED:
        return False
    for i in range(row.n_absences):
        if not seq.absences[row.first_absence + i].bounds:
            return False
    return seq.by_deadline or (seq.settings & WINDOW_EARLY) != 0


def emit_plain(machine, seq, ring, component):
    """What `search` would do at the last level, without binding the events: twice as fast, and most of the time of many matches."""
    level: int64_t = seq.n_positive - 1
    result: cython.pointer(Result) = cython.address(machine.streams[seq.stream].result)
    number: int64_t = seq.cursor[level]
    low: int64_t = seq.low[level]
    high: int64_t = seq.bound[seq.levels[seq.search + level - 1].component].end
    first: int64_t = seq.components[component].first_slot
    n: int64_t = result.ends.size
    n_before: int64_t = n
    while number >= ring.tail:
        words = event_at(ring, number)
        if words[EVENT_END] < low:
            break
        number = words[EVENT_BELOW]
        prefetch(event_at(ring, number))
        if words[EVENT_END] >= high:
            continue
        if n == 0 and not (push(cython.address(machine.touched), seq.stream) and push(cython.address(machine.filled), seq.stream)):
            return Status.NO_MEMORY
        if n == result.ends.capacity and not reserve_rows(result, 2 * n + 1024):
            return Status.NO_MEMORY
        flags = cython.cast(cython.pointer(uint8_t), words + EVENT_HEADER + ring.n_slots)
        result.starts.data[n] = min(seq.since[level - 1], words[EVENT_START])
        result.ends.data[n] = seq.tick
        for i in range(result.n_columns):
            slot = seq.items[i] - first
            if 0 <= slot < ring.n_slots:
                result.columns[i].data[n] = words[EVENT_HEADER + slot]
                result.flags[i].data[n] = flags[slot]
            else:
                result.columns[i].data[n] = seq.values[seq.items[i]]
                result.flags[i].data[n] = seq.flags[seq.items[i]]
        n += 1
        result.ends.size = n
        if n >= MATCH_CHUNK and machine.in_turns and not seq.is_read:
            break
    seq.cursor[level] = number
    status: Status = count_work(machine, n - n_before)
    if status != Status.FINE:
        return status
    return Status.MORE if n >= MATCH_CHUNK and machine.in_turns and not seq.is_read else Status.FINE


def fits(seq, level, end):
    """Is an event in order with those that are bound?"""
    row: cython.pointer(cython.const[LevelRow]) = seq.levels + seq.search + level
    if level == 0:
        return True
    if seq.settings & ORDERED:
        return end < seq.bound[(row - 1).component].end
    for i in range(level):
        if seq.bound[seq.levels[seq.search + i].component].end == end:
            return False
    return True


def bind(seq, component, words):
    bound: cython.pointer(Bound) = seq.bound + component
    bound.end = words[EVENT_END]
    bound.start = words[EVENT_START]
    bound.rip = words[EVENT_RIP]
    bound.absent = words[EVENT_ABSENT]
    bound.node = words[EVENT_NODE]
    bound.tag = words[EVENT_TAG]
    bind_slots(seq, component, words)


def bind_slots(seq, component, words):
    n: int64_t = seq.rings[component].n_slots
    first: int64_t = seq.components[component].first_slot
    flags: cython.pointer(cython.const[uint8_t]) = cython.cast(cython.pointer(cython.const[uint8_t]), words + EVENT_HEADER + n)
    for i in range(n):
        seq.values[first + i] = words[EVENT_HEADER + i]
        seq.flags[first + i] = flags[i]


def passes(machine, seq, level):
    """Can an alternative still be satisfied, after what is tested at this level? -1 if that cannot be known: `reason` says why."""
    row: cython.pointer(cython.const[LevelRow]) = seq.levels + seq.search + level
    for i in range(row.n_tests):
        test = seq.tests + row.first_test + i
        mine = seq.alive[level] if test.alternative < 0 else seq.alive[level] & (cython.cast(uint64_t, 1) << test.alternative)
        if mine == 0:
            continue
        outcome = holds(machine, seq, test.program)
        if outcome == NO:
            seq.alive[level] &= ~mine
            if seq.alive[level] == 0:
                return 0
        elif outcome == FAILED:
            seq.failed[level] |= mine
            seq.fault_program = test.program
        elif outcome == STOPPED:
            return -1
    for i in range(row.n_absences):
        absence = seq.absences + row.first_absence + i
        mine = seq.alive[level]
        if absence.alternative >= 0:
            mine &= cython.cast(uint64_t, 1) << absence.alternative
        if absence.bounds or mine == 0:
            continue
        outcome = is_there(machine, seq, absence)
        if outcome == YES:
            seq.alive[level] &= ~mine
            if seq.alive[level] == 0:
                return 0
        elif outcome == FAILED:
            seq.failed[level] |= mine
            seq.fault_program = absence.program
        elif outcome == STOPPED:
            return -1
    return 1


def holds(machine, seq, program):
    """Is a condition on the bound events true?"""
    frame: cython.pointer(Frame) = cython.address(machine.frames.state)
    frame.slots = seq.values
    frame.slot_flags = seq.flags
    if evaluate_one(code_of(machine, program), 0, frame, machine.strings) < 0:
        seq.reason = Status.NO_MEMORY
        return STOPPED
    if frame.flags[0] != 0:
        return FAILED if frame.flags[0] == IS_ERROR else NO
    return YES if frame.values[0] != 0 else NO


def is_there(machine, seq, absence):
    """Is an event of a negated component in the way? One that is makes up for others of which nobody knows."""
    component: int64_t = absence.component
    ring: cython.pointer(Ring) = seq.rings + component
    number: int64_t = absent_from(seq, absence)
    found: cython.int = NO
    if absence.scope == BEFORE:
        low = window_begin(seq.bound[seq.levels[seq.search].component].end, seq.within)
    else:
        low = seq.bound[component - 1].end
    while number >= ring.tail:
        words = event_at(ring, number)
        if words[EVENT_END] < low or (words[EVENT_END] == low and absence.scope != BEFORE):
            break
        if absence.program < 0:
            return YES
        bind_slots(seq, component, words)
        outcome = holds(machine, seq, absence.program)
        if outcome == YES or outcome == STOPPED:
            return outcome
        if outcome == FAILED:
            found = FAILED
        seq.reason = count_work(machine, 1)
        if seq.reason != Status.FINE:
            return STOPPED
        number = words[EVENT_BELOW]
    return found


def emit_match(machine, seq, level):
    """The bound events are a match, unless it cannot be calculated whether they are."""
    frame: cython.pointer(Frame) = cython.address(machine.frames.state)
    result: cython.pointer(Result) = cython.address(machine.streams[seq.stream].result)
    values: cython.pointer(cython.const[int64_t]) = seq.values
    flags: cython.pointer(cython.const[uint8_t]) = seq.flags
    node: int64_t = -1
    if not seq.by_deadline and not seq.settings & WINDOW_EARLY and is_past(first_end(seq), seq.tick, seq.within):
        return Status.FINE
    if (seq.alive[level] & ~seq.failed[level]) == 0:
        return fault(machine, seq, seq.fault_program)
    if seq.program >= 0:
        frame.slots = seq.values
        frame.slot_flags = seq.flags
        if evaluate_one(code_of(machine, seq.program), 0, frame, machine.strings) < 0:
            return Status.NO_MEMORY
        values = frame.values
        flags = frame.flags
        for i in range(seq.n_items):
            if flags[seq.items[i]] == IS_ERROR:
                return fault(machine, seq, seq.program)
    if machine.lineage.is_wanted:
        node = match_node(machine, seq)
        if node < 0:
            return Status.NO_MEMORY
    n: int64_t = result.ends.size
    if n == 0 and not (push(cython.address(machine.touched), seq.stream) and push(cython.address(machine.filled), seq.stream)):
        return Status.NO_MEMORY
    if n == result.ends.capacity and not reserve_rows(result, 2 * n + 1024):
        return Status.NO_MEMORY
    result.starts.data[n] = seq.since[level]
    result.ends.data[n] = seq.tick
    if machine.lineage.is_wanted:
        result.lineage.data[n] = node
    for i in range(result.n_columns):
        result.columns[i].data[n] = values[seq.items[i]]
        result.flags[i].data[n] = flags[seq.items[i]]
    # The other buffers have as many rows as this one.
    result.ends.size = n + 1
    return Status.FINE


def first_end(seq):
    """When the earliest of the bound events ended."""
    end: int64_t = INT64_MAX
    for i in range(seq.n_positive):
        end = min(end, seq.bound[seq.levels[seq.search + i].component].end)
    return end


def reserve_rows(result, n):
    """Room for so many matches; the ends last, by which the others are known to have it."""
    if not grow(cython.address(result.starts), n) or not grow(cython.address(result.lineage), n):
        return False
    for c in range(result.n_columns):
        if not grow(cython.address(result.columns[c]), n) or not grow_flags(cython.address(result.flags[c]), n):
            return False
    return grow(cython.address(result.ends), n)


def fault(machine, seq, program):
    """An overflow: at the event that would have completed the match, or, if it was none, at the match."""
    machine.fault = Fault(program=program, stream=seq.stream, row=0, tick=seq.tick)
    if not seq.by_deadline:
        machine.fault.stream = seq.root_stream
        machine.fault.row = seq.root_row
    return Status.OVERFLOW


def match_node(machine, seq):
    """The node of the contributors of all bound events, in the order of the components; -1 when memory is out."""
    node: int64_t = -1
    for component in range(seq.n_components):
        if seq.components[component].is_negated:
            continue
        bound = seq.bound + component
        if bound.node < 0 and not seq.by_deadline and component == seq.root:
            bound.node = leaf_node(machine, cython.address(machine.streams[seq.root_stream].view), seq.root_row)
        elif bound.node < 0:
            # The event was stacked before anybody wanted to know contributors. Nobody is shown this leaf of no source.
            bound.node = push_node(machine, -2 - seq.stream, 0, 0, 1, 0)
        if bound.node < 0:
            return -1
        if bound.tag & IS_PRIMITIVE:
            node = push_node(machine, node, bound.node, bound.tag >> 2, bound.start, bound.end)
        else:
            node = push_node(machine, node, bound.node, bound.tag >> 2, 1, 0)
        if node < 0:
            return -1
    return node


def read_slots(machine, feed, seq, row, values, flags):
    """The values of a row that its component keeps. What could not be calculated is no value."""
    columns: cython.pointer(cython.const[int64_t]) = seq.feed_columns + feed.first_column
    for i in range(seq.components[feed.component].n_slots):
        column = cython.address(machine.columns[columns[i]])
        values[i] = column.values[row]
        flags[i] = 0 if column.flags == cython.NULL else column.flags[row] != 0
