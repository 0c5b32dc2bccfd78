"""
What peers are told and when, what matches, and what is left of a peer that is gone.
"""

from __future__ import annotations

import random

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Publisher, Sim, Subscriber
from tests.py.worlds import datas
from tests.sim.rows_looks import committed, data, declared, numbers, spoken, synched
from tests.sim.stranger import Stranger, features

SEEDS = range(6)
RESOURCE, SUBSCRIPTION, PUBLICATION = wire.Resource, wire.Subscription, wire.Publication


# ---- order, newcomers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_newcomers_at_any_moment(seed: int) -> None:
    """002-36: between what is declared anew and what a newcomer is told something would be missing, or come back to life."""
    rand = random.Random(seed)
    topics = [f"topic/{i}" for i in range(6)]
    with Sim(seed, loss=0.1, jitter=0.002, defaults={"open": 0.1, "scout": 0.1}) as sim:
        tellers = [sim.node(f"teller{i}") for i in range(2)]
        subs: dict[tuple[Node, str], Subscriber] = {}
        hearers: list[Node] = []
        pubs: dict[tuple[Node, str], Publisher] = {}
        for _ in range(60):
            key = rand.choice(tellers), rand.choice(topics)
            if key in subs:
                subs.pop(key).close()
            else:
                subs[key] = key[0].subscriber(key[1], depth=64)
            if len(hearers) < 4 and rand.random() < 0.15:
                hearers.append(sim.node(f"hearer{len(hearers)}"))
                pubs |= {(hearers[-1], topic): hearers[-1].publisher(topic) for topic in topics}
            sim.run(rand.random() * 0.02)
        sim.link(loss=0.0)
        sim.run(2.0)
        sim.run_until_quiet()
        assert hearers
        for (_, topic), pub in pubs.items():
            assert pub.matched == sorted(teller.name for teller, name in subs if name == topic)
        for sub in subs.values():
            list(sub)
        for (hearer, topic), pub in pubs.items():
            pub.put(f"{hearer.name} {topic}".encode())
        sim.run_until_quiet()
        for (_, topic), sub in subs.items():
            assert sorted(datas(sub)) == sorted(f"{h.name} {topic}".encode() for h in hearers)


def test_declaring_does_not_wait() -> None:
    """002-37: declaring would let time pass, or its status would not say how it stands."""
    with Sim(delay=0.05) as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.run_until_quiet()
        before = sim.now_ns
        made = [
            a.resource("r"),
            a.publisher("x"),
            a.subscriber("y"),
            a.subscriber("z", where="$size > 1"),
        ]
        assert sim.now_ns == before
        assert [one.status for one in made] == ["pending"] * 4
        sim.run(0.04)
        assert [one.status for one in made] == ["pending"] * 4
        for one in made:
            one.wait_settled()
        assert 0.1 <= sim.now - before / 1e9 <= 0.2
        assert b.declared == {}
        before = sim.now_ns
        for one in made:
            one.close()
        assert sim.now_ns == before


def test_declarations_leave_together() -> None:
    """002-93: new declarations would wait for a timer, or need a packet and a commit each."""
    with Sim() as sim:
        a, b = sim.node("a", latency=0.0), sim.node("b")
        sim.run_until_quiet()
        before = sim.now_ns
        for number in (1, 2, 3):
            a.publisher(number)
        for number in (4, 5, 6):
            a.subscriber(number)
        sim.run(0.0)
        sim.run(0.2)
        found = declared(sim, wire.Declaration, a, since=before)
        kinds = [type(d) for _, d in found]
        assert kinds.count(PUBLICATION) == kinds.count(SUBSCRIPTION) == 3
        assert kinds.count(wire.Commit) == 1
        assert kinds[-1] is wire.Commit
        assert len(kinds) == 7
        assert {p.sent_ns for p, _ in found} == {before}
        assert b.declared == {}


