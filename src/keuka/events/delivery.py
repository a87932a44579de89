"""What a live engine has found: `Matches`, the value its calls return, and `Delivery`, which collects them.

Comes in: batches of matches of single queries. Goes out: one table per result schema, in the order of `_end`, with the column
`_query` in front that says whose match a row is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import Diagnostic, listing, similar
from keuka.errors import QueryError
from keuka.events.columns import Int64Array, ticks
from keuka.events.frontiers import row_indices
from keuka.events.matches import convert
from keuka.schema import RESULT

QUERY = "_query"
QUERY_TYPE = pa.dictionary(pa.int32(), pa.string())


class _Results:
    """The results of all outputs that have one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = pa.schema([pa.field(QUERY, QUERY_TYPE), *schema])
        self.nothing = self.schema.empty_table()
        self.names: dict[str, None] = {}  # of the outputs whose matches may still come


# Matches of one output: where they belong, its name, the rows in the order of `_end`.
Found = tuple[_Results, str, pa.RecordBatch]


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """The matches that one call of an engine gave: a table for each schema that results have, also if it has no rows.

    `len` is the number of matches, and a loop goes over the tables. Every table begins with the column `_query`: the name of the
    rule, or `rule.output` for a rule with several outputs.
    """

    num_rows: int
    queries: Mapping[str, int]  # what may stand in `_query` -> which table
    _results: tuple[_Results, ...]
    _steps: Sequence[Sequence[Found]]  # what was found together; steps are in the order of time

    @cached_property
    def tables(self) -> tuple[pa.Table, ...]:
        """One for each schema. They are put together when they are first asked for."""
        if not self._steps:
            return tuple([results.nothing for results in self._results])
        return tuple([_table(results, self._steps) for results in self._results])

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[pa.Table]:
        return iter(self.tables)

    @property
    def table(self) -> pa.Table:
        """The only table. If results have several schemas, take them from `tables` or by rule with `of`."""
        if len(self.tables) > 1:
            message = f"these matches have {len(self.tables)} schemas, so there is no one table of them"
            help = f"take those of one rule, `matches.of(name)` with one of {listing(self.queries)}, or loop over `matches.tables`"
            raise QueryError(Diagnostic("K307", message, help=(help,)))
        return self.tables[0] if self.tables else pa.table({QUERY: pa.array([], QUERY_TYPE)})

    def of(self, rule: Any) -> pa.Table:
        """The matches of one rule, given by itself or by its name, without the column `_query`."""
        name = rule if isinstance(rule, str) else getattr(rule, "name", rule)
        if name not in self.queries:
            several = [query for query in self.queries if isinstance(name, str) and query.startswith(f"{name}.")]
            message = f"rule `{name}` has {len(several)} outputs" if several else f"no rule of these matches is named `{name}`"
            help = (f"name one of {listing(several or self.queries)}",) if several or self.queries else ("there is no rule",)
            raise QueryError(Diagnostic("K307", message, help=(*similar(name, self.queries), *help)))
        table = self.tables[self.queries[name]]
        return table.filter(pc.equal(table.column(0).cast(pa.string()), name)).drop_columns([QUERY])

    def to_pylist(self) -> list[dict[str, Any]]:
        """All matches as dicts, in the order of `_end`."""
        rows = [row for table in self.tables for row in table.to_pylist()]
        return sorted(rows, key=lambda row: row[RESULT.end]) if len(self.tables) > 1 else rows

    def to_pandas(self) -> Any:
        """The only table as a pandas frame."""
        return convert(self.table, "pandas")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        n_rows = self.num_rows
        counts: dict[str, int] = {}
        for table in self.tables:
            for entry in table.column(0).value_counts().to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
        whose = ": " + ", ".join([f"{n:,} of `{name}`" for name, n in counts.items()]) if counts else ""
        return f"<{n_rows:,} {'match' if n_rows == 1 else 'matches'}{whose}>"


