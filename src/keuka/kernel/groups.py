"""A batch through all operators, in the order of their depth. Those that run together are a unit; its kind knows how.

Comes after `batches.py`.
"""

import cython
from cython.cimports.keuka.kernel.lineage import count_nodes
from cython.cimports.keuka.kernel.machine import Operators, empty_result
from cython.cimports.libc.stdint import int64_t

from keuka.kernel.batches import compute, prepare


def process(machine: Machine, inputs: dict, upto: int64_t) -> None:
    """Run a batch of whole epochs, after which nothing more will come that ends at `upto` or earlier.

    `inputs`: source -> (numbers, [(column, values, flags or None)], times and the other columns as Words).
    """
    prepare(machine, inputs, {})
    compute(machine, machine, 0, 1)
    run(machine, machine, 0, upto)


def run(machine: Machine, leader: Machine, shard: int64_t, upto: int64_t) -> None:
    """Run the rows that are this machine's; `leader` has the columns. While it then `has_more`, take the matches and `go_on`."""
    n_kinds: int64_t = len(machine.operators)
    if machine is not leader:
        machine.follow()
        if machine.version != leader.version:
            raise ValueError("the machines do not run the same queries")
        for i in range(machine.n_streams):
            if machine.streams[i].view.is_source:
                machine.streams[i].view = leader.streams[i].view
                machine.streams[i].owner_data = leader.streams[i].owner_data
        for i in range(machine.n_columns):
            if machine.rows.column[i].stream >= 0 and machine.streams[machine.rows.column[i].stream].view.is_source:
                machine.columns[i] = leader.columns[i]
        for i in range(machine.n_hashes):
            if machine.rows.hash[i].stream >= 0 and machine.streams[machine.rows.hash[i].stream].view.is_source:
                machine.hashes[i].data = leader.hashes[i].data
    machine.shard = shard
    machine.stop = False
    machine.upto = upto
    machine.unit = 0
    machine.work = 0
    machine.lineage.n_shared = -1
    machine.frames.state.columns = machine.frames.edge.columns = machine.columns
    machine.begin_counting()
    with cython.nogil:
        machine.reset()
        for i in range(n_kinds):
            cython.cast(Operators, machine.of_kind[i]).reset()
        status: Status = run_units(machine)
    machine.end_counting()
    machine.has_more = status == Status.MORE
    machine.fail(status)


def go_on(machine: Machine) -> None:
    """The matches so far were taken: now the next ones. Only units that nobody reads stop in the middle, and they run last."""
    if not machine.has_more:
        raise ValueError("there is nothing to go on with")
    machine.begin_counting()
    with cython.nogil:
        machine.touched.size = 0
        empty_result(cython.address(machine.streams[machine.rows.unit[machine.unit].stream].result))
        status: Status = run_units(machine)
    machine.end_counting()
    machine.has_more = status == Status.MORE
    machine.fail(status)


def run_units(machine):
    """Everything from the unit at hand on."""
    while machine.unit < machine.rows.n_units:
        unit = cython.address(machine.rows.unit[machine.unit])
        if machine.lineage.n_shared < 0 and unit.stream >= 0:
            machine.lineage.n_shared = machine.lineage.n_left = count_nodes(machine)
        status = cython.cast(Operators, machine.of_kind[unit.kind]).run(machine, unit.number)
        if status != Status.FINE:
            return status
        machine.unit += 1
    return Status.FINE
