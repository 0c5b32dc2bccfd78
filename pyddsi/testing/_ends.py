"""Publishers and subscribers of a Sim, and what goes through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyddsi._native import ffi, lib
from pyddsi.errors import ClosedError, ConflictError, DeclarationError, RejectedError
from pyddsi.testing._looks import STATUSES, Window
from pyddsi.testing._world import TIMEOUT, whole

if TYPE_CHECKING:
    from pyddsi.testing._node import Node

Buffer = bytes | bytearray | memoryview
NO_CONDUIT = -(2**31)
PENDING = "pending"


class Declared:
    """What a node has declared: a resource, a publisher, a subscriber."""

    KIND = "declaration"

    def __init__(
        self, node: Node, name: str | int, number: int, handle: int, parts: tuple[Declared, ...]
    ) -> None:
        self.node = node
        self.name = name
        """The name it was made with, or the number."""
        self.number = number
        """Its number on the wire, not doubled; of a subscriber with `where=` the selection's."""
        self._handle = handle
        self._life = node.life
        self._parts = parts
        self._closed = False
        node.declared[handle] = self

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"{self.KIND} {self.name!r} of node {self.node.name!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget it, and tell all peers. What a subscriber has not taken is dropped, with a line in the ledger."""
        if self._closed:
            return
        self._closed = True
        if not self.node.world.closed and self.node.running and self._life == self.node.life:
            self.node.declared.pop(self._handle, None)
            lib.pyddsi_sim_forget(self.node.world.enter(), self.node.index, self._handle)

    @property
    def status(self) -> str:
        """
        What has become of it: "settled" with all peers, "pending", or the worst that one of them said: "conflict",
        "rejected", "no_space", "too_large", "invalid", "unsupported" or "other".
        """
        found = [part.status for part in self._parts]
        code = lib.pyddsi_sim_status(self._enter(), self.node.index, self._handle)
        found.append(STATUSES.get(code, "other"))
        bad = [status for status in found if status not in {"settled", PENDING}]
        return bad[0] if bad else PENDING if PENDING in found else "settled"

    def wait_settled(self, timeout: float = TIMEOUT) -> None:
        """
        Let time pass until every peer has answered.

        Raises ConflictError, RejectedError or DeclarationError if one of them did not accept it, and TimeoutError if
        after `timeout` seconds not all have answered.
        """
        if not self.node.world.wait(timeout, lambda: self.status != PENDING):
            raise TimeoutError(f"{self}: not every peer has answered after {timeout} s")
        if (status := self.status) != "settled":
            raise self._refused(status)

    def _refused(self, status: str) -> DeclarationError:
        for part in self._parts:
            if part.status == status:
                return part._refused(status)  # noqa: SLF001 - the same class
        if status == "conflict":
            return self.node.conflict(self.name, self.number, self.KIND)
        if status == "rejected":
            return RejectedError(
                f"{self}: a publisher of it is for one subscriber alone, and has one; give it way='auto', 'each' or "
                f"'multicast'"
            )
        return DeclarationError(f"{self}: a peer does not accept it: {status}", status=status)

    def _enter(self) -> Any:
        """The world, if this can still be used in it."""
        sim = self.node.enter()
        if self._closed:
            raise ClosedError(f"{self} is closed; make another one")
        if self._life != self.node.life:
            raise ClosedError(
                f"{self} went with the crash of its node; make another one after restart()"
            )
        return sim


class Resource(Declared):
    """A name and its number, declared by a node. Publishers and subscribers make their own."""

    KIND = "resource"


class Selection(Declared):
    """A resource with a predicate, declared by a node. Subscribers with `where=` make their own."""

    KIND = "selection"


