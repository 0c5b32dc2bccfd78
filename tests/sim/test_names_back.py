"""The name of a closed publisher or subscriber is given back, and not before its last sample has been delivered."""

from __future__ import annotations

import pytest

from pyddsi.testing import Sim


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_not_before_the_last_sample(seed: int, loss: float) -> None:
    """The name would overtake samples, and a subscriber of a pattern not know any more whom they are for."""
    with Sim(seed, loss=loss) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        subs = [node.subscriber("plant/*", depth=256) for node in (b, c)]
        sim.run_until_quiet(60.0)
        for number in range(5):
            pub = a.publisher(f"plant/{number}")
            pub.wait_matched(2)
            for part in range(20):
                pub.put(b"%d %d" % (number, part))
            pub.close()
        sim.run_until_quiet(60.0)
        for sub in subs:
            found = [(sample.resource, bytes(sample.data)) for sample in sub]
            wanted = [(f"plant/{n}", b"%d %d" % (n, part)) for n in range(5) for part in range(20)]
            assert found == wanted
        assert a.things == {}


@pytest.mark.parametrize("way", ["multicast", "each"])
def test_best_effort_that_waits_for_company(way: str) -> None:
    """What was put just before close() would leave after the name."""
    with Sim(1) as sim:
        a, b, c = sim.node("a"), sim.node("b"), sim.node("c")
        subs = [node.subscriber("plant/*") for node in (b, c)]
        sim.run_until_quiet()
        pub = a.publisher("plant/1", reliable=False, way=way)  # type: ignore[arg-type]
        sim.run(1.0)
        pub.put(b"x")
        pub.close()
        sim.run_until_quiet()
        for sub in subs:
            assert [bytes(sample.data) for sample in sub] == [b"x"]


def test_more_names_than_there_is_room_for() -> None:
    """After resources_max different names nothing could be declared any more."""
    with Sim(1) as sim:
        a, b = sim.node("a", resources_max=16), sim.node("b", resources_max=16)
        sub = b.subscriber("plant/**", depth=256)
        sim.run_until_quiet()
        for number in range(100):
            with a.publisher(f"plant/{number}") as pub, a.subscriber(f"other/{number}"):
                sim.run(0.2)
                pub.put(b"%d" % number)
            sim.run(0.2)
        sim.run_until_quiet()
        assert [bytes(sample.data) for sample in sub] == [b"%d" % number for number in range(100)]


def test_shared_and_kept() -> None:
    """One that closes would take a name from others, or from the program that asked for it."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        sub = b.subscriber("plant/*")
        one, other = a.publisher("plant/1"), a.publisher("plant/1")
        kept = a.resource("plant/2")
        a.publisher("plant/2").close()
        sim.run(1.0)
        one.close()
        sim.run(1.0)
        assert [key[0] for key in a.things] == ["/plant/1", "/plant/2"]
        other.put(b"x")
        sim.run(1.0)
        assert [sample.resource for sample in sub] == ["plant/1"]
        assert kept.usable
        other.close()
        kept.close()
        assert a.things == {}


def test_a_selection_is_given_back() -> None:
    """Subscribers with where= would keep their queries."""
    with Sim(1) as sim:
        a, b = sim.node("a"), sim.node("b")
        pub = a.publisher("plant/1")
        for number in range(100):
            with b.subscriber("plant/1", where=f"n > {number}"):
                sim.run(0.1)
        sim.run_until_quiet()
        assert b.things == {}
        assert pub.matched == []
