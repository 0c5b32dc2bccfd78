"""
What the application learns of peers that come, go and come back, how it ends a session, and what keeps one alive.
"""

from __future__ import annotations

import random

import pytest

from pyddsi import wire
from pyddsi.testing import Event, Node, NodeOptions, Sim
from tests.py.worlds import pair
from tests.sim.rows_looks import data, numbers, spoken
from tests.sim.stranger import Stranger, features

SEEDS = range(6)
ABOUT_PEERS = {"connected", "disconnected", "reconnected"}
FAST: NodeOptions = {"lease": 0.5, "scout": 0.2, "open": 0.1}


def of_peers(node: Node) -> list[Event]:
    """What the node has told of its peers since it was last asked."""
    return [event for event in node.events() if event.kind in ABOUT_PEERS]


def short(node: Node) -> list[tuple[str, str | None, str | None]]:
    """The same as words."""
    return [(event.kind, event.peer, event.reason) for event in of_peers(node)]


# ---- coming, going, coming back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_peer_comes(seed: int) -> None:
    """002-39: the application would not learn that a peer has come, learn it twice, or not who and where it is."""
    with Sim(seed, loss=0.2 * (seed % 2), defaults={"open": 0.1, "scout": 0.2}) as sim:
        a = sim.node("a")
        sim.run(0.5)
        assert of_peers(a) == []
        b, c = sim.node("b", incarnation=7), sim.node("c", incarnation=9)
        sim.run(3.0)
        for node, others in ((a, (b, c)), (b, (a, c))):
            events = of_peers(node)
            told = {event.peer: event for event in reversed(events)}  # the first of each
            assert {event.kind for event in told.values()} == {"connected"}
            assert set(told) == {other.name for other in others}
            if seed % 2 == 0:  # on bad links one side may give up, and begin anew
                assert len(events) == 2
            for other in others:
                event = told[other.name]
                assert event.endpoint == other.endpoint
                assert event.incarnation == {a: 1, b: 7, c: 9}[other]
                assert event.reason is None
                assert 0 < event.time_ns <= sim.now_ns


@pytest.mark.parametrize("delay", [0.001, 0.4])
def test_a_session_begins_at_once(delay: float) -> None:
    """
    002-84: setting up a session would wait for somebody's timer, and not for the way there and back alone: SCOUT, HELLO,
    OPEN and ACCEPT, each one way. Nobody does anything by the clock for an hour here.
    """
    slow: NodeOptions = {"scout": 3600.0, "open": 3600.0, "synch": 3600.0, "lease": 0.0}
    with Sim(1, delay=delay, defaults=slow) as sim:
        a = sim.node("a")
        sim.run(5.0)
        begun, way = sim.now_ns, round(delay * 1e9)
        b = sim.node("b")
        sim.run(10 * delay)
        for node, ways in ((a, 3), (b, 4)):
            (event,) = of_peers(node)
            assert event.kind == "connected"
            steps, more = divmod(event.time_ns - begun, way)
            assert (steps, more < 1000) == (ways, True)  # what is done at one time counts some ns


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["close", "crash", "malformed"])
def test_a_peer_goes(seed: int, how: str) -> None:
    """002-40: a peer's end would pass in silence, or for another reason than the real one."""
    with Sim(seed, defaults=FAST) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.run(0.1)
        for node in (a, b, c):
            of_peers(node)
        if how == "close":
            b.close()
        elif how == "crash":
            b.crash()
        else:
            b.pause(0.09)
            sim.inject(a, b"\x1f\xff\xff", source=b.endpoint)
        before = sim.now
        sim.run(0.08)
        if how == "crash":
            assert short(a) == []
            sim.run(0.6)
        reason = {"close": "ordinary", "crash": "lease", "malformed": "bytes"}[how]
        (event,) = of_peers(a)
        assert (event.kind, event.peer, event.reason) == ("disconnected", "b", reason)
        assert event.time_ns / 1e9 - before < (0.6 if how == "crash" else 0.01)
        assert short(c) == ([] if how == "malformed" else [("disconnected", "b", reason)])
        sim.run(0.2)
        here = {peer.name for peer in a.peers() if peer.state == "established"}
        assert here == ({"b", "c"} if how == "malformed" else {"c"})


