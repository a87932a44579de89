"""What a live engine has found: `Matches`, the value its calls return, and `Delivery`, which puts one together.

Comes in: batches of matches of single queries. Goes out: one table per result schema, in the order of `_end`, with the column
`_query` in front that says whose match a row is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

QUERY = "_query"
QUERY_TYPE = pa.dictionary(pa.int32(), pa.string())
# A push of a few rows has a few matches; to make their column `_query` anew costs 5 us, to cut it from a longer one 0.5.
FEW_MATCHES, MANY_COLUMNS = 64, 1_000


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """The matches that one call of an engine gave: a table for each schema that results have, also if it has no rows.

    `len` is the number of matches, and a loop goes over the tables. Every table begins with the column `_query`: the name of the
    rule, or `rule.output` for a rule with several outputs.
    """

    tables: tuple[pa.Table, ...]
    queries: Mapping[str, int] = field(default_factory=dict)  # what may stand in `_query` -> which table

    @property
    def num_rows(self) -> int:
        return sum([table.num_rows for table in self.tables])

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
        return sorted(rows, key=lambda row: row["_end"]) if len(self.tables) > 1 else rows

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


class _Table:
    """The rows of all outputs that have one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = pa.schema([pa.field(QUERY, QUERY_TYPE), *schema])
        self.nothing = self.schema.empty_table()
        self.names: dict[str, int] = {}  # outputs whose matches may still come, and their codes in `_query`
        self.words: pa.Array | None = None  # what the codes stand for; None if they must be counted again
        self.columns: dict[str, pa.Array] = {}  # `_query` of outputs that had matches lately, FEW_MATCHES rows of it
        self.found: list[pa.RecordBatch] = []
        self.gone: list[str] = []  # outputs that are gone but may have rows in `found`

    def named(self, rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """The rows with `_query` in front."""
        if self.words is None:
            self.words = pa.array(list(self.names), pa.string())
            self.names = {name: code for code, name in enumerate(self.names)}
            self.columns = {}
        n = rows.num_rows
        column = self.columns.get(name) if n <= FEW_MATCHES else self._column(name, n)
        if column is None:
            if len(self.columns) == MANY_COLUMNS:
                self.columns = {}
            column = self.columns[name] = self._column(name, FEW_MATCHES)
        return rows.add_column(0, self.schema.field(0), column.slice(0, n))

    def _column(self, name: str, n: int) -> pa.Array:
        codes = pa.Array.from_buffers(pa.int32(), n, [None, pa.py_buffer(np.full(n, self.names[name], np.int32))])
        return pa.DictionaryArray.from_arrays(codes, self.words, safe=False)


class Delivery:
    """Matches found and not yet delivered, and the tables they will stand in."""

    def __init__(self) -> None:
        self._tables: dict[pa.Schema, _Table] = {}
        self._places: dict[tuple[str, str], tuple[_Table, str]] = {}  # (rule, output) -> its table, its name in `_query`
        self._names: set[str] = set()
        self._any_found = False
        self._nothing: Matches | None = None  # what is delivered while nothing is found; None after rules changed

    @property
    def names(self) -> Collection[str]:
        """What may stand in `_query` of matches to come."""
        return self._names

    def announce(self, rule: str, output: str, name: str, schema: pa.Schema) -> None:
        """Matches of this output may come from now on; `name` is what `_query` says."""
        table = self._tables.setdefault(schema, _Table(schema))
        table.names[name] = len(table.names)
        table.words = None
        self._places[rule, output] = table, name
        self._names.add(name)
        self._nothing = None

    def withdraw(self, rule: str, output: str) -> None:
        """No more matches of this output will come."""
        table, name = self._places.pop((rule, output))
        del table.names[name]
        self._names.discard(name)
        table.words = None
        if table.found:
            table.gone.append(name)
        self._nothing = None

    def collect(self, found: Sequence[tuple[str, str, pa.RecordBatch]]) -> None:
        """Takes what one step of the engine found: rule, output, rows in the order of `_end`. Steps come in the order of time."""
        by_table: dict[_Table, list[pa.RecordBatch]] = {}
        for rule, output, rows in found:
            table, name = self._places[rule, output]
            if rows.num_rows:
                by_table.setdefault(table, []).append(table.named(rows, name))
        for table, batches in by_table.items():
            table.found += by_end(batches)
            self._any_found = True

    def deliver(self) -> Matches:
        """Everything found since the last time."""
        if self._nothing is None:
            self._tables = {schema: table for schema, table in self._tables.items() if table.names or table.found}
            queries = {name: i for i, table in enumerate(self._tables.values()) for name in (*table.gone, *table.names)}
            self._nothing = Matches(tuple([table.nothing for table in self._tables.values()]), queries)
        if not self._any_found:
            return self._nothing
        self._any_found = False
        filled, nothing = [], self._nothing
        for table in self._tables.values():
            filled.append(pa.Table.from_batches(table.found, table.schema) if table.found else table.nothing)
            if table.gone:
                self._nothing = None
            table.found, table.gone = [], []
        return Matches(tuple(filled), nothing.queries)

    def pending(self) -> list[pa.Table]:
        """What was found and not delivered, as it will be."""
        return [pa.Table.from_batches(table.found, table.schema) for table in self._tables.values() if table.found]

    def put_back(self, pending: pa.Table) -> None:
        """Takes what `pending` gave before rules have found anything."""
        schema = pa.schema(list(pending.schema)[1:])
        table = self._tables.setdefault(schema, _Table(schema))
        table.found += pending.to_batches()
        table.gone += [name for name in pc.unique(pending.column(0).cast(pa.string())).to_pylist() if name not in table.names]
        self._any_found, self._nothing = True, None


def by_end(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of several batches, each in the order of `_end`, in one order of `_end`; equal ends as the batches come."""
    if len(batches) == 1:
        return list(batches)
    ends = [ticks(batch.column("_end")) for batch in batches]
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
