"""
Declarations on whole nodes: how they settle, which contradict each other, what becomes of those that are taken back, and
what newcomers are told.
"""

from __future__ import annotations

import random
import re

import pytest

from pyddsi import wire
from pyddsi.errors import ClosedError, ConflictError, InvalidNameError
from pyddsi.testing import Node, NodeOptions, Publisher, Sim, Subscriber
from tests.py.worlds import datas, pair
from tests.sim.rows_looks import data, declared, numbers, spoken
from tests.sim.stranger import Stranger, features

SEEDS = range(6)
RESOURCE, SUBSCRIPTION, PUBLICATION = wire.Resource, wire.Subscription, wire.Publication


# ---- the same at the same moment --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_same_at_once(count: int, loss: float) -> None:
    """002-2: peers that define the same at the same moment would wait for each other for ever, or keep two definitions."""
    for seed in range(2):
        with Sim(seed, loss=loss, jitter=0.0005, log_bytes=0) as sim:
            nodes = [sim.node() for _ in range(count)]
            sim.run_until_quiet()
            begin = sim.now
            made = [node.resource("plant/robot", number=3) for node in nodes]
            pubs = [node.publisher("plant/robot") for node in nodes]
            subs = [node.subscriber("plant/robot", depth=64) for node in nodes]
            for declaration in (*made, *pubs, *subs):
                declaration.wait_settled(timeout=3.0)
            assert sim.now - begin < (0.1 if loss == 0 else 3.0)
            for pub in pubs:
                pub.wait_matched(count - 1)
            for i, pub in enumerate(pubs):
                pub.put(b"%d" % i)
            sim.link(loss=0.0)
            sim.run_until_quiet()
            for i, sub in enumerate(subs):
                assert sorted(numbers(sub)) == [j for j in range(count) if j != i]


@pytest.mark.parametrize("seed", SEEDS)
def test_try_again_is_repeated(seed: int) -> None:
    """002-2: a definition that was answered with "try again" would not be told again when it can be accepted."""
    with Sim(seed, jitter=0.0003, defaults={"lease": 0.5}) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.cut(a, b)  # so that c alone hears of both
        a.resource("plant/one", number=3)
        sim.run(0.0005)
        two = b.resource("plant/two", number=3)
        sim.run(0.1)
        assert two.status == "pending"
        a.crash()
        two.wait_settled(timeout=2.0)
        statuses = [r.status for packet, r in declared(sim, wire.Result, c) if packet.target == "b"]
        assert statuses[-1] == wire.Status.OK
        assert set(statuses[:-1]) == {wire.Status.TRY_AGAIN}
        told = [p for p, d in declared(sim, RESOURCE, b) if p.target == "c"]
        assert len(told) == len(statuses) >= 2
        assert len(told) < 10  # and not without a pause


@pytest.mark.parametrize("seed", SEEDS)
def test_conflict_is_final(seed: int) -> None:
    """002-3: a contradiction would stay pending, be repeated for ever, or not say which resource and which names."""
    with Sim(seed, loss=0.1) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        one, two = a.resource("plant/one", number=3), b.resource("plant/two", number=3)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        failed = [r for r in (one, two) if r.status == "conflict"]
        assert failed
        for resource in failed:
            with pytest.raises(ConflictError, match=r"number 3, contradicts") as caught:
                resource.wait_settled()
            assert caught.value.number == 3
            assert set(caught.value.names) == {"plant/one", "plant/two"}
            told = [e for e in resource.node.events() if e.kind == "declared" and e.of is resource]
            assert told[-1].status == "conflict"
        results = [r for _, r in declared(sim, wire.Result) if r.status != wire.Status.OK]
        assert {r.id for r in results} == {3}
        quiet = sim.now_ns
        sim.run(5.0)
        assert declared(sim, RESOURCE, since=quiet + 1) == []
        with pytest.raises(ConflictError, match="'plant/three' of node 'c', number 3"):
            c.resource("plant/three", number=3)


# ---- names ------------------------------------------------------------------------------------------------------

GOOD_NAMES = ["/a", "/a/b-c/D_9", "/**", "**", "/a/*/b", "/a?c/**/d", "/*b*", "/" + "x" * 200]
BAD_NAMES = [
    "",
    "/",
    "a",
    "//a",
    "/a/",
    "/a//b",
    "/a b",
    "/a\tb",
    "/a/b!",
    "/ok/ok/ok/ok/ok/ok\0",
    "/a/\u00e4",
    "/a#",
    "/a?{}x",
    "/a$ls",
    "/a/***/b\x7f",
    "/a/b/%41",
]

