"""
How samples come to a subscriber: pushed, pulled, within the windows of a period, behind a guard.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Sim
from tests.py.worlds import datas
from tests.sim.rows_looks import all_numbers, data, declared, numbers, spoken

SEEDS = range(6)


def bad_links(sim: Sim) -> None:
    """From now on packets are lost, doubled and late."""
    sim.link(loss=0.15, duplicate=0.05, reorder=0.1, jitter=0.002)


# ---- modes on the wire ------------------------------------------------------------------------------------------


def test_modes_on_the_wire() -> None:
    """002-11: each mode that is asked for, with its times, would not be what stands on the wire."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.run_until_quiet()
        a.subscriber(1, mode="push")
        a.subscriber(2, mode="pull")
        a.subscriber(3, mode="periodic_push", period=1.5, duration=0.25, origin=0.125)
        a.subscriber(4, mode="periodic_pull", period=600.0, duration=0.001)
        a.subscriber(5, mode="push_pull")
        sim.run_until_quiet()
        found = {
            d.id: (wire.Mode(d.mode), d.origin, d.period, d.duration)
            for _, d in declared(sim, wire.Subscription, a)
        }
        assert found == {
            1: (wire.Mode.PUSH, None, None, None),
            2: (wire.Mode.PULL, None, None, None),
            3: (wire.Mode.PERIODIC_PUSH, 125, 1500, 250),
            4: (wire.Mode.PERIODIC_PULL, 0, 600_000, 1),
            5: (wire.Mode.PUSH_PULL, None, None, None),
        }
        assert declared(sim, wire.Subscription, b) == []


# ---- push and pull ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_push(seed: int) -> None:
    """002-12: a sample would not come until it is asked for, or somebody would have to ask."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x"), b.subscriber("x", mode="push", depth=256)
        sim.run_until_quiet()
        bad_links(sim)
        for i in range(100):
            pub.put(b"%d" % i)
            sim.run(0.001)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert numbers(sub) == list(range(100))
        assert spoken(sim, wire.Pull) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_pull(seed: int) -> None:
    """002-13: a pull would bring what nobody asked for, or more than n samples, or would have no end, or repeat one."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher("x", keep=64), b.subscriber("x", mode="pull", depth=64)
        sim.run_until_quiet()
        start = sim.now_ns
        bad_links(sim)
        for i in range(10):
            pub.put(b"%d" % i)
        sim.run(1.0)
        assert numbers(sub) == []
        assert data(sim, a, since=start) == []
        answered = []
        for n, answer in ((4, 1), (4, 2), (4, 3), (1, 4), (0, 5)):
            sub.pull(max=n)
            answered.append(list(all_numbers(sim, sub, 1.0)))
            assert sub.answers == answer
        assert answered == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [], []]
        for i in range(10, 13):
            pub.put(b"%d" % i)
        sub.pull()
        assert list(all_numbers(sim, sub, 1.0)) == [10, 11, 12]
        marks = {
            m.sn for _, m in data(sim, a, since=start) if m.data_rid == 0 and not len(m.payload)
        }
        assert len(marks) == sub.answers == 6


