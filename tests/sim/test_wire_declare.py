"""
Declarations on the wire: every kind of them, when they take effect, and transactions as a whole.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Sim
from tests.py.worlds import datas
from tests.sim.talk import Talk

PUSH = wire.Mode.PUSH


# ---- settled --------------------------------------------------------------------------------------------------


def test_settled_in_one_round() -> None:
    """002-104: a declaration is settled as soon as its result can be here: after one round trip, and not pending for ever."""
    with Sim(1, delay=0.01) as sim:
        a, b = sim.node("a", latency=0.0), sim.node("b", latency=0.0)
        sim.run_until_quiet()
        sim.run(1.0)
        for node in (a, b, a):
            made = node.resource(f"r{sim.now_ns}")
            begin = sim.now
            assert made.status == "pending"
            made.wait_settled()
            assert sim.now - begin == pytest.approx(0.020, abs=0.002)
            assert [e.status for e in node.events() if e.kind == "declared"][-1] == "settled"


@pytest.mark.parametrize("seed", range(3))
def test_hundred_one_after_another(seed: int) -> None:
    """002-105: after the first accepted transaction the next ones go out, too: a hundred, on bad links, all arrive."""
    with Sim(seed, loss=0.1) as sim:
        a, b = sim.node("a"), sim.node("b", publishers_max=128)
        pubs = [b.publisher(f"r/n{i}") for i in range(50)]
        sim.run(0.5)
        subs = []
        for i in range(50):
            subs.append(a.subscriber(f"r/n{i}"))
            if i % 3:
                subs[-1].wait_settled()
        sim.run_until_quiet()
        assert all(sub.status == "settled" for sub in subs)
        assert all(pub.matched == ["a"] for pub in pubs)
        for i, pub in enumerate(pubs):
            pub.put(b"%d" % i)
        sim.run_until_quiet()
        assert [datas(sub) for sub in subs] == [[b"%d" % i] for i in range(50)]


def test_tags() -> None:
    """002-107: tags in a name take effect: what is unreliable asks for no acknowledgement, and is told as such."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("x#{transient,unreliable}", keep=4)
        sub = b.subscriber("x")
        sim.run(1.0)
        pub.put(b"1")
        sim.run(0.1)
        (sample,) = list(sub)
        assert not sample.reliable
        told = [
            one.properties
            for packet in sim.packets()
            if packet.source == "a"
            for message in packet.messages
            if isinstance(message, wire.Declare)
            for one in message.declarations
            if isinstance(one, wire.Resource)
        ]
        assert told
        assert {p.id: bytes(p.value) for p in told[0] or ()} == {6: b"\x00", 8: b"\x01"}


# ---- kinds ----------------------------------------------------------------------------------------------------

PREDICATE = "/x?{$size > 3}"
KINDS: list[wire.Declaration] = [
    wire.Resource(5, "/x"),
    wire.Publication(5),
    wire.Subscription(5, PUSH),
    wire.Selection(wire.SelectionId(5), PREDICATE),
    wire.Binding(wire.SelectionId(5), wire.SelectionId(6)),
    wire.ForgetSelection(wire.SelectionId(5)),
    wire.ForgetSubscription(5),
    wire.ForgetPublication(5),
    wire.ForgetResource(5),
]


def test_each_kind() -> None:
    """002-117: each kind of declaration is taken, in transactions of its own and in one, and each commit has a result."""
    for kinds in ([[kind] for kind in KINDS], [KINDS], [KINDS[:4], KINDS[4:]]):
        talk = Talk()
        for some in kinds:
            assert talk.transaction(*some) == (wire.Status.OK, None), some
        assert talk.stranger.state == "established"


def test_each_kind_committed() -> None:
    """002-117: what has the committed flag is in effect at once, and gets no result."""
    talk = Talk()
    pub = talk.node.publisher("x")
    talk.results()
    for kind in KINDS:
        talk.declare(kind, committed=True)
        assert talk.results() == []
        if isinstance(kind, wire.Subscription):
            assert pub.matched == [talk.stranger.id.hex()] or kind.id != pub.number
    assert talk.stranger.state == "established"


def test_node_declares_each_kind() -> None:
    """002-117: what an application declares and forgets goes out as the kinds that say so."""
    with Sim(1) as sim:
        a, _b = sim.node("a"), sim.node("b")
        sim.run_until_quiet()
        things = [a.resource("r"), a.publisher("r"), a.subscriber("r/*", where="$size > 3")]
        things.append(a.subscriber("r"))
        sim.run_until_quiet()
        for thing in reversed(things):
            thing.close()
        for thing in list(a.declared.values()):
            thing.close()
        sim.run(0.5)
        seen = {
            type(one)
            for packet in sim.packets()
            if packet.source == "a"
            for message in packet.messages
            if isinstance(message, wire.Declare)
            for one in message.declarations
        }
        told = {wire.Resource, wire.Publication, wire.Subscription, wire.Selection, wire.Commit}
        forgot = {wire.ForgetResource, wire.ForgetPublication, wire.ForgetSubscription}
        assert seen >= told | forgot | {wire.ForgetSelection}


def test_effect_at_the_commit() -> None:
    """002-117: before their commit declarations have no effect, and with it all have."""
    talk = Talk()
    pubs = [talk.node.publisher(n) for n in (5, 6)]
    talk.results()
    talk.declare(wire.Subscription(5, PUSH))
    talk.declare(wire.Subscription(6, PUSH))
    talk.sim.run(1.0)
    assert [pub.matched for pub in pubs] == [[], []]
    assert talk.transaction() == (wire.Status.OK, None)
    assert [len(pub.matched) for pub in pubs] == [1, 1]


def test_aborted_leaves_nothing() -> None:
    """002-117: a transaction with one fault changes nothing, and its result names what was at fault."""
    talk = Talk()
    talk.node.resource("here", number=9)
    pubs = [talk.node.publisher(n) for n in (5, 6)]
    talk.settle()
    fault = wire.Resource(9, "/there")
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        parts = [[wire.Subscription(5, PUSH), wire.Subscription(6, PUSH), fault][i] for i in order]
        assert talk.transaction(*parts) == (wire.Status.CONFLICT, 9)
        assert [pub.matched for pub in pubs] == [[], []]
    assert talk.transaction(wire.Subscription(6, PUSH)) == (wire.Status.OK, None)
    assert [len(pub.matched) for pub in pubs] == [0, 1]


def test_committed_fault_ends_the_session() -> None:
    """002-117: what is committed and cannot be ends the session with the reason for declarations."""
    talk = Talk()
    talk.node.resource("here", number=9)
    talk.declare(wire.Resource(9, "/there"), committed=True)
    assert [c.reason for c in talk.stranger.heard_of(wire.Close)] == [wire.Reason.DECLARATIONS]
    talk.sim.run(0.1)
    assert talk.stranger.state == "unknown"