PATH = re.compile(
    rb"(?:/(?!/|$)|(?<!.)\*\*(?!/$))(?:[a-zA-Z0-9_?*-]|/(?!/|$))*"
)  # as a peer may write it


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_from_the_application(name: str) -> None:
    """002-18: a bad name would be taken from the application, or refused without a word about where it is wrong."""
    with Sim() as sim:
        a = sim.node("a")
        bad = name.removeprefix("/") if name in {"/a", "a"} else name
        if bad == "a":
            bad = "a/"  # without the slash it is a good name here
        for call in (a.resource, a.publisher, a.subscriber, lambda n: a.put(n, b"")):
            with pytest.raises(InvalidNameError):
                call(bad)
        sim.run(0.1)
        assert a.declared == {}


def committed(stranger: Stranger, sn: int, *items: wire.Declaration) -> list[wire.Result]:
    """The answers to a transaction of these, on the stranger's unicast conduit."""
    stranger.heard()
    stranger.say(wire.Conduit(1), wire.Declare(sn, [*items, wire.Commit(sn)], sync=True))
    stranger.sim.run(0.01)
    return [
        item
        for message in stranger.heard_of(wire.Declare)
        for item in message.declarations
        if isinstance(item, wire.Result)
    ]


def synched(sim: Sim, node: Node, peer_id: bytes = b"\xee\x01", lease: int = 0) -> Stranger:
    """A stranger with a session whose unicast conduit has begun at 0."""
    stranger = Stranger(sim, node, peer_id)
    stranger.meet(lease=lease, properties=features(127))
    stranger.begin(conduit=1)
    return stranger


def test_names_from_the_wire() -> None:
    """002-18: a bad name in a declaration would be taken, answered with something else than "invalid", or end the node."""
    for i, name in enumerate([*BAD_NAMES, *GOOD_NAMES]):
        with Sim(i) as sim:
            a = sim.node("a")
            stranger = synched(sim, a)
            first = {r.status for r in committed(stranger, 0, RESOURCE(3, name))}
            expected = wire.Status.OK if name in GOOD_NAMES else wire.Status.INVALID
            assert first == {expected}, name
            assert stranger.state == "established"
            again = {
                r.status for r in committed(stranger, 1, RESOURCE(4, "/good"), SUBSCRIPTION(4, 1))
            }
            assert again == {wire.Status.OK}


@pytest.mark.parametrize("seed", range(4))
def test_random_names_from_the_wire(seed: int) -> None:
    """002-18: some bytes for a name would be taken though they break a rule, refused though they do not, or end the node."""
    rand = random.Random(seed)
    alphabet = b"/ab*?-_$#{}\x00\xff 9"
    with Sim(seed) as sim:
        a = sim.node("a", resources_max=4096, names_bytes=1 << 20, remotes_max=4096)
        stranger = synched(sim, a)
        for sn in range(50):
            raw = bytes(rand.choice(alphabet) for _ in range(rand.randrange(0, 12)))
            text = raw.decode("utf-8", "surrogateescape")
            good = PATH.fullmatch(raw) is not None
            (status,) = {r.status for r in committed(stranger, sn, RESOURCE(1000 + sn, text))}
            assert (status == wire.Status.OK) == good, raw
            assert status in {wire.Status.OK, wire.Status.INVALID}
        assert stranger.state == "established"


# ---- quality of service -----------------------------------------------------------------------------------------


def properties(item: wire.Declaration) -> dict[int, bytes]:
    """The properties of a declaration."""
    return {p.id: bytes(p.value) for p in getattr(item, "properties", None) or ()}


def test_quality_in_properties() -> None:
    """002-19: reliability and durability would not stand in the declaration's properties."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        sim.run_until_quiet()
        a.publisher(1, reliable=False)
        a.publisher(2, reliable=True)
        a.publisher(3, durability="transient", keep=4)
        a.publisher(4, durability="persistent", keep=4)
        a.publisher(5)
        b.subscriber(5, reliable=False)
        a.resource("w", number=6, reliable=False, durability="transient")
        sim.run_until_quiet()
        found = {d.id: properties(d) for _, d in declared(sim, PUBLICATION, a)}
        assert found[1][6] == b"\0"
        assert found[2].get(6, b"\1") == b"\1"
        assert (found[3][8], found[4][8]) == (b"\1", b"\2")
        assert found[5].get(6, b"\1") == b"\1"
        assert found[5].get(8, b"\0") == b"\0"
        ((_, subscription),) = [
            (p, d) for p, d in declared(sim, SUBSCRIPTION, b) if p.target == "a"
        ]
        assert properties(subscription)[6] == b"\0"
        ((_, resource),) = declared(sim, RESOURCE, a)
        assert (properties(resource)[6], properties(resource)[8]) == (b"\0", b"\1")


@pytest.mark.parametrize("seed", SEEDS)
def test_quality_takes_effect(seed: int) -> None:
    """002-19: a best effort publisher would repeat, a reliable one not, or a late one would miss what is transient."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        best, sure = a.publisher("best", reliable=False), a.publisher("sure", reliable=True)
        kept = a.publisher("kept", durability="transient", keep=3)
        volatile = a.publisher("volatile", keep=3)
        sub_best, sub_sure = b.subscriber("best", depth=256), b.subscriber("sure", depth=256)
        sim.run_until_quiet()
        start = sim.now_ns
        sim.link(loss=0.3)
        for i in range(60):
            for pub in (best, sure, kept, volatile):
                pub.put(b"%d" % i)
            sim.run(0.001)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        sim.run(0.1)
        got = numbers(sub_best)
        assert 20 < len(got) < 60
        assert got == sorted(set(got))
        assert numbers(sub_sure) == list(range(60))
        flags = {m.rid: m.reliable for _, m in data(sim, a, since=start)}
        assert flags == {best.number: False, sure.number: True}
        late = b.subscriber("kept"), b.subscriber("volatile")
        sim.run_until_quiet()
        sim.run(0.1)
        assert [numbers(sub) for sub in late] == [[57, 58, 59], []]


