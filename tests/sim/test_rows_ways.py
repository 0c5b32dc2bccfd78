"""
Which way samples go: the number of a publisher's conduit, windows of different sizes, unicast, and ways that change.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from itertools import pairwise

import pytest

from pyddsi._native import ffi, lib
from pyddsi.errors import RejectedError
from pyddsi.testing import Node, Publisher, Sim, Subscriber
from tests.py.worlds import datas
from tests.sim.rows_looks import data, numbers, sent

SEEDS = range(8)
ESTABLISHED = 254
GROUPS = [("239.255.0.2", 7447), ("239.255.0.3", 7447)]


def fill(pub: Publisher, size: int) -> int:
    """How many samples of this size a window takes while nobody acknowledges."""
    count = 0
    while pub.put(bytes(size), wait=False):
        count += 1
    return count


def place(node: Node, peer: Node) -> int:
    """The number i of a peer that there is a session with."""
    raw = ffi.new("pyddsi_peer *")
    i = 0
    while lib.pyddsi_sim_peer(node.enter(), node.index, i, raw) == lib.PYDDSI_OK:
        if bytes(raw.id[0 : raw.id_size]) == peer.id and raw.state == ESTABLISHED:
            return i
        i += 1
    raise AssertionError(f"{node} has no session with {peer}")


# ---- conduits ---------------------------------------------------------------------------------------------------


def test_conduit_is_a_number() -> None:
    """002-5: a publisher would not say its conduit's number, or -(i + 1) for the unicast conduit to peer i."""
    with Sim(defaults={"multicasts": 2, "multicast_to": GROUPS}) as sim:
        a, *others = (sim.node(name) for name in "abcde")
        sim.run_until_quiet()
        pubs = [a.publisher(f"to/{node.name}", way="unicast") for node in others]
        subs = [node.subscriber(f"to/{node.name}") for node in others]
        first = a.publisher("first", way="multicast")
        second = a.publisher("second", conduit=1, way="multicast")
        subs += [others[0].subscriber("first"), others[1].subscriber("second")]
        sim.run_until_quiet()
        assert [pub.conduit for pub in pubs] == [-(place(a, node) + 1) for node in others]
        assert (first.conduit, second.conduit) == (0, 1)
        for pub in (*pubs, first, second):
            pub.put(str(pub.name).encode())
            assert pub.window is not None
            assert pub.window.used_samples == 1
        sim.run_until_quiet()
        for sub in subs:
            (sample,) = sub
            assert bytes(sample.data) == str(sub.name).encode()
            assert sample.conduit == {"first": 0, "second": 1}.get(str(sub.name), 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_conduits_of_peers_that_come_and_go(seed: int) -> None:
    """002-5: a conduit's number would point at another peer, or at nothing, after peers have come and gone."""
    rand = random.Random(seed)
    with Sim(seed, defaults={"lease": 0.4, "scout": 0.1, "open": 0.1}) as sim:
        a = sim.node("a")
        others = [sim.node(name) for name in "bcd"]
        pubs = {node: a.publisher(f"to/{node.name}", way="unicast") for node in others}
        subs: dict[object, Subscriber] = {}
        for _ in range(12):
            node = rand.choice(others)
            if node.running and rand.random() < 0.5:
                node.crash()
                subs.pop(node, None)
            elif not node.running:
                node.restart(same_port=rand.random() < 0.5)
            if node.running and node not in subs:
                subs[node] = node.subscriber(f"to/{node.name}")
            for pub in pubs.values():
                pub.put(str(pub.name).encode(), wait=False)
            sim.run(rand.random())
        for node in others:
            if not node.running:
                node.restart(same_port=rand.random() < 0.5)
                subs[node] = node.subscriber(f"to/{node.name}")
            elif node not in subs:
                subs[node] = node.subscriber(f"to/{node.name}")
        sim.run(2.0)
        sim.run_until_quiet()
        for node in others:
            list(subs[node])
        for node, pub in pubs.items():
            assert pub.conduit == -(place(a, node) + 1)
            (before,) = [p.unacknowledged for p in a.peers() if p.name == node.name]
            pub.put(b"last")
            assert before + 1 in {p.unacknowledged for p in a.peers() if p.name == node.name}
        sim.run_until_quiet()
        assert [datas(subs[node]) for node in others] == [[b"last"]] * 3


def test_window_per_conduit() -> None:
    """002-9: two conduits would have windows of one size, or a writer would be stopped at another fill."""
    sizes = [64 << 10, 4 << 20]
    with Sim() as sim:
        a = sim.node(
            "a",
            multicasts=2,
            multicast_to=GROUPS,
            multicast_bytes=sizes,
            multicast_samples=[1024, 65536],
        )
        b = sim.node("b", multicasts=2, multicast_to=GROUPS)
        small = a.publisher("small", conduit=0, way="multicast")
        large = a.publisher("large", conduit=1, way="multicast")
        b.subscriber("small", depth=1), b.subscriber("large", depth=1)
        sim.run_until_quiet()
        windows = [a.window(0), a.window(1)]
        assert [w and w.size_bytes for w in windows] == sizes
        assert [fill(small, 1024), fill(large, 1024)] == [64, 4096]
        used = [a.window(0), a.window(1)]
        assert [w and w.used_bytes for w in used] == sizes
        assert small.put(b"", wait=False) is False


def test_window_per_peer() -> None:
    """002-10: a peer's own window size would not be used, or would change what others have."""
    with Sim() as sim:
        a, b, c = sim.node("a", unicast_bytes=8192), sim.node("b"), sim.node("c")
        a.peer_window(b, bytes_max=4096, samples_max=64)
        to_b, to_c = a.publisher("b", way="unicast"), a.publisher("c", way="unicast")
        b.subscriber("b", depth=1), c.subscriber("c", depth=1)
        sim.run_until_quiet()
        assert to_b.window is not None
        assert to_c.window is not None
        assert (to_b.window.size_bytes, to_c.window.size_bytes) == (4096, 8192)
        assert (fill(to_b, 256), fill(to_c, 256)) in {(16, 32), (15, 31)}  # what wraps wastes one


# ---- unicast ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_unicast(seed: int, reliable: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """002-25: samples of a publisher that asked for unicast would go to a group, or to somebody else."""
    with Sim(seed) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="unicast", reliable=reliable)
        sub = b.subscriber("x", depth=256)
        c.subscriber("y")
        sim.run_until_quiet()
        if reliable:
            sim.link(loss=0.1, reorder=0.1, jitter=0.001)
        start = sim.now_ns
        for i in range(50):
            pub.put(b"%d" % i)
            sim.run(0.001)
        pub.put(bytes(20_000))  # in fragments
        sim.link(loss=0.0)
        sim.run_until_quiet()
        sim.run(0.1)  # best effort is nothing that one waits for
        got = datas(sub)
        assert got == [*(b"%d" % i for i in range(50)), bytes(20_000)]
        carried = [p for p, m in data(sim, a, since=start)]
        assert len(carried) >= 51 + 20_000 // 1472
        assert {(p.target, p.to) for p in carried} == {("b", b.endpoint)}
        assert pub.conduit is not None
        assert pub.conduit < 0


