"""
Names between nodes of pyddsi and a stand-in for zhe: whose number is used, and what becomes of one that is refused.
"""

from __future__ import annotations

import pytest

from pyddsi.errors import DeclarationError
from pyddsi.testing import Node, Publisher, Sim, Subscriber
from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS, Config
from tests.real.zhe_net import Net

NARROW = CONFIGS["mindeps"]  # ids of 16 bits, none above 552
POSE, NUMBER = "/plant/pose", 12
PATIENCE = 20.0
ALL = list(range(30))


class Meeting:
    """Nodes and one zhe in a network."""

    def __init__(self, config: Config = NARROW, nodes: int = 1, **options: object) -> None:
        self.sim = Sim(1)
        self.net = Net(self.sim)
        self.nodes = [self.sim.node(f"n{i}", **options) for i in range(nodes)]  # type: ignore[arg-type]
        self.zhe = Zhe(config, now=self.net.now)

    @property
    def node(self) -> Node:
        """The first of them."""
        return self.nodes[0]

    def join(self) -> None:
        """The zhe appears, and all become acquainted."""
        self.net.add(self.zhe)
        self.net.run_until(lambda: len(self.zhe.peers) == len(self.nodes), PATIENCE)

    def write(self, number: int, rid: int = NUMBER) -> None:
        """A sample of the zhe."""
        assert self.zhe.write(rid, b"%d" % number, self.net.now)
        self.zhe.flush(self.net.now)
        self.net.run(0.01)

    def put(self, publisher: Publisher, number: int) -> None:
        """A sample of a node."""
        publisher.put(b"%d" % number)
        self.net.run(0.01)

    @property
    def came(self) -> list[int]:
        """The samples that the zhe got."""
        return [int(one.payload) for one in self.zhe.received]

    def content(self) -> None:
        """The zhe has nothing to complain about."""
        assert self.net.complaints() == []


@pytest.mark.parametrize("first", ["zhe", "node", "late"])
@pytest.mark.parametrize("wanted", [POSE, "/plant/*", "/**"])
@pytest.mark.parametrize("config", ["mindeps", "p2p"])
def test_subscribe_by_name(config: str, wanted: str, first: str) -> None:
    """A subscription by name does not get the samples of a zhe that has named its resource, whoever was first."""
    meeting = Meeting(CONFIGS[config])
    made = [meeting.node.subscriber(wanted)] if first == "node" else []
    meeting.net.run(1.0)
    if first != "late":
        meeting.zhe.resource(NUMBER, POSE)
        meeting.zhe.publish(NUMBER)
    meeting.join()
    meeting.net.run(1.0)
    sub = made[0] if made else meeting.node.subscriber(wanted)
    if first == "late":
        meeting.net.run(1.0)
        meeting.zhe.resource(NUMBER, POSE)
        meeting.zhe.publish(NUMBER)
    meeting.net.run_until(lambda: meeting.zhe.tables.wanted(NUMBER), PATIENCE)
    meeting.net.run(1.0)
    for number in ALL:
        meeting.write(number)
    assert [int(bytes(one.data)) for one in sub] == ALL
    assert sub.status == "settled"
    meeting.content()


@pytest.mark.parametrize("first", ["zhe", "node"])
@pytest.mark.parametrize("named", [POSE, "/plant/?ose"])
def test_publish_by_name(named: str, first: str) -> None:
    """A publisher by name does not reach a zhe that subscribes to the name, or to a pattern; or by a number too wide for it."""
    meeting = Meeting()
    made = [meeting.node.publisher(POSE)] if first == "node" else []
    meeting.net.run(1.0)
    meeting.zhe.resource(NUMBER, named)
    meeting.zhe.subscribe(NUMBER)
    meeting.join()
    pub = made[0] if made else meeting.node.publisher(POSE)
    meeting.net.run_until(lambda: pub.matched, PATIENCE)
    for number in ALL:
        meeting.put(pub, number)
    assert meeting.came == ALL
    assert all(one.rid < 128 for one in meeting.zhe.received)
    meeting.content()


def test_numbers_of_others_stay() -> None:
    """A narrow zhe that has no names loses its session, or its plain numbers, because others publish names in its group."""
    meeting = Meeting(CONFIGS["p2p-small"], 2, seq_bits=7)
    meeting.zhe.subscribe(5)
    plain, named = meeting.node.publisher(5), meeting.node.publisher(POSE)
    sub = meeting.nodes[1].subscriber("/plant/*")
    meeting.join()
    meeting.net.run_until(lambda: plain.matched and named.matched, PATIENCE)
    for number in ALL:
        meeting.put(named, number)
        meeting.put(plain, number)
    assert meeting.came == ALL
    assert [int(bytes(one.data)) for one in sub] == ALL
    meeting.content()


