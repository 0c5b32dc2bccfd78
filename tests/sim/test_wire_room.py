"""
What happens where there is no room, or no time: all or nothing, nothing twice, and a line for each sample that is lost.
"""

from __future__ import annotations

from typing import Literal, Unpack

import pytest

from pyddsi import wire
from pyddsi.testing import Node, NodeOptions, Publisher, Sim
from tests.py.worlds import datas
from tests.sim.stranger import GROUP, Stranger, alone, features
from tests.sim.test_wire_states import held, leave

ALL, SIMPLE = 127, 124  # all features; all but batches and fragments
LARGE = bytes(3000)


def guest(
    sim: Sim, node: Node, index: int, bits: int, *wanted: wire.Declaration, group: bool = True
) -> Stranger:
    """A stranger with a session, that subscribes. Its next number is 1."""
    stranger = Stranger(sim, node, bytes([0xEE, index]), host=f"10.9.9.{index}")
    stranger.meet(locators=(GROUP,) if group else (), properties=features(bits, session=index))
    stranger.begin(conduit=1)
    stranger.say(wire.Conduit(1), wire.Declare(0, wanted, committed=True, sync=True))
    return stranger


def push(number: int) -> wire.Subscription:
    """A subscription that is pushed to."""
    return wire.Subscription(number, wire.Mode.PUSH)


def fill(pub: Publisher) -> int:
    """Writes into a window to one peer until it is full; the number that comes next there."""
    while pub.put(b"x", wait=False):
        pass
    assert pub.window is not None
    return pub.window.seq


def lines(node: Node) -> dict[tuple[str, str], int]:
    """The ledger: place and reason, and how many."""
    found: dict[tuple[str, str], int] = {}
    for drop in node.drops():
        found[drop.place, drop.reason] = found.get((drop.place, drop.reason), 0) + drop.count
    return found


class Mixed:
    """
    A publisher on a group of two, of whom one cannot read fragments: so a large sample goes to the other one alone,
    whose window is full.
    """

    def __init__(self, **options: Unpack[NodeOptions]) -> None:
        settings: NodeOptions = {"unicast_samples": 8, "unicast_bytes": 16384}
        settings.update(options)
        self.sim, self.node, _ = alone(**settings)
        self.pub = self.node.publisher(5, way="multicast")
        other = self.node.publisher(6, way="unicast")
        self.simple = guest(self.sim, self.node, 1, SIMPLE, push(5))
        self.able = guest(self.sim, self.node, 2, ALL, push(5), push(6))
        self.next = fill(other)

    def free(self) -> None:
        """There is room again."""
        self.able.say(wire.Conduit(1), wire.AckNack(self.next))
        self.sim.run(0.05)

    def payloads(self, stranger: Stranger) -> list[bytes]:
        """The first bytes of what was heard of resource 5."""
        return [bytes(m.payload)[:5] for m in stranger.heard_of(wire.SData) if m.rid == 5]


# ---- reliable ---------------------------------------------------------------------------------------------------


def test_unsupported_once() -> None:
    """A sample that cannot go now would leave a line for each time that it is tried, though it is one sample."""
    mixed = Mixed()
    for _ in range(5):
        assert not mixed.pub.put(LARGE, wait=False)
    assert ("put", "size") not in lines(mixed.node)
    mixed.free()
    assert mixed.pub.put(LARGE, wait=False)
    assert lines(mixed.node)["put", "size"] == 1


def test_unsupported_stream() -> None:
    """A stream that does not begin would leave a line for a sample that there is not."""
    mixed = Mixed()
    mixed.free()
    pubs = [mixed.node.publisher(100 + i, way="multicast") for i in range(17)]
    wanted = [push(100 + i) for i in range(17)]
    for stranger in (mixed.simple, mixed.able):
        for i, one in enumerate(wanted):
            stranger.say(wire.Conduit(1), wire.Declare(1 + i, [one], committed=True, sync=True))
    for pub in pubs[:16]:
        pub.stream(100_000).__enter__()
    assert lines(mixed.node)["put", "size"] == 16
    with pytest.raises(TimeoutError):  # a receiver has places for so many of one sender
        pubs[16].stream(100_000).__enter__()
    assert lines(mixed.node)["put", "size"] == 16


