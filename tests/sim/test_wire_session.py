"""
Sessions, byte by byte: how they are found, made, kept alive and ended, and what a peer's state lets its packets do.

A stranger speaks to one node, so that every message, also the wrong ones, comes exactly when the test wants it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Unpack

import pytest

from pyddsi import wire
from pyddsi.testing import Loan, Node, NodeOptions, Publisher, Sim
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
    assert not [peer for peer in node.peers() if peer.state != "unknown"]
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


# ---- states ---------------------------------------------------------------------------------------------------


def test_each_transition() -> None:
    """002-61: CLOSE, HELLO, OPEN and ACCEPT, and nothing else of what a peer says, move its state."""
    sim, node, stranger = world(scout=1000.0)
    hello = wire.Hello(4, [GROUP])
    accept = wire.Accept(node.id, stranger.id, 0, properties=[])
    others = [wire.Synch(0, sync=True), wire.AckNack(0), wire.Ping(7), wire.Pong(7)]
    others += [wire.SData(0, 5, b"x", reliable=True, sync=True)]
    for message in [*others, accept]:
        stranger.say(message)
        assert stranger.state == "unknown", message
        assert not [peer for peer in node.peers() if peer.state != "unknown"]
    for between in [None, hello, *others]:
        stranger.say(hello)
        if between is not None:
            stranger.say(between)
        assert len(stranger.heard_of(wire.Open)) == 1
        assert stranger.state == "unknown", "its id is not known yet"
        stranger.say(accept)
        assert stranger.state == "established"
        for message in [*others, hello, accept]:
            stranger.say(message)
            assert stranger.state == "established", message
        stranger.say(wire.Close(b"anybody", 0))
        assert stranger.state == "unknown"
    stranger.say(hello)
    stranger.open()
    assert stranger.state == "established", "an OPEN crosses ours"
    sim.run(20.0)
    kinds = [event.kind.removeprefix("re") for event in node.events()]
    assert kinds == ["connected", "disconnected"] * 7 + ["connected"]


def held() -> tuple[Sim, Node, Stranger, Loan]:
    """A session whose peer is busy: the application writes in place into its window, and takes its time."""
    sim, node, stranger = world(scout=1000.0)
    stranger.meet(lease=5)
    pub = subscribed(stranger, node)
    loan = pub.loan(16)
    memory = loan.__enter__()
    memory[:] = bytes(16)
    assert stranger.peer is not None
    assert (stranger.peer.state, stranger.peer.busy) == ("established", 1)
    node.events()
    stranger.packets()
    return sim, node, stranger, loan


def leave(loan: Loan) -> None:
    """The application gives up what it was writing."""
    loan.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


def test_expired_is_deaf() -> None:
    """002-62, 002-72: packets of every kind from an expired peer change nothing, and get no answer and no ACKNACK."""
    sim, node, stranger, loan = held()
    sub = node.subscriber(5, on_full="wait")
    sim.run(0.6)
    assert stranger.peer is not None
    assert (stranger.peer.state, stranger.peer.busy) == ("expired", 1)
    stranger.packets()
    before = node.stats()
    late: list[wire.Message | bytes] = [
        wire.SData(1, 5, b"late", reliable=True, sync=True),
        wire.SData(0, 5, b"late"),
        wire.Synch(9, count=9, reliable=True, sync=True),
        wire.AckNack(1, mask=3),
        wire.Declare(1, [wire.Subscription(6, wire.Mode.PUSH)], committed=True, sync=True),
        wire.Pull(2, 5, sync=True),
        wire.KeepAlive(stranger.id),
        wire.Accept(node.id, stranger.id, 0, properties=[]),
        wire.Close(stranger.id, 5),
        b"\x1f\xff",
    ]
    for message in late:
        stranger.say(message)
        assert (stranger.peer.state, stranger.peer.busy) == ("expired", 1), message
        sim.run(0.05)
    assert stranger.peer.epoch == 1
    answers = (wire.AckNack, wire.Accept, wire.Hello, wire.SData, wire.Close)
    assert silent(stranger, *answers)
    assert sub.poll() is None
    assert node.stats().delivered == before.delivered
    assert node.stats().acks_out == before.acks_out
    assert {"expired_peer"} <= {drop.reason for drop in node.drops()}
    leave(loan)
    sim.run(0.1)
    assert stranger.state == "unknown"
    ends = [event.reason for event in node.events() if event.kind == "disconnected"]
    assert ends == ["lease"], "not the CLOSE that came when it was over"


def test_nothing_after_close() -> None:
    """002-72: what stands behind a CLOSE in the same packet has no effect and gets no answer."""
    _sim, node, stranger = world()
    stranger.meet()
    sub = node.subscriber(5)
    stranger.begin()
    stranger.packets()
    stranger.say(
        wire.SData(0, 5, b"before", reliable=True),
        wire.Close(stranger.id, 0),
        wire.SData(1, 5, b"after", reliable=True, sync=True),
        wire.SData(0, 5, b"after"),
        wire.Synch(5, reliable=True, sync=True),
    )
    assert [bytes(sample.data) for sample in sub] == [b"before"]
    assert silent(stranger, wire.AckNack)
    assert [event.reason for event in node.events() if event.reason] == ["ordinary"]


@pytest.mark.parametrize("rest", ["lease", "close", "bytes"])
def test_reset_waits_for_busy(rest: str) -> None:
    """
    002-65, 002-71, 002-75, 002-77, 002-79: a busy peer expires like an idle one and once, whatever is written to its
    lease, but nothing of it is torn down before it is idle; then the next round of housekeeping does it.
    """
    sim, node, stranger, loan = held()
    if rest == "close":
        stranger.say(wire.Close(stranger.id, 0))
    elif rest == "bytes":
        stranger.say(b"\x1f")
    else:
        sim.run(0.6)
    for _ in range(20):
        assert stranger.peer is not None
        assert (stranger.peer.state, stranger.peer.busy) == ("expired", 1)
        assert node.window(-1) is not None, "the application writes there"
        assert not [event for event in node.events() if event.kind == "disconnected"]
        stranger.say(wire.KeepAlive(stranger.id))
        sim.run(0.1)
    leave(loan)
    sim.run(0.01)
    assert stranger.state == "unknown"
    assert node.window(-1) is None
    sim.run(5.0)
    ends = [event.reason for event in node.events() if event.kind == "disconnected"]
    assert ends == [{"lease": "lease", "close": "ordinary", "bytes": "bytes"}[rest]]
    stranger.meet(lease=5)
    assert stranger.peer is not None
    assert (stranger.peer.busy, stranger.peer.epoch) == (0, 2)


def test_idle_after_input() -> None:
    """002-76, 002-78: after each packet a peer is idle again, whatever the packet has made of it."""
    sim, node, stranger = world(scout=1000.0)
    for last in [wire.encode([wire.Close(stranger.id, 0)]), b"\x1f\xff", b"\x47\x00\x0a"]:
        stranger.meet(lease=5)
        for message in [wire.Synch(0, sync=True), wire.AckNack(0), wire.Ping(1)]:
            stranger.say(message)
            assert [peer.busy for peer in node.peers()] == [0]
        stranger.say(last)
        assert [peer.busy for peer in node.peers()] == [0]
        sim.run(0.01)
        assert stranger.state == "unknown", "a peer that stayed busy would never be reset"


def test_replies_travel_alone() -> None:
    """002-83: HELLO, ACCEPT and CLOSE come in packets of their own, not among what receiving or sending says."""
    sim, node, stranger = world(features={"incarnation"})
    with sim:
        stranger.say(wire.Scout(4))
        stranger.meet(lease=5)
        pub = subscribed(stranger, node)
        for i in range(5):
            pub.put(b"x")
            stranger.say(
                wire.Scout(4),
                wire.Open(1, stranger.id, 5, [], properties=[AUTHENTICATION]),
                wire.SData(1 + i, 5, b"", reliable=True, sync=True),
            )
        sim.run(1.0)
        session = (wire.Hello, wire.Open, wire.Accept, wire.Close)
        found: set[type[wire.Message]] = set()
        for packet in sim.packets():
            kinds = {type(message) for message in packet.messages}
            if packet.source == "a" and kinds & set(session):
                assert kinds <= {*session, wire.Ping, wire.Pong, wire.Scout, wire.KeepAlive}
                found |= kinds & set(session)
        assert found == {wire.Hello, wire.Accept, wire.Close}


# ---- reasons --------------------------------------------------------------------------------------------------

NAMES = [(reason.value, reason.name.lower()) for reason in wire.Reason]


@pytest.mark.parametrize(("reason", "name"), [*NAMES, (128, "128"), (254, "254")])
def test_reason_is_told(reason: int, name: str) -> None:
    """002-113: each reason that a peer closes with, vendors' own too, is told to the application, by its name."""
    _sim, node, stranger = world(scout=1000.0)
    stranger.meet()
    stranger.say(wire.Close(stranger.id, reason))
    ends = [event for event in node.events() if event.kind == "disconnected"]
    assert [(end.reason, end.peer) for end in ends] == [(name, stranger.id.hex())]


