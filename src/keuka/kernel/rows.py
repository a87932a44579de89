"""The static arrays of a forest in the form that machines read: views of its rows, and how the rows hang together.

`rows.pxd` describes every row, and `DTYPES` gives `forest.py` the names. The machines of one forest share its Rows.
"""

import cython
import numpy as np


def dtypes(description: dict) -> dict:
    """By kind of row its dtype, from a struct with one row of each kind: Cython makes a dict of it, in the order of its fields."""
    return {kind: np.dtype([(name, np.int32 if kind == "code" else np.int64) for name in row]) for kind, row in description.items()}


description = cython.declare(Description)
DTYPES = dtypes(description)


@cython.final
@cython.cclass
class Rows:
    def __cinit__(self, forest):
        n_streams: int64_t = forest.stream.size
        self.version = forest.version
        self.n_streams, self.n_columns, self.n_hashes = n_streams, forest.column.size, forest.hash.size
        self.stream, self.column, self.hash, self.hash_key = [a.rows for a in (forest.stream, forest.column, forest.hash, forest.hash_key)]
        self.program, self.code, self.operand = forest.program.rows, forest.code.rows, forest.operand.rows
        self.constant, self.set, self.set_value = forest.constant.rows, forest.set.rows, forest.set_value.rows
        units = forest.unit_array()
        self.unit, self.n_units = units, len(units) - 1
        self.of_kind = [kind.rows() for kind in forest.kinds]
        column, hashes = forest.column.rows[: self.n_columns], np.flatnonzero(forest.hash.rows["stream"][: self.n_hashes] >= 0)
        given = np.flatnonzero((column["stream"] >= 0) & (column["program"] < 0))
        derived = np.flatnonzero((column["stream"] >= 0) & (column["program"] >= 0))
        self.given_first, self.given_column = by_stream(given, column["stream"][given], n_streams)
        self.derived_first, self.derived_column = by_stream(derived, column["stream"][derived], n_streams)
        self.hash_first, self.hash_of = by_stream(hashes, forest.hash.rows["stream"][hashes], n_streams)
        programs = forest.program.rows[: forest.program.size]
        self.n_registers = programs["n_registers"][programs["first_instruction"] >= 0].max(initial=1)
        self.n_wide = programs["n_registers"][column["program"][derived]].max(initial=1)


def by_stream(numbers, streams, n_streams):
    """Numbers in the order of their streams, with one to spare, and where those of each stream begin."""
    order = np.argsort(streams, kind="stable")
    return np.searchsorted(streams[order], np.arange(n_streams + 1)), np.append(numbers[order], 0)
