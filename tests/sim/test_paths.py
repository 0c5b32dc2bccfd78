"""Packets as large as a path carries: pieces of large samples travel together, and a path that swallows them costs no sample."""

from __future__ import annotations

import random

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Sim

USUAL = 1472
ROOM = 1 << 18


def large(sim: Sim, since: float = 0.0) -> list[int]:
    """The sizes of packets that are larger than usual, sent since then."""
    return [len(p.data) for p in sim.packets() if len(p.data) > USUAL and p.sent_ns >= since * 1e9]


def two(sim: Sim, *, features: set[str] | None = None, assembly_max: int = 64) -> tuple[Node, Node]:
    """Two nodes with room for some large samples; what the second one can."""
    a = sim.node("a", unicast_bytes=ROOM, unicast_samples=1024)
    if features is None:
        return a, sim.node("b", order_max=1024, assembly_max=assembly_max)
    return a, sim.node("b", order_max=1024, assembly_max=assembly_max, features=features)


@pytest.mark.parametrize(("known", "fewest"), [(65507, 64000), (8972, 8700), (4000, 2900)])
def test_as_large_as_the_path(known: int, fewest: int) -> None:
    """A path that carries more would get packets of 1,472 bytes all the same: UDP would be as slow as everybody's."""
    payloads = [random.Random(i).randbytes(70_000 - i) for i in range(20)]
    with Sim(1, mtu_known=known, mtu=known) as sim:
        a, b = two(sim)
        pub, sub = a.publisher("x", way="each"), b.subscriber("x", depth=64)
        sim.run_until_quiet()
        for payload in payloads:
            pub.put(payload)
        sim.run_until_quiet()
        assert [bytes(sample.data) for sample in sub] == payloads
        sizes = large(sim)
        assert fewest <= max(sizes) <= known
        assert sum(sizes) > 0.9 * sum(map(len, payloads))
        assert a.stats().resent == 0
        for packet in sim.packets():
            pieces = [m for m in packet.messages if isinstance(m, wire.SData)]
            assert all(len(m.payload) < USUAL for m in pieces), "each passes anywhere, alone"


def test_small_samples_stay_small() -> None:
    """A small sample is read where it lies: in a large packet it would keep all of that for as long as its reader likes."""
    with Sim(1, mtu_known=65507) as sim:
        a, b = two(sim)
        pub, sub = a.publisher("x", way="each"), b.subscriber("x", depth=4096)
        sim.run_until_quiet()
        samples = [b"%060d" % i if i % 7 else b"y" * 5000 for i in range(1000)]
        got = []
        for sample in samples:
            pub.put(sample)
            got += [bytes(one.data) for one in sub]
        sim.run_until_quiet()
        assert got + [bytes(one.data) for one in sub] == samples
        for packet in sim.packets():
            if len(packet.data) > USUAL:
                kinds = [type(m) for m in packet.messages if not isinstance(m, wire.Pong)]
                assert set(kinds[::3]) == {wire.Conduit}, "each a piece, behind its two markers"
                assert set(kinds[1::3]) == {wire.Frag}
                assert set(kinds[2::3]) == {wire.SData}


@pytest.mark.parametrize("features", [set(), {"batch", "fragment", "wide"}], ids=["zhe", "before"])
def test_who_cannot_gets_none(features: set[str]) -> None:
    """A peer of before, or zhe, drops a packet that is larger than it reads; a reliable sample would be sent for ever."""
    with Sim(1, mtu_known=65507) as sim:
        a, b = two(sim, features=features)
        pub, sub = a.publisher("x", way="each"), b.subscriber("x", depth=64)
        sim.run_until_quiet()
        pub.put(b"z" * 50_000)
        pub.put(b"small")
        sim.run_until_quiet()
        got = [bytes(sample.data) for sample in sub]
        assert got == ([b"z" * 50_000, b"small"] if features else [b"small"])
        assert large(sim) == []


def test_a_large_packet_of_a_stranger() -> None:
    """Who has no session could have everything read and answered that fits 65,507 bytes."""
    with Sim(1) as sim:
        _, b = two(sim)
        sim.run_until_quiet()
        sim.inject(b, bytes(USUAL + 1))
        assert [(d.place, d.reason, d.count) for d in b.drops()] == [("input", "size", 1)]


