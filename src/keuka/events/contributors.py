"""The source events behind matches: `_id` and `_contributors` of a result, on request.

The kernel reports contributors as (source, number of the event); here the identities of those events are kept while an
instance may still lead to a match with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keuka.events.carried import CarriedColumn
from keuka.events.columns import Int64Array
from keuka.events.files import place
from keuka.events.matches import CONTRIBUTOR, hex_texts, id_texts, match_ids, source_ids
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream


@dataclass(frozen=True)
class Identities:
    """Of the events of one stream, by number: both lanes of the hash, and the text users see if there is a column of ids."""

    low: CarriedColumn
    high: CarriedColumn
    text: CarriedColumn | None

    @property
    def columns(self) -> dict[str, CarriedColumn]:
        every = {"low": self.low, "high": self.high, "text": self.text}
        return {name: column for name, column in every.items() if column is not None}


@dataclass(frozen=True)
class Leaves:
    """The source events behind matches, flat: those of match m from offsets[m] on."""

    offsets: Int64Array  # (matches + 1,)
    sources: Int64Array
    numbers: Int64Array  # of the event in its source
    tags: Int64Array  # which occurrence of the source in the query an event came through


class Contributors:
    """Identities of the events of all streams that instances hold."""

    def __init__(self) -> None:
        self.identities: dict[str, Identities] = {}

    def __len__(self) -> int:
        return sum([len(stream.low) for stream in self.identities.values()])

    @property
    def n_bytes(self) -> int:
        return sum([column.n_bytes for stream in self.identities.values() for column in stream.columns.values()])

    def add(self, stream: OpenStream) -> None:
        where = place(stream.name, None, None, stream.header.id)
        text = None if stream.header.id is None else CarriedColumn(pa.string(), where)
        self.identities[stream.name] = Identities(CarriedColumn(pa.uint64(), where), CarriedColumn(pa.uint64(), where), text)

    def open(self, stream: OpenStream, first_number: int, batch: EventBatch) -> None:
        """The events of a batch."""
        own = self.identities[stream.name]
        low, high = source_ids(stream.name, batch, stream.header.id)
        own.low.open(first_number, pa.array(low))
        own.high.open(first_number, pa.array(high))
        if own.text is not None and stream.header.id is not None:
            own.text.open(first_number, id_texts(batch.column(stream.header.id)))

    def settle(self, stream: str, numbers: Int64Array) -> None:
        """Let the batch go, but for these events."""
        for column in self.identities[stream].columns.values():
            column.settle(numbers)

    def forget_all_but(self, stream: str, numbers: Int64Array) -> None:
        for column in self.identities[stream].columns.values():
            column.forget_all_but(numbers)

    def columns(self, fingerprint: bytes, leaves: Leaves, names: Mapping[int, str]) -> list[pa.Array]:
        """`_id` and `_contributors` of matches; `names` are those of the sources."""
        offsets, sources, numbers, tags = leaves.offsets, leaves.sources, leaves.numbers, leaves.tags
        low, high, texts, streams = [pa.nulls(0, pa.uint64())], [pa.nulls(0, pa.uint64())], [pa.nulls(0, pa.string())], []
        places = [np.empty(0, np.int64)]
        for source in np.unique(sources).tolist():
            chosen = np.flatnonzero(sources == source)
            own = self.identities[names[source]]
            places.append(chosen)
            low.append(own.low.take(numbers[chosen]))
            high.append(own.high.take(numbers[chosen]))
            texts.append(hex_texts(low[-1].to_numpy(), high[-1].to_numpy()) if own.text is None else own.text.take(numbers[chosen]))
            streams.append(pa.array([names[source]], pa.string()).take(pa.array(np.zeros(len(chosen), np.int64))))
        order = pa.array(np.argsort(np.concatenate(places), kind="stable"))
        leaf_low, leaf_high, ids = [pa.concat_arrays(parts).take(order) for parts in (low, high, texts)]
        stream_names = pa.concat_arrays([pa.nulls(0, pa.string()), *streams]).take(order)
        matches = match_ids(fingerprint, offsets, leaf_low.to_numpy(), leaf_high.to_numpy(), tags)
        flat = pa.StructArray.from_arrays([stream_names, ids], fields=list(CONTRIBUTOR))
        return [matches, pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)]
