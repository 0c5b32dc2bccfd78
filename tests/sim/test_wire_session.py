"""
Sessions, byte by byte: how they are found, made and kept alive.

A stranger speaks to one node, so that every message, also the wrong ones, comes exactly when the test wants it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Unpack

import pytest

from pyddsi import wire
from pyddsi.testing import Node, NodeOptions, Publisher, Sim
from tests.sim.stranger import AUTHENTICATION, GROUP, Stranger, alone, features

Role = Literal["peer", "client", "broker"]

SHOWN = bytes([len(GROUP)]) + GROUP.encode()
PLAIN: NodeOptions = {"id": b"\xa0\x02", "features": set()}


def world(**options: Unpack[NodeOptions]) -> tuple[Sim, Node, Stranger]:
    """A node that speaks as zhe does, unless it is told otherwise, and a stranger that it has not met."""
    settings: NodeOptions = {"latency": 0.0005, "scout": 3.0}
    settings.update(PLAIN)
    settings.update(options)
    return alone(**settings)


def silent(stranger: Stranger, *kinds: type[wire.Message]) -> bool:
    """Whether none of these was heard."""
    return not [message for message in stranger.heard() if isinstance(message, kinds)]


# ---- the messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "mask"), [("peer", 5), ("client", 1), ("broker", 4)])
def test_scout(role: Role, mask: int) -> None:
    """002-112: a node looks for the others at its start and every scout interval after it."""
    sim, _node, stranger = world(role=role, scout=3.0)
    sim.run(6.5)
    scouts = [packet for packet in stranger.packets() if packet.data[0] == 1]
    assert [packet.data for packet in scouts] == [bytes([1, mask])] * 3
    assert [packet.sent_ns for packet in scouts] == [0, 3_000_000_000, 6_000_000_000]
    assert {str(packet.to) for packet in scouts} == {GROUP.removeprefix("udp/")}


@pytest.mark.parametrize(
    ("role", "asked", "mask"),
    [
        ("peer", 5, 4),
        ("peer", 4, 4),
        ("peer", 1, None),
        ("client", 5, None),
        ("client", 8, 8),
        ("broker", 1, 1),
        ("broker", 5, 1),
        ("broker", 4, None),
    ],
)
def test_hello(role: Role, asked: int, mask: int | None) -> None:
    """002-112: a SCOUT is answered at once by those it looks for, with the groups that they hear, and by no others."""
    sim, _node, stranger = world(role=role)
    stranger.packets()
    before = sim.now_ns
    stranger.say(wire.Scout(asked))
    wanted = [] if mask is None else [bytes([2, mask, 1]) + SHOWN]
    packets = stranger.packets()
    assert [packet.data for packet in packets] == wanted
    assert all(packet.sent_ns - before <= 100_000 for packet in packets)


def test_open_from_here() -> None:
    """002-112: a HELLO is answered with an OPEN of version 1, with id, lease in 100 ms, groups and properties."""
    _sim, node, stranger = world(lease=5.0)
    stranger.packets()
    stranger.say(wire.Hello(4, [GROUP]))
    (packet,) = stranger.packets()
    assert packet.data == b"\x23\x01\x02\xa0\x02\x32\x01" + SHOWN + b"\x01\x0c\x02\x02\x03"
    assert stranger.state != "established"
    stranger.say(wire.Accept(b"\xff\xff", stranger.id, 0, properties=[]))
    assert node.events() == [], "it was for somebody else"
    stranger.say(wire.Accept(node.id, stranger.id, 30, properties=[]))
    assert stranger.state == "established"
    assert stranger.peer is not None
    assert stranger.peer.lease == pytest.approx(3.0)
    assert [event.kind for event in node.events()] == ["connected"]


def test_open_from_there() -> None:
    """002-112: an OPEN is accepted with both ids, the lease and the properties, and CLOSE and KEEPALIVE hold the id."""
    sim, node, stranger = world(lease=5.0, scout=1000.0)
    stranger.packets()
    stranger.open(lease=0)
    data = [packet.data for packet in stranger.packets()]
    assert b"\x24\x02\xee\x01\x02\xa0\x02\x32\x01\x0c\x02\x02\x03" in b"".join(data)
    sim.run(20.0)
    alive = [p for p in stranger.packets() if p.data == b"\x10\x02\xa0\x02"]
    gaps = [two.sent_ns - one.sent_ns for one, two in pairwise(alive)]
    assert max(gaps) < 5_000_000_000, "its own lease would have ended at the stranger"
    node.close()
    sim.run(0.1)
    assert b"\x05\x02\xa0\x02\x00" in [packet.data for packet in stranger.packets()]


def test_keepalive_of_a_session_that_is_lost() -> None:
    """A node that began anew looks in vain for a peer in the session of its former life: they meet after a lease or two."""
    sim, node, hub = alone(lease=5.0, scout=1000.0)
    peer, other = (
        Stranger(sim, node, b"\xee\x02", "10.9.9.8"),
        Stranger(sim, node, b"\xee\x03", "10.9.9.7"),
    )
    hub.open(properties=features(0xFFFF))
    hub.say(wire.Hello(0, ["ee02@udp/10.9.9.8:7447"]))
    assert peer.heard_of(wire.Scout), "it is looked for"
    peer.say(wire.KeepAlive(peer.id))
    assert len(peer.heard_of(wire.Hello)) == 1, "by an OPEN it says which session it means"
    other.packets()
    other.say(wire.KeepAlive(other.id))
    assert other.heard() == [], "nobody has told of this one"
    assert [drop.count for drop in node.drops() if drop.reason == "unknown_peer"] == [1]


@pytest.mark.parametrize("size", range(1, 17))
def test_id_sizes(size: int) -> None:
    """002-112: an id has 1 to 16 bytes, any of them."""
    sim = Sim(1)
    node = sim.node("a", id=bytes(range(255, 255 - size, -1)))
    stranger = Stranger(sim, node, bytes(range(size)))
    stranger.open()
    (accept,) = stranger.heard_of(wire.Accept)
    assert (bytes(accept.opener), bytes(accept.acceptor)) == (stranger.id, node.id)
    assert [peer.id for peer in node.peers()] == [stranger.id]


@pytest.mark.parametrize("peer_id", [b"", bytes(17)])
def test_id_refused(peer_id: bytes) -> None:
    """002-112, 002-113: an id of no bytes or of more than 16 is refused as another error."""
    sim = Sim(1)
    node = sim.node("a")
    stranger = Stranger(sim, node, peer_id)
    stranger.packets()
    stranger.open()
    heard = stranger.heard()
    assert [m.reason for m in heard if isinstance(m, wire.Close)] == [wire.Reason.OTHER]
    assert not [m for m in heard if isinstance(m, wire.Accept)]
    assert node.peers() == []


def test_lease_for_ever() -> None:
    """002-112: a lease of 0 never ends, and who has one needs no KEEPALIVE."""
    sim, node, stranger = world(lease=0.0, scout=100.0)
    stranger.meet(lease=0)
    sim.run(1000.0)
    assert stranger.state == "established"
    assert silent(stranger, wire.KeepAlive)
    assert node.stats().keepalives_out == 0


@pytest.mark.parametrize("lease", [1, 5, 50])
@pytest.mark.parametrize("talks", [0, 3])
def test_lease_is_as_told(lease: int, talks: int) -> None:
    """002-108: a session ends when nothing was heard for its lease, and not for twice of it: the first lease as any."""
    sim, node, stranger = world(scout=1000.0)
    stranger.meet(lease=lease)
    for _ in range(talks):
        sim.run(lease * 0.09)
        stranger.say(wire.KeepAlive(stranger.id))
    last = sim.now_ns
    sim.run(lease * 0.1 - 0.001)
    assert stranger.state == "established"
    sim.run(lease * 0.1 + 1.0)
    ends = [event for event in node.events() if event.kind == "disconnected"]
    assert [end.reason for end in ends] == ["lease"]
    assert 0 < ends[0].time_ns - last - lease * 100_000_000 <= 3_000_000
    assert [m.reason for m in stranger.heard_of(wire.Close)] == [0]


# ---- opening --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opens", [1, 3, 5])
def test_unanswered_opens(opens: int) -> None:
    """002-58, 002-66: OPENs are repeated at their interval, then the peer is unknown; no lease of it ever ends."""
    sim, node, stranger = world(opens_max=opens, open=1.0, scout=1000.0)
    stranger.say(wire.Hello(4, [GROUP]))
    assert [peer.state for peer in node.peers()] in ([], ["opening"])
    sim.run(opens + 3.0)
    sent = [p.sent_ns for p in stranger.packets() if isinstance(p.messages[0], wire.Open)]
    assert sent == [i * 1_000_000_000 for i in range(opens)]
    assert not [peer for peer in node.peers(gone=True) if peer.state != "unknown"]
    assert node.events() == []
    stranger.say(wire.Accept(node.id, stranger.id, 0, properties=[]))
    assert stranger.state == "unknown", "an ACCEPT after that opens nothing"
    stranger.say(wire.Hello(4, [GROUP]))
    stranger.say(wire.Accept(node.id, stranger.id, 0, properties=[]))
    assert stranger.state == "established"


def test_accept_and_retry_at_once() -> None:
    """002-59, 002-63: an ACCEPT in the very moment of the next OPEN makes one session, whichever is first."""
    for offset in (-1e-6, 0.0, 1e-6):
        sim, node, stranger = world(open=1.0, scout=1000.0)
        stranger.say(wire.Hello(4, [GROUP]))
        sim.run(1.0 + offset)
        stranger.say(wire.Accept(node.id, stranger.id, 0, properties=[]))
        sim.run(3.0)
        assert len(stranger.heard_of(wire.Open)) in {1, 2}
        assert [peer.state for peer in node.peers()] == ["established"]
        assert [event.kind for event in node.events()] == ["connected"]


@pytest.mark.parametrize("told", [False, True], ids=["as zhe", "with features"])
def test_open_twice(told: bool) -> None:  # noqa: FBT001
    """002-64: one OPEN more is accepted again and changes nothing: one session, and the numbers go on."""
    sim, node, stranger = world(features={"incarnation"}, scout=1000.0)
    told_properties = features(64) if told else [AUTHENTICATION]
    stranger.meet(properties=told_properties)
    pub = subscribed(stranger, node)
    pub.put(b"one")
    sim.run(0.001)
    stranger.packets()
    for _ in range(3):
        stranger.open(properties=told_properties)
        assert len(stranger.heard_of(wire.Accept)) == 1
    pub.put(b"two")
    sim.run(0.001)
    numbers = [message.sn for message in stranger.heard_of(wire.SData)]
    assert numbers[-1] == data_begins(node) + 1
    assert [event.kind for event in node.events() if event.kind != "matched"] == ["connected"]
    assert len(node.peers()) == 1


def data_begins(node: Node) -> int:
    """The number of the first of two samples in the only unicast window."""
    window = node.window(-1)
    assert window is not None
    return window.seq - 2


def subscribed(stranger: Stranger, node: Node, number: int = 5) -> Publisher:
    """A publisher of the node with its own window to the stranger, who subscribes."""
    pub = node.publisher(number, way="unicast")
    stranger.begin()
    stranger.say(
        wire.Declare(0, [wire.Subscription(number, wire.Mode.PUSH)], committed=True, sync=True)
    )
    assert pub.matched
    return pub
