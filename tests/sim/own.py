"""
A node with a window to a stranger alone, so that a test sees each number in it.
"""

from __future__ import annotations

from typing import Unpack

from pyddsi import wire
from pyddsi.testing import NodeOptions, Publisher, Window
from tests.sim.stranger import Stranger, alone

NUMBER = 5


def subscribe(stranger: Stranger, conduit: int = 0, sn: int = 0) -> None:
    """The stranger subscribes, as its first message on that conduit."""
    stranger.begin(sn, conduit)
    wanted = wire.Subscription(NUMBER, wire.Mode.PUSH)
    stranger.say(wire.Conduit(conduit), wire.Declare(sn, [wanted], committed=True, sync=True))


class Own:
    """
    A node with a window to a stranger alone. What the node declares has been acknowledged; numbers here are counted
    from the first sample on.
    """

    def __init__(self, samples: int = 256, count: int = 0, **options: Unpack[NodeOptions]) -> None:
        settings: NodeOptions = {"features": set(), "unicast_samples": samples}
        settings.update(options)
        self.sim, self.node, self.stranger = alone(**settings)
        self.stranger.meet()
        self.pub = self.node.publisher(NUMBER, way="unicast")
        subscribe(self.stranger)
        assert self.pub.conduit == -1
        self.sim.run(0.01)
        self.begin = window_of(self.pub).seq
        self.ack(0)
        for i in range(count):
            self.pub.put(bytes([i]))
        self.stranger.packets()

    def ack(self, number: int, mask: int | None = None) -> None:
        """The stranger says: everything before this number has come; with a mask: I want this one, and those."""
        sn = (self.begin + number) % 2**14
        self.stranger.say(wire.Conduit(1), wire.AckNack(sn, mask=mask))

    def sent(self) -> list[wire.SData]:
        """The samples that have been sent since the last look, renumbered."""
        found = self.stranger.heard_of(wire.SData)
        for message in found:
            message.sn -= self.begin
        return found

    def numbers(self) -> list[int]:
        """The numbers of these."""
        return [message.sn for message in self.sent()]

    def told(self) -> tuple[int, int]:
        """What the one SYNCH since the last look says: the next number, and how many are not acknowledged."""
        (synch,) = self.stranger.heard_of(wire.Synch)
        assert not synch.sync, "or two confused sides would go on for ever"
        return synch.sn - self.begin, synch.count or 0

    @property
    def span(self) -> tuple[int, int]:
        """The first number that is not acknowledged, and the next one."""
        window = window_of(self.pub)
        return window.seqbase - self.begin, window.seq - self.begin


def window_of(pub: Publisher) -> Window:
    """The window of a publisher that has one."""
    window = pub.window
    assert window is not None
    return window
