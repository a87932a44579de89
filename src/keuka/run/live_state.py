"""The state of a live shard: what its runner holds, its rows that wait, and how far its streams and its time have come.

`state.py` has the value, and takes and puts the runner's part of it, of all keys or of some. Rows wait in front of the runner, so here
it is always the whole shard.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from keuka.events.clocks import unit_of
from keuka.events.frontiers import ordered, row_numbers
from keuka.events.sources import joined
from keuka.run import state
from keuka.run.live import Live, LiveStream
from keuka.run.state import ShardState, StreamState


def take(live: Live) -> ShardState:
    """All that is needed to go on from here with the same rules. Nothing changes."""
    return replace(
        ShardState() if live.runner is None else state.take(live.runner),
        time=live.frontiers.time,
        promised=live.promised,
        streams=tuple([_stream_state(stream) for stream in live.streams.values()]),
    )


def put(live: Live, value: ShardState) -> None:
    """Go on from a state with the rules that are loaded. Its streams are open, and nothing of them has come.

    ValueError if the state does not fit together; the shard is then of no use.
    """
    live.frontiers.time, live.promised = value.time, value.promised
    for stream in value.streams:
        _refill(live.streams[stream.name], stream, value.time)
    if live.runner is not None:
        try:
            state.put(live.runner, value)
        except (ValueError, pa.ArrowException) as error:
            raise ValueError(f"its partial matches do not fit together: {error}") from error


def _stream_state(live: LiveStream) -> StreamState:
    stream, runs = live.stream, live.arrivals.runs
    held = pa.Table.from_batches([joined(stream, [run.table for run in runs])]) if runs else live.intake.schema.empty_table()
    numbers = np.concatenate([np.empty(0, np.int64), *[row_numbers(run.rows) for run in runs]])
    return StreamState(
        name=stream.name,
        header=stream.header,
        lateness=stream.lateness,
        unit=unit_of(stream.type.axis),
        frontier=live.arrivals.frontier,
        n_rows=live.intake.n_rows,
        n_late=live.n_late,
        wanted=live.intake.wanted,
        schema=live.intake.schema,
        held=held,
        held_rows=pa.table({"row": numbers}),
        late=pa.Table.from_batches(live.late, live.intake.schema),
    )


def _refill(live: LiveStream, value: StreamState, time: int) -> None:
    """The rows that waited, and how far the stream had come."""
    live.arrivals.promise(value.frontier)
    live.intake.n_rows, live.n_late = value.n_rows, value.n_late
    live.late = value.late.to_batches()
    live.intake.want(value.wanted)
    numbers = value.held_rows.column(0).to_numpy()
    for batch in value.held.combine_chunks().to_batches():
        rows, numbers = numbers[: batch.num_rows], numbers[batch.num_rows :]
        if len(rows):
            try:
                events = ordered(live.intake.put_back(batch, rows))
            except pa.ArrowException as error:
                raise ValueError(f"rows of `{value.name}` that wait have no time: {error}") from error
            if events.first_end < time:
                raise ValueError(f"a row of `{value.name}` waits that time has passed")
            live.arrivals.append(events)
