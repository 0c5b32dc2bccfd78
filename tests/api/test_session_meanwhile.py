"""What other threads do while a session is asked."""

import itertools

import pytest

import pyddsi
from pyddsi import names
from tests.api.rooms import TIMEOUT, group, two

EXPLAINED = 0.5
"""A wait of so many seconds ends with the reason why nothing came."""


def test_why_not_while_others_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that is over would raise RuntimeError (a dictionary changed its size) in the place of TimeoutError."""
    intersect, count = names.intersect, itertools.count()
    with pyddsi.open(group=group()) as session:
        sub = session.subscriber("a/*")

        def meddle(one: str, other: str) -> bool:
            session.resource(f"b/{next(count)}")
            return intersect(one, other)

        monkeypatch.setattr(names, "intersect", meddle)
        with pytest.raises(TimeoutError, match="no sample came"):
            sub.recv(timeout=EXPLAINED)
        assert next(count) > 1


def test_why_not_while_others_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where what is asked about has just been closed: the wait would raise ClosedError."""
    intersect = names.intersect
    with two() as (session, other):
        sub, pub = session.subscriber("a/*"), session.publisher("a/b")
        other.subscriber("a/b")
        pub.wait_matched(timeout=TIMEOUT)

        def meddle(one: str, other: str) -> bool:
            pub.close()
            return intersect(one, other)

        monkeypatch.setattr(names, "intersect", meddle)
        with pytest.raises(TimeoutError, match=r"'a/b' of .* is closed, by another"):
            sub.recv(timeout=EXPLAINED)
