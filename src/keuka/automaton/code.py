"""From automata to programs: which values an instance keeps, what is tested per batch, by hash, or by bytecode.

Comes after `build.py` and before the bytes of `tables.py`. Conditions of NEXT and FOLD fall into three parts (the paper's
section 4.1): terms on the candidate alone (static) are computed once per batch into a gate column, equalities between
candidate and instance become the key of a hash index, the rest is bytecode run for the instances found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from keuka.automaton.assembler import Assembler, Pool
from keuka.automaton.model import OUTPUT, Automaton, Bind, Edge, Keep, Start, State, Step
from keuka.automaton.signatures import edge_label, slot_identity, state_signatures
from keuka.expressions import CANDIDATE, FIRST, LAST, Call, Column, Expression, can_fail, columns, conjunction, conjuncts, sides
from keuka.schema import Type

# How a state or a start reads its stream (`reading` in the tables).
PRIMITIVE, BY_HISTORY = 1, 2

Place = tuple[int, int]  # (side, index) of a value an instance binds


@dataclass(frozen=True)
class Conditions:
    """The terms of a state's `skip`, by how they are tested."""

    static: tuple[Expression, ...]
    keys: tuple[tuple[Expression, Expression], ...]  # (over the candidate, over the instance)
    residual: tuple[Expression, ...]


@dataclass(frozen=True)
class StateNeeds:
    """What an instance of a state must carry: values it binds, then key values computed from them; and what it reads of candidates."""

    places: tuple[Place, ...]
    computed_keys: tuple[Expression, ...]
    candidate: frozenset[int]


@dataclass
class Derived:
    """Columns computed once per batch, those of all streams of a plan: (stream, program, must every row be free of errors?).

    Columns are numbered over all streams: first those that streams have of their own, then these.
    """

    n_raw: int
    columns: list[tuple[str, int, bool]] = field(default_factory=list)

    def add(self, stream: str, program: int, must_hold: bool) -> int:
        self.columns.append((stream, program, must_hold))
        return self.n_raw + len(self.columns) - 1


@dataclass(frozen=True)
class EdgeCode:
    """A forward edge: what follows when a candidate was taken."""

    program: int
    target: int  # state of the automaton, or OUTPUT
    label: bytes


@dataclass(frozen=True)
class StateCode:
    stream: str
    program: int
    gate: int
    slots: tuple[tuple[Type, int], ...]  # type, and which value of the tuple it holds (`slot_identity`)
    keys: tuple[tuple[int, int, bool, int], ...]  # (column of the stream, slot, is it a double?, component of the plan's key or -1)
    window: int
    reading: int
    edge: EdgeCode
    signature: bytes


@dataclass(frozen=True)
class StartCode:
    stream: str
    gate: int
    reading: int
    edge: EdgeCode


@dataclass(frozen=True)
class OperatorCode:
    """One automaton, ready for the tables."""

    ports: tuple[str, ...]
    starts: tuple[StartCode, ...]
    states: tuple[StateCode, ...]


def split_conditions(state: State, indices: bool) -> Conditions:
    """Sort the terms of `skip`. Terms that can fail stay together in one conjunction, where a false term absorbs the failure."""
    static, keys, residual = [], [], []
    for term in conjuncts(state.skip):
        if sides(term) <= {CANDIDATE}:
            static.append(term)
        elif indices and (key := _key_of(term)):
            keys.append(key)
        else:
            residual.append(term)
    return Conditions(tuple(static), tuple(keys), tuple(residual))


def _key_of(term: Expression) -> tuple[Expression, Expression] | None:
    if not isinstance(term, Call) or term.op != "eq" or can_fail(term):
        return None
    left, right = term.args
    if sides(left) == {CANDIDATE} and sides(right) and CANDIDATE not in sides(right):
        return left, right
    if sides(right) == {CANDIDATE} and sides(left) and CANDIDATE not in sides(left):
        return right, left
    return None


# -- what is needed ------------------------------------------------------------------------------------------------------


def canonical(state: State, place: Place) -> Place:
    """A value that no step of a FOLD changes is kept once: the current one is the first one."""
    side, index = place
    if side == LAST and state.update is not None and state.update[index] == Column(LAST, index, state.first[index].type, ""):
        return FIRST, index
    return place