def test_quality_of_a_declaration_from_the_wire() -> None:
    """002-19: the properties of a declaration that comes in would be skipped."""
    with Sim() as sim:
        a = sim.node("a")
        stranger = synched(sim, a)
        weak = [wire.Property(wire.PropertyId.RELIABILITY, b"\0")]
        assert committed(stranger, 0, RESOURCE(3, "/weak", properties=weak), SUBSCRIPTION(3, 1))
        assert committed(stranger, 1, RESOURCE(4, "/strong"), SUBSCRIPTION(4, 1))
        a.publisher(3).put(b"weak")
        a.publisher(4).put(b"strong")
        sim.run(0.1)
        found = {bytes(m.payload): m.reliable for m in stranger.heard_of(wire.SData)}
        assert found == {b"weak": False, b"strong": True}


@pytest.mark.parametrize("how", ["tag", "keyword", "remote"])
def test_quality_of_a_resource(how: str) -> None:
    """002-28: a publisher without a setting of its own would not do as its resource's definition says."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        if how == "tag":
            a.resource("x#{unreliable}")
        elif how == "keyword":
            a.resource("x", reliable=False)
        else:
            b.resource("x", reliable=False)
            sim.run_until_quiet()
        follows, own = a.publisher("x"), a.publisher("y")
        sub = b.subscriber("x"), b.subscriber("y")
        sim.run_until_quiet()
        start = sim.now_ns
        follows.put(b"1")
        own.put(b"2")
        sim.run(0.1)
        assert {m.rid: m.reliable for _, m in data(sim, a, since=start)} == {
            follows.number: False,
            own.number: True,
        }
        assert [[sample.reliable for sample in one] for one in sub] == [[False], [True]]


def test_own_setting_over_the_resource() -> None:
    """002-28: a publisher's own setting would not count where it and the definition differ."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        a.resource("x#{unreliable}")
        pub, sub = a.publisher("x", reliable=True), b.subscriber("x")
        sim.run_until_quiet()
        pub.put(b"1")
        assert sub.recv().reliable


@pytest.mark.parametrize("seed", SEEDS)
def test_late_definition(seed: int) -> None:
    """002-29: a definition that contradicts running traffic would change it, or pass unseen by one of both sides."""
    with Sim(seed, loss=0.05 * (seed % 2)) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher(7), b.subscriber(7, depth=256)
        pub.wait_matched()
        for i in range(5):
            pub.put(b"%d" % i)
        start = sim.now_ns
        weak = b.resource("x", number=7, reliable=False)
        with pytest.raises(ConflictError):
            weak.wait_settled()
        assert weak.status == "conflict"
        sim.run(0.05)
        here = [e for e in a.events() if e.kind == "qos_conflict"]
        there = [e for e in b.events() if e.kind == "qos_conflict"]
        assert [e.of for e in here] == [pub]
        assert [e.of for e in there] == [weak]
        for i in range(5, 20):
            pub.put(b"%d" % i)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert numbers(sub) == list(range(20))
        assert {m.reliable for _, m in data(sim, a, since=start)} == {True}
        a.restart()
        sim.run(1.0)
        sim.run_until_quiet()
        weak.close()
        sim.run(0.1)
        b.resource("x", number=7, reliable=False).wait_settled()
        again = a.publisher(7)
        again.wait_matched()
        start = sim.now_ns
        again.put(b"20")
        sim.run(0.1)
        assert {m.reliable for _, m in data(sim, a, since=start)} == {False}
        assert numbers(sub) == [20]


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
        pub, sub = a.publisher("x"), b.subscriber("x", depth=64)
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
            since = {
                e.peer: e.time_ns for e in teller.events() if e.kind in {"connected", "reconnected"}
            }
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
