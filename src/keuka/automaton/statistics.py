"""What is known of the streams when a query is planned: rates, selectivities, numbers of distinct values, each with its origin.

Statistics change which plan is chosen, never its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Estimate:
    value: float
    origin: str  # where it comes from: `declared`, `first rows`; `nothing` if the value is 0 because nobody knows


@dataclass(frozen=True)
class Statistics:
    """Whatever is missing is unknown."""

    rates: Mapping[str, Estimate] = field(default_factory=dict)  # by stream: events in a unit of time
    selectivities: Mapping[str, Estimate] = field(default_factory=dict)  # by condition as text: the share of events that satisfy it
    distinct: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)  # by stream and column: different values

    def n_distinct(self, stream: str, column: str) -> float:
        """About how many values a column has; 0 if nobody knows."""
        return self.distinct[stream, column].value if (stream, column) in self.distinct else 0


NOTHING_KNOWN = Statistics()
