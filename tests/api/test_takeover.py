"""Attackers on real sockets: who says that it is somebody else, or shows the memory of somebody else as its own, gets nothing."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import pyddsi
from pyddsi import wire
from tests.api.rooms import TIMEOUT, group
from tests.sim.stranger import AUTHENTICATION, features, named, number, split

ID = b"the peer"
TOKEN = 7
COUNT = 200
Met = wire.Open | wire.Accept


def socket_of_ours() -> socket.socket:
    """One that only this machine can reach."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.settimeout(TIMEOUT)
    return made


def messages(data: bytes) -> list[wire.Message]:
    """What a packet says."""
    try:
        return list(wire.decode(data))
    except wire.WireError as error:
        return list(error.messages)


class Between:
    """Passes packets on between one who calls `port` and a session, and hears, or changes, how they meet."""

    def __init__(self, session: pyddsi.Session, change: Callable[[Met], Met | None]) -> None:
        self.near, self.far = socket_of_ours(), socket_of_ours()
        self.port = self.near.getsockname()[1]
        self.target = ("127.0.0.1", session.endpoint.port)
        self.change = change
        self.heard: list[Met] = []
        self.stop, self.stopped = socket.socketpair()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        """Until it is stopped."""
        caller = None
        while True:
            ready, _, _ = select.select([self.near, self.far, self.stopped], [], [])
            if self.stopped in ready:
                return
            for one in ready:
                data, source = one.recvfrom(1 << 16)
                if one is self.near:
                    caller = source
                    self.far.sendto(self.changed(data), self.target)
                elif caller is not None:
                    self.near.sendto(data, caller)

    def changed(self, data: bytes) -> bytes:
        """A packet of the caller's as the session is to get it."""
        said = messages(data)
        self.heard += [message for message in said if isinstance(message, Met)]
        new = [self.change(message) if isinstance(message, Met) else None for message in said]
        if not any(new):
            return data
        return wire.encode([one or other for one, other in zip(new, said, strict=True)])

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.send(b"x")
        self.thread.join()
        for one in (self.near, self.far, self.stop, self.stopped):
            one.close()


def nothing(_: Met) -> None:
    """It passes as it is."""


def caller(between: Between) -> pyddsi.Session:
    """A session that knows of nobody else."""
    peers = [f"127.0.0.1:{between.port}"]
    return pyddsi.open(group="", peers=peers, id=ID, shared_memory=False, scout=0.2)


@contextmanager
def attacker(session: pyddsi.Session) -> Iterator[Callable[..., list[wire.Message]]]:
    """Who sends a session packets from an address of its own, and hears the answers: those before that to its last PING."""
    with socket_of_ours() as own:
        turn = 0

        def say(*said: wire.Message) -> list[wire.Message]:
            nonlocal turn
            turn += 1
            own.sendto(wire.encode(list(said)), ("127.0.0.1", session.endpoint.port))
            own.sendto(wire.encode([wire.Ping(turn)]), ("127.0.0.1", session.endpoint.port))
            heard: list[wire.Message] = []
            while not heard or heard[-1] != wire.Pong(turn):
                heard += messages(own.recv(1 << 16))
            return heard[:-1]

        yield say


def words(session: pyddsi.Session, told: Met, life: int) -> list[list[wire.Message]]:
    """What leads to a session, in the name of a peer: from guesses to what it said, word for word."""
    mine, secret = split(named(told))
    wrong = bytes(byte ^ 0x55 for byte in secret)
    guesses = [
        [AUTHENTICATION],
        *(features(127, i, life) for i in range(1, 8)),
        *(features(127, i, life, bytes(8)) for i in range(1, 8)),
        features(127, mine, life, wrong),
        features(127, mine + 1, life, wrong),
        features(127, mine + 1, life, secret),
        features(127, 1, life + 1, wrong),
        list(told.properties or ()),
    ]
    found: list[list[wire.Message]] = [[wire.KeepAlive(ID)]]
    for properties in guesses:
        bits = wire.Property(wire.PropertyId.SEQUENCE_BITS, number(14))
        all_of_them = [bits, *(one for one in properties if one.id != bits.id)]
        found.append([wire.Open(1, ID, 50, [], properties=all_of_them)])
        found.append([wire.Hello(4, [])])
        found.append([wire.Accept(session.id, ID, 50, properties=properties)])
    return found


