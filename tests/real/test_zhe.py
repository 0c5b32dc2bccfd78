"""
Nodes of pyddsi against the stand-in for zhe, in the simulator: they understand each other, and no node ever sends what the
real one would not survive, or would answer by ending the session.

It is long because each way of using a node beside zhe is here once: samples, sessions, declarations, and what is beyond zhe.
"""

from __future__ import annotations

import pytest

from pyddsi.testing import NodeOptions
from tests.real import zhe_bytes as wire
from tests.real.world import INTO, OUT, World
from tests.real.zhe_bytes import Limits, Message, Reader
from tests.real.zhe_config import CONFIGS, Config

P2P = CONFIGS["p2p"]
GROUPS = (("239.255.0.2", 7447), ("239.255.0.3", 7447))
SMALL: NodeOptions = {"seq_bits": 7, "rid_bits": 8}
EXTENDED = ((1, b"\x01\x3f"),)  # what a zhe never says of itself: all that it can do
ALL = list(range(30))


def heard(world: World, kind: int) -> list[Message]:
    """The messages of one kind that the node sent to the zhe, or to a group."""
    limits = Limits(world.zhe.config.seq_bits, 64, 5)
    zhes = set(world.net.zhes)
    packets = [data for _, source, _, data in world.net.log if source not in zhes]
    return [m for data in packets for m in Reader(data, limits).messages() if m.kind == kind]


def together(world: World) -> None:
    """Both find each other, talk, and nobody has anything to complain about."""
    world.matched()
    assert world.talk() == (ALL, ALL)
    assert world.complaints == []


# ---- samples both ways ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [14, 28, 56])
@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("names", [True, False], ids=["names", "numbers"])
def test_talk(bits: int, loss: float, names: bool) -> None:  # noqa: FBT001
    """002-112, 002-117, 002-121: with a zhe of that many bits a sample is lost, doubled, turned round, or forbidden."""
    together(World(P2P.changed(seq_bits=bits), names=names, loss=loss, seq_bits=bits))


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_talk_seven_bits(loss: float) -> None:
    """Numbers of 7 bits wrap round within a conversation, and a sample is lost there."""
    config = P2P.changed(seq_bits=7, multicast_samples=63)
    world = World(config, loss=loss, seq_bits=7)
    world.matched()
    assert world.talk(200) == (list(range(200)), list(range(200)))
    assert world.complaints == []


@pytest.mark.parametrize("seed", range(2, 6))
def test_talk_with_heavy_losses(seed: int) -> None:
    """002-121: where every fifth packet is lost, a repetition goes wrong."""
    together(World(loss=0.2, chance=seed))


def test_talk_plain() -> None:
    """A node without extensions is another one to zhe than one that has them."""
    together(World(features=set()))


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_small(loss: float) -> None:
    """A zhe without a unicast conduit, and without names, does not understand the node, or the other way round."""
    together(World(CONFIGS["p2p-small"], names=False, loss=loss, **SMALL))


def test_large() -> None:
    """A zhe with ids of 64 bits does not understand the node."""
    world = World(CONFIGS["p2p-large"].changed(commit_calls=100), rid_bits=64)
    together(world)


def test_mindeps() -> None:
    """A zhe with the least of everything does not understand the node."""
    together(World(CONFIGS["mindeps"], names=False, rid_bits=16))


def test_groups() -> None:
    """Samples by other groups than the scouting one do not arrive, or the node's list of them has another text."""
    together(World(P2P.changed(groups=GROUPS), multicasts=2, multicast_to=GROUPS))


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_client(loss: float) -> None:
    """002-112: a zhe that is a client does not find a node that is a broker, or does not understand it."""
    world = World(CONFIGS["client-large"], names=False, loss=loss, role="broker", seq_bits=11)
    together(world)


