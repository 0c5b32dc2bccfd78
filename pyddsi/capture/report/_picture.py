"""What a report shows: a summary, and some series over time. All of it is bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pyddsi.capture.info import Info, least

__all__ = [
    "RESOURCES_LISTED",
    "RESOURCES_MAX",
    "SESSIONS_MAX",
    "WINDOWS_MAX",
    "Losses",
    "Picture",
    "Point",
    "Series",
    "Times",
    "percentile",
    "place",
    "window_of",
]

SECOND = 1_000_000_000
WINDOWS_MAX = 200
"""Points of a series over time."""
RESOURCES_MAX = 6
"""Resources with a line of their own; the others are added up."""
RESOURCES_LISTED = 30
"""Resources with a row in the table; the others are counted."""
SESSIONS_MAX = 40
FLOWS_MAX = 15
PLACES = 512

# Widths of windows that people can read, in nanoseconds.
STEPS: list[int] = [n * 10**e for e in range(3, 18) for n in (1, 2, 5)]


class Point(NamedTuple):
    """A value of a series in one window."""

    time_ns: int
    value: float


class Series(NamedTuple):
    """A line over time."""

    name: str
    points: tuple[Point, ...]


class Losses(NamedTuple):
    """What was lost in one window: samples repeated, repeated for want of a SYNCH, numbers passed over, and come late."""

    time_ns: int
    repeats: int
    pre_sync: int
    gaps: int
    fills: int


class Times(NamedTuple):
    """How long things took in one window: median and 99th percentile in microseconds; None: there were none."""

    time_ns: int
    answer_p50: int | None
    answer_p99: int | None
    delivery_p50: int | None
    delivery_p99: int | None


@dataclass
class Picture:
    """
    What a report shows.

    window_ns: how wide the windows of the series are
    jitters: of the resources in the table, in microseconds: how much the time from one sample of a publisher to its next one differs from
        the time before that, on average; None: there are fewer than three in a row
    """

    info: Info
    window_ns: int
    rates: list[Series] = field(default_factory=list)
    losses: list[Losses] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    jitters: list[float | None] = field(default_factory=list)


def window_of(info: Info) -> int:
    """A width that people can read, so that the capture has at most WINDOWS_MAX windows."""
    span = (info.last_ns or 0) - (info.first_ns or 0)
    return next((step for step in STEPS if span <= step * (WINDOWS_MAX - 1)), STEPS[-1])


def place(us: int) -> int:
    """The place of a value in a log-linear histogram; see csrc/base/histogram.h."""
    if us < 16:
        return max(us, 0)
    power = us.bit_length() - 1
    return min((power - 3) * 16 + ((us >> (power - 4)) & 15), PLACES - 1)


def percentile(counts: dict[int, int], share: float) -> int | None:
    """The least value of the place in which a share of all lies, from counts by place."""
    total = sum(counts.values())
    if not total:
        return None
    seen = 0
    for at in sorted(counts):
        seen += counts[at]
        if seen >= share * total:
            return least(at)
    raise AssertionError
