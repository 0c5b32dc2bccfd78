"""
How things are written: properties, numbers, flags, and packets in a stream. What a node sends is held to the strictest
reading, and what it takes may be as loose as the protocol allows.
"""

from __future__ import annotations

import random

import pytest

from pyddsi import wire
from pyddsi.errors import WireError
from pyddsi.testing import Sim
from tests.py.worlds import datas
from tests.sim.stranger import AUTHENTICATION, Stranger, alone, number

# ---- properties -----------------------------------------------------------------------------------------------


def unknown(rand: random.Random) -> wire.Property:
    """A property with an id that nobody has given a meaning."""
    taken = set(wire.PropertyId) | {5, 7, 9}
    while True:
        new = rand.randrange(2 ** rand.choice([5, 8, 14, 40, 63]))
        if new not in taken:
            return wire.Property(new, rand.randbytes(rand.choice([0, 1, 2, 30, 200])))


@pytest.mark.parametrize("seed", range(20))
def test_properties_of_a_session(seed: int) -> None:
    """002-114: known properties of an OPEN or ACCEPT apply among any number of unknown ones, even and odd."""
    rand = random.Random(seed)
    _sim, node, stranger = alone(seq_bits=28)
    known = [
        wire.Property(1, number(1) + number(1 + 4 + 64)),
        wire.Property(3, number(77)),
        wire.Property(5, number(9)),
        wire.Property(4, number(28)),
        wire.Property(10, number(2)),
        AUTHENTICATION,
    ]
    properties = known + [unknown(rand) for _ in range(rand.randrange(1, 12))]
    rand.shuffle(properties)
    if seed % 2:
        stranger.meet(properties=properties)
    else:
        stranger.say(wire.Hello(4, []))
        stranger.say(wire.Accept(node.id, stranger.id, 0, properties=properties))
    peer = stranger.peer
    assert peer is not None
    assert peer.state == "established"
    assert peer.features == {"batch", "pull", "incarnation"}
    assert peer.incarnation == 77
    stranger.begin()
    for i in range(4):
        node.subscriber(20 + i)
        node.flush()
    heard = [one for m in stranger.heard_of(wire.Declare) for one in m.declarations]
    assert sum(isinstance(one, wire.Commit) for one in heard) <= 2


@pytest.mark.parametrize("kind", ["resource", "publication", "subscription", "selection"])
@pytest.mark.parametrize("seed", range(3))
def test_properties_of_declarations(kind: str, seed: int) -> None:
    """002-114: the properties of a declaration apply among unknown ones, which leave it as it is."""
    rand = random.Random(seed)
    _sim, node, stranger = alone()
    stranger.meet()
    pub = node.publisher(5)
    stranger.begin()
    best = wire.Property(wire.PropertyId.RELIABILITY, b"\x00")
    properties = [unknown(rand), best, unknown(rand), unknown(rand)]
    rand.shuffle(properties)
    one: wire.Declaration = {
        "resource": wire.Resource(7, "/x", properties=properties),
        "publication": wire.Publication(7, properties=properties),
        "subscription": wire.Subscription(7, wire.Mode.PUSH, properties=properties),
        "selection": wire.Selection(wire.SelectionId(7), "/x?{$size > 1}", properties=properties),
    }[kind]
    wanted = wire.Subscription(5, wire.Mode.PUSH)
    stranger.say(wire.Declare(0, [one, wanted], committed=True, sync=True))
    assert stranger.state == "established"
    assert pub.matched, "what comes behind it is read as well"


def test_properties_that_are_sent() -> None:
    """002-114: what a node tells of itself stands in the properties with these meanings."""
    _sim, node, stranger = alone(
        seq_bits=28, commit_mode=3, incarnation=5, features={"batch", "space"}
    )
    stranger.say(wire.Hello(4, []))
    (opened,) = stranger.heard_of(wire.Open)
    told = {p.id: bytes(p.value) for p in opened.properties or ()}
    session = told.pop(5)
    assert session
    assert told == {4: b"\x1c", 10: b"\x03", 12: b"\x02\x03", 1: b"\x01\x11", 3: b"\x05"}
    assert [p.id for p in opened.properties or ()][:3] == [4, 10, 12], "as zhe has them"
    assert node.peers() is not None