def test_narrow_client() -> None:
    """A client that knows one conduit only, with timers of 10 s, does not get along with a broker without multicast."""
    world = World(CONFIGS["client-nbiot"], names=False, role="broker", multicasts=0)
    together(world)


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_best_effort(loss: float) -> None:
    """Best effort is repeated, doubled or turned round; or without losses not all of it arrives."""
    world = World(names=False, loss=loss)
    world.zhe.publish(7, reliable=False)
    pub, sub = world.node.publisher(8, reliable=False), world.node.subscriber(7, depth=500)
    world.zhe.subscribe(8)
    world.net.run_until(lambda: pub.matched and world.zhe.tables.wanted(7), 30.0)
    for number in ALL:
        world.zhe.write(7, b"%d" % number, world.net.now)
        world.zhe.flush(world.net.now)
        pub.put(b"%d" % number)
        world.net.run(0.005)
    there = [int(one.payload) for one in world.zhe.received if one.subscription == 8]
    here = [int(bytes(one.data)) for one in sub]
    for got in (here, there):
        assert got == sorted(set(got))
        assert len(got) == len(ALL) if loss == 0 else len(got) > len(ALL) // 2
    assert world.complaints == []


def test_by_name_alone() -> None:
    """002-120: a sample by name alone, from either, does not come to who subscribes to a pattern that covers it."""
    world = World()
    world.matched()
    assert world.zhe.write_uri("/q/out", b"from zhe", world.net.now)
    world.zhe.flush(world.net.now)
    assert world.node.put("/z/in", b"from a node")
    world.net.run(1.0)
    assert [bytes(one.data) for one in world.sub] == [b"from zhe"]
    assert [(one.rid, one.payload) for one in world.zhe.received] == [(0, b"from a node")]
    assert world.complaints == []


@pytest.mark.parametrize("size", [0, 1, 127, 128, 1000, 1452])
def test_sizes(size: int) -> None:
    """A sample of a size that zhe can send and take does not arrive."""
    world = World(names=False)
    world.zhe.publish(5)
    world.zhe.subscribe(6)
    sub, pub = world.node.subscriber(5), world.node.publisher(6)
    world.net.run_until(lambda: pub.matched and world.zhe.tables.wanted(5), 30.0)
    assert world.zhe.write(5, bytes(size), world.net.now)
    world.zhe.flush(world.net.now)
    assert pub.put(bytes(size))
    world.net.run(1.0)
    assert [len(one.data) for one in sub] == [size]
    assert [len(one.payload) for one in world.zhe.received] == [size]
    assert world.complaints == []


# ---- sessions ---------------------------------------------------------------------------------------------------


def test_set_up() -> None:
    """002-112, 002-115: what the node says to set up a session is not what zhe asks for: P, the groups' text, a SYNCH first."""
    world = World()
    world.matched()
    opens = heard(world, wire.OPEN)
    assert opens
    assert all(one.properties is not None for one in opens)
    assert all(one.locators == [b"udp/239.255.0.1:7447"] for one in opens)
    (slot,) = (slot for slot in world.zhe.slots if slot is not None)
    assert list(world.zhe.multicast[0].members) == [slot.index]
    assert all(one.synched for conduit, one in slot.heard.items() if conduit <= 1)
    assert world.complaints == []


def test_lasts() -> None:
    """A session in which nobody writes ends: the node is silent for longer than its lease, or takes zhe for dead."""
    world = World()
    world.matched()
    world.net.run(21.0)
    assert world.zhe.peers == [world.node.id]
    assert not [event for event in world.node.events() if event.kind == "disconnected"]
    assert world.talk() == (ALL, ALL)
    assert world.complaints == []


@pytest.mark.parametrize("bits", [(28, 14), (14, 28), (7, 14)])
def test_other_length(bits: tuple[int, int]) -> None:
    """002-113: a node makes a session with a zhe whose numbers have another length, when it could know."""
    ours, theirs = bits
    world = World(P2P.changed(seq_bits=theirs), names=False, seq_bits=ours, scout=100.0)
    world.net.run(9.0)
    told = [one for one in world.zhe.violations if one.kind == "refuse"]
    assert {one.kind for one in world.zhe.violations} <= {"refuse"}
    assert ours == 14 or (told and world.zhe.peers == [])


@pytest.mark.parametrize("same_port", [True, False])
def test_node_restarts_after_its_lease(same_port: bool) -> None:  # noqa: FBT001
    """A node that was away for longer than its lease does not get a new session."""
    world = World()
    together(world)
    world.node.crash()
    world.net.run(6.0)
    assert world.zhe.peers == []
    world.node.restart(same_port=same_port)
    world.pub, world.sub = world.declare_node()
    together(world)


