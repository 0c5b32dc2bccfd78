"""How late packets left: a histogram that costs the same for ten packets and for ten thousand million."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pyddsi._native import lib

__all__ = ["Lateness"]

SLOTS = int(lib.PYDDSI_LATE_SLOTS)
DECADES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
"""Where the rows of `rows` end, in nanoseconds."""


@cache
def _least() -> tuple[int, ...]:
    """The least value of each slot."""
    return tuple(int(lib.pyddsi_late_least(slot)) for slot in range(SLOTS))


class Lateness:
    """Counts of lateness in slots that are a sixteenth of their value wide."""

    def __init__(self, counts: Sequence[int] = (), max_ns: int = 0) -> None:
        self.counts = list(counts) or [0] * SLOTS
        self.max_ns = max_ns
        """The latest of all."""

    def add(self, late_ns: int, times: int = 1) -> None:
        """So late, so many times; what was early was not late."""
        late_ns = max(late_ns, 0)
        self.counts[lib.pyddsi_late_slot(late_ns)] += times
        self.max_ns = max(self.max_ns, late_ns)

    def __len__(self) -> int:
        return sum(self.counts)

    def percentile(self, percent: float) -> int:
        """The lateness, in nanoseconds, that so many percent do not exceed; of the slot the upper end."""
        left = -(-len(self) * percent // 100)
        for slot, count in enumerate(self.counts):
            left -= count
            if left <= 0 and count:
                after = _least()[slot + 1] if slot + 1 < SLOTS else self.max_ns
                return min(after - 1, self.max_ns)
        return 0

    def rows(self) -> list[tuple[int | None, int]]:
        """How many were below each power of ten, and not below the one before; None: and all the others."""
        found = [0] * (len(DECADES) + 1)
        for least, count in zip(_least(), self.counts, strict=True):
            found[sum(least >= decade for decade in DECADES)] += count
        return list(zip([*DECADES, None], found, strict=True))
