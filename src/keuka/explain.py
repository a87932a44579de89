"""What a query becomes, stage by stage, as text, JSON or DOT: algebra, rules that changed it, automata and their indices.

Stable output: one node a line, numbered in the order of first appearance, no object identities.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Program, Published, Sequence, Source, inputs
from keuka.automaton.code import split_conditions, state_needs
from keuka.automaton.model import Automaton, Bind, Edge, Keep, State, Step, state_name
from keuka.automaton.stack_code import kept
from keuka.automaton.stacks import Stacks, scopes_text
from keuka.events.clocks import show_duration
from keuka.expressions import Column, Expression, conjunction, conjuncts, show
from keuka.plan.planner import Plan, Stage, demands, output_names
from keuka.schema import MAX_TICK, Schema, TimeAxis, shown_name


def explain(program: Program, plan: Plan, axis: TimeAxis, *, verbose: bool = False, format: str = "text") -> str:
    """The chosen form of all stages, durations by the clock of the streams; `verbose` adds the algebra after every rule."""
    if format == "dot":
        return dot(plan)
    stages = describe(program, plan, axis, verbose)
    if format == "json":
        return json.dumps(stages, indent=2, ensure_ascii=False)
    return as_text(stages)


def explain_text_alone(inputs_: tuple[str, ...], parameters: tuple[str, ...], format: str) -> str:
    """What a query says before its streams are known."""
    if format == "json":
        return json.dumps({"inputs": list(inputs_), "parameters": list(parameters)}, indent=2)
    lines = [f"reads {', '.join(inputs_)}", f"parameters {', '.join(parameters) or 'none'}"]
    return "\n".join([*lines, "give the streams to see algebra, rules and automata"]) + "\n"


def describe(program: Program, plan: Plan, axis: TimeAxis, verbose: bool) -> dict[str, Any]:
    """All stages as plain values."""
    outputs = list(zip(output_names(program), [operator for _, operator in program.outputs], strict=True))
    wanted = demands(plan)
    reads = {s.stream: [shown_name(s.schema.names[i]) for i in wanted[s.stream]] for s in plan.sources}
    return {
        "algebra": algebra_lines(outputs, axis),
        "rules": [_rule(stage, name, operator, axis, verbose) for stage in plan.stages for name, operator in stage.trace],
        "reads": [{"stream": name, "columns": columns} for name, columns in reads.items()],
        "partition": _partition(plan),
        "automata": [
            _automaton(plan, stage.name, stage.automaton, wanted[stage.name], axis)
            for stage in plan.stages
            if isinstance(stage.automaton, Automaton)
        ],
        "sequences": [
            _sequence(stage.name, stage.automaton, wanted[stage.name], axis) for stage in plan.stages if isinstance(stage.automaton, Stacks)
        ],
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
    for sequence in stages["sequences"]:
        lines += ["", f"sequence {sequence['stream']}", "  sequence scan"]
        lines += [f"     {scan}" for scan in sequence["scan"]]
        for step in ("construction", "selection", "window", "negation", "transformation"):
            shown = {"construction": "sequence construction"}.get(step, step)
            lines += [f"  {shown}", *[f"     {line}" for line in sequence[step] or ["nothing"]]]
    return "\n".join(lines) + "\n"


def _partition(plan: Plan) -> dict[str, Any] | None:
    if plan.partition is None:
        return None
    by = f"by {plan.partition}" if plan.partition.columns else "at will, because no event waits for another"
    return {"by": by, "columns": {name: list(columns) for name, columns in plan.partition.columns.items()}}


def _steps_text(edge: dict[str, Any]) -> str:
    return "".join([f" {step}" for step in edge["steps"]])


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
        within = "" if operator.within == MAX_TICK else f" within {_length(operator.within, axis)}"
        return f"{'Sequence' if operator.ordered else 'Unordered'}[{', '.join(parts)}{_where(operator)}{within}]"
    return type(operator).__name__


def _length(n_ticks: int, axis: TimeAxis) -> str:
    """A duration with the fewest digits: `10 min + 1 us` rather than `600000001 us`."""
    if axis.tick_us is None:
        return str(n_ticks)
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


# -- automata --------------------------------------------------------------------------------------------------------------


def _automaton(plan: Plan, name: str, automaton: Automaton, wanted: tuple[int, ...], axis: TimeAxis) -> dict[str, Any]:
    needs = state_needs(automaton, wanted, plan.indices)
    starts = [
        {"stream": automaton.ports[s.port], "steps": _steps(s.edge.steps), "target": state_name(automaton, s.edge.target)}
        for s in automaton.starts
    ]
    states = []
    for i in range(len(automaton.states) - 1, -1, -1):
        state = automaton.states[i]
        held = [("$." if side else "") + shown_name(state.first[index].name) for side, index in needs[i].places]
        held += [show(key, sided=True) for key in needs[i].computed_keys]
        waits = automaton.ports[state.port] + "".join([f" {step}" for step in _steps(state.candidate)])
        edges = [] if state.update is None else [_rebind(automaton, i, state)]
        edges.append(_edge(automaton, "forward", state.edge))
        states.append(
            {
                "state": state_name(automaton, i),
                "waits_for": waits,
                "holds": held,
                "tests": _tests(state, plan.indices, axis),
                "edges": edges,
            }
        )
    return {"stream": name, "starts": starts, "states": states}


def _edge(automaton: Automaton, kind: str, edge: Edge) -> dict[str, Any]:
    return {"edge": kind, "steps": _steps(edge.steps), "target": state_name(automaton, edge.target)}


def _rebind(automaton: Automaton, index: int, state: State) -> dict[str, Any]:
    return {"edge": "rebind", "steps": [f"when {show(state.take, sided=True)}"], "target": state_name(automaton, index)}


def _steps(steps: tuple[Step, ...]) -> list[str]:
    return [f"bind ({', '.join([show(i) for i in s.items])})" if isinstance(s, Bind) else f"when {show(s.predicate)}" for s in steps]


def _tests(state: State, indices: bool, axis: TimeAxis) -> dict[str, str]:
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
        found["expires_beyond"] = f"DUR {_length(state.window, axis)}"
    return found


# -- sequences -------------------------------------------------------------------------------------------------------------


def _sequence(name: str, stacks: Stacks, wanted: tuple[int, ...], axis: TimeAxis) -> dict[str, Any]:
    """The operators of the SASE paper (section 3), and where each condition is tested."""
    last = len(stacks.searches[0]) - 1
    construction, selection = [], []
    for search in stacks.searches:
        for i, level in enumerate(search):
            tests = [test for test in level.tests if i < last or stacks.rules.construction]
            shown = "".join([f" when {_test(stacks, test.terms, test.alternative)}" for test in tests])
            construction.append(f"{'from' if i == 0 else 'back to'} {stacks.components[level.component].name}{shown}")
            selection += [_test(stacks, test.terms, test.alternative) for test in level.tests if test not in tests]
    absences = [absence for search in stacks.searches for level in search for absence in level.absences]
    negation = []
    for absence in absences:
        terms = _test(stacks, absence.terms, absence.alternative)
        with_ = f" with {terms}" if terms else ""
        negation.append(f"no {stacks.components[absence.component].name}{with_} {scopes_text(stacks, absence.component)}")
    return {
        "stream": name,
        "scan": _scan(stacks, wanted),
        "construction": construction,
        "selection": selection,
        "window": _window(stacks, axis),
        "negation": negation,
        "transformation": [", ".join([_item_text(stacks.items[i], stacks.schema.names[i]) for i in wanted])],
    }


def _scan(stacks: Stacks, wanted: tuple[int, ...]) -> list[str]:
    lines = []
    for component, attributes in zip(stacks.components, kept(stacks, wanted), strict=True):
        feeds = []
        for feed in component.feeds:
            tests = [show(step.predicate) for step in feed.steps if isinstance(step, Keep)] + [show(term) for term in component.scanned]
            feeds.append(stacks.ports[feed.port] + (f" when {' AND '.join(tests)}" if tests else ""))
        held = ", ".join([shown_name(component.schema[i].name) for i in attributes]) or "times only"
        lines.append(f"{'!' if component.negated else ''}{component.name}: {' or '.join(feeds)}, keeps {held}")
    keys = [f"{c.name}.{shown_name(c.schema[c.key].name)}" for c in stacks.components if c.key is not None]
    return [*lines, f"stacks divided by {' = '.join(keys)}" if keys else "stacks not divided: no equivalence test joins the components"]


def _window(stacks: Stacks, axis: TimeAxis) -> list[str]:
    if stacks.within == MAX_TICK:
        return ["none: events are kept for ever"]
    where = "in scan and construction" if stacks.rules.window else "after construction"
    waits = "; matches come when it is over" if stacks.waits else ""
    length = f"{stacks.within} ticks" if axis.tick_us is None else _length(stacks.within, axis)
    return [f"less than {length} from first to last, {where}{waits}"]


def _test(stacks: Stacks, terms: tuple[Expression, ...], alternative: int) -> str:
    number = "" if alternative < 0 else f"(alternative {alternative + 1}) "
    return number + " AND ".join([show(term, outer=3) for term in terms]) if terms else number.strip()


# -- drawing ---------------------------------------------------------------------------------------------------------------


def dot(plan: Plan) -> str:
    """The automata as a graph for Graphviz: one cluster a stage, filter edges above, rebind edges below a state."""
    font = 'fontname="Helvetica"'
    lines = ["digraph keuka {", f"  rankdir=LR; graph [{font}]; node [shape=circle, {font}]; edge [{font}, fontsize=10];"]
    for number, stage in enumerate(plan.stages):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(stage.name)};"]
        drawn = _dot_stacks if isinstance(stage.automaton, Stacks) else _dot_automaton
        lines += [f"    {line}" for line in drawn(stage.automaton, f"s{number}_")]  # type: ignore[arg-type]
        lines.append("  }")
    places = {stage.name: f"s{number}_" for number, stage in enumerate(plan.stages)}
    for stage in plan.stages:
        for name in stage.automaton.ports:
            if name in places:
                lines.append(f"  {places[name]}output -> {places[stage.name]}start [style=dotted];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_stacks(stacks: Stacks, prefix: str) -> list[str]:
    """A box for each stack, from left to right; negated ones are dashed."""
    lines = [f"{prefix}start [shape=point];", f'{prefix}output [shape=doublecircle, label=""];']
    for i, component in enumerate(stacks.components):
        style = "dashed" if component.negated else "solid"
        lines.append(f"{prefix}c{i} [shape=box, style={style}, label={_quoted(('!' if component.negated else '') + component.name)}];")
        ports = " or ".join(dict.fromkeys([stacks.ports[feed.port] for feed in component.feeds]))
        lines.append(f"{prefix}start -> {prefix}c{i} [style=dotted, label={_quoted(ports)}];")
    ends = [*[f"{prefix}c{i}" for i in range(len(stacks.components))], f"{prefix}output"]
    return [*lines, *[f"{one} -> {other};" for one, other in pairwise(ends)]]


def _dot_automaton(automaton: Automaton, prefix: str) -> list[str]:
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
