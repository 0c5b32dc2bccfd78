"""A session that a limit refuses is known on both sides: an event, a refusal that lasts as long as the limit, the ledger."""

from __future__ import annotations

import pytest

from pyddsi.testing import Node, Sim


def told(node: Node) -> list[tuple[str | None, str | None]]:
    """The refusals among its events: of whom, and why."""
    return [(event.peer, event.reason) for event in node.events() if event.kind == "refused"]


def counted(node: Node, reason: str) -> int:
    """What the ledger has for this reason."""
    return sum(drop.count for drop in node.drops() if drop.reason == reason)


def test_default_has_room_for_a_crowd() -> None:
    """The 17th of some processes with default settings would miss others."""
    with Sim(1) as sim:
        nodes = [sim.node(f"n{i}") for i in range(40)]
        sim.run(5.0)
        for node in nodes:
            assert [peer.state for peer in node.peers()] == ["established"] * 39
            assert node.refusals() == []
            assert told(node) == []


def test_both_sides_know() -> None:
    """Where a limit refuses a peer, neither side would know that the network is incomplete."""
    with Sim(1) as sim:
        full = sim.node("full", peers_max=1)
        friend = sim.node("friend")
        sim.run_until_quiet()
        late = sim.node("late")
        sim.run(30.0)
        assert told(full) == [("late", "peers_max")] or told(full) == [(None, "peers_max")]
        assert told(late) == [("full", "out_of_resources")]
        assert told(friend) == []
        (ours,), (theirs,) = full.refusals(), late.refusals()
        assert (ours.name, ours.reason) == ("late", "peers_max")
        assert (theirs.name, theirs.reason) == ("full", "out_of_resources")
        assert ours.count > 3, "both go on asking"
        assert theirs.count > 3
        assert "this side has as many peers as its peers_max allows" in str(ours)
        assert "the peer has as many peers as its peers_max allows" in str(theirs)
        assert counted(full, "peers_max") >= ours.count
        assert counted(late, "refused") >= theirs.count
        assert counted(full, "limit") == counted(late, "limit") == 0


@pytest.mark.parametrize("how", ["room", "gone"])
def test_a_refusal_ends(how: str) -> None:
    """A refusal would stand there after a session came about, or after the peer had left."""
    with Sim(1) as sim:
        full, friend = sim.node("full", peers_max=1), sim.node("friend")
        sim.run_until_quiet()
        late = sim.node("late")
        sim.run(10.0)
        assert [one.name for one in full.refusals()] == ["late"]
        if how == "room":
            friend.close()
        else:
            late.close()
        sim.run(30.0)
        assert full.refusals() == []
        names = {peer.name for peer in full.peers() if peer.state == "established"}
        assert names == {"late" if how == "room" else "friend"}
        assert how == "gone" or late.refusals() == []


def test_invented_peers_cost_no_events() -> None:
    """A flood of newcomers would push other events out, or take memory."""
    with Sim(1) as sim:
        full = sim.node("full", peers_max=1)
        sim.node("friend")
        sim.run_until_quiet()
        for i in range(30):
            sim.node(f"late{i}", peers_max=64)
        sim.run(20.0)
        assert len(told(full)) == len(full.refusals()) == 16
        assert counted(full, "peers_max") > 16
