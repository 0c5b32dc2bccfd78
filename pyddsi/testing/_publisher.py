"""Publishers of a Sim: samples put, written in place, and written piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyddsi._declared import TIMEOUT, Declared
from pyddsi._looks import Window
from pyddsi._native import ffi, lib
from pyddsi._values import whole
from pyddsi.errors import ClosedError
from pyddsi.testing._world import payload

if TYPE_CHECKING:
    from pyddsi.testing._node import Node

Buffer = bytes | bytearray | memoryview
NO_CONDUIT = -(2**31)


class Publisher(Declared):
    """Where a node's samples of one resource go in. Made by `Node.publisher`."""

    KIND = "publisher"
    _owner: Node

    @property
    def node(self) -> Node:
        """Whose it is."""
        return self._owner

    def put(self, data: Buffer, *, timeout: float = TIMEOUT, wait: bool = True) -> bool:
        """
        Publish a sample.

        When the window is full, time passes until it has room; TimeoutError if it has none after `timeout` virtual
        seconds. With wait=False the answer is False then, and nothing has happened. If nobody subscribes, there is
        nothing to do, and that is well.
        """
        view = payload(data)
        size = len(view)
        return self.patient(
            lambda sim: int(lib.pyddsi_sim_put(sim, *self.place, view, size)),
            size,
            timeout,
            wait=wait,
        )

    def put_many(
        self, samples: Iterable[Buffer], *, timeout: float = TIMEOUT, wait: bool = True
    ) -> bool:
        """Publish several samples in few messages, all or none of them; otherwise as `put`."""
        views = [payload(sample) for sample in samples]
        if not views:
            return True
        raw = ffi.new("pyddsi_bytes[]", len(views))
        for i, view in enumerate(views):
            raw[i].data, raw[i].size = ffi.cast("uint8_t *", view), len(view)
        return self.patient(
            lambda sim: int(lib.pyddsi_sim_put_many(sim, *self.place, raw, len(views))),
            sum(map(len, views)),
            timeout,
            wait=wait,
        )

    def loan(self, size: int, *, timeout: float = TIMEOUT) -> Loan:
        """
        A sample to be written in place, without a copy:

            with pub.loan(4096) as memory:
                memory[:] = ...

        It is published when the block ends, and dropped if the block raises.
        """
        return Loan(self, whole("size", size, 0, 2**32 - 1), timeout)

    def stream(self, total: int, *, timeout: float = TIMEOUT) -> Stream:
        """
        One sample larger than any window, piece by piece:

            with pub.stream(10_000_000) as sample:
                sample.write(...)

        total: how many bytes it will have. It is dropped if the block raises.
        """
        return Stream(self, total, timeout)

    @property
    def conduit(self) -> int | None:
        """Which way samples go now: 0 and above multicast, -1 - i to peer i alone; None: nowhere."""
        number = int(lib.pyddsi_sim_conduit(self._sim(), *self.place))
        return None if number == NO_CONDUIT else number

    @property
    def window(self) -> Window | None:
        """The window that samples wait in now until they are acknowledged."""
        conduit = self.conduit
        return None if conduit is None else self.node.window(conduit)

    @property
    def matched(self) -> list[str]:
        """The nodes that have a subscriber for it."""
        self._sim()
        self.node.pump()
        return sorted(self.node.matches.get(self._handle, ()))

    def wait_matched(self, count: int = 1, *, timeout: float = TIMEOUT) -> int:
        """
        Let time pass until so many nodes subscribe, and answer how many do. TimeoutError if they do not within `timeout`
        virtual seconds.
        """
        if not self.node.world.wait(timeout, lambda: len(self.matched) >= count):
            raise TimeoutError(
                f"{self}: after {timeout} s {len(self.matched)} nodes subscribe, not {count}; a subscriber must name "
                f"the same resource, or a pattern that covers it"
            )
        return len(self.matched)

    def _sim(self) -> Any:
        """The world, if this can still be used in it."""
        found = self.node.enter()
        self._enter()
        return found

    @property
    def place(self) -> tuple[int, int]:
        """What the core knows it by: its node's index, and its handle."""
        return self.node.index, self._handle

    def patient(
        self, function: Callable[[Any], int], size: int, timeout: float, *, wait: bool = True
    ) -> bool:
        """A call of the core that may have to wait for room; for this module."""
        status = function(self._sim())

        def ready() -> bool:
            nonlocal status
            status = function(self._sim())
            return bool(status != lib.PYDDSI_AGAIN)

        if status == lib.PYDDSI_AGAIN and not wait:
            return False
        if status == lib.PYDDSI_AGAIN and not self.node.world.wait(timeout, ready):
            raise TimeoutError(
                f"{self}: its window is full and stayed so for {timeout} s: {self._why_full()}"
            )
        if status != lib.PYDDSI_OK:
            raise self._impossible(size)
        return True

    def _why_full(self) -> str:
        slow = [peer.name for peer in self.node.peers() if peer.state == "established"]
        return f"not all of {', '.join(slow) or 'its peers'} acknowledge or read"

    def _impossible(self, size: int) -> Exception:
        if self.node.closed:
            return ClosedError(f"{self}: its node is closed")
        self.node.world.blame()
        window = self.window
        limit = f"; its window has {window.size_bytes} bytes" if window is not None else ""
        return ValueError(
            f"{self}: {size} bytes can never be sent at once{limit}. Give the node a larger window, or send the sample "
            f"with stream()"
        )


