"""What a session, and the programs, say of a peer that a limit refuses."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import pytest

import pyddsi
from pyddsi import cli
from tests.api.rooms import TIMEOUT, group


def test_eighteen_with_default_settings() -> None:
    """The 17th session would be alone with some of the others, in silence."""
    where = group()
    with ExitStack() as stack:
        sessions = [stack.enter_context(pyddsi.open(group=where)) for _ in range(18)]
        subscribers = [session.subscriber("all/*") for session in sessions]
        for i, session in enumerate(sessions):
            publisher = session.publisher(f"all/{i}")
            publisher.wait_matched(18, timeout=TIMEOUT)
            publisher.put(b"x")
        for subscriber in subscribers:
            assert len({subscriber.recv(timeout=TIMEOUT).source for _ in sessions}) == 18
        assert not any(session.refusals() for session in sessions)


def test_a_limit_refuses_a_peer(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network that a limit makes incomplete would look whole: no event, no warning, no word of a diagnosis."""
    where = group()
    ours = "this side has as many peers as its peers_max allows; give it a larger one"
    theirs = "the peer has as many peers as its peers_max allows; give that one a larger one"
    with (
        caplog.at_level(logging.WARNING, "pyddsi"),
        pyddsi.open(group=where, peers_max=1) as full,
        pyddsi.open(group=where, peers_max=1) as friend,
    ):
        publisher = full.publisher("a")
        friend.subscriber("a")
        publisher.wait_matched(timeout=TIMEOUT)
        with pyddsi.open(group=where) as late:
            late.wait(TIMEOUT, lambda: len(late.refusals()) == 2)
            full.wait(TIMEOUT, lambda: any(one.name == late.name for one in full.refusals()))
            (mine,) = full.refusals()
            by_full = next(one for one in late.refusals() if one.name == full.name)
            assert (mine.name, mine.reason, mine.endpoint) == (
                late.name,
                "peers_max",
                late.endpoint,
            )
            assert (by_full.reason, by_full.endpoint) == ("out_of_resources", full.endpoint)
            (event,) = (one for one in full.events() if one.kind == "refused")
            assert (event.reason, event.endpoint) == ("peers_max", late.endpoint)
            assert "peers_max" in str(event)
            reasons = [one.reason for one in late.events() if one.kind == "refused"]
            assert reasons == ["out_of_resources"] * 2
            assert f"No session with {late.name} at {late.endpoint}: {ours}." in full.why_not("a")
            assert f"No session with {full.name} at {full.endpoint}: {theirs}." in late.why_not("a")

            def said(who: pyddsi.Session, what: str) -> int:
                warnings = [record.getMessage() for record in caplog.records]
                return sum(who.title in one and what in one for one in warnings)

            full.wait(TIMEOUT, lambda: said(full, ours) and said(late, theirs) == 2)
            assert (said(full, ours), said(late, theirs)) == (1, 2)
            assert any(drop.reason == "peers_max" for drop in full.drops())
            assert any(drop.reason == "refused" for drop in late.drops())
        for command in (["scout"], ["ps"], ["doctor"]):
            duration = [] if command == ["doctor"] else ["--duration", "1"]
            status = cli.main([*command, *duration, "--group", where])
            printed = "".join(capsys.readouterr())
            assert theirs in printed, command
            assert status == 1 or command == ["ps"]
    warnings = [record.getMessage() for record in caplog.records]
    assert any(friend.title in one and ours in one for one in warnings), (
        "also if it is asked nothing"
    )
