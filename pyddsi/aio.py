"""
How a task of asyncio waits for a session: through the loop's own reader, without a thread.

    task ── ready()? no ──► future ◄── wake ◄── the loop sees the session's descriptor ◄── something has happened
              ▲                │
              └────────────────┘  again, for every task that waits

The descriptor tells that something has happened to the session, not what: so whoever wakes asks again, and nothing can be
missed between asking and waiting. It is watched only while somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

from pyddsi.errors import PyddsiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyddsi.session import Session

__all__ = ["Waker", "apart", "wait", "waker_of"]


class Waker:
    """What one event loop knows of one session."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._fd = session.fileno()
        self._waiting: set[asyncio.Future[None]] = set()
        self._watching = False

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # another reader was quicker
            os.read(self._fd, 8)
        if not self._waiting:
            self._unwatch()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self.loop.remove_reader(self._fd)

    async def until(self, ready: Callable[[], Any]) -> Any:
        """What `ready` answers, once that is something true."""
        while True:
            future = self.loop.create_future()
            self._waiting.add(future)
            try:
                if not self._watching:
                    self._watching = True
                    self.loop.add_reader(self._fd, self._wake)
                if found := ready():
                    return found
                await future
            finally:
                self._waiting.discard(future)

    def close(self) -> None:
        """The session is closed: nobody waits any more. Called by any thread."""
        if self.loop.is_closed():
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self.loop:
            self._end()
        else:
            self.loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._unwatch()
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


async def apart(call: Callable[[], Any]) -> Any:
    """What a call answers that takes long and cannot be taken up again: it runs on a thread of its own."""
    return await asyncio.to_thread(call)


def waker_of(session: Session) -> Waker:
    """What the event loop that runs here knows of a session. RuntimeError if none runs here."""
    loop = asyncio.get_running_loop()
    if not hasattr(session, "waker"):
        raise TypeError(
            f"{session.title} is simulated: its time passes in the calls that wait, without asyncio"
        )
    waker = session.waker
    if waker is None or (waker.loop is not loop and waker.loop.is_closed()):
        waker = session.waker = Waker(session, loop)
    elif waker.loop is not loop:
        raise PyddsiError(
            f"{session.title} is awaited in another event loop already; open a session for each loop"
        )
    return waker


async def wait(
    session: Any,
    ready: Callable[[], Any],
    timeout: float | None,  # noqa: ASYNC109 - every wait of pyddsi has it
) -> Any:
    """What `ready` answers, once that is something true. TimeoutError after `timeout` seconds."""
    waker = waker_of(session)
    if timeout is None:
        return await waker.until(ready)
    async with asyncio.timeout(timeout):
        return await waker.until(ready)
