"""Conduits: their own numbers, their markers, the end of a session that names another, and resources that move between them."""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Node, NodeOptions, Sim
from tests.py.worlds import datas
from tests.sim.rows_looks import numbers
from tests.sim.stranger import Stranger, alone, features

GROUPS = [(f"239.255.0.{2 + i}", 7447) for i in range(7)]
SEVEN: NodeOptions = {"multicasts": 7, "multicast_to": GROUPS, "conduits_in": 8}
MARKERS = [b"", b"\x93", b"\xb3", b"\xd3", b"\xf3", b"\x13\x05", b"\x13\x06"]


def met() -> tuple[Sim, Node, Stranger]:
    """A node that takes conduits 0 to 2, and a stranger that it has a session with."""
    sim, node, stranger = alone(conduits_in=3)
    stranger.meet(properties=features(127))
    return sim, node, stranger


def on(conduit: int, *messages: wire.Message) -> list[wire.Message]:
    """These messages, each with the marker of the conduit before it."""
    return [one for message in messages for one in (wire.Conduit(conduit), message)]


def test_own_numbers() -> None:
    """002-125: each conduit counts its own messages, from 0, whatever goes on in the others."""
    with Sim(1) as sim:
        a, b = sim.node("a", **SEVEN), sim.node("b", **SEVEN)
        pubs = [a.publisher(f"n{i}", conduit=i, way="multicast") for i in range(7)]
        subs = [b.subscriber(f"n{i}", depth=256) for i in range(7)]
        sim.run_until_quiet()
        sim.link(loss=0.1)
        for k in range(20):
            for i, pub in enumerate(pubs):
                for n in range(i + 1):
                    pub.put(b"%d %d" % (k, n))
            sim.run(0.002)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        for i, sub in enumerate(subs):
            samples = list(sub)
            wanted = [b"%d %d" % (k, n) for k in range(20) for n in range(i + 1)]
            assert [bytes(sample.data) for sample in samples] == wanted
            assert [sample.number for sample in samples] == list(range(20 * (i + 1)))
            assert {sample.conduit for sample in samples} == {i}


def test_markers() -> None:
    """002-125: conduits 1 to 4 have a marker of one byte, higher ones of two, and 0 has none; ACKNACKs echo them."""
    with Sim(1) as sim:
        a, b = sim.node("a", **SEVEN), sim.node("b", **SEVEN)
        pubs = [a.publisher(f"n{i}", conduit=i, way="multicast") for i in range(7)]
        subs = [b.subscriber(f"n{i}") for i in range(7)]
        sim.run_until_quiet()
        for i, pub in enumerate(pubs):
            seen = len(sim.packets())
            pub.put(b"x")
            sim.run_until_quiet()
            new = sim.packets()[seen:]
            data = [p.data for p in new if any(isinstance(m, wire.SData) for m in p.messages)]
            assert data
            for packet in data:
                message = packet.removeprefix(b"\x0d\x00")  # the bits above its number
                assert message.startswith(MARKERS[i] + bytes([message[len(MARKERS[i])]]))
                assert message[len(MARKERS[i])] & 31 == wire.SData.KIND
            acks = [p.data for p in new if p.source == "b" and b"\x0f" in p.data]
            assert any(MARKERS[i] + b"\x0f\x01" in ack for ack in acks)
            assert datas(subs[i]) == [b"x"]


def test_every_message_has_its_marker() -> None:
    """002-125: a node writes a marker before every message of a conduit but 0, also within one packet."""
    with Sim(1) as sim:
        a, b = sim.node("a", **SEVEN), sim.node("b", **SEVEN)
        pub = a.publisher("x", conduit=2, way="multicast")
        sub = b.subscriber("x")
        sim.run_until_quiet()
        for i in range(10):
            pub.put(bytes([i]))
        sim.run(0.1)
        assert len(datas(sub)) == 10
        counted = 0
        for packet in sim.packets():
            messages = packet.messages
            for before, message in zip([None, *messages], messages, strict=False):
                if isinstance(message, wire.SData):
                    assert before == wire.Conduit(2)
                    counted += 1
        assert counted >= 10


@pytest.mark.parametrize("conduit", [3, 4, 5, 60, 200])
def test_unsupported_conduit(conduit: int) -> None:
    """002-125: a conduit that the receiver does not have ends the session, in the short form as in the long one."""
    sim, node, stranger = met()
    sub = node.subscriber(5)
    stranger.begin(conduit=2)
    stranger.say(*on(2, wire.SData(0, 5, b"good", reliable=True)))
    assert datas(sub) == [b"good"]
    stranger.packets()
    stranger.say(*on(conduit, wire.SData(0, 5, b"bad", reliable=True)))
    assert [c.reason for c in stranger.heard_of(wire.Close)] == [wire.Reason.OTHER]
    sim.run(0.1)
    assert stranger.state == "unknown"
    assert [e.reason for e in node.events() if e.kind == "disconnected"] == ["bytes"]
    assert datas(sub) == []


def test_conduits_do_not_wait_for_each_other() -> None:
    """002-125: what is missing on one conduit does not hold another one."""
    _sim, node, stranger = met()
    sub = node.subscriber(5)
    for conduit in range(3):
        stranger.begin(conduit=conduit)
    stranger.say(*on(0, wire.SData(1, 5, b"early", reliable=True)))
    stranger.say(*on(1, wire.SData(0, 5, b"one", reliable=True)))
    stranger.say(*on(2, wire.SData(0, 5, b"two", reliable=True)))
    assert datas(sub) == [b"one", b"two"]
    stranger.say(wire.SData(0, 5, b"late", reliable=True))
    assert datas(sub) == [b"late", b"early"]


