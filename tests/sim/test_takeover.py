"""
Who says that he is somebody else, from an address of his own. He has no signature to break, as the protocol has none; but a
session has a secret, and its peer is asked where it is known before anything is moved or given up.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi.testing import Node, Sim
from tests.py.worlds import datas
from tests.sim.stranger import AUTHENTICATION, Stranger, features, named, number, split

ABLE = 127
SESSIONS = {"connected", "disconnected", "reconnected"}
Told = list[wire.Property]


def of_sessions(node: Node) -> list[str]:
    """What the node says of the sessions that began and ended since it was last asked."""
    return [event.kind for event in node.events() if event.kind in SESSIONS]


def overheard(sim: Sim, of: Node, to: Node) -> wire.Open | wire.Accept:
    """Word for word what one said to the other when they met."""
    return next(
        message
        for packet in sim.packets()
        if (packet.source, packet.target) == (of.name, to.name)
        for message in packet.messages
        if isinstance(message, (wire.Open, wire.Accept))
    )


def guesses(told: wire.Open | wire.Accept, life: int) -> dict[str, Told]:
    """What may be said of a session by one who knows all of it but the secret, and by one who knows that, too."""
    mine, secret = split(named(told))
    wrong = bytes(byte ^ 1 for byte in secret)
    return {
        "as zhe": [AUTHENTICATION],
        "no secret": features(ABLE, mine, life),
        "zeros": features(ABLE, mine, life, bytes(8)),
        "another secret": features(ABLE, mine, life, wrong),
        "a part of it": features(ABLE, mine, life, secret[:7]),
        "a later number": features(ABLE, mine + 1, life, wrong),
        "a later number as it is": features(ABLE, mine + 1, life, secret),
        "a later life": features(ABLE, 1, life + 1, wrong),
        "no life": [*features(ABLE, mine + 5, life, wrong)[:-1]],
        "overheard": list(told.properties or ()),
    }


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("what", list(guesses(wire.Open(1, b"", 0, [], properties=features(0)), 1)))
def test_session_is_not_taken_over(what: str, *, busy: bool, plain: bool) -> None:
    """Who says a peer's id would get its session, what is meant for it, and speak in its place."""
    with Sim(3) as sim:
        a = sim.node("a", lease=4.0)
        b = sim.node("b", lease=4.0, features=set()) if plain else sim.node("b", lease=4.0)
        pub, sub = a.publisher("x", way="each"), b.subscriber("x", depth=256)
        back, heard = b.publisher("y", way="each"), a.subscriber("y", depth=256)
        sim.run_until_quiet()
        assert of_sessions(a) == of_sessions(b) == ["connected"]
        known = a.peers()[0].endpoint
        told = overheard(sim, a if plain else b, b if plain else a)
        impostor = Stranger(sim, a, b.id, "10.9.9.8")
        properties = guesses(told, 1)[what]
        impostor.packets()
        words = [
            wire.Open(1, b.id, 40, [], properties=properties),
            wire.Hello(4, []),
            wire.Accept(a.id, b.id, 40, properties=properties),
            wire.Accept(
                a.id, b.id, 40, properties=[*properties, wire.Property(9, number(1) + bytes(8))]
            ),
            wire.KeepAlive(b.id),
        ]
        for i in range(200):
            impostor.say(words[i % len(words)])
            impostor.say(wire.Conduit(1), wire.SData(i, heard.number, b"forged", reliable=True))
            if busy:
                pub.put(b"%d" % i)
                back.put(b"%d" % i)
            sim.run(0.05)
        assert of_sessions(a) == of_sessions(b) == []
        assert [p.endpoint for p in a.peers() if p.state == "established"] == [known]
        assert not {wire.Accept, wire.SData} & {type(m) for m in impostor.heard()}
        pub.put(b"last")
        back.put(b"last")
        sim.run_until_quiet()
        whole = [b"%d" % i for i in range(200 * busy)] + [b"last"]
        assert datas(sub) == datas(heard) == whole
        for node in (a, b):
            stats = node.stats()
            assert (stats.owed, stats.forgiven) == (stats.acknowledged, 0)