def state_needs(automaton: Automaton, wanted: Sequence[int], indices: bool) -> tuple[StateNeeds, ...]:
    """For every state the values that something later reads. Edges lead to smaller numbers, so one pass in order does."""
    needs: list[StateNeeds] = []
    for state in automaton.states:
        conditions = split_conditions(state, indices)
        reads = columns(state.skip) | columns(state.take)
        after = edge_reads(state.edge, needs, wanted)
        n = len(state.first)
        reads |= {(FIRST, i) for i in after if i < n}
        if state.update is None:
            reads |= {(CANDIDATE, i - n) for i in after if i >= n}
        else:
            reads |= _update_reads(state.update, reads, {i - n for i in after if i >= n})
        bound = sorted({canonical(state, p) for p in reads if p[0] != CANDIDATE})
        computed = [own for _, own in conditions.keys if not isinstance(own, Column)]
        of_candidate = frozenset([index for side, index in reads if side == CANDIDATE])
        needs.append(StateNeeds(tuple(bound), tuple(dict.fromkeys(computed)), of_candidate))
    return tuple(needs)


def _update_reads(update: tuple[Expression, ...], reads: set[Place], after: set[int]) -> set[Place]:
    """A step of a FOLD needs what computes the values that are needed after it, in turn; and all that can fail."""
    found = set(reads)
    pending = after | {index for side, index in reads if side == LAST} | {i for i, e in enumerate(update) if can_fail(e)}
    done: set[int] = set()
    while pending:
        index = pending.pop()
        done.add(index)
        found |= columns(update[index])
        pending |= {i for side, i in found if side == LAST} - done
    return found


def edge_reads(edge: Edge, needs: Sequence[StateNeeds], wanted: Sequence[int]) -> set[int]:
    """The columns of the tuple at the beginning of the edge that something reads."""
    reads = set(wanted) if edge.target == OUTPUT else {index for _, index in needs[edge.target].places}
    for step in reversed(edge.steps):
        reads = reads_before(step, reads)
    return reads


def reads_before(step: Step, reads: set[int]) -> set[int]:
    if isinstance(step, Keep):
        return reads | {index for _, index in columns(step.predicate)}
    # An item that can fail is evaluated whether it is read or not.
    chosen = [item for i, item in enumerate(step.items) if i in reads or can_fail(item)]
    return {index for item in chosen for _, index in columns(item)}


def port_reads(automaton: Automaton, wanted: Sequence[int], indices: bool) -> dict[str, set[int]]:
    """The columns of every stream that the automaton reads."""
    needs = state_needs(automaton, wanted, indices)
    reads: dict[str, set[int]] = {name: set() for name in automaton.ports}
    for start in automaton.starts:
        reads[automaton.ports[start.port]] |= edge_reads(start.edge, needs, wanted)
    for state, need in zip(automaton.states, needs, strict=True):
        used = set(need.candidate)
        for step in reversed(state.candidate):
            used = reads_before(step, used)
        reads[automaton.ports[state.port]] |= used
    return reads


# -- code ----------------------------------------------------------------------------------------------------------------


class Tuple:
    """A tuple of values that programs compute when first asked for: index -> register."""

    def __init__(self, compute: Callable[[int], int]) -> None:
        self._compute = compute
        self._registers: dict[int, int] = {}

    def __getitem__(self, index: int) -> int:
        if index not in self._registers:
            self._registers[index] = self._compute(index)
        return self._registers[index]


@dataclass(frozen=True)
class Streams:
    """What automata of one plan read: by stream the column of each attribute, and what the stream is (`signatures.py`)."""

    layouts: Mapping[str, Mapping[int, int]]
    identities: Mapping[str, bytes]


def generate(
    automaton: Automaton,
    streams: Streams,
    wanted: Sequence[int],
    pool: Pool,
    derived: Derived,
    first_state: int,
    indices: bool,
    ordinals: Sequence[tuple[int, ...]],
) -> OperatorCode:
    """Programs of one automaton. `first_state` numbers its states in the tables, `ordinals` say where they hold the plan's key."""
    return _Generator(automaton, streams, wanted, pool, derived, first_state, indices, ordinals).operator()


