"""
Reliability on the wire: what is asked for and sent again, what makes room, and how slow or confused peers are taken.

Where a test needs to know each packet, the other side is a stranger; where it needs many, both are nodes.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Unpack

import pytest

from pyddsi import wire
from pyddsi.testing import Node, NodeOptions, Publisher, Sim, Subscriber, Window
from tests.sim.stranger import GROUP, Stranger, alone

NUMBER = 5


def subscribe(stranger: Stranger, conduit: int = 0, sn: int = 0) -> None:
    """The stranger subscribes, as its first message on that conduit."""
    stranger.begin(sn, conduit)
    wanted = wire.Subscription(NUMBER, wire.Mode.PUSH)
    stranger.say(wire.Conduit(conduit), wire.Declare(sn, [wanted], committed=True, sync=True))


class Own:
    """
    A node with a window to a stranger alone. What the node declares has been acknowledged; numbers here are counted
    from the first sample on.
    """

    def __init__(self, samples: int = 256, count: int = 0, **options: Unpack[NodeOptions]) -> None:
        settings: NodeOptions = {"features": set(), "unicast_samples": samples}
        settings.update(options)
        self.sim, self.node, self.stranger = alone(**settings)
        self.stranger.meet()
        self.pub = self.node.publisher(NUMBER, way="unicast")
        subscribe(self.stranger)
        assert self.pub.conduit == -1
        self.sim.run(0.01)
        self.begin = window_of(self.pub).seq
        self.ack(0)
        for i in range(count):
            self.pub.put(bytes([i]))
        self.stranger.packets()

    def ack(self, number: int, mask: int | None = None) -> None:
        """The stranger says: everything before this number has come; with a mask: I want this one, and those."""
        sn = (self.begin + number) % 2**14
        self.stranger.say(wire.Conduit(1), wire.AckNack(sn, mask=mask))

    def sent(self) -> list[wire.SData]:
        """The samples that have been sent since the last look, renumbered."""
        found = self.stranger.heard_of(wire.SData)
        for message in found:
            message.sn -= self.begin
        return found

    def numbers(self) -> list[int]:
        """The numbers of these."""
        return [message.sn for message in self.sent()]

    def told(self) -> tuple[int, int]:
        """What the one SYNCH since the last look says: the next number, and how many are not acknowledged."""
        (synch,) = self.stranger.heard_of(wire.Synch)
        assert not synch.sync, "or two confused sides would go on for ever"
        return synch.sn - self.begin, synch.count or 0

    @property
    def span(self) -> tuple[int, int]:
        """The first number that is not acknowledged, and the next one."""
        window = window_of(self.pub)
        return window.seqbase - self.begin, window.seq - self.begin


def window_of(pub: Publisher) -> Window:
    """The window of a publisher that has one."""
    window = pub.window
    assert window is not None
    return window


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
        pub, sub = a.publisher("x"), b.subscriber("x")
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
        while pub.put(b"held", wait=False):
            sim.run(0.005)
            assert window_of(pub).used_samples <= 16
        with pytest.raises(TimeoutError):
            pub.put(b"held", timeout=0.05)
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
        pub, sub = a.publisher("x"), b.subscriber("x", depth=256)
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


# ---- loss -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [{i} for i in range(10)] + [{2, 3, 4}, {0, 5, 9}, set(range(10))])
def test_each_packet_lost(lost: set[int]) -> None:
    """002-121: whichever packets are lost, exactly these samples are sent again, the oldest lost always among them."""
    with Sim(1) as sim:
        a, b = sim.node("a", latency=0.0), sim.node("b")
        pub, sub = a.publisher("x"), b.subscriber("x")
        sim.run_until_quiet()
        begin = window_of(pub).seq
        seen, resent = len(sim.packets()), a.stats().resent
        for i in range(10):
            sim.link(a, b, loss=1.0 if i in lost else 0.0, both=False)
            pub.put(b"%d" % i)
        sim.link(a, b, loss=0.0, both=False)
        sim.run_until_quiet()
        assert [bytes(sample.data) for sample in sub] == [b"%d" % i for i in range(10)]
        sent, first_again, asked = Counter[int](), None, []
        for packet in sim.packets()[seen:]:
            for message in packet.messages:
                if isinstance(message, wire.SData):
                    sent[message.sn - begin] += 1
                    if sent[message.sn - begin] == 2 and first_again is None:
                        first_again = message.sn - begin
                if isinstance(message, wire.AckNack) and message.mask is not None:
                    bits = [0] + [i + 1 for i in range(64) if message.mask >> i & 1]
                    asked.append({message.sn - begin + bit for bit in bits})
        assert {number for number, count in sent.items() if count == 2} == lost
        assert max(sent.values()) <= 2
        assert first_again == min(lost)
        assert all(question <= lost for question in asked)
        assert a.stats().resent - resent == len(lost)


@pytest.mark.parametrize("seed", range(4))
def test_lost_both_ways(seed: int) -> None:
    """002-121: with packets lost in both directions every sample comes, once and in order."""
    with Sim(seed, delay=0.001) as sim:
        a, b = sim.node("a", latency=0.0), sim.node("b")
        pub, sub = a.publisher("x"), b.subscriber("x", depth=512)
        sim.run_until_quiet()
        sim.link(loss=0.3)
        for i in range(150):
            pub.put(b"%d" % i)
        got = [bytes(sub.recv().data) for _ in range(150)]
        assert got == [b"%d" % i for i in range(150)]


def test_gap_event() -> None:
    """002-109: numbers that will not come are reported with the first and the last of them, one event for each run."""
    sim = Sim(1)
    node = sim.node("a", scout=1000.0)
    stranger = Stranger(sim, node)
    stranger.meet()
    sub = node.subscriber(NUMBER)
    stranger.begin(100)
    stranger.say(wire.Synch(103, reliable=True))
    stranger.say(wire.SData(103, NUMBER, b"a", reliable=True))
    stranger.say(wire.SData(106, NUMBER, b"b", reliable=True))
    stranger.say(wire.Synch(108, reliable=True))
    gaps = [event for event in node.events() if event.kind == "gap"]
    assert [(gap.first, gap.last) for gap in gaps] == [(100, 102), (104, 105), (107, 107)]
    assert {gap.peer for gap in gaps} == {stranger.id.hex()}
    assert [bytes(sample.data) for sample in sub] == [b"a", b"b"]


# ---- best effort ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_best_effort_counts(seed: int) -> None:
    """002-110: of best effort samples those that came and those in the ledger are all there were."""
    with Sim(seed) as sim:
        a, b = sim.node("a", latency=0.0), sim.node("b")
        pub, sub = (
            a.publisher("x", reliable=False),
            b.subscriber("x", depth=4, on_full="drop_newest"),
        )
        sim.run_until_quiet()
        pub.put(b"first")
        sim.run(0.01)
        sim.link(loss=0.2, reorder=0.2)
        taken = 0
        for i in range(400):
            pub.put(b"%d" % i)
            sim.run(0.0005)
            if i % 10 == 0:
                taken += len(list(sub))
        sim.link(loss=0.0, reorder=0.0)
        sim.run(0.1)
        pub.put(b"last")
        sim.run(0.1)
        taken += len(list(sub))
        drops = Counter[str]()
        for drop in a.drops() + b.drops():
            drops[drop.reason] += drop.count
        assert drops["loss"] > 20
        assert drops["old"] > 5
        assert drops["full"] > 20
        # what was overtaken is first taken for lost, and in the ledger once more when it comes
        assert taken + drops["loss"] + drops["full"] == 402
        assert a.stats().sent_best == 402


def test_best_effort_while_full() -> None:
    """002-110: while the reliable window is full best effort goes on, or is in the ledger; it is never lost silently."""
    with Sim(1) as sim:
        a = sim.node("a", multicast_samples=4)
        b = sim.node("b")
        pub, best = a.publisher("x"), a.publisher("y", reliable=False)
        sub = b.subscriber("y", depth=1024)
        stuck = b.subscriber("x", depth=1)
        sim.run_until_quiet()
        while pub.put(b"full", wait=False):
            sim.run(0.01)
        assert window_of(pub).draining
        for i in range(100):
            best.put(bytes(500 + i))
        sim.run(0.1)
        came = len(list(sub))
        lost = sum(drop.count for drop in a.drops() + b.drops() if drop.resource == "y")
        assert came + lost == 100
        assert stuck.poll() is not None


# ---- slow readers ---------------------------------------------------------------------------------------------


def feed(sim: Sim, pub: Publisher, readers: list[Subscriber], count: int) -> float:
    """Publishes to readers who read at once; the virtual seconds that it took."""
    begin = sim.now
    for i in range(count):
        pub.put(b"%d" % i)
        sim.run(0.001)
        for reader in readers:
            for _sample in reader:
                pass
    return sim.now - begin


def test_one_stopped_reader() -> None:
    """
    002-111: of ten readers one stops: the nine keep nine tenths of their rate, and the one that goes on again gets what
    there still is and is told of the rest.
    """
    with Sim(1, delay=0.0002) as sim:
        a = sim.node("a", multicast_samples=64, slow=0.05)
        nodes = [sim.node(f"n{i}") for i in range(10)]
        pub = a.publisher("x")
        subs = [node.subscriber("x", depth=16) for node in nodes]
        pub.wait_matched(10)
        sim.run_until_quiet()
        free = feed(sim, pub, subs, 700)
        sim.run_until_quiet()
        slow_node, slow = nodes[0], subs[0]
        slow_node.events(), a.events()
        first = window_of(pub).seq
        stopped = feed(sim, pub, subs[1:], 700)
        assert free >= 0.9 * stopped
        detached = [event for event in a.events() if event.kind == "detached"]
        assert [event.peer for event in detached] == ["n0"]
        got = []
        for _ in range(200):
            got += [sample.number for sample in slow]
            sim.run(0.01)
        gaps = [event for event in slow_node.events() if event.kind == "gap"]
        assert gaps
        missing = [number for gap in gaps for number in range(gap.first, gap.last + 1)]
        assert sorted(got + missing) == list(range(first, first + 700))
        assert got == sorted(got)
        assert len(got) >= 16
        pub.put(b"again")
        sim.run_until_quiet()
        assert [bytes(sample.data) for sample in slow] == [b"again"]
        assert window_of(pub).members == 10, "it holds the window again"


# ---- round trips ----------------------------------------------------------------------------------------------


def test_round_trip() -> None:
    """002-123: with 10 ms each way the measured round trip becomes 20 ms, within a tenth."""
    with Sim(1, delay=0.010) as sim:
        a, b = sim.node("a", rtt=0.001), sim.node("b", rtt=0.5)
        sim.run(6.0)
        for node in (a, b):
            (peer,) = node.peers()
            assert peer.rtt == pytest.approx(0.020, rel=0.1)
        sim.link(delay=0.040)
        sim.run(30.0)
        assert a.peers()[0].rtt == pytest.approx(0.080, rel=0.1)


def test_pace_of_repetition() -> None:
    """002-123: what is asked for again before a repetition can have arrived is not sent once more; later it is."""
    own = Own(rtt=0.020)
    own.pub.put(b"x")
    own.sim.run(0.001)
    own.stranger.packets()
    own.ack(0, mask=0)
    assert own.numbers() == [0]
    sent, begin = [0.0], own.sim.now
    for _ in range(60):
        own.sim.run(0.001)
        own.ack(0, mask=0)
        sent += [own.sim.now - begin for _number in own.numbers()]
    assert own.stranger.peer is not None
    trip = own.stranger.peer.rtt
    assert trip >= 0.01
    pauses = [two - one for one, two in pairwise(sent)]
    assert len(pauses) >= 2
    assert all(0.85 * trip <= pause <= trip + 0.001 for pause in pauses)


@pytest.mark.parametrize("trip", [0.004, 0.030])
def test_pace_is_measured(trip: float) -> None:
    """002-123: the pause between two repetitions follows the round trip that PING and PONG measure."""
    own = Own(rtt=0.001)
    for i in range(1, 9):
        own.sim.run(i * 0.5 + trip / 2 - own.sim.now)
        (ping,) = (m for m in own.stranger.heard_of(wire.Ping) if m.hash != 1)
        own.stranger.say(wire.Pong(ping.hash ^ 2))  # of another question
        own.sim.run(trip / 2)
        own.stranger.say(wire.Pong(ping.hash))
        own.stranger.say(wire.Pong(ping.hash))  # doubled on its way
    assert own.stranger.peer is not None
    assert own.stranger.peer.rtt == pytest.approx(trip, rel=0.1)
    own.pub.put(b"x")
    own.sim.run(0.001)
    own.stranger.packets()
    sent: list[float] = []
    for _ in range(200):
        own.ack(0, mask=0)
        sent += [own.sim.now for _number in own.numbers()]
        own.sim.run(trip / 20)
    pauses = [two - one for one, two in pairwise(sent)]
    assert len(pauses) >= 5
    assert all(0.85 * trip <= pause <= 1.05 * trip for pause in pauses)
