"""Which events a trace shows: those of one key, or those with given values in some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keuka.automaton.contract import Partition
from keuka.diagnostics import listing, similar
from keuka.errors import data_error
from keuka.events.files import place
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream
from keuka.schema import Type

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Choice:
    """The values that columns of a stream must have; without any stream all events are chosen, else those of streams not named are not.

    divides: the columns are part of the plan's key, so that other events cannot matter and need not be evaluated.
    """

    columns: Mapping[str, tuple[tuple[str, pa.Scalar], ...]]
    divides: bool

    def mask(self, stream: str, batch: EventBatch) -> Mask:
        """Which of the events are chosen."""
        if not self.columns:
            return np.ones(len(batch), bool)
        if stream not in self.columns:
            return np.zeros(len(batch), bool)
        chosen: Mask = np.logical_and.reduce([_equal(batch.column(name), value) for name, value in self.columns[stream]])
        return chosen

    def __str__(self) -> str:
        """What is said of the choice in the heading of a trace."""
        if not self.columns:
            return ""
        several = len(self.columns) > 1
        names = [(f"{stream}.{name}" if several else name, value) for stream, found in self.columns.items() for name, value in found]
        chosen = ", ".join([f"{name} = {_shown(value)}" for name, value in names])
        return f": events with {chosen}" + ("" if self.divides else ", and others that come next for one of them")


def choose(partition: Partition | None, inputs: Sequence[OpenStream], key: object) -> Choice:
    """What `key=` asks for: nothing (None), a value for each component of the plan's key, or values by the names of columns."""
    if key is None:
        return Choice({}, divides=False)
    components = _components(partition)
    chosen = _by_name(components, inputs, key) if isinstance(key, Mapping) else _by_component(components, key)
    columns: dict[str, list[tuple[str, pa.Scalar]]] = {}
    for where, value in chosen:
        for stream in inputs:
            if stream.name in where:
                columns.setdefault(stream.name, []).append((where[stream.name], _scalar(stream, where[stream.name], value)))
    divides = all(where in components for where, _ in chosen)
    return Choice({stream: tuple(found) for stream, found in columns.items()}, divides)


def _shown(value: pa.Scalar) -> str:
    text = str(value)
    return "NULL" if not value.is_valid else "'" + text.replace("'", "''") + "'" if pa.types.is_string(value.type) else text


def _components(partition: Partition | None) -> list[dict[str, str]]:
    """Each component of the key as stream -> column."""
    if partition is None:
        return []
    return [{stream: names[i] for stream, names in partition.columns.items()} for i in range(len(partition.types))]


def _by_component(components: Sequence[Mapping[str, str]], key: object) -> list[tuple[Mapping[str, str], Any]]:
    """The values of a key that is given without names, each for its component."""
    values = key if isinstance(key, tuple | list) else (key,)
    if not components:
        raise data_error("K524", "the events of this query have no key in common", 'name the column: `key={"name": value}`')
    if len(values) != len(components):
        names = [next(iter(component.values())) for component in components]
        by_name = "`key={" + ", ".join([f'"{name}": ...' for name in names]) + "}`"
        alone = all(sum([name in c.values() for c in components]) == 1 for name in names)
        help = "give a value for each" + (f", or name them: {by_name}" if alone else "")
        raise data_error("K524", f"the key of this query is {listing(names)}, but {len(values)} values were given", help)
    return list(zip(components, values, strict=True))


def _by_name(
    components: Sequence[Mapping[str, str]], inputs: Sequence[OpenStream], key: Mapping[Any, Any]
) -> list[tuple[Mapping[str, str], Any]]:
    """The values of columns, each for the component that has the column; for all streams with such a column where not just one has it."""
    found: list[tuple[Mapping[str, str], Any]] = []
    for name, value in key.items():
        having = [component for component in components if name in component.values()]
        where = having[0] if len(having) == 1 else {s.name: name for s in inputs if s.type.schema.index(name) is not None}
        if not where:
            known = dict.fromkeys([column for stream in inputs for column in stream.type.schema.names])
            problem = f"no stream has a column `{name}` to choose events by"
            raise data_error("K524", problem, *similar(name, known), f"the columns are {listing(known)}")
        found.append((where, value))
    return found


def _scalar(stream: OpenStream, name: str, value: object) -> pa.Scalar:
    """The value in the type of the column it is compared with."""
    index = stream.type.schema.index(name)
    assert index is not None
    attribute = stream.type.schema[index]
    if attribute.type is Type.OTHER:
        raise data_error("K524", f"events cannot be chosen by values of type {attribute.arrow}", where=place(stream.name, None, None, name))
    try:
        return pa.scalar(value).cast(attribute.arrow)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        problem = f"{value!r} is not a value of `{name}`, which is {attribute.type.value}"
        raise data_error("K524", problem, where=place(stream.name, None, None, name)) from None


def _equal(column: pa.Array, value: pa.Scalar) -> Mask:
    """Null is found by null and NaN by NaN; -0.0 and 0.0 are the same."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not value.is_valid:
        found = pc.is_null(column)
    elif pa.types.is_floating(value.type) and value.as_py() != value.as_py():
        found = pc.is_nan(column)
    else:
        found = pc.equal(column, value)
    return np.asarray(pc.fill_null(found, False), bool)