class PortCode:
    """Columns of the streams that an operator reads: as they are, or computed per batch by the steps that lead to what it reads."""

    def __init__(self, ports: tuple[str, ...], streams: Streams, pool: Pool, derived: Derived) -> None:
        self.ports = ports
        self.layouts = streams.layouts
        self.identities = [streams.identities[name] for name in ports]
        self.pool = pool
        self.derived = derived

    def event(self, asm: Assembler, port: int) -> Tuple:
        layout = self.layouts[self.ports[port]]
        return Tuple(lambda index: asm.load_event(layout[index]))

    def candidate(self, asm: Assembler, port: int, steps: tuple[Step, ...]) -> Tuple:
        """The tuple after the steps, predicates left aside."""
        values = self.event(asm, port)
        for step in steps:
            if isinstance(step, Bind):
                values = self.bound(asm, step, values)
        return values

    def bound(self, asm: Assembler, step: Bind, before: Tuple) -> Tuple:
        return Tuple(lambda index: asm.keep(asm.value(step.items[index], {FIRST: before})))

    def derive(self, port: int, write: Callable[[Assembler], int], must_hold: bool) -> int:
        """Add a derived column and return its number."""
        asm = Assembler(self.pool)
        asm.finish_column(write(asm))
        return self.derived.add(self.ports[port], asm.program(), must_hold)

    def holds(self, asm: Assembler, port: int, steps: Sequence[Step]) -> int | None:
        """A register that says whether the predicates of the steps hold one after the other; None if there are none."""
        values = self.event(asm, port)
        registers = []
        for step in steps:
            if isinstance(step, Bind):
                values = self.bound(asm, step, values)
            else:
                registers.append(asm.value(step.predicate, {FIRST: values}))
        return asm.all_in_turn(registers) if registers else None

    def check_steps(self, port: int, steps: tuple[Step, ...]) -> None:
        """Evaluation is eager: what can fail in a candidate's own steps is computed for every event, and must not fail."""
        for i, step in enumerate(steps):
            if isinstance(step, Keep) and can_fail(step.predicate):
                self.derive(port, partial(self._holds_or_true, port=port, steps=steps[: i + 1]), True)
            if isinstance(step, Bind):
                for item in filter(can_fail, step.items):
                    self.derive(port, partial(self._if_reached, port=port, steps=steps[:i], item=item), True)

    def _holds_or_true(self, asm: Assembler, port: int, steps: Sequence[Step]) -> int:
        register = self.holds(asm, port, steps)
        assert register is not None
        return register

    def _if_reached(self, asm: Assembler, port: int, steps: tuple[Step, ...], item: Expression) -> int:
        reached = self.holds(asm, port, steps)
        value = asm.value(item, {FIRST: self.candidate(asm, port, steps)})
        return value if reached is None else asm.value_if(reached, value)


