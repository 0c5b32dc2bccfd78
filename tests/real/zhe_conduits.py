"""
The two ends of a conduit at zhe: what it sends, and what it hears.

    sent     base            next         window of whole messages; only members hold its base
    heard    expected        known end    no room for what comes early: it is thrown away and asked for again

Counts here go on without wrapping; on the wire stands what is left of them modulo 2^L.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.real.zhe_config import Address

NEVER_MS = -(1 << 40)
WANTED_MAX = 32
BOOKKEEPING = 2


def near(sn: int, count: int, bits: int) -> int:
    """The count nearest to another that stands on the wire as `sn`."""
    circle = 1 << bits
    ahead = (sn - count) % circle
    return count + (ahead if ahead < circle // 2 else ahead - circle)


@dataclass(slots=True)
class Stored:
    """A message in the window: its bytes with S clear, and where its header stands."""

    data: bytes
    head: int

    def written(self, *, sync: bool) -> bytes:
        """The bytes, with S if it is to be answered."""
        if not sync:
            return self.data
        data = bytearray(self.data)
        data[self.head] |= 0x20
        return bytes(data)


@dataclass(slots=True, eq=False)
class Sent:
    """An output conduit."""

    id: int
    to: Address
    bytes_max: int
    samples_max: int
    base: int = 0
    next: int = 0
    best_next: int = 0
    used: int = 0
    entries: deque[Stored] = field(default_factory=deque)
    members: dict[int, int] = field(default_factory=dict)
    synch_ms: int = NEVER_MS
    again_ms: int = NEVER_MS
    again_end: int = 0
    draining: bool = False

    def room(self, size: int) -> bool:
        """Whether a message fits; one that does not makes the window drain."""
        if self.draining:
            return False
        fits = self.used + size + BOOKKEEPING <= self.bytes_max
        if fits and len(self.entries) < self.samples_max:
            return True
        self.draining = bool(self.entries)
        return False

    @property
    def scarce(self) -> bool:
        """Whether less than a quarter of it is free."""
        return (self.bytes_max - self.used) * 4 < self.bytes_max

    def push(self, stored: Stored) -> None:
        """A message is sent. Nobody has to acknowledge it if there are no members."""
        self.next += 1
        self.entries.append(stored)
        self.used += len(stored.data) + BOOKKEEPING
        self.release()

    def release(self) -> None:
        """What all members have acknowledged leaves the window."""
        base = min(self.members.values(), default=self.next)
        while self.base < base:
            self.used -= len(self.entries.popleft().data) + BOOKKEEPING
            self.base += 1
        if not self.entries:
            self.draining = False

    def acknowledge(self, member: int, count: int) -> None:
        """A member has everything before this."""
        if member in self.members:
            self.members[member] = max(self.members[member], count)
            self.release()

    def wanted(self, count: int, mask: int) -> list[int]:
        """The messages that a NACK asks for, as far as they are there: 32 at most."""
        asked = [count] + [count + 1 + i for i in range(WANTED_MAX - 1) if mask >> i & 1]
        return [one for one in asked if self.base <= one < self.next]


@dataclass(slots=True)
class Heard:
    """What comes from one peer on one conduit."""

    bits: int
    synched: bool = False
    expected: int = 0
    end: int = 0
    best_next: int | None = None
    answered_ms: int = NEVER_MS

    def synch(self, sn: int, count: int) -> None:
        """A SYNCH: the start, a jump, or nothing."""
        here = near(sn, self.expected, self.bits)
        base = here - count
        if not self.synched or self.expected <= base or here < self.expected:
            self.expected, self.end, self.synched = base, here, True

    def early(self, sn: int) -> bool:
        """A reliable message comes. Whether it is to be thrown away, though one knows of it now."""
        count = near(sn, self.expected, self.bits)
        self.end = max(self.end, count + 1)
        return count != self.expected

    def took(self) -> None:
        """The expected one had its effect."""
        self.expected += 1
        self.end = max(self.end, self.expected)

    def best(self, sn: int) -> bool:
        """Whether best effort of this number is news."""
        if self.best_next is None:
            self.best_next = sn
        count = near(sn, self.best_next, self.bits)
        if count < self.best_next:
            return False
        self.best_next = count + 1
        return True

    @property
    def missing(self) -> int | None:
        """The mask that asks for what is missing; None: nothing is."""
        count = min(self.end - self.expected, WANTED_MAX)
        return None if count <= 0 else (1 << count - 1) - 1
