"""
Samples on the wire: each kind of message, fragments, pulls, resource spaces, numbers that wrap around, and what it all costs.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import TypeVar, Unpack

import pytest

from pyddsi import wire
from pyddsi.testing import Node, NodeOptions, Sim
from tests.py.worlds import datas
from tests.sim.stranger import AUTHENTICATION, Stranger, alone, features

ALL = 127

Kind = TypeVar("Kind", bound=wire.Message)


def met(bits: int = 14, **options: Unpack[NodeOptions]) -> tuple[Sim, Node, Stranger]:
    """A node, and a stranger that it has a session with, who can all that there is."""
    options["seq_bits"] = bits
    sim, node, stranger = alone(**options)
    stranger.meet(properties=[*features(ALL), wire.Property(4, bytes([bits]))])
    return sim, node, stranger


def data_messages(sim: Sim, source: str, kind: type[Kind]) -> list[Kind]:
    """All messages of a kind that a node has sent, each packet once."""
    once = {p.number: p for p in sim.packets() if p.source == source}
    return [m for p in once.values() for m in p.messages if isinstance(m, kind)]


# ---- one process, several readers -------------------------------------------------------------------------------


def test_each_subscriber_is_called() -> None:
    """002-106: of n subscribers to one resource in one node each gets every sample, once, at its own pace."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x")
        subs = [b.subscriber("x") for _ in range(5)] + [b.subscriber("*"), a.subscriber("x")]
        pub.wait_matched()
        sim.run_until_quiet()
        wanted = [b"%d" % i for i in range(20)]
        for data in wanted:
            pub.put(data)
        sim.run(0.1)
        for sub in subs[:-1]:
            assert datas(sub) == wanted
        subs[2].close()
        pub.put(b"more")
        sim.run(0.1)
        left = [sub for sub in subs[:-1] if sub is not subs[2]]
        assert [datas(sub) for sub in left] == [[b"more"]] * 5
        on_wire = data_messages(sim, "a", wire.SData)
        assert len({message.sn for message in on_wire}) == 21, "one copy for all of them"


# ---- kinds ----------------------------------------------------------------------------------------------------

SEVERAL = [b"", b"one", bytes(300)]


def message_of(kind: str, *, reliable: bool, actual: bool, sn: int) -> wire.Message:
    """The data message of a kind for resource 5; with an actual id the data belongs to 5 and was asked for as 6."""
    if kind == "single":
        return wire.SData(
            sn, 6 if actual else 5, b"single", data_rid=5 if actual else None, reliable=reliable
        )
    if kind == "batch":
        samples = [wire.Sample(data, rid=5 if actual else None) for data in SEVERAL]
        return wire.BData(sn, 6 if actual else 5, samples, reliable=reliable, actual=actual)
    return wire.WData(sn, "/x", b"named", reliable=reliable)


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize(
    ("kind", "actual"),
    [("single", False), ("single", True), ("batch", False), ("batch", True), ("named", False)],
)
def test_kinds_received(kind: str, actual: bool, reliable: bool) -> None:  # noqa: FBT001
    """002-120: each kind of data comes to its subscriber, equal, reliably or not, with or without the id of the data."""
    _sim, node, stranger = met()
    node.resource("x", number=5)
    sub = node.subscriber("x")
    stranger.begin()
    for sn in (0, 1):
        stranger.say(message_of(kind, reliable=reliable, actual=actual, sn=sn))
    wanted = {"single": [b"single"], "batch": SEVERAL, "named": [b"named"]}[kind] * 2
    got = list(sub)
    assert [bytes(sample.data) for sample in got] == wanted
    assert {sample.reliable for sample in got} == {reliable}
    assert {sample.resource for sample in got} == ({None} if kind == "named" else {"x"})
    if actual:
        asker = node.subscriber(6)
        stranger.say(message_of(kind, reliable=reliable, actual=True, sn=2))
        assert [bytes(sample.data) for sample in asker] == wanted[: len(wanted) // 2]
        assert sub.poll() is None, "it was sent for the other one"


@pytest.mark.parametrize("reliable", [True, False])
def test_kinds_sent(reliable: bool) -> None:  # noqa: FBT001
    """002-120: each kind of data goes out as its message, and what went out comes in equal at the other end."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", reliable=reliable)
        sub = b.subscriber("x")
        sim.run_until_quiet()
        pub.put(b"single")
        pub.put_many(SEVERAL)
        a.put("x", b"named", reliable=reliable)
        sim.run(0.1)
        assert datas(sub) == [b"single", *SEVERAL, b"named"]
        singles = data_messages(sim, "a", wire.SData)
        batches = data_messages(sim, "a", wire.BData)
        named = data_messages(sim, "a", wire.WData)
        assert [message.reliable for message in singles] == [reliable]
        assert [message.reliable for message in batches] == [reliable]
        assert [message.reliable for message in named] == [reliable]


def test_kinds_by_selection() -> None:
    """002-120: a sample that is sent for a selection alone names the resource that it belongs to beside it."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x")
        sub = b.subscriber("x", where="$size > 3")
        sim.run_until_quiet()
        pub.put(b"no")
        pub.put(b"large")
        sim.run(0.1)
        (sample,) = list(sub)
        assert (bytes(sample.data), sample.resource) == (b"large", "x")
        (message,) = data_messages(sim, "a", wire.SData)
        assert isinstance(message, wire.SData)
        ids = {message.rid, message.data_rid}
        assert pub.number in ids
        assert message.data_rid in {None, pub.number}


