"""
Samples and messages that are too much for a zhe, in the simulator: what it goes without is said with its size and the peer's name,
the others get all of it in order, and nothing of it ends the session of a zhe.
"""

from __future__ import annotations

import pytest

from pyddsi.testing import Sim
from tests.real.world import World
from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS
from tests.real.zhe_net import Net

P2P = CONFIGS["p2p"]
ROOM = 1455  # what we send to a zhe at most


@pytest.mark.parametrize("packet_max", [1472, 9000])
def test_too_large_is_said(packet_max: int) -> None:
    """
    put, put_many or loan takes a sample that a zhe cannot be sent, without a word of whom, of which size; or it is lost for the others,
    overtakes what they get by the group, or reaches the zhe and ends its session.
    """
    world = World(names=False, packet_max=packet_max)
    world.zhe.subscribe(6)
    sub = world.sim.node("b", packet_max=packet_max).subscriber(6, depth=100)
    pub = world.node.publisher(6)
    world.net.run_until(lambda: len(pub.matched) == 2, 30.0)
    world.net.run(0.1)
    sizes = [10, ROOM + 1, ROOM, 2000, 1, 5000, 2, 3000, 3]
    assert pub.put(bytes(sizes[0]))
    while not pub.put_many([bytes(size) for size in sizes[1:5]], wait=False):
        world.net.run(0.001)
    world.net.run(0.01)
    for size in sizes[5:8]:
        with pub.loan(size) as memory:
            memory[:] = bytes(size)
        world.net.run(0.01)
    assert pub.put(bytes(sizes[8]))
    world.net.run(1.0)
    small = [size for size in sizes if size <= ROOM]
    assert [len(one.data) for one in sub] == sizes
    assert [len(one.payload) for one in world.zhe.received] == small
    said = [one for one in world.node.events() if one.kind == "too_large"]
    zhe = world.zhe.id.hex()
    assert [(one.of, one.peer, one.size, one.size_max) for one in said] == [
        (pub, zhe, ROOM + 1, ROOM)
    ]
    (line,) = (one for one in world.node.drops() if one.place == "put")
    assert (line.reason, line.resource, line.count) == ("size", 6, len(sizes) - len(small))
    assert (line.peer, line.size, line.size_max) == (zhe, 3000, ROOM)
    assert str(line).endswith(f"(the last: 3000 bytes for {zhe}, which takes {ROOM})")
    assert world.complaints == []


def test_too_large_by_name() -> None:
    """What is put by a name alone, and is too large for a zhe that subscribes to it, is not listed; or it is for one that does not."""
    world = World(packet_max=9000)
    world.zhe.resource(300, "/wanted/*")
    world.zhe.subscribe(300)
    late = world.node.publisher("/wanted/a")
    world.net.run_until(lambda: world.pub.matched and late.matched, 30.0)
    assert world.node.put("/wanted/a", bytes(3000))
    assert world.node.put("/unwanted/a", bytes(4000))
    world.net.run(1.0)
    (line,) = (one for one in world.node.drops() if one.place == "put")
    assert (line.count, line.peer, line.size) == (1, world.zhe.id.hex(), 3000)
    assert world.complaints == []


def test_too_large_when_kept() -> None:
    """A kept sample that is too large for a zhe that comes late is missed without a word of its size."""
    world = World(names=False)
    kept = world.node.publisher(6, durability="transient", keep=4)
    kept.put(bytes(3000))
    kept.put(b"small")
    world.zhe.subscribe(6)
    world.net.run_until(lambda: kept.matched, 30.0)
    world.net.run(1.0)
    assert [one.payload for one in world.zhe.received if one.subscription == 6] == [b"small"]
    (line,) = (one for one in world.node.drops() if one.place == "shelf")
    assert (line.reason, line.count, line.size) == ("size", 1, 3000)
    assert world.complaints == []


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("kind", "packet_max"), [("batches", 1472), ("fragments", 1472), ("packets", 9000)]
)
def test_joins_busy_group(kind: str, packet_max: int, seed: int) -> None:
    """
    What a window has for others when a zhe joins its group (batches, fragments, packets of 9,000 bytes) goes to the group all the
    same and ends the session of the zhe; or the others lose some of it, or never get what they ask for.
    """
    sim = Sim(seed, loss=0.2)
    net = Net(sim, seed=seed)
    node, other = (sim.node(name, packet_max=packet_max) for name in "ab")
    pub, sub = node.publisher(6), other.subscriber(6, depth=4096)
    net.run_until(lambda: pub.matched)
    zhe = Zhe(P2P.changed(scout_ms=500), now=net.now)
    zhe.subscribe(6)
    net.add(zhe)
    length = {"batches": 1, "fragments": 3000, "packets": packet_max - 100}[kind]
    count, last, joined = 0, 1 << 30, 0.0
    got: list[int] = []

    def more() -> bool:
        nonlocal count
        some = [(b"%d " % i).ljust(length) for i in range(count, count + 10)]
        if count < last and (
            pub.put_many(some, wait=False)
            if kind == "batches"
            else pub.put(some.pop(0), wait=False)
        ):
            count += 10 if kind == "batches" else 1
            return True
        return False

    while count < last or len(got) < count:
        while more():
            pass
        net.run(0.001)
        got += [int(bytes(one.data)) for one in sub]
        if any(one.kind == "connected" and one.peer == zhe.id.hex() for one in node.events()):
            joined, last = net.now, count + 300
        assert net.now < 20.0
    assert got == list(range(count))
    late = [one for one in zhe.violations if one.at >= joined]
    assert not [one for one in late if one.kind != "odd" or "§1 limit" in one.sentence]
    net.run_until(lambda: node.id in zhe.peers and zhe.id.hex() in pub.matched)
    assert pub.put(b"small")
    net.run_until(lambda: b"small" in [one.payload for one in zhe.received])
