"""From automata to programs: which values an instance keeps, and how its conditions are tested.

Comes after `build.py`; `automata.py` asks for it. Static conditions are computed once per batch into a gate column, keys are found by a
hash index, the rest is bytecode run for the instances found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from keuka.automaton.assembler import Assembler
from keuka.automaton.model import OUTPUT, Automaton, Bind, Edge, Keep, Start, State
from keuka.automaton.signatures import edge_label, slot_identity, state_signatures
from keuka.automaton.writer import PortWriter, Tuple, Writer, reads_before, words_of
from keuka.expressions import CANDIDATE, FIRST, LAST, Column, Expression, can_fail, columns, conjunction, conjuncts
from keuka.kernel import layout
from keuka.schema import Type

# How a state or a start reads its stream (`reading` in the tables).
PRIMITIVE, BY_HISTORY = 1, 2

Place = tuple[int, int]  # (side, index) of a value an instance binds


@dataclass(frozen=True)
class StateNeeds:
    """What an instance of a state must carry: values it binds, then key values computed from them; and what it reads of candidates."""

    places: tuple[Place, ...]
    computed_keys: tuple[Expression, ...]
    candidate: frozenset[int]


# -- what is needed ------------------------------------------------------------------------------------------------------


def canonical(state: State, place: Place) -> Place:
    """A value that no step of a FOLD changes is kept once: the current one is the first one."""
    side, index = place
    if side == LAST and state.update is not None and state.update[index] == Column(LAST, index, state.first[index].type, ""):
        return FIRST, index
    return place


def state_needs(automaton: Automaton, wanted: Sequence[int]) -> tuple[StateNeeds, ...]:
    """For every state the values that something later reads. Edges lead to smaller numbers, so one pass in order does."""
    needs: list[StateNeeds] = []
    for state in automaton.states:
        reads = columns(state.skip) | columns(state.take)
        after = edge_reads(state.edge, needs, wanted)
        n = len(state.first)
        reads |= {(FIRST, i) for i in after if i < n}
        if state.update is None:
            reads |= {(CANDIDATE, i - n) for i in after if i >= n}
        else:
            reads |= _update_reads(state.update, reads, {i - n for i in after if i >= n})
        bound = sorted({canonical(state, p) for p in reads if p[0] != CANDIDATE})
        computed = [own for _, own in state.conditions.keys if not isinstance(own, Column)]
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
    return reads_before(edge.steps, reads)


def port_reads(automaton: Automaton, wanted: Sequence[int], needs: Sequence[StateNeeds]) -> dict[str, set[int]]:
    """The columns of every stream that the automaton reads."""
    reads: dict[str, set[int]] = {name: set() for name in automaton.ports}
    for start in automaton.starts:
        reads[automaton.ports[start.port]] |= edge_reads(start.edge, needs, wanted)
    for state, need in zip(automaton.states, needs, strict=True):
        reads[automaton.ports[state.port]] |= reads_before(state.candidate, set(need.candidate))
    return reads


# -- code ----------------------------------------------------------------------------------------------------------------


class AutomatonWriter(PortWriter):
    """Programs and rows of one automaton. `ordinals` say where its states hold the plan's key."""

    def __init__(
        self,
        writer: Writer,
        automaton: Automaton,
        wanted: Sequence[int],
        needs: Sequence[StateNeeds],
        ordinals: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(writer, automaton.ports)
        self.automaton = automaton
        self.wanted = wanted
        self.needs = needs
        self.ordinals = ordinals
        self.first_state = len(self.rows["state"])
        self.identities = [writer.identities[name] for name in automaton.ports]

    def write(self) -> None:
        signatures = state_signatures(self.automaton, self.identities)
        for start in self.automaton.starts:
            self.start(start)
        for index, signature in enumerate(signatures):
            self.state(index, signature)

    def add_edge(self, program: int, target: int, label: bytes) -> int:
        """Adds a forward edge: what follows when a candidate was taken."""
        number = target if target == OUTPUT else self.first_state + target
        self.rows["edge"].append(layout.Edge(program, number, *words_of(label)))
        return len(self.rows["edge"]) - 1

    # -- starts ----------------------------------------------------------------------------------------------------------

    def start(self, start: Start) -> None:
        steps = start.edge.steps
        n_leading = next((i for i, s in enumerate(steps) if not isinstance(s, Keep)), len(steps))
        leading = steps[:n_leading]
        gate = -1
        if leading:
            failing = any(can_fail(s.predicate) for s in leading if isinstance(s, Keep))
            gate = self.derive(start.port, lambda asm: self.all_hold(asm, start.port, leading), failing)
        asm = Assembler(self.pool)
        self.follow(asm, Edge(steps[n_leading:], start.edge.target), self.event(asm, start.port), start.tag)
        label = edge_label(self.identities[start.port], start.edge, start.tag)
        edge = self.add_edge(asm.program(), start.edge.target, label)
        self.rows["start"].append(layout.Start(self.stream(start.port), gate, edge, int(self.automaton.primitive[start.port])))

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

    def state(self, index: int, signature: bytes) -> None:
        state, needs = self.automaton.states[index], self.needs[index]
        self.check_steps(state.port, state.candidate)
        gate = self.gate(state.port, state.candidate, state.conditions.static, CANDIDATE)
        asm = Assembler(self.pool)
        self.match(asm, index, gate)
        slots = [(state.first[place[1]].type, slot_identity(place)) for place in needs.places]
        slots += [(key.type, slot_identity(key)) for key in needs.computed_keys]
        components = {ordinal: component for component, ordinal in enumerate(self.ordinals[index] if self.ordinals else ())}
        first_key, keys = len(self.rows["key"]), state.conditions.keys
        self.rows["key"] += [layout.Key(*self.key(state, needs, own, other), components.get(i, -1)) for i, (other, own) in enumerate(keys)]
        program, edge = asm.program(), self.forward_edge(index)
        first_slot, n_slots = self.writer.add_slots(slots)
        low, high = words_of(signature)
        self.rows["state"].append(
            layout.State(
                stream=self.stream(state.port),
                program=program,
                gate=gate,
                first_slot=first_slot,
                n_slots=n_slots,
                first_key=first_key,
                n_keys=len(keys),
                window=state.window,
                edge=edge,
                signature_low=low,
                signature_high=high,
                reading=int(self.automaton.primitive[state.port]) | BY_HISTORY * state.by_history,
            )
        )

    def forward_edge(self, index: int) -> int:
        """The forward edge of a state, a program of its own: states that several queries share have one for each of them."""
        state = self.automaton.states[index]
        asm = Assembler(self.pool)
        sides_, n = self.sides(asm, index), len(state.first)
        second = sides_[CANDIDATE]
        if state.update is not None:
            update = state.update
            second = Tuple(lambda i: asm.keep(asm.value(update[i], sides_)))
        self.follow(asm, state.edge, Tuple(lambda i: sides_[FIRST][i] if i < n else second[i - n]), state.tag)
        return self.add_edge(asm.program(), state.edge.target, edge_label(b"", state.edge, state.tag))

    def key(self, state: State, needs: StateNeeds, own: Expression, other: Expression) -> tuple[int, int, int]:
        if isinstance(own, Column):
            slot = needs.places.index(canonical(state, (own.side, own.index)))
        else:
            slot = len(needs.places) + needs.computed_keys.index(own)
        if isinstance(other, Column) and not any(isinstance(s, Bind) for s in state.candidate):
            column = self.columns_of(state.port)[other.index]
        else:
            column = self.derive(
                state.port,
                lambda asm: asm.value(other, {CANDIDATE: self.candidate(asm, state.port, state.candidate)}),
                False,
            )
        return column, slot, int(own.type is Type.DOUBLE)

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

    def match(self, asm: Assembler, index: int, gate: int) -> None:
        """The program of a state: skip, take, the forward edges, and last the rebind edge of a FOLD, which may change the slots."""
        state, conditions = self.automaton.states[index], self.automaton.states[index].conditions
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
