"""
Samples of any size, the same ids in several spaces, and numbers of every length over their wrap-around.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from pyddsi import wire
from pyddsi.testing import NodeOptions, Sim
from tests.py.worlds import datas
from tests.sim.stranger import AUTHENTICATION, Stranger
from tests.sim.test_wire_data import data_messages, met

# ---- size -----------------------------------------------------------------------------------------------------


def test_ten_megabytes() -> None:
    """002-124: ten megabytes in packets of 1472 bytes arrive whole on a link that loses a tenth; fragments are equal."""
    size = 10_000_000
    payload = random.Random(1).randbytes(size)
    with Sim(1, delay=0.0002, log_bytes=4 << 20) as sim:
        a = sim.node("a", multicast_bytes=1 << 20)
        b = sim.node("b", assembly_bytes=size + (1 << 20), sample_max=size, order_max=1024)
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x")
        sim.run_until_quiet()
        sim.link(loss=0.1)
        with pub.stream(size) as stream:
            for at in range(0, size, 1 << 20):
                stream.write(payload[at : at + (1 << 20)])
        sample = sub.recv(timeout=60.0)
        assert sample.data == payload
        assert a.stats().resent > 500
        sizes = Counter[int]()
        for packet in sim.packets():
            assert len(packet.data) <= 1472
            if packet.source == "a" and any(isinstance(m, wire.Frag) for m in packet.messages):
                sizes.update(len(m.payload) for m in packet.messages if isinstance(m, wire.SData))
        assert len(sizes) == 1, "and the last, which came when the log was full"


@pytest.mark.parametrize("size", [1473, 2900, 5000, 14720, 65535, 65536, 200_001])
@pytest.mark.parametrize("reliable", [True, False])
def test_fragments(size: int, reliable: bool) -> None:  # noqa: FBT001
    """002-124: all fragments of a sample but the last have one size, the last is not larger; numbered one by one."""
    payload = random.Random(size).randbytes(size)
    with Sim(1) as sim:
        a, b = sim.node("a", unicast_bytes=1 << 18), sim.node("b")
        pub, sub = a.publisher("x", reliable=reliable), b.subscriber("x")
        sim.run_until_quiet()
        pub.put(payload)
        assert sub.recv().data == payload
        pieces: dict[int, tuple[wire.Frag, wire.SData]] = {}
        for packet in sim.packets():
            messages = packet.messages
            for marker, message in pairwise(messages):
                if isinstance(marker, wire.Frag) and isinstance(message, wire.SData):
                    pieces.setdefault(message.sn, (marker, message))
        first = min(pieces)
        assert sorted(pieces) == list(range(first, first + len(pieces)))
        sizes = [len(pieces[sn][1].payload) for sn in sorted(pieces)]
        assert len(set(sizes[:-1])) == 1
        assert sizes[-1] <= sizes[0]
        assert sum(sizes) == size
        assert {marker.first for marker, _ in pieces.values()} == {first}
        assert pieces[first][0].fragments in {None, len(pieces)}


def test_last_fragment_is_as_large() -> None:
    """002-124: a sample that is a whole number of fragments has a last one as large as the others, and no empty one."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x"), b.subscriber("x")
        sim.run_until_quiet()
        pub.put(bytes(5000))
        assert len(sub.recv().data) == 5000
        piece = max(len(message.payload) for message in data_messages(sim, "a", wire.SData))
        seen = len(data_messages(sim, "a", wire.Frag))
        for count in (2, 3, 10):
            payload = random.Random(count).randbytes(count * piece)
            pub.put(payload)
            assert sub.recv().data == payload
            sim.run_until_quiet()
            markers = data_messages(sim, "a", wire.Frag)[seen:]
            seen += len(markers)
            assert len(markers) == count
            assert {marker.fragments for marker in markers} <= {None, count}


def test_no_fragments_in_one_packet() -> None:
    """002-124: what fits one packet is not taken apart."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x")
        sim.run_until_quiet()
        for size in (0, 1, 127, 128, 1000, 1440):
            pub.put(bytes(size))
        assert [len(sub.recv().data) for _ in range(6)] == [0, 1, 127, 128, 1000, 1440]
        assert data_messages(sim, "a", wire.Frag) == []


# ---- spaces ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "two"), [(0, 1), (1, 2), (0, 4), (4, 5), (7, 255)])
def test_spaces(one: int, two: int) -> None:
    """002-126: the same id in two resource spaces is two resources: nothing crosses from one to the other."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pubs = {space: a.publisher(7, space=space) for space in (one, two)}
        subs = {space: b.subscriber(7, space=space) for space in (one, two)}
        sim.run_until_quiet()
        for i in range(10):
            pubs[one].put(b"one %d" % i)
            pubs[two].put_many([b"two %d" % i])
        sim.run(0.1)
        assert datas(subs[one]) == [b"one %d" % i for i in range(10)]
        for sample, i in zip(subs[two], range(10), strict=True):
            assert (bytes(sample.data), sample.space) == (b"two %d" % i, two)
        pubs[two].close()
        subs[two].close()
        sim.run_until_quiet()
        pubs[one].put(b"still")
        assert bytes(subs[one].recv().data) == b"still"
        markers = {m.space for m in data_messages(sim, "a", wire.RSpace)}
        assert markers == {one, two} - {0}
        for packet in sim.packets():
            for message in packet.messages:
                if isinstance(message, wire.RSpace):
                    assert not message.long, "the short form where there is one"


