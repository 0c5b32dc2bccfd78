"""
When each packet leaves.

    as recorded, times `speed`     due = (at - first) / speed
    so many a second (`pps`)       due = count / pps
    so many megabits (`mbps`)      due = bits so far / mbps
    flat out                       due = 0: nothing waits

All of it is in whole nanoseconds and exact fractions, because what is wrong by a little is wrong by seconds after some
thousand million packets. Each round begins where the last one ended, plus the gap; its packets count from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pyddsi._values import SECOND, nanoseconds, whole
from pyddsi.errors import ReplayError

__all__ = ["Pace", "Schedule"]

DUE_MAX = 2**63 - 1
"""Nanoseconds: 292 years."""
YEAR = 365 * 86_400 * SECOND

Number = int | float | Fraction | str


def _positive(what: str, number: object) -> Fraction:
    """A number above 0, as it is written."""
    if isinstance(number, bool) or not isinstance(number, (int, float, Fraction, str)):
        raise TypeError(f"{what} is a number, not {number!r}")
    try:
        # repr says 0.1 where the number itself is a little more
        found = Fraction(repr(number) if isinstance(number, float) else number)
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f"{what} is a number above 0, such as 0.5 or 100, not {number!r}"
        ) from None
    if found <= 0:
        raise ValueError(f"{what} is a number above 0, such as 0.5 or 100, not {number}")
    return found


@dataclass(frozen=True)
class Pace:
    """
    How fast, and how often.

    speed: times as fast as it was recorded: 2, 0.5, "1e-3"
    pps: packets (or samples) a second, instead
    mbps: megabits of payload a second, instead
    flat_out: as fast as the machine can, instead
    loop: how many rounds; 0: until somebody ends it
    gap: seconds between two rounds
    """

    speed: Number | None = None
    pps: Number | None = None
    mbps: Number | None = None
    flat_out: bool = False
    loop: int = 1
    gap: float = 0.0

    def __post_init__(self) -> None:
        given = [n for n in ("speed", "pps", "mbps") if getattr(self, n) is not None]
        given += ["flat_out"] * self.flat_out
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} contradict each other; give one of them")
        for name in given:
            if name != "flat_out":
                _positive(name, getattr(self, name))
        whole("loop", self.loop, 0, 2**63)
        nanoseconds(self.gap, "gap")

    def seconds(self, count: int, size: int, length_ns: int) -> float:
        """How long all rounds take, of so many packets, bytes and recorded nanoseconds."""
        if self.flat_out:
            return 0.0
        if self.pps is not None:
            each = count / _positive("pps", self.pps)
        elif self.mbps is not None:
            each = 8 * size / _positive("mbps", self.mbps) / 10**6
        else:
            each = length_ns / _positive("speed", self.speed or 1) / SECOND
        return float(each * self.loop) + self.gap * max(0, self.loop - 1)

    def rounds(self) -> Iterator[int]:
        """0, 1, 2 ..., one for each round."""
        number = 0
        while number < self.loop or self.loop == 0:
            yield number
            number += 1


class Schedule:
    """
    The deadlines of one replay, in nanoseconds after its beginning.

    base: when this round began; `due` counts from there
    count, bits: in the rounds before this one
    """

    def __init__(self, pace: Pace, *, count: int = 0, bits: int = 0) -> None:
        self._gap = nanoseconds(pace.gap, "gap")
        self._flat_out = pace.flat_out
        self._pps = None if pace.pps is None else _positive("pps", pace.pps)
        self._mbps = None if pace.mbps is None else _positive("mbps", pace.mbps)
        self._speed = _positive("speed", pace.speed or 1)
        self._first: int | None = None
        self.last = 0
        self.base = 0
        self.count, self.bits = count, bits
        self._counted = self._carried = 0  # packets and bits of this round,
        self._before = (0, 0, 0)  # and of the one before, and its last deadline
        self._rebase()

    def due(self, at_ns: int, size: int) -> int:
        """When the next packet leaves, after the base of its round."""
        if self._flat_out:
            due = 0
        elif self._pps is not None:
            due = self._at_rate(self.count + self._counted, self._pps, 1) - self._whole
        elif self._mbps is not None:
            due = self._at_rate(self.bits + self._carried, self._mbps, 10**6) - self._whole
        else:
            self._first = at_ns if self._first is None else self._first
            due = (at_ns - self._first) * self._speed.denominator // self._speed.numerator
        self._counted += 1
        self._carried += 8 * size
        if self.base + due > DUE_MAX:
            raise ReplayError(
                f"at this pace packet {self._counted} would leave in {(self.base + due) // YEAR} years; ask for more"
            )
        self.last = due
        return due

    @staticmethod
    def _at_rate(amount: int, rate: Fraction, unit: int) -> int:
        return amount * SECOND * rate.denominator // (rate.numerator * unit)

    def _rebase(self) -> None:
        """Where by its rate this round begins, without the gaps."""
        self._whole = 0
        if self._pps is not None:
            self._whole = self._at_rate(self.count, self._pps, 1)
        elif self._mbps is not None:
            self._whole = self._at_rate(self.bits, self._mbps, 10**6)

    def next_round(self) -> None:
        """The round is over: time begins again."""
        before = self._whole
        self._before = self._counted, self._carried, self.last
        self.count += self._counted
        self.bits += self._carried
        self._counted = self._carried = 0
        self._first = None
        self._rebase()
        by_rate = self._pps is not None or self._mbps is not None
        self.base += (self._whole - before if by_rate else self.last) + self._gap
        self.last = 0

    def repeat(self) -> None:
        """This round is the same as the one before."""
        self._counted, self._carried, self.last = self._before
