"""Readers that drop: they have the newest, or the oldest, of what was put, and no publisher waits for them, on every way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, listed, two
from tests.api.test_links import opened, place, where

WAYS = ["shared", "udp", "tcp", "unix", "own"]
Drops = Literal["drop_oldest", "drop_newest"]


@contextmanager
def pair(way: str, folder: Path) -> Iterator[tuple[pyddsi.Session, pyddsi.Session]]:
    """Two sessions that speak this way; with "own" it is one."""
    if way in ("tcp", "unix"):
        with opened(listen=[place(way, folder)]) as one, opened(peers=[where(one)]) as other:
            yield one, other
    elif way == "own":
        with pyddsi.open(group=group()) as one:
            yield one, one
    else:
        shared = way == "shared"
        with two(shared_memory=shared) as (one, other):
            yield one, other


def left(sub: pyddsi.Subscriber) -> list[int]:
    """The numbers of the samples that are there."""
    return [int.from_bytes(bytes(sample.data[:4]), "little") for sample in iter(sub.poll, None)]


def put(pub: pyddsi.Publisher, count: int, size: int = 4) -> None:
    """So many, numbered; TimeoutError if they wait for a reader that does not read."""
    for number in range(count):
        pub.put(number.to_bytes(4, "little") + bytes(size - 4), timeout=TIMEOUT)


def arrive(one: pyddsi.Session, other: pyddsi.Session) -> None:
    """What was put is there: a mark behind it is."""
    with other.subscriber("mark") as marks, one.publisher("mark") as mark:
        mark.wait_matched(timeout=TIMEOUT)
        mark.put(b"")
        marks.recv(TIMEOUT)


@pytest.mark.parametrize("on_full", ["drop_oldest", "drop_newest"])
@pytest.mark.parametrize(
    ("depth", "size", "count"),
    [(1, 4, 20_000), (4, 4, 20_000), (9000, 4, 20_000), (8, 2_000_000, 14)],
)
@pytest.mark.parametrize("way", WAYS)
def test_depth(
    *, way: str, depth: int, size: int, count: int, on_full: Drops, tmp_path: Path
) -> None:
    """A reader that drops has other samples than those it asked for, holds up the publisher, or its drops are not listed."""
    with pair(way, tmp_path) as (one, other):
        sub, pub = other.subscriber("a", depth=depth, on_full=on_full), one.publisher("a")
        if way != "own":
            pub.wait_matched(timeout=TIMEOUT)
        put(pub, count, size)
        arrive(one, other)
        first = count - depth if on_full == "drop_oldest" else 0
        assert left(sub) == list(range(first, first + depth))
        assert listed(other) == count - depth
        assert other.stats().kept_bytes == 0


@pytest.mark.parametrize("way", WAYS)
def test_views_stay(way: str, tmp_path: Path) -> None:
    """What an application still looks at is written over, or holds up the publisher."""
    with pair(way, tmp_path) as (one, other):
        sub, pub = other.subscriber("a", depth=1, on_full="drop_oldest"), one.publisher("a")
        if way != "own":
            pub.wait_matched(timeout=TIMEOUT)
        held = []
        for number in range(60):
            pub.put(bytes([number]) * 200_000, timeout=TIMEOUT)
            if number % 20 == 0:
                view = sub.recv(TIMEOUT).data
                held.append((bytes(view), view))
        for then, now in held:
            assert now == then


@pytest.mark.parametrize("way", WAYS)
def test_beside_one_that_waits(way: str, tmp_path: Path) -> None:
    """Beside a reader that waits, and reads, one that drops and does not is out of date, or one of them loses something."""
    with pair(way, tmp_path) as (one, other):
        newest = other.subscriber("a", depth=2, on_full="drop_oldest")
        oldest = other.subscriber("a", depth=3, on_full="drop_newest")
        odd = other.subscriber("a", depth=2, on_full="drop_oldest", where="n > 0")
        drops = (newest, oldest, odd)
        every, pub = other.subscriber("a"), one.publisher("a")
        if way != "own":
            pub.wait_matched(timeout=TIMEOUT)
        for number in range(20_000):
            pub.put(b'{"n":%d,"k":%d}' % (number < 10, number), timeout=TIMEOUT)
            if number % 500 == 499:
                got = [bytes(every.recv(TIMEOUT).data) for _ in range(500)]
                assert json.loads(got[-1])["k"] == number
        arrive(one, other)
        found = [[json.loads(bytes(s))["k"] for s in iter(sub.poll, None)] for sub in drops]
        assert found == [[19998, 19999], [0, 1, 2], [8, 9]]
        assert listed(other) == (20_000 - 2) + (20_000 - 3) + (10 - 2)


@pytest.mark.parametrize("depth", [1, 4, 100])
def test_ahead(depth: int) -> None:
    """In shared memory a publisher gets ahead of a reader that waits by more than the docs say, or by less than its depth."""
    with two() as (one, other):
        wide, sub = other.subscriber("a", depth=5000), other.subscriber("a", depth=depth)
        pub = one.publisher("a")
        pub.wait_matched(timeout=TIMEOUT)
        assert one.wait(TIMEOUT, lambda: one.counts()["lane_readers"])
        count = 0
        while pub.put(b"x", wait=False):
            count += 1
        assert count == 8 * depth
        assert wide.recv_many(timeout=TIMEOUT)
        assert not pub.put(b"x", wait=False)
        assert bytes(sub.recv(TIMEOUT)) == b"x"
        assert pub.put(b"x", timeout=TIMEOUT)
        sub.close()
        while count < 5000:
            assert pub.put(b"x", timeout=TIMEOUT)
            count += 1
