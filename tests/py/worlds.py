"""Small worlds for the tests of `pyddsi.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyddsi.testing import Publisher, Sim, Subscriber

if TYPE_CHECKING:
    from pyddsi._declare import Way


def pair(
    sim: Sim, name: str = "x", way: Way = "auto", **options: Any
) -> tuple[Publisher, Subscriber]:
    """Two nodes, one publishing to the other, all settled."""
    a, b = sim.node("a", **options), sim.node("b", **options)
    pub, sub = a.publisher(name, way=way), b.subscriber(name, depth=1024)
    sim.run_until_quiet()
    return pub, sub


def datas(sub: Subscriber) -> list[bytes]:
    """What is there now, copied."""
    return [bytes(sample.data) for sample in sub]
