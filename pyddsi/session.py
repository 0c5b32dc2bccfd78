"""
A session: one participant on real sockets, and everything that a program does with it.

    with pyddsi.open() as session:
        pub = session.publisher("plant/robot/7/pose")
        sub = session.subscriber("plant/robot/*/pose")

Two threads of the core receive and keep house; they never wait for Python. Every call may be made by any thread. The file is long,
since what begins with a session and what ends with it are read together.
"""

from __future__ import annotations

import atexit
import os
import zlib
from _thread import allocate_lock, get_ident, start_new_thread
from _weakref import ref
from _weakrefset import WeakSet

from pyddsi._by_name import ByName
from pyddsi._declare import Declaring
from pyddsi._declared import TIMEOUT, Declared, Resource, Selection
from pyddsi._log import log_broker, log_drops, watch
from pyddsi._looking import Looking
from pyddsi._native import Keeper, ffi, lib
from pyddsi._opening import fill, refusal
from pyddsi._recorded import Recorded
from pyddsi._values import FOREVER, SECOND, nanoseconds
from pyddsi.config import Config
from pyddsi.errors import CaptureError, ClosedError, OpenError
from pyddsi.publisher import Publisher
from pyddsi.subscriber import Subscriber

TYPE_CHECKING = False  # see pyddsi/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, NoReturn, Self, Unpack

    from pyddsi._declared import Named, Owner
    from pyddsi._words import Settings
    from pyddsi.aio import Waker
    from pyddsi.capture._record import Recorder
    from pyddsi.dispatch import Dispatcher

__all__ = ["Session", "open"]

CLOSE_TIMEOUT = 1.0
SLICE = 10 * SECOND  # a signal ends a wait; one that comes just before it, after this
NAMES_FROM = 1 << 13  # numbers below are the program's own
NAMES_UNTIL = 1 << 27  # a doubled number below 2^28 fits four bytes of seven bits
ATTEMPTS = 8  # numbers that are tried for a name

_open: WeakSet[Session] = WeakSet()


def open(  # noqa: A001 - as pyddsi.open, it shadows nothing
    config: Config | None = None,
    *,
    record: str | os.PathLike[str] | None = None,
    **settings: Unpack[Settings],
) -> Session:
    """
    Begin a session. It finds its peers by itself.

    config: all settings; None: defaults, the file that PYDDSI_CONFIG names, and the environment (see `Config.load`)
    record: a pcapng file for all that it says and hears, from the first packet on; `Session.record` begins later
    settings: single settings, which win; `Config` has them

    Raises ConfigError for a setting that cannot be, and OpenError when the system does not give what is needed.
    """
    if config is None:
        chosen = Config.load(**settings)
    elif isinstance(config, Config):
        chosen = config.replace(**settings) if settings else config
    else:
        raise TypeError(
            f"config is a pyddsi.Config, not {config!r}; Config.load(path) reads one from a file"
        )
    session = Session(chosen, recorded=record is not None)
    if record is not None:
        try:
            session.record(record)
        except BaseException:
            session.close(0.0)
            raise
    return session


