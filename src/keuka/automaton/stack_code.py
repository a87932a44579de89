"""From stacks to programs: which values of an event its stack keeps, what is tested per batch, and what while matches are constructed.

Comes after `stacks.py` and before `tables.py`. Programs see the bound events as one row of slots, those of component after component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from keuka.automaton.assembler import Assembler, Pool
from keuka.automaton.code import Derived, PortCode, Streams, Tuple, reads_before
from keuka.automaton.model import Bind, Keep
from keuka.automaton.signatures import slot_identity
from keuka.automaton.stacks import Absence, Feed, Level, Stacks
from keuka.expressions import FIRST, Call, Column, Expression, can_fail, columns
from keuka.schema import Type

# Where an event of a negated component is in the way (`scope` in the tables).
BETWEEN, BEFORE, AFTER = 0, 1, 2
# How stacks are used (`settings` of a sequence in the tables).
ORDERED, RIPS, PRUNED, WINDOW_EARLY, WAITS = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class FeedCode:
    stream: str
    gate: int
    key: int  # column, or -1
    columns: tuple[int, ...]  # by slot of the component
    tag: int
    reading: int


@dataclass(frozen=True)
class ComponentCode:
    negated: bool
    keyed: int  # 0: no, 1: yes, 2: yes, and no other component that occurs is
    first_only: bool
    negated_before: int  # the negated component right before it, or -1
    slots: tuple[tuple[Type, int], ...]  # type, and which value it holds
    feeds: tuple[FeedCode, ...]


@dataclass(frozen=True)
class LevelCode:
    component: int
    tests: tuple[tuple[int, int], ...]  # (program, alternative)
    absences: tuple[tuple[int, int, int, int, int], ...]  # (component, scope, alternative, program or -1, does it bound the level?)


@dataclass(frozen=True)
class StackCode:
    """One sequence, ready for the tables. `operands` are registers of `program`, or slots if there is none (-1)."""

    ports: tuple[str, ...]
    components: tuple[ComponentCode, ...]
    searches: tuple[tuple[LevelCode, ...], ...]
    within: int
    settings: int
    n_alternatives: int
    key_type: Type | None
    program: int
    operands: tuple[int, ...]


def kept(stacks: Stacks, wanted: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """By component the attributes that something reads after the scan."""
    read = [stacks.items[i] for i in _computed(stacks, wanted)]
    for level in chain.from_iterable(stacks.searches):
        read += [term for test in level.tests for term in test.terms] + [term for absence in level.absences for term in absence.terms]
    used = set(chain.from_iterable([columns(expression) for expression in read]))
    return tuple([tuple(sorted([index for side, index in used if side == i])) for i in range(len(stacks.components))])


def _computed(stacks: Stacks, wanted: Sequence[int]) -> list[int]:
    """The items that are wanted, and those that must be computed because they can fail."""
    return [*wanted, *[i for i, item in enumerate(stacks.items) if i not in wanted and can_fail(item)]]


def stack_reads(stacks: Stacks, wanted: Sequence[int]) -> dict[str, set[int]]:
    """The columns of every stream that the stacks read."""
    reads: dict[str, set[int]] = {name: set() for name in stacks.ports}
    for component, attributes in zip(stacks.components, kept(stacks, wanted), strict=True):
        used = {*attributes, *[index for term in component.scanned for _, index in columns(term)]}
        used |= set() if component.key is None else {component.key}
        for feed in component.feeds:
            before = used
            for step in reversed(feed.steps):
                before = reads_before(step, before)
            reads[stacks.ports[feed.port]] |= before
    return reads


def generate_stacks(stacks: Stacks, streams: Streams, wanted: Sequence[int], pool: Pool, derived: Derived) -> StackCode:
    return _Generator(stacks, streams, wanted, pool, derived).code()


class _Generator(PortCode):
    def __init__(self, stacks: Stacks, streams: Streams, wanted: Sequence[int], pool: Pool, derived: Derived) -> None:
        super().__init__(stacks.ports, streams, pool, derived)
        self.stacks = stacks
        self.wanted = wanted
        self.kept = kept(stacks, wanted)
        self.slots: dict[tuple[int, int], int] = {}
        for i, attributes in enumerate(self.kept):
            for attribute in attributes:
                self.slots[i, attribute] = len(self.slots)

    def code(self) -> StackCode:
        stacks = self.stacks
        components = tuple([self.component(i) for i in range(len(stacks.components))])
        searches = tuple([tuple([self.level(level) for level in search]) for search in stacks.searches])
        rules = stacks.rules
        settings = ORDERED * stacks.ordered | RIPS * rules.stacks | (PRUNED | WINDOW_EARLY) * rules.window | WAITS * stacks.waits
        program, operands = self.output()
        return StackCode(
            stacks.ports, components, searches, stacks.within, settings, stacks.n_alternatives, stacks.key_type, program, operands
        )

    def component(self, index: int) -> ComponentCode:
        component, before = self.stacks.components[index], self.stacks.negated_before[index]
        slots = tuple([(component.schema[i].type, slot_identity((FIRST, i))) for i in self.kept[index]])
        feeds = tuple([self.feed(index, feed) for feed in component.feeds])
        alone = [i for i in self.stacks.positive if self.stacks.components[i].key is not None] == [index]
        keyed = 0 if component.key is None else 2 if alone else 1
        return ComponentCode(component.negated, keyed, component.first_only, -1 if before is None else before, slots, feeds)

    def feed(self, index: int, feed: Feed) -> FeedCode:
        component = self.stacks.components[index]
        self.check_steps(feed.port, feed.steps)
        key = -1 if component.key is None else self.key(feed, component.key, component.as_double)
        kept = tuple([self.attribute(feed, i) for i in self.kept[index]])
        reading = int(self.stacks.primitive[feed.port])
        return FeedCode(self.ports[feed.port], self.gate(index, feed), key, kept, feed.tag, reading)

    def key(self, feed: Feed, index: int, as_double: bool) -> int:
        """The column that holds the key."""
        if not as_double:
            return self.attribute(feed, index)
        widened = Call("to_double", (Column(FIRST, index, Type.INTEGER, ""),), Type.DOUBLE)
        return self.derive(feed.port, lambda asm: asm.value(widened, {FIRST: self.candidate(asm, feed.port, feed.steps)}), False)

    def attribute(self, feed: Feed, index: int) -> int:
        """The column that holds an attribute of the component."""
        plain: int | None = index
        for step in reversed(feed.steps):
            if isinstance(step, Bind) and plain is not None:
                item = step.items[plain]
                plain = item.index if isinstance(item, Column) else None
        if plain is not None:
            return self.layouts[self.ports[feed.port]][plain]
        return self.derive(feed.port, lambda asm: self.candidate(asm, feed.port, feed.steps)[index], False)

    def gate(self, index: int, feed: Feed) -> int:
        scanned = self.stacks.components[index].scanned

        def write(asm: Assembler) -> int:
            own = self.holds(asm, feed.port, feed.steps)
            values = self.candidate(asm, feed.port, feed.steps)
            return asm.all_of(chain([] if own is None else [own], (asm.value(term, {FIRST: values}) for term in scanned)))

        if not scanned and not any(isinstance(step, Keep) for step in feed.steps):
            return -1
        return self.derive(feed.port, write, False)

    # -- construction ------------------------------------------------------------------------------------------------------

    def events(self, asm: Assembler) -> Mapping[int, Tuple]:
        """The values of the bound events, by component."""
        return {
            i: Tuple(lambda attribute, i=i: asm.load_slot(self.slots[i, attribute]))  # type: ignore[misc]
            for i in range(len(self.stacks.components))
        }

    def level(self, level: Level) -> LevelCode:
        tests = []
        for test in level.tests:
            # What can fail is tested by itself: it is no failure if another term is false.
            sure = [term for term in test.terms if not can_fail(term)]
            programs = [*([sure] if sure else []), *[[term] for term in test.terms if can_fail(term)]]
            tests += [(self.condition(terms), test.alternative) for terms in programs]
        return LevelCode(level.component, tuple(tests), tuple([self.absence(absence) for absence in level.absences]))

    def absence(self, absence: Absence) -> tuple[int, int, int, int, int]:
        positive = self.stacks.positive
        scope = BEFORE if absence.component < positive[0] else AFTER if absence.component > positive[-1] else BETWEEN
        program = self.condition(absence.terms) if absence.terms else -1
        return absence.component, scope, absence.alternative, program, int(absence.bounds)

    def condition(self, terms: Sequence[Expression]) -> int:
        asm = Assembler(self.pool, named=True)
        events = self.events(asm)
        asm.finish_column(asm.all_of(asm.value(term, events) for term in terms))
        return asm.program()

    def output(self) -> tuple[int, tuple[int, ...]]:
        """Matches of plain attributes are copied; others have a program."""
        items = [self.stacks.items[i] for i in _computed(self.stacks, self.wanted)]
        if all(isinstance(item, Column) for item in items):
            return -1, tuple([self.slots[item.side, item.index] for item in items if isinstance(item, Column)])
        asm = Assembler(self.pool, named=True)
        events = self.events(asm)
        registers = [asm.keep(asm.value(item, events)) for item in items]
        return asm.program(), tuple(registers)