@pytest.mark.parametrize("same_port", [True, False])
def test_node_says_farewell(same_port: bool) -> None:  # noqa: FBT001
    """A node that closes and comes back at once does not get a new session, because zhe still has the old one."""
    world = World()
    together(world)
    world.node.close()
    world.net.run(0.1)
    assert world.zhe.peers == []
    world.node.restart(same_port=same_port)
    world.pub, world.sub = world.declare_node()
    together(world)


@pytest.mark.parametrize("same_port", [True, False])
@pytest.mark.parametrize("peer_id", [None, b"\xa1"], ids=["same id", "another id"])
@pytest.mark.parametrize("away", [0.5, 7.0])
def test_zhe_restarts(same_port: bool, peer_id: bytes | None, away: float) -> None:  # noqa: FBT001
    """A zhe that begins anew, with the same id or address or not, is not met again, or is taken for the old one."""
    world = World()
    together(world)
    zhe = world.zhe
    world.net.remove(zhe)
    world.net.run(away)
    world.reborn(peer_id, port=40000 if same_port else 41000)
    world.net.run_until(lambda: world.zhe.tables.wanted(OUT), 10.0)
    together(world)


def test_zhe_drops_silently() -> None:
    """A zhe that has dropped the session without a word is not met again, or samples are lost after that."""
    world = World()
    together(world)
    world.zhe.input(b"\x08", world.net_address, world.net.now)
    assert world.zhe.peers == []
    world.zhe.violations.clear()
    world.net.run_until(lambda: world.zhe.tables.wanted(OUT), 30.0)
    world.net.run(0.5)
    together(world)


def test_zhe_dies() -> None:
    """A zhe that is gone is not noticed when its lease is over."""
    world = World()
    together(world)
    world.net.remove(world.zhe)
    world.net.run(6.0)
    ends = [event for event in world.node.events() if event.kind == "disconnected"]
    assert [end.reason for end in ends] == ["lease"]
    assert not world.pub.matched


# ---- declarations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_commits_are_answered(loss: float) -> None:
    """002-117: a commit of a zhe gets no result, several, or another than 0, though all is well."""
    world = World(loss=loss, chance=2)
    together(world)
    world.zhe.resource(102, "/later")
    world.zhe.subscribe(102)
    late = world.node.publisher("/later")
    world.net.run_until(lambda: late.matched, 10.0)
    world.net.run_until(lambda: world.zhe.results, 10.0)
    assert world.zhe.results == [(world.node.id, 0, 0, 0)]
    late.put(b"1")
    world.net.run(1.0)
    assert [one.payload for one in world.zhe.received if one.subscription == 102] == [b"1"]
    assert world.complaints == []


def test_late_declarations_of_the_node() -> None:
    """002-117: what the node declares within a session does not take effect at zhe, or one of its commits is not answered."""
    world = World()
    together(world)
    pub, sub = world.node.publisher("/late/a"), world.node.subscriber("/late/b")
    world.zhe.resource(102, "/late/*")
    world.zhe.subscribe(102)
    world.zhe.publish(102)
    world.net.run_until(lambda: pub.matched and pub.status == sub.status == "settled", 10.0)
    sub.close()
    world.net.run(1.0)
    assert world.complaints == []


def test_conflict() -> None:
    """002-118: a name that zhe knows another for is not reported as a conflict, or ends the session again and again."""
    world = World()
    together(world)
    world.zhe.resource(500, "/of/zhe")
    refused = world.node.resource("/of/node", number=500)
    world.net.run(3.0)
    assert refused.status == "conflict"
    assert world.zhe.peers == [world.node.id]
    assert world.complaints == []


def test_names_too_many() -> None:
    """002-118: more names than zhe has room for are not reported, or hold up the others."""
    world = World()
    together(world)
    many = [world.node.resource(f"/many/{i}") for i in range(20)]
    world.net.run(3.0)
    assert {one.status for one in many} == {"settled", "no_space"}
    assert world.talk() == (ALL, ALL)
    assert world.complaints == []


def test_unsupported() -> None:
    """A subscription in a mode that zhe refuses is told to it, or ends the session."""
    world = World()
    together(world)
    world.node.subscriber(77, mode="pull")
    world.net.run(3.0)
    told = [d for m in heard(world, wire.DECLARE) for d in m.declarations]
    assert {d.mode for d in told if d.kind == wire.SUBSCRIPTION} == {wire.PUSH}
    assert world.zhe.peers == [world.node.id]
    assert world.complaints == []


