"""What users are told of a calculation whose result does not fit (K507)."""

from __future__ import annotations

from collections.abc import Mapping

from keuka.automaton.assembler import AS_DECIMAL
from keuka.errors import DataError, data_error
from keuka.events.clocks import show_time
from keuka.events.order import EventBatch
from keuka.kernel.forest import Forest
from keuka.kernel.machine import Overflow
from keuka.schema import TimeAxis


def explain_overflow(error: Overflow, forest: Forest, step: Mapping[str, EventBatch], axis: TimeAxis) -> DataError:
    """Names the calculation, and the event of the step or of a subquery that it was made for."""
    program, stream, row, tick = error.args
    name = forest.names[stream]
    if name in step:
        where = step[name].stream.where(int(step[name].rows[row]))
    else:
        query, _, part = name.partition("#")
        whose = f"a subquery of `{query}`" if part else f"`{query}`"
        where = f"an event of {whose} that ends at {show_time(tick, axis)}"
    text = forest.fallible[program]
    room = "the 18 digits of a decimal" if text.endswith(AS_DECIMAL) else "64 bits"
    return data_error(
        "K507",
        f"the result of {text.removesuffix(AS_DECIMAL)} does not fit into {room}",
        "make one operand a double (for example `1.0 * a`) to calculate in floating point",
        where=where,
    )
