"""Peers that come and go for as long as a node lives: it remembers some of them, and does not grow with all of them."""

from __future__ import annotations

from pyddsi.testing import Sim

REMEMBERED = 16  # PDI_REMEMBERED_MAX


def test_slots_are_used_again() -> None:
    """Each peer that ever came would keep a slot of its own, up to peers_max, with the memory of its window."""
    with Sim(seed=4, defaults={"scout": 0.1}) as sim:
        stays = sim.node("stays", peers_max=128)
        latest = b""
        for number in range(2 * REMEMBERED):
            goes = sim.node(f"goes{number}")
            sim.run(1.0)
            latest = goes.id
            assert [peer.id for peer in stays.peers()] == [latest]
            goes.close()
            sim.run(1.0)
            assert not stays.peers()
        remembered = stays.peers(gone=True)
        assert len(remembered) == REMEMBERED
        assert latest in {peer.id for peer in remembered}
