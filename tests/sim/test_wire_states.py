"""
What a peer's state lets its packets do, and with which reasons sessions end.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Loan, Node, Sim
from tests.sim.stranger import AUTHENTICATION, GROUP, Stranger
from tests.sim.test_wire_session import silent, subscribed, world

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
        assert not [peer for peer in node.peers(gone=True) if peer.state != "unknown"]
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
            assert [peer.busy for peer in node.peers(gone=True)] == [0]
        stranger.say(last)
        assert [peer.busy for peer in node.peers(gone=True)] == [0]
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
    wrong = wire.Property(4, b"\x06")
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