def test_put_many_is_all_or_none() -> None:
    """Of several samples the small ones would go before a large one finds no room, and go again with the next attempt."""
    mixed = Mixed()
    mixed.payloads(mixed.simple)
    for _ in range(3):
        assert not mixed.pub.put_many([b"small", b"large" + LARGE], wait=False)
    mixed.sim.run(0.05)
    assert mixed.payloads(mixed.simple) == []
    mixed.free()
    mixed.able.heard()
    assert mixed.pub.put_many([b"small", b"large" + LARGE], wait=False)
    mixed.sim.run(0.002)
    assert mixed.payloads(mixed.simple) == [b"small"]
    assert mixed.payloads(mixed.able)[:2] == [b"small", b"large"]


def test_guard_of_large_answers() -> None:
    """002-6: a handler whose large answer goes another way than a small one would be called without room there."""
    mixed = Mixed()
    asked = mixed.node.subscriber(7, guard={mixed.pub: len(LARGE)})
    mixed.simple.say(wire.Conduit(1), wire.SData(1, 7, b"?", reliable=True, sync=True))
    mixed.sim.run(0.05)
    assert datas(asked) == []
    mixed.free()
    assert datas(asked) == [b"?"]
    assert mixed.pub.put(LARGE, wait=False)


# ---- best effort ------------------------------------------------------------------------------------------------


def test_put_many_of_best_effort() -> None:
    """Of several samples of best effort the first would go, and then one be refused as too large."""
    sim, node, _ = alone()
    pub = node.publisher(5, reliable=False)
    stranger = guest(sim, node, 1, SIMPLE | 2, push(5))
    stranger.heard()
    with pytest.raises(ValueError, match="bytes"):
        pub.put_many([b"small", bytes(8 << 20)], wait=False)
    sim.run(0.05)
    assert stranger.heard_of(wire.SData) == []


def test_lost_batch_counts_its_samples() -> None:
    """A batch of best effort that had not left when its session ended would count as one sample."""
    sim, node, _ = alone(latency=1.0)
    pub = node.publisher(5, way="each", reliable=False)
    stranger = guest(sim, node, 1, ALL, push(5), group=False)
    assert pub.put_many([b"a", b"b", b"c", b"d", b"e"])
    stranger.say(wire.Close(stranger.id, 0))
    sim.run(0.01)
    assert lines(node)["packet", "peer_lost"] == 5


# ---- pulling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (2, 2), (2**32 - 1, 5), (None, 5)])
def test_pull_limit(limit: int | None, count: int) -> None:
    """002-13: the largest limit, or that of no sample at all, would be taken for another one."""
    sim, node, _ = alone()
    pub = node.publisher(5, keep=8)
    stranger = guest(sim, node, 1, ALL, wire.Subscription(5, wire.Mode.PULL))
    for i in range(5):
        pub.put(b"%d" % i)
    stranger.heard()
    stranger.say(wire.Conduit(1), wire.Pull(1, 5, limit=limit, sync=True))
    sim.run(0.005)
    answer = {m.sn: m.data_rid for m in stranger.heard_of(wire.SData)}
    assert [answer[sn] for sn in sorted(answer)] == [5] * count + [0]


def test_pull_asks_all_or_nobody() -> None:
    """A pull would count as asked though a publisher whose window was full has never heard of it."""
    mixed = Mixed()
    sub = mixed.node.subscriber(8, mode="pull")
    mixed.sim.run(0.05)
    mixed.simple.say(wire.Conduit(1), wire.AckNack(5))
    mixed.simple.heard()
    with pytest.raises(TimeoutError):
        sub.pull(timeout=0.05)
    assert mixed.simple.heard_of(wire.Pull) == []
    mixed.free()
    sub.pull()
    mixed.sim.run(0.001)
    assert len({m.sn for m in mixed.simple.heard_of(wire.Pull)}) == 1
    assert len({m.sn for m in mixed.able.heard_of(wire.Pull)}) == 1


def test_pull_of_nothing_ends() -> None:
    """002-13: a pull that nothing answers, while the window is full, would have no end."""
    mixed = Mixed()
    mixed.able.say(wire.Conduit(1), wire.Pull(1, 99, sync=True))
    mixed.sim.run(0.05)
    mixed.able.heard()
    mixed.free()
    ends = {(m.rid, m.data_rid) for m in mixed.able.heard_of(wire.SData) if m.rid != 6}
    assert ends == {(99, 0)}


