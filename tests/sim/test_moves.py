"""
A peer whose address changes: its session goes on where its packets come from, once it has shown that it has the session and the old
address is silent. Worlds in which nodes move are in the simulator (moves).
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Sim
from tests.sim.stranger import Stranger, alone, features
from tests.sim.test_takeover import of_sessions

ABLE = 127
SECRET = b"a secret"

BELIEVES: list[list[wire.Message]] = [
    [wire.Ping(7)],
    [wire.Pong(1), wire.Conduit(1), wire.AckNack(3)],
    [wire.Pong(1), wire.AckNack(3, mask=1)],
]


def moved() -> tuple[Sim, Node, Stranger]:
    """A session with a peer that is silent from now on, and the address to which that has moved."""
    sim, node, here = alone()
    here.meet(properties=features(ABLE, secret=SECRET))
    there = Stranger(sim, node, host="10.9.9.8")
    of_sessions(node)
    return sim, node, there


def answers(stranger: Stranger) -> list[type[wire.Message]]:
    """What it hears of sessions."""
    return [
        type(message)
        for message in stranger.heard()
        if isinstance(message, (wire.Hello, wire.Close))
    ]


@pytest.mark.parametrize("words", BELIEVES)
def test_one_that_moved_is_asked(words: list[wire.Message]) -> None:
    """A peer whose address has changed would hear a CLOSE to what it sends in its session, and both would begin anew."""
    sim, node, there = moved()
    there.say(*words)
    assert answers(there) == [wire.Hello]
    there.open(properties=features(ABLE, secret=SECRET))
    there.say(*words)
    assert answers(there) == [], "it is being proved"
    sim.run(1.0)
    assert there.heard_of(wire.Accept) != []
    assert of_sessions(node) == ["reconnected"]
    assert there.peer is not None
    assert there.peer.endpoint == there.endpoint


def test_zhe_is_told() -> None:
    """A zhe that acknowledges what it hears of a session that we have lost would go on for ever: it has no secret to show."""
    _sim, node, there = moved()
    there.say(wire.AckNack(3))
    assert [message.reason for message in there.heard_of(wire.Close)] == [0]
    assert of_sessions(node) == []


def test_doubt_is_asked_once() -> None:
    """Each packet of one that has moved brings a HELLO: an OPEN for each would be a flood, and doubt would never end."""
    sim, node, here = alone(open=0.1, opens_max=3)
    here.meet(properties=features(ABLE, secret=SECRET))
    here.packets()
    for _ in range(12):
        here.say(wire.Hello(4, []))
        sim.run(0.01)
    assert len(here.heard_of(wire.Open)) == 2, "one at once, and one after a tenth of a second"
    for _ in range(100):
        here.say(wire.Hello(4, []))
        sim.run(0.01)
        if here.state == "unknown":
            break
    assert of_sessions(node) == ["connected", "disconnected"]
