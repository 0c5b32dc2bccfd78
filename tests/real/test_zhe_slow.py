"""
A zhe beside members of a group that are gone, or is slow itself: nothing comes to it twice, and what it lacks is in the ledger.

zhe steps back to the base of a SYNCH that says less than it knows, and jumps ahead to one that says more, without a word.
"""

from __future__ import annotations

import pytest

from pyddsi.testing import Sim
from tests.real.test_zhe import P2P
from tests.real.zhe import Zhe
from tests.real.zhe_net import Net

RID = 7
SECONDS = 8.0
STEP = 0.002


def samples(zhe: Zhe) -> list[int]:
    """The samples that it got."""
    return [int(one.payload) for one in zhe.received]


@pytest.mark.parametrize("gone", ["zhe", "node"])
@pytest.mark.parametrize("seed", range(3))
def test_another_is_gone(seed: int, gone: str) -> None:
    """A member of the group that is dead, and then detached, makes others get samples twice."""
    sim = Sim(seed)
    net = Net(sim, seed=seed, skew=0.02)
    node, other = sim.node("node"), sim.node("other")
    pub = node.publisher(RID)
    sub = other.subscriber(RID)
    zhes = [Zhe(P2P, bytes([0xA0, i])) for i in range(2)]
    for zhe in zhes:
        zhe.subscribe(RID)
        net.add(zhe)
    net.run_until(lambda: len(pub.matched) == 3, 20.0)
    number = 0
    for step in range(int(SECONDS / STEP)):
        for _ in range(
            5 if step % 25 < 5 else 0
        ):  # in bursts, so that the window is empty now and then
            number += bool(pub.put(b"%d" % number, wait=False))
        net.run(STEP)
        if other.running:
            list(sub)
        if step == 500:
            if gone == "zhe":
                net.remove(zhes[1])
            else:
                other.crash()
    net.run(3.0)
    assert number > 1000
    assert samples(zhes[0]) == list(range(number))
    assert net.complaints() == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("duration", [1.5, 3.0])
def test_is_slow(duration: float, seed: int) -> None:
    """A zhe that hears nothing for some time lacks more samples, or fewer, than the ledger lists, or gets some twice."""
    sim = Sim(seed)
    net = Net(sim, seed=seed, skew=0.004)
    node, other = sim.node("node"), sim.node("other")
    pub, sub = node.publisher(RID), other.subscriber(RID)
    zhe = Zhe(P2P)
    zhe.subscribe(RID)
    address = net.add(zhe)
    net.run_until(lambda: len(pub.matched) == 2, 20.0)
    number, deaf_until = 0, 0.0
    there: list[int] = []
    for step in range(int(SECONDS / STEP)):
        number += bool(pub.put(b"%d" % number, wait=False))
        net.run(STEP)
        there += [int(bytes(one.data)) for one in sub]
        if step == 500:
            net.deaf.add(address)
            deaf_until = net.now + duration
        elif net.deaf and net.now > deaf_until:
            net.deaf.clear()
    net.run(3.0)
    got = samples(zhe)
    assert got == sorted(set(got))
    assert there + [int(bytes(one.data)) for one in sub] == list(range(number))
    listed = sum(drop.count for drop in node.drops() if drop.place == "window")
    assert listed == number - len(got) > 0
    assert net.complaints() == []
