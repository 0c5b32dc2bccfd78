"""
Reliability on the wire: what is asked for and sent again, what makes room, and what a window looks like meanwhile.

Where a test needs to know each packet, the other side is a stranger; where it needs many, both are nodes.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Publisher, Sim, Window
from tests.sim.own import NUMBER, Own, subscribe, window_of
from tests.sim.stranger import GROUP, Stranger

# ---- the answers to ACKNACKs ------------------------------------------------------------------------------------


def test_nack_too_late() -> None:
    """002-46: a NACK for what the window no longer holds is answered with where the window is, and with no sample."""
    own = Own(count=8)
    own.ack(6)
    assert own.span == (6, 8)
    own.stranger.packets()
    for old in (5, 2, 0):
        before = own.node.stats().resent
        own.ack(old, mask=1)
        assert own.told() == (8, 2)
        assert own.node.stats().resent == before
        assert own.span == (6, 8)
    own.ack(6, mask=1)
    assert own.numbers() == [6, 7], "what is there is still to be had"


def test_asker_goes_on() -> None:
    """002-46, 002-109: who is told that the window has moved on goes on from there, with a gap from first to last."""
    sim = Sim(1)
    node = sim.node("a", scout=1000.0)
    stranger = Stranger(sim, node)
    stranger.meet()
    sub = node.subscriber(NUMBER)
    stranger.begin()
    stranger.say(wire.SData(0, NUMBER, b"0", reliable=True))
    stranger.say(wire.SData(9, NUMBER, b"9", reliable=True, sync=True))
    asked = stranger.heard_of(wire.AckNack)[-1]
    assert (asked.sn, asked.mask) == (1, 0x7F), "1 and the next seven, not 9, which is there"
    stranger.say(wire.Synch(12, count=4, reliable=True, sync=True))
    gaps = [event for event in node.events() if event.kind == "gap"]
    assert [(gap.first, gap.last, gap.conduit) for gap in gaps] == [(1, 7, 0)]
    sim.run(0.01)
    asked = stranger.heard_of(wire.AckNack)[-1]
    assert (asked.sn, asked.mask) == (8, 0b110), "8, 10 and 11"
    for i in (8, 10, 11):
        stranger.say(wire.SData(i, NUMBER, b"%d" % i, reliable=True, sync=i == 11))
    assert [bytes(sample.data) for sample in sub] == [b"0", b"8", b"9", b"10", b"11"]
    assert stranger.heard_of(wire.AckNack)[-1].sn == 12
    assert sum(drop.count for drop in node.drops() if drop.reason == "gap") == 7


def test_nack_ahead() -> None:
    """002-47: an ACKNACK for what is not written yet is ignored, but for a SYNCH that says how far the writer is."""
    own = Own(count=4)
    own.ack(2)
    own.stranger.packets()
    for ahead, mask in [(5, None), (5, 0), (100, 7), (4000, 3)]:
        before = own.node.stats().resent
        own.ack(ahead, mask)
        assert own.told() == (4, 2)
        assert own.node.stats().resent == before
        assert own.span == (2, 4)
    own.ack(2, mask=2**31 - 1)
    assert own.numbers() == [2, 3], "the part of a mask that is ahead is nothing"
    own.ack(4, mask=3)
    assert own.numbers() == []
    assert own.span == (4, 4)
    own.pub.put(b"next")
    assert own.numbers() == [4]
    own.ack(5)
    assert own.span == (5, 5)
    assert own.node.stats().resent == 2


def test_mask() -> None:
    """002-121: what is sent again is what the mask names, oldest first, the same bytes, S on the last alone."""
    own = Own(samples=64)
    for i in range(40):
        own.pub.put(b"sample %d" % i)
    first = {message.sn: bytes(message.payload) for message in own.sent()}
    assert sorted(first) == list(range(40))
    own.ack(3, mask=0b1001_0100_0000_0000_0000_0000_0000_0001)
    again = own.sent()
    assert [message.sn for message in again] == [3, 4, 30, 32, 35]
    assert all(bytes(message.payload) == first[message.sn] for message in again)
    assert [message.sync for message in again] == [False] * 4 + [True]
    assert own.node.stats().resent == 5
    own.sim.run(1.0)
    assert own.numbers() == [], "nothing is repeated that is not asked for"


# ---- room -----------------------------------------------------------------------------------------------------


def test_ack_makes_room() -> None:
    """002-49: a writer whose window is full goes on in the moment of the ACKNACK."""
    own = Own(samples=4, count=4)
    put = own.pub.put
    assert put(b"5", wait=False) is False
    own.sim.run(0.5)
    assert put(b"5", wait=False) is False
    own.ack(0, mask=7)
    assert put(b"5", wait=False) is False, "that was a question"
    now = own.sim.now_ns
    own.ack(4)
    own.stranger.packets()
    assert put(b"5", wait=False) is True
    assert own.sim.now_ns == now
    assert own.numbers() == [4]
    assert own.node.stats().put_waits == 3


def test_waiting_writer_wakes() -> None:
    """002-49: a writer that waits goes on as soon as the ACKNACK is there, after one round trip."""
    with Sim(1, delay=0.01) as sim:
        a, b = sim.node("a", multicast_samples=4, latency=0.0), sim.node("b")
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x")
        sim.run_until_quiet()
        sim.run(1.0)
        for _ in range(20):
            for i in range(4):
                assert pub.put(bytes([i]), wait=False)
            begin = sim.now
            pub.put(b"waits")
            assert sim.now - begin == pytest.approx(0.02, abs=0.0011)
            assert len(list(sub)) == 4
            sim.run_until_quiet()
            assert len(list(sub)) == 1


def members(sim: Sim, node: Node, count: int) -> list[Stranger]:
    """Strangers that have joined the node's group, and subscribe."""
    found = []
    for i in range(count):
        one = Stranger(sim, node, bytes([0xE0 + i]), host=f"10.9.9.{i + 100}")
        one.open(locators=(GROUP,))
        assert one.state == "established"
        subscribe(one)
        found.append(one)
    return found