@pytest.mark.parametrize("seed", range(3))
def test_joins_a_conversation(seed: int) -> None:
    """When a zhe joins, or one of us, what others publish by name is lost or doubled."""
    sim = Sim(seed)
    net = Net(sim, seed=seed)
    one, two = sim.node("one"), sim.node("two")
    zhe = Zhe(NARROW)
    zhe.resource(NUMBER, "/plant/*")
    zhe.subscribe(NUMBER)
    pub, sub = one.publisher(POSE), two.subscriber("/plant/*", depth=1000)
    later: list[Subscriber] = []
    net.run_until(lambda: pub.matched)
    got: list[int] = []
    for number in range(600):
        pub.put(b"%d" % number)
        net.run(0.01)
        if number == 50:
            net.add(zhe)
        if number == 400:
            later.append(sim.node("three").subscriber("/plant/pose", depth=1000))
        got += [int(bytes(one.data)) for one in sub]
    assert got == list(range(600))
    for got in (
        [int(one.payload) for one in zhe.received],
        [int(bytes(one.data)) for one in later[0]],
    ):
        assert got == list(range(got[0], 600))
    assert net.complaints() == []


def test_number_in_use() -> None:
    """A number that zhe uses for something else is given up for good, and the name with it."""
    meeting = Meeting()
    meeting.zhe.resource(NUMBER, "/plant/*")
    meeting.zhe.publish(NUMBER)
    for rid in range(64, 126):  # nearly all numbers that names get
        meeting.zhe.subscribe(rid) if rid % 2 else meeting.zhe.publish(rid)
    meeting.join()
    sub = meeting.node.subscriber(POSE)
    meeting.net.run_until(lambda: meeting.zhe.tables.wanted(NUMBER), PATIENCE)
    meeting.net.run(1.0)
    meeting.write(1)
    meeting.net.run(0.5)
    assert [int(bytes(one.data)) for one in sub] == [1]
    assert sub.status == "settled"
    meeting.content()


def test_no_room_for_names() -> None:
    """A zhe whose table of names is full is told a name that it has under a number that it has no room for."""
    meeting = Meeting(NARROW.changed(uris=2))
    sub = meeting.node.subscriber(POSE)
    meeting.net.run(1.0)
    meeting.zhe.resource(NUMBER, POSE)
    meeting.zhe.resource(NUMBER + 1, "/plant/map")
    meeting.zhe.publish(NUMBER)
    meeting.join()
    meeting.net.run_until(lambda: meeting.zhe.tables.wanted(NUMBER), PATIENCE)
    meeting.net.run(1.0)
    meeting.write(1)
    meeting.net.run(0.5)
    assert [int(bytes(one.data)) for one in sub] == [1]
    meeting.content()


def test_refused_for_good() -> None:
    """A name that a zhe never takes is refused without a word of who, and why."""
    meeting = Meeting(NARROW.changed(uris=1))
    meeting.zhe.resource(NUMBER, "/plant/map")
    meeting.join()
    sub = meeting.node.subscriber(POSE)
    meeting.net.run(2.0)
    assert sub.status == "no_space"
    told = [event for event in meeting.node.events() if event.kind == "rejected"]
    assert {(event.peer, event.status) for event in told} == {(meeting.zhe.id.hex(), "no_space")}
    meeting.content()


def test_program_takes_the_number() -> None:
    """A plain number that a program of ours begins to use is also that of a name, and samples mix."""
    meeting = Meeting(CONFIGS["p2p"], 2)
    meeting.join()
    named = meeting.node.subscriber(POSE, depth=200)
    meeting.net.run(1.0)
    (alias,) = (rid for rid in meeting.zhe.tables.remote[0])
    numbers = [alias, alias + 1, alias - 1]
    plain = [meeting.nodes[0].subscriber(number) for number in numbers]
    pubs = [meeting.nodes[1].publisher(number) for number in numbers]
    meeting.net.run_until(lambda: all(pub.matched for pub in pubs), PATIENCE)
    for number, pub in enumerate(pubs):
        pub.put(b"%d" % number)
    meeting.net.run(1.0)
    assert [[int(bytes(one.data)) for one in sub] for sub in plain] == [[0], [1], [2]]
    assert list(named) == []
    meeting.content()


@pytest.mark.parametrize("bits", [31, 54])
def test_wide_numbers(bits: int) -> None:
    """A number of zhe above 2^31 - 1 ends the session, or its samples do not come; one that is wider still ends it."""
    rid = (1 << bits) + 5
    meeting = Meeting(CONFIGS["p2p-large"].changed(commit_calls=100))
    meeting.zhe.resource((1 << 60) - 1, "/too/wide")
    meeting.zhe.subscribe((1 << 60) - 1)
    meeting.zhe.resource(rid, POSE)
    meeting.zhe.publish(rid)
    sub = meeting.node.subscriber(POSE)
    meeting.join()
    meeting.net.run_until(lambda: meeting.zhe.tables.wanted(rid), PATIENCE)
    meeting.net.run(1.0)
    meeting.write(7, rid)
    meeting.net.run(0.5)
    assert [int(bytes(one.data)) for one in sub] == [7]
    meeting.content()


