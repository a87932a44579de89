"""A rule of an engine on its way from a query's text to tables that `run/live.py` can load."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from keuka.algebra.operators import Program
from keuka.automaton.fingerprint import meaning
from keuka.automaton.tables import Tables
from keuka.diagnostics import Diagnostic, Span, listing
from keuka.errors import KeukaError, QueryError
from keuka.events.delivery import QUERY
from keuka.events.frontiers import BEGINNING
from keuka.events.matches import header_names
from keuka.events.order import one_axis
from keuka.events.sources import OpenStream
from keuka.languages.sets import lower_texts
from keuka.plan.type_column import TypeColumn, sources_of
from keuka.plan.warnings import find_warnings
from keuka.query import Query, by_type, compile_program, known_statistics, log_warnings
from keuka.run.live import Live, LoadedRule, Published
from keuka.schema import StreamType

if TYPE_CHECKING:
    from keuka.engine import Engine


@dataclass(frozen=True, eq=False)
class RuleSpec:
    """A rule as it was added."""

    name: str
    query: Query
    params: Mapping[str, object]
    outputs: tuple[str, ...] | None  # None: all
    contributors: bool
    types: TypeColumn | None = None  # the streams that it reads are types of events of one stream

    @property
    def published(self) -> tuple[str, ...]:
        """The names under which other rules can read its results."""
        return tuple([name for name in self.query.published if self.outputs is None or name in self.outputs])


class Rule:
    """A query that an engine runs. Made by `Engine.add`."""

    def __init__(self, engine: Engine, spec: RuleSpec, others: Mapping[str, Rule]) -> None:
        """`others` are the rules that the engine has already, by name."""
        published = publishers(others)
        self.spec = spec
        self.publishers = {name: published[name] for name in spec.query.inputs if name in published}  # whose streams it reads
        self.final_matches = 0
        self._engine = engine

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def streams(self) -> tuple[str, ...]:
        """The input streams it reads."""
        inputs = tuple([name for name in self.spec.query.inputs if name not in self.publishers])
        return inputs if self.spec.types is None or not inputs else (self.spec.types.stream,)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of events it reads, where a column says of which type each is."""
        return () if self.spec.types is None else tuple([name for name in self.spec.query.inputs if name not in self.publishers])

    @property
    def matches(self) -> int:
        """How many matches it has had."""
        return self._engine._counters_of(self)["matches"]

    @property
    def live_instances(self) -> int:
        """How many partial matches it holds: events and runs of events that wait for what comes next."""
        return self._engine._counters_of(self)["live_instances"]

    @property
    def bytes(self) -> int:
        """About how much memory these take."""
        return self._engine._counters_of(self)["bytes"]

    def remove(self) -> None:
        """Takes it out of the engine; its partial matches go. Matches that were found already are still delivered."""
        self._engine.remove(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a rule belongs to its engine and cannot be pickled; send `engine.snapshot()` instead")

    def __repr__(self) -> str:
        return f"<rule `{self.name}` over {listing(self.spec.query.inputs)}>"


def publishers(rules: Mapping[str, Rule]) -> dict[str, str]:
    """Published stream -> the rule that publishes it."""
    return {name: rule.name for rule in rules.values() for name in rule.spec.published}


def rule_name(name: object, query: Query, taken: Collection[str]) -> str:
    """The name that was given, else the one it publishes under, else `rule_1`, `rule_2`, ..."""
    if name is None:
        if len(query.published) == 1 and query.published[0] not in taken:
            return query.published[0]
        return next(default for i in count(len(taken) + 1) if (default := f"rule_{i}") not in taken)
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a rule must be a str with something in it, not {name!r}")
    if name in taken:
        help = "remove that one first, or give this one another `name=`"
        raise conflict(f"there is a rule named `{name}` already", help)
    return name


def check_published(rule: RuleSpec, inputs: Collection[str], publishers: Mapping[str, str]) -> None:
    """No two rules may publish the same name, and none the name of an input stream."""
    for name in rule.published:
        if name in inputs:
            problem = f"rule `{rule.name}` publishes `{name}`, which is the name of an input stream"
            raise QueryError(Diagnostic("K306", problem, help=("publish it under another name", "a rule reads only rules added before it")))
        if name in publishers:
            problem = f"rule `{rule.name}` publishes `{name}`, and so does rule `{publishers[name]}`"
            raise QueryError(Diagnostic("K306", problem, help=("publish it under another name",)))


def plan_rule(rule: RuleSpec, live: Live, expand: bool = True) -> LoadedRule | None:
    """The rule with tables for the streams it reads, which sees what comes from now on; None while one of them is unknown.

    Not to `expand` what other rules publish is how earlier versions planned; ids then depend on how queries are divided into rules.
    """
    lowered = lower_rule(rule, live, expand)
    if lowered is None:
        return None
    log_warnings(rule.query, lowered.warnings)
    header = (QUERY, *header_names(rule.contributors))
    names = (*rule.query.inputs, *([] if rule.types is None else [rule.types.stream]))
    known = known_statistics([stream for name in names if isinstance(stream := live.find(name), OpenStream)])
    planned, tables = compile_program(lowered.program, rule.outputs, rule.contributors, header, known)
    is_bounded = all(stage.physical.reach(can_fail=True) is not None for stage in planned.stages)
    return loaded_rule(rule, lowered, tables, live, max(live.frontiers.time - 1, BEGINNING), is_bounded)


@dataclass(frozen=True)
class LoweredRule:
    """The algebra of a rule; with a type column the types that it reads, and where."""

    program: Program
    warnings: tuple[Diagnostic, ...]
    types: Mapping[str, Span | None] = field(default_factory=dict)


def lower_rule(rule: RuleSpec, live: Live, expand: bool = True) -> LoweredRule | None:
    """The algebra of a rule, which knows what other rules publish; None while a stream that it reads is unknown."""
    types = _types(rule, live)
    if len(types) < len(rule.query.inputs):
        return None
    if not expand:
        types = {name: replace(type_, meaning=None) for name, type_ in types.items()}
    program = lower_texts(rule.query.texts, types, rule.params)
    warnings = find_warnings(program, types)
    events = None if rule.types is None else live.find(rule.types.stream)
    if rule.types is None or not isinstance(events, OpenStream):
        return LoweredRule(program, warnings)
    read = {name: span for name, span in sources_of(program).items() if not isinstance(live.find(name), Published)}
    return LoweredRule(by_type(program, events, rule.types.column, read), warnings, read)


def _types(rule: RuleSpec, live: Live) -> dict[str, StreamType]:
    """The types of the streams that a rule reads, as far as they are known."""
    return {name: stream.type for name in rule.query.inputs if (stream := _find(name, rule, live)) is not None}


def _find(name: str, rule: RuleSpec, live: Live) -> OpenStream | Published | None:
    """The stream that a rule reads by this name: with a type column the stream of all events, unless another rule publishes it."""
    stream = live.find(name)
    return stream if rule.types is None or isinstance(stream, Published) else live.find(rule.types.stream)


def loaded_rule(rule: RuleSpec, lowered: LoweredRule, tables: Tables, live: Live, since: int, is_bounded: bool) -> LoadedRule:
    """What stands around the tables of a rule, all of whose streams are known."""
    streams = [stream for source in tables.sources if (stream := live.find(source.name)) is not None]
    for stream in streams:
        if rule.contributors and isinstance(stream, Published) and not stream.contributors:
            problem = f"rule `{rule.name}` shows contributors, but the rule that publishes `{stream.name}` does not"
            raise conflict(problem, f"add the rule that publishes `{stream.name}` with `contributors=True`")
    outputs = [output.name for output in tables.outputs]
    names = {output: rule.name if len(outputs) == 1 else f"{rule.name}.{output}" for output in outputs}
    taken = next((name for name in names.values() if name in live.delivery.names), None)
    if taken is not None:
        raise conflict(f"rule `{rule.name}` would have matches named `{taken}`, as another rule has", "give it another `name=`")
    axis = one_axis([stream.type.axis for stream in streams])
    published = {name: meaning(operator) for name, operator in lowered.program.outputs if name in rule.published}
    return LoadedRule(rule.name, tables, since, is_bounded, rule.contributors, axis, names, published, lowered.types)


def same_meaning(one: LoadedRule, tables: Tables) -> bool:
    """Would the rule give the same matches with these tables, which may come of another plan?"""

    def outputs(tables: Tables) -> list[tuple[str, object, bytes]]:
        return [(output.name, output.schema, output.fingerprint) for output in tables.outputs]

    return outputs(tables) == outputs(one.tables) and {s.name for s in tables.sources} == {s.name for s in one.tables.sources}


def conflict(message: str, *help: str) -> QueryError:
    """Rules of one engine that do not go together."""
    return QueryError(Diagnostic("K307", message, help=help))


def of_rule(name: str, error: KeukaError) -> list[Diagnostic]:
    """The findings about a rule that was added earlier, with its name."""
    return [replace(finding, message=f"rule `{name}`: {finding.message}") for finding in error.diagnostics]