def test_pulls_that_wait() -> None:
    """002-13: of many pulls at once those that wait behind eight others would have no end, or no answer."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        pubs = [a.publisher("x", keep=64), sim.node("c").publisher("x", keep=64)]
        sub = b.subscriber("x", mode="pull", depth=128)
        sim.run_until_quiet()
        for i in range(30):
            pubs[0].put(b"%d" % i)
        for _ in range(30):
            sub.pull(max=1)
        sim.run_until_quiet()
        assert numbers(sub) == list(range(30))
        assert sub.answers == 30 * len(pubs)
        assert b.stats().rings_used == 0


def test_pull_while_pushed_to_others() -> None:
    """002-12, 002-13: a subscriber that pulls would get what a group hears, or one that is pushed to what was pulled."""
    with Sim() as sim:
        a, b, c, d = (sim.node(name) for name in "abcd")
        pub = a.publisher("x", keep=8)
        pulls, pushed = b.subscriber("x", mode="pull"), c.subscriber("x")
        both = d.subscriber("x", mode="push_pull")
        sim.run_until_quiet()
        for i in range(5):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert numbers(pushed) == numbers(both) == [0, 1, 2, 3, 4]
        assert numbers(pulls) == []
        pulls.pull(max=2)
        sim.run_until_quiet()
        assert numbers(pulls) == [0, 1]
        assert (numbers(pushed), numbers(both)) == ([], [])


# ---- periods ----------------------------------------------------------------------------------------------------


def inside(time: float, origin: float, period: float, duration: float) -> bool:
    """Whether a moment is in a window."""
    return time >= origin and (time - origin) % period < duration


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("origin", "period", "duration"), [(0.0, 1.0, 0.1), (0.25, 0.7, 0.35), (2.0, 0.5, 0.01)]
)
def test_periodic_push(seed: int, origin: float, period: float, duration: float) -> None:
    """002-14: a sample would leave outside the windows of its period, or would not come in the next window."""
    with Sim(seed, delay=0.001) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=256)
        sub = b.subscriber(
            "x", mode="periodic_push", period=period, duration=duration, origin=origin, depth=256
        )
        sim.run_until_quiet()
        start = sim.now_ns
        put_at, came_at = {}, {}
        for i in range(80):
            pub.put(b"%d" % i)
            put_at[i] = sim.now
            for got in all_numbers(sim, sub, 0.053, 0.001):
                came_at[got] = sim.now
        for got in all_numbers(sim, sub, max(period, origin) + 0.01, 0.001):
            came_at[got] = sim.now
        assert list(came_at) == list(range(80))
        first: dict[int, float] = {}
        for packet, message in data(sim, a, since=start):
            first.setdefault(message.sn, packet.sent_ns / 1e9)
        assert len(first) == 80
        assert all(inside(time, origin, period, duration) for time in first.values())
        for i, came in came_at.items():  # at once within a window, else with the begin of the next
            at = put_at[i]
            due = at
            if not inside(at, origin, period, duration):
                due = origin if at < origin else origin + ((at - origin) // period + 1) * period
            assert due < came <= due + 0.004


@pytest.mark.parametrize("seed", SEEDS)
def test_periodic_push_on_bad_links(seed: int) -> None:
    """002-14: on bad links a sample of a period would be lost, come twice or out of order, or begin outside its window."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=256)
        sub = b.subscriber("x", mode="periodic_push", period=0.5, duration=0.1, depth=256)
        sim.run_until_quiet()
        start = sim.now_ns
        bad_links(sim)
        got: list[int] = []
        for i in range(60):
            pub.put(b"%d" % i)
            got += all_numbers(sim, sub, 0.03)
        got += all_numbers(sim, sub, 3.0)
        assert got == list(range(60))
        first: dict[int, float] = {}
        for packet, message in data(sim, a, since=start):
            first.setdefault(message.sn, packet.sent_ns / 1e9)
        assert all(inside(time, 0.0, 0.5, 0.1) for time in first.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_periodic_pull(seed: int) -> None:
    """002-15: a pull outside the windows would bring or use up samples, or one inside would not bring what is stored."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=64)
        sub = b.subscriber("x", mode="periodic_pull", period=1.0, duration=0.4, depth=64)
        sim.run_until_quiet()
        sim.link(loss=0.1, jitter=0.001)
        start = sim.now_ns
        for i in range(9):
            pub.put(b"%d" % i)
        for _ in range(3):
            sim.run(1.0 - sim.now % 1.0 + 0.5)  # between two windows
            before = sub.answers
            sub.pull(max=4)
            assert list(all_numbers(sim, sub, 0.4)) == []
            assert sub.answers == before + 1
        sim.run(1.0 - sim.now % 1.0 + 0.01)
        got = []
        for answer in (4, 5, 6):
            sub.pull(max=4)
            got.append(list(all_numbers(sim, sub, 0.12)))
            assert sub.answers == answer
        assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
        bodies = [
            p.sent_ns / 1e9 % 1.0
            for p, m in data(sim, a, since=start)
            if m.data_rid not in {None, 0}
        ]
        assert bodies
        assert max(bodies) < 0.4


# ---- guards -----------------------------------------------------------------------------------------------------


def stuff(node: Node, number: int, size: int) -> int:
    """Fills the window of a publisher whose reader does not read; how many samples went in."""
    pub = next(d for d in node.declared.values() if d.KIND == "publisher" and d.number == number)
    count = 0
    while pub.put(bytes(size), wait=False):  # type: ignore[attr-defined]
        count += 1
        node.sim.run(0.002)
    return count


@pytest.mark.parametrize("lacking", ["p1", "p2", "both", "none"])
def test_guard(lacking: str) -> None:
    """002-6: a guarded subscriber would be called without room in each of its publishers, or not once there is some."""
    with Sim() as sim:
        a, b, c = sim.node("a"), sim.node("b", unicast_samples=8), sim.node("c")
        d = sim.node("d")
        # Each answer goes its own way, so that one window can be full and the other not.
        p1, p2 = b.publisher("p1", way="unicast"), b.publisher("p2", way="unicast")
        readers = {"p1": c.subscriber("p1", depth=1), "p2": d.subscriber("p2", depth=1)}
        ask = a.publisher("ask")
        asked = b.subscriber("ask", guard={p1: 100, p2: 50})
        sim.run_until_quiet()
        full = [pub for pub in (p1, p2) if lacking in {str(pub.name), "both"}]
        for pub in full:
            stuff(b, pub.number, 100)
        start = sim.now_ns
        ask.put(b"?")
        sim.run(0.3)
        if full:
            assert asked.poll() is None
            number = next(m.sn for _, m in data(sim, a, since=start))
            acks = [m for _, m in spoken(sim, wire.AckNack, b, since=start)]
            assert all(m.sn <= number for m in acks)  # the next one wanted is still this one
            for pub in full:  # room appears, first for one of them alone
                assert asked.poll() is None
                for _ in range(9):
                    if readers[str(pub.name)].poll() is None:
                        break
                    sim.run(0.3)
        sim.run(0.3)
        assert datas(asked) == [b"?"]
        assert p1.put(bytes(100), wait=False)
        assert p2.put(bytes(50), wait=False)
        sim.run(1.0)
        assert datas(asked) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_guarded_writes_never_fail(seed: int) -> None:
    """002-6: a handler that answers as its guard says would find no room for it."""
    with Sim(seed, loss=0.1, jitter=0.001) as sim:
        a, b, c = (
            sim.node("a"),
            sim.node("b", multicast_bytes=600, multicast_samples=5),
            sim.node("c"),
        )
        p1, p2 = b.publisher("p1"), b.publisher("p2")
        got = [c.subscriber("p1", depth=2), c.subscriber("p2", depth=2)]
        ask = a.publisher("ask")
        asked = b.subscriber("ask", guard={p1: 100, p2: 100})
        sim.run_until_quiet()
        answered, came = 0, 0
        for i in range(40):
            ask.put(b"%d" % i)
            sim.run(0.01)
            for sample in asked:
                assert int(bytes(sample.data)) == answered
                assert p1.put(bytes(100), wait=False)
                assert p2.put(bytes(100), wait=False)
                answered += 1
            if i % 3 == 0:
                came += sum(len(datas(sub)) for sub in got)
        sim.link(loss=0.0)
        for _ in range(200):
            sim.run(0.02)
            for _ in asked:
                assert p1.put(bytes(100), wait=False)
                assert p2.put(bytes(100), wait=False)
                answered += 1
            came += sum(len(datas(sub)) for sub in got)
        assert (answered, came) == (40, 80)


@pytest.mark.parametrize("seed", SEEDS)
def test_guards_together(seed: int) -> None:
    """002-7: of two guarded subscribers to the same samples one would be called without the other, or one without room."""
    with Sim(seed, loss=0.05) as sim:
        a, b, c = (
            sim.node("a"),
            sim.node("b", multicast_bytes=400, multicast_samples=4),
            sim.node("c"),
        )
        answer = b.publisher("answer", way="multicast")
        reads = c.subscriber("answer", depth=1)
        ask = a.publisher("ask")
        one = b.subscriber("ask", guard={answer: 100})
        two = b.subscriber("ask", guard={answer: 100})
        plain = b.subscriber("ask")
        sim.run_until_quiet()
        while answer.put(bytes(100), wait=False):
            sim.run(0.02)
        for i in range(8):
            ask.put(b"%d" % i)
        counts, taken, called = [0, 0, 0], 0, []
        for _ in range(400):
            sim.run(0.02)
            window = b.window(0)
            assert window is not None
            room = window.samples_max - window.used_samples
            new = [len(datas(sub)) for sub in (one, two, plain)]
            assert new[0] == new[1] == new[2]
            if new[0]:
                assert room >= 2 * new[0]
                called.append(room)
                for _ in range(2 * new[0]):
                    assert answer.put(bytes(100), wait=False)
            counts = [have + more for have, more in zip(counts, new, strict=True)]
            if reads.poll() is not None:
                taken += 1
            if counts == [8, 8, 8]:
                break
        assert counts == [8, 8, 8]
        assert called
