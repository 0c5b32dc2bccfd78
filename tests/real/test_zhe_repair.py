"""How fast a zhe gets small samples over a network that loses packets, from a node and from another zhe."""

from __future__ import annotations

import pytest

from pyddsi.testing import Sim
from tests.real.zhe import Zhe
from tests.real.zhe_config import CONFIGS
from tests.real.zhe_net import Net

RID = 7
COUNT = 10_000
LOSS = 0.05
STEP = 0.001
PATIENCE = 20.0


def wanted() -> list[bytes]:
    """The samples, of 8 bytes."""
    return [b"%08d" % number for number in range(COUNT)]


def by_node(seed: int) -> float:
    """Virtual seconds until a zhe has all samples of a node."""
    sim = Sim(seed)
    net = Net(sim, seed=seed, loss=LOSS)
    pub = sim.node("node").publisher(RID)
    zhe = Zhe(CONFIGS["p2p"])
    zhe.subscribe(RID)
    net.add(zhe)
    net.run_until(lambda: len(pub.matched) == 1, PATIENCE)
    begun, number = net.now, 0
    while len(zhe.received) < COUNT and net.now < begun + PATIENCE:
        while number < COUNT and pub.put(b"%08d" % number, wait=False):
            number += 1
        net.run(STEP)
    assert [one.payload for one in zhe.received] == wanted()
    assert net.complaints() == []
    return net.now - begun


def by_zhe(seed: int) -> float:
    """The same of another zhe."""
    net = Net(seed=seed, loss=LOSS)
    zhe, other = Zhe(CONFIGS["p2p"], b"\xa0"), Zhe(CONFIGS["p2p"], b"\xb0")
    zhe.subscribe(RID)
    other.publish(RID)
    net.add(zhe)
    net.add(other)
    net.run_until(lambda: other.tables.wanted(RID), PATIENCE)
    begun, number = net.now, 0
    while len(zhe.received) < COUNT and net.now < begun + PATIENCE:
        while number < COUNT and other.write(RID, b"%08d" % number, net.now):
            number += 1
        other.flush(net.now)
        net.run(STEP)
    assert [one.payload for one in zhe.received] == wanted()
    return net.now - begun


@pytest.mark.parametrize("seed", range(3))
def test_repair(seed: int) -> None:
    """What a zhe has thrown away behind a gap would come again 32 samples a round trip, slower than from another zhe."""
    assert by_node(seed) <= by_zhe(seed)