@pytest.mark.parametrize("same_port", [True, False])
@pytest.mark.parametrize("down", [0.0, 0.2, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_peer_comes_back(seed: int, down: float, same_port: bool) -> None:  # noqa: FBT001 - parameters
    """002-41: a restarted peer would be taken for the old one, or its return told as something else, or not at all."""
    with Sim(seed, loss=0.1 * (seed % 2), defaults=FAST) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x")
        b.subscriber("x")
        pub.wait_matched()
        old = b.endpoint
        assert short(a) == [("connected", "b", None)]
        b.crash()
        sim.run(down)
        b.restart(same_port=same_port)
        sub = b.subscriber("x", depth=64)
        sim.run(2.0)
        told = of_peers(a)
        assert [event.kind for event in told] == ["disconnected", "reconnected"]
        assert told[0].reason in ({"lease"} if down > 1 else {"restart", "ordinary", "lease"})
        assert told[1].incarnation == 2
        assert told[1].endpoint == b.endpoint
        assert (b.endpoint == old) == same_port
        assert [p.incarnation for p in a.peers() if p.state == "established"] == [2]
        assert pub.matched == ["b"]
        for i in range(5):
            pub.put(b"%d" % i)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert numbers(sub) == [0, 1, 2, 3, 4]
        here = [
            event.kind for event in of_peers(b)
        ]  # its first session may be one that a had with the old b
        assert here in (["connected"], ["connected", "disconnected", "reconnected"])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_link_is_mended(seed: int) -> None:
    """002-41: after a break longer than the lease one side would take the session for the old one, and the other not."""
    with Sim(seed, defaults=FAST) as sim:
        pub, sub = pair(sim)
        a, b = pub.node, sub.node
        of_peers(a), of_peers(b)
        both = seed % 2 == 0
        sim.cut(a, b, both=both)
        sim.run(1.5)
        sim.heal()
        sim.run(1.5)
        sim.run_until_quiet()
        for node, other in ((a, "b"), (b, "a")):
            kinds = [event.kind for event in of_peers(node)]
            assert kinds, f"{node} was told nothing"
            assert kinds[0] == "disconnected"
            assert kinds[-1] == "reconnected"
            assert kinds.count("disconnected") == kinds.count("reconnected")
            assert other
        pub.put(b"1")
        assert bytes(sub.recv().data) == b"1"


@pytest.mark.parametrize("seed", range(10))
def test_events_alternate(seed: int) -> None:
    """002-39, 002-40, 002-41: in whatever order peers come and go, an event would be missing, or come twice."""
    rand = random.Random(seed)
    with Sim(seed, loss=0.05, jitter=0.002, defaults=FAST) as sim:
        nodes = [sim.node(name) for name in "abcd"]
        here: dict[str, set[str]] = {node.name: set() for node in nodes}
        known: dict[str, set[str]] = {node.name: set() for node in nodes}

        def follow() -> None:
            for node in nodes:
                if not node.running:
                    continue
                for event in of_peers(node):
                    assert event.peer is not None
                    if event.kind == "disconnected":
                        assert event.reason is not None
                        here[node.name].remove(event.peer)
                    else:
                        assert event.peer not in here[node.name]
                        again = event.peer in known[node.name]
                        assert event.kind == ("reconnected" if again else "connected")
                        here[node.name].add(event.peer)
                        known[node.name].add(event.peer)

        for _ in range(25):
            node, other = rand.sample(nodes, 2)
            match rand.randrange(5):
                case 0 if node.running:
                    node.crash()
                    here[node.name], known[node.name] = set(), set()
                case 1 if not node.running:
                    node.restart(same_port=rand.random() < 0.5)
                case 2:
                    sim.cut(node, other, both=rand.random() < 0.5)
                case 3:
                    sim.heal()
                case _ if node.running and other.name in here[node.name] and other.running:
                    node.close_session(other)
            sim.run(rand.random() * 0.8)
            follow()
        for node in nodes:
            if not node.running:
                node.restart()
        sim.heal()
        sim.link(loss=0.0)
        sim.run(4.0)
        follow()
        for node in nodes:
            assert here[node.name] == {other.name for other in nodes if other is not node}


# ---- ending a session -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [0, 5, 200])
def test_close_session(reason: int) -> None:
    """002-23: the session with that address would go on, one with another end, or one side not learn it, nor why."""
    with Sim(defaults={"scout": 60.0}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x")
        b.subscriber("x"), c.subscriber("x")
        sim.run_until_quiet()
        for node in (a, b, c):
            of_peers(node)
        start = sim.now_ns
        a.close_session(b, reason=reason)
        sim.run(0.01)
        closes = spoken(sim, wire.Close, since=start)
        assert [(p.source, p.target, m.reason) for p, m in closes] == [("a", "b", reason)]
        assert short(a) == [("disconnected", "b", "local")]
        name = {0: "ordinary", 5: "parameter", 200: "200"}[reason]
        assert short(b) == [("disconnected", "a", name)]
        assert short(c) == []
        assert pub.matched == ["c"]
        assert [p.name for p in a.peers() if p.state == "established"] == ["c"]
        assert [p.name for p in b.peers() if p.state == "established"] == ["c"]
        with pytest.raises(ValueError, match="node 'a' has no session with 'b'"):
            a.close_session(b)
        sim.run(120.0)
        assert [kind for kind, _, _ in short(a)] == ["reconnected"]
        assert pub.matched == ["b", "c"]


# ---- alive ------------------------------------------------------------------------------------------------------


def test_no_keepalive_beside_data() -> None:
    """002-38: KEEPALIVEs would be sent though data goes to all, or a lease end because they are left out."""
    with Sim(defaults={"lease": 1.0, "scout": 1000.0}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        pub = a.publisher("x")
        subs = b.subscriber("x", depth=64), c.subscriber("x", depth=64)
        sim.run_until_quiet()
        sim.run(1.0)
        start, before = sim.now_ns, a.stats().keepalives_out
        beaten = [b.stats().keepalives_out, c.stats().keepalives_out]
        for i in range(100):
            pub.put(b"%d" % i)
            sim.run(0.1)
            assert [numbers(sub) for sub in subs] == [[i], [i]]
        alone = [p for p, _ in spoken(sim, wire.KeepAlive, a, since=start) if len(p.messages) == 1]
        assert alone == []
        assert a.stats().keepalives_out == before
        assert b.stats().keepalives_out > beaten[0] + 20  # those who say nothing must
        assert c.stats().keepalives_out > beaten[1] + 20
        for node in (a, b, c):
            assert {event.kind for event in of_peers(node)} == {"connected"}


@pytest.mark.parametrize("way", ["unicast", "multicast to some"])
def test_keepalives_beside_data_for_some(way: str) -> None:
    """002-38: data that goes to some would be taken for a sign of life to all; and data to all then not."""
    with Sim(defaults={"lease": 1.0, "scout": 1000.0}) as sim:
        a, b = sim.node("a"), sim.node("b")
        other = ("239.255.0.9", 7447)  # c does not hear the group that a sends to
        options = {} if way == "unicast" else {"multicasts": 1, "multicast_to": [other]}
        c = sim.node("c", **options)  # type: ignore[arg-type]
        some = a.publisher("some", way="unicast" if way == "unicast" else "multicast")
        every = a.publisher("every")
        (
            b.subscriber("some", depth=1024),
            b.subscriber("every", depth=1024),
            c.subscriber("every", depth=1024),
        )
        sim.run_until_quiet()
        sim.run(1.0)
        start, before = sim.now_ns, a.stats().keepalives_out
        for _ in range(100):
            some.put(b"x")
            sim.run(0.05)
        assert len(data(sim, a, since=start)) >= 100
        assert 15 <= a.stats().keepalives_out - before <= 25  # each quarter of a lease
        if way == "unicast":
            before = a.stats().keepalives_out
            for _ in range(100):
                some.put(b"x")
                every.put(b"y")
                sim.run(0.05)
            assert a.stats().keepalives_out - before <= 1
        for node in (a, b, c):
            assert {event.kind for event in of_peers(node)} == {"connected"}


@pytest.mark.parametrize("lease", [0.2, 1.0, 5.0])
def test_no_lease_ends_in_silence(lease: float) -> None:
    """002-38: nodes that have nothing to say would lose each other."""
    with Sim(1, loss=0.1, defaults={"lease": lease, "scout": 1000.0}) as sim:
        nodes = [sim.node(name) for name in "abc"]
        sim.link(loss=0.0)
        sim.run(3.0)
        for node in nodes:
            of_peers(node)
        sim.run(20 * lease)
        assert [of_peers(node) for node in nodes] == [[], [], []]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_peer_moves(seed: int) -> None:
    """002-41: a peer that comes from another address would be taken for another one, or its move pass in silence."""
    with Sim(seed) as sim:
        a = sim.node("a")
        pub = a.publisher(3)
        here = Stranger(sim, a)
        here.meet(properties=features(127, session=1, secret=b"a secret"))
        here.begin(conduit=1)
        wants = [wire.Subscription(3, 1), wire.Commit(0)]
        here.say(wire.Conduit(1), wire.Declare(0, wants, sync=True))
        sim.run(0.1)
        assert pub.matched == [here.id.hex()]
        assert [event.kind for event in of_peers(a)] == ["connected"]
        there = Stranger(sim, a, host="10.9.9.8")
        there.open(properties=features(127, session=1, secret=b"a secret"))  # the same session
        sim.run(0.1)
        assert of_peers(a) == [], "it is asked first where it was"
        sim.run(1.0)
        (moved,) = of_peers(a)
        assert (moved.kind, moved.peer, moved.endpoint) == (
            "reconnected",
            here.id.hex(),
            there.endpoint,
        )
        assert pub.matched == [here.id.hex()]
        here.packets()
        there.packets()
        pub.put(b"x")
        sim.run(0.1)
        assert [p for p in here.packets() if p.to == here.endpoint] == []
        assert b"x" in {bytes(m.payload) for m in there.heard_of(wire.SData)}
