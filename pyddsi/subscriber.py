"""Subscribers of a session: where samples come out, in four ways: recv, a loop, a callback, asyncio."""

from __future__ import annotations

from pyddsi._declared import Declared
from pyddsi._native import Reader, lib
from pyddsi._values import numpy_for, whole
from pyddsi.errors import ClosedError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeVar

    import numpy as np

    from pyddsi._native import Keeper, Sample
    from pyddsi.session import Session

    F = TypeVar("F", bound=Callable[[Sample], object] | None)

__all__ = ["Subscriber"]

AHEAD = 64
BURST = 64
"""So many samples may one task of an event loop take before the others get their turn."""
EXPLAINED_FROM = 0.5
"""A wait that was this long, in seconds, is worth the search for why nothing came."""


class Subscriber(Declared, Reader):
    """
    Where samples come out. Made by `Session.subscriber`.

        sample = sub.recv(timeout=1.0)          the next one
        for sample in sub: ...                  until the session, or the subscriber, is closed
        samples = sub.recv_many()               all that are there, at least one
        rows = sub.recv_array()                 the same as one array
        sub.callback(print)                     each, on a thread of the session
        async for sample in sub: ...            with asyncio; and recv_async, recv_many_async
    """

    KIND = "subscriber"
    _owner: Session

    def __init__(
        self,
        session: Session,
        keeper: Keeper,
        name: str | int,
        number: int,
        handle: int,
        *,
        options: Any,
        **rest: Any,
    ) -> None:
        super().__init__(session, name, number, handle, **rest)
        self._burst = 0
        # what is taken ahead of the reader waits beside its ring, and is no longer dropped for a newer one
        waits = options.on_full == lib.PYDDSI_WAIT
        self._attach(keeper, handle, min(AHEAD, options.depth) if waits else 1)

    def close(self) -> None:
        """
        Forget it, and tell all peers. What was not taken is dropped, with a line in the ledger. No callback begins after
        this returns; one that is running is waited for, for a second at most, unless it is the one that closes.
        """
        self._owner.undispatch(self)
        super().close()
        self._detach()

    def end(self) -> None:
        """Its session is closed."""
        self._detach()

    @property
    def session(self) -> Session:
        """Whose it is."""
        return self._owner

    # ---- ways out ----

    def recv_array(
        self, dtype: Any = "u1", *, max: int = 65536, timeout: float | None = None
    ) -> np.ndarray[Any, Any]:
        """
        The samples that are there, at most `max`, as one numpy array with a row for each; at least one.

        Samples of one size go into one array: one of another size begins the next. The bytes are copied once, side by
        side. Waits for the first sample as recv().

        dtype: of the elements; "u1" is bytes. If the next sample is no whole number of them, ValueError says so, and it
            can still be taken. With a dtype that has fields and is as large as a sample, each sample is one element.
        """
        kind = numpy_for("recv_array").dtype(dtype)
        return self._as_array(self._array(kind.itemsize, max, timeout=timeout), kind)

    def _as_array(
        self, found: tuple[bytearray | None, int, int], kind: np.dtype[Any]
    ) -> np.ndarray[Any, Any]:
        """What the core answered as rows of this kind, or ValueError."""
        data, count, size = found
        if data is None:
            raise ValueError(
                f"{self}: the next sample has {size} bytes, no whole number of {kind} elements of {kind.itemsize} bytes; "
                f"recv() takes it"
            )
        flat: np.ndarray[Any, Any] = numpy_for("recv_array").frombuffer(data, kind)
        if kind.names is not None and size == kind.itemsize:
            return flat
        return flat.reshape(count, size // kind.itemsize, *kind.shape)

    def callback(self, function: F) -> F:
        """
        Call a function with each sample; None: no more. Can be used as a decorator.

        A plain function is called on a thread of the session. There is one such thread for a session, so a function that
        takes long keeps the others waiting. It may publish, and may make and close anything. A coroutine function is
        called in the event loop that runs here, and awaited before the next sample.

        What it raises is logged, by the logger "pyddsi", and the next sample comes; KeyboardInterrupt reaches the main
        thread as well. A callback that takes the place of another one gets what that has not got; after None the samples
        wait for recv().
        """
        self._enter()
        if function is not None:
            from pyddsi.dispatch import check_callback  # noqa: PLC0415 - only callbacks need it

            check_callback(self, function)
        self._owner.dispatcher().set(self, function)
        return function

    async def recv_async(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - as recv has it
    ) -> Sample:
        """As recv, for asyncio."""
        await self._turn()
        sample = self.poll()
        if sample is not None:
            return sample
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        try:
            found: Sample = await aio.wait(self._owner, self.poll, timeout)
        except TimeoutError:
            raise self._nothing(timeout) from None
        return found

    async def recv_many_async(
        self,
        max: int = 256,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as recv_many has it
    ) -> list[Sample]:
        """As recv_many, for asyncio."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        whole("max", max, 1, 2**31)
        await self._turn()

        def some() -> list[Sample]:
            found = self._take(max)
            if found is None:
                self._failed(lib.PYDDSI_CLOSED, 0, None)
            return found

        try:
            samples: list[Sample] = await aio.wait(self._owner, some, timeout)
        except TimeoutError:
            raise self._nothing(timeout) from None
        return samples

    async def recv_array_async(
        self,
        dtype: Any = "u1",
        *,
        max: int = 65536,
        timeout: float | None = None,  # noqa: ASYNC109 - as recv_array has it
    ) -> np.ndarray[Any, Any]:
        """As recv_array, for asyncio."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        kind = numpy_for("recv_array").dtype(dtype)
        await self._turn()

        def some() -> tuple[bytearray | None, int, int] | None:
            try:
                return self._array(kind.itemsize, max, timeout=0)
            except TimeoutError:
                return None

        try:
            found: tuple[bytearray | None, int, int] = await aio.wait(self._owner, some, timeout)
        except TimeoutError:
            raise self._nothing(timeout) from None
        return self._as_array(found, kind)

    async def _turn(self) -> None:
        """
        A turn for other tasks now and then: samples that are there need none to wait for. It comes before samples are
        taken, since the task may be cancelled in it.
        """
        self._burst += 1
        if self._burst >= BURST:
            self._burst = 0
            import asyncio  # noqa: PLC0415 - it is there already

            await asyncio.sleep(0)

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Sample:
        try:
            return await self.recv_async()
        except ClosedError:
            raise StopAsyncIteration from None

    def pull(self, max: int = 0, *, timeout: float | None = 10.0) -> None:
        """
        Ask each publisher for at most so many samples of those that it keeps; 0: for all.

        Waits until there is a publisher to ask; TimeoutError if there is none after `timeout` seconds.
        """
        if not self._owner.wait(timeout, self._pulled(max)):
            raise self._nobody(timeout)

    async def pull_async(
        self,
        max: int = 0,
        *,
        timeout: float | None = 10.0,  # noqa: ASYNC109 - as pull has it
    ) -> None:
        """As pull, for asyncio."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        try:
            await aio.wait(self._owner, self._pulled(max), timeout)
        except TimeoutError:
            raise self._nobody(timeout) from None

    def _pulled(self, count: int) -> Callable[[], bool]:
        """What asks the publishers, and answers whether there was one to ask."""
        limit = whole("max", count, 0, 2**32 - 1)

        def asked() -> bool:
            self._enter()
            status = self._owner.call("pull", self._handle, limit)
            if status not in {lib.PYDDSI_OK, lib.PYDDSI_AGAIN}:
                raise ValueError(f"{self} cannot pull; make it with mode='pull' or 'push_pull'")
            return bool(status == lib.PYDDSI_OK)

        return asked

    def _nobody(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(f"{self}: no publisher that can be asked was there within {timeout} s")

    # ---- failures ----

    def _failed(self, status: int, _size: int, timeout: float | None) -> NoReturn:
        """Raise what the core's answer means."""
        if self._closed:
            raise ClosedError(f"{self} is closed; make another one")
        if status == lib.PYDDSI_AGAIN:
            raise self._nothing(timeout)
        raise self._owner.closed_error(str(self))

    def _nothing(self, timeout: float | None) -> TimeoutError:
        why = ""
        if timeout is not None and timeout >= EXPLAINED_FROM:
            why = ". " + self._owner.why_not(self.name)
        return TimeoutError(f"{self}: no sample came within {timeout} s{why}")
