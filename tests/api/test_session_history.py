"""Late joiners: each new subscriber gets what a publisher has kept, once and before what comes, on every way."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT
from tests.api.test_keep_last import WAYS, pair

KEEP = 3


def taken(sub: pyddsi.Subscriber, count: int) -> list[bytes]:
    """So many samples."""
    return [bytes(sub.recv(timeout=TIMEOUT).data) for _ in range(count)]


def versions(*numbers: int) -> list[bytes]:
    """The samples of these numbers."""
    return [b'{"v": %d}' % number for number in numbers]


def later(session: pyddsi.Session, kind: str, depth: int = 16) -> pyddsi.Subscriber:
    """A subscriber of the map, by one of the ways to say so."""
    if kind == "where":
        return session.subscriber("map/1", where="v >= 0", depth=depth)
    return session.subscriber({"name": "map/1", "pattern": "map/*"}[kind], depth=depth)


@pytest.mark.parametrize("way", WAYS)
def test_each_subscriber(way: str, tmp_path: Path) -> None:
    """A second subscriber of a session would begin with what comes, or an older one get twice what it has."""
    with pair(way, tmp_path) as (one, other), ExitStack() as stack:
        pub = one.publisher("map/1", durability="transient", keep=KEEP)
        subs: list[pyddsi.Subscriber] = []
        for number in range(5):
            pub.put(*versions(number))
        for count, kind in enumerate(["name", "name", "pattern", "where", "pattern", "where"]):
            number = 5 + count
            subs.append(stack.enter_context(later(other, kind)))
            assert taken(subs[-1], KEEP) == versions(*range(number - KEEP, number))
            pub.put(*versions(number))
            for sub in subs:
                assert taken(sub, 1) == versions(number)
        assert all(sub.poll() is None for sub in subs)
        assert not [drop for drop in one.drops() + other.drops() if drop.resource == "map/1"]


@pytest.mark.parametrize("kind", ["name", "pattern", "where"])
@pytest.mark.parametrize("way", WAYS)
def test_more_than_the_reader_has_room_for(way: str, kind: str, tmp_path: Path) -> None:
    """A subscriber with a small depth would lose what was kept, or get what comes before it."""
    with pair(way, tmp_path) as (one, other):
        pub = one.publisher("map/1", durability="transient", keep=100)
        for number in range(100):
            pub.put(*versions(number), timeout=TIMEOUT)
        with other.subscriber("map/**") as first, later(other, kind, depth=2) as second:
            for number in range(100):
                assert taken(first, 1) == taken(second, 1) == versions(number)
            pub.put(*versions(100), timeout=TIMEOUT)
            assert taken(first, 1) == taken(second, 1) == versions(100)


def test_publishers_of_both_sessions(tmp_path: Path) -> None:
    """A subscriber would get what one of several publishers has kept, or that of its own session alone."""
    with pair("udp", tmp_path) as (one, other):
        here = other.publisher("map/2", durability="transient", keep=2)
        there = [one.publisher(f"map/{at}", durability="transient", keep=2) for at in (1, 3)]
        for number in range(4):
            here.put(*versions(number))
            for pub in there:
                pub.put(*versions(number))
        for _ in range(3):
            with other.subscriber("map/*") as sub:
                samples = [sub.recv(timeout=TIMEOUT) for _ in range(6)]
                for name in ("map/1", "map/2", "map/3"):
                    kept = [bytes(one.data) for one in samples if one.resource == name]
                    assert kept == versions(2, 3)
                assert sub.poll() is None
