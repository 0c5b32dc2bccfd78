"""
Recordings with books of their own: what was sent is written down where it is sent, in words that owe nothing to the core, to
`traffic`, or to each other's recording.

    book = keep(seed, names={1: "/plant/a", 2: "/plant/b"})    some minutes of three publishers and a receiver
    book.write(folder, ["monday_1.pcap", "monday_2.pcap"], 0)  as one recording of two files, the first of which has this number

Two recordings with different seeds have the same endpoints, counters, numbers of resources and numbers of transactions, and
mean different things by them: whoever looks at both at once must keep them apart.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyddsi import wire
from tests.capture.traffic import BEGIN, GROUP, Frame, write

__all__ = ["RECEIVER", "Ack", "Book", "Sample", "Session", "address", "keep"]

PUBLISHERS = (0, 1, 2)
RECEIVER = 9
MS = 1_000_000
LEASE_MS = 5000
SLOW_US = 60_000


def address(who: int) -> tuple[str, int]:
    """The endpoint of a participant."""
    return f"10.9.0.{who + 1}", 30000 + who


def text(who: int) -> str:
    """The same as tables write it."""
    host, port = address(who)
    return f"{host}:{port}"


@dataclass
class Sample:
    """
    A message with a number, which counts from 0 and never wraps here; to the group, or from the receiver to one. `rid` is None for a
    declaration.
    """

    frame: int
    time_ns: int
    who: int
    to: int | None
    number: int
    rid: int | None
    size: int
    event: str  # next, first, gap, fill, repeat
    gap: int = 0
    since_us: int | None = None


@dataclass
class Ack:
    """An acknowledgement of what a publisher sent."""

    frame: int
    time_ns: int
    of: int
    number: int
    answer_us: int | None
    delivery_us: int | None


@dataclass
class Session:
    """Of a publisher with the receiver."""

    who: int
    open_frame: int
    open_ns: int
    accept_ns: int
    end: str = "capture_end"
    end_frame: int | None = None
    end_ns: int | None = None


@dataclass
class Refusal:
    """A declaration that the receiver refused, and the frames with it and with that."""

    who: int
    uri: str
    status: int
    frame: int
    refused_frame: int


@dataclass
class Book:
    """A recording."""

    names: Mapping[int, str]
    frames: list[Frame] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    sessions: dict[int, Session] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    declared: list[tuple[int, str]] = field(default_factory=list)
    """Who declared what: the kinds of declarations."""
    cuts: list[int] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    first_file: int = 0

    def write(self, folder: Path, names: Sequence[str], first_file: int) -> Book:
        """As files that go on from each other; answers itself."""
        self.first_file = first_file
        share = len(self.frames) / len(names)
        self.cuts = [round(i * share) for i in range(len(names) + 1)]
        for i, name in enumerate(names):
            part = self.frames[self.cuts[i] : self.cuts[i + 1]]
            self.files.append(write(folder / name, part))
        return self

    def place(self, frame: int) -> tuple[int, int]:
        """The number of the file that a frame is in, and its own there."""
        at = max(i for i, cut in enumerate(self.cuts[:-1]) if cut <= frame)
        return self.first_file + at, frame - self.cuts[at] + 1

    @property
    def end_ns(self) -> int:
        """When it ends."""
        return self.frames[-1].time_ns

    def counters(self) -> dict[tuple[int, int | None], list[Sample]]:
        """What was sent by whom and to whom."""
        found: dict[tuple[int, int | None], list[Sample]] = defaultdict(list)
        for one in self.samples:
            found[one.who, one.to].append(one)
        return found

    def silence_us(self, who: int, session: Session) -> int:
        """The longest time that one side of a session said nothing."""
        until = self.end_ns if session.end != "closed" else session.end_ns or 0
        times = [
            one.time_ns
            for one in self.frames
            if one.source == address(who) and session.accept_ns < one.time_ns <= until
        ]
        moments = [session.accept_ns, *times, until]
        return max(b - a for a, b in itertools.pairwise(moments)) // 1000


class _Keeper:
    """Who plays, and writes it down."""

    def __init__(self, seed: int, names: Mapping[int, str], begin_ns: int) -> None:
        self.rand = random.Random(seed)
        self.book = Book(names)
        self.now = begin_ns
        self.next = defaultdict[int, int](int)  # the number that a publisher uses next
        self.missing = defaultdict[int, list[int]](list)
        self.first_ns: dict[tuple[int, int], int] = {}
        self.asked_ns: dict[int, int] = {}
        self.acked = defaultdict[int, int](int)
        self.published = defaultdict[int, set[int]](set)
        self.commits = defaultdict[int, int](int)
        self.answers = defaultdict[int, int](int)

    def send(self, who: int, to: tuple[str, int], message: wire.Message, wait_us: int) -> int:
        """Answers the place of the frame."""
        self.now += wait_us * 1000 + self.rand.randrange(1000)
        self.book.frames.append(Frame(self.now, address(who), to, wire.encode([message])))
        return len(self.book.frames) - 1

    def some(self) -> int:
        return self.rand.randrange(200, 4000)

    def open(self, who: int) -> None:
        ids = b"id%d" % who, b"id%d" % RECEIVER
        locators = ["udp/239.255.0.1:7447"]
        opening = wire.Open(1, ids[0], LEASE_MS // 100, locators, properties=[])
        frame = self.send(who, address(RECEIVER), opening, self.some())
        open_ns = self.now
        self.send(
            RECEIVER, address(who), wire.Accept(*ids, LEASE_MS // 100, properties=[]), self.some()
        )
        self.book.sessions[who] = Session(who, frame, open_ns, self.now)
        self.send(who, GROUP, wire.Synch(0, reliable=True), self.some())

    def note(
        self, who: int, to: int | None, what: tuple[int, str, int], rid: int | None, size: int
    ) -> None:
        """What was sent just now; `what` is its number, what that is to the ones before it, and how many it passes over."""
        number, event, gap = what
        since = None
        if event == "repeat":
            since = (self.now - self.first_ns[who, number]) // 1000
        elif to is None:
            self.first_ns[who, number] = self.now
        frame = len(self.book.frames) - 1
        made = Sample(frame, self.now, who, to, number, rid, size, event, gap, since)
        self.book.samples.append(made)

    def fresh(self, who: int) -> tuple[int, str, int]:
        """A number that was not used, what it is to the ones before it, and how many it passes over."""
        first = self.next[who] == 0
        gap = self.rand.randrange(1, 4) if not first and self.rand.random() < 0.05 else 0
        self.missing[who] += range(self.next[who], self.next[who] + gap)
        number = self.next[who] + gap
        self.next[who] = number + 1
        return number, "first" if first else "gap" if gap else "next", gap

    def data(self, who: int, what: tuple[int, str, int]) -> None:
        number = what[0]
        rid = 1 + number % len(self.book.names)
        payload = bytes(number % 50)
        asks = number % 4 == 0
        message = wire.SData(number, rid, payload, reliable=True, sync=asks)
        self.send(who, GROUP, message, self.some())
        if asks:
            self.asked_ns[who] = self.now
        self.note(who, None, what, rid, len(payload))
        self.published[who].add(number)

    def declare(
        self, who: int, to: int | None, made: list[wire.Declaration], what: tuple[int, str, int]
    ) -> None:
        committed = not any(isinstance(one, (wire.Commit, wire.Result)) for one in made)
        message = wire.Declare(what[0], made, committed=committed)
        self.send(who, GROUP if to is None else address(to), message, self.some())
        self.book.declared += [(who, type(one).__name__.upper()) for one in made]
        self.note(who, to, what, None, 0)

    def refused(self, who: int, uri: str, status: int) -> None:
        """A publisher declares a name, and the receiver will not have it."""
        self.commits[who] += 1
        made = [wire.Resource(50, uri), wire.Commit(self.commits[who])]
        self.declare(who, None, made, self.fresh(who))
        frame = len(self.book.frames) - 1
        number = self.answers[who]
        self.answers[who] += 1
        what = number, "next" if number else "first", 0
        self.declare(RECEIVER, who, [wire.Result(self.commits[who], status, id=50)], what)
        self.book.refused.append(Refusal(who, uri, status, frame, len(self.book.frames) - 1))

    def answer(self, who: int, *, slow: bool) -> None:
        wait = SLOW_US if slow else self.rand.randrange(200, 900)
        number = self.next[who]
        asked = self.asked_ns.pop(who, None)
        frame = self.send(RECEIVER, address(who), wire.AckNack(number), wait)
        newest = self.first_ns.get((who, number - 1))
        delivered = None
        if number > self.acked[who] and newest is not None:
            delivered = (self.now - newest) // 1000
        self.acked[who] = max(number, self.acked[who])
        self.book.acks.append(
            Ack(
                frame,
                self.now,
                who,
                number,
                None if asked is None else (self.now - asked) // 1000,
                delivered,
            )
        )

    def round(self, who: int) -> None:
        """A publisher does something."""
        chance = self.rand.random()
        lost = self.missing[who]
        # when what is acknowledged was first sent, the core may have forgotten
        known = sorted(n for n in self.published[who] if n >= self.acked[who])
        if chance < 0.08 and known:
            self.data(who, (self.rand.choice(known), "repeat", 0))
        elif chance < 0.14 and lost:
            self.data(who, (lost.pop(self.rand.randrange(len(lost))), "fill", 0))
        else:
            self.data(who, self.fresh(who))


def keep(seed: int, names: Mapping[int, str], *, rounds: int = 400, begin_ns: int = BEGIN) -> Book:
    """Three publishers and a receiver: gaps, fills, repeats, answers quick and slow, a refusal, a farewell, one who goes silent."""
    keeper = _Keeper(seed, names, begin_ns)
    book = keeper.book
    for who in PUBLISHERS:
        keeper.open(who)
        resources: list[wire.Declaration] = [wire.Resource(n, uri) for n, uri in names.items()]
        keeper.declare(who, None, resources, keeper.fresh(who))
    for i in range(rounds):
        who = keeper.rand.choice(PUBLISHERS)
        keeper.round(who)
        if i and i % 7 == 0:
            keeper.answer(who, slow=False)
        if i and i % 150 == 0:
            keeper.answer(who, slow=True)
            keeper.refused(who, f"/refused{names[1]}/{i}", 2 + i % 3)
    who, goes, stays = PUBLISHERS
    close = keeper.send(goes, address(RECEIVER), wire.Close(b"id%d" % goes, 0), keeper.some())
    gone = book.sessions[goes]
    gone.end, gone.end_frame, gone.end_ns = "closed", close, keeper.now
    # one goes silent for longer than its lease, while all others are heard
    last = max(one.time_ns for one in book.frames if one.source == address(who))
    while keeper.now < last + 2 * LEASE_MS * MS:
        keeper.data(stays, keeper.fresh(stays))
        keeper.now += keeper.rand.randrange(200, 700) * MS
        keeper.answer(stays, slow=False)
    silent = book.sessions[who]
    silent.end, silent.end_ns = "expired", last + LEASE_MS * MS
    return book
