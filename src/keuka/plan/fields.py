"""Fields of structs as columns of their own, so that everything after this sees plain values.

In comes a program, out comes one that means the same and in which no expression reads a field: a source has one more attribute for each
field that is read of it, named by `field_name`, and whatever is above passes the field on beside the struct. `events/` and Spark make
these columns; structs themselves are read only where a result has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as List
from dataclasses import replace

from keuka.algebra.operators import (
    Filter,
    Fold,
    Map,
    Next,
    Operator,
    Program,
    Published,
    Sequence,
    Source,
    Union,
    expressions,
    inputs,
    map_expressions,
    with_inputs,
)
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.expressions import CANDIDATE, FIRST, LAST, Column, Expression, Literal, substitute, walk
from keuka.plan.rules import every_operator
from keuka.schema import Attribute, Schema, field_at, field_name

Path = tuple[str, ...]
Field = tuple[int, Path]  # a field of an attribute, given by its index
Places = Mapping[Field, int]  # where fields are now; an attribute itself has an empty path


def extract_fields(program: Program) -> Program:
    """The program with fields as columns; the same program if it reads none."""
    if not _reads_fields(program):
        return program
    of_sources: dict[str, set[Field]] = {}
    # A source has the same attributes wherever it is read. After the first time all of its fields are known.
    for _ in range(2):
        extraction = _Extraction(of_sources)
        outputs = tuple([(name, extraction.selected(node, node.schema, ())) for name, node in program.outputs])
    return Program(outputs)


def _reads_fields(program: Program) -> bool:
    return any(column.path for node in every_operator(program) for e in expressions(node) for column in _columns(e))


def _columns(expression: Expression) -> list[Column]:
    return [node for node in walk(expression) if isinstance(node, Column)]


def _wanted(expressions: Iterable[Expression], side: int) -> list[Field]:
    return [(c.index, c.path) for e in expressions for c in _columns(e) if c.side == side and c.path]


class _Extraction:
    """Published streams that are read with the same fields stay one stream. `of_sources`: the fields that are read of each source."""

    def __init__(self, of_sources: dict[str, set[Field]]) -> None:
        self.of_sources = of_sources
        self.published: dict[tuple[str, tuple[Field, ...]], Published] = {}

    def selected(self, operator: Operator, schema: Schema, fields: tuple[Field, ...]) -> Operator:
        """The operator with its attributes as those of the schema, then these fields of them, and nothing else."""
        extended, places = self.extend(operator, fields)
        chosen, attributes = [places[field] for field in _appended(schema, fields)], _grown(schema, fields).attributes
        if len(extended.schema) == len(chosen) and chosen == list(range(len(chosen))):
            return extended
        items = [Column(FIRST, k, a.type, a.name, arrow=a.arrow) for k, a in zip(chosen, attributes, strict=True)]
        return Map(extended, tuple(items), Schema(attributes), extended.span)

    def extend(self, operator: Operator, fields: Iterable[Field]) -> tuple[Operator, Places]:
        """The operator with these fields among its attributes, and where all of them are."""
        wanted = tuple(sorted(set(fields)))
        match operator:
            case Source():
                return self._source(operator, wanted)
            case Published():
                return self._published(operator, wanted)
            case Filter():
                source, places = self.extend(operator.input, (*wanted, *_wanted((operator.predicate,), FIRST)))
                return replace(operator, input=source, predicate=_moved(operator.predicate, [places])), places
            case Map():
                return self._map(operator, wanted)
            case Union():
                return self._union(operator, wanted)
            case Next() | Sequence():
                return self._concatenation(operator, wanted)
            case Fold():
                return self._fold(operator, wanted)

    def _source(self, source: Source, wanted: tuple[Field, ...]) -> tuple[Operator, Places]:
        if wanted and source.meaning is not None:
            i, path = wanted[0]
            name = ".".join((source.schema[i].name, *path))
            help = f"select it in the rule that publishes `{source.stream}`: `SELECT {name} AS {path[-1]}, ...`"
            raise QueryError(Diagnostic("K220", f"`{name}` is a field of what another rule publishes", source.span, help=(help,)))
        fields = self.of_sources.setdefault(source.stream, set())
        fields |= {*wanted}
        return replace(source, schema=_grown(source.schema, sorted(fields))), _appended(source.schema, sorted(fields))

    def _published(self, operator: Published, wanted: tuple[Field, ...]) -> tuple[Operator, Places]:
        if (operator.name, wanted) not in self.published:
            chosen = self.selected(operator.input, operator.schema, wanted)
            name = f"{operator.name}#fields{len(self.published)}" if wanted else operator.name
            self.published[operator.name, wanted] = replace(operator, name=name, input=chosen)
        return self.published[operator.name, wanted], _appended(operator.schema, wanted)

    def _map(self, operator: Map, wanted: tuple[Field, ...]) -> tuple[Operator, Places]:
        items = (*operator.items, *[_field_of(operator.items[i], path, operator.schema[i]) for i, path in wanted])
        source, places = self.extend(operator.input, _wanted(items, FIRST))
        moved = tuple([_moved(item, [places]) for item in items])
        return replace(operator, input=source, items=moved, schema=_grown(operator.schema, wanted)), _appended(operator.schema, wanted)

    def _union(self, operator: Union, wanted: tuple[Field, ...]) -> tuple[Operator, Places]:
        sides = tuple([self.selected(side, operator.schema, wanted) for side in operator.inputs])
        schema = _grown(operator.schema, wanted)
        return replace(operator, inputs=sides, schema=schema), _appended(operator.schema, wanted)

    def _concatenation(self, operator: Next | Sequence, wanted: tuple[Field, ...]) -> tuple[Operator, Places]:
        """Side i of its expressions is input i, and its attributes are those of some inputs, one after the other."""
        occurring = operator.positive if isinstance(operator, Sequence) else (0, 1)
        used, before = expressions(operator), inputs(operator)
        offsets, n = {}, 0
        for i in occurring:
            offsets[i], n = n, n + len(before[i].schema)
        extended: list[Operator] = []
        sides: list[Places] = []
        for i, source in enumerate(before):
            own = [(k - offsets[i], path) for k, path in wanted if i in offsets and 0 <= k - offsets[i] < len(source.schema)]
            new, places_of_input = self.extend(source, [*own, *_wanted(used, i)])
            extended.append(new)
            sides.append(places_of_input)
        places, schema = _side_by_side([(extended[i], sides[i], len(before[i].schema)) for i in occurring], operator.schema)
        moved = with_inputs(map_expressions(operator, lambda e: _moved(e, sides)), extended)
        assert isinstance(moved, Next | Sequence)
        return replace(moved, schema=schema), places

    def _fold(self, operator: Fold, wanted: tuple[Field, ...]) -> tuple[Operator, Places]:
        conditions, n = expressions(operator), len(operator.first.schema)
        # A field that a run goes on with comes from wherever its struct does.
        fields = {(i % n, path) for i, path in wanted} | {*_wanted(conditions, FIRST), *_wanted(conditions, LAST)}
        while True:
            sources = {_field_of(operator.update[i], path, operator.first.schema[i]) for i, path in fields}
            more = {field for side in (FIRST, LAST) for field in _wanted(sources, side)} - fields
            if not more:
                break
            fields |= more
        first, of_first = self.extend(operator.first, fields)
        second, of_second = self.extend(operator.second, [*_wanted(conditions, CANDIDATE), *_wanted(sources, CANDIDATE)])
        sides = [of_first, of_second, of_first]
        new = [Column(LAST, i, a.type, a.name, arrow=a.arrow) for i, a in enumerate(first.schema.attributes)]
        update: list[Expression] = [*new]
        for (i, path), place in of_first.items():
            if not path or (i, path) in fields:
                value = _field_of(operator.update[i], path, operator.first.schema[i]) if path else operator.update[i]
                update[place] = _moved(value, sides)
        skip, step = [_moved(e, sides) for e in conditions[:2]]
        places, schema = _side_by_side([(first, of_first, n), (first, of_first, n)], operator.schema)
        return replace(operator, first=first, second=second, skip=skip, step=step, update=tuple(update), schema=schema), places


def _field_of(value: Expression, path: Path, attribute: Attribute) -> Expression:
    """A field of what an expression passes on: of a column, or of the NULL that stands for one."""
    found = field_at(attribute, path)
    if isinstance(value, Column):
        return replace(value, type=found.type, arrow=found.arrow, path=(*value.path, *path), name=".".join((value.name, *path)))
    return Literal(None, found.type, value.span)


def _moved(expression: Expression, sides: List[Places]) -> Expression:
    return substitute(expression, lambda c: replace(c, index=sides[c.side][c.index, c.path], path=()))


def _grown(schema: Schema, fields: Iterable[Field]) -> Schema:
    return Schema((*schema.attributes, *[field_at(schema[i], path) for i, path in fields]))


def _appended(schema: Schema, fields: Iterable[Field]) -> Places:
    return {field: place for place, field in enumerate([*[(i, ()) for i in range(len(schema))], *fields])}


def _side_by_side(pieces: List[tuple[Operator, Places, int]], schema: Schema) -> tuple[Places, Schema]:
    """Inputs whose attributes stand one after the other. Each comes with the number of attributes it had before."""
    places: dict[Field, int] = {}
    attributes: list[Attribute] = []
    before = 0
    for operator, own, size in pieces:
        names = {own[i, ()]: schema[before + i].name for i in range(size)}
        for (i, path), place in own.items():
            places[before + i, path] = len(attributes) + place
        attributes += [a.renamed(names.get(k, field_name(a.name, (str(before),)))) for k, a in enumerate(operator.schema.attributes)]
        before += size
    return places, Schema(tuple(attributes))