def test_base_is_the_least() -> None:
    """002-48: a multicast window is held by the member that has acknowledged least; when it leaves the next one holds."""
    sim = Sim(1)
    node = sim.node("a", features=set(), scout=1000.0, latency=0.0, slow=60.0)
    strangers = members(sim, node, 4)
    pub = node.publisher(NUMBER)
    sim.run(0.01)
    assert window_of(pub).members == 4
    for i in range(20):
        pub.put(bytes([i]))
    acked = [0, 0, 0, 0]
    rand = random.Random(1)
    while min(acked) < 12:
        who = rand.randrange(4)
        acked[who] = min(15, acked[who] + rand.randrange(1, 4))
        strangers[who].say(wire.AckNack(acked[who]))
        assert window_of(pub).seqbase == min(acked)
        strangers[who].say(wire.AckNack(rand.randrange(window_of(pub).seqbase, acked[who] + 1)))
        assert window_of(pub).seqbase == min(acked), "an old ACKNACK takes nothing back"
        pub.node.flush()
        assert window_of(pub).seqbase == min(acked), "sending moves the other end alone"
    acked = [20, 16, 18, 19]
    for stranger, number in zip(strangers, acked, strict=True):
        stranger.say(wire.AckNack(number))
    assert window_of(pub).seqbase == 16
    for leaver, base in [(1, 18), (2, 19), (3, 20)]:
        strangers[leaver].say(wire.Close(strangers[leaver].id, 0))
        assert window_of(pub).seqbase == base
    assert window_of(pub).members == 1


def told(stranger: Stranger) -> set[tuple[int, int | None]]:
    """Where the SYNCHs of the group say that it is, as they came last; none went to the stranger alone."""
    packets = stranger.packets()
    alone = [packet for packet in packets if packet.to == stranger.endpoint]
    synchs = [m for packet in packets for m in packet.messages if isinstance(m, wire.Synch)]
    assert not [
        m
        for packet in alone
        for m in packet.messages
        if isinstance(m, wire.Synch) and m.conduit == 0
    ]
    return {(m.sn, m.count) for m in synchs if m.conduit == 0}