# ---- what is beyond zhe -----------------------------------------------------------------------------------------


def busy(world: World) -> None:
    """The node does all that it can, to the zhe and to another node, which is all that zhe is not."""
    node = world.node
    other = world.sim.node("b")
    world.zhe.subscribe(7)
    pubs = [
        node.publisher(7, keep=16, durability="transient"),
        node.publisher("/busy/each", way="each"),
        node.publisher("/busy/auto", way="auto"),
        node.publisher("/busy/best", reliable=False),
        node.publisher("/busy/space", space=1),
    ]
    subs = [other.subscriber(name, depth=500) for name in (7, "/busy/**")]
    subs += [node.subscriber("/z/*", where="$size > 3", depth=500)]
    pull = other.subscriber("/busy/each", mode="pull", depth=500)
    world.net.run_until(
        lambda: len(pubs[0].matched) == 2 and all(p.matched for p in pubs[:4]), 20.0
    )
    for number in range(30):
        for pub in pubs:
            pub.put(b"%d" % number, wait=False)
            pub.put_many([b"many"] * 3)
            if number % 10 == 0 and pub is not pubs[3]:
                pub.put(bytes(5000), wait=False)
        if number == 15:
            pull.pull(4)
        if number == 20:
            subs.pop().close()
        world.net.run(0.004)
        for sub in subs:
            list(sub)
    other.close()
    world.net.run(2.0)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_gated(loss: float) -> None:
    """What a node and another do with each other beyond zhe reaches a zhe that hears the same group."""
    world = World(loss=loss)
    world.matched()
    busy(world)
    assert world.complaints == []
    assert {one.payload for one in world.zhe.received if one.subscription == 7} >= {b"0", b"29"}
    assert world.talk() == (ALL, ALL)


def boasting() -> Config:
    """A zhe that says it can do everything."""
    return P2P.changed(boast=EXTENDED)


def noticed(world: World) -> str:
    """The first complaint."""
    world.net.run(1.0)
    first = world.zhe.violations[0]
    return f"{first.kind}: {first.sentence}"


def boasted() -> World:
    """A world with such a zhe, which subscribes to number 7 and to all that is in /p."""
    world = World(boasting(), names=False)
    world.zhe.subscribe(7)
    return world


def test_notices_batches() -> None:
    """A batch that reaches a zhe goes unnoticed, so the tests above would show nothing."""
    world = boasted()
    pub = world.node.publisher(7)
    world.net.run_until(lambda: pub.matched, 10.0)
    pub.put_many([b"a", b"b", b"c"])
    assert "drop: §12 unknown or unimplemented kind 8 (BDATA)" in noticed(world)


def test_notices_fragments() -> None:
    """A fragment that reaches a zhe goes unnoticed."""
    world = boasted()
    pub = world.node.publisher(7)
    world.net.run_until(lambda: pub.matched, 10.0)
    pub.put(bytes(5000))
    assert "kind 18 (FRAG)" in noticed(world)


def test_notices_spaces() -> None:
    """A marker of a resource space that reaches a zhe goes unnoticed."""
    world = boasted()
    world.node.publisher(9, space=1)
    world.net.run(3.0)
    assert "kind 24 (RSPACE)" in noticed(world)


def test_notices_selections() -> None:
    """A subscription to a selection that reaches a zhe goes unnoticed."""
    world = boasted()
    world.node.subscriber("/sel", where="$size > 3")
    world.net.run(3.0)
    assert "fatal: §16.6 an odd rid" in noticed(world)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("0b 00 02", "kind 11 (PULL)"),
        ("14 00 00 00", "kind 20 (MIGRATE)"),
        ("11 00", "kind 17 (CONDUIT CLOSE)"),
        ("03 01 01 09 00 00", "§16.1"),
        ("f3 0e 00", "§16.5"),
        ("67 00 07 00", "§16.6"),
    ],
)
def test_notices(data: str, sentence: str) -> None:
    """What a node might send by mistake, on its way through the simulated network, goes unnoticed."""
    world = World()
    together(world)
    world.zhe.input(bytes.fromhex(data), world.net_address, world.net.now)
    (complaint,) = world.complaints
    assert sentence in complaint
    assert bytes.fromhex(data).hex(" ") in complaint


