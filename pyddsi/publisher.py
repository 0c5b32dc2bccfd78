"""Publishers of a session: where samples of one resource go in."""

from __future__ import annotations

from pyddsi._declared import TIMEOUT, Declared
from pyddsi._native import Writer, lib
from pyddsi._values import whole
from pyddsi.errors import ClosedError

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from pyddsi._looks import Window
    from pyddsi._native import Keeper
    from pyddsi.session import Session

__all__ = ["Publisher"]

NO_CONDUIT = -(2**31)
PIECES_MAX = 15_500  # of a sample, as numbers on the wire have 14 bits, and each piece has a head


class Publisher(Declared, Writer):
    """
    Where samples of one resource go in. Made by `Session.publisher`.

    put, put_many, put_array and loan publish. All wait while the window is full, for at most `timeout` seconds.
    """

    KIND = "publisher"
    _owner: Session

    def __init__(
        self,
        session: Session,
        keeper: Keeper,
        name: str | int,
        number: int,
        handle: int,
        **rest: Any,
    ) -> None:
        super().__init__(session, name, number, handle, **rest)
        self._attach(keeper, handle)

    def close(self) -> None:
        """Forget it, and tell all peers. Reliable samples that were put still go out."""
        super().close()
        self._detach()

    @property
    def session(self) -> Session:
        """Whose it is."""
        return self._owner

    @property
    def matched(self) -> list[str]:
        """The names of the sessions that have a subscriber for it: peers, and perhaps its own."""
        self._enter()
        self._owner.pump()
        found = self._owner.matched_by(self._handle)
        if self._owner.call("own", self._handle):
            found.add(self._owner.name)
        return sorted(found)

    def wait_matched(self, count: int = 1, *, timeout: float | None = TIMEOUT) -> int:
        """
        Wait until so many sessions subscribe, and answer how many do. TimeoutError if they do not within `timeout`
        seconds.
        """
        wanted = whole("count", count, 1, 2**31)
        if not (found := self._owner.wait(timeout, lambda: self._matched_from(wanted))):
            raise self._lonely(wanted, timeout)
        return int(found)

    def _matched_from(self, wanted: int) -> int:
        """How many sessions subscribe if these are as many as are wanted, else 0."""
        found = len(self.matched)
        return found if found >= wanted else 0

    async def wait_matched_async(
        self,
        count: int = 1,
        *,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as wait_matched has it
    ) -> int:
        """As wait_matched, for asyncio."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        wanted = whole("count", count, 1, 2**31)
        try:
            found: int = await aio.wait(self._owner, lambda: self._matched_from(wanted), timeout)
        except TimeoutError:
            raise self._lonely(wanted, timeout) from None
        return found

    def _lonely(self, count: int, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"{self}: {len(self.matched)} of {count} peers subscribe after {timeout} s. "
            + self._owner.why_not(self.name)
        )

    async def put_async(
        self,
        data: Any,
        *,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as put has it
    ) -> None:
        """As put, for asyncio: other tasks run while the window is full."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        try:
            if not self.put(data, wait=False):
                await aio.wait(self._owner, lambda: self.put(data, wait=False), timeout)
        except TimeoutError:
            raise self._full(timeout) from None
        except ValueError:  # larger than the window
            await aio.apart(lambda: self.put(data, timeout=timeout))

    async def put_many_async(
        self,
        samples: Any,
        *,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as put_many has it
    ) -> None:
        """As put_many, for asyncio: other tasks run while the window is full."""
        await self._all_async(self.put_many, list(samples), timeout)

    async def put_array_async(
        self,
        rows: Any,
        *,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as put_array has it
    ) -> None:
        """As put_array, for asyncio: other tasks run while the window is full."""
        await self._all_async(self.put_array, memoryview(rows), timeout)

    async def _all_async(
        self,
        put: Callable[..., int],
        left: Any,
        timeout: float | None,  # noqa: ASYNC109 - as both have it
    ) -> None:
        """Put all of these by a call that takes as many as there is room for."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        def accepted() -> bool:
            nonlocal left
            try:
                left = left[put(left, wait=False) :]
            except ValueError as error:
                left = left[getattr(error, "taken", 0) :]
                raise
            return not len(left)

        try:
            await aio.wait(self._owner, accepted, timeout)
        except TimeoutError:
            raise self._full(timeout) from None
        except ValueError:  # one is larger than the window
            await aio.apart(lambda: put(left, timeout=timeout))

    @property
    def conduit(self) -> int | None:
        """Which way samples go now: 0 and above multicast, -1 - i to peer i alone; None: nowhere."""
        self._enter()
        # not by call(): to peer 3 it is the number that says "closed" elsewhere
        number = int(lib.pyddsi_session_conduit(self._owner.raw, self._handle))
        return None if number == NO_CONDUIT else number

    @property
    def window(self) -> Window | None:
        """The window that samples wait in now until they are acknowledged."""
        conduit = self.conduit
        return None if conduit is None else self._owner.window(conduit)

    # ---- failures ----

    def _failed(self, status: int, size: int, timeout: float | None) -> NoReturn:
        """Raise what the core's answer means."""
        if self._closed:
            raise ClosedError(f"{self} is closed; make another one")
        if status == lib.PYDDSI_CLOSED:
            raise self._owner.closed_error(str(self))
        if status == lib.PYDDSI_AGAIN:
            raise self._full(timeout)
        window = self.window
        limit = f" of {window.size_bytes} bytes" if window is not None else ""
        packet = self._owner.config.packet_max
        if timeout == 0:
            rest = "goes out in pieces, which takes time: leave wait=False away, or give a longer timeout"
        elif size >= packet * PIECES_MAX:
            rest = (
                f"has too many pieces for packets of {packet} bytes, in which about {packet * PIECES_MAX >> 20} MiB go; "
                f"open the session with a larger packet_max, up to 65507"
            )
        else:
            rest = (
                f"can only be sent by a reliable publisher without keep=, whose subscribers have no where= (best effort takes "
                f"{self._owner.config.sample_max} bytes, its sample_max): say reliable=True, or open the session with a larger "
                f"window_bytes"
            )
        raise ValueError(
            f"{self}: a sample of {size} bytes is larger than its window{limit}, and {rest}"
        )

    def _full(self, timeout: float | None) -> TimeoutError:
        window = self.window
        sent = window is not None and bool(window.used_samples)
        fill = (
            f": its window is full ({window.used_samples} samples, {window.used_bytes} of {window.size_bytes} bytes)"
            if window is not None and sent
            else ""
        )
        why = self._owner.why_full(self._handle, sent=sent)
        return TimeoutError(f"{self}{fill}: no room for {timeout} s: {why}")