@pytest.mark.parametrize(("reason", "name"), [*NAMES, (200, "200")])
def test_reason_is_sent(reason: int, name: str) -> None:
    """002-113: the reason that an application closes a session with goes over the wire, and is named at both ends."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.run_until_quiet()
        a.events(), b.events()
        a.close_session(b, reason=reason)
        sim.run(0.01)
        closes = [m for p in sim.packets() for m in p.messages if isinstance(m, wire.Close)]
        assert closes[0].reason == reason
        assert {close.reason for close in closes[1:]} <= {0}, "for what was still on its way"
        assert [event.reason for event in b.events()][:1] == [name]
        assert [event.reason for event in a.events()][:1] == ["local"]


def test_reasons_from_their_causes() -> None:
    """002-113: what cannot be accepted is refused with the reason that fits, and is no session."""
    sim = Sim(1)
    node = sim.node("a", peers_max=2, seq_bits=28, scout=1000.0)
    good = [AUTHENTICATION, wire.Property(4, b"\x1c")]

    def refusal(of: bytes, **changes: object) -> list[int]:
        stranger = Stranger(sim, node, of, host=f"10.9.8.{of[0]}")
        stranger.packets()
        stranger.open(**({"properties": good} | changes))  # type: ignore[arg-type]
        heard = stranger.heard()
        assert any(isinstance(m, wire.Accept) for m in heard) == (stranger.state == "established")
        return [int(m.reason) for m in heard if isinstance(m, wire.Close)]

    assert refusal(b"\x01", version=2) == [wire.Reason.PROTOCOL_VERSION]
    wrong = wire.Property(4, b"\x0e")
    assert refusal(b"\x02", properties=[wrong]) == [wire.Reason.SEQUENCE_LENGTH]
    assert refusal(b"\x03", lease=21_474_837) == [wire.Reason.OTHER]
    assert refusal(b"\x04") == []
    assert refusal(b"\x05") == []
    assert refusal(b"\x06") == [wire.Reason.OUT_OF_RESOURCES]
    assert [peer.state for peer in node.peers()] == ["established"] * 2


def test_reason_of_bad_bytes() -> None:
    """002-113: bytes that break a rule end the session with the reason for other errors; what came before them counts."""
    sim, node, stranger = world(scout=1000.0)
    stranger.meet()
    stranger.packets()
    stranger.say(wire.Ping(77), b"\x1f")
    heard = stranger.heard()
    assert [m.hash for m in heard if isinstance(m, wire.Pong)] == [77]
    assert [int(m.reason) for m in heard if isinstance(m, wire.Close)] == [wire.Reason.OTHER]
    ends = [event.reason for event in node.events() if event.kind == "disconnected"]
    assert ends == ["bytes"]
    sim.run(1.0)
    stranger.meet()


def test_reason_of_declarations() -> None:
    """002-113, 002-117: declarations that were committed, and cannot be, end the session with the reason for that."""
    _sim, node, stranger = world(scout=1000.0)
    stranger.meet()
    node.resource("here", number=5)
    stranger.packets()
    stranger.begin()
    stranger.say(wire.Declare(0, [wire.Resource(5, "/there")], committed=True))
    assert [int(m.reason) for m in stranger.heard_of(wire.Close)] == [wire.Reason.DECLARATIONS]
    assert stranger.state == "unknown"
