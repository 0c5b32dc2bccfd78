"""
Sessions on real sockets against the stand-in for zhe: as peers, as its broker and as its client, over TCP and UDP.

The stand-in is driven by the test's own thread; the session has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

import pyddsi
from pyddsi._why import rejections
from tests.api.rooms import TIMEOUT, group
from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS, Config, over_tcp
from tests.real.zhe_tcp import Tcp
from tests.real.zhe_udp import Udp, drive

P2P = over_tcp(CONFIGS["p2p"])
FAST = {"scout_ms": 100, "open_ms": 200, "synch_ms": 20, "commit_calls": 20}
LARGE, NARROW = (
    over_tcp(CONFIGS[name]).changed(seq_bits=14, **FAST)
    for name in ("client-large", "client-nbiot")
)
OUT, INTO = 100, 101
COUNT = 60


def session(**settings: Any) -> pyddsi.Session:
    """A session of ours that finds others by connections alone."""
    settings.setdefault("group", "")
    settings.setdefault("scout", 0.2)
    return pyddsi.open(shared_memory=False, **settings)


def zhe_of(
    config: Config = P2P, peer_id: bytes = b"\xa0\xff", name: str = "", begin: int = 0
) -> Zhe:
    """A stand-in that publishes, perhaps by a name, and subscribes; the first of its numbers."""
    zhe = Zhe(config, peer_id, time.monotonic())
    for sent in zhe.multicast:
        sent.base = sent.next = sent.best_next = begin
    if name:
        zhe.resource(OUT, name)
    zhe.publish(OUT)
    zhe.subscribe(INTO)
    return zhe


End = Tcp | Udp


@contextmanager
def ending(end: End) -> Iterator[End]:
    """Given back at the end."""
    try:
        yield end
    finally:
        end.close()


def until(end: End, ready: Callable[[], object]) -> None:
    """The stand-in is driven until this is so."""
    drive([end], ready, TIMEOUT)  # type: ignore[list-item]


def write(zhe: Zhe, payload: bytes) -> bool:
    """A sample of the stand-in, if there is room."""
    return zhe.write(OUT, payload, time.monotonic())


def talk(one: pyddsi.Session, end: End, count: int = COUNT) -> None:
    """Samples both ways, all of them, in order; and nobody has anything to complain about."""
    zhe = end.zhe
    before = len(zhe.received)
    with one.publisher(INTO) as pub, one.subscriber(OUT) as sub:
        until(end, lambda: pub.matched and zhe.tables.wanted(OUT))
        got: list[int] = []

        def arrived() -> bool:
            while (sample := sub.poll()) is not None:
                got.append(int(bytes(sample.data)))
            return len(got) == count and len(zhe.received) - before >= count

        for number in range(count):
            payload = b"%d" % number
            until(end, partial(write, zhe, payload))
            zhe.flush(time.monotonic())
            until(end, partial(pub.put, payload, wait=False))
        until(end, arrived)
    assert got == list(range(count))
    assert [int(sample.payload) for sample in zhe.received[before:]] == got
    assert [str(one) for one in zhe.violations if one.kind != "refuse"] == []


def address(one: pyddsi.Session) -> tuple[str, int]:
    """Where others connect to it."""
    return one.listening[0].address, one.listening[0].port


# ---- peers ----


@pytest.mark.parametrize("cut", [1 << 20, 3])
@pytest.mark.parametrize("features", [None, ()], ids=["ours", "plain"])
def test_zhe_connects(cut: int, features: tuple[str, ...] | None) -> None:
    """002-112: a zhe that connects to us is not understood, or is sent a packet that it closes the connection for."""
    told = {} if features is None else {"features": features}
    with (
        session(listen=["tcp/127.0.0.1:0"], **told) as one,
        ending(Tcp(zhe_of(), (address(one),), cut=cut)) as end,
    ):
        talk(one, end)


def test_we_connect() -> None:
    """002-112: a zhe that we connect to, though it is not there yet, is not understood."""
    with ending(Tcp(zhe_of(), port=0)) as end:
        assert isinstance(end, Tcp)
        with session(peers=[f"tcp/127.0.0.1:{end.address[1]}"]) as one:
            talk(one, end)


def test_long_id() -> None:
    """With an id of 16 bytes the OPEN has more than the 100 bytes that a zhe takes."""
    with ending(Tcp(zhe_of(), port=0)) as end:
        assert isinstance(end, Tcp)
        peers = [f"tcp/127.0.0.1:{end.address[1]}"]
        with pyddsi.open(group="", peers=peers, scout=0.2, id=bytes(range(16))) as one:
            talk(one, end)


def test_too_large(caplog: pytest.LogCaptureFixture) -> None:
    """A sample that no packet of a zhe can hold is sent to it, holds up others, or nobody is told of it, nor the ledger."""
    with (
        session(listen=["tcp/127.0.0.1:0"]) as one,
        session(peers=[str(one.listening[0])]) as other,
        ending(Tcp(zhe_of(), (address(one),))) as end,
    ):
        pub, sub = one.publisher(INTO), other.subscriber(INTO)
        until(end, lambda: len(pub.matched) == 2)
        for size in (70, 200, 5000, 71):
            pub.put(bytes(size))
        one.put("/by/name", bytes(200))
        until(end, lambda: len(end.zhe.received) == 2)
        assert [len(sample.payload) for sample in end.zhe.received] == [70, 71]
        assert [len(sub.recv(timeout=TIMEOUT).data) for _ in range(4)] == [70, 200, 5000, 71]
        zhe = end.zhe.id.hex()
        (line,) = (drop for drop in one.drops() if (drop.place, drop.reason) == ("put", "size"))
        assert (line.resource, line.count, line.peer, line.size) == (INTO, 2, zhe, 5000)
        assert 71 < line.size_max < 100
        assert f"(the last: 5000 bytes for {zhe}, which takes {line.size_max})" in one.why_not(INTO)
        said = one.wait_event("too_large", timeout=TIMEOUT)
        assert (said.of, said.peer, said.size, said.size_max) == (pub, zhe, 200, line.size_max)
        assert [str(one) for one in end.zhe.violations] == []
    (warning,) = (one for one in caplog.messages if "a sample of" in one)
    assert f"a sample of 200 bytes does not go to peer {zhe} at tcp/127.0.0.1:" in warning


def test_many_names() -> None:
    """Declarations that together have more than 100 bytes end the connection, or one that alone has more holds up the others."""
    config = P2P.changed(rid_max=(1 << 31) - 1)
    with session(listen=["tcp/127.0.0.1:0"]) as one:
        long = one.publisher("/" + "long" * 40)
        names = {f"/many/{number}" for number in range(8)}
        held = [one.publisher(name) for name in names]
        with ending(Tcp(zhe_of(config), (address(one),))) as end:
            until(end, lambda: {uri.decode() for uri in end.zhe.tables.uris.values()} >= names)
            talk(one, end)
        assert "no_space" in {event.status for event in one.events() if event.kind == "declared"}
        assert long not in held


@pytest.mark.parametrize("first", ["zhe", "session"])
@pytest.mark.parametrize("wanted", ["/plant/pose", "/plant/*"])
def test_names(wanted: str, first: str) -> None:
    """A session that subscribes by name does not get the samples of a zhe that publishes under that name, or not by its name."""
    with session(listen=["tcp/127.0.0.1:0"]) as one:
        made = [one.subscriber(wanted)] if first == "session" else []
        zhe = zhe_of(name="/plant/pose")
        with ending(Tcp(zhe, (address(one),))) as end:
            until(end, lambda: zhe.peers)
            sub = made[0] if made else one.subscriber(wanted)
            until(end, lambda: zhe.tables.wanted(OUT) and sub.status != "pending")
            assert write(zhe, b"here")
            zhe.flush(time.monotonic())
            until(end, lambda: one.stats().delivered)
            sample = sub.recv(timeout=TIMEOUT)
            assert (sample.resource, bytes(sample.data)) == ("plant/pose", b"here")
            assert sub.status == "settled"
        assert [str(violation) for violation in zhe.violations] == []


def test_who_refuses() -> None:
    """Of a name that a zhe never takes nobody says which peer refuses it, and why: neither the error, nor why_not, nor sub."""
    config = P2P.changed(uris=1)
    with session(listen=["tcp/127.0.0.1:0"]) as one:
        zhe = zhe_of(config, name="/plant/map")
        with ending(Tcp(zhe, (address(one),))) as end:
            until(end, lambda: zhe.peers)
            pub, sub = one.publisher("/plant/sent"), one.subscriber("/plant/pose")
            until(end, lambda: list(rejections(one, [pub])) and list(rejections(one, [sub])))
            who = f"peer {zhe.id.hex()} at {one.peers()[0].endpoint}"
            why = "no_space (it has no room for another name)"
            with pytest.raises(pyddsi.DeclarationError) as caught:
                sub.wait_settled()
            assert str(caught.value).endswith(f"{who} does not accept it: {why}")
            sentence = (
                f"{who.capitalize()} does not accept resource '/plant/pose' of {one.title}: {why}."
            )
            assert sentence in one.why_not("/plant/pose")
            with pytest.raises(TimeoutError) as late:
                pub.wait_matched(timeout=0.0)
            assert sentence.replace("pose", "sent") in str(late.value)
            assert sentence in list(rejections(one, [sub]))


def test_conditions() -> None:
    """A subscriber with where= gets nothing of a zhe, which knows no conditions, and nobody says so."""
    with session(listen=["tcp/127.0.0.1:0"]) as one:
        zhe = zhe_of(name="/plant/pose")
        with ending(Tcp(zhe, (address(one),))) as end:
            one.subscriber("/plant/pose", where="$size > 3")
            until(end, lambda: any(known.name == "plant/pose" for known in one.resources()))
            peer = f"Peer {zhe.id.hex()} at {one.peers()[0].endpoint}"
            assert f"{peer} knows no conditions (where=)" in one.why_not("/plant/pose")
            assert [str(violation) for violation in zhe.violations] == []


def test_conflict_says_who() -> None:
    """A number that a peer has given another name is refused without a word of which peer, and which name."""
    with session(listen=["tcp/127.0.0.1:0"]) as one:
        zhe = zhe_of(name="/plant/map")
        with ending(Tcp(zhe, (address(one),))) as end:
            until(end, lambda: any(known.name == "plant/map" for known in one.resources()))
            with pytest.raises(pyddsi.ConflictError) as caught:
                one.resource("/plant/pose", number=OUT)
            assert f"'plant/map' of peer {zhe.id.hex()}" in str(caught.value)
            assert caught.value.names == ("plant/map",)


@pytest.mark.parametrize("listens", ["we", "zhe"])
def test_restarts(listens: str) -> None:
    """After either has gone without a word and come back they do not find each other, or go on where they were."""
    config = P2P.changed(**FAST)
    port = 0
    for _ in range(2):
        with ending(Tcp(zhe_of(config), port=0 if listens == "zhe" and not port else port)) as end:
            assert isinstance(end, Tcp)
            port = end.address[1]
            settings: dict[str, Any] = {"peers": [f"tcp/127.0.0.1:{port}"]}
            if listens == "we":
                settings = {"listen": ["tcp/127.0.0.1:0"]}
            with session(**settings) as one:
                if listens == "we":
                    end.later[address(one)] = 0.0
                talk(one, end)
                end.close()  # as after a kill
                assert one.wait_event("disconnected", timeout=TIMEOUT).reason == "link"
                again = Tcp(zhe_of(config), port=port if listens == "zhe" else None)
                if listens == "we":
                    again.later[address(one)] = 0.0
                with ending(again):
                    talk(one, again)
            # and the other way round: we are gone, and another of us is there
            until_gone = Tcp(zhe_of(config), port=port if listens == "zhe" else None)
            with ending(until_gone), session(**settings) as one:
                if listens == "we":
                    until_gone.later[address(one)] = 0.0
                talk(one, until_gone)


# ---- broker and client ----


@pytest.mark.parametrize("config", [LARGE, NARROW], ids=["large", "nbiot"])
def test_broker_over_tcp(config: Config) -> None:
    """002-112: a zhe that is a client does not find us as its broker over TCP, or is not understood; nor after it has restarted."""
    with session(listen=["tcp/127.0.0.1:0"], role="broker") as one:
        for peer_id in (b"\xa0\xff", b"\xa0\xff", b"\xa1"):
            with ending(Tcp(zhe_of(config, peer_id), (address(one),))) as end:
                talk(one, end)
            one.wait_event("disconnected", timeout=TIMEOUT)


def test_client_over_tcp() -> None:
    """002-112: as a client we do not find a broker over TCP, or do not understand it; nor after it has restarted."""
    config = over_tcp(CONFIGS["broker"]).changed(**FAST)
    with ending(Tcp(zhe_of(config), port=0)) as end:
        assert isinstance(end, Tcp)
        port = end.address[1]
        with session(peers=[f"tcp/127.0.0.1:{port}"], role="client") as one:
            talk(one, end)
            end.close()
            assert one.wait_event("disconnected", timeout=TIMEOUT).reason == "link"
            with ending(Tcp(zhe_of(config, b"\xb0"), port=port)) as again:
                talk(one, again)


def meeting() -> tuple[str, tuple[str, int]]:
    """A group of the test's own, on the loopback."""
    room = group()
    host, _, port = room.rpartition(":")
    return room, (host, int(port))


