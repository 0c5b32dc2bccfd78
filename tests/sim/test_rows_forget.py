"""
What becomes of subscribers, publishers and resources that are taken back.
"""

from __future__ import annotations

import random

import pytest

from pyddsi import wire
from pyddsi.errors import ClosedError, ConflictError
from pyddsi.testing import NodeOptions, Publisher, Sim, Subscriber
from tests.py.worlds import datas, pair
from tests.sim.rows_looks import data, declared, numbers

SEEDS = range(6)
RESOURCE, SUBSCRIPTION, PUBLICATION = wire.Resource, wire.Subscription, wire.Publication


# ---- taken back -------------------------------------------------------------------------------------------------


def test_quiet_waits_for_what_is_forgotten() -> None:
    """002-32: the world would be called quiet before the peers have heard that a subscriber is gone."""
    with Sim() as sim:
        pub, sub = pair(sim)
        sub.close()
        sim.run_until_quiet()
        assert pub.matched == []


@pytest.mark.parametrize("seed", SEEDS)
def test_subscriber_deleted(seed: int) -> None:
    """002-32: a deleted subscriber would be given samples, or its publisher go on for nobody, or stop while one is left."""
    with Sim(seed, loss=0.1, jitter=0.001) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x")
        subs = (
            b.subscriber("x", depth=256),
            b.subscriber("x", depth=256),
            c.subscriber("x", depth=256),
        )
        pub.wait_matched(2)
        one, other, third = subs
        for i in range(30):
            pub.put(b"%d" % i)
            sim.run(0.001)
            if i == 10:
                one.close()
        with pytest.raises(ClosedError):
            one.poll()
        sim.run(0.5)
        assert numbers(other) == list(range(30))
        assert numbers(third) == list(range(30))
        assert [e.kind for e in a.events()].count("unmatched") == 0
        third.close()
        sim.run(0.5)
        assert pub.matched == ["b"]
        other.close()
        assert declared(sim, wire.ForgetSubscription, b) == []
        sim.run(0.5)
        assert {d.id for _, d in declared(sim, wire.ForgetSubscription, b)} == {pub.number}
        assert pub.matched == []
        start, before = sim.now_ns, a.stats().unmatched
        for _ in range(5):
            pub.put(b"nobody")
        sim.run(1.0)
        assert data(sim, a, since=start) == []
        assert a.stats().unmatched == before + 5
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert (b.stats().rings_used, b.stats().allocated_slots) == (0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_publisher_deleted(seed: int) -> None:
    """002-33: samples of a deleted publisher would be lost, its room in the window be kept, or peers not told."""
    with Sim(seed) as sim:
        a, b = sim.node("a", multicast_bytes=4096, multicast_samples=16), sim.node("b")
        pub, sub = a.publisher("x", way="multicast"), b.subscriber("x", depth=64)
        sim.run_until_quiet()
        sim.link(loss=0.3, jitter=0.001)
        for i in range(10):
            pub.put(b"%d" % i)
        pub.close()
        with pytest.raises(ClosedError):
            pub.put(b"more")
        window = a.window(0)
        assert window is not None
        assert window.used_samples == 10
        sim.run(2.0)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert numbers(sub) == list(range(10))
        assert {d.id for _, d in declared(sim, wire.ForgetPublication, a)} == {pub.number}
        window = a.window(0)
        assert window is not None
        assert (window.used_samples, window.used_bytes, a.stats().in_flight) == (0, 0, 0)
        again = a.publisher("x")
        again.wait_matched()
        again.put(b"10")
        assert bytes(sub.recv().data) == b"10"


@pytest.mark.parametrize("seed", SEEDS)
def test_resource_deleted(seed: int) -> None:
    """002-34: a forgotten resource's number could not be used again, or would still mean its old name."""
    with Sim(seed) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.link(loss=0.05)
        old_sub, new_sub = c.subscriber("old/*", depth=64), c.subscriber("new/*", depth=64)
        old = a.resource("old/x", number=3)
        pub = a.publisher("old/x")
        pub.wait_matched()
        pub.put(b"old")
        assert bytes(old_sub.recv().data) == b"old"
        pub.close()
        old.close()
        sim.run(1.0)
        new = b.resource("new/x", number=3)
        new.wait_settled()
        pub = b.publisher("new/x")
        assert pub.number == 3
        pub.wait_matched()
        pub.put(b"new")
        assert bytes(new_sub.recv().data) == b"new"
        sim.run(0.5)
        assert datas(old_sub) == []
        assert {d.id for _, d in declared(sim, wire.ForgetResource, a)} == {3}
        with pytest.raises(ConflictError):
            a.resource("old/x", number=3)


def test_places_are_free_again() -> None:
    """002-32, 002-33, 002-34: what was deleted would go on taking a place, in its own node or in its peers."""
    few: NodeOptions = {
        "publishers_max": 2,
        "subscribers_max": 2,
        "resources_max": 8,
        "remotes_max": 4,
        "names_bytes": 512,
        "ring_samples": 64,
    }
    with Sim(defaults=few) as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.run_until_quiet()
        for i in range(60):
            made = a.resource(f"name/{i}", number=3)
            pub, sub = a.publisher(f"name/{i}"), b.subscriber(3, depth=16)
            pub.wait_matched()
            pub.put(b"%d" % i)
            assert bytes(sub.recv().data) == b"%d" % i
            for one in (sub, pub, made):
                one.close()
            sim.run(0.1)
        assert a.drops() == b.drops() == [] or {d.reason for d in (*a.drops(), *b.drops())} == {
            "repeat"
        }


@pytest.mark.parametrize("seed", SEEDS)
def test_deleting_while_samples_come(seed: int) -> None:
    """002-92: a subscriber or publisher taken away in the middle of traffic would disturb the others, or leave something."""
    rand = random.Random(seed)
    with Sim(seed, loss=0.05, jitter=0.001) as sim:
        a, b = sim.node("a"), sim.node("b", ring_samples=1 << 17)
        pub, stays = a.publisher("x"), b.subscriber("x", depth=1024)
        pub.wait_matched()
        others: list[Subscriber] = []
        extra: list[Publisher] = []
        sent = 0
        for _ in range(300):
            match rand.randrange(6):
                case 0:
                    others.append(
                        b.subscriber(
                            rand.choice(["x", "*", "e/*"]), depth=rand.choice([1024, 2048])
                        )
                    )
                case 1 if others:
                    others.pop(rand.randrange(len(others))).close()
                case 2 if len(extra) < 4:
                    extra.append(a.publisher(f"e/{rand.randrange(3)}"))
                case 3 if extra:
                    extra.pop(rand.randrange(len(extra))).close()
                case 4 if extra:
                    extra[0].put(b"e", wait=False)
                case _:
                    pub.put(b"%d" % sent)
                    sent += 1
            sim.run(rand.random() * 0.002)
            for sub in others[::2]:
                list(sub)
        for sub in others:
            sub.close()
        for one in extra:
            one.close()
        sim.link(loss=0.0)
        sim.run(1.0)
        sim.run_until_quiet()
        assert numbers(stays) == list(range(sent))
        assert (b.stats().rings_used, b.stats().allocated_slots, a.stats().in_flight) == (0, 0, 0)
        assert pub.matched == ["b"]