def test_session_is_not_taken_over() -> None:
    """Who says a peer's id, its number, or all that it once said, would get what is meant for it, and speak in its place."""
    with (
        pyddsi.open(group=group(), shared_memory=False) as one,
        Between(one, nothing) as between,
        caller(between) as other,
        attacker(one) as say,
    ):
        pub, sub = one.publisher("a", way="each"), other.subscriber("a", depth=2 * COUNT)
        back, heard = other.publisher("b", way="each"), one.subscriber("b", depth=2 * COUNT)
        pub.wait_matched(timeout=TIMEOUT)
        back.wait_matched(timeout=TIMEOUT)
        (peer,) = one.peers()
        one.events()
        answers: list[wire.Message] = []
        said = words(one, between.heard[-1], peer.incarnation)
        for i in range(COUNT):
            answers += say(*said[i % len(said)])
            forged = wire.SData(i, heard.number, b"forged", reliable=True)
            answers += say(wire.Conduit(i % 2), forged)
            pub.put(b"%d" % i, timeout=TIMEOUT)
            back.put(b"%d" % i, timeout=TIMEOUT)
        assert not {wire.Accept, wire.SData, wire.AckNack} & {type(one) for one in answers}
        for reader in (sub, heard):
            got = [bytes(reader.recv(timeout=TIMEOUT).data) for _ in range(COUNT)]
            assert got == [b"%d" % i for i in range(COUNT)]
            assert reader.poll() is None
        events = [event for event in one.events() if event.peer == peer.name]
        assert not {"disconnected", "reconnected"} & {event.kind for event in events}
        assert [found.endpoint for found in one.peers() if found.name == peer.name] == [
            peer.endpoint
        ]
        for session in (one, other):
            stats = session.stats()
            assert stats.owed == stats.acknowledged + stats.forgiven + stats.in_flight
            assert stats.forgiven == 0


def token_of(session: pyddsi.Session) -> wire.Property:
    """What a session tells everybody of its memory."""
    bits = wire.Property(wire.PropertyId.SEQUENCE_BITS, number(14))
    opened = wire.Open(1, b"else", 5, [], properties=[bits, *features(127, 1, 1, b"whatever")])
    with attacker(session) as say:
        while True:
            for message in say(opened):
                if isinstance(message, wire.Accept):
                    return next(p for p in message.properties or () if p.id == TOKEN)


def test_token_of_another() -> None:
    """Who shows the token of another's memory as its own would take its place, and the other get samples twice and out of order."""
    shown: list[wire.Property] = []

    def show(message: Met) -> Met | None:
        if not shown:
            return None
        message.properties = (*(p for p in message.properties or () if p.id != TOKEN), *shown)
        return message

    room = group()
    with pyddsi.open(group=room) as victim, Between(victim, show) as between:
        with caller(between):  # so it is the first that is asked
            victim.wait_event("connected", timeout=TIMEOUT)
        victim.wait_event("disconnected", timeout=TIMEOUT)
        with pyddsi.open(group=room) as third:
            victim.wait_event("connected", timeout=TIMEOUT)
            shown.append(token_of(third))
            with caller(between) as thief:
                pub = victim.publisher("a")
                stolen = thief.subscriber("a", depth=2 * COUNT)
                pub.wait_matched(timeout=TIMEOUT)
                sub = third.subscriber("a", depth=2 * COUNT)
                pub.wait_matched(2, timeout=TIMEOUT)
                sent = 0
                while victim.counts()["lane_readers"] == 0 or sent < COUNT:
                    pub.put(b"%d" % sent, timeout=TIMEOUT)
                    for reader in (sub, stolen):
                        assert bytes(reader.recv(timeout=TIMEOUT).data) == b"%d" % sent
                    sent += 1
                assert victim.counts()["lane_readers"] == 1
                assert sub.poll() is stolen.poll() is None
