"""The history model (docs/semantics.md, 3): of simultaneous candidates, those with the earliest history are next.

No language asks for it yet, so the programs are CEL's with every NEXT and FOLD turned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import event, given

import keuka
from keuka.algebra.operators import Fold, Next, Operator, Program, Published, inputs, with_inputs
from keuka.automaton.compile import compile_tables
from keuka.events.files import BATCH_ROWS
from keuka.events.sources import open_stream
from keuka.plan.planner import output_names, plan
from keuka.plan.rules import RULES
from keuka.run import state
from keuka.run.embedded import run

from .outcomes import Outcome, by_plan, by_reference, by_trace, check, lowered, processed
from .queries import Program as ProgramText
from .queries import programs
from .streams import SHAPES, Rows, table
from .test_kernel_laws import epochs, ids, outcome, runner_of, streams_for, tables_of, without_overflow

OPTIONS = st.fixed_dictionaries({"rules": st.sampled_from([(), RULES]), "linear": st.booleans(), "indices": st.booleans()})

# Right operands of several events, which often end together. `?` is a condition.
COMPOSITE = (
    "FROM S NEXT ? (SELECT k, n FROM S NEXT ? S)",
    "FROM I NEXT ? (SELECT k, n FROM S NEXT ? (SELECT k, n FROM I) NEXT ? (SELECT k, n FROM S))",
    "FROM S NEXT ? (SELECT k, n FROM S NEXT ? (SELECT k, n FROM S NEXT ? S))",
    "FROM S NEXT ? (SELECT k, n FROM I NEXT ? (SELECT k, n FROM S NEXT ? I))",
    "FROM S NEXT ? (SELECT k, n FROM S FOLD {TRUE, TRUE} S)",
    "FROM S NEXT ? ((SELECT k, n FROM S NEXT ? S) UNION (SELECT k, n FROM Q NEXT ? S NEXT ? (SELECT k, n FROM S))"
    " UNION (SELECT k, n FROM I))",
    "FROM S FOLD {TRUE, TRUE} (SELECT t, k, n, x, b FROM I NEXT ? S)",
    "SELECT k, n FROM S NEXT ? S PUBLISH P;\nFROM S NEXT ? (SELECT k, n FROM P NEXT ? S) PUBLISH R;\nFROM S NEXT ? P",
    "SELECT k, n FROM S NEXT ? S PUBLISH P;\nFROM I NEXT ? (P UNION (SELECT k, n FROM S NEXT ? S))",
)
CONDITIONS = ("", "{$2.k = $1.k}", "{$2.n >= $1.n}", "{DUR <= 6}", "{$2.k = $1.k AND $2.n <> 1}")


@st.composite
def composite(draw: st.DrawFn) -> ProgramText:
    text = draw(st.sampled_from(COMPOSITE))
    while "?" in text:
        text = text.replace("?", draw(st.sampled_from(CONDITIONS)), 1)
    return ProgramText(text, 2 if "FOLD" in text else 0)


def turned(program: Program) -> Program:
    """The same program in the history model."""
    seen: dict[str, Operator] = {}

    def turn(operator: Operator) -> Operator:
        if isinstance(operator, Published):
            if operator.name not in seen:
                seen[operator.name] = replace(operator, input=turn(operator.input))
            return seen[operator.name]
        new = with_inputs(operator, [turn(part) for part in inputs(operator)])
        return replace(new, by_history=True) if isinstance(new, Next | Fold) else new

    return Program(tuple([(name, turn(operator)) for name, operator in program.outputs]))


@st.composite
def examples(draw: st.DrawFn) -> tuple[str, Program, Rows]:
    text = draw(st.one_of(composite(), composite(), programs()))
    return text.text, lowered(text), draw(streams_for(text))


def expected(program: Program, streams: Rows) -> Outcome:
    found = by_reference(turned(program), streams)
    event("histories decide" if found != by_reference(program, streams) else "the models agree")
    return found


@given(examples(), OPTIONS, st.sampled_from([1, 3, BATCH_ROWS]))
def test_the_engine_chooses_by_history_as_the_definitions_say(example: tuple[str, Program, Rows], options: dict[str, Any], chunk_rows: int):
    text, program, streams = example
    found = by_plan(turned(program), streams, chunk_rows=chunk_rows, **options)
    check(f"{text}\nby history, with {options}", streams, expected(program, streams), found)


@given(examples())
def test_it_does_so_too_if_nobody_wants_the_contributors(example: tuple[str, Program, Rows]):
    text, program, streams = example
    for name, (_, operator) in zip(output_names(program), turned(program).outputs, strict=True):
        wanted = without_overflow(by_reference(Program((("", operator),)), streams))["query_1"]
        tables = compile_tables(plan(Program((("", operator),))))
        sources = [open_stream(s.name, keuka.Stream(table(s.name, streams[s.name]), time=SHAPES[s.name].time)) for s in tables.sources]
        rows = [row for found in run(tables, sources) for row in zip(*found.rows.to_pydict().values(), strict=True)]
        times = sorted([row[-2:] for row in rows])
        assert times == sorted([(start, end) for (_, start, end, _), n in wanted.items() for _ in range(n)]), f"{text}\n{streams}\n{name}"


@given(examples())
def test_a_trace_chooses_by_history_too(example: tuple[str, Program, Rows]):
    text, program, streams = example
    check(f"{text}\nby history", streams, expected(program, streams), by_trace(turned(program), streams))


@given(examples(), st.data())
def test_both_models_run_together_and_go_on_from_a_snapshot(example: tuple[str, Program, Rows], data: st.DataObject):
    text, program, streams = example
    both = {"interval": program, "history": turned(program)}
    expected = {name: without_overflow(by_reference(one, streams)) for name, one in both.items()}
    steps = epochs(streams)
    cut = data.draw(st.integers(0, len(steps)))
    names = data.draw(st.permutations(list(both)))
    runner, another = runner_of(streams), runner_of(streams)
    for name in names:
        runner.load(name, tables_of(both[name]))
    found = [batch for step in steps[:cut] for batch in processed(runner, step)]
    runner.rows.look_through()
    for name in data.draw(st.permutations(names)):
        another.load(name, tables_of(both[name]))
    state.put(another, state.take(runner))
    here = [*found, *[batch for step in steps[cut:] for batch in processed(runner, step)]]
    there = [*found, *[batch for step in steps[cut:] for batch in processed(another, step)]]
    for name, one in both.items():
        check(f"{text}\n{name}", streams, expected[name], outcome(one, streams, here, name))
    assert ids(here) == ids(there)


@given(streams_for(), st.permutations(["S", "Q", "I"]))
def test_without_conditions_the_order_of_pairing_does_not_matter(streams: Rows, names: list[str]):
    """A;(B;C) = (A;B);C, which the interval model does not give (docs/semantics.md, 3)."""
    a, b, c = [f"(SELECT k AS k{i} FROM {name})" for i, name in enumerate(names)]
    paired = [turned(lowered(f"FROM {text}")) for text in (f"{a} NEXT ({b} NEXT {c})", f"{a} NEXT {b} NEXT {c}")]
    right, left = [by_reference(program, streams) for program in paired]
    assert right == left
    assert by_plan(paired[0], streams) == by_plan(paired[1], streams) == left