# ---- matches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_first_sample_of_a_new_publisher(seed: int, pattern: bool) -> None:  # noqa: FBT001 - a parameter
    """002-94: a publisher that is declared after a subscription would not know of it, and its first sample be lost."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        sub = b.subscriber("plant/*" if pattern else "plant/x")
        sim.run_until_quiet()
        sim.link(loss=0.2)
        pub = a.publisher("plant/x")
        if pattern:  # the subscriber has first to hear of the name
            pub.wait_matched()
        pub.put(b"first")
        assert bytes(sub.recv().data) == b"first"


@pytest.mark.parametrize("seed", range(20))
def test_match_in_either_order(seed: int) -> None:
    """002-95: a publication and a subscription that pass each other on the way would miss each other."""
    rand = random.Random(seed)
    with Sim(seed, jitter=0.003, loss=0.1 * (seed % 2)) as sim:
        a, b = sim.node("a"), sim.node("b")
        if seed % 3:
            sim.run_until_quiet()
        pubs: list[Publisher] = []
        subs: list[Subscriber] = []
        steps = ["pub"] * 5 + ["sub"] * 5
        rand.shuffle(steps)
        for step in steps:
            if step == "pub":
                pubs.append(a.publisher(f"t/{len(pubs)}"))
            else:
                subs.append(
                    b.subscriber(f"t/{len(subs)}" if len(subs) % 2 else f"t/{len(subs)}*", depth=8)
                )
            sim.run(rand.random() * 0.004)
        for pub in pubs:
            pub.wait_matched()
        sim.link(loss=0.0)
        sim.run_until_quiet()
        for pub in pubs:
            assert pub.matched == ["b"]
            pub.put(str(pub.name).encode())
        sim.run_until_quiet()
        assert [datas(sub) for sub in subs] == [[b"t/%d" % i] for i in range(5)]


def test_publisher_without_subscriber_is_silent() -> None:
    """002-96: a publisher that nobody wants would send, or not be told from one that somebody wants."""
    with Sim(defaults={"lease": 60.0, "scout": 60.0}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        wanted, unwanted = a.publisher("wanted"), a.publisher("unwanted")
        b.subscriber("wanted"), c.subscriber("other")
        sim.run_until_quiet()
        assert (wanted.matched, unwanted.matched) == (["b"], [])
        sim.run(1.0)
        start, before = sim.now_ns, a.stats()
        for _ in range(100):
            unwanted.put(bytes(1000))
        sim.run(0.3)
        assert data(sim, a, since=start) == []
        assert spoken(sim, wire.Synch, a, since=start) == []
        after = a.stats()
        assert after.unmatched - before.unmatched == after.accepted - before.accepted == 100
        assert after.owed == before.owed


# ---- newcomers, transactions, leaving ---------------------------------------------------------------------------


def test_newcomer_is_told_once() -> None:
    """002-98: a newcomer would miss a declaration of the past, or be told one twice."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        for i in range(20):
            a.resource(f"r/{i}"), a.publisher(f"p/{i}"), a.subscriber(f"s/{i}")
            b.subscriber(f"p/{i}")
        sim.run_until_quiet()
        gone = a.subscriber("gone")
        sim.run_until_quiet()
        gone.close()
        sim.run(0.1)
        sim.run_until_quiet()
        start = sim.now_ns
        c = sim.node("c")
        sim.run(1.0)
        sim.run_until_quiet()
        for teller in (a, b):
            told = [
                (type(d).__name__, d.id)
                for p, d in declared(sim, wire.Declaration, teller, since=start)
                if p.target == "c" and isinstance(d, (RESOURCE, PUBLICATION, SUBSCRIPTION))
            ]
            expected = [
                (kind, one.number)
                for one in teller.declared.values()
                if (
                    kind := {"publisher": "Publication", "subscriber": "Subscription"}.get(
                        one.KIND, "Resource"
                    )
                )
            ]
            assert sorted(told) == sorted(expected)
        assert not [
            p for p, d in declared(sim, wire.Declaration, a, since=start) if p.target == "b"
        ]
        assert c.declared == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_established_are_told(seed: int) -> None:
    """002-99: declarations would be sent to one with whom there is no session yet."""
    with Sim(
        seed, loss=0.3, delay=0.005, jitter=0.002, defaults={"open": 0.05, "scout": 0.1}
    ) as sim:
        a, b = sim.node("a"), sim.node("b")
        for node in (a, b):
            for i in range(5):
                node.publisher(f"p/{i}"), node.subscriber(f"s/{i}")
        sim.run(1.0)
        c = sim.node("c")
        c.subscriber("p/1")
        sim.run(1.0)
        told = 0
        for teller in (a, b, c):
            since: dict[str | None, int] = {}
            for e in teller.events():
                if e.kind in {"connected", "reconnected"}:
                    since.setdefault(e.peer, e.time_ns)
            first: dict[str | None, int] = {}
            for p, _ in spoken(sim, wire.Declare, teller):
                first.setdefault(p.target, p.sent_ns)
            assert all(since[peer] <= at for peer, at in first.items())
            told += len(first)
        assert told >= 4
        # and none at all to one who never accepts
        stranger = Stranger(sim, a)
        stranger.say(wire.Hello(4, []))
        sim.run(1.0)
        heard = stranger.packets()
        kinds = {type(m) for p in heard if p.to == stranger.endpoint for m in p.messages}
        assert kinds == {wire.Open}


