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
        from pyddsi import names  # noqa: PLC0415 - few programs use this

        parsed = names.Name(name)
        if parsed.predicate is not None:
            raise ValueError(
                f"{name!r} asks for samples, so it is for subscribers: leave out ?{{...}}"
            )
        path = ffi.from_buffer(parsed.path.encode())
        raw = {"data": ffi.cast("uint8_t *", path), "size": len(path)}
        try:
            view = ffi.from_buffer(data)
        except TypeError:
            hint = "; encode() it first" if isinstance(data, str) else ""
            raise TypeError(
                f"a sample is bytes, or another buffer, not {type(data).__name__}{hint}"
            ) from None
        status = lib.PYDDSI_AGAIN

        def accepted() -> bool:
            nonlocal status
            status = self.call("put_name", raw, reliable, view, len(view), 0)
            return bool(status != lib.PYDDSI_AGAIN)

        if not self.wait(timeout if wait else 0, accepted):
            if not wait:
                return False
            raise TimeoutError(
                f"{self.title}: its windows are full and stayed so for {timeout} s: {self.why_full(None)}"
            )
        if status != lib.PYDDSI_OK:
            raise ValueError(
                f"{self.title}: a sample of {len(view)} bytes for {name!r} does not fit one packet; declare a publisher "
                f"for larger ones"
            )
        return True
