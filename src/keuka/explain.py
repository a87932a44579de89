"""What a query becomes, stage by stage, as text, JSON or DOT: algebra, rules that changed it, automata and their indices.

Stable output: one node a line, numbered in the order of first appearance, no object identities.
"""

from __future__ import annotations

import json
from typing import Any

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Program, Published, Source, inputs
from keuka.automaton.code import split_conditions, state_needs
from keuka.automaton.model import Bind, Edge, State, Step, state_name
from keuka.expressions import Column, Expression, conjunction, conjuncts, show
from keuka.plan.planner import Plan, Stage, demands, output_names
from keuka.schema import MAX_TICK, Schema


def explain(program: Program, plan: Plan, *, verbose: bool = False, format: str = "text") -> str:
    """The chosen form of all stages; `verbose` adds the algebra after every rule."""
    if format == "dot":
        return dot(plan)
    stages = describe(program, plan, verbose)
    if format == "json":
        return json.dumps(stages, indent=2, ensure_ascii=False)
    return as_text(stages)


def explain_text_alone(inputs_: tuple[str, ...], parameters: tuple[str, ...], format: str) -> str:
    """What a query says before its streams are known."""
    if format == "json":
        return json.dumps({"inputs": list(inputs_), "parameters": list(parameters)}, indent=2)
    lines = [f"reads {', '.join(inputs_)}", f"parameters {', '.join(parameters) or 'none'}"]
    return "\n".join([*lines, "give the streams to see algebra, rules and automata"]) + "\n"


def describe(program: Program, plan: Plan, verbose: bool) -> dict[str, Any]:
    """All stages as plain values."""
    outputs = list(zip(output_names(program), [operator for _, operator in program.outputs], strict=True))
    wanted = demands(plan)
    reads = {s.stream: [s.schema.names[i] for i in wanted[s.stream]] for s in plan.sources}
    return {
        "algebra": algebra_lines(outputs),
        "rules": [_rule(stage, name, operator, verbose) for stage in plan.stages for name, operator in stage.trace],
        "reads": [{"stream": name, "columns": columns} for name, columns in reads.items()],
        "partition": _partition(plan),
        "automata": [_automaton(plan, stage, wanted[stage.name]) for stage in plan.stages],
    }


def as_text(stages: dict[str, Any]) -> str:
    lines = ["algebra", *[f"  {line}" for line in stages["algebra"]], "", "rules"]
    for rule in stages["rules"]:
        lines.append(f"  {rule['rule']} changed {rule['stream']}")
        lines += [f"    {line}" for line in rule.get("algebra", ())]
    if not stages["rules"]:
        lines.append("  none applied")
    lines += ["", "reads", *[f"  {r['stream']}: {', '.join(r['columns']) or 'times only'}" for r in stages["reads"]]]
    lines.append("  not partitioned" if stages["partition"] is None else f"  partitioned {stages['partition']['by']}")
    for automaton in stages["automata"]:
        lines += ["", f"automaton {automaton['stream']}"]
        lines += [f"  start {s['stream']}{_steps_text(s)} -> {s['target']}" for s in automaton["starts"]]
        for state in automaton["states"]:
            lines.append(f"  {state['state']}: waits for {state['waits_for']}, holds {', '.join(state['holds']) or 'times only'}")
            lines += [f"     {key.replace('_', ' ')}: {value}" for key, value in state["tests"].items()]
            lines += [f"     {edge['edge']}{_steps_text(edge)} -> {edge['target']}" for edge in state["edges"]]
    return "\n".join(lines) + "\n"


def _partition(plan: Plan) -> dict[str, Any] | None:
    if plan.partition is None:
        return None
    by = f"by {plan.partition}" if plan.partition.columns else "at will, because no event waits for another"
    return {"by": by, "columns": {name: list(columns) for name, columns in plan.partition.columns.items()}}


def _steps_text(edge: dict[str, Any]) -> str:
    return "".join([f" {step}" for step in edge["steps"]])


# -- algebra ---------------------------------------------------------------------------------------------------------------


def algebra_lines(outputs: list[tuple[str, Operator]]) -> list[str]:
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
            lines.append(f"{names[operator]} := {describe_operator(operator)}{''.join([f' {s}' for s in sources])}")
        return names[operator]

    for name, operator in outputs:
        lines.append(f"{name} := {name_of(operator)}")
    return lines


def describe_operator(operator: Operator) -> str:
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
    return type(operator).__name__


def _order(operator: Next | Fold) -> str:
    return ", first by history" if operator.by_history else ""


def items_text(items: tuple[Expression, ...], schema: Schema) -> str:
    return ", ".join([_item_text(item, name) for item, name in zip(items, schema.names, strict=True)])


def _item_text(item: Expression, name: str) -> str:
    text = show(item)
    return name if text == name else f"{text} AS {name}"


