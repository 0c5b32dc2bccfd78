"""
The numbers of one flow, as its messages pass: what each one is to those before it. docs/inside/capture.md has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pyddsi.capture import Endpoint

FIRST, NEXT, GAP, REPEAT, FILL, OLD, RESET, AMBIGUOUS, PRE_SYNC = 1, 0, 2, 3, 4, 5, 6, 7, 8
EVENTS = {
    FIRST: "first",
    NEXT: "next",
    GAP: "gap before",
    REPEAT: "repeat",
    FILL: "fills a gap",
    OLD: "old",
    RESET: "reset",
    AMBIGUOUS: "ambiguous",
    PRE_SYNC: "pre-sync",
}
"""The values of `seq_event`."""

HISTORY = 8192  # numbers of a flow whose times are remembered
STRETCHES = 1024  # stretches of missing numbers of a flow that are remembered,
BEST_STRETCHES = 64  # and of one of best effort
PACE_MESSAGES = 16  # what a flow's pace is told from, at least
ANEW_FIRST = 16  # the first numbers of a counter, by which it is seen that it begins anew,
ANEW_BACK = 64  # if they are so far below the highest
FAR = 2**31  # a number as far away as this is not of the counter
BITS = 14  # of a number, until something else is known


class Where(NamedTuple):
    """Where a message came: the frame's number and time, and whose it is."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint


@dataclass(slots=True)
class First:
    """When a number first came, and in which frame."""

    time_ns: int | None
    frame: int


@dataclass(slots=True)
class Flow:
    """One counter of a sender, in one epoch."""

    text: str
    reliable: bool
    group_conduit: int | None  # of a reliable flow to groups
    epoch: int = 0
    bits: int = BITS
    begun: bool = False
    lowest: int = 0  # below it nothing is known: the epoch's first number, at first
    highest: int = 0
    missing: int = 0
    stretches: list[tuple[int, int]] = field(default_factory=list)  # from and to, both missing
    firsts: dict[int, First] = field(default_factory=dict)
    lives: int = 0  # of the sender, at the last message
    handshakes: int = 0
    cuts: int = 0
    asked_for_0: bool = False
    asked: bool = False  # for any number, since the last message
    synch: int | None = None  # handshakes of the sender at the last SYNCH,
    before_synch: int | None = None  # and the highest at the first
    seen: int = 0  # messages of this epoch, when the first came and the last
    begun_ns: int | None = None
    last_ns: int | None = None
    covered: int = 0
    solicits: int = 0  # messages that asked for an ACKNACK, and when the last one came
    solicit_ns: int | None = None
    answered: dict[Endpoint, int] = field(default_factory=dict)

    def unwrap(self, sn: int) -> int:
        """The number nearest to the highest, of two the lower."""
        half = 1 << self.bits - 1
        return self.highest + (sn - self.highest + half) % (1 << self.bits) - half

    def place(self, sn: int, now: int | None, *, cut: bool = False) -> tuple[int, int | None]:
        """What a number is to a flow that has begun; cut: the sender's packets were, since the last one."""
        usn = self.unwrap(sn)
        ahead = usn - self.highest
        if abs(ahead) >= FAR:
            return AMBIGUOUS, None
        if ahead > 1 and (cut or self.could_have_wrapped(now)):
            return AMBIGUOUS, usn
        missing = any(low <= usn <= high for low, high in self.stretches)
        if -ahead >= 1 << self.bits - 3 and not missing and self.could_have_wrapped(now):
            return AMBIGUOUS, usn + (1 << self.bits)
        if ahead > 0:
            return (NEXT if ahead == 1 else GAP), usn
        if missing:
            return FILL, usn
        if not self.reliable:
            return OLD, usn
        if usn < self.lowest:
            return AMBIGUOUS, usn
        early = self.synch is None or (self.before_synch is not None and usn <= self.before_synch)
        return (PRE_SYNC if early else REPEAT), usn

    def could_have_wrapped(self, now: int | None) -> bool:
        """Whether it could have gone half round since its last message, at its own pace."""
        if now is None or self.begun_ns is None or self.last_ns is None:
            return False
        lived, silent = self.last_ns - self.begun_ns, now - self.last_ns
        if self.seen < PACE_MESSAGES or lived <= 0 or silent <= 0:
            return False
        return silent * self.seen > lived << self.bits - 1

    def rise(self, usn: int) -> None:
        """The highest is another one, and what falls out of the history is forgotten."""
        for gone in range(self.highest + 1, min(usn, self.highest + HISTORY) + 1):
            self.firsts.pop(gone - HISTORY, None)
        self.highest = usn

    def lack(self, low: int, high: int) -> None:
        """These did not come."""
        self.stretches.append((low, high))
        self._forget()

    def fill(self, usn: int) -> None:
        """This one of them came."""
        at = next(i for i, (low, high) in enumerate(self.stretches) if low <= usn <= high)
        low, high = self.stretches[at]
        rest = [(low, usn - 1), (usn + 1, high)]
        self.stretches[at : at + 1] = [(low, high) for low, high in rest if low <= high]
        self._forget()

    def _forget(self) -> None:
        if len(self.stretches) > (STRETCHES if self.reliable else BEST_STRETCHES):
            self.lowest = self.stretches.pop(0)[1] + 1

    def begin(self, usn: int) -> None:
        """Nothing is known of what is below this number."""
        self.begun, self.lowest, self.highest = True, usn, usn
        self.stretches, self.firsts = [], {}

    def restart(self, synch: int | None) -> None:
        """Begin an epoch, which has nothing of the one before; its first number is the caller's to set."""
        self.epoch += 1
        self.missing = self.solicits = self.seen = 0
        self.answered = {}
        self.asked_for_0, self.asked = False, False
        self.synch, self.before_synch = synch, None
        self.begun_ns = None

    def solicit(self, where: Where) -> None:
        """An ACKNACK is asked for."""
        self.solicits += 1
        self.solicit_ns = where.time_ns
