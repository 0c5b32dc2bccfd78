"""
Subscribers that want a part of the samples: selections, and bindings that let one packet serve several.
"""

from __future__ import annotations

import pytest

from pyddsi import wire
from pyddsi._native import ffi, lib
from pyddsi.testing import Node, Sim
from tests.py.worlds import datas
from tests.sim.rows_looks import data, declared

SEEDS = range(6)


# ---- selections -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_selection(seed: int) -> None:
    """002-16: a selection would let other samples pass, lose one of its own, or be looked at only by the receiver."""
    with Sim(seed) as sim:
        a, b = sim.node("a"), sim.node("b")
        kitchen, hall = a.publisher("house/kitchen/light"), a.publisher("house/hall/light")
        other = a.publisher("house/hall/heat")
        sub = b.subscriber("house/*/light", where="lum > 0", depth=256)
        sim.run_until_quiet()
        start, before = sim.now_ns, a.stats()
        sim.link(loss=0.1, jitter=0.001)
        wanted = []
        for i in range(30):
            payload = b'{"lum": %d, "n": %d}' % (i % 3, i)
            for pub in (kitchen, hall, other):
                pub.put(payload)
            wanted += [payload] * 2 * (i % 3 > 0)
            sim.run(0.002)
        sim.link(loss=0.0)
        sim.run_until_quiet()
        assert datas(sub) == wanted
        put = [bytes(m.payload) for _, m in data(sim, a, since=start)]
        assert set(put) == set(wanted)
        assert a.stats().filtered - before.filtered == 20
        assert a.stats().unmatched - before.unmatched == 30
        (defined,) = {(d.id, d.query) for _, d in declared(sim, wire.Selection, b)}
        (subscribed,) = {d.id for _, d in declared(sim, wire.Subscription, b)}
        assert defined == (subscribed, "/house/*/light?{lum > 0}")
        assert subscribed == wire.SelectionId(sub.number)


def bind(node: Node, old: int, new: int) -> None:
    """Declares that the selection `old` may also go by the common id `new`."""
    handle, status = ffi.new("uint32_t *"), ffi.new("int *")
    result = lib.pyddsi_sim_binding(node.enter(), node.index, 0, old, new, 1, handle, status)
    assert (result, status[0]) == (lib.PYDDSI_OK, 0)


@pytest.mark.parametrize("bound", [True, False])
def test_binding(bound: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """002-17: two who select the same under ids of their own would need a packet each, or one of both get nothing."""
    with Sim() as sim:
        a, b, c, d = (sim.node(name) for name in "abcd")
        pub = a.publisher("lamp/1")
        # The same in other words, so that each has an id of its own.
        one = b.subscriber("lamp/*", where="lum > 5")
        two = c.subscriber("lamp/1", where="lum > 5")
        bystander = d.subscriber("lamp/2")
        assert one.number != two.number
        if bound:
            bind(b, one.number, 700)
            bind(c, two.number, 700)
        sim.run_until_quiet()
        start = sim.now_ns
        for lum in range(10):
            pub.put(b'{"lum": %d}' % lum)
            sim.run(0.01)
        sim.run_until_quiet()
        wanted = [b'{"lum": %d}' % lum for lum in range(6, 10)]
        assert datas(one) == datas(two) == wanted
        assert datas(bystander) == []
        found = data(sim, a, since=start)
        assert [bytes(m.payload) for _, m in found] == wanted
        assert all(p.to.multicast for p, _ in found)
        ids = {(m.rid, m.data_rid) for _, m in found}
        if bound:
            assert ids == {(wire.SelectionId(700), pub.number)}
            common = wire.SelectionId(700)
            bindings = {(d.id, d.new_id) for _, d in declared(sim, wire.Binding)}
            assert bindings == {(wire.SelectionId(s.number), common) for s in (one, two)}
        else:
            assert ids == {(pub.number, None)}