def test_spaces_and_names() -> None:
    """002-126: one name in two spaces may have two numbers and two kinds of quality."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pubs = [a.publisher("x", space=space, reliable=space == 0) for space in (0, 3)]
        subs = [b.subscriber("*", space=space) for space in (0, 3)]
        sim.run_until_quiet()
        for space, pub in enumerate(pubs):
            pub.put(b"%d" % space)
        sim.run(0.1)
        assert [datas(sub) for sub in subs] == [[b"0"], [b"1"]]
        told = [event for event in a.events() if event.kind == "matched"]
        assert {(event.resource, event.space) for event in told} == {("x", 0), ("x", 3)}
        assert {"in space 3" in str(event) for event in told if event.space == 3} == {True}


# ---- numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [7, 11, 14, 28, 56])
@pytest.mark.parametrize("reliable", [True, False])
def test_receiving_over_the_wrap(bits: int, reliable: bool) -> None:  # noqa: FBT001
    """002-128: numbers of each length are understood over their wrap-around, in order, early and asked for again."""
    sim, node, stranger = met(bits=bits)
    sub = node.subscriber(5)
    mask = 2**bits - 1
    begin = mask - 7
    stranger.begin(begin)
    order = list(range(20))
    if reliable:
        order[6], order[9] = order[9], order[6]
    for i in order:
        message = wire.SData(begin + i & mask, 5, b"%d" % i, reliable=reliable, sync=i == 19)
        stranger.say(message)
    assert datas(sub) == [b"%d" % i for i in range(20)]
    if reliable:
        assert stranger.heard_of(wire.AckNack)[-1].sn == begin + 20 & mask
        stranger.say(wire.SData(begin & mask, 5, b"old", reliable=True))
        stranger.say(wire.SData(begin + 22 & mask, 5, b"early", reliable=True))
        sim.run(0.05)
        asked = stranger.heard_of(wire.AckNack)[-1]
        assert (asked.sn, asked.mask) == (begin + 20 & mask, 1)
        assert datas(sub) == []


@pytest.mark.parametrize("bits", [28, 56])
def test_acknowledging_far_numbers(bits: int) -> None:
    """002-128: an ACKNACK as far ahead as the length allows is not taken for one of the window."""
    _sim, node, stranger = met(bits=bits)
    pub = node.publisher(5, way="unicast")
    stranger.begin()
    stranger.say(wire.Declare(0, [wire.Subscription(5, wire.Mode.PUSH)], committed=True))
    for i in range(5):
        pub.put(bytes([i]))
    before = pub.window
    for far in (2 ** (bits - 1), 2**bits - 1, 2 ** (bits - 1) - 1):
        stranger.say(wire.Conduit(1), wire.AckNack(far))
        assert pub.window == before


@pytest.mark.parametrize(("bits", "count", "batch"), [(7, 600, 1), (11, 4500, 1), (14, 18000, 8)])
def test_sending_over_the_wrap(bits: int, count: int, batch: int) -> None:
    """002-128: numbers run over their wrap-around end to end, with losses, and every sample comes in order."""
    with Sim(1, log_bytes=8 << 20) as sim:
        settings: NodeOptions = {"seq_bits": bits, "multicast_samples": 64}
        a, b = sim.node("a", **settings), sim.node("b", **settings)
        pub, sub = a.publisher("x"), b.subscriber("x", depth=4096)
        sim.run_until_quiet()
        sim.link(loss=0.01)
        got = 0
        for i in range(0, count, batch):
            for k in range(batch):
                pub.put(b"%d" % (i + k))
            sim.run(0.0002)
            for sample in sub:
                assert bytes(sample.data) == b"%d" % got
                got += 1
        sim.link(loss=0.0)
        sim.run_until_quiet()
        for sample in sub:
            assert bytes(sample.data) == b"%d" % got
            got += 1
        assert got == count
        window = pub.window
        assert window is not None
        assert window.seq > 2**bits


def test_lengths_do_not_meet() -> None:
    """002-128: nodes that speak as zhe does refuse each other for another length, with that reason, and have no session."""
    with Sim(1) as sim:
        nodes = [
            sim.node(f"n{bits}", seq_bits=bits, features=set(), scout=1.0)
            for bits in (7, 14, 28, 56)
        ]
        twin = sim.node("twin", seq_bits=28, features=set(), scout=1.0)
        sim.run(5.0)
        for node in [*nodes, twin]:
            there = [peer.name for peer in node.peers() if peer.state == "established"]
            assert there == {"n28": ["twin"], "twin": ["n28"]}.get(node.name, [])
        closes = [m for p in sim.packets() for m in p.messages if isinstance(m, wire.Close)]
        reasons = Counter(close.reason for close in closes)
        assert reasons[wire.Reason.SEQUENCE_LENGTH] > 10
        # besides: a KEEPALIVE that the two send to all is answered by those who have no session with them
        assert set(reasons) <= {wire.Reason.SEQUENCE_LENGTH, wire.Reason.ORDINARY}


@pytest.mark.parametrize("own", [7, 14, 28])
@pytest.mark.parametrize("bits", [7, 14, 28, 56])
def test_length_is_followed(own: int, bits: int) -> None:
    """002-128: a node of ours meets one of zhe's of any length, over its wrap-around, and all others of ours meanwhile."""
    with Sim(1, log_bytes=8 << 20) as sim:
        a, b = sim.node("a", seq_bits=own), sim.node("b", seq_bits=own)
        zhe = sim.node("zhe", seq_bits=bits, features=set())
        pub, back = a.publisher("x", way="multicast"), zhe.publisher("y", way="multicast")
        subs = [b.subscriber("x", depth=4096), zhe.subscriber("x", depth=4096)]
        replies = a.subscriber("y", depth=4096)
        sim.run_until_quiet()
        sim.link(loss=0.01)
        for i in range(300):
            pub.put(b"%d" % i)
            back.put(b"%d" % i)
            sim.run(0.0005)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        for sub in (*subs, replies):
            assert [bytes(sample.data) for sample in sub] == [b"%d" % i for i in range(300)]
        for packet in sim.packets():
            numbers = [m for m in packet.messages if isinstance(m, (wire.SData, wire.Synch))]
            assert all(m.sn < 2**bits for m in numbers if packet.to.multicast)