@pytest.mark.parametrize("on_full", ["drop_oldest", "drop_newest"])
def test_end_of_an_answer_survives(on_full: Literal["drop_oldest", "drop_newest"]) -> None:
    """002-13: the end of an answer would be lost at a full ring, or to what comes after it, and count as a sample."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=8)
        sub = b.subscriber("x", mode="push_pull", depth=2, on_full=on_full)
        pulls = b.subscriber("y", mode="pull", depth=2, on_full=on_full)
        kept = a.publisher("y", keep=8)
        sim.run_until_quiet()
        for i in range(5):
            kept.put(b"%d" % i)
        pulls.pull()
        sub.pull()
        sim.run_until_quiet()
        for i in range(5):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert datas(pulls) == ([b"4"] if on_full == "drop_oldest" else [b"1"])
        assert pulls.answers == 1
        assert len(datas(sub)) == 1
        assert sub.answers >= 1
        found = lines(b)
        assert sum(n for (place, _), n in found.items() if place == "ring") == 8


# ---- shelves ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False])
def test_too_large_for_the_shelf(leaves: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A sample larger than the shelf would push out all that is kept there, and be counted twice as lost."""
    sim, node, _ = alone(shelf_bytes=2048)
    pub = node.publisher(5, keep=8)
    stranger = guest(sim, node, 1, ALL, wire.Subscription(5, wire.Mode.PULL))
    for i in range(3):
        pub.put(b"%d" % i)
    pub.put(LARGE)
    stranger.heard()
    if leaves:
        stranger.say(wire.Close(stranger.id, 0))
        sim.run(0.01)
        found = {k: n for k, n in lines(node).items() if k[0] == "shelf"}
        assert found == {("shelf", "full"): 1, ("shelf", "peer_lost"): 3}
        return
    stranger.say(wire.Conduit(1), wire.Pull(1, 5, sync=True))
    sim.run(0.005)
    answer = {m.sn: bytes(m.payload) for m in stranger.heard_of(wire.SData)}
    assert sorted(answer.values()) == [b"", b"0", b"1", b"2"]
    assert lines(node) == {("shelf", "full"): 1}


def test_lost_changes() -> None:
    """
    Of many changes at once the last would be lost in silence; and a publisher that does not hear that its subscriber has
    gone would serve the next one in that place.
    """
    sim, node, _ = alone(events_max=1, peers_max=1, publishers_max=64)
    pubs = [node.publisher(100 + i, keep=4) for i in range(40)]
    first = guest(sim, node, 1, ALL)
    for i in range(40):
        wanted = wire.Subscription(100 + i, wire.Mode.PULL)
        first.say(wire.Conduit(1), wire.Declare(1 + i, [wanted], committed=True, sync=True))
    for pub in pubs:
        pub.put(b"for the first")
    before = node.stats().events_lost
    first.say(wire.Close(first.id, 0))
    sim.run(0.01)
    assert node.stats().events_lost - before >= 40
    second = guest(sim, node, 2, ALL)
    assert second.state == "established"
    for i in range(40):
        second.say(wire.Conduit(1), wire.Pull(1 + i, 100 + i, sync=True))
    sim.run(0.005)
    assert {m.data_rid for m in second.heard_of(wire.SData)} == {0}


# ---- sessions ---------------------------------------------------------------------------------------------------


def test_end_is_told_before_the_next_beginning() -> None:
    """
    Of a peer that comes back elsewhere while something of its old session is still in use, the return would be told
    before the end, and the end without its name.
    """
    sim, node, stranger, loan = held()
    sim.run(0.6)
    assert stranger.state == "expired"
    back = Stranger(sim, node, stranger.id, host="10.9.9.8")
    back.meet()
    leave(loan)
    sim.run(0.1)
    told = [event for event in node.events() if event.kind.endswith("connected")]
    assert [(event.kind, event.reason) for event in told] == [
        ("disconnected", "lease"),
        ("reconnected", None),
    ]
    assert {event.peer for event in told} == {stranger.id.hex()}


def test_nothing_is_opened_after_close() -> None:
    """A node that was about to open a session would go on with that after it has closed."""
    sim, node, stranger = alone()
    stranger.say(wire.Hello(4, [GROUP]))
    assert len(stranger.heard_of(wire.Open)) == 1
    node.close()
    sim.run(20.0)
    assert stranger.heard_of(wire.Open) == []


def test_data_before_the_accept() -> None:
    """Data of a peer whose ACCEPT is still to come would be written down as of one whose session has ended."""
    _sim, node, stranger = alone()
    stranger.say(wire.Hello(4, [GROUP]))
    stranger.say(wire.SData(0, 5, b"early", reliable=True))
    assert lines(node) == {("input", "not_synched"): 1}
