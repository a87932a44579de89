"""An engine's rules, streams and partial matches as one value, and back. `run/checkpoints.py` makes bytes of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from keuka.automaton import tables as compiled
from keuka.automaton.tables import Tables
from keuka.diagnostics import SourceText
from keuka.errors import QueryError, data_error
from keuka.events.clocks import unit_of
from keuka.events.frontiers import event_batch, ordered, row_numbers
from keuka.events.order import header
from keuka.events.sources import OpenStream, Stream, joined, open_stream
from keuka.languages.sets import LANGUAGES, Text
from keuka.plan.type_column import TypeColumn
from keuka.query import Query
from keuka.rules import RuleSpec, loaded_rule, lower_rule, plan_rule, same_meaning
from keuka.run import checkpoints, state
from keuka.run.checkpoints import Checkpoint, RuleState, StreamState, TypesState
from keuka.run.live import Live, LiveStream, LoadedRule
from keuka.run.runner import Runner

log = logging.getLogger("keuka")


def checkpoint(rules: Sequence[RuleSpec], live: Live) -> Checkpoint:
    """All that is needed to go on from here."""
    return Checkpoint(
        time=live.frontiers.time,
        promised=live.promised,
        rules=tuple([_state(rule, live.rules.get(rule.name), live.n_matches[rule.name]) for rule in rules]),
        streams=tuple([_stream_state(stream) for stream in live.streams.values()]),
        kernel=() if live.runner is None else tuple(state.take(live.runner)),
        found=tuple(live.delivery.pending()),
        types=_types_state(live),
    )


def _types_state(live: Live) -> TypesState | None:
    return None if live.types is None else TypesState(live.types.types.column, live.types.stream, tuple(sorted(live.types.types.seen)))


def agreeing_types(own: TypeColumn | None, state: TypesState | None, is_new: bool) -> TypeColumn | None:
    """The type column of an engine after a restore. One that has neither rules nor streams takes that of the snapshot."""
    theirs = None if state is None else TypeColumn(state.column, state.stream)
    if own == theirs or (is_new and own is None):
        return theirs
    problem = f"the snapshot has {'another' if theirs and own else 'a' if theirs else 'no'} `type_column`, unlike this engine"
    raise data_error("K522", problem, "restore into an engine with the type column and the stream that the snapshot was taken with")


def _state(rule: RuleSpec, loaded: LoadedRule | None, n_matches: int) -> RuleState:
    return RuleState(
        name=rule.name,
        language=",".join([text.language for text in rule.query.texts]),
        texts=tuple([(text.file.source.name, text.file.source.text) for text in rule.query.texts]),
        params=dict(rule.params),
        outputs=rule.outputs,
        contributors=rule.contributors,
        since=0 if loaded is None else loaded.since,
        is_bounded=loaded is not None and loaded.is_bounded,
        n_matches=n_matches,
        tables=b"" if loaded is None else compiled.to_bytes(loaded.tables),
    )


def _stream_state(live: LiveStream) -> StreamState:
    stream, runs = live.stream, live.arrivals.runs
    held = pa.Table.from_batches([joined(stream, [run.table for run in runs])]) if runs else live.intake.schema.empty_table()
    numbers = np.concatenate([np.empty(0, np.int64), *[row_numbers(run.rows) for run in runs]])
    return StreamState(
        name=stream.name,
        time=stream.time,
        lateness=stream.lateness,
        id=stream.id,
        unit=unit_of(stream.type.axis),
        frontier=live.arrivals.frontier,
        n_rows=live.intake.n_rows,
        n_late=live.n_late,
        wanted=live.intake.wanted,
        schema=live.intake.schema,
        held=held,
        held_rows=pa.table({"row": numbers}),
        late=pa.Table.from_batches(live.late, live.intake.schema),
    )


def _refill(live: LiveStream, state: StreamState, time: int) -> None:
    """The rows that waited, and how far the stream had come."""
    live.arrivals.promise(state.frontier)
    live.intake.n_rows, live.n_late = state.n_rows, state.n_late
    live.late = state.late.to_batches()
    live.intake.want(state.wanted)
    numbers = state.held_rows.column(0).to_numpy()
    for batch in state.held.combine_chunks().to_batches():
        rows, numbers = numbers[: batch.num_rows], numbers[batch.num_rows :]
        if len(rows):
            try:
                start, end = header(live.stream, batch, rows)
            except pa.ArrowException as error:
                raise checkpoints.damaged(f"rows of `{state.name}` that wait have no time: {error}") from error
            checkpoints.require(end.min() >= time, f"a row of `{state.name}` waits that time has passed")
            live.arrivals.append(ordered(event_batch(live.stream, start, end, rows, batch)))


def resume(checkpoint: Checkpoint, own: Sequence[RuleSpec], before: Live, live: Live) -> list[RuleSpec]:
    """Fills `live` with what the checkpoint holds, and returns the rules of the engine then.

    An engine without rules gets those of the checkpoint. Else its `own` stay: one with the name and meaning of a rule of the
    checkpoint goes on with that one's tables and partial matches, the others begin anew. `before` is what the engine was.
    """
    for stream in checkpoint.streams:
        known = before.streams.get(stream.name)
        live.open(_declared(stream) if known is None else _agreeing(known.stream, known.intake.schema, stream))
        _refill(live.streams[stream.name], stream, checkpoint.time)
    for name, other in before.streams.items():
        if name not in live.streams:
            live.open(other.stream)
    live.frontiers.time, live.promised = checkpoint.time, checkpoint.promised
    states = {rule.name: rule for rule in checkpoint.rules}
    types = None if checkpoint.types is None else TypeColumn(checkpoint.types.column, checkpoint.types.stream)
    rules = list(own) or [replace(_text(rule), types=types) for rule in checkpoint.rules]
    fresh = []
    # As they were loaded once, whatever their order is now: a rule that shares states with one that came later would find them younger
    # than its own partial matches.
    order = {rule.name: (rule.since, place) for place, rule in enumerate(checkpoint.rules)}
    for rule in sorted(rules, key=lambda rule: order.get(rule.name, (0, 0))):
        old = states.get(rule.name)
        loaded = None if old is None or not old.tables else _continued(rule, old, live, is_own=bool(own))
        if loaded is None or old is None:
            fresh.append(rule)
        else:
            live.load(loaded)
            live.n_matches[rule.name] = old.n_matches
    if live.runner is not None:
        _put(live.runner, checkpoint.kernel, checkpoint.time)
    clocks = [stream.stream.type.axis.arrow for stream in live.streams.values()]
    for table in checkpoint.found:
        is_of_clock = all(table.schema.field(name).type in clocks for name in ("_start", "_end"))
        checkpoints.require(is_of_clock, "matches are on another clock than the streams")
        live.delivery.put_back(table)
    # Only now, so that the runners do not take old partial matches for theirs.
    for rule in fresh:
        loaded = plan_rule(rule, live)
        if loaded is not None:
            live.load(loaded)
    return rules


def _put(runner: Runner, kernel: Sequence[tuple[str, pa.Table]], time: int) -> None:
    try:
        state.put(runner, list(kernel), time)
    except (ValueError, pa.ArrowException) as error:
        raise checkpoints.damaged(f"its partial matches do not fit together: {error}") from error


def _continued(rule: RuleSpec, old: RuleState, live: Live, is_own: bool) -> LoadedRule | None:
    """The rule with the tables of the snapshot; None if it now means something else."""
    tables = compiled.from_bytes(old.tables)
    outputs = {output.name for output in tables.outputs}
    is_own_output = bool(outputs) and {name for name in rule.query.published if name in outputs} == {*rule.published}
    readable = {*rule.query.inputs, *([] if rule.types is None else [rule.types.stream])}
    reads_own = {source.name for source in tables.sources} <= readable
    if tables.contributors != old.contributors or (not is_own and not (is_own_output and reads_own)):
        raise checkpoints.damaged(f"the tables of rule `{rule.name}` are another rule's")
    if is_own and (rule.contributors != old.contributors or not _means(rule, tables, live)):
        log.warning("rule `%s` is another than in the snapshot, so it begins anew", rule.name)
        return None
    try:
        lowered = lower_rule(rule, live)
    except QueryError as error:
        raise checkpoints.damaged(f"rule `{rule.name}` does not fit its streams: {error.diagnostics[0].message}") from error
    if lowered is None or any(live.find(source.name) is None for source in tables.sources):
        return None
    return loaded_rule(rule, lowered, tables, live, old.since, old.is_bounded)


def _means(rule: RuleSpec, tables: Tables, live: Live) -> bool:
    """Are the tables those of the rule, as this version or an earlier one compiles it?"""
    if (planned := plan_rule(rule, live)) is None:
        return False
    if same_meaning(planned, tables):
        return True
    reads_rules = any(source.name not in live.streams for source in tables.sources)
    earlier = plan_rule(rule, live, expand=False) if reads_rules else None
    return earlier is not None and same_meaning(earlier, tables)


def _text(state: RuleState) -> RuleSpec:
    languages = state.language.split(",") if isinstance(state.language, str) else []
    languages *= len(state.texts) if len(languages) == 1 else 1  # older snapshots have one for all texts
    if len(languages) != len(state.texts) or not all(language in LANGUAGES for language in languages):
        raise checkpoints.damaged(f"rule `{state.name}` is in no known language")
    parsed = [LANGUAGES[of].parse(SourceText(name, text)) for of, (name, text) in zip(languages, state.texts, strict=True)]
    query = Query(tuple([Text(file, of) for file, of in zip(parsed, languages, strict=True)]))
    return RuleSpec(state.name, query, state.params, state.outputs, state.contributors)


def _declared(state: StreamState) -> OpenStream:
    time = state.time[0] if len(state.time) == 1 else (state.time[0], state.time[1])
    try:
        table = state.schema.empty_table()
    except pa.ArrowException as error:
        raise checkpoints.damaged(f"a column has no type: {error!r}") from error
    return open_stream(state.name, Stream(table, time, state.lateness, state.id, state.unit))


def _agreeing(stream: OpenStream, schema: object, state: StreamState) -> OpenStream:
    """The stream as this engine declares it, which must be the one of the snapshot in all that the waiting rows depend on."""
    theirs = _declared(state)
    for what, one, other in (
        ("other columns", schema, state.schema),
        ("another time column", stream.time, theirs.time),
        ("another unit", stream.type.axis.tick_us, theirs.type.axis.tick_us),
        ("another id column", stream.id, theirs.id),
    ):
        if one != other:
            problem = f"stream `{state.name}` has {what} in the snapshot than in this engine"
            raise data_error("K522", problem, "restore into an engine that declares the stream as it was, or not at all")
    return stream