@pytest.mark.parametrize("seed", SEEDS)
def test_second_subscriber_is_rejected(seed: int) -> None:
    """002-26: a second subscriber would get what is for one, disturb the first, or be kept out after the first has left."""
    with Sim(seed) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.link(loss=0.1 * (seed % 2))
        pub = a.publisher("x", way="unicast")
        first = b.subscriber("x", depth=64)
        pub.wait_matched()
        first.wait_settled()
        second = c.subscriber("x", depth=64)
        with pytest.raises(RejectedError, match="for one subscriber alone") as caught:
            second.wait_settled()
        assert caught.value.status == second.status == "rejected"
        assert [e.of for e in c.events() if e.kind == "rejected"] == [second]
        for i in range(10):
            pub.put(b"%d" % i)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert numbers(first) == list(range(10))
        assert numbers(second) == []
        assert first.status == "settled"
        assert pub.matched == ["b"]
        first.close()
        sim.run(0.1)
        assert pub.matched == []
        second.close()
        third = c.subscriber("x", depth=64)
        third.wait_settled()
        assert pub.matched == ["c"]
        for i in range(10, 20):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert numbers(third) == list(range(10, 20))


def test_rejected_after_a_crash() -> None:
    """002-26: the first subscriber's crash would keep the second one out for ever."""
    with Sim(defaults={"lease": 0.5}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="unicast")
        b.subscriber("x")
        pub.wait_matched()
        second = c.subscriber("x")
        sim.run_until_quiet()
        assert second.status == "rejected"
        b.crash()
        sim.run(1.0)
        second.close()
        third = c.subscriber("x")
        third.wait_settled()
        assert pub.matched == ["c"]
        pub.put(b"x")
        assert bytes(third.recv().data) == b"x"