def test_packets_for_zhe() -> None:
    """A packet or sample larger than zhe takes would go to a group that it hears, and end its session; the loss would be unlisted."""
    with Sim(1) as sim:
        a, b = sim.node("a", packet_max=9000), sim.node("b", packet_max=9000)
        zhe = sim.node("zhe", features=set())
        pub = a.publisher("x", way="multicast")
        subs = [b.subscriber("x", depth=4096), zhe.subscriber("x", depth=4096)]
        sim.run_until_quiet()
        sim.link(loss=0.05)
        small = [b"%060d" % i for i in range(300)]
        for i in range(0, 300, 100):
            for sample in small[i : i + 100]:
                pub.put(sample)
            sim.run_until_quiet()
        pub.put(b"x" * 2000)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert [bytes(sample.data) for sample in subs[0]] == [*small, b"x" * 2000]
        assert [bytes(sample.data) for sample in subs[1]] == small
        assert max(len(p.data) for p in sim.packets() if p.target == "zhe") <= 1472
        assert [(d.place, d.reason, d.count) for d in a.drops() if d.place == "put"] == [
            ("put", "size", 1)
        ]
        assert not [event for event in zhe.events() if event.kind == "disconnected"]


@pytest.mark.parametrize("bits", [14, 28])
def test_one_length_for_a_group(bits: int) -> None:
    """002-128: a second node of zhe's that hears the same group, of another length, is refused as long as the first stays."""
    with Sim(1) as sim:
        a = sim.node("a", scout=1.0)
        first = sim.node("first", seq_bits=7, features=set(), scout=1.0)
        sim.run(2.0)
        second = sim.node("second", seq_bits=bits, features=set(), scout=1.0)
        sim.run(4.0)
        assert [peer.name for peer in a.peers() if peer.state == "established"] == ["first"]
        assert [e.reason for e in a.events() if e.kind == "refused"][:1] == ["length"]
        first.close()
        sim.run(20.0)
        assert [peer.name for peer in a.peers() if peer.state == "established"] == ["second"]
        assert [peer.name for peer in second.peers() if peer.state == "established"] == ["a"]


@pytest.mark.parametrize("bits", [7, 14, 28, 56])
def test_number_too_large(bits: int) -> None:
    """002-128: a number that does not fit the length ends the session, and no sample comes of it."""
    sim, node, stranger = met(bits=bits)
    sub = node.subscriber(5)
    stranger.begin()
    stranger.say(wire.SData(0, 5, b"good", reliable=True))
    stranger.say(wire.SData(2**bits, 5, b"bad", reliable=True))
    assert datas(sub) == [b"good"]
    sim.run(0.1)
    assert stranger.state == "unknown"
    assert [e.reason for e in node.events() if e.kind == "disconnected"] == ["bytes"]


def test_silent_length() -> None:
    """002-128: an OPEN that says nothing of its length means 14 bits, or nothing; a node of 14 takes it."""
    sim = Sim(1)
    node = sim.node("a", seq_bits=14)
    stranger = Stranger(sim, node)
    stranger.meet(properties=[AUTHENTICATION])
