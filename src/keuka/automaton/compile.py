"""From a plan to its tables: every stream gets a number and its columns, every operator writes its programs and rows."""

from __future__ import annotations

from typing import Any

from keuka.algebra.operators import Published, leaves
from keuka.automaton.contract import Plan, Stage
from keuka.automaton.fingerprint import stream_identity
from keuka.automaton.signatures import digest
from keuka.automaton.tables import OutputColumns, SourceColumns, Tables
from keuka.automaton.writer import TYPE_CODES, Writer, words_of
from keuka.kernel import layout


def compile_tables(plan: Plan) -> Tables:
    writer = _writer(plan)
    sources = [[source.schema[i] for i in plan.wanted[source.stream]] for source in plan.sources]
    for stage in plan.stages:
        _write_operator(writer, plan, stage)
    writer.rows["settings"] = [layout.VERSION, len(plan.sources), int(plan.contributors) + 2 * int(plan.by_history)]
    pool = writer.pool
    pooled: dict[str, list[Any]] = {"program": pool.programs, "code": pool.code, "operand": pool.operands, "constant": pool.constants}
    pooled |= {"constant_text": pool.constant_texts, "set": pool.sets}
    stages = {stage.name: (number, stage) for number, stage in enumerate(plan.stages)}
    return Tables(
        arrays={name: layout.as_array(name, pooled.get(name, rows)) for name, rows in writer.rows.items()},
        texts=tuple(pool.texts),
        sources=tuple(
            [
                SourceColumns(source.stream, tuple([a.name for a in attributes]), tuple([a.type for a in attributes]))
                for source, attributes in zip(plan.sources, sources, strict=True)
            ]
        ),
        outputs=tuple([OutputColumns(name, stages[s][0], stages[s][1].operator.schema, meaning) for name, s, meaning in plan.outputs]),
        streams=tuple(writer.numbers),
        fallible=tuple(pool.fallible),
        partition=None if plan.partition is None else dict(plan.partition.columns),
    )


def _writer(plan: Plan) -> Writer:
    """Columns are numbered over all streams, in the order of the tables."""
    streams = {s.stream: s.schema for s in plan.sources} | {stage.name: stage.physical.schema for stage in plan.stages}
    rows: dict[str, list[Any]] = {name: [] for name in layout.ARRAYS}
    layouts: dict[str, dict[int, int]] = {}
    for name, schema in streams.items():
        first, wanted = len(rows["column_type"]), plan.wanted[name]
        layouts[name] = {index: first + position for position, index in enumerate(wanted)}
        rows["stream"].append(layout.Stream(first_column=first, n_columns=len(wanted)))
        rows["column_type"] += [TYPE_CODES[schema[i].type] for i in wanted]
    identities = {s.stream: digest(("source", s.stream, [(a.name, a.type.value) for a in s.schema.attributes])) for s in plan.sources}
    identities |= {stage.name: digest(("stream", stream_identity(stage.operator))) for stage in plan.stages}
    if plan.by_history:
        # What is read by name is a primitive event there, and the same part of a query is none: they are not the same stream.
        pieces = {leaf.name for stage in plan.stages for leaf in leaves(stage.operator) if isinstance(leaf, Published) and not leaf.named}
        identities = {name: digest(("history", name in pieces, identity)) for name, identity in identities.items()}
    return Writer({name: number for number, name in enumerate(streams)}, layouts, identities, len(rows["column_type"]), rows)


def _write_operator(writer: Writer, plan: Plan, stage: Stage) -> None:
    rows, ports = writer.rows, stage.physical.ports
    first_port, first_state, first_start = len(rows["port"]), len(rows["state"]), len(rows["start"])
    rows["port"] += [writer.numbers[name] for name in ports]
    stage.physical.write(writer, () if plan.partition is None else plan.partition.ordinals[stage.name])
    low, high = words_of(digest(("result", writer.identities[stage.name], plan.wanted[stage.name])))
    rows["operator"].append(
        layout.Operator(
            first_port=first_port,
            n_ports=len(ports),
            first_state=first_state,
            n_states=len(rows["state"]) - first_state,
            first_start=first_start,
            n_starts=len(rows["start"]) - first_start,
            signature_low=low,
            signature_high=high,
        )
    )