@pytest.mark.parametrize("left", [False, True])
def test_detached_before_it_began(left: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """
    A newcomer that is detached before it could begin would begin behind what the window has given up, and miss that without
    a line in the ledger; also if it is the only one that is left.
    """
    sim = Sim(1)
    node = sim.node("a", scout=1000.0, latency=0.0, slow=0.1)
    silent, other = members(sim, node, 2)
    pub = node.publisher(NUMBER)
    sim.run(0.01)
    for i in range(5):
        assert pub.put(b"%d" % i)
        other.say(wire.AckNack(i + 1))
    sim.run(0.2)
    assert [event.kind for event in node.events()].count("detached") == 1
    assert window_of(pub).seqbase == 5
    if left:
        other.say(wire.Close(other.id, 0))
    assert pub.put(b"5")
    silent.packets()
    sim.run(0.5)
    if not left:
        assert told(silent) == {(6, 6)}, "it joined at 0"
        silent.say(wire.AckNack(0))
        sim.run(0.5)
        assert told(silent) == {(6, 6)}, "that may have been late, of an earlier session"
        silent.say(wire.AckNack(0, mask=0b11111))
        sim.run(0.1)
        assert told(silent) == {(6, 6)}, "what was sent again may be on its way"
        silent.say(wire.AckNack(0, mask=0b11111))
    sim.run(0.1)
    assert (6, 1) in told(silent)
    lost = [(drop.reason, drop.count) for drop in node.drops() if drop.place == "window"]
    assert lost == [("gap", 5)]
    silent.say(wire.AckNack(6))
    assert window_of(pub).members == 2 - left


def test_detached_zhe_peer_lacks() -> None:
    """A peer that cannot report what it misses would miss it without a line anywhere; or each time it asks would count."""
    sim = Sim(1)
    node = sim.node("a", scout=1000.0, latency=0.0, slow=0.1)
    silent, other = members(sim, node, 2)
    pub = node.publisher(NUMBER)
    sim.run(0.01)
    assert pub.put(b"0")
    for one in (silent, other):
        one.say(wire.AckNack(1))
    for i in range(1, 5):
        assert pub.put(b"%d" % i)
        other.say(wire.AckNack(i + 1))
    sim.run(0.2)
    assert window_of(pub).seqbase == 5
    lost = ("window", "gap")
    assert lost not in {(drop.place, drop.reason) for drop in node.drops()}, (
        "it may have had it all"
    )
    for _ in range(3):
        silent.say(wire.AckNack(1, mask=0b111))
    assert lost not in {(d.place, d.reason) for d in node.drops()}, "it may come, sent again"
    for _ in range(3):
        sim.run(0.05)
        silent.say(wire.AckNack(1, mask=0b111))
    assert [d.count for d in node.drops() if (d.place, d.reason) == lost] == [4]
    silent.say(wire.AckNack(5))
    assert window_of(pub).members == 2


def is_stuck(pub: Publisher) -> bool:
    """Whether a window becomes full and then has no room for a long time."""
    for _ in range(40):
        if not pub.put(b"held", wait=False):
            pub.node.sim.run(0.05)
            if not pub.put(b"held", wait=False):
                return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_base_with_faults(seed: int) -> None:
    """002-48: on bad links a window's base is never past what a member has received, and a crash sets it free."""
    with Sim(seed, loss=0.2, reorder=0.1, duplicate=0.1) as sim:
        a = sim.node("a", multicast_samples=16, lease=0.5, slow=60.0, latency=0.0)
        others = [sim.node(name, lease=0.5) for name in "bcd"]
        pub, subs = a.publisher("x"), [node.subscriber("x", depth=256) for node in others]
        pub.wait_matched(3)
        begin = window_of(pub).seq
        got = [0, 0, 0]
        for i in range(60):
            pub.put(b"%d" % i)
            sim.run(0.0005)
            for k, sub in enumerate(subs):
                got[k] += len(list(sub))
            assert window_of(pub).seqbase <= begin + min(got)
        sim.cut(a, others[2])
        others[2].crash()
        assert is_stuck(pub)
        sim.run(1.0)
        for _ in range(40):
            pub.put(b"free")
        sim.run_until_quiet()
        assert window_of(pub).seqbase == window_of(pub).seq


def check_window(window: Window) -> None:
    """What must hold between the two pairs of a window at every moment."""
    assert 0 <= window.seqbase <= window.seq
    assert window.used_samples == window.seq - window.seqbase <= window.samples_max
    assert window.used_bytes <= window.size_bytes
    assert window.pos <= window.size_bytes
    assert window.firstpos <= window.size_bytes
    if window.used_samples == 0:
        assert window.used_bytes == 0
    elif window.pos > window.firstpos:
        assert window.used_bytes == window.pos - window.firstpos
    elif window.used_bytes:
        assert window.used_bytes >= window.pos


@pytest.mark.parametrize("seed", range(3))
def test_snapshot(seed: int) -> None:
    """002-51: both ends of a window, in numbers and in positions, are there at every moment, and fit each other."""
    rand = random.Random(seed)
    with Sim(seed, loss=0.1, reorder=0.1) as sim:
        a = sim.node("a", multicast_bytes=4096, multicast_samples=16, latency=0.0002)
        b = sim.node("b")
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x", depth=256)
        pub.wait_matched()
        shapes = Counter[str]()
        last = window_of(pub)
        for _ in range(400):
            pub.put(bytes(rand.choice([0, 1, 100, 500, 900])), wait=False)
            sim.run(rand.random() * 0.001)
            window = window_of(pub)
            check_window(window)
            assert window.seq >= last.seq
            assert window.seqbase >= last.seqbase
            shapes["around" if window.pos < window.firstpos else "straight"] += 1
            shapes["full" if window.draining else "open"] += 1
            last = window
            list(sub)
        sim.run_until_quiet()
        end = window_of(pub)
        assert (end.used_samples, end.used_bytes, end.seq) == (0, 0, end.seqbase)
        assert min(shapes[shape] for shape in ("around", "straight", "full", "open")) > 10
