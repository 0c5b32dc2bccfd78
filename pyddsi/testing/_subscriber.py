"""Subscribers of a Sim, and the samples that come out of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyddsi._declared import TIMEOUT, Declared, Named
from pyddsi._native import ffi, lib
from pyddsi._values import name_shown, whole
from pyddsi.errors import ClosedError

if TYPE_CHECKING:
    from pyddsi.testing._node import Node


class Sample:
    """
    A sample as its reader gets it.

    data: its bytes, where the node has them: nothing was copied. The node keeps them until the last view of them is
        gone, or `release()` is called. When the node crashes, restarts or is closed its views are released, and then
        raise ValueError; `bytes(sample.data)` is a copy that stays
    resource: its name, or its number where it has none
    number: in its conduit, counted on without wrapping
    source: the name of the node that sent it
    time_ns: when its last byte came in, by the reader's clock
    """

    __slots__ = (
        "__weakref__",
        "conduit",
        "data",
        "number",
        "reliable",
        "resource",
        "source",
        "space",
        "time_ns",
    )

    def __init__(self, node: Node, raw: Any) -> None:
        self.data = node.lend(raw)
        self.resource: str | int
        if raw.name_size:  # it came by name alone
            name = raw.data - raw.name_gap - raw.name_size
            self.resource = name_shown(ffi.buffer(name, raw.name_size))
        else:
            self.resource = node.name_of(raw.space, raw.resource) or 0
        self.number = int(raw.number)
        self.source = node.peer_name(raw.peer)
        self.time_ns = int(raw.time_ns)
        self.conduit = int(raw.conduit)
        self.space = int(raw.space)
        self.reliable = bool(raw.reliable)

    def __repr__(self) -> str:
        return f"<Sample {self.number} of {self.resource!r} from {self.source!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """The data is not needed any more. A part of it that was cut out, as `data[2:8]`, holds the memory further."""
        self.data.release()


class Subscriber(Declared):
    """Where a node's samples come out. Made by `Node.subscriber`. Iterating takes what is there now."""

    KIND = "subscriber"
    _owner: Node

    def __init__(
        self,
        node: Node,
        name: str | int,
        number: int,
        handle: int,
        parts: tuple[Named, ...],
        *,
        space: int = 0,
    ) -> None:
        super().__init__(node, name, number, handle, parts, space=space)
        self.answers = 0
        """How many answers to `pull` have come to their end."""

    @property
    def node(self) -> Node:
        """Whose it is."""
        return self._owner

    def _sim(self) -> Any:
        """The world, if this can still be used in it."""
        found = self.node.enter()
        self._enter()
        return found

    def poll(self) -> Sample | None:
        """The next sample, if one is there now."""
        while True:
            raw = ffi.new("pyddsi_received *")
            status = lib.pyddsi_sim_take(self._sim(), self.node.index, self._handle, raw)
            if status == lib.PYDDSI_AGAIN:
                return None
            if status != lib.PYDDSI_OK:
                self.node.world.blame()
                raise ClosedError(f"{self} cannot be read any more")
            if not raw.last:
                return Sample(self.node, raw)
            self.answers += 1
            lib.pyddsi_sim_release(self.node.enter(), self.node.index, raw)

    def recv(self, timeout: float = TIMEOUT) -> Sample:
        """The next sample; time passes until there is one, TimeoutError after `timeout` virtual seconds."""
        sample: Sample | None = self.node.world.wait(timeout, self.poll)
        if sample is None:
            raise TimeoutError(f"{self}: no sample came within {timeout} s")
        return sample

    def __iter__(self) -> Iterator[Sample]:
        while (sample := self.poll()) is not None:
            yield sample

    def pull(self, max: int = 0, *, timeout: float = TIMEOUT) -> None:
        """
        Ask each publisher for at most so many samples of those that it keeps; 0: for all.

        Time passes until there is somebody to ask; TimeoutError if there is nobody after `timeout` virtual seconds.
        """
        limit = whole("max", max, 0, 2**32 - 1)
        status = lib.PYDDSI_AGAIN

        def asked() -> bool:
            nonlocal status
            status = lib.pyddsi_sim_pull(self._sim(), self.node.index, self._handle, limit)
            return bool(status != lib.PYDDSI_AGAIN)

        if not self.node.world.wait(timeout, asked):
            raise TimeoutError(f"{self}: nobody who can be asked was there within {timeout} s")
        if status != lib.PYDDSI_OK:
            self.node.world.blame()
            raise ValueError(f"{self} cannot pull; make it with mode='pull' or 'push_pull'")
