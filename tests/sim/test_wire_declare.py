"""
Declarations on the wire: every kind of them, transactions, results and their causes, and how many may be outstanding.
"""

from __future__ import annotations

from typing import Unpack

import pytest

from pyddsi import wire
from pyddsi.errors import ConflictError, DeclarationError
from pyddsi.testing import Node, NodeOptions, Sim
from tests.py.worlds import datas
from tests.sim.stranger import AUTHENTICATION, alone, features

PUSH = wire.Mode.PUSH


class Talk:
    """A session of a node and a stranger that declares."""

    def __init__(
        self, *, mode: int = 0, plain: bool = False, **options: Unpack[NodeOptions]
    ) -> None:
        self.sim, self.node, self.stranger = alone(**options)
        properties = [AUTHENTICATION] if plain else features(127)
        if mode:
            properties.append(wire.Property(wire.PropertyId.COMMIT_MODE, bytes([mode])))
        self.stranger.meet(properties=properties)
        self.stranger.begin()
        self.sn = 0
        self.commits = 0
        self.unanswered: list[int] = []

    def declare(self, *declarations: wire.Declaration, committed: bool = False) -> None:
        """One DECLARE, next in order."""
        message = wire.Declare(self.sn, declarations, committed=committed, sync=True)
        self.stranger.say(message)
        self.sn += 1

    def transaction(self, *declarations: wire.Declaration) -> tuple[wire.Status | int, object]:
        """Declarations and their commit; the status of the one result, and the id at fault."""
        self.results()
        self.declare(*declarations, wire.Commit(self.commits))
        (result,) = self.results()
        assert result.commit == self.commits
        self.commits += 1
        return result.status, result.id

    def heard(self) -> list[wire.Declaration]:
        """The node's declarations since the last look, each acknowledged; what came twice is here once."""
        found: dict[int, wire.Declare] = {}
        for message in self.stranger.heard():
            if isinstance(message, wire.Declare):
                found.setdefault(message.sn, message)
        if found:
            self.stranger.say(wire.Conduit(1), wire.AckNack(max(found) + 1))
        heard = [one for sn in sorted(found) for one in found[sn].declarations]
        self.unanswered += commits(heard)
        return heard

    def results(self) -> list[wire.Result]:
        """Those of them that answer commits."""
        self.sim.run(0.002)
        return [one for one in self.heard() if isinstance(one, wire.Result)]

    def answer(self, commit: int, status: int, at_fault: int | None = None) -> None:
        """The stranger's result for a commit of the node."""
        self.declare(wire.Result(commit, status, id=at_fault), committed=True)

    def settle(self) -> None:
        """Whatever the node has declared is accepted."""
        self.sim.run(0.01)
        self.heard()
        while self.unanswered:
            self.answer(self.unanswered.pop(0), wire.Status.OK)


def commits(heard: list[wire.Declaration]) -> list[int]:
    """The numbers of the commits among them."""
    return [one.commit for one in heard if isinstance(one, wire.Commit)]


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


# ---- results --------------------------------------------------------------------------------------------------


def test_result_ok() -> None:
    """002-118: OK for what is new, known, empty, or forgotten twice."""
    talk = Talk()
    for some in ([], [wire.Resource(5, "/x")], [wire.Resource(5, "/x")]):
        assert talk.transaction(*some) == (wire.Status.OK, None)
    for _ in range(2):
        assert talk.transaction(wire.ForgetResource(5)) == (wire.Status.OK, None)


def test_result_no_space() -> None:
    """002-118: NO SPACE when a table of the receiver is full, and the peer who filled it goes on."""
    talk = Talk(remotes_max=8, remotes_peer_max=4)
    statuses = [talk.transaction(wire.Subscription(5 + i, PUSH))[0] for i in range(6)]
    assert statuses == [wire.Status.OK] * 4 + [wire.Status.NO_SPACE] * 2
    assert talk.transaction(wire.ForgetSubscription(5))[0] == wire.Status.OK
    assert talk.transaction(wire.Subscription(20, PUSH))[0] == wire.Status.OK


def test_result_conflict() -> None:
    """002-118: CONFLICT, with the id, for a number that has another name."""
    talk = Talk()
    talk.node.resource("here", number=9)
    talk.settle()
    assert talk.transaction(wire.Resource(9, "/there")) == (wire.Status.CONFLICT, 9)
    assert talk.transaction(wire.Resource(9, "/here")) == (wire.Status.OK, None)


def test_result_too_large() -> None:
    """002-118: TOO LARGE for a transaction that does not fit, nothing of it takes effect, and the next one can be."""
    talk = Talk(transaction_bytes=256)
    pub = talk.node.publisher(5)
    talk.results()
    talk.declare(wire.Subscription(5, PUSH))
    for i in range(20):
        talk.declare(wire.Resource(20 + i, "/" + "n" * 50))
    status, _fault = talk.transaction()
    assert status == wire.Status.TOO_LARGE
    assert pub.matched == []
    assert talk.transaction(wire.Subscription(5, PUSH)) == (wire.Status.OK, None)


