"""
Results on the wire: each status and its cause, what the application sees of it, and how many commits may be outstanding.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.errors import ConflictError, DeclarationError
from pyddsi.testing import Node
from tests.sim.talk import Talk, commits

PUSH = wire.Mode.PUSH


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