class _Generator(PortCode):
    def __init__(
        self,
        automaton: Automaton,
        streams: Streams,
        wanted: Sequence[int],
        pool: Pool,
        derived: Derived,
        first_state: int,
        indices: bool,
        ordinals: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(automaton.ports, streams, pool, derived)
        self.automaton = automaton
        self.ordinals = ordinals
        self.wanted = wanted
        self.first_state = first_state
        self.indices = indices
        self.needs = state_needs(automaton, wanted, indices)

    def operator(self) -> OperatorCode:
        signatures = state_signatures(self.automaton, self.identities, self.indices)
        starts = tuple([self.start(s) for s in self.automaton.starts])
        states = tuple([self.state(i, signatures[i]) for i in range(len(self.automaton.states))])
        return OperatorCode(self.automaton.ports, starts, states)

    # -- starts ----------------------------------------------------------------------------------------------------------

    def start(self, start: Start) -> StartCode:
        steps = start.edge.steps
        n_leading = next((i for i, s in enumerate(steps) if not isinstance(s, Keep)), len(steps))
        leading = steps[:n_leading]
        gate = -1
        if leading:
            failing = any(can_fail(s.predicate) for s in leading if isinstance(s, Keep))
            gate = self.derive(start.port, lambda asm: self._holds_or_true(asm, start.port, leading), failing)
        asm = Assembler(self.pool)
        self.follow(asm, Edge(steps[n_leading:], start.edge.target), self.event(asm, start.port), start.tag)
        label = edge_label(self.identities[start.port], start.edge, start.tag)
        reading = int(self.automaton.primitive[start.port])
        return StartCode(self.automaton.ports[start.port], gate, reading, EdgeCode(asm.program(), start.edge.target, label))

    def follow(self, asm: Assembler, edge: Edge, values: Tuple, tag: int) -> None:
        """Code of a forward edge for a tuple."""
        for step in edge.steps:
            if isinstance(step, Keep):
                asm.exit_unless(asm.value(step.predicate, {FIRST: values}))
            else:
                values = self.bound(asm, step, values)
                for i, item in enumerate(step.items):
                    if can_fail(item):
                        asm.check(values[i])
        if edge.target == OUTPUT:
            asm.emit(OUTPUT, tag, [values[i] for i in self.wanted])
        else:
            self.enter(asm, edge.target, tag, lambda place: values[place[1]])

    def enter(self, asm: Assembler, target: int, tag: int, value_of: Callable[[Place], int]) -> None:
        """Emit an instance of a state, given the registers of the values it binds."""
        needs = self.needs[target]
        state = self.automaton.states[target]
        values = {side: Tuple(lambda i, side=side: value_of(canonical(state, (side, i)))) for side in (FIRST, LAST)}  # type: ignore[misc]
        registers = [value_of(place) for place in needs.places]
        registers += [asm.value(key, values) for key in needs.computed_keys]
        asm.emit(self.first_state + target, tag, registers)

    # -- states ----------------------------------------------------------------------------------------------------------

    def state(self, index: int, signature: bytes) -> StateCode:
        state, needs = self.automaton.states[index], self.needs[index]
        conditions = split_conditions(state, self.indices)
        self.check_steps(state.port, state.candidate)
        gate = self.gate(state, conditions)
        asm = Assembler(self.pool)
        self.match(asm, index, conditions, gate)
        slots = [(state.first[place[1]].type, slot_identity(place)) for place in needs.places]
        slots += [(key.type, slot_identity(key)) for key in needs.computed_keys]
        components = {ordinal: component for component, ordinal in enumerate(self.ordinals[index] if self.ordinals else ())}
        keys = tuple([(*self.key(state, needs, own, other), components.get(i, -1)) for i, (other, own) in enumerate(conditions.keys)])
        stream = self.automaton.ports[state.port]
        reading = int(self.automaton.primitive[state.port]) | BY_HISTORY * state.by_history
        return StateCode(stream, asm.program(), gate, tuple(slots), keys, state.window, reading, self.edge(index), signature)

    def edge(self, index: int) -> EdgeCode:
        """The forward edge of a state, a program of its own: states that several queries share have one for each of them."""
        state = self.automaton.states[index]
        asm = Assembler(self.pool)
        sides_, n = self.sides(asm, index), len(state.first)
        second = sides_[CANDIDATE]
        if state.update is not None:
            update = state.update
            second = Tuple(lambda i: asm.keep(asm.value(update[i], sides_)))
        self.follow(asm, state.edge, Tuple(lambda i: sides_[FIRST][i] if i < n else second[i - n]), state.tag)
        return EdgeCode(asm.program(), state.edge.target, edge_label(b"", state.edge, state.tag))

    def gate(self, state: State, conditions: Conditions) -> int:
        def write(asm: Assembler) -> int:
            own = self.holds(asm, state.port, state.candidate)
            values = self.candidate(asm, state.port, state.candidate)
            terms = (asm.value(term, {CANDIDATE: values}) for term in conditions.static)
            return asm.all_of(chain([] if own is None else [own], terms))

        if not conditions.static and not any(isinstance(s, Keep) for s in state.candidate):
            return -1
        return self.derive(state.port, write, False)

    def key(self, state: State, needs: StateNeeds, own: Expression, other: Expression) -> tuple[int, int, bool]:
        if isinstance(own, Column):
            slot = needs.places.index(canonical(state, (own.side, own.index)))
        else:
            slot = len(needs.places) + needs.computed_keys.index(own)
        layout = self.layouts[self.automaton.ports[state.port]]
        if isinstance(other, Column) and not any(isinstance(s, Bind) for s in state.candidate):
            column = layout[other.index]
        else:
            column = self.derive(
                state.port,
                lambda asm: asm.value(other, {CANDIDATE: self.candidate(asm, state.port, state.candidate)}),
                False,
            )
        return column, slot, own.type is Type.DOUBLE

    def sides(self, asm: Assembler, index: int) -> dict[int, Tuple]:
        """The values an instance of the state and its candidate bind."""
        state = self.automaton.states[index]
        slots = {place: slot for slot, place in enumerate(self.needs[index].places)}
        sides_: dict[int, Tuple] = {
            side: Tuple(lambda i, side=side: asm.load_slot(slots[canonical(state, (side, i))]))  # type: ignore[misc]
            for side in (FIRST, LAST)
        }
        sides_[CANDIDATE] = self.candidate(asm, state.port, state.candidate)
        return sides_

    def match(self, asm: Assembler, index: int, conditions: Conditions, gate: int) -> None:
        """The program of a state: skip, take, the forward edges, and last the rebind edge of a FOLD, which may change the slots."""
        state = self.automaton.states[index]
        sides_ = self.sides(asm, index)
        # The gate lets errors through; they count unless another term is false.
        fallible = [asm.load_event(gate)] if any(can_fail(term) for term in conditions.static) else []
        if fallible or conditions.residual:
            asm.exit_unless(asm.all_of(chain(fallible, (asm.value(term, sides_) for term in conditions.residual))))
        asm.affect()
        if state.take != state.skip and conjuncts(state.take):
            asm.exit_unless(asm.value(conjunction(conjuncts(state.take)), sides_))
        if state.update is None:
            asm.forward()
            return
        update = state.update
        current = Tuple(lambda i: asm.keep(asm.value(update[i], sides_)))
        for i, expression in enumerate(update):
            if can_fail(expression):
                asm.check(current[i])
        asm.forward()
        self.enter(asm, index, state.tag, lambda place: sides_[FIRST][place[1]] if place[0] == FIRST else current[place[1]])
