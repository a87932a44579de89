"""The source events behind matches: `_id` and `_contributors` of a result, on request.

The kernel reports contributors as (source, number of the event); here the identities of those events are kept while an
instance may still lead to a match with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from keuka.events.carried import CarriedColumn
from keuka.events.columns import Int64Array
from keuka.events.files import place
from keuka.events.matches import CONTRIBUTOR, hex_texts, id_texts, match_ids, source_ids
from keuka.events.order import EventBatch
from keuka.events.sources import OpenStream


class Contributors:
    """Identities of the events of all sources, by source and number: both lanes of the hash, and the text users see."""

    def __init__(self, streams: Sequence[OpenStream]) -> None:
        self._streams = streams
        places = [place(stream.name, None, None, stream.id) for stream in streams]
        self._low = [CarriedColumn(pa.uint64(), where) for where in places]
        self._high = [CarriedColumn(pa.uint64(), where) for where in places]
        self._texts = [
            CarriedColumn(pa.string(), where) if stream.id is not None else None for stream, where in zip(streams, places, strict=True)
        ]

    def __len__(self) -> int:
        return sum([len(column) for column in self._low])

    def append(self, source: int, first_number: int, batch: EventBatch) -> None:
        stream = self._streams[source]
        low, high = source_ids(stream.name, batch, stream.id)
        self._low[source].append(first_number, pa.array(low))
        self._high[source].append(first_number, pa.array(high))
        texts = self._texts[source]
        if texts is not None:
            texts.append(first_number, id_texts(batch.table.column(stream.id)))

    def forget_all_but(self, sources: Int64Array, numbers: Int64Array) -> None:
        for source in range(len(self._streams)):
            kept = numbers[sources == source]
            for column in (self._low[source], self._high[source], self._texts[source]):
                if column is not None:
                    column.forget_all_but(kept)

    def columns(
        self, fingerprint: bytes, offsets: Int64Array, sources: Int64Array, numbers: Int64Array, tags: Int64Array
    ) -> list[pa.Array]:
        """`_id` and `_contributors` of matches whose contributors are given flat, match m's from offsets[m] on."""
        low, high, texts, names = [], [], [], []
        places = [np.empty(0, np.int64)]
        for source, stream in enumerate(self._streams):
            chosen = np.flatnonzero(sources == source)
            places.append(chosen)
            low.append(self._low[source].take(numbers[chosen]))
            high.append(self._high[source].take(numbers[chosen]))
            known = self._texts[source]
            texts.append(hex_texts(low[-1].to_numpy(), high[-1].to_numpy()) if known is None else known.take(numbers[chosen]))
            names.append(pa.array([stream.name], pa.string()).take(pa.array(np.zeros(len(chosen), np.int64))))
        order = pa.array(np.argsort(np.concatenate(places), kind="stable"))
        leaf_low, leaf_high, ids, streams = [pa.concat_arrays(parts).take(order) for parts in (low, high, texts, names)]
        matches = match_ids(fingerprint, offsets, leaf_low.to_numpy(), leaf_high.to_numpy(), tags)
        flat = pa.StructArray.from_arrays([streams, ids], fields=list(CONTRIBUTOR))
        return [matches, pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)]
