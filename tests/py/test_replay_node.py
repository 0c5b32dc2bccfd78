"""
The golden captures replayed into a node that stands in for one of the zhe peers in them.

    capture ──► packets of the others, at their times ──► node ──► samples     as the original must have had them
            ──► packets of the one replaced ─────────────────────► its messages are held against the node's

What the original delivered is not in a capture, but what it must have delivered is: from the first number that it
acknowledged on, every reliable sample that it subscribed to, once and in order; and of best effort, everything after
the session began that is newer than what came before. The node sees what passed the capture point, so it has to end at
least where the original did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from golden import CAPTURES, PORT

from pyddsi import names, wire
from pyddsi.capture import Endpoint, open_capture
from pyddsi.cli._traffic import Traffic
from pyddsi.testing import Node, NodeOptions, Sim, Subscriber

SECOND = 1_000_000_000

# The nodes as the zhe peers were configured (captures/INDEX.md). What zhe may have outstanding must fit the order.
P2P = NodeOptions(features=set(), multicasts=2, conduits_in=3, order_max=2048)
SMALL = NodeOptions(features=set(), multicasts=1, conduits_in=2, seq_bits=7, rid_bits=8)
LARGE_CLIENT = NodeOptions(
    features=set(), role="client", multicasts=0, conduits_in=3, seq_bits=11, order_max=256
)
NBIOT = NodeOptions(features=set(), role="client", multicasts=0, conduits_in=1, lease=0.0)

OPTIONS: dict[str, NodeOptions] = {
    "client_large_tcp": LARGE_CLIENT,
    "client_large_udp": LARGE_CLIENT,
    "client_nbiot_udp": NBIOT,
    "mindeps_pubsub": {**P2P, "rid_bits": 16},
    "small_pubsub": SMALL,
    "v_seq28": {**P2P, "seq_bits": 28},
    "v_seq7": {**P2P, "seq_bits": 7},
}


@dataclass(frozen=True)
class Passing:
    """A packet of a capture."""

    at_ns: int
    source: Endpoint
    target: Endpoint
    data: bytes
    messages: list[wire.Message]


@cache
def passing(name: str) -> list[Passing]:
    """All packets of a capture."""
    found = []
    with open_capture(CAPTURES / f"{name}.pcap") as capture:
        traffic = Traffic(capture, PORT)
        for packet in traffic:
            messages = wire.decode(bytes(packet.data), traffic.reading(packet.source))
            for message in messages:
                traffic.note(packet.source, message)
            assert packet.time_ns is not None
            found.append(
                Passing(
                    packet.time_ns,
                    packet.source,
                    packet.destination,
                    bytes(packet.data),
                    messages,
                )
            )
    return found


def messages(packets: list[Passing]) -> Iterator[tuple[Passing, wire.Message]]:
    """Every message with its packet."""
    for packet in packets:
        for message in packet.messages:
            yield packet, message


def ids(packets: list[Passing]) -> dict[Endpoint, bytes]:
    """Who has which id."""
    found = {}
    for packet, message in messages(packets):
        if isinstance(message, wire.Open):
            found[packet.source] = bytes(message.id)
        elif isinstance(message, wire.Accept):
            found[packet.source] = bytes(message.acceptor)
    return found


def declared(packets: list[Passing], by: Endpoint, kind: type) -> list[Any]:
    """The declarations of one kind that somebody made, each once, in their order."""
    found: dict[int, Any] = {}
    for packet, message in messages(packets):
        if packet.source == by and isinstance(message, wire.Declare):
            for declaration in message.declarations:
                if isinstance(declaration, kind):
                    found.setdefault(int(declaration.id), declaration)
    return list(found.values())


Taken = tuple[str, int, int, bytes]  # the sender's id, conduit, number, payload


@dataclass
class Incoming:
    """What comes from one sender on one conduit, in whole counts."""

    bits: int
    expected: int | None  # None: before the first SYNCH
    waiting: dict[int, wire.Message] = field(default_factory=dict)
    best_next: int | None = None
    acknowledged: int | None = None  # by the replaced side, at last

    def near(self, sn: int, count: int) -> int:
        """The count nearest to another that has this number."""
        circle = 1 << self.bits
        away = (sn - count) % circle
        return count + (away if away < circle // 2 else away - circle)

    def reliable(self, message: Any) -> Iterator[tuple[int, wire.Message]]:
        """A numbered message comes; what can be delivered now, in turn."""
        if self.expected is None:
            return
        count = self.near(message.sn, self.expected)
        if count >= self.expected:
            self.waiting.setdefault(count, message)
        while self.expected in self.waiting:
            yield self.expected, self.waiting.pop(self.expected)
            self.expected += 1

    def best(self, message: Any) -> Iterator[tuple[int, wire.Message]]:
        """A message of best effort comes; old ones are dropped."""
        circle = 1 << self.bits
        first = message.sn if self.best_next is None else self.best_next
        ahead = (message.sn - first) % circle
        if ahead < circle // 2:
            self.best_next = first + ahead + 1
            yield first + ahead, message


class Model:
    """The plainest receiver there is in the place of the one replaced, which has all the memory it needs."""

    def __init__(self, packets: list[Passing], side: Endpoint, bits: int, *, client: bool) -> None:
        self.side = side
        self.bits = bits
        self.client = client
        self.ids = ids(packets)
        self.patterns = {
            int(s.id): next(
                (str(r.uri) for r in declared(packets, side, wire.Resource) if r.id == s.id), None
            )
            for s in declared(packets, side, wire.Subscription)
        }
        self.uris = {int(r.id): str(r.uri) for r in declared(packets, side, wire.Resource)}
        self.uncommitted: dict[Endpoint, dict[int, str]] = {}
        self.incoming: dict[tuple[Endpoint, int], Incoming] = {}
        self.sessions: set[Endpoint] = set()
        self.taken: dict[int, list[Taken]] = {rid: [] for rid in self.patterns}
        for packet, message in messages(packets):
            if packet.source == side:
                self.said(packet.target, message)
            elif packet.target.multicast or packet.target == side:
                self.heard(packet.source, message)

    def at(self, end: Endpoint, conduit: int) -> Incoming:
        """The conduit's state."""
        fresh = Incoming(self.bits, 0 if self.client else None)
        return self.incoming.setdefault((end, conduit), fresh)

    def said(self, target: Endpoint, message: wire.Message) -> None:
        """The replaced side says something."""
        if isinstance(message, wire.Accept):
            self.sessions.add(target)
        elif isinstance(message, wire.AckNack):
            heard = self.at(target, message.conduit)
            before = heard.acknowledged if heard.acknowledged is not None else message.sn
            heard.acknowledged = max(before, heard.near(message.sn, before))

    def heard(self, source: Endpoint, message: wire.Message) -> None:
        """Somebody says something to the replaced side."""
        if isinstance(message, wire.Accept) and message.opener == self.ids[self.side]:
            self.sessions.add(source)
        if source not in self.sessions:
            return
        conduit = self.at(source, message.conduit)
        if isinstance(message, wire.Synch):
            if conduit.expected is None:
                conduit.expected = message.sn - (message.count or 0)
        elif isinstance(message, (wire.SData, wire.WData, wire.Declare)):
            best = not isinstance(message, wire.Declare) and not message.reliable
            for number, one in conduit.best(message) if best else conduit.reliable(message):
                if isinstance(one, wire.Declare):
                    self.declare(source, one)
                else:
                    self.deliver(source, number, one)

    def declare(self, source: Endpoint, message: wire.Declare) -> None:
        """Declarations count from their commit on."""
        waiting = self.uncommitted.setdefault(source, {})
        for declaration in message.declarations:
            if isinstance(declaration, wire.Resource):
                known = self.uris if message.committed else waiting
                known.setdefault(int(declaration.id), str(declaration.uri))
            elif isinstance(declaration, wire.Commit):
                self.uris = waiting | self.uris
                waiting.clear()

    def deliver(self, source: Endpoint, number: int, message: Any) -> None:
        """A sample to all subscriptions that want it."""
        if isinstance(message, wire.WData):
            rid, uri = 0, str(message.uri)
        else:
            rid, uri = int(message.rid), self.uris.get(int(message.rid))
        what = (self.ids[source].hex(), message.conduit, number, bytes(message.payload))
        for subscription, pattern in self.patterns.items():
            named = pattern is not None and uri is not None and names.intersect(pattern, uri)
            if rid == subscription or named:
                self.taken[subscription].append(what)


