"""The experiments of section 5 of the SASE paper, ours instead of its prototype: domain and window size as curves, the others as rows.

It compares ways to evaluate the same query; `rules` asks for one of them.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

import keuka
from keuka.automaton.stacks import StackRules
from keuka.plan.planner import compile_tables, plan
from keuka.query import prepare
from keuka.run.embedded import run
from measure import Row, million_per_second, take_turns
from workloads.paper import Experiment, check, generate

N_REPETITIONS = 3
AS_PLANNED = StackRules()

DOMAIN_SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000)
WINDOW_SIZES = (10_000, 20_000, 50_000, 100_000)
SECOND_DOMAIN_SIZES = (10, 100, 1_000, 10_000)


def run_with(table: pa.Table, query: keuka.Query, rules: StackRules) -> pa.Table:
    """As `keuka.match`, but with some of the rules switched off."""
    prepared = prepare(query, table, time="ts", type_column="type")
    tables = compile_tables(plan(prepared.program, stack_rules=rules))
    return pa.Table.from_batches([batch.rows for batch in run(tables, prepared.opened)], prepared.schema())


def domain_sizes(rules: StackRules = AS_PLANNED) -> list[Row]:
    """Experiment 1: sequences of three in a window of 10,000, few and many values of attr1."""
    measured = [measure(Experiment(n_values=n_values), rules) for n_values in DOMAIN_SIZES]
    return [curve_row("attr1 with", "values", "domain_sizes", DOMAIN_SIZES, measured)]


def window_sizes(rules: StackRules = AS_PLANNED) -> list[Row]:
    """Experiment 2: 10,000 values of attr1, short and long windows."""
    measured = [measure(Experiment(window=window, n_values=10_000), rules) for window in WINDOW_SIZES]
    return [curve_row("windows of", "ticks", "window_sizes", WINDOW_SIZES, measured)]


def other_experiments(rules: StackRules = AS_PLANNED) -> list[Row]:
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
        rate, n_matches = measure(experiment, rules)
        numbers = {"rate": rate, "matches": n_matches, "query": experiment.query}
        rows.append(Row(f"SASE experiments: {what}", f"{rate:.1f} M events/s, {n_matches:,} matches", numbers=numbers))
    return rows


def measure(experiment: Experiment, rules: StackRules) -> tuple[float, int]:
    """M events per second of CPU time, and the number of matches."""
    events = generate(experiment.n_values)
    task = partial(run_with, events, keuka.sase(experiment.query), rules)
    n_matches = check(experiment, events, task())
    return million_per_second(events.num_rows, take_turns({"keuka": task}, N_REPETITIONS)["keuka"]), n_matches


def curve_row(before: str, after: str, axis: str, sizes: tuple[int, ...], measured: list[tuple[float, int]]) -> Row:
    rates = [rate for rate, _ in measured]
    return Row(
        f"SASE experiments: sequence of 3, {before} {' / '.join(f'{size:,}' for size in sizes)} {after}",
        f"{' / '.join(f'{rate:.1f}' for rate in rates)} M events/s",
        numbers={axis: list(sizes), "rates": rates, "matches": [n_matches for _, n_matches in measured]},
    )