def test_one_who_answers_stays() -> None:
    """Who overhears a secret could move a session away from one who is there."""
    with Sim(1) as sim:
        a = sim.node("a")
        here = Stranger(sim, a)
        here.meet(properties=features(ABLE, secret=b"a secret"))
        there = Stranger(sim, a, host="10.9.9.8")
        of_sessions(a)
        for _ in range(20):
            there.open(properties=features(ABLE, secret=b"a secret"))
            sim.run(0.1)
            for ping in here.heard_of(wire.Ping):
                here.say(wire.Pong(ping.hash))
        assert of_sessions(a) == []
        assert here.state == "established"
        assert here.peer is not None
        assert here.peer.endpoint == here.endpoint


@pytest.mark.parametrize("secret", [b"", bytes(8), b"another!", b"a secre"])
def test_number_is_not_enough(secret: bytes) -> None:
    """Whoever waits until a peer is silent would take over its session by the number alone, with all that is under way."""
    with Sim(1) as sim:
        a = sim.node("a")
        here = Stranger(sim, a)
        here.meet(properties=features(ABLE, secret=b"a secret"))
        there = Stranger(sim, a, host="10.9.9.8")
        of_sessions(a)
        for _ in range(10):
            there.open(properties=features(ABLE, secret=secret))
            sim.run(1.0)
        assert of_sessions(a) == []
        assert there.heard_of(wire.Accept) == []
        assert here.peer is not None
        assert here.peer.endpoint == here.endpoint


def test_questions_are_few() -> None:
    """A stranger could have a node send PINGs to others without end: one packet of his, one of ours."""
    with Sim(1) as sim:
        a = sim.node("a")
        here = Stranger(sim, a)
        here.meet(properties=features(ABLE, secret=b"a secret"))
        sim.run(20.0)
        here.packets()
        there = Stranger(sim, a, host="10.9.9.8")
        for _ in range(1000):
            there.open(properties=features(ABLE, session=9))
        assert len(here.heard_of(wire.Ping)) <= 1


@pytest.mark.parametrize("ours", [False, True])
def test_one_who_is_gone_comes_back_elsewhere(*, ours: bool) -> None:
    """A peer that restarts elsewhere would wait until its lease has run out; with a lease of 0 for ever."""
    with Sim(1) as sim:
        a = sim.node("a")
        Stranger(sim, a).meet(
            properties=features(ABLE, secret=b"a secret") if ours else [AUTHENTICATION]
        )
        there = Stranger(sim, a, host="10.9.9.8")
        of_sessions(a)
        properties = features(ABLE, 1, 2, b"another!") if ours else [AUTHENTICATION]
        there.open(properties=properties)
        assert there.heard_of(wire.Accept) == []
        sim.run(1.0)
        there.open(properties=properties)
        assert there.heard_of(wire.Accept) != []
        assert of_sessions(a) == ["disconnected", "reconnected"]


def test_secrets_differ() -> None:
    """Who has a session of his own, or the one before, would know the secret of another."""
    with Sim(1) as sim:
        a = sim.node("a")
        several = [Stranger(sim, a, bytes([i]), f"10.9.9.{i}") for i in range(1, 5)]
        told = []
        for session in range(1, 10):
            if session == 9:
                a.restart()
            stranger = several[session % 4]
            stranger.open(properties=features(ABLE, session))
            (accept,) = stranger.heard_of(wire.Accept)
            told.append(split(named(accept))[1])
        assert {len(secret) for secret in told} == {8}
        assert len(set(told)) == len(told)
        bits = [int.from_bytes(secret, "little") for secret in told]
        assert all((one ^ two).bit_count() > 12 for one in bits for two in bits if one != two)