class Replay:
    """One capture with one side of it replaced by a node."""

    def __init__(self, name: str, side: str) -> None:
        self.packets = passing(name)
        self.options = OPTIONS.get(name, P2P)
        self.ids = ids(self.packets)
        self.side = next(end for end in self.ids if str(end.address) == side)
        self.model = Model(
            self.packets,
            self.side,
            int(self.options.get("seq_bits", 14)),
            client=self.options.get("role") == "client",
        )
        self.readers: dict[int, Subscriber] = {}
        self.taken: dict[int, list[Taken]] = {}
        self.said: list[tuple[Endpoint, wire.Message]] = []  # by the node, and to whom
        self.drops: Counter[tuple[str, str]] = Counter()
        self.established: set[bytes] = set()

    def run(self, *, losing: bool = False) -> None:
        """Play it; `losing`: a packet whose data comes again later in the capture does not come the first time."""
        lost = self.repeated() if losing else set()
        with Sim(1, defaults=self.options) as sim:
            node = sim.node("ours", id=self.ids[self.side])
            self.declare(node)
            for i, packet in enumerate(self.packets):
                wait = packet.at_ns - self.packets[0].at_ns + SECOND - sim.now_ns
                if wait > 0:
                    sim.run(wait / SECOND)
                meant = packet.target.multicast or packet.target == self.side
                if packet.source != self.side and meant and i not in lost:
                    source = (str(packet.source.address), packet.source.port)
                    sim.inject(node, packet.data, source=source)
                self.read()
            sim.run(0.1)
            self.read()
            for sent in sim.packets():
                if sent.source == "ours":
                    self.said += [(Endpoint(*sent.to), message) for message in sent.messages]
            self.drops = Counter({(drop.place, drop.reason): drop.count for drop in node.drops()})

    def declare(self, node: Node) -> None:
        """What the original declared, before anything else happens."""
        for resource in declared(self.packets, self.side, wire.Resource):
            node.resource(str(resource.uri), number=int(resource.id))
        for rid in self.model.patterns:
            self.readers[rid] = node.subscriber(rid, depth=4096)
            self.taken[rid] = []

    def read(self) -> None:
        """Take what has come."""
        for rid, reader in self.readers.items():
            for sample in reader:
                what = (sample.source, sample.conduit, sample.number, bytes(sample.data))
                self.taken[rid].append(what)
                sample.release()

    def repeated(self) -> set[int]:
        """The packets of nothing but reliable data that comes again later."""
        later: set[tuple[Endpoint, int, int]] = set()
        found = set()
        for i, packet in reversed(list(enumerate(self.packets))):
            data = {
                (packet.source, message.conduit, message.sn)
                for message in packet.messages
                if isinstance(message, wire.SData) and message.reliable
            }
            if data and len(packet.messages) == len(data) and data <= later:
                found.add(i)
            later |= data
        return found