@pytest.mark.parametrize(
    "broken", [b"\x80", b"", b"\xff" * 11, b"\x01", b"\x02\x7f", b"\x01" + b"\xff" * 10]
)
@pytest.mark.parametrize("which", [1, 3, 5, 10])
def test_broken_values(which: int, broken: bytes) -> None:
    """002-114: a known property with a value that makes no sense harms nobody."""
    sim, node, stranger = alone()
    stranger.open(properties=[AUTHENTICATION, wire.Property(which, broken)])
    assert stranger.state in {"established", "unknown"}
    other = Stranger(sim, node, b"\xdd", host="10.9.9.10")
    other.meet()


# ---- numbers and flags ----------------------------------------------------------------------------------------


def busy_world(seed: int) -> Sim:
    """A world in which all there is has been said."""
    sim = Sim(seed, loss=0.05, reorder=0.05)
    a = sim.node("a", multicasts=2, multicast_to=[("239.255.0.2", 7447), ("239.255.0.3", 7447)])
    b = sim.node("b", multicasts=2, multicast_to=[("239.255.0.2", 7447), ("239.255.0.3", 7447)])
    pubs = [
        a.publisher("p/one"),
        a.publisher("p/two", conduit=1),
        a.publisher("p/three", reliable=False),
        a.publisher("p/four", way="auto", keep=8),
        b.publisher("p/five", space=9),
    ]
    subs = [
        b.subscriber("p/*", depth=512),
        b.subscriber("p/four", mode="pull"),
        b.subscriber("p/one", where="$size > 10"),
        a.subscriber("p/five", space=9),
        b.subscriber("p/one", mode="periodic_push", period=0.05, duration=0.01),
    ]
    sim.run(1.0)
    rand = random.Random(seed)
    for _ in range(60):
        pub = rand.choice(pubs)
        if rand.random() < 0.3:
            pub.put_many([rand.randbytes(rand.randrange(40)) for _ in range(5)])
        else:
            pub.put(rand.randbytes(rand.choice([0, 1, 127, 128, 300, 3000])))
        a.put("p/name", b"by name", reliable=rand.random() < 0.5)
        sim.run(0.003)
        for sub in subs:
            list(sub)
    subs[1].pull(3)
    sim.run(0.5)
    subs[0].close()
    b.close()
    sim.run(0.5)
    return sim


@pytest.mark.parametrize("seed", range(2))
def test_own_packets_are_strict(seed: int) -> None:
    """002-115: what nodes send has each number in its shortest form and no undefined flag, byte for byte."""
    packets = busy_world(seed).packets()
    kinds = set()
    for packet in packets:
        messages = wire.decode(packet.data, wire.STRICT)
        kinds |= {type(message) for message in messages}
        assert all(message.undefined == 0 for message in messages)
        assert wire.encode(messages) == packet.data
    assert len(packets) > 200
    data = {wire.SData, wire.BData, wire.WData, wire.Frag, wire.Conduit, wire.RSpace}
    session = {wire.Scout, wire.Hello, wire.Open, wire.Accept, wire.Close, wire.Ping, wire.Pong}
    assert kinds >= data | session | {wire.Declare, wire.Synch, wire.AckNack, wire.Pull}


NUMBERS = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**21, 2**28, 2**32, 2**55 - 1]


@pytest.mark.parametrize("value", [n for n in NUMBERS if n])
def test_ids_end_to_end(value: int) -> None:
    """002-115: ids of every length mean the same at the other end."""
    with Sim(1) as sim:
        a, b = sim.node("a", rid_bits=64), sim.node("b", rid_bits=64)
        pub, sub = a.publisher(value), b.subscriber(value)
        other = b.subscriber(value ^ 1 or 2)
        sim.run_until_quiet()
        pub.put(b"x")
        sample = sub.recv()
        assert (bytes(sample.data), sample.resource) == (b"x", value)
        assert other.poll() is None


