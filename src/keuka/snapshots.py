"""Snapshots of an engine: its rules and the state of its shard as one value, as bytes, and back in an engine.

Only here is known that rules have texts. A section of the bytes is JSON, compiled tables (`automaton/tables.py`) or an Arrow IPC stream;
`run/state_bytes.py` has those of the state.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from keuka.automaton import tables as compiled
from keuka.automaton.tables import Tables
from keuka.diagnostics import SourceText
from keuka.errors import QueryError, data_error
from keuka.events.delivery import QUERY, QUERY_TYPE
from keuka.events.sources import OpenStream, Stream, open_stream
from keuka.languages.parameters import elements
from keuka.languages.sets import LANGUAGES, Text
from keuka.plan.type_column import TypeColumn
from keuka.query import Query
from keuka.rules import RuleSpec, loaded_rule, lower_rule, plan_rule, same_meaning
from keuka.run import live_state, state_bytes
from keuka.run.live import Live, LoadedRule
from keuka.run.state import ShardState, StreamState
from keuka.run.state_bytes import Facts, are_texts, damaged, require
from keuka.schema import RESULT

log = logging.getLogger("keuka")

FACTS = "engine"  # the section in JSON


@dataclass(frozen=True, eq=False)
class SavedRule:
    """A rule as it was added, and where it stands. `tables` are empty while its streams are unknown."""

    name: str
    language: str
    texts: tuple[tuple[str, str], ...]  # name and text of each file
    params: dict[str, object]
    outputs: tuple[str, ...] | None
    contributors: bool
    since: int
    is_bounded: bool
    n_matches: int
    tables: bytes


@dataclass(frozen=True)
class SavedTypes:
    """The column of types of the one stream of all events, and the types that came so far."""

    column: str
    stream: str
    seen: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Snapshot:
    rules: tuple[SavedRule, ...]
    state: ShardState
    found: tuple[pa.Table, ...]  # matches that were not delivered yet
    types: SavedTypes | None


def take(rules: Sequence[RuleSpec], live: Live) -> Snapshot:
    """All that is needed to go on from here."""
    types = live.types
    return Snapshot(
        rules=tuple([_saved(rule, live.rules.get(rule.name), live.n_matches[rule.name]) for rule in rules]),
        state=live_state.take(live),
        found=tuple(live.delivery.pending()),
        types=None if types is None else SavedTypes(types.types.column, types.stream, tuple(sorted(types.types.seen))),
    )


def _saved(rule: RuleSpec, loaded: LoadedRule | None, n_matches: int) -> SavedRule:
    return SavedRule(
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


# -- back in an engine ------------------------------------------------------------------------------------------------------


def agreeing_types(own: TypeColumn | None, saved: SavedTypes | None, is_new: bool) -> TypeColumn | None:
    """The type column of an engine after a restore. One that has neither rules nor streams takes that of the snapshot."""
    theirs = None if saved is None else TypeColumn(saved.column, saved.stream)
    if own == theirs or (is_new and own is None):
        return theirs
    problem = f"the snapshot has {'another' if theirs and own else 'a' if theirs else 'no'} `type_column`, unlike this engine"
    raise data_error("K522", problem, "restore into an engine with the type column and the stream that the snapshot was taken with")


def resume(snapshot: Snapshot, own: Sequence[RuleSpec], before: Live, live: Live) -> list[RuleSpec]:
    """Fill `live` with what the snapshot holds, and return the rules of the engine then.

    An engine without rules gets those of the snapshot. Else its `own` stay: one with the name and meaning of a rule of the
    snapshot goes on with that one's tables and partial matches, the others begin anew. `before` is what the engine was.
    """
    for stream in snapshot.state.streams:
        known = before.streams.get(stream.name)
        live.open(_declared(stream) if known is None else _agreeing(known.stream, known.intake.schema, stream))
    for name, other in before.streams.items():
        if name not in live.streams:
            live.open(other.stream)
    live.frontiers.time, live.promised = snapshot.state.time, snapshot.state.promised
    states = {rule.name: rule for rule in snapshot.rules}
    types = None if snapshot.types is None else TypeColumn(snapshot.types.column, snapshot.types.stream)
    rules = list(own) or [replace(_spec(rule), types=types) for rule in snapshot.rules]
    fresh = []
    # As they were loaded once, whatever their order is now: a rule that shares states with one that came later would find them younger
    # than its own partial matches.
    order = {rule.name: (rule.since, place) for place, rule in enumerate(snapshot.rules)}
    for rule in sorted(rules, key=lambda rule: order.get(rule.name, (0, 0))):
        old = states.get(rule.name)
        loaded = None if old is None or not old.tables else _continued(rule, old, live, is_own=bool(own))
        if loaded is None or old is None:
            fresh.append(rule)
        else:
            live.load(loaded)
            live.n_matches[rule.name] = old.n_matches
    try:
        live_state.put(live, snapshot.state)
    except ValueError as error:
        raise damaged(str(error)) from error
    clocks = [stream.stream.type.axis.arrow for stream in live.streams.values()]
    for table in snapshot.found:
        is_of_clock = all(table.schema.field(name).type in clocks for name in RESULT.names)
        require(is_of_clock, "matches are on another clock than the streams")
        live.delivery.put_back(table)
    # Only now, so that the runners do not take old partial matches for theirs.
    for rule in fresh:
        loaded = plan_rule(rule, live)
        if loaded is not None:
            live.load(loaded)
    return rules


def _continued(rule: RuleSpec, old: SavedRule, live: Live, is_own: bool) -> LoadedRule | None:
    """The rule with the tables of the snapshot; None if it now means something else."""
    tables = compiled.from_bytes(old.tables)
    outputs = {output.name for output in tables.outputs}
    is_own_output = bool(outputs) and {name for name in rule.query.published if name in outputs} == {*rule.published}
    readable = {*rule.query.inputs, *([] if rule.types is None else [rule.types.stream])}
    reads_own = {source.name for source in tables.sources} <= readable
    if tables.contributors != old.contributors or (not is_own and not (is_own_output and reads_own)):
        raise damaged(f"the tables of rule `{rule.name}` are another rule's")
    if is_own and (rule.contributors != old.contributors or not _means(rule, tables, live)):
        log.warning("rule `%s` is another than in the snapshot, so it begins anew", rule.name)
        return None
    try:
        lowered = lower_rule(rule, live)
    except QueryError as error:
        raise damaged(f"rule `{rule.name}` does not fit its streams: {error.diagnostics[0].message}") from error
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


def _spec(rule: SavedRule) -> RuleSpec:
    languages = rule.language.split(",")
    languages *= len(rule.texts) if len(languages) == 1 else 1  # older snapshots have one for all texts
    if len(languages) != len(rule.texts) or not all(language in LANGUAGES for language in languages):
        raise damaged(f"rule `{rule.name}` is in no known language")
    parsed = [LANGUAGES[of].parse(SourceText(name, text)) for of, (name, text) in zip(languages, rule.texts, strict=True)]
    query = Query(tuple([Text(file, of) for file, of in zip(parsed, languages, strict=True)]))
    return RuleSpec(rule.name, query, rule.params, rule.outputs, rule.contributors)


def _declared(state: StreamState) -> OpenStream:
    try:
        table = state.schema.empty_table()
    except pa.ArrowException as error:
        raise damaged(f"a column has no type: {error!r}") from error
    return open_stream(state.name, Stream(table, state.header.time, state.lateness, state.header.id, state.unit))


def _agreeing(stream: OpenStream, schema: object, state: StreamState) -> OpenStream:
    """The stream as this engine declares it, which must be the one of the snapshot in all that the waiting rows depend on."""
    theirs = _declared(state)
    for what, one, other in (
        ("other columns", schema, state.schema),
        ("another time column", stream.header.times, theirs.header.times),
        ("another unit", stream.type.axis.tick_us, theirs.type.axis.tick_us),
        ("another id column", stream.header.id, theirs.header.id),
    ):
        if one != other:
            problem = f"stream `{state.name}` has {what} in the snapshot than in this engine"
            raise data_error("K522", problem, "restore into an engine that declares the stream as it was, or not at all")
    return stream


# -- as bytes ----------------------------------------------------------------------------------------------------------------

# What of a rule goes into the JSON section beside its parameters; its tables are a section of their own.
_RULE = ("name", "language", "texts", "outputs", "contributors", "since", "is_bounded", "n_matches")


def to_bytes(snapshot: Snapshot) -> bytes:
    facts, sections = state_bytes.write_state(snapshot.state)
    facts["rules"] = [_rule_facts(rule) for rule in snapshot.rules]
    if snapshot.types is not None:
        facts["types"] = asdict(snapshot.types)
    sections |= {f"rule/{i}/tables": rule.tables for i, rule in enumerate(snapshot.rules)}
    sections |= {f"found/{i}": state_bytes.write_table(table) for i, table in enumerate(snapshot.found)}
    return state_bytes.pack({FACTS: json.dumps(facts).encode(), **sections})


def from_bytes(data: bytes) -> Snapshot:
    sections = state_bytes.unpack(data)
    facts = state_bytes.read_facts(sections, FACTS)
    rules = [_rule(rule, state_bytes.section(sections, f"rule/{i}/tables")) for i, rule in enumerate(facts.objects("rules"))]
    state_bytes.require_distinct("rules", [rule.name for rule in rules])
    return Snapshot(
        rules=tuple(rules),
        state=state_bytes.read_state(facts, sections),
        found=tuple([_found(state_bytes.read_table(sections, name)) for name in sections if name.startswith("found/")]),
        types=_types(Facts(facts.get("types"))) if "types" in facts else None,  # older snapshots know of no types
    )


def _types(facts: Facts) -> SavedTypes:
    seen = facts.items("seen")
    require(are_texts(seen), "the types of events are none")
    return SavedTypes(facts.text("column"), facts.text("stream"), tuple(seen))


def _rule_facts(rule: SavedRule) -> dict[str, Any]:
    params = {name: _written(value) for name, value in rule.params.items()}
    return {**{name: getattr(rule, name) for name in _RULE}, "params": params, "is_loaded": bool(rule.tables)}


def _rule(facts: Facts, tables: bytes) -> SavedRule:
    require(facts.flag("is_loaded") is bool(tables), "the tables of a rule are missing")
    texts = facts.items("texts")
    require(bool(texts) and all(are_texts(text) and len(text) == 2 for text in texts), "a rule has no text")
    outputs, params = facts.get("outputs"), facts.get("params")
    require(outputs is None or (are_texts(outputs) and bool(outputs)), "the outputs of a rule are none")
    require(isinstance(params, dict) and are_texts(list(params)), "the parameters of a rule are none")
    return SavedRule(
        name=facts.text("name"),
        language=facts.text("language"),
        texts=tuple([(name, text) for name, text in texts]),
        params={name: _read(value) for name, value in params.items()},
        outputs=None if outputs is None else tuple(outputs),
        contributors=facts.flag("contributors"),
        since=facts.number("since", -(2**63), 2**63 - 1),
        is_bounded=facts.flag("is_bounded"),
        n_matches=facts.count("n_matches"),
        tables=tables,
    )


def _found(table: pa.Table) -> pa.Table:
    """Matches as `Delivery.pending` gives them: whose they are in front, and their times at the end."""
    names = table.column_names
    require(names[:1] == [QUERY] and table.schema.field(0).type.equals(QUERY_TYPE), "matches do not say whose they are")
    require(len(set(names)) == len(names) and {*RESULT.names} <= {*names}, "matches have no time")
    for column in (QUERY, *RESULT.names):
        require(table.column(column).null_count == 0, f"matches have no `{column}`")
    return table


# -- values of parameters ----------------------------------------------------------------------------------------------------


def _written(value: Any) -> list[Any]:
    """A parameter as its kind and something JSON has."""
    several = elements(value)
    if several is not None:
        return ["list", [_written(element) for element in several]]
    if hasattr(value, "dtype") and hasattr(value, "item"):  # of numpy; its times must not become numbers of nanoseconds
        value = (value.astype(f"{value.dtype.kind}8[us]") if value.dtype.kind in "mM" else value).item()
    if isinstance(value, datetime) and value != value:  # pandas' NaT
        value = None
    if isinstance(value, datetime | date):
        return ["datetime" if isinstance(value, datetime) else "date", value.isoformat()]
    if isinstance(value, timedelta):
        return ["timedelta", [value.days, value.seconds, value.microseconds]]
    return ["float", value.hex()] if isinstance(value, float) else ["plain", value]


def _read(written: Any) -> object:
    require(isinstance(written, list) and len(written) == 2, "a parameter has no value")
    kind, value = written
    if kind == "plain":
        return value
    if kind == "list":
        require(isinstance(value, list) and all(isinstance(e, list) and e[:1] != ["list"] for e in value), "a parameter is no list")
        return [_read(element) for element in value]
    known: dict[str, Callable[[Any], object]] = {
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "timedelta": lambda parts: timedelta(*parts),
        "float": float.fromhex,
    }
    require(isinstance(kind, str) and kind in known, "a parameter is of no kind")
    try:
        return known[kind](value)
    except (ValueError, TypeError, OverflowError) as error:
        raise damaged(f"a parameter is no {kind}: {value!r}") from error
