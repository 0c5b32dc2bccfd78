"""
Leases that expire, against books that are kept while peers are made up: who lives from when until when, and who has whom as a
peer. The books count an end for each session one side of which fell silent for its lease while the capture went on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pyddsi import capture, wire
from tests.capture.traffic import BEGIN, GROUP, Frame, peer, write

MS = 1_000_000
SETTLES = 300  # ms from the birth of the younger until two have a session
TELLS = 300  # ms from one sign of life to the next


@dataclass
class Life:
    """A process at the endpoint of a peer: when it is there, in milliseconds, and its lease."""

    who: int
    lease: int
    begins: int
    ends: int
    spoke: int = 0
    name: bytes = b""


@dataclass
class Town:
    """Who lives when; what they say; and how many sessions ended by silence."""

    rand: random.Random
    early: float  # of a lease: so long before its end by this clock some give the other up
    ends: int = 30_000
    lives: list[Life] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    expired: int = 0

    def say(self, at: int, one: Life, target: tuple[str, int], message: wire.Message) -> None:
        """A packet, at this millisecond."""
        self.frames.append(Frame(BEGIN + at * MS, peer(one.who), target, wire.encode([message])))
        one.spoke = max(one.spoke, at)

    def settle(self) -> None:
        """One stays to the end, so that the capture goes on; the others die and are born again at the same place."""
        for who in range(self.rand.randrange(2, 5)):
            lease = self.rand.choice([1000, 2000, 5000])
            at = self.rand.randrange(1000)
            while at < self.ends - 8000:
                stays = who == 0 or self.rand.random() < 0.3
                until = self.ends if stays else at + self.rand.randrange(2000, 6000)
                name = b"%d.%d" % (who, len(self.lives))
                self.lives.append(Life(who, lease, at, until, name=name))
                at = until + 6000 + self.rand.randrange(2000)
        for one in self.lives:
            for at in range(one.begins, one.ends, TELLS):
                self.say(at, one, GROUP, wire.KeepAlive(one.name))

    def meet(self) -> None:
        """Those who live at the same time have a session, and give it up when the other has been silent for its lease."""
        pairs = [
            (one, other)
            for n, one in enumerate(self.lives)
            for other in self.lives[n + 1 :]
            if one.who != other.who
            and max(one.begins, other.begins) + 2 * SETTLES < min(one.ends, other.ends)
        ]
        for one, other in pairs:
            at = max(one.begins, other.begins) + SETTLES
            opened = wire.Open(1, one.name, one.lease // 100, (), properties=[])
            self.say(at, one, peer(other.who), opened)
            accepted = wire.Accept(one.name, other.name, other.lease // 100, properties=[])
            self.say(at + 1, other, peer(one.who), accepted)
        for one, other in pairs:
            dying = [life for life in (one, other) if life.ends < self.ends]
            self.expired += bool(dying)
            if not dying:
                continue
            first = min(dying, key=lambda life: life.spoke + life.lease)
            late = self.rand.randrange(4) - int(self.early * first.lease)
            gone = first.spoke + first.lease + late
            left = other if first is one else one
            if gone < left.ends and (self.early or self.rand.random() < 0.7):
                self.say(gone, left, peer(first.who), wire.Close(left.name, 0))


@pytest.mark.parametrize("early", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(20))
def test_expiries(seed: int, early: float, tmp_path: Path) -> None:
    """Of two sessions that ended by silence one would count: that of the peer which gave up a moment early by the clock of the capture."""
    town = Town(random.Random(seed), early)
    town.settle()
    town.meet()
    town.frames.sort(key=lambda frame: frame.time_ns)
    info = capture.open(write(tmp_path / "run.pcap", town.frames)).info()
    found = sum(finding.count for finding in info.findings if finding.kind == "expired")
    ends = sum(session.end == "expired" for session in info.sessions)
    assert (info.expiries, found, ends) == (town.expired,) * 3


@pytest.mark.parametrize(
    ("silent", "reason", "end"), [(0.9, 0, "closed"), (0.98, 3, "closed"), (0.98, 0, "expired")]
)
def test_a_farewell(silent: float, reason: int, end: str, tmp_path: Path) -> None:
    """Who says goodbye to a peer that is only quiet, or for a reason, would be told to have lost it."""
    lease = 50
    says = [
        (0, 0, wire.Open(1, b"a", lease, ["udp/239.255.0.1:7447"], properties=[])),
        (1, 1, wire.Accept(b"a", b"b", lease, properties=[])),
        (2000, 0, wire.KeepAlive(b"a")),
        (4000, 0, wire.KeepAlive(b"a")),
        (1 + int(silent * lease * 100), 0, wire.Close(b"a", reason)),
    ]
    frames = [
        Frame(BEGIN + at * MS, peer(who), peer(1 - who), wire.encode([message]))
        for at, who, message in says
    ]
    info = capture.open(write(tmp_path / "run.pcap", frames)).info()
    assert [session.end for session in info.sessions] == [end]
    assert info.expiries == (end == "expired")