# ---- a way that changes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(16))
def test_automatic_way(seed: int) -> None:
    """002-27: while the number of subscribers changes under load a sample would be lost, repeated, or overtake another."""
    with Sim(seed) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="auto")
        one = b.subscriber("x", depth=4096)
        sim.run_until_quiet()
        if seed % 4:
            sim.link(loss=0.1, duplicate=0.02, reorder=0.05, jitter=0.002)
        count = 0

        def load(samples: int) -> tuple[int, int]:
            """That many samples; their numbers."""
            nonlocal count
            begin = count
            for _ in range(samples):
                pub.put(b"%d" % count)
                count += 1
                sim.run(0.0007)
            return begin, count

        start = sim.now_ns
        alone = load(60)
        two = c.subscriber("x", depth=4096)
        load(60)
        pub.wait_matched(2)
        both = load(60)
        two.close()
        load(60)
        while len(pub.matched) > 1:
            load(1)
        again = load(60)
        third = c.subscriber("x", depth=4096)
        load(40)
        sim.link(loss=0.0, duplicate=0.0, reorder=0.0)
        sim.run_until_quiet()
        assert numbers(one) == list(range(count))
        later = numbers(third)
        assert later == list(range(later[0], count)) if later else pub.matched == ["b", "c"]
        ways: dict[int, bool] = {}
        for packet, message in data(
            sim, a, since=start
        ):  # what one of a group lacks goes to it alone
            ways.setdefault(int(bytes(message.payload)), packet.to.multicast)
        assert not any(ways[i] for i in range(*alone))
        assert all(ways[i] for i in range(*both))
        assert not any(ways[i] for i in range(*again))
        in_order = [ways[i] for i in range(count)]
        changes = sum(x != y for x, y in pairwise(in_order))
        assert changes == 3
        assert {p.target for p in sent(sim, a) if not p.to.multicast} == {"b", "c"}


@pytest.mark.parametrize("seed", SEEDS)
def test_automatic_way_of_two(seed: int) -> None:
    """002-27: the subscriber that came second would get samples out of order, twice or with one missing in the middle."""
    with Sim(seed, loss=0.08, jitter=0.002) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="auto")
        rand = random.Random(seed)
        subs = {b: b.subscriber("x", depth=4096), c: None}
        sim.run_until_quiet(timeout=30.0)
        runs: list[list[int]] = []
        since = {b: 0, c: 0}
        count = 0
        for _ in range(6):
            who = rand.choice([b, c])
            sub = subs[who]
            if sub is None:
                subs[who] = who.subscriber("x", depth=4096)
                since[who] = count
            elif all(subs.values()):
                sub.close()
                subs[who] = None
            for _ in range(rand.randrange(20, 60)):
                pub.put(b"%d" % count)
                count += 1
                sim.run(0.001)
            # What its predecessor was to have may still be on its way, and is no part of what it subscribed to.
            runs += [
                [number for number in numbers(sub) if number >= since[node]]
                for node, sub in subs.items()
                if sub is not None
            ]
        for got in runs:
            assert got == list(range(got[0], got[-1] + 1)) if got else True
        sim.link(loss=0.0)
        sim.run_until_quiet()


@pytest.mark.parametrize("written", [0, 2000, None])
@pytest.mark.parametrize("joins", [False, True])
def test_way_changes_while_a_sample_is_in_pieces(
    joins: bool,  # noqa: FBT001
    written: int | None,
) -> None:
    """002-27: what is put after a sample that was begun before its way changed would overtake it, and those before it."""
    with Sim() as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x", way="auto")
        one = b.subscriber("x", depth=64)
        two = None if joins else c.subscriber("x", depth=64)
        pub.wait_matched(1 if joins else 2)
        sim.run_until_quiet()
        sim.link(a, b, loss=1.0 if written is None else 0.0)
        pub.put(b"before")
        given_up = pytest.raises(ValueError, match="dropped") if written is None else nullcontext()
        with given_up, pub.stream(3000) as stream:
            stream.write(bytes(2000 if written is None else written))
            sim.run(0.005)
            if two is None:
                two = c.subscriber("x", depth=64)
            else:
                two.close()
            while len(pub.matched) != (2 if joins else 1):
                sim.run(0.001)
            sim.run(0.005)
            sim.link(a, b, loss=1.0)
            if written is not None:
                stream.write(bytes(3000 - written))
        sim.run(0.002)
        sim.link(a, b, loss=0.0)
        pub.put(b"after")
        sim.run_until_quiet()
        whole = [3000] if written is not None else []
        assert [len(got) for got in datas(one)] == [len(b"before"), *whole, len(b"after")]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_a_group_comes_back_alone(seed: int) -> None:
    """002-27: who left a group, lacking samples, and came back as the only one would get them after later ones."""
    for part in range(seed * 12, seed * 12 + 12):
        with Sim(part, jitter=0.001) as sim:
            a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
            pub = a.publisher("x", way="auto")
            one, two = b.subscriber("x", depth=64), c.subscriber("x", depth=64)
            pub.wait_matched(2)
            sim.run_until_quiet()
            sim.link(a, c, loss=0.6, jitter=0.004)
            for number in range(3):
                pub.put(b"%d" % number)
            sim.run(0.002)
            two.close()
            while len(pub.matched) > 1:
                sim.run(0.0005)
            one.close()
            while pub.matched:
                sim.run(0.0005)
            back = c.subscriber("x", depth=64)
            for _ in range(400):
                sim.run(0.0005)
                if pub.matched:
                    break
            for number in range(3, 7):
                pub.put(b"%d" % number)
                sim.run(0.0003)
            sim.link(a, c, loss=0.0, jitter=0.0)
            sim.run_until_quiet()
            got = numbers(back)
            assert got == sorted(got), f"seed {part}"