class Publisher(Declared):
    """Where a node's samples of one resource go in. Made by `Node.publisher`."""

    KIND = "publisher"

    def put(self, data: Buffer, *, timeout: float = TIMEOUT, wait: bool = True) -> bool:
        """
        Publish a sample.

        When the window is full, time passes until it has room; TimeoutError if it has none after `timeout` virtual
        seconds. With wait=False the answer is False then, and nothing has happened. If nobody subscribes, there is
        nothing to do, and that is well.
        """
        view = ffi.from_buffer(data)
        call = partial(
            self._attempt, lambda sim: lib.pyddsi_sim_put(sim, *self._place, view, len(view))
        )
        return self._patient(call, len(view), timeout, wait=wait)

    def put_many(
        self, samples: Iterable[Buffer], *, timeout: float = TIMEOUT, wait: bool = True
    ) -> bool:
        """Publish several samples in few messages, all or none of them; otherwise as `put`."""
        views = [ffi.from_buffer(sample) for sample in samples]
        if not views:
            return True
        raw = ffi.new("pyddsi_bytes[]", len(views))
        for i, view in enumerate(views):
            raw[i].data, raw[i].size = ffi.cast("uint8_t *", view), len(view)
        call = partial(
            self._attempt, lambda sim: lib.pyddsi_sim_put_many(sim, *self._place, raw, len(views))
        )
        return self._patient(call, sum(map(len, views)), timeout, wait=wait)

    def loan(self, size: int, *, timeout: float = TIMEOUT) -> Loan:
        """
        A sample to be written in place, without a copy:

            with pub.loan(4096) as memory:
                memory[:] = ...

        It is published when the block ends, and dropped if the block raises.
        """
        return Loan(self, whole("size", size, 0, 2**32 - 1), timeout)

    def stream(self, total: int = 0, *, timeout: float = TIMEOUT) -> Stream:
        """
        One sample larger than any window, piece by piece:

            with pub.stream() as sample:
                sample.write(...)

        total: its size, if that is known before. It is dropped if the block raises.
        """
        return Stream(self, total, timeout)

    @property
    def conduit(self) -> int | None:
        """Which way samples go now: 0 and above multicast, -1 - i to peer i alone; None: nowhere."""
        number = int(lib.pyddsi_sim_conduit(self._enter(), self.node.index, self._handle))
        return None if number == NO_CONDUIT else number

    @property
    def window(self) -> Window | None:
        """The window that samples wait in now until they are acknowledged."""
        conduit = self.conduit
        return None if conduit is None else self.node.window(conduit)

    @property
    def matched(self) -> list[str]:
        """The nodes that have a subscriber for it."""
        self._enter()
        self.node.pump()
        return sorted(self.node.matches.get(self._handle, ()))

    def wait_matched(self, count: int = 1, *, timeout: float = TIMEOUT) -> None:
        """Let time pass until so many nodes subscribe. TimeoutError if they do not within `timeout` virtual seconds."""
        if not self.node.world.wait(timeout, lambda: len(self.matched) >= count):
            raise TimeoutError(
                f"{self}: after {timeout} s {len(self.matched)} nodes subscribe, not {count}; a subscriber must name "
                f"the same resource, or a pattern that covers it"
            )

    @property
    def _place(self) -> tuple[int, int]:
        return self.node.index, self._handle

    def _attempt(self, call: Any) -> int:
        return int(call(self._enter()))

    def _patient(self, call: Any, size: int, timeout: float, *, wait: bool) -> bool:
        """A call that may have to wait for room."""
        if (status := call()) == lib.PYDDSI_AGAIN and wait:

            def ready() -> bool:
                nonlocal status
                status = call()
                return status != lib.PYDDSI_AGAIN

            if not self.node.world.wait(timeout, ready):
                raise TimeoutError(
                    f"{self}: its window is full and stayed so for {timeout} s: {self._why_full()}"
                )
        if status == lib.PYDDSI_AGAIN:
            return False
        if status != lib.PYDDSI_OK:
            raise self._impossible(size)
        return True

    def _why_full(self) -> str:
        slow = [peer.name for peer in self.node.peers() if peer.state == "established"]
        return f"not all of {', '.join(slow) or 'its peers'} acknowledge or read"

    def _impossible(self, size: int) -> Exception:
        if self.node.closed:
            return ClosedError(f"{self}: its node is closed")
        window = self.window
        limit = f"; its window has {window.size_bytes} bytes" if window is not None else ""
        return ValueError(
            f"{self}: {size} bytes can never be sent at once{limit}. Give the node a larger window, or send the sample "
            f"with stream()"
        )