def test_numbers_of_subscriptions() -> None:
    """The zhe knows subscriptions of the node that nobody made, or not those that were made."""
    world = World(names=False)
    together(world)
    (slot,) = (slot for slot in world.zhe.slots if slot is not None)
    assert world.zhe.tables.remote[slot.index] == {OUT}
    assert world.pub.number == INTO


# ---- what zhe alone would not mend ----------------------------------------------------------------------------------


@pytest.mark.parametrize("same_port", [True, False])
def test_node_restarts_within_its_lease(same_port: bool) -> None:  # noqa: FBT001
    """
    A node that comes back within its lease would never hear of zhe's subscriptions: zhe takes it for the old one and repeats
    nothing. That it is so shows in the first SYNCH on zhe's unicast conduit, whose base is not 0. A CLOSE ends zhe's
    session, and all begins anew.
    """
    world = World()
    together(world)
    world.node.crash()
    world.net.run(0.5)
    world.node.restart(same_port=same_port)
    world.pub, world.sub = world.declare_node()
    world.matched(20.0)
    assert world.talk() == (ALL, ALL)


def test_masks_fit() -> None:
    """The node would ask zhe for 65 messages at once, which takes no notice of more than 32: half of each NACK in vain."""
    world = World()
    world.matched()
    for number in range(
        200
    ):  # S on every tenth is zhe's point of synchronisation: no SYNCH before it stops
        world.put(number)
        world.net.run(0.001)
    world.net.run(1.0)
    assert {one.mask >> 31 for one in heard(world, wire.ACKNACK) if one.mask is not None} == {0}


def test_first_synch_counts() -> None:
    """
    What zhe sends right behind its ACCEPT comes before the node has made the session of it; it would be written down as of
    an expired peer.
    """
    world = World()
    world.matched()
    assert not [drop for drop in world.node.drops() if drop.reason == "expired_peer"]


def test_one_synch_at_a_time() -> None:
    """A SYNCH would be sent twice in the same moment to a peer that is silent."""
    world = World(CONFIGS["client-nbiot"], names=False, role="broker")
    world.net.run(11.0)
    sent = [(at, data) for at, _, _, data in world.net.log if b"\xee" in data[:2]]
    assert len(sent) == len(set(sent))


def test_client_begins_at_once() -> None:
    """A broker throws away what a client of zhe says until its first SYNCH, which may come 10 s later: it begins without one."""
    world = World(CONFIGS["client-nbiot"], names=False, role="broker", multicasts=0)
    world.net.run_until(lambda: world.zhe.peers, 30.0)
    world.net.run_until(lambda: world.pub.matched, 2.0)
    world.net.run_until(lambda: world.zhe.tables.wanted(OUT), 2.0)
    assert world.zhe.write(OUT, b"1", world.net.now)
    world.zhe.flush(world.net.now)
    world.net.run(1.0)
    assert [bytes(one.data) for one in world.sub] == [b"1"]
    assert world.complaints == []


def test_narrow_client_survives() -> None:
    """A broker with a multicast conduit would number the unicast one 1, which kills a client that knows conduit 0 alone."""
    world = World(CONFIGS["client-nbiot"], names=False, role="broker")
    world.net.run(11.0)
    assert not world.zhe.dead


def test_length_is_told() -> None:
    """
    If a node of 14 bits does not say so (it need not), a zhe with 7 bits accepts it, until a number is too large. Property
    4 that says 14 is taken by a zhe with 14 bits, and refused by all others: at once, and not in the middle.
    """
    config = P2P.changed(seq_bits=7, multicast_samples=63)
    world = World(config, names=False)
    world.net.run(5.0)
    assert world.zhe.peers == []


def test_renewed_once() -> None:
    """A zhe that goes on in its old session after the CLOSE as well would be closed again and again."""
    world = World()
    together(world)
    world.node.crash()
    world.net.run(0.5)
    world.node.restart()
    world.pub, world.sub = world.declare_node()
    world.zhe._drop = lambda _slot: None  # type: ignore[method-assign,assignment]
    world.net.run(20.0)
    assert len([one for one in world.node.events() if one.kind == "disconnected"]) == 1
    assert len(heard(world, wire.CLOSE)) == 1
