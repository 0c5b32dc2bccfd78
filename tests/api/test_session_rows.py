"""
Rows of the requirements that speak of threads or sessions, on real ones: what the simulator shows for every order of events,
two sessions of this process show for the orders that come.

Each test loads its threads for a fraction of a second and asks for nothing that depends on how long something took. The file
is long because the rows are many.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import pyddsi
from pyddsi import names, wire
from tests.api.rooms import TIMEOUT, group, two
from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS
from tests.real.zhe_udp import Udp, drive

COUNT = 2000


def side_by_side(*works: Callable[[], Any]) -> None:
    """All at once, each on a thread of its own; what one raises is raised."""
    failed: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> None:
        try:
            start.wait(TIMEOUT)
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for error in failed:
        raise error


def taken(sub: pyddsi.Subscriber, count: int) -> list[int]:
    """So many samples, as the numbers that they are."""
    found: list[int] = []
    while len(found) < count:
        found += [int(bytes(one.data)[:8]) for one in sub.recv_many(timeout=TIMEOUT)]
    return found


def put(pub: pyddsi.Publisher, count: int, size: int = 8) -> None:
    """The same the other way."""
    for number in range(count):
        pub.put((b"%08d" % number).ljust(size, b"."), timeout=TIMEOUT)


# ---- receiving, sending and housekeeping side by side ------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True], ids=["sockets", "memory"])
def test_both_ways_at_once(shared: bool) -> None:  # noqa: FBT001
    """002-42, 002-45: packets would be lost or mixed up while both sides send, receive and keep house."""
    with two(shared_memory=shared) as (one, other):
        ways = []
        for writer, reader, name in ((one, other, "a"), (other, one, "b")):
            sub, pub = reader.subscriber(name), writer.publisher(name)
            pub.wait_matched(timeout=TIMEOUT)
            ways.append((pub, sub))
        got: dict[int, list[int]] = {}

        def read(i: int) -> None:
            got[i] = taken(ways[i][1], COUNT)

        side_by_side(
            lambda: put(ways[0][0], COUNT),
            lambda: put(ways[1][0], COUNT),
            lambda: read(0),
            lambda: read(1),
        )
        assert got == {0: list(range(COUNT)), 1: list(range(COUNT))}
        counts = one.counts()
        if not shared:
            assert counts["sent_application"] > 0
            assert counts["sent_receive"] > 0
        assert counts["wakeups_receive"] > 0
        for session in (one, other):
            stats = session.stats()
            assert stats.owed == stats.acknowledged + stats.forgiven + stats.in_flight


def test_a_window_of_few_samples() -> None:
    """002-49, 002-50, 002-53: a writer would run over what is not acknowledged, or wait for room that there is."""
    with two(shared_memory=False, window_bytes=4096, window_samples=4) as (one, other):
        sub, pub = other.subscriber("a"), one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        got: list[int] = []
        side_by_side(lambda: put(pub, COUNT, 300), lambda: got.extend(taken(sub, COUNT)))
        assert got == list(range(COUNT))
        assert one.stats().put_waits > 0


def test_both_pairs_of_the_window() -> None:
    """002-51: a look at the window under load would show numbers and positions that do not fit each other."""
    with two(shared_memory=False, window_bytes=16384) as (one, other):
        sub, pub = other.subscriber("a"), one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        done = threading.Event()
        looks: list[Any] = []

        def write() -> None:
            put(pub, COUNT, 100)
            done.set()

        def look() -> None:
            while not done.is_set():
                looks.append(pub.window)

        side_by_side(write, lambda: taken(sub, COUNT), look)
        assert looks
        for window in looks:
            assert window.seq - window.seqbase == window.used_samples <= window.samples_max
            assert window.used_bytes <= window.size_bytes


def test_peers_that_come_and_go() -> None:
    """002-79, 002-103: a writer would touch a peer that is taken away, or wait for ever for one that has gone."""
    settings: dict[str, Any] = {"group": group(), "shared_memory": False, "window_bytes": 4096}
    done = threading.Event()
    with pyddsi.open(**settings) as one:
        pub = one.publisher("a")
        number = 0

        def write() -> None:
            nonlocal number
            while not done.is_set():
                pub.put(b"%08d" % number, timeout=TIMEOUT)
                number += 1

        def visit() -> None:
            try:
                for _ in range(6):
                    with pyddsi.open(**settings) as other:
                        sub = other.subscriber("a", depth=4)  # and goes while its window is full
                        found = taken(sub, 40)
                        assert found == list(range(found[0], found[0] + len(found)))
            finally:
                done.set()

        side_by_side(write, visit)
        stats = one.stats()
        assert stats.accepted == number
        assert stats.owed == stats.acknowledged + stats.forgiven + stats.in_flight
        lost = sum(d.count for d in one.drops() if (d.place, d.reason) == ("window", "peer_lost"))
        assert 0 <= stats.forgiven - lost < 6 * 4  # what was declared to them is forgiven, too


def test_conduits_of_many_peers() -> None:
    """002-5: the unicast conduit to some peer would be taken for a fault; to peer 3 it is -4, which is one elsewhere."""
    settings: dict[str, Any] = {"group": group(), "shared_memory": False}
    sessions = [pyddsi.open(**settings) for _ in range(6)]
    try:
        one, *others = sessions
        subs = [session.subscriber(f"to/{i}") for i, session in enumerate(others)]
        pubs = [one.publisher(f"to/{i}", way="unicast") for i in range(len(others))]
        for pub in pubs:
            pub.wait_matched(timeout=TIMEOUT)
        assert sorted(pub.conduit for pub in pubs if pub.conduit is not None) == [
            -5,
            -4,
            -3,
            -2,
            -1,
        ]
        for pub, sub in zip(pubs, subs, strict=True):
            pub.put(b"00000007")
            assert taken(sub, 1) == [7]
            assert pub.window is not None
    finally:
        for session in sessions:
            session.close()


# ---- declarations ------------------------------------------------------------------------------------------------


def test_two_threads_declare() -> None:
    """002-91: what two threads declare at once would be told twice, or not at all."""
    where = group()
    host, _, port = where.rpartition(":")
    scouting = host, int(port)
    config = CONFIGS["p2p"].changed(scouting=scouting, groups=(scouting,))
    zhe = Udp(Zhe(config, b"\xa0\x91"), "0.0.0.0")  # noqa: S104 - by the way that sessions take
    heard: dict[tuple[int, str], wire.Declare] = {}  # what is sent again is here once
    session = pyddsi.open(group=where)
    mine = session.endpoint.port
    real = zhe.zhe.input

    def listen(data: bytes, source: tuple[str, int], now: float) -> None:
        if source[1] == mine:
            for message in wire.decode(data):
                if isinstance(message, wire.Declare):
                    heard[message.sn, repr(message.declarations)] = message
        real(data, source, now)

    zhe.zhe.input = listen  # type: ignore[method-assign]
    wanted = {thread: range(1 + 100 * thread, 11 + 100 * thread) for thread in range(2)}
    try:
        drive([zhe], session.peers, TIMEOUT)
        made: list[Any] = []

        def declare(thread: int) -> None:
            for number in wanted[thread]:
                made.append(session.subscriber(number))
                made.append(session.publisher(number))

        side_by_side(lambda: declare(0), lambda: declare(1))
        drive([zhe], lambda: all(one.status != "pending" for one in made), TIMEOUT)
    finally:
        session.close(0.0)
        zhe.close()
    told = Counter(
        (type(one).__name__, one.id)
        for message in heard.values()
        for one in message.declarations
        if isinstance(one, (wire.Subscription, wire.Publication))
    )
    assert set(told.values()) == {1}
    subscribed = {rid for kind, rid in told if kind == "Subscription"}
    assert subscribed == {number for numbers in wanted.values() for number in numbers}


def test_matched_with_what_was_there() -> None:
    """002-94: a publisher's first sample would miss a subscriber that was there before it."""
    with two() as (one, other):
        sub = other.subscriber("a")
        with one.publisher("a") as first:
            first.wait_matched(timeout=TIMEOUT)
        for _ in range(20):
            with one.publisher("a") as pub:
                pub.put(b"00000001")
            assert taken(sub, 1) == [1]