@pytest.mark.parametrize("value", [*NUMBERS, 2**63 - 1])
def test_numbers_round_trip(value: int) -> None:
    """002-115: numbers from 0 to 2^63 - 1 are written in as few bytes as they need, and read as they were."""
    message = wire.Declare(0, [wire.Subscription(5, 3, origin=value, period=9, duration=1)])
    data = wire.encode([message])
    assert wire.decode(data, wire.STRICT) == [message]
    assert number(value) in data
    assert len(number(value)) == max(1, -(-value.bit_length() // 7))


def test_long_forms_are_taken() -> None:
    """002-115: a number in a longer form than it needs is understood by a node, as long as it fits the field."""
    _sim, node, stranger = alone()
    stranger.meet()
    sub = node.subscriber(5)
    stranger.begin()
    stranger.say(b"\x47\x80\x80\x00\x8a\x80\x00\x82\x00hi")  # sn 0, rid 5, two bytes
    stranger.say(b"\x13\x80\x00\x47\x81\x00\x0a\x02ho")  # conduit 0 in the long form
    assert datas(sub) == [b"hi", b"ho"]
    assert stranger.state == "established"


def test_undefined_flags_are_ignored() -> None:
    """002-115: a message with flags that nobody has given a meaning is the same message."""
    _sim, node, stranger = alone()
    stranger.packets()
    stranger.say(bytes([0x01 | 0xC0, 0x04]))  # SCOUT
    assert stranger.heard_of(wire.Hello)
    opened = bytearray(wire.encode([wire.Open(1, stranger.id, 0, [], properties=[AUTHENTICATION])]))
    opened[0] |= 0xC0
    stranger.say(bytes(opened))
    assert stranger.state == "established"
    sub = node.subscriber(5)
    stranger.say(bytes([0x10 | 0xE0, 2]) + stranger.id, b"\x0e\x00")
    stranger.say(bytes([0x0C | 0xE0, 9]))  # PING
    assert [m.hash for m in stranger.heard_of(wire.Pong)] == [9]
    declare = bytearray(wire.encode([wire.Declare(0, [wire.Publication(6)], committed=True)]))
    declare[0] |= 0x80
    stranger.say(bytes(declare))
    stranger.say(bytes([0x09 | 0x40 | 0x80, 1, 3]) + b"/zz" + b"\x01x")  # WDATA
    stranger.say(b"\x47\x02\x0a\x02ok")
    assert datas(sub) == [b"ok"]
    stranger.say(bytes([0x05 | 0xE0, 1, 1, 0]))  # CLOSE
    assert stranger.state == "unknown"


# ---- streams --------------------------------------------------------------------------------------------------


def conversation() -> list[bytes]:
    """What one node said to the other in a short session."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x"), b.subscriber("x")
        sim.run_until_quiet()
        for size in (0, 1, 40, 126, 127, 128, 129, 1000):
            pub.put(bytes(size))
            sim.run(0.01)
        assert len(datas(sub)) == 8
        return [packet.data for packet in sim.packets() if packet.source == "a"]


def test_stream_cut_anywhere() -> None:
    """002-116: a session's packets come out of a stream whole and in order, wherever it is cut, also at each byte."""
    packets = conversation()
    stream = b"".join(wire.frame(packet) for packet in packets)
    assert len(packets) > 10
    for cut in range(len(stream) + 1):
        reader = wire.Stream()
        got = reader.feed(stream[:cut]) + reader.feed(stream[cut:])
        assert got == packets
        assert reader.pending == 0
    reader = wire.Stream()
    got = [packet for i in range(len(stream)) for packet in reader.feed(stream[i : i + 1])]
    assert got == packets


def test_stream_without_frames() -> None:
    """002-116: from a length of 0 on the stream is messages without lengths; cut at each byte they are the same ones."""
    packets = conversation()
    framed = b"".join(wire.frame(packet) for packet in packets[:5])
    bare = b"".join(packets[5:])
    wanted = [m for packet in packets for m in wire.decode(packet)]
    stream = framed + b"\x00" + bare
    got: list[memoryview] = []
    for cut in range(len(stream) + 1):
        reader = wire.Stream()
        got = reader.feed(stream[:cut]) + reader.feed(stream[cut:])
        assert reader.unframed
        assert b"".join(got) == b"".join(packets)
    assert [m for packet in got for m in wire.decode(packet)] == wanted


def test_stream_that_ends_in_a_frame() -> None:
    """
    002-116: a stream that ends inside a frame gives nothing of that frame, says how much is left over, and another stream
    begins clean.
    """
    packets = conversation()
    whole, last = packets[:-1], wire.frame(packets[-1])
    for cut in range(1, len(last)):
        reader = wire.Stream()
        stream = b"".join(map(wire.frame, whole)) + last[:cut]
        assert reader.feed(stream) == whole
        assert reader.pending == cut
        again = wire.Stream()
        assert again.feed(last) == [packets[-1]]


def test_frame_too_long() -> None:
    """002-116: a length of three bytes ends the stream with an error, and what came before it is there."""
    packets = conversation()
    reader = wire.Stream()
    with pytest.raises(WireError) as raised:
        reader.feed(wire.frame(packets[0]) + b"\x80\x80\x01" + packets[1])
    assert raised.value.messages == [packets[0]]
    with pytest.raises(WireError):
        reader.feed(wire.frame(packets[2]))
