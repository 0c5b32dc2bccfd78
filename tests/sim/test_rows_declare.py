"""
Declarations on whole nodes: how they settle, which contradict each other, and what their names and properties say.
"""

from __future__ import annotations

import random
import re

import pytest

from pyddsi import wire
from pyddsi.errors import ConflictError, InvalidNameError
from pyddsi.testing import Sim
from tests.sim.rows_looks import committed, data, declared, numbers, synched

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
        assert len(told) < 20  # and not without a pause


def test_try_again_lasts() -> None:
    """002-2: on fast links a contested definition would be given up before the contest is over."""
    with Sim(delay=0.0001, defaults={"latency": 0.0}) as sim:
        a, b, c = sim.node("a", lease=3.0), sim.node("b"), sim.node("c")
        sim.run_until_quiet()
        sim.cut(a, b)
        a.resource("plant/one", number=3)
        sim.run(0.0005)
        two = b.resource("plant/two", number=3)
        sim.run(1.0)  # b has not heard of a for a second when c hears it for the last time
        a.crash()
        sim.run(5.0)
        assert [peer.name for peer in c.peers() if peer.state == "established"] == ["b"]
        assert two.status == "settled"


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
            node = next(n for n in sim.nodes if resource in n.declared.values())
            told = [e for e in node.events() if e.kind == "declared" and e.of is resource]
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
        a.publisher(5)
        b.subscriber(5, reliable=False)
        a.resource("w", number=6, reliable=False, durability="transient")
        sim.run_until_quiet()
        found = {d.id: properties(d) for _, d in declared(sim, PUBLICATION, a)}
        assert found[1][6] == b"\0"
        assert found[2].get(6, b"\1") == b"\1"
        assert found[3][8] == b"\1"
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
