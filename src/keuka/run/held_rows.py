"""What is held of source events while instances refer to them: values that only pass through, and identities of contributors.

The kernel knows an event by its number in its stream, and a value by a handle. While a step runs both are looked up in its batches;
then what instances took is copied. What no instance refers to any more is forgotten now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import damaged_tables
from keuka.errors import data_error
from keuka.events.carried import CarriedColumn, check_type
from keuka.events.columns import ByteArray, Int64Array, cast_to
from keuka.events.contributors import Contributors
from keuka.events.files import place
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream
from keuka.kernel import lineage
from keuka.kernel.forest import Forest
from keuka.kernel.machine import Machine
from keuka.schema import Attribute

# A handle is the number of its event below this bit and the number of its column above.
CARRIER_SHIFT = 40
CARRIED_NUMBER = (1 << CARRIER_SHIFT) - 1
LEAST_CARRIED = 131_072  # what is held is looked through when it is twice what it was the last time, and never below this
_OTHER = 5  # type of slots in the kernel's tables


class HeldRows:
    def __init__(self, forest: Forest, machines: Sequence[Machine]) -> None:
        self._forest = forest
        self._machines = machines
        self.n_seen: dict[str, int] = {}  # events given to the kernel, by stream
        self.contributors = Contributors()
        self.carriers: dict[tuple[str, str], int] = {}  # (stream, column) -> number of the carrier
        self.columns: list[CarriedColumn] = []  # by carrier
        self._look_through_at = LEAST_CARRIED

    def open(self, stream: OpenStream) -> None:
        self.n_seen[stream.name] = 0
        self.contributors.add(stream)

    def close(self, name: str) -> None:
        del self.n_seen[name], self.contributors.identities[name]
        self.carriers = {of: carrier for of, carrier in self.carriers.items() if of[0] != name}

    def carry(self, stream: OpenStream, column: str) -> None:
        """Values of the column pass through from now on."""
        if (stream.name, column) not in self.carriers:
            attribute, where = stream.attribute(column), place(stream.name, None, None, column)
            check_type(attribute.arrow, where)
            self.columns.append(CarriedColumn(attribute.arrow, where))
            self.carriers[stream.name, column] = len(self.columns) - 1

    @property
    def n_bytes(self) -> int:
        return self.contributors.n_bytes + sum([column.n_bytes for column in self.columns])

    # -- the step at hand --------------------------------------------------------------------------------------------------

    def number_events(self, stream: OpenStream, batch: EventBatch) -> Int64Array | None:
        """The numbers of the events of a batch, if they may become contributors."""
        first = self.n_seen[stream.name]
        self.n_seen[stream.name] = first + len(batch)
        if not self._forest.tracking:
            return None
        self.contributors.open(stream, first, batch)
        return np.arange(first, first + len(batch))

    def open_column(self, stream: str, name: str, column: pa.Array) -> Int64Array:
        """The handles of values that pass through, of events that are numbered next."""
        carrier, first = self.carriers[stream, name], self.n_seen[stream]
        self.columns[carrier].open(first, column)
        return np.arange(first, first + len(column)) | (carrier << CARRIER_SHIFT)

    def look_up(self, handles: Int64Array, valid: ByteArray | None, attribute: Attribute) -> pa.Array:
        """The values of handles; those of several carriers are put back in order."""
        carriers, numbers = handles >> CARRIER_SHIFT, handles & CARRIED_NUMBER
        present = np.ones(len(handles), bool) if valid is None else valid.astype(bool)
        places = [np.flatnonzero(~present)]
        pieces = [pa.nulls(len(places[0]), attribute.arrow)]
        for carrier in np.unique(carriers[present]):
            chosen = np.flatnonzero(present & (carriers == carrier))
            self._machines[0].fit(2 * len(chosen) * self.columns[carrier].mean_bytes)
            try:
                pieces.append(cast_to(self.columns[carrier].take(numbers[chosen]), attribute.arrow))
            except pa.ArrowNotImplementedError as error:
                raise damaged_tables(str(error)) from None
            places.append(chosen)
        if len(pieces) == 2 and not len(places[0]):
            return pieces[1]
        try:
            return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))
        except pa.ArrowNotImplementedError as error:
            problem = f"Arrow cannot put values of type {attribute.arrow} together: {error}"
            raise data_error("K512", problem, "convert the column, or leave it out of the query") from None

    def settle(self, streams: Iterable[str], first_nodes: Sequence[int]) -> None:
        """Copy what instances took of the events of a step, so that its batches can go."""
        if self.columns:
            taken = np.concatenate([machine.taken_rows() for machine in self._machines])
            for carrier, column in enumerate(self.columns):
                column.settle(taken[taken >> CARRIER_SHIFT == carrier] & CARRIED_NUMBER)
        if self._forest.tracking:
            leaves = np.concatenate([lineage.leaves(m, first) for m, first in zip(self._machines, first_nodes, strict=True)])
            for name in streams:
                source = self._forest.source(name)
                if source is not None:
                    self.contributors.settle(name, leaves[leaves[:, 0] == source, 1])

    # -- between steps -----------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of what no instance refers to, if much is held."""
        if self._n_held() >= self._look_through_at:
            self.look_through()
            self._look_through_at = max(LEAST_CARRIED, 2 * self._n_held())

    def _n_held(self) -> int:
        n_nodes = sum([machine.n_nodes for machine in self._machines])
        return int(n_nodes) + len(self.contributors) + sum([len(column) for column in self.columns])

    def look_through(self) -> None:
        """Forget pass-through values and contributors that no instance holds."""
        alive = np.concatenate([machine.live_slots(_OTHER) for machine in self._machines])
        for carrier, column in enumerate(self.columns):
            column.forget_all_but(alive[alive >> CARRIER_SHIFT == carrier] & CARRIED_NUMBER)
        held = np.concatenate([lineage.sweep_nodes(machine) for machine in self._machines])
        for name in self.contributors.identities:
            source = self._forest.source(name)
            self.contributors.forget_all_but(name, held[held[:, 0] == (-1 if source is None else source), 1])
