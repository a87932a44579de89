"""What a query becomes, stage by stage, as text, JSON or DOT: algebra, rules that changed it, automata and their indices.

Stable output: one node a line, numbered in the order of first appearance, no object identities.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Program, Published, Sequence, Source, inputs
from keuka.automaton.contract import Plan, Stage, quote_label
from keuka.events.clocks import show_duration
from keuka.expressions import Column, Expression, conjunction, show
from keuka.plan.planner import OPERATORS, output_names
from keuka.schema import MAX_TICK, Schema, TimeAxis, shown_name


def explain(program: Program, plan: Plan, axis: TimeAxis, *, verbose: bool = False, format: str = "text") -> str:
    """The chosen form of all stages, durations by the clock of the streams; `verbose` adds the algebra after every rule."""
    if format == "dot":
        return dot(plan)
    stages, operators = describe(program, plan, axis, verbose)
    if format == "json":
        return json.dumps(stages, indent=2, ensure_ascii=False)
    return as_text(stages, operators)


def explain_text_alone(inputs_: tuple[str, ...], parameters: tuple[str, ...], format: str) -> str:
    """What a query says before its streams are known."""
    if format == "json":
        return json.dumps({"inputs": list(inputs_), "parameters": list(parameters)}, indent=2)
    lines = [f"reads {', '.join(inputs_)}", f"parameters {', '.join(parameters) or 'none'}"]
    return "\n".join([*lines, "give the streams to see algebra, rules and automata"]) + "\n"


def describe(program: Program, plan: Plan, axis: TimeAxis, verbose: bool) -> tuple[dict[str, Any], list[str]]:
    """All stages as plain values, and the lines of text about their operators."""
    outputs = list(zip(output_names(program), [operator for _, operator in program.outputs], strict=True))
    reads = {s.stream: [shown_name(s.schema.names[i]) for i in plan.wanted[s.stream]] for s in plan.sources}
    stages = {
        "algebra": algebra_lines(outputs, axis),
        "rules": [_rule(stage, name, operator, axis, verbose) for stage in plan.stages for name, operator in stage.trace],
        "reads": [{"stream": name, "columns": columns} for name, columns in reads.items()],
        "partition": _partition(plan),
    }
    lines = []
    for operator_type in OPERATORS:
        mine = [stage for stage in plan.stages if stage.physical.kind == operator_type.kind]
        described = [stage.physical.describe(stage.name, partial(_length, axis=axis)) for stage in mine]
        stages[operator_type.kind] = [description.facts for description in described]
        lines += [line for description in described for line in ("", *description.lines)]
    return stages, lines


def as_text(stages: dict[str, Any], operators: list[str]) -> str:
    lines = ["algebra", *[f"  {line}" for line in stages["algebra"]], "", "rules"]
    for rule in stages["rules"]:
        lines.append(f"  {rule['rule']} changed {rule['stream']}")
        lines += [f"    {line}" for line in rule.get("algebra", ())]
    if not stages["rules"]:
        lines.append("  none applied")
    lines += ["", "reads", *[f"  {r['stream']}: {', '.join(r['columns']) or 'times only'}" for r in stages["reads"]]]
    lines.append("  not partitioned" if stages["partition"] is None else f"  partitioned {stages['partition']['by']}")
    return "\n".join([*lines, *operators]) + "\n"


def _partition(plan: Plan) -> dict[str, Any] | None:
    if plan.partition is None:
        return None
    by = f"by {plan.partition}" if plan.partition.columns else "at will, because no event waits for another"
    return {"by": by, "columns": {name: list(columns) for name, columns in plan.partition.columns.items()}}


# -- algebra ---------------------------------------------------------------------------------------------------------------


def algebra_lines(outputs: list[tuple[str, Operator]], axis: TimeAxis) -> list[str]:
    """One operator a line, inputs before what reads them; equal operators are one."""
    lines: list[str] = []
    names: dict[Operator, str] = {}

    def name_of(operator: Operator) -> str:
        if isinstance(operator, Published):
            # Every published stream is an output of its own; a piece cut out by the planner has its own lines too.
            return operator.name
        if operator not in names:
            sources = [name_of(i) for i in inputs(operator)]
            names[operator] = f"r{len(names)}"
            lines.append(f"{names[operator]} := {describe_operator(operator, axis)}{''.join([f' {s}' for s in sources])}")
        return names[operator]

    for name, operator in outputs:
        lines.append(f"{name} := {name_of(operator)}")
    return lines


def describe_operator(operator: Operator, axis: TimeAxis) -> str:
    if isinstance(operator, Source):
        return f"Source[{operator.stream}]"
    if isinstance(operator, Filter):
        return f"Filter[{show(operator.predicate)}]"
    if isinstance(operator, Map):
        return f"Map[{items_text(operator.items, operator.schema)}]"
    if isinstance(operator, Next):
        take = "" if operator.take == operator.skip else f", take {show(operator.take, sided=True)}"
        return f"Next[skip {show(operator.skip, sided=True)}{take}{_order(operator)}]"
    if isinstance(operator, Fold):
        kept = [(e, a.name) for e, a in zip(operator.update, operator.first.schema.attributes, strict=True)]
        changes = [f"{show(e, sided=True)} AS {name}" for e, name in kept if not (isinstance(e, Column) and e.name == name)]
        update = "".join([f", {change}" for change in changes])
        return f"Fold[skip {show(operator.skip, sided=True)}, step {show(operator.step, sided=True)}{update}{_order(operator)}]"
    if isinstance(operator, Sequence):
        parts = [("!" if component.negated else "") + component.name for component in operator.components]
        within = "" if operator.within == MAX_TICK else f" within {_length(operator.within, axis=axis)}"
        return f"{'Sequence' if operator.ordered else 'Unordered'}[{', '.join(parts)}{_where(operator)}{within}]"
    return type(operator).__name__


def _length(n_ticks: int, unit: bool = False, *, axis: TimeAxis) -> str:
    """A duration with the fewest digits: `10 min + 1 us` rather than `600000001 us`. Plain ticks have a unit only if wanted."""
    if axis.tick_us is None:
        return f"{n_ticks} ticks" if unit else str(n_ticks)
    tick = show_duration(1, axis)
    forms = [f"{show_duration(n_ticks - 1, axis)} + {tick}", f"{show_duration(n_ticks + 1, axis)} - {tick}"]
    return min([show_duration(n_ticks, axis), *(forms if n_ticks > 1 else [])], key=lambda form: sum(map(str.isdigit, form)))


def _where(sequence: Sequence) -> str:
    """The conditions, those on negated components as what must not be there."""
    shown = []
    for alternative in sequence.alternatives:
        terms = [show(term, outer=3) for term in alternative.terms]
        for i, absent in zip(sequence.negated, alternative.absent, strict=True):
            if absent:
                terms.append(f"no {sequence.components[i].name} with {show(conjunction(absent))}")
        shown.append(" AND ".join(terms) or "TRUE")
    return "" if shown == ["TRUE"] else f" where {' OR '.join(shown)}"


def _order(operator: Next | Fold) -> str:
    return ", first by history" if operator.by_history else ""


def items_text(items: tuple[Expression, ...], schema: Schema) -> str:
    return ", ".join([_item_text(item, name) for item, name in zip(items, schema.names, strict=True)])


def _item_text(item: Expression, name: str) -> str:
    text = show(item)
    return name if text == name else f"{text} AS {name}"


def _rule(stage: Stage, rule: str, operator: Operator, axis: TimeAxis, verbose: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"rule": rule, "stream": stage.name}
    return found | {"algebra": algebra_lines([(stage.name, operator)], axis)} if verbose else found


# -- drawing ---------------------------------------------------------------------------------------------------------------


def dot(plan: Plan) -> str:
    """The operators as a graph for Graphviz: one cluster a stage."""
    font = 'fontname="Helvetica"'
    lines = ["digraph keuka {", f"  rankdir=LR; graph [{font}]; node [shape=circle, {font}]; edge [{font}, fontsize=10];"]
    places = {stage.name: f"s{number}_" for number, stage in enumerate(plan.stages)}
    for number, stage in enumerate(plan.stages):
        place = places[stage.name]
        lines += [f"  subgraph cluster_{number} {{", f"    label={quote_label(stage.name)};"]
        lines += [f"    {place}start [shape=point];", f'    {place}output [shape=doublecircle, label=""];']
        lines += [*[f"    {line}" for line in stage.physical.draw(place)], "  }"]
    for stage in plan.stages:
        for name in stage.physical.ports:
            if name in places:
                lines.append(f"  {places[name]}output -> {places[stage.name]}start [style=dotted];")
    return "\n".join([*lines, "}"]) + "\n"