def test_silence_without_a_reader() -> None:
    """002-96, 002-102: a publisher would go on sending when its last reader, and not before, has gone."""
    settings: dict[str, Any] = {"group": group(), "shared_memory": False}
    with (
        pyddsi.open(**settings) as one,
        pyddsi.open(**settings) as other,
        pyddsi.open(**settings) as third,
    ):
        pub = one.publisher("a")
        subs = [other.subscriber("a"), third.subscriber("a")]
        pub.wait_matched(2, timeout=TIMEOUT)
        subs[0].close()
        one.wait_event("unmatched", timeout=TIMEOUT)
        pub.put(b"00000001")
        assert taken(subs[1], 1) == [1]
        subs[1].close()
        one.wait_event("unmatched", timeout=TIMEOUT)
        before = one.stats()
        for _ in range(100):
            pub.put(bytes(1000))
        after = one.stats()
        assert after.unmatched - before.unmatched == 100
        assert after.owed == before.owed


def test_closing_beside_receiving() -> None:
    """002-92: a subscriber that is closed while samples come would be called later, or take others with it."""
    with two(shared_memory=False) as (one, other):
        pub, stays = one.publisher("a"), other.subscriber("a")
        pub.wait_matched(timeout=TIMEOUT)
        got: list[int] = []

        def come_and_go() -> None:
            for _ in range(50):
                with other.subscriber("a") as sub:
                    sub.poll()
                for _ in range(64):  # at most so many had been taken for it already
                    try:
                        sub.recv(0)
                    except pyddsi.ClosedError:
                        break
                with pytest.raises(pyddsi.ClosedError):
                    sub.recv(0)

        side_by_side(lambda: put(pub, COUNT), lambda: got.extend(taken(stays, COUNT)), come_and_go)
        assert got == list(range(COUNT))