class Loan:
    """
    Memory in the window of a publisher. See `Publisher.loan`.

    used: how many of its bytes are published; all of them unless the block sets it
    """

    def __init__(self, publisher: Publisher, size: int, timeout: float) -> None:
        self._publisher = publisher
        self._size = size
        self._timeout = timeout
        self._number: int | None = None
        self._view: memoryview | None = None
        self.used = size

    def __enter__(self) -> memoryview:
        publisher = self._publisher
        if self._number is not None:
            raise ClosedError(f"{publisher}: a loan is used once; ask for another one")
        data, number = ffi.new("uint8_t **"), ffi.new("uint32_t *")
        call = partial(
            publisher._attempt,  # noqa: SLF001 - the same module
            lambda sim: lib.pyddsi_sim_loan(sim, *publisher._place, self._size, data, number),  # noqa: SLF001
        )
        publisher._patient(call, self._size, self._timeout, wait=True)  # noqa: SLF001
        self._number = number[0]
        # The view holds the world, so that one who keeps a part of it writes to memory that is at least there.
        memory = ffi.gc(data[0], partial(_hold, publisher.node.world))
        self._view = memoryview(ffi.buffer(memory, self._size)) if self._size else memoryview(b"")
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
            if publisher.node.running and publisher._life == publisher.node.life:  # noqa: SLF001
                lib.pyddsi_sim_abandon(publisher.node.enter(), publisher.node.index, number)
            return
        if not 0 <= self.used <= self._size:
            lib.pyddsi_sim_abandon(publisher._enter(), publisher.node.index, number)  # noqa: SLF001
            raise ValueError(f"a loan of {self._size} bytes cannot use {self.used} of them")
        call = partial(
            publisher._attempt,  # noqa: SLF001
            lambda sim: lib.pyddsi_sim_commit(sim, publisher.node.index, number, self.used),
        )
        publisher._patient(call, self.used, self._timeout, wait=True)  # noqa: SLF001


def _hold(_world: Any, _memory: Any) -> None:
    """Nothing to do: the world was held for as long as this memory was looked at."""


class Stream:
    """A sample on its way, piece by piece. See `Publisher.stream`."""

    def __init__(self, publisher: Publisher, total: int, timeout: float) -> None:
        self._publisher = publisher
        self._total = whole("total", total, 0, 2**63)
        self._timeout = timeout

    def __enter__(self) -> Self:
        self._call(lib.pyddsi_sim_begin, self._total)
        return self

    def write(self, data: Buffer) -> None:
        """Append to the sample, letting time pass whenever the window is full."""
        view = ffi.from_buffer("uint8_t[]", data)
        done, taken = 0, ffi.new("size_t *")
        while done < len(view):
            self._call(lib.pyddsi_sim_more, view + done, len(view) - done, taken)
            done += taken[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        publisher = self._publisher
        if kind is None:
            self._call(lib.pyddsi_sim_end, 0)
        elif publisher.node.running and publisher._life == publisher.node.life:  # noqa: SLF001
            lib.pyddsi_sim_end(publisher.node.enter(), *publisher._place, 1)  # noqa: SLF001

    def _call(self, function: Any, *arguments: Any) -> None:
        publisher = self._publisher
        call = partial(
            publisher._attempt,  # noqa: SLF001
            lambda sim: function(sim, *publisher._place, *arguments),  # noqa: SLF001
        )
        publisher._patient(call, 0, self._timeout, wait=True)  # noqa: SLF001


class Sample:
    """
    A sample as its reader gets it.

    data: its bytes, where the node has them: nothing was copied. The node keeps them until the last view of them is
        gone, or `release()` is called. When the node crashes, restarts or is closed its views are released, and then
        raise ValueError; `bytes(sample.data)` is a copy that stays
    resource: its name, or its number where it has none; None: it came by name alone
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
        self.resource = node.name_of(raw.space, raw.resource)
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

    def __init__(
        self, node: Node, name: str | int, number: int, handle: int, parts: tuple[Declared, ...]
    ) -> None:
        super().__init__(node, name, number, handle, parts)
        self.answers = 0
        """How many answers to `pull` have come to their end."""

    def poll(self) -> Sample | None:
        """The next sample, if one is there now."""
        while True:
            raw = ffi.new("pyddsi_received *")
            status = lib.pyddsi_sim_take(self._enter(), self.node.index, self._handle, raw)
            if status == lib.PYDDSI_AGAIN:
                return None
            if status != lib.PYDDSI_OK:
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

    def pull(self, max: int = 0) -> None:  # noqa: A002 - what it is called on the wire is `limit`; this is shorter
        """Ask each publisher for at most so many samples of those that it keeps; 0: for all."""
        limit = whole("max", max, 0, 2**32 - 1)
        if (
            lib.pyddsi_sim_pull(self._enter(), self.node.index, self._handle, limit)
            != lib.PYDDSI_OK
        ):
            raise ValueError(f"{self} cannot pull; make it with mode='pull' or 'push_pull'")


__all__ = [
    "ConflictError",
    "Declared",
    "Loan",
    "Publisher",
    "Resource",
    "Sample",
    "Selection",
    "Stream",
    "Subscriber",
]
