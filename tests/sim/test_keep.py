"""Where samples wait for readers that drop: in memory of their own, so that nothing else waits with them."""

from __future__ import annotations

from typing import Literal

import pytest

from pyddsi.testing import Sim
from tests.py.worlds import datas
from tests.sim.test_wire_room import lines

PAGE = 64  # a sample takes up whole ones, with 8 bytes of its own

Drops = Literal["drop_oldest", "drop_newest"]


@pytest.mark.parametrize("on_full", ["drop_oldest", "drop_newest"])
@pytest.mark.parametrize("size", [8, 5000])
def test_holds_no_packets(on_full: Drops, size: int) -> None:
    """A reader that drops and does not read keeps all packets, or all memory for fragments, and another gets nothing more."""
    with Sim() as sim:
        a = sim.node("a")
        b = sim.node("b", slots_max=8, assembly_bytes=1 << 15, assembly_max=4)
        asleep = b.subscriber("x", depth=64, on_full=on_full)
        sub, pub, other = b.subscriber("y"), a.publisher("x"), a.publisher("y")
        sim.run_until_quiet()
        for number in range(80):
            pub.put(number.to_bytes(size, "little"), timeout=5.0)
            other.put(b"%d" % number, timeout=5.0)
            assert sub.recv(timeout=5.0).data == b"%d" % number
        sim.run_until_quiet()
        assert b.stats().allocated_slots == 0
        first = 16 if on_full == "drop_oldest" else 0
        assert [int.from_bytes(d, "little") for d in datas(asleep)] == [*range(first, first + 64)]
        assert sum(lines(b).values()) == 16
        sim.run_until_quiet()
        assert b.stats().kept_bytes == 0


@pytest.mark.parametrize("on_full", ["drop_oldest", "drop_newest"])
def test_memory_is_shared_out(on_full: Drops) -> None:
    """Large samples of one reader leave no memory for the small ones of another, or the drops are not listed."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b", keep_bytes=64 * PAGE)
        large = b.subscriber("x", depth=64, on_full=on_full)
        small = b.subscriber("y", depth=4, on_full="drop_oldest")
        pub, other = a.publisher("x"), a.publisher("y")
        sim.run_until_quiet()
        for number in range(20):
            pub.put(bytes([number]) * (4 * PAGE - 8), timeout=5.0)
        for number in range(6):
            other.put(bytes([number]), timeout=5.0)
        sim.run_until_quiet()
        assert b.stats().kept_bytes == (8 * 4 + 4) * PAGE
        first = 12 if on_full == "drop_oldest" else 0
        assert [data[0] for data in datas(large)] == [*range(first, first + 8)]
        assert [data[0] for data in datas(small)] == [2, 3, 4, 5]
        reason = "overwritten" if on_full == "drop_oldest" else "full"
        found = lines(b)
        assert found["ring", reason] == 12 + (2 if on_full == "drop_oldest" else 0)
        assert sum(found.values()) == 14


@pytest.mark.parametrize("on_full", ["drop_oldest", "drop_newest"])
def test_too_large_to_keep(on_full: Drops) -> None:
    """A sample for which there is never memory blocks its publisher, or is lost without a line."""
    with Sim() as sim:
        a, b = sim.node("a"), sim.node("b", keep_bytes=8 * PAGE)
        sub, pub = b.subscriber("x", depth=4, on_full=on_full), a.publisher("x")
        sim.run_until_quiet()
        for size in (8 * PAGE - 8, 8 * PAGE - 7, 1):
            pub.put(bytes(size), timeout=5.0)
        sim.run_until_quiet()
        sizes = [len(data) for data in datas(sub)]
        assert sizes == ([1] if on_full == "drop_oldest" else [8 * PAGE - 8])
        assert sum(lines(b).values()) == 2
