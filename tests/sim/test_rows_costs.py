"""
What must not cost time: slots that are free, and what other peers have declared.

The times are real ones, of the machine that the test runs on; so two worlds take turns, the best of several turns counts,
and only a multiple is a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyddsi.testing import Node, Sim

TURNS = 7
TOO_MUCH = 3.0


def best(*functions: Callable[[], object]) -> list[float]:
    """The shortest time that each of them took, taking turns."""
    times = [float("inf")] * len(functions)
    for _ in range(TURNS):
        for i, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            times[i] = min(times[i], time.perf_counter() - begin)
    return times


class World:
    """Two nodes with tables of a size of which few places are used."""

    def __init__(self, size: int) -> None:
        self.sim = Sim(1, log_bytes=0)
        self.a, self.b = self.node("a", size), self.node("b", size)
        self.pubs = [self.a.publisher(i) for i in (1, 2, 3)]
        self.subs = [self.b.subscriber(i, depth=8) for i in (1, 2, 3)]
        self.ask = self.a.publisher(4)
        self.asked = self.b.subscriber(4, depth=8, guard={self.b.publisher(5): 10})
        self.sim.run_until_quiet()

    def node(self, name: str, size: int) -> Node:
        """One of both."""
        return self.sim.node(
            name,
            publishers_max=size,
            subscribers_max=size,
            resources_max=size,
            remotes_max=size,
            remotes_peer_max=size,
            ring_samples=32768,
        )

    def publish(self) -> None:
        """Samples from end to end."""
        for _ in range(20):
            for pub in self.pubs:
                pub.put(b"x")
            self.sim.run(0.003)
            for sub in self.subs:
                assert len(list(sub)) == 1

    def guarded(self) -> None:
        """The same with a guard."""
        for _ in range(30):
            self.ask.put(b"x")
            self.sim.run(0.003)
            assert len(list(self.asked)) == 1

    def declare(self) -> None:
        """Declarations that come and go."""
        for _ in range(10):
            made = self.b.publisher(7), self.b.subscriber(8, depth=8)
            self.sim.run(0.02)
            for one in made:
                one.close()
            self.sim.run(0.02)

    def idle(self) -> None:
        """Nothing but signs of life."""
        self.sim.run(5.0)


@pytest.mark.parametrize("what", ["publish", "guarded", "declare", "idle"])
def test_free_slots(what: str) -> None:
    """002-35: ten thousand slots of which few are used would be slower than a few."""
    few, many = World(16), World(10_000)
    with few.sim, many.sim:
        times = []
        for _ in range(4):  # a busy machine is no reason
            times.append(best(getattr(few, what), getattr(many, what)))
            if times[-1][1] < times[-1][0] * TOO_MUCH:
                return
    pytest.fail(f"with few places and with many: {times}")


def time_to_forget(mine: int, others: int) -> float:
    """How long it takes to clean up after a peer that had so many declarations, while another has so many."""
    with Sim(1, log_bytes=0, defaults={"scout": 3600.0, "lease": 3600.0}) as sim:
        size = 2048
        a, b, c = (
            sim.node(
                name,
                subscribers_max=size,
                resources_max=2 * size,
                remotes_max=2 * size,
                remotes_peer_max=size,
                names_bytes=1 << 18,
                ring_samples=4096,
            )
            for name in "abc"
        )
        pubs = [a.publisher(f"b/{i}") for i in range(8)]
        for node, count in ((b, mine), (c, others)):
            for i in range(count):
                node.subscriber(f"{node.name}/{i}", depth=1)
        sim.run_until_quiet()
        sim.run(1.0)
        assert all(pub.matched == ["b"] for pub in pubs)
        b.pause(1000.0)
        c.pause(1000.0)
        begin = time.perf_counter()
        a.close_session(b)
        sim.run(0.0)
        took = time.perf_counter() - begin
        assert all(pub.matched == [] for pub in pubs)
        assert [peer.name for peer in a.peers() if peer.state == "established"] == ["c"]
        return took


def test_forgetting_a_peer() -> None:
    """002-22: cleaning up after a peer would cost more the more others have declared, or grow faster than its own share."""
    cases = [(100, 0), (100, 1000), (1000, 0)]
    times = [min(time_to_forget(*case) for _ in range(2)) for case in cases]
    alone, crowded, large = times
    assert crowded < alone * TOO_MUCH + 0.0005
    assert large < alone * 10 * TOO_MUCH + 0.0005
