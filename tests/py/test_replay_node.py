"""
The golden captures replayed into a node that stands in for one of the zhe peers in them, as `CoreReplay` does it.

    capture ──► packets of the others, at their times ──► node ──► samples     as the original must have had them
            ──► packets of the one replaced ─────────────────────► its messages are held against the node's

What the original delivered is not in a capture, but what it must have delivered is: from the first number that it
acknowledged on, every reliable sample that it subscribed to, once and in order; and of best effort, everything after
the session began that is newer than what came before. The node sees what passed the capture point, so it has to end at
least where the original did.

It is long because the table of the captures, the plainest receiver there is and the replay are one argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pyddsi import names, wire
from pyddsi.capture import Endpoint
from pyddsi.capture.replay import CoreReplay, Facts, Packet, Recording
from pyddsi.testing import NodeOptions
from tests.py.golden import CAPTURES

# The nodes as the zhe peers were configured (captures/INDEX.md). What zhe may have outstanding must fit the order.
P2P = NodeOptions(features=set(), multicasts=2, conduits_in=3, order_max=2048, slots_max=4096)
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
    "mixed_seqlen": {**P2P, "seq_bits": 7},
    "small_pubsub": SMALL,
    "v_seq28": {**P2P, "seq_bits": 28},
    "v_seq7": {**P2P, "seq_bits": 7},
}

# How many samples come out of the node in the place of each side, all its subscriptions together. It is also what the
# model below says; the numbers stand here so that a model gone blind is noticed.
SAMPLES: dict[str, dict[str, int]] = {
    "client_large_tcp": {"10.77.0.1": 10},
    "client_large_udp": {"10.77.0.1": 20},
    "client_nbiot_udp": {"10.77.0.1": 20},
    "lo_pubsub": {"127.0.0.1": 60},
    "mindeps_pubsub": {"10.77.0.1": 0, "10.77.0.2": 6},
    "mixed_seqlen": {"10.77.0.2": 0},
    "p2p_conflict": {"10.77.0.1": 0, "10.77.0.2": 0},
    "p2p_conflict_hist": {"10.77.0.1": 0, "10.77.0.2": 0},
    "p2p_drop_option": {"10.77.0.1": 1, "10.77.0.2": 14402},
    "p2p_fresh_decl": {"10.77.0.1": 0, "10.77.0.2": 10, "10.77.0.3": 0},
    "p2p_large_samples": {"10.77.0.1": 0, "10.77.0.2": 93},
    "p2p_loss5": {"10.77.0.1": 0, "10.77.0.2": 1200},
    "p2p_pubsub": {"10.77.0.1": 0, "10.77.0.2": 13},
    "p2p_roundtrip": {"10.77.0.1": 2028, "10.77.0.2": 2028},
    "p2p_three_peers": {"10.77.0.1": 1642, "10.77.0.2": 1689, "10.77.0.3": 1711},
    "p2p_throughput": {"10.77.0.1": 1, "10.77.0.2": 19778},
    "p2p_unreliable": {"10.77.0.1": 0, "10.77.0.2": 300},
    "p2p_uri": {"10.77.0.1": 0, "10.77.0.2": 20},
    "p2p_wildcard_pub": {"10.77.0.1": 0, "10.77.0.2": 10},
    "p2p_windowfull": {"10.77.0.1": 0, "10.77.0.2": 200},
    "result_conflict": {"10.77.0.1": 0, "10.77.0.2": 0},
    "result_invalid_rid": {"10.77.0.1": 0, "10.77.0.2": 0},
    "small_pubsub": {"10.77.0.1": 0, "10.77.0.2": 0},
    "tcp_live_fixed": {"10.77.0.1": 0, "10.77.0.2": 325},
    "tcp_pubsub": {"10.77.0.1": 0, "10.77.0.2": 9},
    "tcp_throughput": {"10.77.0.1": 1, "10.77.0.2": 14613},
    "three_multicast_loss": {"10.77.0.1": 0, "10.77.0.2": 600, "10.77.0.3": 600},
    "v_lat0": {"10.77.0.1": 0, "10.77.0.2": 200},
    "v_scout3": {"10.77.0.1": 0, "10.77.0.2": 30},
    "v_seq28": {"10.77.0.1": 0, "10.77.0.2": 300},
    "v_seq7": {"10.77.0.1": 0, "10.77.0.2": 300},
}

# Sides that no node is put in the place of, and why.
STANDIN = "the broker is a stand-in, which takes what comes before the first SYNCH; no node does"
LEFT_OUT = {
    ("client_large_tcp", "10.77.0.2"): STANDIN,
    ("client_large_udp", "10.77.0.2"): STANDIN,
    ("client_nbiot_udp", "10.77.0.2"): STANDIN,
    ("mixed_seqlen", "10.77.0.1"): "it never says its id, since the other's OPEN gets no answer",
    (
        "lo_pubsub",
        "the other",
    ): "both sides have one address, and the subscriber is the one replaced",
}


Heard = tuple[Packet, list[wire.Message]]


@cache
def passing(name: str) -> list[Heard]:
    """All packets of a capture."""
    return list(Recording(CAPTURES / f"{name}.pcap").heard())


class Kept(Recording):
    """A capture that is read once for all tests."""

    def heard(self) -> Iterator[Heard]:
        """Its packets."""
        return iter(passing(Path(self.files[0]).stem))


@cache
def facts(name: str) -> Facts:
    """Who speaks in a capture."""
    return Facts(passing(name))


def messages(packets: list[Heard]) -> Iterator[tuple[Packet, wire.Message]]:
    """Every message with its packet."""
    for packet, found in packets:
        for message in found:
            yield packet, message


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

    def __init__(self, name: str, side: Endpoint, bits: int, *, client: bool) -> None:
        packets, known = passing(name), facts(name)
        self.side = side
        self.bits = bits
        self.client = client
        self.ids = known.ids
        self.uris = {int(r.id): str(r.uri) for r in known.declared(side, wire.Resource)}
        self.patterns: dict[int, str | None] = {
            int(s.id): self.uris.get(int(s.id)) for s in known.declared(side, wire.Subscription)
        }
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
            rid = 0
            uri: str | None = str(message.uri)
        else:
            rid = int(message.rid)
            uri = self.uris.get(rid)
        what = (self.ids[source].hex(), message.conduit, number, bytes(message.payload))
        for subscription, pattern in self.patterns.items():
            named = pattern is not None and uri is not None and names.intersect(pattern, uri)
            if rid == subscription or named:
                self.taken[subscription].append(what)


class Replay:
    """One capture with one side of it replaced by a node."""

    def __init__(self, name: str, side: str, *, derived: bool = False) -> None:
        self.packets = passing(name)
        given: NodeOptions = {} if derived else OPTIONS.get(name, P2P)
        # of two with one address it is the one that opens, which subscribes
        self.side = next(end for end in facts(name).ids if end.address == side)
        recording = Kept(CAPTURES / f"{name}.pcap")
        self.core = CoreReplay(recording, self.side, options=given, facts=facts(name))
        bits, role = self.core.options["seq_bits"], self.core.options["role"]
        self.model = Model(name, self.side, bits, client=role == "client")
        self.taken: dict[int, list[Taken]] = {rid: [] for rid in self.model.patterns}
        self.said: list[tuple[Endpoint, wire.Message]] = []  # by the node, and to whom
        self.drops: Counter[tuple[str, str]] = Counter()

    def run(self, *, losing: bool = False, doubling: bool = False) -> None:
        """
        Play it.

        losing: a packet whose data comes again later in the capture does not come the first time
        doubling: each packet comes twice, as a network may have it
        """
        lost = self.repeated() if losing else set()
        for one in self.core.deliveries(lambda i, _: 0 if i in lost else 1 + doubling):
            self.taken[one.reader].append((one.source, one.conduit, one.number, one.data))
        for sent in self.core.said:
            self.said += [(Endpoint(*sent.to), message) for message in sent.messages]
        self.drops = Counter({(drop.place, drop.reason): drop.count for drop in self.core.drops})

    def repeated(self) -> set[int]:
        """The packets of nothing but reliable data that comes again later."""
        later: set[tuple[Endpoint, int, int, bytes]] = set()  # numbers wrap, so with the payload
        found = set()
        for i, (packet, held) in reversed(list(enumerate(self.packets))):
            data = {
                (packet.source, message.conduit, message.sn, bytes(message.payload))
                for message in held
                if isinstance(message, wire.SData) and message.reliable
            }
            if data and len(held) == len(data) and data <= later:
                found.add(i)
            later |= data
        return found

    def acknowledged(self) -> dict[tuple[Endpoint, int], int]:
        """The last number that the node acknowledged on each conduit, in whole counts."""
        found: dict[tuple[Endpoint, int], int] = {}
        for end, message in self.said:
            if isinstance(message, wire.AckNack):
                heard = self.model.incoming[end, message.conduit]
                found[end, message.conduit] = heard.near(message.sn, heard.expected or 0)
        return found

    def first(self, kind: type[wire.Message], *, original: bool) -> wire.Message | None:
        """The first message of this kind that the original, or the node, said."""
        if original:
            said = (m for packet, m in messages(self.packets) if packet.source == self.side)
        else:
            said = (m for _, m in self.said)
        return next((message for message in said if isinstance(message, kind)), None)


@cache
def replayed(name: str, side: str) -> Replay:
    """A replay that is run once, for all who look at it."""
    replay = Replay(name, side)
    replay.run()
    return replay


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """The tests behind these do without a gigabyte of replays."""
    yield
    for kept in (passing, facts, replayed):
        kept.cache_clear()


SIDES = [(name, side) for name, sides in SAMPLES.items() for side in sides]


def test_every_capture_has_its_replay() -> None:
    """A capture, or a side of one, is neither replayed nor is it said why not."""
    assert {path.stem for path in CAPTURES.glob("*.pcap")} == set(SAMPLES)
    for name, sides in SAMPLES.items():
        speakers = {str(end.address) for end in facts(name).ids}
        silent = {side for left, side in LEFT_OUT if left == name}
        assert speakers <= set(sides) | silent, name
        assert not set(sides) & silent, name


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_deliveries(name: str, side: str) -> None:
    """A sample that the original had does not come out of the node, comes twice, or in another order."""
    replay = replayed(name, side)
    assert replay.taken == replay.model.taken
    assert sum(map(len, replay.taken.values())) == SAMPLES[name][side]


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_deliveries_with_derived_options(name: str, side: str) -> None:
    """What a capture tells of a side is not enough to stand in its place, so that each user would have to find out more."""
    replay = Replay(name, side, derived=True)
    replay.run()
    assert replay.taken == replay.model.taken


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_same_again(name: str, side: str) -> None:
    """Played twice it is not the same, so that what is looked for may be gone the second time."""
    first, second = replayed(name, side), Replay(name, side)
    second.run()
    assert second.core.digest == first.core.digest
    assert len(first.core.digest) == 32


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_nothing_is_lost(name: str, side: str) -> None:
    """The node drops what it should keep: a message for want of room, or a session for a byte it does not like."""
    drops = replayed(name, side).drops
    usual = {("order", "not_synched"), ("order", "repeat"), ("ring", "no_subscriber")}
    if name == "p2p_conflict_hist":  # two definitions of one resource: the sessions end
        usual.add(("input", "expired_peer"))
    assert set(drops) <= usual


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_acknowledgements(name: str, side: str) -> None:
    """The node acknowledges less than the original did, so that the sender would wait, or more than there was."""
    replay = replayed(name, side)
    ours = replay.acknowledged()
    for place, heard in replay.model.incoming.items():
        if heard.acknowledged is None:
            continue
        assert place in ours, place
        assert heard.acknowledged <= ours[place], place
        assert heard.expected is not None
        assert ours[place] <= heard.expected, place


def fields(message: wire.Message) -> dict[str, object]:
    """What a message says. A group that several conduits share may be named for each."""
    found = {name: getattr(message, name) for name in message.FIELDS}
    if "locators" in found:
        found["locators"] = {one for one in found["locators"] if one.startswith("udp/")}
    return found


@pytest.mark.parametrize("kind", [wire.Scout, wire.Hello, wire.Open, wire.Accept])
@pytest.mark.parametrize(("name", "side"), SIDES)
def test_session_messages(name: str, side: str, kind: type[wire.Message]) -> None:
    """A message that makes a session differs from the one zhe sent in its place, in any field."""
    replay = replayed(name, side)
    original = replay.first(kind, original=True)
    ours = replay.first(kind, original=False)
    if original is None:
        return
    assert ours is not None
    skipped = {"locators"} if name.startswith("tcp_") else set()  # streams have others
    wanted, got = fields(original), fields(ours)
    assert {k: v for k, v in got.items() if k not in skipped} == {
        k: v for k, v in wanted.items() if k not in skipped
    }


LOSING = [
    (name, side)
    for name, side in SIDES
    if SAMPLES[name][side] != 0 and len(Replay(name, side).repeated()) > 1
]


def test_losing_has_its_captures() -> None:
    """The captures made with losses are not among those that are replayed with them."""
    names_of = {name for name, _ in LOSING}
    assert names_of >= {"p2p_loss5", "three_multicast_loss", "v_seq7", "v_seq28", "p2p_throughput"}


@pytest.mark.parametrize(("name", "side"), LOSING)
def test_deliveries_with_losses(name: str, side: str) -> None:
    """The node cannot do with the repetition alone: out of order, late, or packed in another way."""
    replay = Replay(name, side)
    replay.run(losing=True)
    assert replay.taken == replay.model.taken
    plain = replayed(name, side)
    assert replay.drops["order", "repeat"] <= plain.drops["order", "repeat"]
    assert replay.acknowledged() == plain.acknowledged()


DOUBLING = [(name, side) for name, side in SIDES if 0 < SAMPLES[name][side] < 1000]


@pytest.mark.parametrize(("name", "side"), DOUBLING)
def test_deliveries_with_duplicates(name: str, side: str) -> None:
    """What the network doubles is delivered twice, or makes a session or a conduit begin anew."""
    replay = Replay(name, side)
    replay.run(doubling=True)
    assert replay.taken == replay.model.taken
    assert replay.acknowledged() == replayed(name, side).acknowledged()