def test_groups_get_none() -> None:
    """The way to each member of a group is another: the least of them would have to be known."""
    with Sim(1, mtu_known=65507) as sim:
        a, b = two(sim)
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x")
        sim.run_until_quiet()
        pub.put(b"z" * 50_000)
        assert sub.recv().data == b"z" * 50_000
        assert large(sim) == []


def stream(sim: Sim, a: Node, seconds: float) -> list[bytes]:
    """Put a sample of 20,000 bytes every 20 ms; what was put."""
    name = f"x/{round(sim.now * 1e9)}"
    pub, sub = a.publisher(name, way="each"), sim.nodes[1].subscriber(name, depth=64)
    pub.wait_matched()
    got: list[bytes] = []
    put: list[bytes] = []
    until = sim.now + seconds
    while sim.now < until:
        put.append(random.Random(len(put)).randbytes(20_000))
        pub.put(put[-1])
        sim.run(0.02)
        got += [bytes(sample.data) for sample in sub]
    sim.run_until_quiet()
    got += [bytes(sample.data) for sample in sub]
    assert got == put
    return put


def test_a_path_that_swallows_them() -> None:
    """A switch that carries less than the interface would be a black hole: nothing large would ever arrive there."""
    with Sim(1, mtu_known=8972, mtu=USUAL) as sim:
        a, _ = two(sim)
        sim.run_until_quiet()
        stream(sim, a, 4.0)
        lost = large(sim)
        assert 1 <= len(lost) <= 12, "after three rounds no more are sent"
        assert a.stats().resent < 150
        stream(sim, a, 4.0)  # once more, after a pause, in case the path has grown
        again = len(large(sim)) - len(lost)
        assert 1 <= again <= 6
        stream(sim, a, 5.0)
        assert len(large(sim)) == len(lost) + again, "and the pause doubles"


def test_a_path_that_shrinks_and_grows() -> None:
    """What shrinks while a stream runs must not stop it; and what grows again is used again."""
    with Sim(1, mtu_known=65507) as sim:
        a, _ = two(sim)
        sim.run_until_quiet()
        stream(sim, a, 0.5)
        before = len(large(sim))
        assert before >= 25
        assert a.stats().resent == 0
        sim.link(mtu=USUAL)
        stream(sim, a, 3.0)
        lost = len(large(sim)) - before
        assert 1 <= lost <= 12
        sim.link(mtu=0)
        stream(sim, a, 5.0)
        now = sim.now
        resent = a.stats().resent
        stream(sim, a, 0.5)
        assert len(large(sim, now)) >= 25
        assert a.stats().resent == resent


def test_pieces_that_must_wait() -> None:
    """What a slow reader leaves no room for is kept as small pieces are; else each large packet would be sent again and again."""
    with Sim(1, mtu_known=65507) as sim:
        a, b = two(sim, assembly_max=4)
        pub, sub = a.publisher("x", way="each"), b.subscriber("x", depth=2, on_full="wait")
        sim.run_until_quiet()
        put = [random.Random(i).randbytes(9000) for i in range(60)]
        got: list[bytes] = []
        for payload in put:
            while not pub.put(payload, wait=False):
                got.append(bytes(sub.recv().data))
        while len(got) < len(put):
            got.append(bytes(sub.recv().data))
        assert got == put
        assert a.stats().resent <= 7 * 7, "those of one window, at most"


def test_losses_are_repaired_by_the_piece() -> None:
    """A large packet that is lost by chance comes again, and large ones go on."""
    with Sim(3, mtu_known=65507, loss=0.0) as sim:
        a, _ = two(sim)
        sim.run_until_quiet()
        sim.link(loss=0.1)
        stream(sim, a, 4.0)
        assert len(large(sim)) > 120
        sim.link(loss=0.0)
        now = sim.now
        stream(sim, a, 0.5)
        assert len(large(sim, now)) >= 25, "losses by chance are no black hole"