# ---- pull -----------------------------------------------------------------------------------------------------


def test_pull_answers() -> None:
    """002-122: of ten samples kept, pulls of four bring 4, 4 and 2, each answer ended by its mark."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=32)
        sub = b.subscriber("x", mode="pull")
        pub.wait_matched()
        sim.run_until_quiet()
        for i in range(10):
            pub.put(b"%d" % i)
        sim.run(0.1)
        assert sub.poll() is None, "it has not asked yet"
        seen = len(sim.packets())
        answers = []
        for _ in range(4):
            sub.pull(4)
            sim.run(0.1)
            answers.append(datas(sub))
        assert answers == [
            [b"0", b"1", b"2", b"3"],
            [b"4", b"5", b"6", b"7"],
            [b"8", b"9"],
            [],
        ]
        assert sub.answers == 4
        messages = [m for p in sim.packets()[seen:] if p.source == "a" for m in p.messages]
        data = [m for m in messages if isinstance(m, wire.SData)]
        marks = [i for i, m in enumerate(data) if m.data_rid == 0]
        assert marks == [4, 9, 12, 13]
        assert all(not bytes(data[i].payload) for i in marks)
        pulls = data_messages(sim, "b", wire.Pull)
        assert [pull.limit for pull in pulls] == [4] * 4


@pytest.mark.parametrize("seed", range(3))
def test_pull_with_loss(seed: int) -> None:
    """002-122: on bad links no answer to a pull is too long, and each ends once."""
    with Sim(seed, loss=0.2) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=64)
        sub = b.subscriber("x", mode="pull")
        pub.wait_matched()
        for i in range(50):
            pub.put(b"%d" % i)
        got = []
        for asked in range(1, 14):
            sub.pull(4)
            before = sub.answers
            answer = []
            while sub.answers == before:
                sim.run(0.001)
                answer += datas(sub)
                assert sim.now < 60
            assert len(answer) <= 4
            got += answer
            assert sub.answers == asked
        assert got == [b"%d" % i for i in range(50)]


def test_pull_from_a_stranger() -> None:
    """002-122: a PULL with a limit, with none, and with F alone, as the wire has them."""
    _sim, node, stranger = met()
    pub = node.publisher(5, keep=16)
    stranger.begin()
    stranger.say(wire.Declare(0, [wire.Subscription(5, wire.Mode.PULL)], committed=True))
    for i in range(6):
        pub.put(bytes([i]))
    stranger.packets()

    def ask(sn: int, **how: object) -> list[int | None]:
        stranger.say(wire.Pull(sn, 5, **how))  # type: ignore[arg-type]
        answer = stranger.heard_of(wire.SData)
        return [None if m.data_rid == 0 else bytes(m.payload)[0] for m in answer]

    assert ask(1, limit=2) == [0, 1, None]
    assert ask(2) == [2, 3, 4, 5, None]
    assert ask(3, limit=65535) == [None]
    assert ask(4, final=True) in ([], [None]), "it closes, and asks for nothing"


@pytest.mark.parametrize("together", [False, True])
def test_pulls_in_a_row(together: bool) -> None:  # noqa: FBT001
    """002-122: of two pulls that come one right after the other each is answered, with its samples and its mark."""
    _sim, node, stranger = met()
    pub = node.publisher(5, keep=16)
    stranger.begin()
    stranger.say(wire.Declare(0, [wire.Subscription(5, wire.Mode.PULL)], committed=True))
    for i in range(6):
        pub.put(bytes([i]))
    stranger.packets()
    pulls = [wire.Pull(1, 5, limit=2), wire.Pull(2, 5, limit=2)]
    if together:
        stranger.say(*pulls)
    else:
        stranger.say(pulls[0])
        stranger.say(pulls[1])
    answer = stranger.heard_of(wire.SData)
    heard = [None if m.data_rid == 0 else bytes(m.payload)[0] for m in answer]
    assert heard == [0, 1, None, 2, 3, None]


# ---- size -----------------------------------------------------------------------------------------------------


def test_ten_megabytes() -> None:
    """002-124: ten megabytes in packets of 1472 bytes arrive whole on a link that loses a tenth; fragments are equal."""
    size = 10_000_000
    payload = random.Random(1).randbytes(size)
    with Sim(1, delay=0.0002, log_bytes=4 << 20) as sim:
        a = sim.node("a", multicast_bytes=1 << 20)
        b = sim.node("b", assembly_bytes=size + (1 << 20), sample_max=size, order_max=1024)
        pub, sub = a.publisher("x"), b.subscriber("x")
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
            if packet.source == "a" and packet.data[0] & 31 == wire.Frag.KIND:
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
        pub, sub = a.publisher("x"), b.subscriber("x")
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
    """002-128: nodes with numbers of different lengths refuse each other, with that reason, and have no session."""
    with Sim(1) as sim:
        nodes = [sim.node(f"n{bits}", seq_bits=bits, scout=1.0) for bits in (7, 14, 28, 56)]
        twin = sim.node("twin", seq_bits=28, scout=1.0)
        sim.run(5.0)
        for node in [*nodes, twin]:
            there = [peer.name for peer in node.peers() if peer.state == "established"]
            assert there == {"n28": ["twin"], "twin": ["n28"]}.get(node.name, [])
        closes = [m for p in sim.packets() for m in p.messages if isinstance(m, wire.Close)]
        reasons = Counter(close.reason for close in closes)
        assert reasons[wire.Reason.SEQUENCE_LENGTH] > 10
        # besides: a KEEPALIVE that the two send to all is answered by those who have no session with them
        assert set(reasons) <= {wire.Reason.SEQUENCE_LENGTH, wire.Reason.ORDINARY}


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


# ---- cost -----------------------------------------------------------------------------------------------------


def cost(sim: Sim, kind: type[wire.Message]) -> int:
    """The bytes of the one message of this kind that node a has sent, as it was encoded."""
    (message,) = data_messages(sim, "a", kind)
    return len(wire.encode([message]))


@pytest.mark.parametrize("batch", [1, 2, 10, 100])
def test_overhead(batch: int) -> None:
    """002-129: a sample costs four bytes more than itself, and n of a batch three, their count, and one for each."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher(5), b.subscriber(5, depth=128)
        sim.run_until_quiet()
        if batch == 1:
            pub.put(b"x")
        else:
            pub.put_many([b"x"] * batch)
        sim.run(0.1)
        assert datas(sub) == [b"x"] * batch
        if batch == 1:
            assert cost(sim, wire.SData) == 4 + 1
        else:
            assert cost(sim, wire.BData) == 3 + 1 + batch + batch
