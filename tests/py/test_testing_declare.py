"""`pyddsi.testing`: how large numbers may be, and declarations that contradict others of the same node."""

from __future__ import annotations

import pytest

from pyddsi.errors import ConflictError
from pyddsi.testing import Sim


@pytest.mark.parametrize(("bits", "most"), [(8, 2**7 - 1), (32, 2**31 - 1), (64, 2**55 - 1)])
def test_largest_number(bits: int, most: int) -> None:
    """The largest number that the wire has could not be used, or a larger one be taken and then refused as invalid."""
    with Sim(defaults={"rid_bits": bits}) as sim:
        a, b = sim.node("a"), sim.node("b")
        last = a.resource("plant/last", number=most)
        pub, sub = a.publisher(most), b.subscriber("plant/last")
        plain = b.subscriber(most)
        sim.run_until_quiet()
        last.wait_settled()
        pub.put(b"x")
        assert sub.recv().resource == plain.recv().resource == "plant/last"
        refused = rf"number is from 1 to {most} in a node with rid_bits={bits}, not {most + 1}"
        for declare in (
            lambda: a.resource("plant/more", number=most + 1),
            lambda: a.publisher(most + 1),
            lambda: a.subscriber(most + 1),
        ):
            with pytest.raises(ValueError, match=refused):
                declare()
        with pytest.raises(ValueError, match="from 1 to"):
            a.publisher(0)


def test_conflict_within_a_node() -> None:
    """Two declarations of one node that contradict each other: the second would be dropped silently, or blame others."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        one = a.resource("one", number=3)
        b.resource("one", number=3)
        assert a.resource("one", number=3) is one
        for again in ({"reliable": False}, {"durability": "transient"}):
            with pytest.raises(
                ConflictError,
                match=r"resource 'one' of node 'a', number 3, contradicts the earlier resource 'one' of node 'a'; .*before",
            ) as caught:
                a.resource("one", number=3, **again)
            assert caught.value.names == ("one",)
        with pytest.raises(
            ConflictError, match=r"'two' of node 'a', number 3, contradicts 'one' of node 'a'; one "
        ) as caught:
            a.resource("two", number=3)
        assert caught.value.names == ("one",)
        kept = a.resource("kept#{unreliable}", number=4)
        assert a.resource("kept", number=4) is kept
        assert a.resource("kept", number=4, reliable=False) is kept
        with pytest.raises(ConflictError, match="contradicts the earlier resource"):
            a.resource("kept#{unreliable}", number=4, reliable=True)


def test_conflict_of_subscribers() -> None:
    """A second subscriber of a node that asks for something else would be told of names, which are not the matter."""
    with Sim() as sim:
        a = sim.node("a")
        a.resource("one", number=3)
        for resource, where in (("one", None), (3, None), ("one", "$size < 3")):
            a.subscriber(resource, where=where)
            a.subscriber(resource, where=where, depth=3)
            with pytest.raises(
                ConflictError,
                match=rf"subscriber {resource!r} of node 'a', number \d+, contradicts the earlier subscriber .*the same mode",
            ):
                a.subscriber(resource, where=where, mode="pull")


def test_conflict_with_a_publisher() -> None:
    """A definition that comes after a publisher runs otherwise would not name that publisher."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b")
        a.publisher(3, reliable=True)
        with pytest.raises(ConflictError, match=r"contradicts publisher 3 of node 'a'; .*before"):
            a.resource("one", number=3, reliable=False)
        sim.run_until_quiet()
        late = b.resource("one", number=3, reliable=False)
        sim.run_until_quiet()
        with pytest.raises(ConflictError, match=r"contradicts publisher 3 of node 'a'; .*before"):
            late.wait_settled()


def test_conflict_stays_in_its_space() -> None:
    """A name of another space would be blamed."""
    with Sim() as sim:
        a = sim.node("a")
        a.resource("one", number=3)
        a.resource("two", number=3, space=1)
        with pytest.raises(ConflictError, match=r"contradicts 'two' of node 'a'; ") as caught:
            a.resource("three", number=3, space=1)
        assert caught.value.names == ("two",)