def test_newcomers_are_told_once() -> None:
    """002-98: a newcomer would not hear of what was declared before, or twice, while more is declared."""
    where = group()
    with pyddsi.open(group=where) as one:
        made = [one.subscriber(f"past/{i}") for i in range(40)]

        def declare() -> None:
            made.extend(one.subscriber(f"now/{i}") for i in range(40))

        def come() -> None:
            for _ in range(3):
                with pyddsi.open(group=where) as other:
                    wanted = {f"past/{i}" for i in range(40)}

                    def told(other: pyddsi.Session = other) -> Counter[str]:
                        return Counter(
                            str(known.name)
                            for known in other.resources()
                            if known.kind == "subscription"
                        )

                    assert other.wait(TIMEOUT, lambda: wanted <= set(told()))  # noqa: B023
                    assert set(told().values()) == {1}

        side_by_side(declare, come)
        assert len(made) == 80


# ---- slow readers, sizes -----------------------------------------------------------------------------------------


def test_slow_reader() -> None:
    """002-109, 002-111: one who does not read would hold up the others for ever, or miss samples without a word."""
    settings: dict[str, Any] = {
        "group": group(),
        "shared_memory": False,
        "window_bytes": 8192,
        "slow": 0.2,
        "packets_max": 64,
    }
    with (
        pyddsi.open(**settings) as one,
        pyddsi.open(**settings) as quick,
        pyddsi.open(**settings) as slow,
    ):
        pub = one.publisher("a")
        reads, sleeps = quick.subscriber("a"), slow.subscriber("a", depth=1)
        pub.wait_matched(2, timeout=TIMEOUT)
        got: list[int] = []
        side_by_side(lambda: put(pub, 400, 500), lambda: got.extend(taken(reads, 400)))
        assert got == list(range(400))
        assert one.wait_event("detached", timeout=TIMEOUT).peer == slow.name
        late, number = taken(sleeps, 1), 400
        while late[-1] < 400:  # until it has caught up
            pub.put(b"%08d" % number, timeout=TIMEOUT)
            number += 1
            late += [int(bytes(one.data)[:8]) for one in sleeps.recv_many(timeout=TIMEOUT)]
        assert late == sorted(set(late))
        told = [event for event in slow.events() if event.kind == "gap"]
        assert sum(event.last - event.first + 1 for event in told) >= late[-1] + 1 - len(late) > 0


