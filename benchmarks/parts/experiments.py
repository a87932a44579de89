"""The experiments of section 5 of the SASE paper, ours instead of its prototype: domain and window size as curves, the others as rows.

It compares ways to evaluate the same query; `rules` asks for one of them.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

import keuka
from keuka.automaton.compile import compile_tables
from keuka.automaton.stacks import StackRules
from keuka.plan.planner import plan
from keuka.query import prepare
from keuka.run.embedded import run
from measure import Row, Task, million_per_second, take_turns
from workloads.paper import Experiment, check, generate

N_REPETITIONS = 3
AS_PLANNED = StackRules()
WITHOUT_STACKS = StackRules(stacks=False)
AFTER_CONSTRUCTION = StackRules(construction=False)

DOMAIN_SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)
WINDOW_SIZES = (10_000, 20_000, 50_000, 100_000)
SECOND_DOMAIN_SIZES = (10, 100, 1_000, 10_000)


def run_with(table: pa.Table, query: keuka.Query, rules: StackRules) -> pa.Table:
    """As `keuka.match`, but with some of the rules switched off."""
    prepared = prepare(query, table, time="ts", type_column="type")
    tables = compile_tables(plan(prepared.program, stack_rules=rules))
    return pa.Table.from_batches([batch.rows for batch in run(tables, prepared.opened)], prepared.schema())


def domain_sizes() -> list[Row]:
    """Experiment 1: sequences of three in a window of 10,000, few and many values of attr1."""
    return [curve_row("attr1 with", "values", "domain_sizes", {n: Experiment(n_values=n) for n in DOMAIN_SIZES})]


def window_sizes() -> list[Row]:
    """Experiment 2: 10,000 values of attr1, short and long windows."""
    return [curve_row("windows of", "ticks", "window_sizes", {n: Experiment(window=n, n_values=10_000) for n in WINDOW_SIZES})]


def other_experiments() -> list[Row]:
    """Experiments 3 to 5 and the ones the paper only mentions."""
    two_tests = {
        f"two equivalence tests, attr1 with {n:,} values, attr2 with 20": Experiment(n_values=n, keys=("attr1", "attr2"))
        for n in SECOND_DOMAIN_SIZES
    }
    lengths = {f"sequence of {n}, attr1 with 100 values": Experiment(length=n, n_values=100) for n in range(2, 7)}
    predicates = {
        "sequence of 3 with a simple predicate": Experiment(n_values=100, simple=True),
        "sequence of 3 comparing first and last": Experiment(n_values=100, other=True),
        "sequence of 3 with both predicates": Experiment(n_values=100, simple=True, other=True),
    }
    absences = {f"sequence of 3, negations: {n}": Experiment(n_values=100, n_absences=n) for n in range(3)}
    rows = []
    for what, experiment in {**two_tests, **lengths, **predicates, **absences}.items():
        rates, n_matches = measure(experiment, {"as planned": AS_PLANNED, "after construction": AFTER_CONSTRUCTION})
        slower = f"; conditions tested after construction: {rates['after construction']:.1f}" if what in two_tests else ""
        numbers = {"rates": rates, "matches": n_matches, "query": experiment.query}
        result = f"{rates['as planned']:.1f} M events/s, {n_matches:,} matches{slower}"
        rows.append(Row(f"SASE experiments: {what}", result, numbers=numbers))
    return rows


def measure(experiment: Experiment, ways: dict[str, StackRules]) -> tuple[dict[str, float], int]:
    """M events per second of CPU time by each set of rules, and the number of matches."""
    events, query = generate(experiment.n_values), keuka.sase(experiment.query)
    tasks: dict[str, Task] = {name: partial(run_with, events, query, rules) for name, rules in ways.items()}
    counts = {check(experiment, events, task()) for task in tasks.values()}
    assert len(counts) == 1, "the rules change the result"
    seconds = take_turns(tasks, N_REPETITIONS)
    return {name: million_per_second(events.num_rows, taken) for name, taken in seconds.items()}, counts.pop()


def curve_row(before: str, after: str, axis: str, experiments: dict[int, Experiment]) -> Row:
    """As planned, and without what active instance stacks remember: every search begins at the top of the stack then."""
    measured = [measure(experiment, {"as planned": AS_PLANNED, "no stacks": WITHOUT_STACKS}) for experiment in experiments.values()]
    curves = {name: [rates[name] for rates, _ in measured] for name in ("as planned", "no stacks")}
    ours, plain = [" / ".join([f"{rate:.1f}" for rate in curve]) for curve in curves.values()]
    return Row(
        f"SASE experiments: sequence of 3, {before} {' / '.join([f'{size:,}' for size in experiments])} {after}",
        f"{ours} M events/s; without active instance stacks {plain}",
        numbers={axis: list(experiments), "rates": curves, "matches": [n_matches for _, n_matches in measured]},
    )
