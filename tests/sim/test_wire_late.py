"""
What the network has kept back: packets of an earlier session, answers to an earlier OPEN, and packets of a session of which
a node is not sure that it is still the one it knows.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Sim
from tests.py.worlds import datas
from tests.sim.stranger import Stranger, alone, features, mark, named, number, split
from tests.sim.test_wire_conduits import met, on
from tests.sim.test_wire_session import subscribed

UNICAST = 1  # the node has one group, and its unicast conduits come after it


def answer(stranger: Stranger, opened: bytes, session: int) -> None:
    """An ACCEPT of the OPEN of that session, in which the stranger calls it `session`."""
    properties = [*features(127, session), wire.Property(9, opened)]
    stranger.say(wire.Accept(stranger.node.id, stranger.id, 0, properties=properties))


def numbers(node: Node) -> int:
    """The next number on the conduit to its only peer."""
    window = node.window(-1)
    assert window is not None
    return window.seq


def data(sn: int, payload: bytes, *, reliable: bool = True) -> wire.SData:
    """A sample of resource 5 that wants an answer."""
    return wire.SData(sn, 5, payload, reliable=reliable, sync=reliable)


# ---- doubt ----------------------------------------------------------------------------------------------------


def doubted() -> tuple[Sim, Node, Stranger, bytes]:
    """A session whose peer says HELLO, as if it knew of none; and the number under which the node asks for it."""
    sim, node, stranger = alone(open=0.1, opens_max=3)
    stranger.meet(properties=features(127))
    stranger.begin()
    stranger.packets()
    stranger.say(wire.Hello(4, []))
    (opened,) = stranger.heard_of(wire.Open)
    return sim, node, stranger, named(opened)


def test_doubt_is_deaf() -> None:
    """What comes from a peer that may have begun anew would be taken for the old session's, or acknowledged by its numbers."""
    _sim, node, stranger, opened = doubted()
    sub = node.subscriber(5)
    stranger.packets()
    stranger.say(data(0, b"0"))
    stranger.say(wire.Synch(3, reliable=True, sync=True, count=3))
    assert datas(sub) == []
    assert stranger.heard_of(wire.AckNack) == []
    answer(stranger, opened, 1)
    assert [event.kind for event in node.events() if event.kind == "disconnected"] == []
    stranger.say(data(0, b"0"))
    assert datas(sub) == [b"0"], "it is the same session"
    assert [ack.sn for ack in stranger.heard_of(wire.AckNack)] == [1]


def test_doubt_asks_for_nothing() -> None:
    """A gap that was there before would be asked for by the old numbers, which says that all before it has come."""
    sim, node, stranger = alone(open=0.1, opens_max=3)
    stranger.meet(properties=features(127))
    stranger.begin()
    sub = node.subscriber(5)
    stranger.say(data(0, b"0"), data(2, b"2"))
    assert any(ack.mask is not None for ack in stranger.heard_of(wire.AckNack))
    stranger.say(wire.Hello(4, []))
    stranger.packets()
    sim.run(0.05)
    assert stranger.heard_of(wire.AckNack) == []
    assert datas(sub) == [b"0"]


def test_doubt_hears_no_answers() -> None:
    """A false acknowledgement of the old session's messages would hide that they were lost with it."""
    _sim, node, stranger = alone(open=0.1, opens_max=3)
    stranger.meet(properties=features(127))
    pub = subscribed(stranger, node)
    stranger.say(wire.Hello(4, []))
    assert pub.put(b"x")
    before = node.stats().acknowledged
    stranger.say(*on(UNICAST, wire.AckNack(numbers(node))))
    assert node.stats().acknowledged == before


def test_doubt_ends_with_another_session() -> None:
    """An ACCEPT that names another session than ours would not end ours."""
    _sim, node, stranger, opened = doubted()
    answer(stranger, opened, 2)
    assert [event.kind for event in node.events()] == ["connected", "disconnected"]
    (again,) = stranger.heard_of(wire.Open)
    assert split(named(again))[0] > split(opened)[0]


def test_doubt_does_not_last() -> None:
    """If nothing comes, each side would believe in a session of its own for ever."""
    sim, node, stranger, _opened = doubted()
    sim.run(0.25)
    assert len(stranger.heard_of(wire.Open)) == 2
    assert stranger.state == "established"
    sim.run(0.1)
    assert stranger.state == "unknown"
    assert [message.reason for message in stranger.heard_of(wire.Close)] == [0]
    assert [event.kind for event in node.events()] == ["connected", "disconnected"]


def marked(session: int, begun: bool) -> tuple[Node, Stranger, bytes]:  # noqa: FBT001
    """A session that its peer calls 1, and speaks of as another; and the number under which the node asks for it."""
    _sim, node, stranger = alone()
    stranger.meet(properties=features(127, session=1))
    if begun:
        stranger.begin()
    stranger.packets()
    for _ in range(2):
        stranger.say(wire.Pong(mark(session)), wire.Synch(7, reliable=True, sync=True))
    (opened,) = stranger.heard_of(wire.Open)
    return node, stranger, named(opened)


