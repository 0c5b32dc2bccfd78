"""Rooms of their own for the tests of sessions: each has a group that nobody else hears."""

import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pyddsi

TIMEOUT = 20.0
"""For waits that succeed: nothing depends on it unless all is lost."""

COUNT = 200

_count = itertools.count()


def group() -> str:
    """A group and port that no other test, and no other run on this machine, uses; below those that systems give away."""
    pid = os.getpid()
    return f"239.255.{pid >> 8 & 255}.{pid & 255}:{20000 + (pid * 31 + next(_count)) % 12000}"


@contextmanager
def two(**settings: Any) -> Iterator[tuple[pyddsi.Session, pyddsi.Session]]:
    """Two sessions that hear each other and nobody else."""
    settings.setdefault("group", group())
    with pyddsi.open(**settings) as one, pyddsi.open(**settings) as other:
        yield one, other


def numbers(count: int = COUNT) -> list[bytes]:
    """So many samples that differ."""
    return [b"%d" % i for i in range(count)]


def connected(
    one: pyddsi.Session, other: pyddsi.Session
) -> tuple[pyddsi.Publisher, pyddsi.Subscriber]:
    """A publisher and its subscriber."""
    sub = other.subscriber("a")
    pub = one.publisher("a")
    pub.wait_matched(timeout=TIMEOUT)
    return pub, sub


def listed(session: pyddsi.Session) -> int:
    """How many samples of "a" the ledger has."""
    return sum(drop.count for drop in session.drops() if drop.resource == "a")


class Turn:
    """Awaited, it lets every other task of the loop run once."""

    def __await__(self) -> Generator[None, None, None]:
        yield
