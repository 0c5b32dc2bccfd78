"""
Callbacks: one thread of Python for a session, which takes samples and calls.

The core's threads never call Python: a thread that does so waits for the interpreter's lock, and with it the network. This
thread sleeps in the core instead, wakes once for many samples, and belongs to Python alone. So a callback may do what any
code may: publish, make and close publishers and subscribers, close the session.

A coroutine function runs as a task of the event loop in which it was set, and needs no thread.

Neither holds a sample that it has not handed over: the next one is taken when the call before it has returned. So what
arrives for a callback that is replaced or removed waits for its successor, or for recv().
"""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from pyddsi._native import lib
from pyddsi._values import FOREVER
from pyddsi.errors import ClosedError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from pyddsi._native import Sample
    from pyddsi.session import Session
    from pyddsi.subscriber import Subscriber

__all__ = ["Dispatcher", "check_callback"]

BURST = 256
"""How many samples one callback gets before those of other subscribers get their turn."""
JOIN_SECONDS = 1.0
"""How long close() waits for a callback that is running."""
log = logging.getLogger("pyddsi")


# ---- what can be a callback ----


def check_callback(subscriber: Subscriber, function: Callable[..., object]) -> None:
    """TypeError unless it can be called with one sample."""
    import inspect  # noqa: PLC0415 - most programs have no callbacks

    if not callable(function):
        raise TypeError(f"{subscriber}: a callback is called with a sample; {function!r} cannot be")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell theirs
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(
            f"{subscriber}: a callback is called with one argument, the sample, and {function!r} takes {signature}: {error}"
        ) from None


def _is_coroutine_function(function: Callable[..., object]) -> bool:
    import inspect  # noqa: PLC0415 - as above

    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _loop_for(subscriber: Subscriber, function: Callable[..., object]) -> AbstractEventLoop:
    """The event loop that runs here, in which a coroutine function is to be called."""
    from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

    try:
        return aio.waker_of(subscriber.session).loop
    except RuntimeError:
        raise TypeError(
            f"{subscriber}: {function!r} is a coroutine function, and no event loop runs here that could call it; set it "
            f"from within a coroutine, or give a plain function"
        ) from None


# ---- what a callback raises ----


def _interrupt() -> None:
    """Raise KeyboardInterrupt in the main thread, also where that sleeps in a system call."""
    main = threading.main_thread().ident
    if main is not None and callable(signal.getsignal(signal.SIGINT)):
        signal.pthread_kill(main, signal.SIGINT)


def _report(subscriber: Subscriber, sample: Sample, error: BaseException) -> None:
    """Log what a callback raised. Nothing that happens here ends the thread that calls the others."""
    hint = (
        "; sys.exit() ends a program from its main thread only"
        if isinstance(error, SystemExit)
        else ""
    )
    try:
        log.error("the callback of %s raised for %r%s", subscriber, sample, hint, exc_info=error)
    except BaseException:  # noqa: BLE001 - a handler of the program's own may raise as well
        traceback.print_exc()
    if isinstance(error, KeyboardInterrupt):
        _interrupt()


# ---- the two kinds ----


