"""
Samples on the wire: each kind of message, pulls and their answers, and what it all costs.
"""

from __future__ import annotations

from typing import TypeVar, Unpack

import pytest

from pyddsi import wire
from pyddsi.testing import Node, NodeOptions, Sim
from tests.py.worlds import datas
from tests.sim.stranger import Stranger, alone, features

ALL = 127

Kind = TypeVar("Kind", bound=wire.Message)


def met(bits: int = 14, **options: Unpack[NodeOptions]) -> tuple[Sim, Node, Stranger]:
    """A node, and a stranger that it has a session with, who can all that there is."""
    options["seq_bits"] = bits
    sim, node, stranger = alone(**options)
    stranger.meet(properties=[*features(ALL), wire.Property(4, bytes([bits]))])
    return sim, node, stranger


def data_messages(sim: Sim, source: str, kind: type[Kind]) -> list[Kind]:
    """All messages of a kind that a node has sent, each packet once."""
    once = {p.number: p for p in sim.packets() if p.source == source}
    return [m for p in once.values() for m in p.messages if isinstance(m, kind)]


# ---- one process, several readers -------------------------------------------------------------------------------


def test_each_subscriber_is_called() -> None:
    """002-106: of n subscribers to one resource in one node each gets every sample, once, at its own pace."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x")
        subs = [b.subscriber("x") for _ in range(5)] + [b.subscriber("*"), a.subscriber("x")]
        pub.wait_matched()
        sim.run_until_quiet()
        wanted = [b"%d" % i for i in range(20)]
        for data in wanted:
            pub.put(data)
        sim.run(0.1)
        for sub in subs[:-1]:
            assert datas(sub) == wanted
        subs[2].close()
        pub.put(b"more")
        sim.run(0.1)
        left = [sub for sub in subs[:-1] if sub is not subs[2]]
        assert [datas(sub) for sub in left] == [[b"more"]] * 5
        on_wire = data_messages(sim, "a", wire.SData)
        assert len({message.sn for message in on_wire}) == 21, "one copy for all of them"


# ---- kinds ----------------------------------------------------------------------------------------------------

SEVERAL = [b"", b"one", bytes(300)]


def message_of(kind: str, *, reliable: bool, actual: bool, sn: int) -> wire.Message:
    """The data message of a kind for resource 5; with an actual id the data belongs to 5 and was asked for as 6."""
    if kind == "single":
        return wire.SData(
            sn, 6 if actual else 5, b"single", data_rid=5 if actual else None, reliable=reliable
        )
    if kind == "batch":
        samples = [wire.Sample(data, rid=5 if actual else None) for data in SEVERAL]
        return wire.BData(sn, 6 if actual else 5, samples, reliable=reliable, actual=actual)
    return wire.WData(sn, "/x", b"named", reliable=reliable)


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize(
    ("kind", "actual"),
    [("single", False), ("single", True), ("batch", False), ("batch", True), ("named", False)],
)
def test_kinds_received(kind: str, actual: bool, reliable: bool) -> None:  # noqa: FBT001
    """002-120: each kind of data comes to its subscriber, equal, reliably or not, with or without the id of the data."""
    _sim, node, stranger = met()
    node.resource("x", number=5)
    sub = node.subscriber("x")
    stranger.begin()
    for sn in (0, 1):
        stranger.say(message_of(kind, reliable=reliable, actual=actual, sn=sn))
    wanted = {"single": [b"single"], "batch": SEVERAL, "named": [b"named"]}[kind] * 2
    got = list(sub)
    assert [bytes(sample.data) for sample in got] == wanted
    assert {sample.reliable for sample in got} == {reliable}
    assert {sample.resource for sample in got} == {"x"}
    if actual:
        asker = node.subscriber(6)
        stranger.say(message_of(kind, reliable=reliable, actual=True, sn=2))
        assert [bytes(sample.data) for sample in asker] == wanted[: len(wanted) // 2]
        assert sub.poll() is None, "it was sent for the other one"


@pytest.mark.parametrize("reliable", [True, False])
def test_kinds_sent(reliable: bool) -> None:  # noqa: FBT001
    """002-120: each kind of data goes out as its message, and what went out comes in equal at the other end."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", reliable=reliable, way="multicast")
        sub = b.subscriber("x")
        sim.run_until_quiet()
        pub.put(b"single")
        pub.put_many(SEVERAL)
        a.put("x", b"named", reliable=reliable)
        sim.run(0.1)
        assert datas(sub) == [b"single", *SEVERAL, b"named"]
        singles = data_messages(sim, "a", wire.SData)
        batches = data_messages(sim, "a", wire.BData)
        named = data_messages(sim, "a", wire.WData)
        assert [message.reliable for message in singles] == [reliable]
        assert [message.reliable for message in batches] == [reliable]
        assert [message.reliable for message in named] == [reliable]