# ---- ids of 8 bits ----

BYTE = CONFIGS["p2p-small"]
PLAIN = 5
ROOMY = {"seq_bits": 7, "resources_max": 400, "publishers_max": 200, "subscribers_max": 200}


def crowd(count: int) -> list[str]:
    """Names, more than fit numbers of 8 bits if there are many."""
    return [f"/plant/p{i}" for i in range(count)]


def kinds(node: Node, *wanted: str) -> list[str]:
    """What happened there, as far as it is of these kinds."""
    return [event.kind for event in node.events() if event.kind in wanted]


@pytest.mark.parametrize("kind", ["publisher", "subscriber"])
@pytest.mark.parametrize("uris", [0, 100])
def test_more_names_than_it_has_numbers(kind: str, uris: int) -> None:
    """A zhe with ids of 8 bits is told the 65th name by a number that ends its session, which begins anew, for ever."""
    meeting = Meeting(BYTE.changed(uris=uris), **ROOMY)
    meeting.zhe.subscribe(PLAIN)
    plain = meeting.node.publisher(PLAIN)
    made = [getattr(meeting.node, kind)(name) for name in crowd(70)]
    meeting.join()
    meeting.net.run(30.0)
    told = meeting.node.events()
    assert sum(event.kind == "reconnected" for event in told) == 2
    refused = [one for one in made if one.status != "settled"]
    assert {one.status for one in refused} == {"no_space"}
    assert (
        6 <= len(refused) <= 8
    )  # of the 64 it subscribes to 63 at most, and one may have tried the last one
    assert made[-1] in refused
    rejected = [event for event in told if event.kind == "rejected"]
    assert {(event.peer, event.status) for event in rejected} == {
        (meeting.zhe.id.hex(), "no_space")
    }
    with pytest.raises(DeclarationError, match="no room for another name"):
        made[-1].wait_settled()
    for number in ALL:
        meeting.put(plain, number)
    assert meeting.came == ALL
    meeting.net.run(30.0)
    assert kinds(meeting.node, "reconnected", "disconnected") == []


@pytest.mark.parametrize("way", ["put", "loan", "many", "best effort"])
def test_wide_names_among_others(way: str) -> None:
    """What others publish by a name that it was not told ends the session of such a zhe all the same."""
    meeting = Meeting(BYTE, 2, **ROOMY)
    meeting.zhe.subscribe(PLAIN)
    one, two = meeting.nodes
    reliable = way != "best effort"
    made = [one.publisher(name, reliable=reliable) for name in crowd(70)]
    plain = one.publisher(PLAIN)
    sub = two.subscriber("/plant/p69", depth=1000)
    meeting.join()
    meeting.net.run(30.0)
    kinds(one)
    for number in ALL:
        payload = b"%d" % number
        if way == "loan":
            with made[-1].loan(len(payload)) as memory:
                memory[:] = payload
        elif way == "many":
            made[-1].put_many([payload])
        else:
            made[-1].put(payload)
        meeting.net.run(0.01)
        meeting.put(plain, number)
    meeting.net.run(30.0)
    assert kinds(one, "reconnected", "disconnected") == []
    assert [int(bytes(sample.data)) for sample in sub] == ALL
    assert meeting.came == ALL


def test_number_of_a_program_is_too_wide() -> None:
    """A subscription to a number of more than 8 bits ends the session of such a zhe for ever."""
    meeting = Meeting(BYTE, **ROOMY)
    meeting.zhe.publish(PLAIN)
    plain, wide = meeting.node.subscriber(PLAIN), meeting.node.subscriber(300)
    meeting.join()
    meeting.net.run(30.0)
    assert kinds(meeting.node, "reconnected") == ["reconnected"] * 2
    assert (plain.status, wide.status) == ("settled", "invalid")
    for number in ALL:
        meeting.write(number, PLAIN)
    assert [int(bytes(sample.data)) for sample in plain] == ALL


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_wider_ids_take_all_names(bits: int) -> None:
    """A zhe with wider ids goes without names for the sake of narrow ones, or after sessions that ended for other reasons."""
    meeting = Meeting(BYTE.changed(rid_bits=bits, rid_max=30000, uris=100), **ROOMY)
    made = [meeting.node.subscriber(name) for name in crowd(70)]
    meeting.join()
    for _ in range(3):
        meeting.net.run(5.0)
        assert {one.status for one in made} == {"settled"}
        for slot in list(meeting.zhe.slots):
            if slot is not None:
                meeting.zhe._drop(slot)
    meeting.net.run(20.0)
    assert {one.status for one in made} == {"settled"}
    meeting.content()
