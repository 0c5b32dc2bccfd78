"""
`pyddsi.testing`: faults do what they say and no more, the same seed does the same, and any order of calls keeps all
samples.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from pyddsi.errors import ClosedError, PyddsiError
from pyddsi.testing import (
    Node,
    NodeOptions,
    Publisher,
    Sim,
    Subscriber,
)
from tests.py.worlds import datas, pair

# ---- faults and time --------------------------------------------------------------------------------------------


def test_same_seed_same_world() -> None:
    """A run could not be repeated, or the seed would change nothing."""

    def run(seed: int) -> tuple[int, float, list[str]]:
        with Sim(seed, loss=0.1, jitter=0.001) as sim:
            pub, sub = pair(sim)
            for i in range(50):
                pub.put(b"%d" % i)
                if i % 7 == 0:
                    sub.recv()
            pub.node.crash()
            sim.run(1.0)
            return sim.digest, sim.now, [str(packet) for packet in sim.packets()]

    assert run(1) == run(1)
    assert run(1)[0] != run(2)[0]


def test_crash_and_restart() -> None:
    """A crash would say farewell, or leave things usable; a restart would not come back with the same id."""
    with Sim(defaults={"lease": 1.0}) as sim:
        pub, sub = pair(sim)
        a, b = pub.node, sub.node
        a.events()
        b.crash()
        assert (b.running, repr(b)) == (False, "<Node 'b', crashed>")
        for call in (sub.poll, b.stats, lambda: b.subscriber("x"), b.crash):
            with pytest.raises(ClosedError, match=r"node 'b' has crashed; restart\(\) it first"):
                call()
        sim.run(3.0)
        assert [(e.kind, e.peer, e.reason) for e in a.events()] == [
            ("disconnected", "b", "lease"),
            ("unmatched", "b", None),
        ]
        assert pub.matched == []
        incarnation, port = b.life, b.endpoint.port
        b.restart(same_port=False)
        assert (b.running, repr(b)) == (True, "<Node 'b', running>")
        assert b.life > incarnation
        assert b.endpoint.port != port
        with pytest.raises(ClosedError, match="went with the crash of its node; make another one"):
            sub.poll()
        again = b.subscriber("x")
        pub.wait_matched()
        sim.run_until_quiet()
        pub.put(b"again")
        assert bytes(again.recv().data) == b"again"
        assert [peer.incarnation for peer in a.peers() if peer.state == "established"] == [2]


def test_partition_and_heal() -> None:
    """A cut link would let packets through, cut others, or not be mended."""
    with Sim(defaults={"lease": 0.5, "scout": 0.1}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x")
        subs = b.subscriber("x"), c.subscriber("x")
        sim.run_until_quiet()
        sim.partition([a, c])
        cut = sim.now_ns
        sim.run(2.0)
        assert pub.matched == ["c"]
        passed = [p for p in sim.packets() if p.sent_ns > cut and p.arrived]
        assert passed
        assert all("b" not in {p.source, p.target} for p in passed)
        pub.put(b"1")
        assert bytes(subs[1].recv().data) == b"1"
        sim.heal()
        pub.wait_matched(2)
        sim.run_until_quiet()
        sim.cut(a, b, both=False)
        cut = sim.now_ns
        sim.run(0.3)
        fates = defaultdict(set)
        for p in sim.packets():
            if p.sent_ns > cut:
                fates[p.source, p.target].add(p.fate)
        assert fates["a", "b"] == {"cut"}
        assert fates["b", "a"] == {"delivered"}


def test_links() -> None:
    """A change of one link would change others, or forget what was set before."""
    with Sim(delay=0.001) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.link(a, b, delay=0.030, both=False)
        sim.link(a, b, loss=0.0)
        sim.link(jitter=0.0)
        start = sim.now_ns
        pub = a.publisher("x")
        c.subscriber("x"), b.subscriber("x")
        sim.run_until_quiet()
        pub.put(b"1")
        sim.run_until_quiet()
        taken = {
            (p.source, p.target): p.arrives_ns - p.sent_ns
            for p in sim.packets()
            if p.sent_ns >= start and p.fate == "delivered"
        }
        assert taken["a", "b"] // 1_000_000 == 30
        assert {taken[ends] // 1_000_000 for ends in taken if ends != ("a", "b")} == {1}
        d = sim.node("d")
        sim.link(loss=1.0)
        sim.link(d, loss=0.0)
        sim.heal()  # mends what was cut, and nothing else
        start = sim.now_ns
        sim.run(4.0)
        for p in sim.packets():
            if p.sent_ns >= start:
                assert p.arrived == ("d" in {p.source, p.target})


def test_pause_and_clock() -> None:
    """A paused node would answer, or lose what waits for it; a clock that steps would break a session or run backwards."""
    with Sim(defaults={"lease": 60.0}) as sim:
        pub, sub = pair(sim)
        sub.node.pause(2.0)
        pub.put(b"1")
        start = sim.now
        assert bytes(sub.recv().data) == b"1"
        assert sim.now - start == pytest.approx(2.0, abs=0.01)
        pub.node.clock_step(-0.5)
        sub.node.clock_step(10.0)
        for i in range(20):
            pub.put(b"%d" % i)
        times = [sub.recv().time_ns for _ in range(20)]
        assert times == sorted(times)
        assert times[0] / 1e9 == pytest.approx(sim.now + 10.0, abs=0.1)
        sub.node.clock_step(-1.0)
        sim.run(2.0)
        pub.put(b"x")
        assert sub.recv().time_ns / 1e9 == pytest.approx(sim.now + 9.0, abs=0.1)
        with pytest.raises(ValueError, match="104 days"):
            sub.node.clock_step(1e8)


def test_time() -> None:
    """Time would pass by itself, or not as far as it was told."""
    with Sim() as sim:
        sim.node("a")
        assert sim.now == 0.0
        assert sim.run(1.5) > 0
        assert (sim.now, sim.now_ns) == (1.5, 1_500_000_000)
        for wrong in (-1.0, float("nan"), float("inf"), 1e12):
            with pytest.raises(ValueError, match="duration is from 0 to"):
                sim.run(wrong)
        with pytest.raises(TypeError, match="number of seconds"):
            sim.run("1")  # type: ignore[arg-type]


def test_quiet() -> None:
    """run_until_quiet would stop too early, or not say what is left."""
    with Sim() as sim:
        pub, sub = pair(sim)
        sim.link(loss=1.0)
        pub.put(b"x")
        with pytest.raises(
            TimeoutError, match=r"not quiet after 0\.5 s: a window is not acknowledged"
        ):
            sim.run_until_quiet(timeout=0.5)
        left = [sim.busy]
        sim.link(loss=0.0)
        sim.run_until_quiet()
        left.append(sim.busy)
        assert left == ["a window is not acknowledged", None]
        assert datas(sub) == [b"x"]


def test_inject() -> None:
    """Bytes from nowhere would not reach the node, or not be counted."""
    with Sim() as sim:
        a = sim.node("a")
        sim.inject(a, b"\xff\xff\xff", source=("10.1.2.3", 999))
        packet = sim.packets()[-1]
        assert (packet.fate, packet.source, packet.target) == ("injected", None, "a")
        assert str(packet.from_) == "10.1.2.3:999"
        assert packet.messages == []
        assert sum(drop.count for drop in a.drops()) >= 1
        with pytest.raises(ValueError, match="a pair of an IP address and a port"):
            sim.inject(a, b"", source=("nowhere", 1))


# ---- anything ---------------------------------------------------------------------------------------------------


class Model:
    """What must come out of a world in which anything is done, as long as no lease ends: all, once, in order."""

    def __init__(self, sim: Sim, rand: random.Random) -> None:
        self.sim, self.rand = sim, rand
        options: NodeOptions = {
            "lease": 60.0,
            "slow": 600.0,
            "multicast_bytes": 8192,
            "multicast_samples": 32,
        }
        self.nodes: list[Node] = [sim.node(**options) for _ in range(rand.randint(2, 4))]
        names = ["a/1", "a/2", "b/1"]
        self.pubs = [rand.choice(self.nodes).publisher(rand.choice(names)) for _ in range(3)]
        self.subs = [
            rand.choice(self.nodes).subscriber(rand.choice([*names, "a/*", "**"]), depth=8)
            for _ in range(4)
        ]
        sim.run_until_quiet()
        self.wanted: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.got: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.held: list[Any] = []
        self.count = 0

    def matches(self, pub: Publisher, sub: Subscriber) -> bool:
        """Whether samples of this publisher are for this subscriber."""
        covers = {"**": ("a/1", "a/2", "b/1"), "a/*": ("a/1", "a/2")}.get(
            str(sub.name), (sub.name,)
        )
        return pub.name in covers and pub.node is not sub.node

    def put(self) -> None:
        """One sample into one publisher, if there is room."""
        which = self.rand.randrange(len(self.pubs))
        data = bytes([which]) + b"%d." % self.count + bytes(self.rand.choice([0, 1, 50, 500, 3000]))
        self.count += 1
        if self.pubs[which].put(data, wait=False):
            for i, sub in enumerate(self.subs):
                if self.matches(self.pubs[which], sub):
                    self.wanted[which, i].append(data)

    def take(self) -> None:
        """What one subscriber has, up to some."""
        i = self.rand.randrange(len(self.subs))
        for _ in range(self.rand.randint(1, 8)):
            if (sample := self.subs[i].poll()) is None:
                return
            data = bytes(sample.data)
            self.got[data[0], i].append(data)
            assert sample.source == self.pubs[data[0]].node.name
            assert sample.resource == self.pubs[data[0]].name
            self.held.append((sample.data, data))

    def step(self) -> None:
        """Anything."""
        self.rand.choice([self.put, self.put, self.put, self.take, self.take, self.other])()

    def other(self) -> None:
        """Anything but samples."""
        match self.rand.randrange(5):
            case 0:
                self.sim.link(
                    *self.rand.sample(self.nodes, 2),
                    loss=self.rand.choice([0, 0.1, 0.5]),
                    both=False,
                )
            case 1:
                self.rand.choice(self.nodes).pause(self.rand.random() * 0.05)
            case 2:
                self.rand.choice(self.nodes).clock_step(self.rand.choice([0.5, -0.5]))
            case 3:
                self.rand.shuffle(self.held)
                del self.held[len(self.held) // 2 :]
            case _:
                self.sim.run(self.rand.random() * 0.02)

    def settle(self) -> None:
        """No more faults: all that is wanted must come."""
        self.sim.link(loss=0.0)
        for _ in range(400):
            self.sim.run(0.05)
            for _ in range(20):
                self.take()
            if self.got == {key: value for key, value in self.wanted.items() if value}:
                return


@pytest.mark.parametrize("seed", range(12))
def test_anything(seed: int) -> None:
    """Some order of calls would lose, repeat, mix up or overwrite samples."""
    with Sim(seed, loss=0.05) as sim:
        model = Model(sim, random.Random(seed))
        for _ in range(300):
            model.step()
        model.settle()
        assert model.got == {key: value for key, value in model.wanted.items() if value}
        assert all(view == data for view, data in model.held)
        model.held.clear()
        sim.run_until_quiet(timeout=30.0)
        for node in sim.nodes:
            assert (node.views, node.stats().in_flight, node.stats().rings_used) == (0, 0, 0)


# ---- worlds that cannot go on -----------------------------------------------------------------------------------


def test_a_stopped_world_says_so() -> None:
    """A world that has stopped would blame the sample, the name, the node or the wait for it, or let no time pass."""
    with Sim(seed=3) as sim:
        pub, sub = pair(sim)
        a, b, c = pub.node, sub.node, sim.node("c")
        c.crash()
        stopped = pytest.raises(
            PyddsiError, match=r"the simulation has stopped at .*100,000 times.*"
        )
        with stopped:
            for _ in range(100_010):
                a.flush()
        for call in (
            lambda: pub.put(b"x"),
            lambda: pub.put_many([b"x"]),
            lambda: pub.loan(3).__enter__(),
            lambda: pub.stream(3).__enter__(),
            lambda: a.put("y", b"x"),
            lambda: a.resource("y"),
            lambda: b.publisher("x"),
            lambda: b.subscriber(5),
            sub.poll,
            sub.recv,
            sub.pull,
            lambda: sim.run(1.0),
            sim.run_until_quiet,
            lambda: pub.wait_matched(7),
            lambda: a.close_session(b),
            lambda: a.peer_window(b, bytes_max=4096),
            c.restart,
        ):
            with pytest.raises(PyddsiError, match="the simulation has stopped at") as caught:
                call()
            assert type(caught.value) is PyddsiError
        assert a.stats().owed == a.stats().acknowledged  # how it came to that can be looked at
        assert sim.packets()
        assert not c.running


def test_a_busy_world_goes_on() -> None:
    """Many calls would be taken for a world that has stopped although time passes between them."""
    with Sim() as sim:
        pub, _ = pair(sim)
        for _ in range(11):
            for _ in range(10_000):
                pub.node.flush()
            sim.run(0.001)
        sim.run(0.0)
        sim.node("late").crash()
        with pytest.raises(ValueError, match="can never be sent at once"):
            pub.put(bytes(2**20))
        sim.node("later")
        with pytest.raises(TimeoutError, match=r"not quiet after 0\.0 s: "):
            sim.run_until_quiet(0.0)
