"""
One side of a golden capture replaced by the stand-in: it gets what the original got, its application does what the
original's did, and what it says is held against what the original said.

    capture ──► packets of the others, at their times ──► Zhe ──► said
            ──► packets of the one replaced ──► what its application wrote and declared, and when it did housekeeping

When housekeeping runs is the application's business, and not in a capture. So it runs here when the original said something
that only housekeeping says.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyddsi.capture import Datagram, read_datagrams
from tests.real import zhe_bytes as wire
from tests.real.zhe import Zhe
from tests.real.zhe_bytes import Declaration, Message, Reader
from tests.real.zhe_conduits import near
from tests.real.zhe_config import Address, Config

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
AHEAD = 10.0
TICKS_MAX = 600
REACTIVE = {wire.HELLO, wire.OPEN, wire.ACCEPT, wire.CLOSE, wire.PONG, wire.ACKNACK}


@dataclass(frozen=True, slots=True)
class Passing:
    """A datagram of a capture."""

    at: float
    source: Address
    to: Address
    data: bytes

    @property
    def multicast(self) -> bool:
        """Whether a group was its destination."""
        return self.to[0].startswith("239.")


@cache
def passing(name: str, most: int = 1 << 30) -> list[Passing]:
    """The datagrams of a capture, in order; not more than so many."""
    found: list[Passing] = []
    with read_datagrams(CAPTURES / f"{name}.pcap") as capture:
        for item in capture:
            if isinstance(item, Datagram) and item.time_ns is not None:
                source = str(item.source.address), item.source.port
                to = str(item.destination.address), item.destination.port
                found.append(Passing(item.time_ns / 1e9, source, to, bytes(item.data)))
            if len(found) == most:
                break
    first = found[0].at
    return [Passing(p.at - first + AHEAD, p.source, p.to, p.data) for p in found]


Key = tuple[int, Address]  # a conduit and where it goes


@dataclass
class Said:
    """What one side said, sorted into what can be compared."""

    reactive: dict[Address, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    first: dict[Key, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    again: dict[Key, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    best: dict[Key, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    synchs: dict[Key, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    next: dict[Key, int] = field(default_factory=dict)

    def note(self, to: Address, one: Message, bits: int) -> bool:
        """A message was sent; whether it was a reliable one for the first time."""
        if one.kind in {wire.OPEN, wire.ACCEPT}:
            self.next = {key: count for key, count in self.next.items() if key[1] != to}
        if one.kind in REACTIVE:
            self.reactive[to].append(wire.encode(one))
        key = one.conduit, to
        if one.kind == wire.SYNCH:
            self.synchs[key].append(wire.encode(one))
        if one.kind not in {wire.SDATA, wire.WDATA, wire.DECLARE}:
            return False
        one.sync = False
        if not one.reliable:
            self.best[key].append(wire.encode(one))
            return False
        ahead = self.next.get(key, 0)
        count = near(one.sn, ahead, bits)
        fresh = count >= ahead
        (self.first if fresh else self.again)[key].append(wire.encode(one))
        self.next[key] = max(ahead, count + 1)
        return fresh


class Replay:
    """
    A capture, and one side of it.

    quiet: resources that the original's application used without a name, which is not on the wire
    phase: where between two milliseconds the original's clock stood at the first packet, in seconds
    most: how many packets of the capture
    """

    def __init__(
        self,
        name: str,
        side: str,
        config: Config,
        *,
        quiet: tuple[int, ...] = (),
        phase: float = 0.0,
        most: int = 1 << 30,
    ) -> None:
        self.packets = passing(name, most)
        self.config = config
        self.quiet = quiet
        self.phase = phase
        self.side = next(p.source for p in self.packets if p.source[0] == side)
        self.original = Said()
        self.ours = Said()
        self.zhe = Zhe(config, self._id(), 0.0)
        self._declared: set[tuple[int, int]] = set()

    def read(self, data: bytes) -> list[Message]:
        """The messages of a packet."""
        return list(Reader(data, self.config.limits).messages())

    def _mine(self) -> list[Message]:
        return [m for p in self.packets if p.source == self.side for m in self.read(p.data)]

    def _id(self) -> bytes:
        for one in self._mine():
            if one.kind in {wire.OPEN, wire.ACCEPT}:
                return one.id if one.kind == wire.OPEN else one.acceptor
        return b"\x01"

    def run(self) -> None:
        """Play it."""
        self._prepare()
        for packet in self.packets:
            if packet.source == self.side:
                self._act(packet)
            elif packet.multicast or packet.to == self.side:
                self.zhe.input(packet.data, packet.source, packet.at + self.phase)
            self._collect()

    def _prepare(self) -> None:
        """What was declared before there was a session, and what is published."""
        for rid in self.quiet:
            self.zhe.publish(rid)
        before = [
            declared
            for one in self._mine()
            if one.kind == wire.DECLARE and (one.committed or self.config.role == "client")
            for declared in one.declarations
        ]
        for declared in sorted(before, key=lambda one: one.kind):
            self._declare(declared)
        for one in self._mine():
            if one.kind == wire.SDATA and one.rid not in self.zhe.tables.publications:
                self.zhe.publish(one.rid, reliable=one.reliable, conduit=one.conduit)

    def _declare(self, one: Declaration) -> None:
        if (one.kind, one.rid) in self._declared:
            return
        self._declared.add((one.kind, one.rid))
        if one.kind == wire.RESOURCE:
            self.zhe.resource(one.rid, one.uri.decode())
        elif one.kind == wire.SUBSCRIPTION:
            self.zhe.subscribe(one.rid)
        elif one.kind == wire.PUBLICATION and one.rid not in self.zhe.tables.publications:
            self.zhe.publish(one.rid)

    def _act(self, packet: Passing) -> None:
        """The original sends this: its application wrote it, or it did housekeeping."""
        zhe, at = self.zhe, packet.at + self.phase
        for one in self.read(packet.data):
            fresh = self.original.note(packet.to, one, self.config.seq_bits)
            if one.kind == wire.DECLARE and fresh and one.declarations[0].kind != wire.RESULT:
                if not one.committed:
                    for declared in one.declarations:
                        self._declare(declared)
                self._until(one.conduit, packet.to, at)
            elif one.kind == wire.SDATA and (fresh or not one.reliable):
                zhe.tables.publications[one.rid].reliable = one.reliable
                zhe.write(one.rid, one.payload, at)
            elif one.kind == wire.WDATA and fresh:
                zhe.write_uri(one.uri.decode(), one.payload, at)
            elif one.kind == wire.SYNCH and one.sync:
                self._synch(one.conduit, packet.to, at)
            elif one.kind in {wire.SCOUT, wire.KEEPALIVE, wire.OPEN, wire.CLOSE}:
                self._housekeeping(at)
        zhe.flush(at)

    def _housekeeping(self, at: float) -> None:
        """One call. The points of synchronisation are as they were, so that only the original's SYNCHs are sent."""
        for sent in self.zhe.outputs():
            sent.synch_ms = int(at * 1000)
        self.zhe.tick(at)

    def _synch(self, conduit: int, to: Address, at: float) -> None:
        """Its SYNCH timer is due."""
        for sent in self.zhe.outputs():
            if (sent.id, sent.to) == (conduit, to):
                self.zhe.send.synch(sent, int(at * 1000))

    def _until(self, conduit: int, to: Address, at: float) -> None:
        """Housekeeping goes on until it has declared as much as the original."""
        wanted = self.original.next[conduit, to]
        for _ in range(TICKS_MAX):
            self._collect()
            if self.ours.next.get((conduit, to), 0) >= wanted:
                return
            self._housekeeping(at)
            self.zhe.flush(at)

    def _collect(self) -> None:
        for to, data in self.zhe.take():
            for one in self.read(data):
                self.ours.note(to, one, self.config.seq_bits)
