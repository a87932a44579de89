"""The static arrays of a forest in the form that machines read: views of its rows, and how the rows hang together.

`rows.pxd` describes every row, and `DTYPES` gives `forest.py` the names. The machines of one forest share its Rows.
"""

import cython
import numpy as np
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memset


def describe() -> dict:
    """By kind of row: its fields. Cython makes a dict of a struct, in the order of its fields."""
    rows: Description
    memset(cython.address(rows), 0, cython.sizeof(Description))
    return rows


DTYPES = {kind: np.dtype([(name, np.int32 if kind == "code" else np.int64) for name in fields]) for kind, fields in describe().items()}


@cython.final
@cython.cclass
class Rows:
    def __cinit__(self, forest):
        n_streams: int64_t = forest.stream.size
        self.version = forest.version
        self.n_streams, self.n_columns, self.n_hashes, self.n_states = n_streams, forest.column.size, forest.hash.size, forest.state.size
        self.stream, self.column, self.hash, self.hash_key = [a.rows for a in (forest.stream, forest.column, forest.hash, forest.hash_key)]
        self.program, self.code, self.operand = forest.program.rows, forest.code.rows, forest.operand.rows
        self.constant, self.set, self.set_value = forest.constant.rows, forest.set.rows, forest.set_value.rows
        self.state, self.key, self.slot_type = forest.state.rows, forest.key.rows, forest.slot_type.rows
        self.edge, self.start = forest.edge.rows, forest.start.rows
        groups, ports, states, starts = forest.group_arrays()
        self.group, self.group_port, self.group_state, self.group_start = groups, ports, states, starts
        self.n_groups, self.n_ports = len(groups) - 1, len(ports) - 1
        self.port_group = np.append(np.repeat(np.arange(self.n_groups), groups["n_ports"][: self.n_groups]), 0)
        units = forest.unit_array()
        self.unit, self.n_units = units, len(units) - 1
        column, hashes = forest.column.rows[: self.n_columns], np.flatnonzero(forest.hash.rows["stream"][: self.n_hashes] >= 0)
        given = np.flatnonzero((column["stream"] >= 0) & (column["program"] < 0))
        derived = np.flatnonzero((column["stream"] >= 0) & (column["program"] >= 0))
        self.given_first, self.given_column = by_stream(given, column["stream"][given], n_streams)
        self.derived_first, self.derived_column = by_stream(derived, column["stream"][derived], n_streams)
        self.hash_first, self.hash_of = by_stream(hashes, forest.hash.rows["stream"][hashes], n_streams)
        self.port_first, self.port_of = by_stream(np.arange(self.n_ports), ports[: self.n_ports], n_streams)
        programs = forest.program.rows[: forest.program.size]
        self.n_registers = programs["n_registers"][programs["first_instruction"] >= 0].max(initial=1)
        self.n_wide = programs["n_registers"][column["program"][derived]].max(initial=1)


def by_stream(numbers, streams, n_streams):
    """Numbers in the order of their streams, with one to spare, and where those of each stream begin."""
    order = np.argsort(streams, kind="stable")
    return np.searchsorted(streams[order], np.arange(n_streams + 1)), np.append(numbers[order], 0)
