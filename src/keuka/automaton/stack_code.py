"""From stacks to programs: which values of an event its stack keeps, what is tested per batch, and what while matches are constructed.

Comes after `stacks.py`; `sequences.py` asks for it. Programs see the bound events as one row of slots, those of component after component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from keuka.automaton.assembler import Assembler
from keuka.automaton.model import Bind
from keuka.automaton.signatures import slot_identity
from keuka.automaton.stacks import Absence, Feed, Level, Stacks
from keuka.automaton.writer import TYPE_CODES, PortWriter, Tuple, Writer, reads_before
from keuka.expressions import FIRST, Call, Column, Expression, can_fail, columns
from keuka.kernel import layout
from keuka.schema import Type

# Where an event of a negated component is in the way (`scope` in the tables).
BETWEEN, BEFORE, AFTER = 0, 1, 2
# How stacks are used (`settings` of a sequence in the tables).
ORDERED, RIPS, PRUNED, WINDOW_EARLY, WAITS = 1, 2, 4, 8, 16

Kept = tuple[tuple[int, ...], ...]  # by component: the attributes that something reads after the scan


def kept_attributes(stacks: Stacks, wanted: Sequence[int]) -> Kept:
    read = [stacks.items[i] for i in _computed(stacks, wanted)]
    for level in chain.from_iterable(stacks.searches):
        read += [term for test in level.tests for term in test.terms] + [term for absence in level.absences for term in absence.terms]
    used = set(chain.from_iterable([columns(expression) for expression in read]))
    return tuple([tuple(sorted([index for side, index in used if side == i])) for i in range(len(stacks.components))])


def _computed(stacks: Stacks, wanted: Sequence[int]) -> list[int]:
    """The items that are wanted, and those that must be computed because they can fail."""
    return [*wanted, *[i for i, item in enumerate(stacks.items) if i not in wanted and can_fail(item)]]


def stack_reads(stacks: Stacks, kept: Kept) -> dict[str, set[int]]:
    """The columns of every stream that the stacks read."""
    reads: dict[str, set[int]] = {name: set() for name in stacks.ports}
    for component, attributes in zip(stacks.components, kept, strict=True):
        used = {*attributes, *[index for term in component.scanned for _, index in columns(term)]}
        used |= set() if component.key is None else {component.key}
        for feed in component.feeds:
            reads[stacks.ports[feed.port]] |= reads_before(feed.steps, used)
    return reads


class StackWriter(PortWriter):
    """Programs and rows of one sequence."""

    def __init__(self, writer: Writer, stacks: Stacks, wanted: Sequence[int], kept: Kept) -> None:
        super().__init__(writer, stacks.ports)
        self.stacks = stacks
        self.wanted = wanted
        self.kept = kept
        self.slots: dict[tuple[int, int], int] = {}
        for i, attributes in enumerate(self.kept):
            for attribute in attributes:
                self.slots[i, attribute] = len(self.slots)

    def write(self) -> None:
        stacks, rows, rules = self.stacks, self.rows, self.stacks.rules
        first_component, first_level, first_item = len(rows["component"]), len(rows["level"]), len(rows["item"])
        for i in range(len(stacks.components)):
            self.component(i)
        for level in chain.from_iterable(stacks.searches):
            self.level(level)
        program, operands = self.output()
        rows["item"].extend(operands)
        rows["sequence"].append(
            layout.Sequence(
                operator=len(rows["operator"]),
                first_component=first_component,
                n_components=len(stacks.components),
                first_level=first_level,
                n_levels=len(rows["level"]) - first_level,
                within=stacks.within,
                settings=ORDERED * stacks.ordered | RIPS * rules.stacks | (PRUNED | WINDOW_EARLY) * rules.window | WAITS * stacks.waits,
                n_alternatives=stacks.n_alternatives,
                key_type=-1 if stacks.key_type is None else TYPE_CODES[stacks.key_type],
                program=program,
                first_item=first_item,
                n_items=len(operands),
            )
        )

    def component(self, index: int) -> None:
        component, before = self.stacks.components[index], self.stacks.negated_before[index]
        first_feed = len(self.rows["feed"])
        for feed in component.feeds:
            self.feed(index, feed)
        alone = [i for i in self.stacks.positive if self.stacks.components[i].key is not None] == [index]
        slots = self.writer.add_slots([(component.schema[i].type, slot_identity((FIRST, i))) for i in self.kept[index]])
        self.rows["component"].append(
            layout.Component(
                is_negated=int(component.negated),
                is_keyed=0 if component.key is None else 2 if alone else 1,  # 2: no other component that occurs is
                first_only=int(component.first_only),
                negated_before=-1 if before is None else before,
                first_slot=slots[0],
                n_slots=slots[1],
                first_feed=first_feed,
                n_feeds=len(component.feeds),
            )
        )

    def feed(self, index: int, feed: Feed) -> None:
        component = self.stacks.components[index]
        self.check_steps(feed.port, feed.steps)
        key = -1 if component.key is None else self.key(feed, component.key, component.as_double)
        kept = [self.attribute(feed, i) for i in self.kept[index]]
        gate = self.gate(feed.port, feed.steps, component.scanned, FIRST)
        first_column = len(self.rows["feed_column"])
        reading = int(self.stacks.primitive[feed.port])
        self.rows["feed"].append(layout.Feed(self.stream(feed.port), gate, key, first_column, feed.tag, reading))
        self.rows["feed_column"] += kept

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
            return self.columns_of(feed.port)[plain]
        return self.derive(feed.port, lambda asm: self.candidate(asm, feed.port, feed.steps)[index], False)

    # -- construction ------------------------------------------------------------------------------------------------------

    def events(self, asm: Assembler) -> Mapping[int, Tuple]:
        """The values of the bound events, by component."""
        return {
            i: Tuple(lambda attribute, i=i: asm.load_slot(self.slots[i, attribute]))  # type: ignore[misc]
            for i in range(len(self.stacks.components))
        }

    def level(self, level: Level) -> None:
        """What can fail is tested by itself: it is no failure if another term is false."""
        first_test, first_absence = len(self.rows["test"]), len(self.rows["absence"])
        for test in level.tests:
            sure = [term for term in test.terms if not can_fail(term)]
            for terms in (*([sure] if sure else []), *[[term] for term in test.terms if can_fail(term)]):
                self.rows["test"].append(layout.Test(self.condition(terms), test.alternative))
        self.rows["absence"] += [self.absence(absence) for absence in level.absences]
        n_tests = len(self.rows["test"]) - first_test
        self.rows["level"].append(layout.Level(level.component, first_test, n_tests, first_absence, len(level.absences)))

    def absence(self, absence: Absence) -> layout.Absence:
        positive = self.stacks.positive
        scope = BEFORE if absence.component < positive[0] else AFTER if absence.component > positive[-1] else BETWEEN
        program = self.condition(absence.terms) if absence.terms else -1
        return layout.Absence(absence.component, scope, absence.alternative, program, int(absence.bounds))

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