class _Line:
    """A subscriber's callback on the session's thread. `running` is held while it runs; that thread may take it again."""

    def __init__(self, subscriber: Subscriber, function: Callable[[Sample], object]) -> None:
        self.subscriber = subscriber
        self.function = function
        self.running = threading.RLock()
        self.over = False

    def run(self) -> bool:
        """Call with each sample that is there; whether there was one."""
        poll, function = self.subscriber.poll, self.function
        count = 0
        with self.running:
            while not self.over and count < BURST:
                try:
                    sample = poll()
                except ClosedError:
                    self.over = True
                    break
                if sample is None:
                    break
                count += 1
                try:
                    result = function(sample)
                    if result is not None and isinstance(result, CoroutineType):
                        self._refuse(result)
                except BaseException as error:  # noqa: BLE001 - sys.exit() here must not end all callbacks
                    _report(self.subscriber, sample, error)
        return count != 0

    def _refuse(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        coroutine.close()
        raise TypeError(
            f"{self.function!r} answers a coroutine, which nothing awaits; give the coroutine function itself"
        )

    def end(self, *, closing: bool) -> None:  # noqa: ARG002 - as _Task has it
        """No further call begins."""
        self.over = True

    def join(self, seconds: float) -> bool:
        """Wait for the call that is running; whether it has ended, or waits for this one."""
        ended = self.running.acquire(timeout=seconds)
        if ended:
            self.running.release()
        return ended


class _Task:
    """A subscriber's coroutine function, called by a task of the event loop in which it was set."""

    def __init__(
        self, subscriber: Subscriber, function: Callable[[Sample], Any], loop: AbstractEventLoop
    ) -> None:
        self.subscriber = subscriber
        self.function = function
        self.over = False
        self._busy = False
        self._loop = loop
        self._ended = threading.Event()
        self._task = loop.create_task(self._run(), name=f"pyddsi callback of {subscriber}")

    async def _run(self) -> None:
        from asyncio import CancelledError  # noqa: PLC0415 - it is there already

        while not self.over:
            try:
                sample = await self.subscriber.recv_async()
            except ClosedError:
                return
            self._busy = True
            try:
                await self.function(sample)
            except CancelledError as error:
                if self._task.cancelling():
                    raise
                _report(self.subscriber, sample, error)
            except BaseException as error:  # noqa: BLE001 - as above
                _report(self.subscriber, sample, error)
            self._busy = False

    def _end(self, *, closing: bool) -> None:
        """In the loop. A task that is not busy waits for a sample and holds none. One that ends itself goes on."""
        from asyncio import current_task  # noqa: PLC0415 - it is there already

        if current_task() is self._task or (self._busy and not closing):
            self._ended.set()
        else:
            self._task.add_done_callback(lambda _: self._ended.set())
            self._task.cancel()

    def end(self, *, closing: bool) -> None:
        """
        No further call begins. One that is suspended is cancelled if its subscriber closes, and goes on to its end if
        another callback takes its place.
        """
        import asyncio  # noqa: PLC0415 - it is there already

        self.over = True
        try:
            inside = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            inside = False
        if inside:
            self._end(closing=closing)
            self._ended.set()  # this is the loop: to wait here would be to wait for oneself
            return
        try:
            self._loop.call_soon_threadsafe(partial(self._end, closing=closing))
        except RuntimeError:  # the loop is closed, and its tasks with it
            self._ended.set()

    def join(self, seconds: float) -> bool:
        """Wait until the loop has heard of it; whether it has."""
        return self._ended.wait(seconds)


class Dispatcher:
    """The callbacks of a session, and the thread of those that are no coroutine functions."""

    def __init__(self, session: Session) -> None:
        self._title = session.title
        self._raw = session.raw
        self._keeper = session._keeper  # noqa: SLF001 - the session's memory outlives its thread
        self._lines: dict[Subscriber, _Line | _Task] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def set(self, subscriber: Subscriber, function: Callable[[Sample], object] | None) -> None:
        """From now on this is called; None: nothing. The call of another one that runs now has ended when this returns."""
        made: _Line | _Task | None = None
        if function is not None and _is_coroutine_function(function):
            loop = _loop_for(subscriber, function)
            self._stop(self._replace(subscriber, None))
            made = _Task(subscriber, function, loop)
        elif function is not None:
            made = _Line(subscriber, function)
        self._stop(self._replace(subscriber, made))
        if isinstance(made, _Line):
            self._begin()
            lib.pyddsi_session_ring(self._raw)

    def remove(self, subscriber: Subscriber) -> None:
        """The subscriber closes."""
        self._stop(self._replace(subscriber, None), closing=True)

    def close(self) -> None:
        """The session is closed: nothing runs after this returns, unless a call takes very long, or is the one that closes."""
        with self._lock:
            lines = list(self._lines.values())
            self._lines.clear()
        left = self._stop(lines, closing=True)
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(left)

    def _replace(self, subscriber: Subscriber, line: _Line | _Task | None) -> list[_Line | _Task]:
        """The one that was there before."""
        with self._lock:
            old = self._lines.pop(subscriber, None)
            if line is not None:
                self._lines[subscriber] = line
        return [] if old is None else [old]

    @staticmethod
    def _stop(lines: Sequence[_Line | _Task], *, closing: bool = False) -> float:
        """End these, and wait for them, for JOIN_SECONDS at most; the seconds that are left of that."""
        until = monotonic() + JOIN_SECONDS
        for line in lines:
            line.end(closing=closing)
        for line in lines:
            if not line.join(max(0.0, until - monotonic())) and closing:
                log.warning(
                    "the callback of %s is still running %g s after close(), and is left to itself",
                    line.subscriber,
                    JOIN_SECONDS,
                )
        return max(0.0, until - monotonic())

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"pyddsi callbacks of {self._title}", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        raw: Any = self._raw
        while True:
            heard = lib.pyddsi_session_listen(raw)
            with self._lock:
                lines = [line for line in self._lines.values() if isinstance(line, _Line)]
            if sum(line.run() for line in lines):
                lib.pyddsi_session_unlisten(raw)
            elif lib.pyddsi_session_wait(raw, heard, FOREVER) == lib.PYDDSI_CLOSED:
                return