class Session(Looking, Recorded, Declaring[Publisher, Subscriber], ByName):
    """
    One participant on real sockets. Made by `pyddsi.open`, ended by `close` or a with block.

    config: its settings
    id: what it is called on the wire
    name: the same in hexadecimal digits, as `source` of samples and `name` of peers have it
    """

    def __init__(self, config: Config, *, recorded: bool = False) -> None:
        self.config = config
        self._closed = True  # until it is open
        self._pid = os.getpid()
        options = ffi.new("pyddsi_session_options *")
        self.paths = fill(options, config)
        options.record_bytes = lib.PYDDSI_RECORD_BYTES if recorded else 0
        made, why = ffi.new("pyddsi_session **"), ffi.new("char[]", lib.PYDDSI_TEXT_MAX)
        try:
            status = lib.pyddsi_session_open(made, options, why)
            if status == lib.PYDDSI_OK:
                self._begin(made[0], options)
        except BaseException:  # Ctrl-C, too: peers that have met it already are told
            if made[0] != ffi.NULL:
                lib.pyddsi_session_close(made[0], 0)
            raise
        if status != lib.PYDDSI_OK:
            raise refusal(status, ffi.string(why).decode("utf-8", "replace"))
        self._recorded = recorded
        self._closed = False
        _open.add(self)
        self._watched = allocate_lock()
        self._watched.acquire()
        self._watcher = start_new_thread(
            watch, ([self._keeper], self.raw, ref(self), self._watched)
        )
        self._seek()

    def _begin(self, raw: Any, options: Any) -> None:
        """What is known of a session that is open."""
        self.raw = raw
        node = options.node
        self._names: dict[int, str] = {}
        slots = int(node.slots_max)
        self._keeper = Keeper(
            int(ffi.cast("uintptr_t", self.raw)),
            self._names,
            min(slots, int(node.assembly_max)) // 2,
            int(node.assembly_bytes) // 2,
            int(node.packet_max),
        )
        local = ffi.new("pyddsi_endpoint *")
        lib.pyddsi_session_look(self.raw, options, local)
        self._local = local
        self._options = options
        self.id = bytes(node.id[0 : node.id_size])
        self.name = self.id.hex()
        self.rid_bits = int(node.rid_bits)
        self.life = 0
        self.declared: dict[int, Declared] = {}
        self.things: dict[tuple[str, int, int], Resource | Selection] = {}
        self._fixed: set[str] = set()
        self._rejections: dict[int, dict[str, int]] = {}
        self.waker: Waker | None = None
        self._dispatcher: Dispatcher | None = None
        self._recorder: Recorder | None = None
        self._lock = allocate_lock()
        self._numbers: dict[str, int] = {}
        self._taken: dict[int, str] = {}
        log_broker(self)
        self._wall_ns = int(lib.pyddsi_session_wall(self.raw))
        self._events: list[Any] = []
        self._raw_event = ffi.new("pyddsi_event *")

    def _seek(self) -> None:
        """The session is open: the peers that it names are looked after."""
        if self.config.peers:
            from pyddsi._seek import seeker  # noqa: PLC0415 - most sessions name nobody

            self._seeker = seeker(self)

    def _sought(self) -> None:
        """It closes."""
        if self._seeker is not None:
            self._seeker.stop()

    # ---- life ----

    def __enter__(self) -> Self:
        if self.closed:
            raise self.closed_error()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except CaptureError:  # in the log it is in any case
            if error is None:
                raise

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close_async()
        except CaptureError:
            if error is None:
                raise

    async def close_async(
        self,
        timeout: float = CLOSE_TIMEOUT,  # noqa: ASYNC109 - as close has it
    ) -> None:
        """As close, for asyncio: other tasks run meanwhile."""
        from pyddsi import aio  # noqa: PLC0415 - only programs with asyncio need it

        await aio.apart(lambda: self.close(timeout))

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """
        Say farewell to all peers, and accept nothing more.

        Waits for at most `timeout` seconds until reliable samples are acknowledged. What is not by then, and what
        subscribers have not taken, has a line in the ledger: drops() and stats() can still be asked. No callback begins
        after this returns; one that is running is waited for, for a second at most.

        Raises CaptureError, when all is closed, if a recording of the session had ended before and that was not told.
        """
        limit = nanoseconds(timeout, "timeout")
        with self._lock:
            if self._closed:
                return
            self._closed = True
        _open.discard(self)
        self._sought()
        lib.pyddsi_session_close(self.raw, limit)
        if self._pid == os.getpid() and get_ident() != self._watcher:
            self._watched.acquire(timeout=CLOSE_TIMEOUT)  # a handler of the log may take long
        log_drops(self)
        if self._recorder is not None:
            self._recorder.finish()
        if self._dispatcher is not None and self._pid == os.getpid():
            self._dispatcher.close()
        for one in list(self.declared.values()):
            if isinstance(one, Subscriber):
                one.end()
        if self.waker is not None:
            self.waker.close()
        # They know their session. Without this circle it, and with it sockets and memory, goes with its last user.
        self.declared.clear()
        self.things.clear()
        if self._recorder is not None:
            self._recorder.tell()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._pid != os.getpid():
            return
        import warnings  # noqa: PLC0415 - well written programs need none

        left = [str(one.KIND) + " " + repr(one.name) for one in self.declared.values()]
        warnings.warn(
            f"{self.title} was not closed, and has {', '.join(left) or 'nothing declared'}; use it in a with block, or "
            f"close() it",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        self._end()

    def _end(self) -> None:
        """Close it where nobody can be told."""
        try:
            self.close(0.0)
        except CaptureError:
            return

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the process that forked this one."""
        return self._closed or self._pid != os.getpid()

    def closed_error(self, what: str = "") -> ClosedError:
        """The error for something that was asked for after the end."""
        who = f"{what}: {self.title}" if what else self.title
        if self._pid != os.getpid():
            return ClosedError(
                f"{who} belongs to process {self._pid}, which forked this one; open another session here"
            )
        return ClosedError(f"{who} is closed; open another one")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError(
            f"{self.title} cannot be copied or pickled; open another one where it is needed"
        )

    def __repr__(self) -> str:
        return f"<Session {self.name}, {'closed' if self.closed else 'open'}>"

    # ---- the core ----

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"session {self.name}"

    @property
    def running(self) -> bool:
        """Whether it can be asked for anything."""
        return not self.closed

    def as_owner(self) -> Owner:
        """Itself."""
        return self

    def call(self, name: str, *arguments: Any) -> int:
        """Call the core for this session. ClosedError if it is closed."""
        status = int(getattr(lib, f"pyddsi_session_{name}")(self.raw, *arguments))
        if status == lib.PYDDSI_CLOSED:
            raise self.closed_error()
        return int(status)

    def wait(self, timeout: float | None, ready: Callable[[], Any]) -> Any:
        """Wait until `ready` answers something true, which is the result, or the time is over."""
        found = ready()
        if found or timeout == 0:
            return found
        until = FOREVER
        if timeout is not None:
            until = lib.pyddsi_session_now(self.raw) + nanoseconds(timeout, "timeout")
        while True:
            heard = lib.pyddsi_session_listen(self.raw)
            try:
                found = ready()
            except BaseException:
                lib.pyddsi_session_unlisten(self.raw)
                raise
            now = lib.pyddsi_session_now(self.raw)
            if found or now >= until:
                lib.pyddsi_session_unlisten(self.raw)
                return found
            # each call of cffi gives signals their turn when it is over
            lib.pyddsi_session_wait(self.raw, heard, min(until - now, SLICE))

    def fileno(self) -> int:
        """A descriptor that is readable when something has happened since it was last read (8 bytes)."""
        fd = self.call("fd")
        if fd < 0:
            raise OpenError(
                f"{self.title} gets no descriptor for event loops: too many files are open; raise `ulimit -n`"
            )
        return fd

    def dispatcher(self) -> Dispatcher:
        """What calls the callbacks of its subscribers."""
        with self._lock:
            if self.closed:
                raise self.closed_error()
            if self._dispatcher is None:
                from pyddsi.dispatch import Dispatcher  # noqa: PLC0415 - only callbacks need it

                self._dispatcher = Dispatcher(self)
            return self._dispatcher

    def undispatch(self, subscriber: Subscriber) -> None:
        """The subscriber closes: its callback, if it has one, is called no more."""
        if self._dispatcher is not None and not self.closed:
            self._dispatcher.remove(subscriber)

    # ---- declarations ----

    def _number_of(self, name: str, attempt: int) -> int | None:
        """
        Names become numbers by their hash, so that all sessions find the same one without asking. Where two names meet at
        one number, the next is tried; that peers then know one name by two numbers does no harm.
        """
        if attempt >= ATTEMPTS:
            return None
        if attempt == 0 and name in self._numbers:
            return self._numbers[name]
        span = NAMES_UNTIL - NAMES_FROM if self.rid_bits > 16 else 1 << (self.rid_bits - 2)
        least = NAMES_FROM if self.rid_bits > 16 else span
        number = least + (zlib.crc32(name.encode()) + attempt) % span
        while self._taken.get(number, name) != name:
            number = least + (number - least + 1) % span
        return number

    def _named(self, name: str, number: int) -> None:
        self._numbers.setdefault(name, number)
        self._taken.setdefault(number, name)

    def unnamed(self, thing: Named) -> None:
        """This thing has gone, and its number has no meaning any more."""
        super().unnamed(thing)
        text, number, space = thing.key
        if self._taken.get(number) == text:
            del self._taken[number]
            self._numbers.pop(text, None)
        self._names.pop(space << 56 | number << 1 | (thing.KIND == "selection"), None)

    def call_declaring(self, kind: str, *arguments: Any) -> int:
        """Call the core for a declaration; where its tables are full of what was closed before, wait for that to end."""
        status = lib.PYDDSI_AGAIN

        def done() -> bool:
            nonlocal status
            status = int(self.call(kind, *arguments))
            return bool(status != lib.PYDDSI_AGAIN)

        self.wait(TIMEOUT, done)
        return int(status)

    def _called(self, space: int, wire_id: int, name: str) -> None:
        self._names.setdefault(space << 56 | wire_id, name)

    def _publisher_made(self, name: str | int, number: int, handle: int, **rest: Any) -> Publisher:
        return Publisher(self, self._keeper, name, number, handle, **rest)

    def _subscriber_made(
        self, name: str | int, number: int, handle: int, options: Any, **rest: Any
    ) -> Subscriber:
        return Subscriber(self, self._keeper, name, number, handle, options=options, **rest)

    def _elsewhere(self, number: int, space: int) -> Iterable[tuple[str, str]]:
        for one in self.resources():
            if (one.kind, one.number, one.space) == ("resource", number, space):
                yield str(one.name), f"peer {one.peer}"

    def _table(self, kind: str, /) -> str:
        return "resources_max" + (", or a smaller depth," if kind == "subscriber" else "")

    def flush(self) -> None:
        """Send now what waits for company in its packet."""
        self.call("flush")


@atexit.register
def _close_all() -> None:
    """At the end of the program peers hear farewell, also of what was not closed."""
    for session in list(_open):
        session._end()  # noqa: SLF001 - of this module