def test_broker_over_udp() -> None:
    """002-112: a zhe that is a client does not find us as its broker by the group."""
    room, scouting = meeting()
    config = CONFIGS["client-large"].changed(seq_bits=14, scouting=scouting, **FAST)
    with (
        session(group=room, interface="lo", role="broker") as one,
        ending(Udp(zhe_of(config))) as end,
    ):
        talk(one, end)


def test_client_over_udp() -> None:
    """002-112: as a client we do not find a broker by the group, or do not understand it."""
    room, scouting = meeting()
    config = CONFIGS["broker"].changed(scouting=scouting, **FAST)
    with (
        ending(Udp(zhe_of(config))) as end,
        session(group=room, interface="lo", role="client") as one,
    ):
        talk(one, end)


def test_groups_of_its_own() -> None:
    """
    A zhe that sends to other groups than the one that it is found by is matched, and its samples never come: nobody says why, or
    what is said to help does not.
    """
    room, scouting = meeting()
    first, _, last = scouting[0].rpartition(".")
    where = f"{first}.{int(last) ^ 1}", scouting[1]  # all groups of a zhe have one port
    data = f"{where[0]}:{where[1]}"
    config = CONFIGS["p2p"].changed(scouting=scouting, groups=(where,), multicasts=1, unicast=1)
    config = config.changed(scout_ms=100)
    with ending(Udp(zhe_of(config))) as end:
        with session(group=room, interface="lo") as one:
            sub = one.subscriber(OUT)
            until(end, lambda: end.zhe.tables.wanted(OUT))
            zhe = f"Peer {end.zhe.id.hex()} at {one.peers()[0].endpoint}"
            why = one.why_not(OUT)
            assert f"{zhe} sends its samples to groups of its own, the first of them {data}" in why
            assert f"group='{data}' and peers=['{room}']" in why
            assert sub.poll() is None
        until(end, lambda: not end.zhe.peers)
        with session(group=data, peers=[room], interface="lo") as one:
            talk(one, end)
            assert "groups of its own" not in one.why_not(OUT)


