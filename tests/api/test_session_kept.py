"""What is promised of samples that are kept, and of brokers, is kept or refused."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack

import pytest

import pyddsi
from tests.api.rooms import TIMEOUT, group, two


def test_persistent_is_refused() -> None:
    """Samples that are to outlive their publisher would be gone with it, in silence."""
    with pyddsi.open(group=group()) as session:
        for refused in (
            lambda: session.publisher("a", durability="persistent"),
            lambda: session.resource("b", durability="persistent"),
            lambda: session.resource("c#persistent"),
        ):
            with pytest.raises(ValueError, match="needs a store on disk, which pyddsi does not"):
                refused()
        assert not session.things


def test_pull_without_transient() -> None:
    """A publisher with keep= alone would not answer pull() with its last samples."""
    with two() as (one, other):
        pub = one.publisher("a", keep=3)
        sub = other.subscriber("a", mode="pull")
        pub.wait_matched(timeout=TIMEOUT)
        for number in range(5):
            pub.put(b"%d" % number)
        sub.pull()
        assert [sub.recv(timeout=TIMEOUT).data for _ in range(3)] == [b"2", b"3", b"4"]


def test_a_broker_says_that_it_relays_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Two clients of one broker would wait for each other's samples for ever, and nothing say why."""
    with (
        caplog.at_level(logging.WARNING, "pyddsi"),
        pyddsi.open(group=group(), role="broker") as broker,
    ):
        assert f"{broker.title}: a broker relays nothing" in caplog.text


def test_connections_that_are_all_taken() -> None:
    """A session that turns newcomers away would say that nobody is there, or that nothing is wrong."""
    with ExitStack() as stack:
        session = stack.enter_context(pyddsi.open(group="", listen=["tcp/127.0.0.1:0"]))
        (where,) = session.listening
        for _ in range(65):
            stack.enter_context(socket.create_connection((where.address, where.port)))
        assert session.wait(TIMEOUT, lambda: session.counts()["links_refused"] != 0)
        assert "A session has at most 64, and ends one that says nothing" in session.why_not("a")
