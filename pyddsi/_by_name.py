"""The part of a session that publishes to a name without declaring it."""

from __future__ import annotations

from pyddsi._declared import TIMEOUT
from pyddsi._native import ffi, lib

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ByName"]


class ByName:
    """What can publish a single sample."""

    @property
    def title(self) -> str:
        """What it is called in messages."""
        raise NotImplementedError

    def call(self, name: str, *arguments: Any) -> int:
        """Call the core for this session. ClosedError if it is closed."""
        raise NotImplementedError

    def wait(self, timeout: float | None, ready: Callable[[], Any]) -> Any:
        """Wait until `ready` answers something true, which is the result, or the time is over."""
        raise NotImplementedError

    def why_full(self, handle: int | None) -> str:
        """Who keeps a publisher's window full, in a sentence."""
        raise NotImplementedError

    def put(
        self,
        name: str,
        data: Any,
        *,
        reliable: bool = True,
        timeout: float | None = TIMEOUT,
        wait: bool = True,
    ) -> bool:
        """
        Publish a sample to a name without declaring it, to all peers; otherwise as `Publisher.put`.

        Each sample carries the name, and has to fit one packet with it; a publisher is better for many samples. A pattern
        reaches every subscriber that it has a name in common with.
        """
        put = self._put_of(name, data, reliable)
        if self.wait(timeout if wait else 0, put):
            return True
        if not wait:
            return False
        raise self._all_full(timeout)

    async def put_async(
        self,
        name: str,
        data: Any,
        *,
        reliable: bool = True,
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - as put has it
    ) -> None:
        """As put, for asyncio: other tasks run while the windows are full."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        try:
            await aio.wait(self, self._put_of(name, data, reliable), timeout)
        except TimeoutError:
            raise self._all_full(timeout) from None

    def _put_of(self, name: str, data: Any, reliable: bool) -> Callable[[], bool]:  # noqa: FBT001 - as put has it
        """What puts this sample, and answers whether there was room for it."""
        from pyddsi import names  # noqa: PLC0415 - few programs use this

        parsed = names.Name(name)
        if parsed.predicate is not None:
            raise ValueError(
                f"{name!r} asks for samples, so it is for subscribers: leave out ?{{...}}"
            )
        path = ffi.from_buffer(parsed.path.encode())
        try:
            view = ffi.from_buffer(data)
        except TypeError:
            hint = "; encode() it first" if isinstance(data, str) else ""
            raise TypeError(
                f"a sample is bytes, or another buffer, not {type(data).__name__}{hint}"
            ) from None

        def accepted() -> bool:
            raw = {"data": ffi.cast("uint8_t *", path), "size": len(path)}
            status = self.call("put_name", raw, reliable, view, len(view), 0)
            if status not in {lib.PYDDSI_OK, lib.PYDDSI_AGAIN}:
                raise ValueError(
                    f"{self.title}: a sample of {len(view)} bytes for {name!r} does not fit one packet; declare a "
                    f"publisher for larger ones"
                )
            return bool(status == lib.PYDDSI_OK)

        return accepted

    def _all_full(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"{self.title}: its windows are full and stayed so for {timeout} s: {self.why_full(None)}"
        )