def test_kinds_by_selection() -> None:
    """002-120: a sample that is sent for a selection alone names the resource that it belongs to beside it."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x")
        sub = b.subscriber("x", where="$size > 3")
        sim.run_until_quiet()
        pub.put(b"no")
        pub.put(b"large")
        sim.run(0.1)
        (sample,) = list(sub)
        assert (bytes(sample.data), sample.resource) == (b"large", "x")
        (message,) = data_messages(sim, "a", wire.SData)
        assert isinstance(message, wire.SData)
        ids = {message.rid, message.data_rid}
        assert pub.number in ids
        assert message.data_rid in {None, pub.number}


# ---- pull -----------------------------------------------------------------------------------------------------


def test_pull_answers() -> None:
    """002-122: of ten samples kept, pulls of four bring 4, 4 and 2, each answer ended by its mark."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=32)
        sub = b.subscriber("x", mode="pull")
        pub.wait_matched()
        sim.run_until_quiet()
        for i in range(10):
            pub.put(b"%d" % i)
        sim.run(0.1)
        assert sub.poll() is None, "it has not asked yet"
        seen = len(sim.packets())
        answers = []
        for _ in range(4):
            sub.pull(4)
            sim.run(0.1)
            answers.append(datas(sub))
        assert answers == [
            [b"0", b"1", b"2", b"3"],
            [b"4", b"5", b"6", b"7"],
            [b"8", b"9"],
            [],
        ]
        assert sub.answers == 4
        messages = [m for p in sim.packets()[seen:] if p.source == "a" for m in p.messages]
        data = [m for m in messages if isinstance(m, wire.SData)]
        marks = [i for i, m in enumerate(data) if m.data_rid == 0]
        assert marks == [4, 9, 12, 13]
        assert all(not bytes(data[i].payload) for i in marks)
        pulls = data_messages(sim, "b", wire.Pull)
        assert [pull.limit for pull in pulls] == [4] * 4


@pytest.mark.parametrize("seed", range(3))
def test_pull_with_loss(seed: int) -> None:
    """002-122: on bad links no answer to a pull is too long, and each ends once."""
    with Sim(seed, loss=0.2) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x", keep=64)
        sub = b.subscriber("x", mode="pull")
        pub.wait_matched()
        for i in range(50):
            pub.put(b"%d" % i)
        got = []
        for asked in range(1, 14):
            sub.pull(4)
            before = sub.answers
            answer = []
            while sub.answers == before:
                sim.run(0.001)
                answer += datas(sub)
                assert sim.now < 60
            assert len(answer) <= 4
            got += answer
            assert sub.answers == asked
        assert got == [b"%d" % i for i in range(50)]


def test_pull_from_a_stranger() -> None:
    """002-122: a PULL with a limit, with none, and with F alone, as the wire has them."""
    _sim, node, stranger = met()
    pub = node.publisher(5, keep=16)
    stranger.begin()
    stranger.say(wire.Declare(0, [wire.Subscription(5, wire.Mode.PULL)], committed=True))
    for i in range(6):
        pub.put(bytes([i]))
    stranger.packets()

    def ask(sn: int, **how: object) -> list[int | None]:
        stranger.say(wire.Pull(sn, 5, **how))  # type: ignore[arg-type]
        answer = stranger.heard_of(wire.SData)
        return [None if m.data_rid == 0 else bytes(m.payload)[0] for m in answer]

    assert ask(1, limit=2) == [0, 1, None]
    assert ask(2) == [2, 3, 4, 5, None]
    assert ask(3, limit=65535) == [None]
    assert ask(4, final=True) in ([], [None]), "it closes, and asks for nothing"


@pytest.mark.parametrize("together", [False, True])
def test_pulls_in_a_row(together: bool) -> None:  # noqa: FBT001
    """002-122: of two pulls that come one right after the other each is answered, with its samples and its mark."""
    _sim, node, stranger = met()
    pub = node.publisher(5, keep=16)
    stranger.begin()
    stranger.say(wire.Declare(0, [wire.Subscription(5, wire.Mode.PULL)], committed=True))
    for i in range(6):
        pub.put(bytes([i]))
    stranger.packets()
    pulls = [wire.Pull(1, 5, limit=2), wire.Pull(2, 5, limit=2)]
    if together:
        stranger.say(*pulls)
    else:
        stranger.say(pulls[0])
        stranger.say(pulls[1])
    answer = stranger.heard_of(wire.SData)
    heard = [None if m.data_rid == 0 else bytes(m.payload)[0] for m in answer]
    assert heard == [0, 1, None, 2, 3, None]


# ---- cost -----------------------------------------------------------------------------------------------------


def cost(sim: Sim, kind: type[wire.Message]) -> int:
    """The bytes of the one message of this kind that node a has sent, as it was encoded."""
    (message,) = data_messages(sim, "a", kind)
    return len(wire.encode([message]))


@pytest.mark.parametrize("batch", [1, 2, 10, 100])
def test_overhead(batch: int) -> None:
    """002-129: a sample costs four bytes more than itself, and n of a batch three, their count, and one for each."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub, sub = a.publisher(5), b.subscriber(5, depth=128)
        sim.run_until_quiet()
        if batch == 1:
            pub.put(b"x")
        else:
            pub.put_many([b"x"] * batch)
        sim.run(0.1)
        assert datas(sub) == [b"x"] * batch
        if batch == 1:
            assert cost(sim, wire.SData) == 4 + 1
        else:
            assert cost(sim, wire.BData) == 3 + 1 + batch + batch


def test_names_of_samples_that_came_early() -> None:
    """A sample that had to wait for an earlier one would come with another name, or none."""
    with Sim(seed=4, loss=0.3) as sim:
        a, b = sim.node("a"), sim.node("b")
        sub = b.subscriber("plant/**", depth=128)
        sim.run_until_quiet()
        for number in range(100):
            a.put(f"plant/{number}", b"%d" % number)
            sim.run(0.0005)
        sim.run_until_quiet()
        assert a.stats().resent > 0
        found = [(str(sample.resource), bytes(sample.data)) for sample in sub]
        assert found == [(f"plant/{number}", b"%d" % number) for number in range(100)]