@pytest.mark.parametrize("shared", [False, True], ids=["sockets", "memory"])
def test_sizes(shared: bool) -> None:  # noqa: FBT001
    """002-124: a sample of some size would come with other bytes than it was put with."""
    with two(shared_memory=shared) as (one, other):
        sub, pub = other.subscriber("a"), one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        for size in (0, 1, 1400, 1472, 1473, 20_000, 255_000, 262_144, 1_000_000):
            data = bytes(range(251)) * (size // 251 + 1)
            pub.put(data[:size], timeout=TIMEOUT)
            assert bytes(sub.recv(TIMEOUT).data) == data[:size]


# ---- names -------------------------------------------------------------------------------------------------------

COVERED = [
    ("house/kitchen", "house/kitchen", True),
    ("house/kitchen", "house/kitchens", False),
    ("house/?", "house/a", True),
    ("house/?", "house/ab", False),
    ("house/?", "house/a/b", False),
    ("h?use/a", "house/a", True),
    ("house?a", "house/a", False),
    ("house/*", "house/kitchen", True),
    ("house/*", "house/kitchen/temp", False),
    ("house/*", "house", False),
    ("house/k*n", "house/kitchen", True),
    ("house/k*n", "house/kit/chen", False),
    ("*/kitchen", "house/kitchen", True),
    ("*/*", "house/kitchen", True),
    ("*", "house/kitchen", False),
    ("**", "house/kitchen/temp", True),
    ("house/**", "house/kitchen/temp", True),
    ("house/**/temp", "house/kitchen/oven/temp", True),
    ("house/**/temp", "house/kitchen/oven", False),
    ("ho**mp", "house/kitchen/temp", True),
    ("house/*/t?mp", "house/kitchen/temp", True),
]


@pytest.mark.parametrize(("pattern", "name", "covers"), COVERED)
def test_patterns(pattern: str, name: str, covers: bool) -> None:  # noqa: FBT001
    """002-127: a wildcard would cover what it should not, or not what it should."""
    assert names.matches(pattern, name) is covers
    assert names.intersect(pattern, name) is covers


def test_patterns_of_subscribers() -> None:
    """002-127: subscribers to patterns would hear other samples than those of the names that they cover."""
    with two() as (one, other):
        subs = {pattern: other.subscriber(pattern) for pattern, _, _ in COVERED}
        there = sorted({name for _, name, _ in COVERED})
        pubs = {name: one.publisher(name) for name in there}
        wanted = {
            pattern: [name for name in there if names.matches(pattern, name)] for pattern in subs
        }
        for name, pub in pubs.items():
            if any(name in hit for hit in wanted.values()):
                pub.wait_matched(timeout=TIMEOUT)
                pub.put(name.encode(), timeout=TIMEOUT)
        for pattern, sub in subs.items():
            found = [bytes(sub.recv(TIMEOUT).data).decode() for _ in wanted[pattern]]
            assert sorted(found) == wanted[pattern]
            assert sub.poll() is None


def lists(session: pyddsi.Session, wanted: dict[str, list[str]]) -> bool:
    """Whether it knows these children, by the name above them."""
    return all(session.ls(name) == children for name, children in wanted.items())


def test_children_and_ids() -> None:
    """002-127: `house/$ls` would not list what is below house, or `$id` not tell by which number it is known."""
    with two() as (one, other):
        made: list[Any] = [
            other.subscriber(name)
            for name in (
                "house/kitchen/temp",
                "house/hall",
                "house/*/lum",
                "house/loft?{v > 3}",
                "barn",
            )
        ]
        pub = one.publisher("house/attic/light")
        hall = one.publisher("house/hall")
        for thing in (*made, pub, hall):
            thing.wait_settled(timeout=TIMEOUT)
        children = ["attic", "hall", "kitchen", "loft"]
        for session in (one, other):
            # what settled before the two had met is told when they meet
            session.wait(
                TIMEOUT, partial(lists, session, {"house": children, "": ["barn", "house"]})
            )
            assert session.ls("house") == session.get("house/$ls") == children
            assert session.ls() == session.get("/$ls") == ["barn", "house"]
            assert session.ls("/house/attic") == ["light"]
            assert session.ls("house/hall") == session.ls("nothing") == []
            assert session.get("house/hall/$id") == [hall.number]
            assert session.get("house/attic/light/$id") == [pub.number]
            assert session.get("nothing/$id") == []
        for wrong in ("house", "house/*"):
            with pytest.raises(ValueError, match="asks for nothing"):
                one.get(wrong)
        with pytest.raises(ValueError, match="no single name"):
            one.ls("house/*")
        with pytest.raises(pyddsi.InvalidNameError):
            one.get("house/$ls/x")
        made.clear()


# ---- idle --------------------------------------------------------------------------------------------------------


def test_idle() -> None:
    """002-38: a session that has nothing to do would wake up more than once a second, with its signs of life and PINGs."""
    with two() as (one, other):
        sub, pub = other.subscriber("a"), one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        pub.put(b"00000001")
        assert taken(sub, 1) == [1]

        def woken() -> int:
            counts = one.counts()
            return counts["wakeups_receive"] + counts["wakeups_housekeeping"]

        def quiet() -> bool:
            """Whether a second went by with two wake-ups at most: then it has found its peace."""
            before = woken()
            one.wait(1.0, lambda: False)
            return woken() - before <= 2

        assert any(quiet() for _ in range(int(TIMEOUT)))
        pings, before = one.stats().pings_out, woken()
        one.wait(4.0, lambda: False)
        assert one.stats().pings_out <= pings + 1
        assert woken() - before <= 7