class Delivery:
    """Matches found and not yet delivered, and the tables they will stand in."""

    def __init__(self) -> None:
        self._results: dict[pa.Schema, _Results] = {}
        self._places: dict[tuple[str, str], tuple[_Results, str]] = {}  # (rule, output) -> where its matches belong, its name
        self._names: set[str] = set()
        self._steps: list[list[Found]] = []
        self.n_found = 0
        self._nothing: Matches | None = None  # what is delivered while nothing is found; None after rules changed

    @property
    def names(self) -> Collection[str]:
        """What may stand in `_query` of matches to come."""
        return self._names

    def announce(self, rule: str, output: str, name: str, schema: pa.Schema) -> None:
        """Matches of this output may come from now on; `name` is what `_query` says."""
        results = self._results_of(schema)
        results.names[name] = None
        self._places[rule, output] = results, name
        self._names.add(name)
        self._nothing = None

    def withdraw(self, rule: str, output: str) -> None:
        """No more matches of this output will come."""
        results, name = self._places.pop((rule, output))
        del results.names[name]
        self._names.discard(name)
        self._nothing = None

    def collect(self, found: Sequence[tuple[str, str, pa.RecordBatch]]) -> int:
        """Takes what one step of the engine found: rule, output, rows in the order of `_end`. Steps come in the order of time.

        Returns how many matches there are.
        """
        self._steps.append([(*self._places[rule, output], rows) for rule, output, rows in found])
        n_found = int(sum([rows.num_rows for _, _, rows in found]))
        self.n_found += n_found
        return n_found

    @property
    def n_bytes(self) -> int:
        """About what undelivered matches take."""
        return sum([about_bytes(rows) for step in self._steps for _, _, rows in step])

    def deliver(self) -> Matches:
        """Everything found since the last time."""
        has_changed = self._nothing is None
        if self._nothing is None:
            self._results = {schema: results for schema, results in self._results.items() if results.names}
            self._nothing = self._delivered(tuple(self._results.values()), ())
        if not self._steps:
            return self._nothing
        steps, self._steps = self._steps, []
        n_found, self.n_found = self.n_found, 0
        if not has_changed:
            return Matches(n_found, self._nothing.queries, self._nothing._results, steps)
        # Rules may have gone since their matches were found.
        results = dict.fromkeys([*self._results.values(), *[results for step in steps for results, _, _ in step]])
        return self._delivered(tuple(results), steps)

    def _delivered(self, results: tuple[_Results, ...], steps: Sequence[Sequence[Found]]) -> Matches:
        queries = {name: i for i, place in enumerate(results) for name in place.names}
        for place, name, _ in [found for step in steps for found in step]:
            queries.setdefault(name, results.index(place))
        return Matches(sum([rows.num_rows for step in steps for _, _, rows in step]), queries, results, steps)

    def _results_of(self, schema: pa.Schema) -> _Results:
        if schema not in self._results:
            self._results[schema] = _Results(schema)
        return self._results[schema]

    def pending(self) -> list[pa.Table]:
        """What was found and not delivered, as it will be."""
        results = tuple(dict.fromkeys([results for step in self._steps for results, _, _ in step]))
        return list(self._delivered(results, self._steps).tables)

    def put_back(self, pending: pa.Table) -> None:
        """Takes what `pending` gave before rules have found anything."""
        results = self._results_of(pa.schema(list(pending.schema)[1:]))
        names = pending.column(0).cast(pa.string())
        for name in pc.unique(names).to_pylist():
            rows = pending.filter(pc.equal(names, name)).drop_columns([QUERY])
            self._steps.append([(results, name, batch) for batch in rows.to_batches()])
        self.n_found += pending.num_rows
        self._nothing = None


def about_bytes(rows: pa.RecordBatch | pa.Table) -> int:
    """A guess at what matches take, because Arrow's own count costs as much as a small push."""
    return 8 * int(rows.num_rows) * int(rows.num_columns)


def _table(results: _Results, steps: Sequence[Sequence[Found]]) -> pa.Table:
    names = list(dict.fromkeys([name for step in steps for place, name, _ in step if place is results]))
    words = pa.array(names, pa.string())
    batches = []
    for step in steps:
        mine = [_named(rows, names.index(name), words) for place, name, rows in step if place is results and rows.num_rows]
        batches += by_end(mine)
    return pa.Table.from_batches(batches, results.schema)


def _named(rows: pa.RecordBatch, code: int, words: pa.Array) -> pa.RecordBatch:
    codes = pa.Array.from_buffers(pa.int32(), rows.num_rows, [None, pa.py_buffer(np.full(rows.num_rows, code, np.int32))])
    return rows.add_column(0, pa.field(QUERY, QUERY_TYPE), pa.DictionaryArray.from_arrays(codes, words, safe=False))


def by_end(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of several batches, each in the order of `_end`, in one order of `_end`; equal ends as the batches come."""
    if len(batches) <= 1:
        return list(batches)
    ends = [ticks(batch.column(RESULT.end)) for batch in batches]
    if all(earlier[-1] <= later[0] for earlier, later in pairwise(ends)):
        return list(batches)
    order = np.argsort(np.concatenate(ends), kind="stable")
    try:
        return [pa.concat_batches(batches).take(row_indices(order))]
    except pa.ArrowInvalid:  # more than 2 GB of a column: without copying, then
        return _epochs(batches, ends)


def _epochs(batches: Sequence[pa.RecordBatch], ends: Sequence[Int64Array]) -> list[pa.RecordBatch]:
    pieces = []
    for batch, end in zip(batches, ends, strict=True):
        bounds = [0, *(np.flatnonzero(end[1:] != end[:-1]) + 1).tolist(), len(end)]
        pieces += [(int(end[begin]), batch.slice(begin, stop - begin)) for begin, stop in pairwise(bounds)]
    return [piece for _, piece in sorted(pieces, key=lambda piece: piece[0])]