def test_result_again() -> None:
    """002-118: TRY AGAIN while the receiver's own definition of the same is not settled, and then the final answer."""
    talk = Talk()
    talk.node.resource("mine", number=9)
    assert talk.transaction(wire.Resource(9, "/yours")) == (wire.Status.TRY_AGAIN, 9)
    talk.settle()
    assert talk.transaction(wire.Resource(9, "/yours")) == (wire.Status.CONFLICT, 9)


@pytest.mark.parametrize(
    "bad",
    [
        wire.Resource(5, "x"),
        wire.Resource(5, "/x/"),
        wire.Resource(5, "/x y"),
        wire.Resource(5, "//x"),
        wire.Resource(5, ""),
        wire.Selection(wire.SelectionId(5), "/x?{"),
    ],
    ids=str,
)
def test_result_invalid(bad: wire.Declaration) -> None:
    """002-118: INVALID, with the id, for a name or a query that breaks a rule of names."""
    talk = Talk()
    status, fault = talk.transaction(bad)
    assert status == wire.Status.INVALID
    assert fault is not None
    assert int(fault) == 5  # type: ignore[call-overload]


def test_result_unsupported() -> None:
    """002-118: UNSUPPORTED for what the receiver was told not to do."""
    talk = Talk(features=set(), plain=True)
    pull = wire.Subscription(5, wire.Mode.PULL)
    assert talk.transaction(pull) == (wire.Status.UNSUPPORTED, 5)


STATUSES = [
    (1, "no_space"),
    (2, "conflict"),
    (3, "too_large"),
    (5, "invalid"),
    (6, "unsupported"),
    (7, "other"),
    (99, "other"),
]


@pytest.mark.parametrize(("status", "name"), STATUSES)
def test_status_reaches_the_application(status: int, name: str) -> None:
    """002-118: what a peer answers is the status of the declaration, an event, and an error of its own."""
    talk = Talk()
    sub = talk.node.subscriber(5)
    talk.sim.run(0.01)
    (commit,) = commits(talk.heard())
    assert sub.status == "pending"
    talk.node.events()
    talk.answer(commit, status, 5)
    talk.sim.run(0.01)
    assert sub.status == name
    events = [event for event in talk.node.events() if event.kind == "declared"]
    assert [(event.status, event.of) for event in events] == [(name, sub)]
    with pytest.raises(ConflictError if name == "conflict" else DeclarationError) as raised:
        sub.wait_settled()
    assert raised.value.status == name


def test_again_is_repeated() -> None:
    """002-118: after TRY AGAIN the declaration is made again by itself, until there is another answer."""
    talk = Talk()
    sub = talk.node.subscriber(5)
    talk.sim.run(0.01)
    (commit,) = commits(talk.heard())
    for _ in range(3):
        talk.answer(commit, wire.Status.TRY_AGAIN, 5)
        heard: list[wire.Declaration] = []
        for _ in range(100):
            talk.sim.run(0.01)
            heard = talk.heard()
            if heard:
                break
        (again,) = commits(heard)
        assert again != commit
        assert [one.id for one in heard if isinstance(one, wire.Subscription)] == [5]
        assert sub.status == "pending"
        commit = again
    talk.answer(commit, wire.Status.OK)
    talk.sim.run(0.01)
    assert sub.status == "settled"


# ---- how many at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0, 1, 2, 4])
def test_commit_mode(mode: int) -> None:
    """002-119: with mode n at most n commits are outstanding, and one with 0; the next waits for a result."""
    talk = Talk(mode=mode)
    allowed = max(mode, 1)
    node: Node = talk.node
    waiting: list[int] = []
    told: list[int] = []
    for i in range(10):
        node.subscriber(20 + i)
        talk.sim.run(0.01)
        heard = talk.heard()
        told += [one.id for one in heard if isinstance(one, wire.Subscription)]
        waiting += commits(heard)
        assert len(waiting) == min(i + 1, allowed)
    assert told == list(range(20, 20 + allowed)), "nothing is declared that cannot be committed"
    talk.sim.run(1.0)
    assert commits(talk.heard()) == []
    while waiting:
        talk.answer(waiting.pop(0), wire.Status.OK)
        talk.sim.run(0.01)
        heard = talk.heard()
        told += [one.id for one in heard if isinstance(one, wire.Subscription)]
        waiting += commits(heard)
        assert len(waiting) <= allowed
    assert told == list(range(20, 30))
    assert talk.stranger.state == "established"


def test_results_in_any_order() -> None:
    """002-119: results may come in another order than the commits; an unknown one is nobody's."""
    talk = Talk(mode=3)
    subs = []
    numbers = []
    for i in range(3):
        subs.append(talk.node.subscriber(20 + i))
        talk.sim.run(0.01)
        numbers += commits(talk.heard())
    assert len(numbers) == 3
    talk.answer(77, wire.Status.CONFLICT, 1)
    for i in (2, 0, 1):
        assert subs[i].status == "pending"
        talk.answer(numbers[i], wire.Status.OK)
        talk.sim.run(0.01)
        assert subs[i].status == "settled"