@pytest.mark.parametrize("whole", [False, True])
def test_migrate_waits(whole: bool) -> None:  # noqa: FBT001
    """002-125: what comes on the new conduit waits until the old one is as far as the MIGRATE says."""
    _sim, node, stranger = met()
    sub, other = node.subscriber(5), node.subscriber(6)
    stranger.begin(conduit=0)
    stranger.begin(conduit=1)
    move = wire.Migrate(0, 3, 0) if whole else wire.Migrate(0, 3, 0, rid=5)
    stranger.say(wire.SData(0, 5, b"0", reliable=True))
    stranger.say(*on(1, move, wire.SData(0, 5, b"4", reliable=True)))
    stranger.say(*on(1, wire.SData(1, 5, b"5", reliable=True)))
    assert datas(sub) == [b"0"]
    stranger.say(wire.SData(1, 5, b"1", reliable=True), wire.SData(2, 6, b"x", reliable=True))
    assert datas(sub) == [b"1"]
    assert datas(other) == [b"x"]
    stranger.say(wire.SData(3, 5, b"3", reliable=True))
    assert datas(sub) == [b"3", b"4", b"5"]


def test_migrate_when_what_was_left_is_lost() -> None:
    """002-125: a move is over as well when it is known that the rest of the old conduit will never come."""
    _sim, node, stranger = met()
    sub = node.subscriber(5)
    stranger.begin(conduit=0)
    stranger.begin(conduit=1)
    stranger.say(wire.SData(0, 5, b"0", reliable=True))
    stranger.say(*on(1, wire.Migrate(0, 3, 0, rid=5), wire.SData(0, 5, b"4", reliable=True)))
    assert datas(sub) == [b"0"]
    stranger.say(wire.Synch(4, reliable=True))
    assert datas(sub) == [b"4"]
    assert [(e.first, e.last) for e in node.events() if e.kind == "gap"] == [(1, 3)]


@pytest.mark.parametrize("seed", range(6))
def test_migrate_under_load(seed: int) -> None:
    """002-125: a publication that moves between its conduits under load, on bad links, keeps order and completeness."""
    with Sim(seed, delay=0.0005) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="auto")
        stays = b.subscriber("x", depth=512)
        sim.run_until_quiet()
        sim.link(loss=0.1, reorder=0.1, jitter=0.001)
        got: list[bytes] = []
        ways = set()
        other = None
        for i in range(300):
            if i % 50 == 20:
                other = c.subscriber("x", depth=512)
            if i % 50 == 45 and other is not None:
                other.close()
            pub.put(b"%d" % i)
            ways.add((pub.conduit or 0) < 0)
            sim.run(0.0007)
            got += datas(stays)
        sim.link(loss=0.0, reorder=0.0, jitter=0.0)
        sim.run_until_quiet()
        got += datas(stays)
        assert got == [b"%d" % i for i in range(300)]
        assert ways == {True, False}
        moves = [m for p in sim.packets() for m in p.messages if isinstance(m, wire.Migrate)]
        assert moves
        assert {(move.left, move.rid) for move in moves} == {(0, pub.number)}


@pytest.mark.parametrize("knows", [False, True])
def test_migrate_only_to_those_who_know(knows: bool) -> None:  # noqa: FBT001
    """002-125: a publication would move to the one peer that is left although it knows no MIGRATE; or something is lost."""
    able = {"batch", "migrate"} if knows else {"batch"}
    with Sim(3) as sim:
        a = sim.node("a")
        b, c = sim.node("b", features=able), sim.node("c", features=able)
        pub = a.publisher("x", way="auto")
        stays, goes = b.subscriber("x", depth=512), c.subscriber("x", depth=512)
        pub.wait_matched(2)
        sim.run_until_quiet()
        pub.put(b"0")
        assert pub.conduit == 0
        goes.close()
        sim.run_until_quiet()
        sim.run(0.1)
        for i in range(1, 20):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert pub.conduit is not None
        assert (pub.conduit < 0) is knows
        assert datas(stays) == [b"%d" % i for i in range(20)]
        moves = [m for p in sim.packets() for m in p.messages if isinstance(m, wire.Migrate)]
        assert knows or not moves  # one that has acknowledged all that the group carried needs none


@pytest.mark.parametrize("seed", range(8))
def test_one_that_stands_in_the_way(seed: int) -> None:
    """002-27, 002-111: a reader that had a publisher for itself, and reads no more, would keep it from all that come later."""
    with Sim(seed, loss=0.02) as sim:
        a, b, c = sim.node("a", slow=0.5), sim.node("b"), sim.node("c")
        pub, stuck = a.publisher("x", way="auto"), b.subscriber("x", depth=2)
        pub.wait_matched()
        sim.run_until_quiet()
        first = 0
        while pub.put(b"%d" % first, wait=False):
            first += 1
            sim.run(0.001)
        assert (pub.conduit or 0) < 0
        sim.run(5.0)
        assert not pub.put(b"%d" % first, wait=False), "alone, it may keep its writer waiting"
        new = c.subscriber("x", depth=1024)
        pub.wait_matched(2)
        for number in range(first, first + 50):
            pub.put(b"%d" % number, timeout=2.0)
        sim.run(1.0)
        got = numbers(new)
        assert got == list(range(first, first + 50))
        (event,) = [one for one in a.events() if one.kind == "disconnected"]
        assert event.peer == b.name
        kept = numbers(stuck)
        assert kept == sorted(set(kept))
