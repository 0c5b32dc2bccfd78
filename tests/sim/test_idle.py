"""A node that has nothing to do says little, and is measured again as soon as there is traffic."""

from __future__ import annotations

from pyddsi.testing import Sim


def test_says_little() -> None:
    """002-38: an idle node would go on measuring for nobody, and wake itself and its peers twice a second."""
    with Sim(1, delay=0.001) as sim:
        nodes = [sim.node("a", lease=10.0), sim.node("b", lease=10.0)]
        sub = nodes[1].subscriber("x")
        pub = nodes[0].publisher("x")
        sim.run(2.0)
        pub.put(b"x")
        sim.run(4.0)
        assert len(list(sub)) == 1
        before = [node.stats() for node in nodes]
        sim.run(100.0)
        for node, then in zip(nodes, before, strict=True):
            now = node.stats()
            assert now.pings_out - then.pings_out <= 100 / 20 + 1
            assert now.packets_out - then.packets_out <= 100 / 2.5 + 2 * (100 / 20 + 1)
            assert now.packets_in - then.packets_in <= 100 / 2.5 + 2 * (100 / 20 + 1)
            assert [peer.state for peer in node.peers()] == ["established"]


def test_measured_again() -> None:
    """002-123: a round trip that changed while nothing was sent would be found out leases later, and not with the traffic."""
    with Sim(1, delay=0.001) as sim:
        one, other = sim.node("a", lease=10.0), sim.node("b", lease=10.0)
        sub = other.subscriber("x")
        pub = one.publisher("x")
        sim.run(6.0)
        before = [node.stats().pings_out for node in (one, other)]
        pub.put(b"x")
        sim.run(0.2)
        assert len(list(sub)) == 1
        assert [node.stats().pings_out for node in (one, other)] == [n + 1 for n in before]