@pytest.mark.parametrize("begun", [False, True])
def test_mark_of_the_session_there_is(begun: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Two who mean different sessions would both be content, and each deaf to where the other says that it begins."""
    node, stranger, opened = marked(2, begun)
    answer(stranger, opened, 2)
    assert [event.kind for event in node.events()] == ["connected", "disconnected"]
    (again,) = stranger.heard_of(wire.Open)
    answer(stranger, named(again), 3)
    assert stranger.state == "established"


@pytest.mark.parametrize("begun", [False, True])
def test_mark_of_a_session_that_was(begun: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A SYNCH that is late by a session would end the one there is, or say where it begins."""
    node, stranger, opened = marked(0, begun)
    answer(stranger, opened, 1)
    sub = node.subscriber(5)
    stranger.begin()
    stranger.say(data(0, b"0"))
    assert datas(sub) == [b"0"]
    assert [event.kind for event in node.events()] == ["connected"]


def test_answer_to_a_ping_is_no_mark() -> None:
    """Each PONG that answers a PING would be taken for the mark of another session."""
    _sim, _node, stranger = alone()
    stranger.meet(properties=features(127))
    stranger.packets()
    stranger.say(wire.Pong(mark(2)))
    stranger.begin()
    assert stranger.heard_of(wire.Open) == []


@pytest.mark.parametrize("word", [wire.Ping(7), wire.AckNack(3), wire.AckNack(3, mask=1)])
def test_lost_session_is_told(word: wire.Message) -> None:
    """
    Who believes in a session that we have lost with our former life would take what we send to all for a part of it, in the
    order of the former numbers, until its next PING; or with a thousand words in one packet make us say a thousand.
    """
    _sim, node, stranger = alone()
    stranger.say(data(0, b"0"), wire.Synch(0, reliable=True, sync=True))
    assert stranger.heard_of(wire.Close) == [], "it may speak to all"
    stranger.say(word, word, word)
    assert [message.reason for message in stranger.heard_of(wire.Close)] == [0]
    stranger.say(wire.Hello(4, []))
    stranger.say(word)
    assert stranger.heard_of(wire.Close) == [], "a session is about to begin"
    assert node.events() == []


def test_group_that_is_read_late() -> None:
    """
    A group's socket that is read long after the one of its own would seem to say, SYNCH by SYNCH, that its sender begins anew; and
    what the network repeated to it alone, in the meantime, would be delivered again.
    """
    sim, node, stranger = alone()
    stranger.meet(properties=features(127))
    stranger.begin()
    sub = node.subscriber(5)
    for sn in range(6):
        stranger.say(data(sn, b"%d" % sn))
    stranger.packets()
    for _ in range(20):
        stranger.say(wire.Synch(3, reliable=True, sync=True, count=3))
        sim.run(0.006)
    assert {ack.sn for ack in stranger.heard_of(wire.AckNack)} == {6}
    for sn in range(7):
        stranger.say(data(sn, b"%d" % sn))
    assert datas(sub) == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    assert stranger.state == "established"


def test_numbers_that_begin_anew() -> None:
    """Whose numbers are not those of its peer, in one and the same session, would never be heard again; or heard twice."""
    sim, node, stranger = alone()
    stranger.meet(lease=5, properties=features(127))  # 0.5 s
    stranger.begin()
    sub = node.subscriber(5)
    stranger.say(data(0, b"0"), data(1, b"1"))
    for _ in range(49):
        stranger.begin()
        sim.run(0.01)
    stranger.say(data(0, b"0"))
    assert stranger.state == "established", "its socket may have been read late"
    sim.run(0.01)
    stranger.begin()
    stranger.say(data(0, b"0"))
    assert [e.reason for e in node.events() if e.kind == "disconnected"] == ["restart"]
    assert datas(sub) == [b"0", b"1"]


# ---- beginning ------------------------------------------------------------------------------------------------


def test_late_accept() -> None:
    """An answer to an earlier OPEN would be taken for one to the present, and the two sides mean different sessions."""
    _sim, _node, stranger = alone()
    stranger.say(wire.Hello(4, []))
    (opened,) = stranger.heard_of(wire.Open)
    name = named(opened)
    answer(stranger, name[:-1] + bytes([name[-1] ^ 1]), 7)
    assert stranger.state != "established"
    answer(stranger, named(opened), 8)
    assert stranger.state == "established"


def test_accept_names_the_open() -> None:
    """The answer to an OPEN would not say which one it answers."""
    _sim, _node, stranger = alone()
    stranger.open(properties=features(127, session=77, secret=b"12345678"))
    (accept,) = stranger.heard_of(wire.Accept)
    answered = [bytes(p.value) for p in accept.properties or () if p.id == 9]
    assert answered == [number(77) + b"12345678"]
    plain = Stranger(stranger.sim, stranger.node, b"\xee\x02", "10.9.9.8")
    plain.open()
    (accept,) = plain.heard_of(wire.Accept)
    assert [p for p in accept.properties or () if p.id == 9] == []


def began(stranger: Stranger) -> int:
    """Where the node says that its unicast conduit begins."""
    found = [m.sn for m in stranger.heard_of(wire.Synch) if m.conduit == UNICAST]
    assert found
    return found[0]


def subscribe(stranger: Stranger, sn: int, resource: int) -> None:
    """The stranger wants a resource."""
    wish = wire.Subscription(resource, wire.Mode.PUSH)
    stranger.say(wire.Declare(sn, [wish], committed=True, sync=True))


def best_numbers(stranger: Stranger) -> list[int]:
    """The numbers of best effort that came to it alone."""
    heard = stranger.heard_of(wire.SData)
    return [m.sn for m in heard if m.conduit == UNICAST and not m.reliable]


@pytest.mark.parametrize("extensions", [True, False])
def test_numbers_go_on(extensions: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """What is late by a session would be taken for something new. To zhe each session begins at 0."""
    sim, node, stranger = alone()
    properties = features(127, session=1) if extensions else None
    stranger.meet(properties=properties)
    pub, best = subscribed(stranger, node), node.publisher(7, way="each", reliable=False)
    subscribe(stranger, 1, 7)
    assert pub.put(b"x")
    assert best.put(b"0")
    sim.run(0.1)
    seq = numbers(node)
    assert seq > 1
    assert best_numbers(stranger) == [0]
    stranger.say(wire.Close(stranger.id, 0))
    stranger.packets()
    stranger.open(properties=features(127, session=2) if extensions else None)
    assert began(stranger) == (seq if extensions else 0)
    stranger.begin()
    subscribe(stranger, 0, 7)
    assert best.put(b"1")
    sim.run(0.1)
    assert best_numbers(stranger) == ([1] if extensions else [0])


@pytest.mark.parametrize("incarnation", [1, 2])
def test_late_best_effort(incarnation: int) -> None:
    """Best effort that is late by a session would be taken twice; that of a new life would be dropped as old."""
    _sim, node, stranger = alone()
    sub = node.subscriber(5)
    stranger.meet(properties=features(127, session=1))
    stranger.say(data(5, b"5", reliable=False))
    stranger.say(wire.Close(stranger.id, 0))
    stranger.meet(properties=features(127, session=1 << 20, incarnation=incarnation))
    stranger.say(data(5, b"again", reliable=False))
    stranger.say(data(6, b"6", reliable=False))
    assert datas(sub) == ([b"5", b"6"] if incarnation == 1 else [b"5", b"again", b"6"])


# ---- moves ----------------------------------------------------------------------------------------------------


def test_migrate_before_the_beginning() -> None:
    """What comes on the new conduit would overtake what is on the old one, of which nobody has said yet where it begins."""
    _sim, node, stranger = met()
    sub = node.subscriber(5)
    stranger.begin(conduit=1)
    stranger.say(*on(1, wire.Migrate(0, 3, 0, rid=5), data(0, b"4")))
    assert datas(sub) == []
    stranger.begin(sn=2, conduit=0)
    assert datas(sub) == []
    stranger.say(data(2, b"2"))
    stranger.say(data(3, b"3"))
    assert datas(sub) == [b"2", b"3", b"4"]


def test_migrate_of_what_came_before() -> None:
    """A resource would wait for ever for what was sent on the conduit it left before we were there."""
    _sim, node, stranger = met()
    sub = node.subscriber(5)
    stranger.begin(conduit=1)
    stranger.say(*on(1, wire.Migrate(0, 3, 0, rid=5), data(0, b"4")))
    stranger.begin(sn=4, conduit=0)
    assert datas(sub) == [b"4"]


def test_what_nobody_takes_lets_go() -> None:
    """A resource that has moved would wait until something else happens, if the last on the old conduit is for nobody."""
    sim, node, stranger = met()
    sub = node.subscriber(5)
    stranger.begin(conduit=0)
    stranger.begin(conduit=1)
    stranger.say(*on(1, wire.Migrate(0, 0, 0, rid=5), data(0, b"1")))
    stranger.say(wire.SData(0, 99, b"", reliable=True))
    sim.run(0.0)
    assert datas(sub) == [b"1"]


# ---- asking ---------------------------------------------------------------------------------------------------


def test_a_full_window_asks_once() -> None:
    """Who tries to put again and again into a full window would send a SYNCH each time."""
    sim, node, stranger = alone(unicast_bytes=4000, synch=0.05)
    stranger.meet(properties=features(127))
    pub = subscribed(stranger, node)
    while pub.put(bytes(1400), wait=False):
        sim.run(0.0)
    stranger.packets()
    for _ in range(40):
        assert not pub.put(bytes(1400), wait=False)
        sim.run(0.001)
    asked = [m for m in stranger.heard_of(wire.Synch) if m.conduit == UNICAST]
    assert len(asked) <= 2
