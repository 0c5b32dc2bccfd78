"""`pyddsi.testing`: views of samples never show memory that is used again, and memory goes when nobody looks at it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pyddsi._native import lib
from pyddsi.errors import ClosedError
from pyddsi.testing import (
    Sim,
    _world,
)
from tests.py.worlds import pair

if TYPE_CHECKING:
    from pyddsi._declare import Way


def test_views_hold_their_memory() -> None:
    """A sample's memory would be used again while somebody looks at it, or never again."""
    with Sim() as sim:
        pub, sub = pair(sim)
        free = sub.node.stats().allocated_slots
        kept = []
        for i in range(50):
            pub.put(b"sample %d" % i)
            kept.append(sub.recv().data[7:])  # neither the sample nor its whole view stays
        assert [bytes(view) for view in kept] == [b"%d" % i for i in range(50)]
        assert sub.node.stats().allocated_slots > free
        assert sub.node.views == 50
        del kept
        assert sub.node.views == 0
        assert sub.node.stats().allocated_slots == free


def test_release() -> None:
    """A released sample would still be readable, or its memory stay taken; releasing twice would raise."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(b"abc")
        with sub.recv() as sample:
            view = sample.data
            assert view.readonly
            assert sub.node.views == 1
        with pytest.raises(ValueError, match="released"):
            bytes(view)
        sample.release()
        assert sub.node.views == 0


@pytest.mark.parametrize("end", ["crash", "restart", "close", "sim"])
def test_views_end_with_their_node(end: str) -> None:
    """A view would show memory of a node that is gone: bytes of somebody else, or none at all."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(b"abc")
        pub.put(b"def")
        sample, view = sub.recv(), sub.recv().data
        if end == "sim":
            sim.close()
        else:
            getattr(sub.node, end)()
        for gone in (sample.data, view):
            with pytest.raises(ValueError, match="released"):
                bytes(gone)
        assert sub.node.views == 0


@pytest.mark.parametrize("way", ["multicast", "auto"])
@pytest.mark.parametrize("end", ["crash", "restart", "close", "sim"])
def test_loans_end_with_their_node(end: str, way: Way) -> None:
    """One would write to memory that another life of the node uses, or that nobody has any more; or it would be accepted."""
    with Sim() as sim:
        pub, _ = pair(sim, way=way)
        loan, other = pub.loan(6), pub.loan(3)
        memories = [loan.__enter__(), other.__enter__()]
        memories[0][:2] = b"xy"
        assert pub.node.views == 2
        if end == "sim":
            sim.close()
        else:
            getattr(pub.node, end)()
        for memory in memories:
            with pytest.raises(ValueError, match="released"):
                memory[:2] = b"xy"
            with pytest.raises(ValueError, match="released"):
                bytes(memory)
        assert pub.node.views == 0
        for each in (loan, other):
            with pytest.raises(ClosedError):
                each.__exit__(None, None, None)


def test_parts_of_views_survive_or_forbid() -> None:
    """A part of a view would be read after its memory was freed or given to another life of the node."""
    with Sim() as sim:
        pub, sub = pair(
            sim, multicast_bytes=48 << 20
        )  # so much is given back to the system when it is freed
        pub.put(b"abcdef")
        part = sub.recv().data[2:4]
        sub.node.crash()
        assert bytes(part) == b"cd"
        with pytest.raises(
            BufferError, match=r"node 'b' cannot restart.*1 samples are still looked at"
        ):
            sub.node.restart()
        sim.close()
        assert bytes(part) == b"cd"
    memory = weakref.ref(sim.world)
    del sim, pub, sub
    gc.collect()
    assert memory() is not None
    assert bytes(part) == b"cd"
    del part
    gc.collect()
    assert memory() is None


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """One entry for each world whose memory was freed; the garbage collector stays away."""
    found: list[None] = []

    class Lib:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def pyddsi_sim_free(self, sim: Any) -> None:
            found.append(None)
            lib.pyddsi_sim_free(sim)

    gc.collect()
    gc.disable()
    monkeypatch.setattr(_world, "lib", Lib())
    yield found
    gc.enable()


def test_memory_goes_at_close(freed: list[None]) -> None:
    """A closed Sim would keep its memory until the garbage collector comes."""
    with Sim() as sim:
        pair(sim)
    assert len(freed) == 1


def test_memory_waits_for_views(freed: list[None]) -> None:
    """Memory would be freed while somebody has a part of a sample."""
    with Sim() as sim:
        pub, sub = pair(sim)
        pub.put(b"abcdef")
        part = sub.recv().data[2:4]
    assert freed == []
    assert bytes(part) == b"cd"
    del sim, pub, sub, part
    gc.collect()
    assert len(freed) == 1


def test_memory_waits_for_loans(freed: list[None]) -> None:
    """Memory would be freed while somebody can write to it."""
    sim = Sim()
    pub = pair(sim)[0]
    loan = pub.loan(6)
    part = loan.__enter__()[2:4]
    sim.close()
    assert freed == []
    part[:] = b"xy"
    with pytest.raises(ClosedError):
        loan.__exit__(None, None, None)
    del sim, pub, loan, part
    gc.collect()
    assert len(freed) == 1