@pytest.mark.parametrize("how", ["abort", "close", "fault"])
def test_aborted_transaction(how: str) -> None:
    """002-100: a transaction that is never committed, or is refused, would leave something in force."""
    with Sim() as sim:
        a = sim.node("a")
        pub = a.publisher(3)
        stranger = synched(sim, a)
        part = [RESOURCE(3, "/x"), SUBSCRIPTION(3, 1), PUBLICATION(9), RESOURCE(9, "/nine")]
        if how == "fault":
            (result,) = committed(stranger, 0, *part, RESOURCE(5, "/not good"))
            assert result.status == wire.Status.INVALID
        else:
            stranger.say(wire.Conduit(1), wire.Declare(0, part, sync=True))
            sim.run(0.1)
            if how == "close":
                stranger.say(wire.Close(stranger.id, 0))
                sim.run(0.1)
        assert pub.matched == []
        assert a.stats().unmatched == 0
        pub.put(b"nobody")
        assert a.stats().unmatched == 1
        if how != "abort":
            other = a.resource("another", number=9)
            sim.run(0.1)
            assert other.status != "conflict"
            assert a.resource("name", number=3).status != "conflict"


@pytest.mark.parametrize("seed", SEEDS)
def test_expiry_within_a_transaction(seed: int) -> None:
    """002-101: half a transaction of a peer that expired would become part of its next session's."""
    with Sim(seed) as sim:
        a = sim.node("a")
        pubs = [a.publisher(i) for i in (3, 4)]
        stranger = synched(sim, a, lease=5)
        stranger.say(wire.Conduit(1), wire.Declare(0, [SUBSCRIPTION(3, 1)], sync=True))
        sim.run(0.01 + seed * 0.05)
        assert stranger.state == "established"
        sim.run(1.0)
        assert [e.reason for e in a.events() if e.kind == "disconnected"] == ["lease"]
        again = Stranger(sim, a)
        again.meet(properties=features(127, session=2))
        again.begin(conduit=1)
        (result,) = committed(again, 0, SUBSCRIPTION(4, 1))
        assert result.status == wire.Status.OK
        assert [len(pub.matched) for pub in pubs] == [0, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_last_reader_leaves(seed: int) -> None:
    """002-102: a publisher would fall silent while somebody reads, or go on when nobody does any more."""
    rand = random.Random(seed)
    with Sim(seed, jitter=0.001, defaults={"lease": 0.5}) as sim:
        a = sim.node("a")
        nodes = [sim.node(name) for name in "bcd"]
        pub = a.publisher("t/x")
        subs = [node.subscriber(rand.choice(["t/x", "t/*", "**"]), depth=64) for node in nodes]
        subs += [nodes[0].subscriber("t/x", depth=64)]
        sim.run_until_quiet()
        rand.shuffle(subs)
        for i in range(4):
            pub.put(b"%d" % i)
            sim.run_until_quiet()
            assert [numbers(sub) for sub in subs] == [[i]] * len(subs)
            if rand.random() < 0.5 and len({s.node for s in subs}) == len(subs):
                subs.pop().node.crash()
            else:
                subs.pop().close()
            sim.run(1.2)
            assert pub.matched == sorted({sub.node.name for sub in subs})
        start = sim.now_ns
        pub.put(b"x")
        sim.run(0.5)
        assert data(sim, a, since=start) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_all_of_a_gone_peer_goes(seed: int) -> None:
    """002-103: a peer that is gone would go on holding a window, a name or a match, or a writer that waits for it."""
    with Sim(seed, defaults={"lease": 0.4}) as sim:
        a = sim.node("a", multicast_bytes=2048, multicast_samples=8, slow=60.0)
        b, c = sim.node("b"), sim.node("c")
        pub = a.publisher("x")
        mine = b.resource("named", number=3)
        b.subscriber("x", depth=1), b.publisher("named")
        good = c.subscriber("x", depth=64)
        sim.run_until_quiet()
        assert mine.status == "settled"
        b.crash()
        while pub.put(b"x", wait=False):
            sim.run(0.001)
        before = sim.now
        assert pub.put(b"waited", timeout=2.0)
        assert 0.1 < sim.now - before < 0.6
        assert pub.matched == ["c"]
        assert [p.name for p in a.peers() if p.state == "established"] == ["c"]
        sim.run(0.5)
        assert datas(good)[-1] == b"waited"
        assert (a.stats().in_flight, a.stats().rings_used) == (0, 0)
        other = a.resource("other", number=3)
        other.wait_settled()
        assert other.status == "settled"