def _rule(stage: Stage, rule: str, operator: Operator, verbose: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"rule": rule, "stream": stage.name}
    return found | {"algebra": algebra_lines([(stage.name, operator)])} if verbose else found


# -- automata --------------------------------------------------------------------------------------------------------------


def _automaton(plan: Plan, stage: Stage, wanted: tuple[int, ...]) -> dict[str, Any]:
    automaton = stage.automaton
    needs = state_needs(automaton, wanted, plan.indices)
    starts = [
        {"stream": automaton.ports[s.port], "steps": _steps(s.edge.steps), "target": state_name(automaton, s.edge.target)}
        for s in automaton.starts
    ]
    states = []
    for i in range(len(automaton.states) - 1, -1, -1):
        state = automaton.states[i]
        held = [("$." if side else "") + state.first[index].name for side, index in needs[i].places]
        held += [show(key, sided=True) for key in needs[i].computed_keys]
        waits = automaton.ports[state.port] + "".join([f" {step}" for step in _steps(state.candidate)])
        edges = [] if state.update is None else [_rebind(stage, i, state)]
        edges.append(_edge(stage, "forward", state.edge))
        states.append(
            {"state": state_name(automaton, i), "waits_for": waits, "holds": held, "tests": _tests(state, plan.indices), "edges": edges}
        )
    return {"stream": stage.name, "starts": starts, "states": states}


def _edge(stage: Stage, kind: str, edge: Edge) -> dict[str, Any]:
    return {"edge": kind, "steps": _steps(edge.steps), "target": state_name(stage.automaton, edge.target)}


def _rebind(stage: Stage, index: int, state: State) -> dict[str, Any]:
    return {"edge": "rebind", "steps": [f"when {show(state.take, sided=True)}"], "target": state_name(stage.automaton, index)}


def _steps(steps: tuple[Step, ...]) -> list[str]:
    return [f"bind ({', '.join([show(i) for i in s.items])})" if isinstance(s, Bind) else f"when {show(s.predicate)}" for s in steps]


def _tests(state: State, indices: bool) -> dict[str, str]:
    """How candidates are tested: the filter edge is taken unless all of these hold."""
    conditions = split_conditions(state, indices)
    found = {}
    if conditions.static:
        found["per_batch"] = show(conjunction(conditions.static), sided=True)
    if conditions.keys:
        found["hash_index"] = ", ".join([f"{show(other, sided=True)} = {show(own, sided=True)}" for other, own in conditions.keys])
    if conditions.residual:
        found["bytecode"] = show(conjunction(conditions.residual), sided=True)
    if state.update is None and state.take != state.skip and conjuncts(state.take):
        found["take"] = show(state.take, sided=True)
    if state.window < MAX_TICK:
        found["expires_beyond"] = f"DUR {state.window}"
    return found


# -- drawing ---------------------------------------------------------------------------------------------------------------


def dot(plan: Plan) -> str:
    """The automata as a graph for Graphviz: one cluster a stage, filter edges above, rebind edges below a state."""
    font = 'fontname="Helvetica"'
    lines = ["digraph keuka {", f"  rankdir=LR; graph [{font}]; node [shape=circle, {font}]; edge [{font}, fontsize=10];"]
    for number, stage in enumerate(plan.stages):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(stage.name)};"]
        lines += [f"    {line}" for line in _dot_stage(stage, f"s{number}_")]
        lines.append("  }")
    places = {stage.name: f"s{number}_" for number, stage in enumerate(plan.stages)}
    for stage in plan.stages:
        for name in stage.automaton.ports:
            if name in places:
                lines.append(f"  {places[name]}output -> {places[stage.name]}start [style=dotted];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_stage(stage: Stage, prefix: str) -> list[str]:
    automaton = stage.automaton
    lines = [f"{prefix}start [shape=point];", f'{prefix}output [shape=doublecircle, label=""];']
    for start in automaton.starts:
        label = " ".join([automaton.ports[start.port], *_steps(start.edge.steps)])
        lines.append(f"{prefix}start -> {prefix}{state_name(automaton, start.edge.target)} [label={_quoted(label)}];")
    for i, state in enumerate(automaton.states):
        name = prefix + state_name(automaton, i)
        lines.append(f"{name} [label={_quoted(state_name(automaton, i))}];")
        if conjuncts(state.skip):
            lines.append(f"{name} -> {name} [style=dashed, label={_quoted(f'unless {show(state.skip, sided=True)}')}];")
        if state.update is not None:
            lines.append(f"{name} -> {name} [label={_quoted(f'rebind when {show(state.take, sided=True)}')}];")
        label = " ".join([automaton.ports[state.port], *_steps(state.edge.steps)])
        lines.append(f"{name} -> {prefix}{state_name(automaton, state.edge.target)} [label={_quoted(label)}];")
    return lines


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
