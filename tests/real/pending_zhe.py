"""
What a node of pyddsi does not do yet as zhe would need it. These tests fail today, so their file is not among those that are
collected; run them by name: `pytest tests/real/pending_zhe.py`. A test that passes moves to test_zhe.py.
"""

from __future__ import annotations

import pytest

from tests.real import zhe_bytes as wire
from tests.real.test_zhe import ALL, P2P, heard, together
from tests.real.world import World
from tests.real.zhe_config import CONFIGS


@pytest.mark.parametrize("same_port", [True, False])
def test_node_restarts_within_its_lease(same_port: bool) -> None:  # noqa: FBT001
    """
    A node that comes back within its lease never hears of zhe's subscriptions: zhe takes it for the old one and repeats
    nothing. That it is so shows in the first SYNCH on zhe's unicast conduit, whose base is not 0. A CLOSE would end zhe's
    session, and all begins anew.
    """
    world = World()
    together(world)
    world.node.crash()
    world.net.run(0.5)
    world.node.restart(same_port=same_port)
    world.pub, world.sub = world.declare_node()
    world.matched(20.0)
    assert world.talk() == (ALL, ALL)


def test_masks_fit() -> None:
    """The node asks zhe for 65 messages at once, which takes no notice of more than 32: half of each NACK is in vain."""
    world = World()
    world.matched()
    for number in range(
        200
    ):  # S on every tenth is zhe's point of synchronisation: no SYNCH before it stops
        world.put(number)
        world.net.run(0.001)
    world.net.run(1.0)
    assert {one.mask >> 31 for one in heard(world, wire.ACKNACK) if one.mask is not None} == {0}


def test_first_synch_counts() -> None:
    """
    What zhe sends right behind its ACCEPT comes before the node has made the session of it, and is dropped as of an
    expired peer. So each session costs a SYNCH interval more than it needs.
    """
    world = World()
    world.matched()
    assert not [drop for drop in world.node.drops() if drop.reason == "expired_peer"]


def test_one_synch_at_a_time() -> None:
    """A SYNCH is sent twice in the same moment to a peer that is silent."""
    world = World(CONFIGS["client-nbiot"], names=False, role="broker")
    world.net.run(11.0)
    sent = [(at, data) for at, _, _, data in world.net.log if b"\xee" in data[:2]]
    assert len(sent) == len(set(sent))


def test_narrow_client_survives() -> None:
    """A broker with a multicast conduit numbers the unicast one 1, which kills a client that knows conduit 0 alone."""
    world = World(CONFIGS["client-nbiot"], names=False, role="broker")
    world.net.run(11.0)
    assert not world.zhe.dead


def test_length_is_told() -> None:
    """
    With 14 bits the node does not say so (it need not), and a zhe with 7 bits accepts it, until a number is too large.
    Property 4 that says 14 is taken by a zhe with 14 bits, and refused by all others: at once, and not in the middle.
    """
    config = P2P.changed(seq_bits=7, multicast_samples=63)
    world = World(config, names=False)
    world.net.run(5.0)
    assert world.zhe.peers == []