class Loan:
    """
    Memory in the window of a publisher. See `Publisher.loan`.

    When the node crashes, restarts or is closed, the memory is released, and then raises ValueError.

    used: how many of its bytes are published; all of them unless the block sets it
    """

    def __init__(self, publisher: Publisher, size: int, timeout: float) -> None:
        self._publisher = publisher
        self._size = size
        self._timeout = timeout
        self._number: int | None = None
        self._view: memoryview | None = None
        self._life = 0
        self.used = size

    def __enter__(self) -> memoryview:
        publisher = self._publisher
        if self._number is not None:
            raise ClosedError(f"{publisher}: a loan is used once; ask for another one")
        data, number = ffi.new("uint8_t **"), ffi.new("uint32_t *")
        publisher.patient(
            lambda sim: int(lib.pyddsi_sim_loan(sim, *publisher.place, self._size, data, number)),
            self._size,
            self._timeout,
        )
        self._number = number[0]
        self._life = publisher.node.life
        # The view holds the world, so that one who keeps a part of it writes to memory that is at least there.
        publisher.node.views += 1
        memory = ffi.gc(data[0], partial(_hold, publisher.node))
        self._view = memoryview(ffi.buffer(memory, self._size)) if self._size else memoryview(b"")
        publisher.node.remember(self._view)
        return self._view

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        publisher, number = self._publisher, self._number
        if self._view is not None:
            self._view.release()
        if kind is not None:
            self._abandon()
            return
        if not 0 <= self.used <= self._size:
            self._abandon()
            raise ValueError(f"a loan of {self._size} bytes cannot use {self.used} of them")
        index = publisher.node.index
        try:
            publisher.patient(
                lambda sim: int(lib.pyddsi_sim_commit(sim, index, number, self.used)),
                self.used,
                self._timeout,
            )
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Give the memory back, also if the publisher has gone meanwhile; with its node it has gone itself."""
        node = self._publisher.node
        if node.running and node.life == self._life:
            lib.pyddsi_sim_abandon(node.enter(), node.index, self._number)


def _hold(node: Any, _memory: Any) -> None:
    """Nobody looks at this memory any more."""
    node.views -= 1


class Stream:
    """A sample on its way, piece by piece. See `Publisher.stream`."""

    def __init__(self, publisher: Publisher, total: int, timeout: float) -> None:
        self._publisher = publisher
        self._total = whole("total", total, 1, 2**62)
        self._timeout = timeout
        self._left = total
        self._waiting = bytearray()

    def __enter__(self) -> Self:
        self._call(lib.pyddsi_sim_begin, self._total)
        return self

    def write(self, data: Buffer) -> None:
        """Append to the sample, letting time pass whenever the window is full."""
        if len(data) > self._left - len(self._waiting):
            raise ValueError(
                f"{self._publisher}: the stream has {self._total} bytes, and this is more than the "
                f"{self._left - len(self._waiting)} that are left; begin with the right total"
            )
        # The node takes whole pieces, each a little less than a packet; what is left over waits for more.
        self._waiting += data
        while len(self._waiting) >= self._publisher.node.packet_max or (
            self._waiting and len(self._waiting) == self._left
        ):
            taken = ffi.new("size_t *")
            waiting = bytes(self._waiting)
            self._call(lib.pyddsi_sim_more, waiting, len(waiting), taken)
            del self._waiting[: taken[0]]
            self._left -= taken[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        publisher = self._publisher
        if kind is None and self._left == 0:
            self._call(lib.pyddsi_sim_end, 0)
            return
        if publisher.usable:
            self._call(lib.pyddsi_sim_end, 1)
        if kind is None:
            raise ValueError(
                f"{publisher}: the stream was to have {self._total} bytes, and {self._left - len(self._waiting)} are missing; "
                f"it is dropped"
            )

    def _call(self, function: Any, *arguments: Any) -> None:
        publisher = self._publisher
        publisher.patient(
            lambda sim: function(sim, *publisher.place, *arguments), self._total, self._timeout
        )
