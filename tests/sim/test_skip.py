"""Peers with a window of their own that would have others wait: they go without, and what they lack is told and listed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyddsi.testing import Node, Publisher, Sim, Subscriber
from tests.sim.test_wire_room import lines

SLOW = 0.1
STEP = 0.001


class World:
    """One publisher that gives each a copy; one reader that reads, and one that does not."""

    def __init__(self, sim: Sim, count: int = 2, lease: float = 5.0) -> None:
        self.sim = sim
        self.a = sim.node("a", slow=SLOW, unicast_samples=64, lease=lease)
        self.nodes = [sim.node(f"n{i}", lease=lease) for i in range(count)]
        self.pub = self.a.publisher("x", way="each")
        self.subs = [node.subscriber("x", depth=16) for node in self.nodes]
        self.got: list[list[int]] = [[] for _ in self.nodes]
        self.longest = 0.0
        sim.run_until_quiet()

    def read(self, *which: int) -> None:
        """What is there."""
        for i in which:
            self.got[i] += [int(bytes(sample.data)) for sample in self.subs[i]]

    def feed(self, numbers: range, *readers: int) -> None:
        """Put these, and have these read them."""
        for number in numbers:
            begin = self.sim.now
            while not self.pub.put(b"%d" % number, wait=False):
                self.sim.run(STEP)
                self.read(*readers)
                assert self.sim.now - begin < 10 * SLOW, "it waits for one that does not read"
            self.longest = max(self.longest, self.sim.now - begin)
            self.sim.run(STEP)
            self.read(*readers)
        self.sim.run(20 * STEP)
        self.read(*readers)


def kinds(node: Node) -> list[str]:
    """What it was told, without what is told of every match."""
    usual = ("connected", "declared", "matched")
    return [event.kind for event in node.events() if event.kind not in usual]


def gaps(node: Node) -> int:
    """How many samples its GAP events name."""
    return sum(event.last - event.first + 1 for event in node.events() if event.kind == "gap")


@pytest.mark.parametrize("stopped", [False, True])
def test_one_of_two(stopped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """One that does not read, or was stopped, freezes the other for longer than `slow`, or misses samples without a word."""
    with Sim() as sim:
        world = World(sim)
        world.feed(range(20), 0, 1)
        if stopped:
            world.nodes[1].pause(3.0)
        world.feed(range(20, 1000), 0)
        assert world.longest >= SLOW
        assert world.got[0] == list(range(1000))
        assert kinds(world.a) == ["detached"]
        if not stopped:
            world.read(1)
        sim.run(4.0)
        for _ in range(20):
            world.read(1)
            sim.run(0.1)
        world.feed(range(1000, 1050), 0, 1)
        sim.run_until_quiet()
        world.read(0, 1)
        assert world.got[0] == list(range(1050))
        first = next(i for i, number in enumerate(world.got[1]) if number != i)
        assert world.got[1] == [*range(first), *range(1000, 1050)]
        assert gaps(world.nodes[1]) == 1000 - first
        assert lines(world.nodes[1])["order", "gap"] == 1000 - first
        assert ("window", "gap") not in lines(world.a)
        assert world.a.stats().owed == world.a.stats().acknowledged


def test_the_only_one_is_waited_for() -> None:
    """The only reader of all loses samples, although it holds up nobody else."""
    with Sim() as sim:
        world = World(sim, 1)
        count = 0
        while world.pub.put(b"%d" % count, wait=False):
            count += 1
            sim.run(STEP)
        sim.run(30 * SLOW)
        assert not world.pub.put(b"x", wait=False)
        assert kinds(world.a) == []
        while len(world.got[0]) < count:
            world.read(0)
            sim.run(STEP)
        assert world.got[0] == list(range(count))


def test_it_never_comes_back() -> None:
    """What one that went without lacks is in no ledger when its session ends before it could be told."""
    with Sim() as sim:
        world = World(sim)
        world.nodes[1].pause(1000.0)
        world.feed(range(500), 0)
        assert kinds(world.a) == ["detached"]
        world.nodes[1].crash()
        sim.run(20.0)
        assert world.got[0] == list(range(500))
        assert "disconnected" in kinds(world.a)
        assert sum(lines(world.a).values()) == 500


def test_more_than_numbers_can_say() -> None:
    """What one lacks that went without more samples than fit into a hole of the numbers is not listed, or listed twice."""
    with Sim() as sim:
        world = World(sim, lease=60.0)
        world.nodes[1].pause(7.0)
        world.feed(range(6000), 0)
        sim.run(3.0)
        for _ in range(20):
            world.read(1)
            sim.run(0.1)
        told, more = gaps(world.nodes[1]), lines(world.a).get(("window", "gap"), 0)
        assert told > 0
        assert len(world.got[1]) + told + more == 6000
        assert lines(world.nodes[1])["order", "gap"] == told


def by_many(pub: Publisher) -> int:
    """Several at once."""
    pub.put_many([b"1", b"2", b"3"])
    return 3


def by_loan(pub: Publisher) -> int:
    """Written in place."""
    with pub.loan(3) as loan:
        loan[:] = b"abc"
    return 1


def by_name(pub: Publisher) -> int:
    """To a name that is not declared."""
    pub.node.put("x", b"1")
    return 1


@pytest.mark.parametrize("put", [by_many, by_loan, by_name])
def test_every_way_to_put(put: Callable[[Publisher], int]) -> None:
    """Samples that were put in another way are not counted, or have all wait for one that goes without."""
    with Sim() as sim:
        world = World(sim)
        a, slow = world.a, world.nodes[1]
        slow.pause(2.0)
        world.feed(range(200), 0)
        assert "detached" in kinds(a)
        count = 0
        for _ in range(100):
            before = sim.now
            count += put(world.pub)
            assert sim.now - before < SLOW
            drain(world.subs[0], sim)
        sim.run(3.0)
        reached = 0
        for _ in range(20):
            reached += drain(world.subs[1], sim)
        assert reached + gaps(slow) == 200 + count
        assert sum(lines(a).values()) == 0


def drain(sub: Subscriber, sim: Sim) -> int:
    """Read all that is there."""
    count = sum(1 for _ in sub)
    sim.run(0.01)
    return count