def test_peers_over_udp() -> None:
    """002-112: a zhe and a session with defaults on both sides do not find each other by the group, or are not understood."""
    room, scouting = meeting()
    config = CONFIGS["p2p"].changed(scouting=scouting, scout_ms=100)
    with ending(Udp(zhe_of(config))) as end, session(group=room, interface="lo") as one:
        talk(one, end)


# ---- ids of 8 bits ----


@pytest.mark.parametrize("how", ["udp", "zhe connects", "we connect"])
def test_more_names_than_it_has_numbers(how: str) -> None:
    """A zhe with narrow ids begins its session anew for ever, or nothing says of which names it hears nothing."""
    config = CONFIGS["p2p-small"].changed(**FAST)
    names = [f"/plant/p{i}" for i in range(70)]
    with ExitStack() as stack:
        if how == "udp":
            room, scouting = meeting()
            one = stack.enter_context(session(group=room, interface="lo"))
            end = stack.enter_context(ending(Udp(zhe_of(config.changed(scouting=scouting)))))
        elif how == "zhe connects":
            one = stack.enter_context(session(listen=["tcp/127.0.0.1:0"]))
            end = stack.enter_context(ending(Tcp(zhe_of(over_tcp(config)), (address(one),))))
        else:
            end = stack.enter_context(ending(Tcp(zhe_of(over_tcp(config)), port=0)))
            one = stack.enter_context(session(peers=[f"tcp/127.0.0.1:{end.address[1]}"]))
        pubs = [one.publisher(name) for name in names]
        until(end, lambda: pubs[-1].status == "no_space")
        until(end, lambda: all(pub.status != "pending" for pub in pubs))
        assert [pub.status for pub in pubs] == ["settled"] * 64 + ["no_space"] * 6
        end.zhe.violations.clear()
        talk(one, end)
        for why in (one.why_not(names[-1]), *rejections(one, pubs[-1:])):
            assert "does not accept" in why
            assert "no room for another name" in why
        with pytest.raises(TimeoutError, match="no room for another name"):
            pubs[-1].wait_matched(timeout=0.0)
