"""
What losses make of samples: repetitions and their pace, gaps, the ledger, and a window that one slow reader shares.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Publisher, Sim, Subscriber
from tests.sim.own import NUMBER, Own, window_of
from tests.sim.stranger import GROUP, Stranger, alone

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


# ---- groups that reach some of their members --------------------------------------------------------------------


def test_filtered_group() -> None:
    """A member that a switch keeps the group from would ask without a pause, or wait for ever, or lose its session."""
    with Sim(1, delay=0.0001) as sim:
        a, b, c = (sim.node(name) for name in "abc")
        pub = a.publisher("x")
        subs = [node.subscriber("x", depth=1024) for node in (b, c)]
        pub.wait_matched(2)
        sim.run_until_quiet()
        sim.link(a, b, multicast_loss=1.0, both=False)
        nacks = b.stats().nacks_out
        asked: list[int] = []
        for _ in range(4):
            for i in range(50):
                pub.put(b"%d" % i)
                sim.run(0.02)
            asked.append(b.stats().nacks_out - nacks - sum(asked))
        assert asked[0] <= 50
        assert asked[2:] == [0, 0]
        assert [(e.kind, e.peer) for e in a.events() if e.kind == "unreached"] == [
            ("unreached", "b")
        ]
        assert {peer.name: peer.unreached for peer in a.peers()} == {"b": True, "c": False}
        assert [len(list(sub)) for sub in subs] == [200, 200]
        best = a.publisher("y", reliable=False)
        hears = b.subscriber("y")
        best.wait_matched()
        sim.run(0.1)
        best.put(b"best effort")
        best.put(bytes(4000))
        sim.run(0.1)
        assert [len(bytes(sample.data)) for sample in hears] == [11, 4000]
        b.events()
        sim.run(30.0)
        assert b.events() == [], "its session lasts, too"
        sim.link(a, b, multicast_loss=0.0, both=False)
        sim.run(31.0)
        pub.put(b"again")
        sim.run(0.1)
        seen = len(sim.packets())
        pub.put(b"by the group alone")
        sim.run(0.001)
        ways = [p.to.multicast for p in sim.packets()[seen:] if p.source == "a"]
        assert ways
        assert all(ways)


def test_slow_is_not_unreached() -> None:
    """A reader without room acknowledges only what is sent again, and would be taken for one that hears no group."""
    with Sim(1, delay=0.0001) as sim:
        a, b, c = sim.node("a"), sim.node("b", order_max=4), sim.node("c")
        pub = a.publisher("x", conduit=0)
        slow, quick = b.subscriber("x", depth=1), c.subscriber("x", depth=1024)
        pub.wait_matched(2)
        sim.run_until_quiet()
        for i in range(1500):
            pub.put(b"x", wait=False)
            sim.run(0.004)
            list(quick)
            if i % 2:
                slow.poll()
        assert a.stats().resent > 100
        assert not [event for event in a.events() if event.kind == "unreached"]


def test_repetition_to_few() -> None:
    """What one member of many has lost would be sent again to all; what all have lost to each."""
    with Sim(1, delay=0.0005) as sim:
        a = sim.node("a", latency=0.0)
        others = [sim.node(f"n{i}") for i in range(8)]
        pub = a.publisher("x")
        subs = [node.subscriber("x") for node in others]
        pub.wait_matched(8)
        sim.run_until_quiet()

        def lose(nodes: list[Node]) -> Counter[bool]:
            """How often one sample is sent again, by the group and otherwise."""
            for node in nodes:
                sim.link(a, node, loss=1.0, both=False)
            pub.put(b"lost")
            sim.link(a, None, loss=0.0, both=False)
            pub.put(b"shows it")
            seen = len(sim.packets())
            sim.run_until_quiet()
            assert [len(list(sub)) for sub in subs] == [2] * 8
            again = {
                packet.number: packet.to.multicast
                for packet in sim.packets()[seen:]
                for message in packet.messages
                if isinstance(message, wire.SData) and bytes(message.payload) == b"lost"
            }
            return Counter(again.values())

        assert lose(others[:1]) == {False: 1}
        assert lose(others[:2]) == {False: 2}
        assert lose(others) == {False: 2, True: 1}


def test_zhe_gets_repetitions_by_the_group() -> None:
    """A zhe peer would be sent a message of a group in a way that zhe never sends it."""
    sim, node, _ = alone()
    pub = node.publisher(NUMBER, way="multicast")
    zhe = Stranger(sim, node)
    zhe.meet(locators=(GROUP,))
    zhe.begin(conduit=1)
    wanted = wire.Subscription(NUMBER, wire.Mode.PUSH)
    zhe.say(wire.Conduit(1), wire.Declare(0, [wanted], committed=True, sync=True))
    sim.run(0.05)
    begin = window_of(pub).seq
    pub.put(b"x")
    sim.run(0.02)
    seen = len(sim.packets())
    zhe.say(wire.AckNack(begin, mask=0))
    sim.run(0.005)
    again = [
        packet.to.multicast
        for packet in sim.packets()[seen:]
        for message in packet.messages
        if isinstance(message, wire.SData)
    ]
    assert again
    assert all(again)


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
        b.subscriber("x")
        pub = a.publisher("x")
        for _ in range(120):  # a change is looked for while there is traffic
            pub.put(b"")
            sim.run(0.25)
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


def next_ping(own: Own, step: float) -> wire.Ping:
    """The next PING to the stranger, at most so much after it was sent."""
    for _ in range(5000):
        for ping in own.stranger.heard_of(wire.Ping):
            if ping.hash != 1:
                return ping
        own.sim.run(step)
    raise AssertionError("a session without a PING")


@pytest.mark.parametrize("trip", [0.004, 0.030])
def test_pace_is_measured(trip: float) -> None:
    """002-123: the pause between two repetitions follows the round trip that PING and PONG measure."""
    own = Own(rtt=0.001)
    own.sim.run(4.0)  # the first PING found nobody, and is given up
    for _ in range(8):
        ping = next_ping(own, trip / 8)
        own.sim.run(trip / 2)
        own.stranger.say(wire.Pong(ping.hash ^ 2))  # of another question
        own.sim.run(trip / 2)
        own.stranger.say(wire.Pong(ping.hash))
        own.stranger.say(wire.Pong(ping.hash))  # doubled on its way
    assert own.stranger.peer is not None
    assert own.stranger.peer.rtt == pytest.approx(trip, rel=0.15)
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
    assert all(0.85 * trip <= pause <= 1.2 * trip for pause in pauses)
