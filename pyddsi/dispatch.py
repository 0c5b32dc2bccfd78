"""
Callbacks: one thread of Python for a session, which takes samples in batches and calls.

The core's threads never call Python: whoever does so waits for the interpreter's lock, and with it the network. This
thread sleeps in the core instead, wakes once for many samples, and belongs to Python alone. So a callback may do what any
code may: publish, make and close publishers and subscribers, close the session.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from pyddsi._native import lib
from pyddsi._values import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyddsi._native import Sample
    from pyddsi.session import Session
    from pyddsi.subscriber import Subscriber

__all__ = ["Dispatcher"]

BATCH = 256
JOIN_SECONDS = 1.0
log = logging.getLogger("pyddsi")


class _Line:
    """One subscriber's callback. Its lock is held while the callback runs, and may be taken again by the same thread."""

    def __init__(self, subscriber: Subscriber, function: Callable[[Sample], object]) -> None:
        self.subscriber = subscriber
        self.function = function
        self.running = threading.RLock()
        self.over = False

    def run(self) -> bool:
        """Call with each sample that is there; whether there was one."""
        samples = self.subscriber._take(BATCH)  # noqa: SLF001 - the two are one mechanism
        if not samples:
            self.over = self.over or samples is None
            return False
        for sample in samples:
            with self.running:
                if self.over:
                    break
                try:
                    self.function(sample)
                except Exception:
                    log.exception("the callback of %s raised for %r", self.subscriber, sample)
        return True


class Dispatcher:
    """The thread of a session's callbacks. It begins with the first of them and ends with the session."""

    def __init__(self, session: Session) -> None:
        self._raw = session.raw
        self._keeper = session._keeper  # noqa: SLF001 - the session's memory outlives its thread
        self._lines: dict[Subscriber, _Line] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, name=f"pyddsi callbacks of {session.title}", daemon=True
        )
        self._thread.start()

    def set(self, subscriber: Subscriber, function: Callable[[Sample], object] | None) -> None:
        """From now on this is called; None: nothing, and what runs now has ended when this returns."""
        with self._lock:
            old = self._lines.pop(subscriber, None)
            if function is not None:
                self._lines[subscriber] = _Line(subscriber, function)
        if function is not None:
            lib.pyddsi_session_ring(self._raw)
        if old is not None:
            old.over = True
            if old.running.acquire(timeout=JOIN_SECONDS):
                old.running.release()

    def join(self) -> None:
        """The session is closed: wait a while for the thread, unless this is it."""
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        raw: Any = self._raw
        while True:
            heard = lib.pyddsi_session_listen(raw)
            with self._lock:
                lines = list(self._lines.values())
            if sum(line.run() for line in lines):
                lib.pyddsi_session_unlisten(raw)
            elif lib.pyddsi_session_wait(raw, heard, FOREVER) == lib.PYDDSI_CLOSED:
                return
