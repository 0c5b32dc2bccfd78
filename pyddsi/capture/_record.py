"""
Recordings: what a session says and hears, or what goes by on an interface, as capture files.

    session.record("run.pcapng") ──► a ring in the core ──┐
                                                          ├─► one thread of Python ──► files
    record("eth0", "run.pcapng") ──► the kernel's ring ───┘

The thread belongs to the recording alone, and sleeps in the core. A session never waits for it: what finds no room in the
ring, because the disk is slow or Python is busy, is left out and counted, in `counts` and in the statistics block at the end of
each file.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from array import array
from dataclasses import dataclass
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast
from weakref import WeakSet

from pyddsi._native import ffi, lib
from pyddsi.capture._introduce import introduction, signature
from pyddsi.capture._rotate import Files
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from pyddsi.session import Session

    Frames = tuple[memoryview, array[int], array[int], int]

__all__ = ["Counts", "Recorder", "record"]

ROOM = 2 * 1024 * 1024
FRAMES = 8192
LINK_RAW = 101
TAKE_NS = 200_000_000
JOIN_SECONDS = 10.0
log = logging.getLogger("pyddsi")
_open: WeakSet[Recorder] = WeakSet()


@dataclass(frozen=True, slots=True)
class Counts:
    """
    What a recording holds so far.

    packets: in its files; bytes: of its files
    lost: packets and samples that found no room, because the disk or Python was too slow
    left_out: of an interface: packets that are not of the protocol. Of a session: what no file can hold
    """

    packets: int
    bytes: int
    lost: int
    left_out: int


class _Inside:
    """What a session says and hears."""

    def __init__(self, raw: Any, keeper: object) -> None:
        self._raw = raw
        self._keeper = keeper  # the session's memory outlives the recording
        self._memory = bytearray(ROOM)
        self._times = array("q", bytes(8 * FRAMES))
        self._ends = array("I", bytes(4 * FRAMES))
        self._copy = ffi.new("pyddsi_copy *")
        self._counts = ffi.new("pyddsi_recorded *")
        self._copy.out = ffi.from_buffer("uint8_t[]", self._memory, require_writable=True)
        self._copy.times = ffi.from_buffer("int64_t[]", self._times, require_writable=True)
        self._copy.ends = ffi.from_buffer("uint32_t[]", self._ends, require_writable=True)
        self._copy.room, self._copy.count_max = ROOM, FRAMES

    def frames(self, _files: Files) -> Iterator[Frames]:
        """Until the session ends, or `stop`."""
        view, copy = memoryview(self._memory), self._copy
        while lib.pyddsi_session_record_take(self._raw, copy, TAKE_NS) == lib.PYDDSI_OK:
            if copy.count:
                yield view[: copy.used], self._times, self._ends, copy.count
                copy.used = copy.count = 0

    def stop(self) -> None:
        lib.pyddsi_session_record_stop(self._raw)

    def finish(self) -> None:
        """Give the ring back."""
        self.stop()
        while lib.pyddsi_session_record_take(self._raw, self._copy, 0) == lib.PYDDSI_OK:
            self._copy.used = self._copy.count = 0

    def counts(self) -> tuple[int, int]:
        lib.pyddsi_session_recorded(self._raw, self._counts)
        return self._counts.lost, self._counts.odd


class _Interface:
    """What goes by, and is ours."""

    def __init__(self, interface: str, settings: dict[str, Any]) -> None:
        from pyddsi.capture._capture import open as open_capture  # noqa: PLC0415 - see __init__.py
        from pyddsi.capture._live import Live  # noqa: PLC0415

        self._live = Live(interface)
        self._capture = open_capture(cast("BinaryIO", self._live), **settings)
        self._left_out = 0

    def frames(self, files: Files) -> Iterator[Frames]:
        from pyddsi.capture._copy import Copier, Secrets  # noqa: PLC0415
        from pyddsi.capture._scan import Request  # noqa: PLC0415

        copier = Copier(
            self._capture,
            list(self._capture.members),
            Request("packets", ("pkt",)),
            files,
            Secrets(ours=True),
        )
        for some in copier.batches():
            self._left_out = copier.raw.left_out
            yield some
        self._left_out = copier.raw.left_out
        if not files.links:
            files.link(LINK_RAW)  # nothing of ours went by: an empty capture

    def stop(self) -> None:
        self._live.stop()

    def finish(self) -> None:
        self._live.close()

    def counts(self) -> tuple[int, int]:
        return self._live.counts[1], self._left_out


class Recorder:
    """
    What records, while it does. Made by `Session.record` and `pyddsi.capture.record`; ended by `close`, a with block, or the end of the
    session.

    problem: why it has ended before it was closed: the disk is full, the interface is gone; None: it has not. `close` raises it,
    and so does the session's, once
    """

    def __init__(self, source: _Inside | _Interface, files: Files, title: str) -> None:
        self._source = source
        self._files = files
        self._title = title
        self._pid = os.getpid()
        self._told = False
        self._last = (0, 0)
        self._over = threading.Event()
        self.problem: CaptureError | None = None
        self._thread = threading.Thread(target=self._run, name=f"pyddsi {title}", daemon=True)
        _open.add(self)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.finish()

    def __repr__(self) -> str:
        return f"<Recorder {self._title}, {'closed' if self.closed else 'open'}>"

    @property
    def files(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._files.names)

    @property
    def counts(self) -> Counts:
        """What it holds so far."""
        if not self._over.is_set() and self._pid == os.getpid():
            self._last = self._source.counts()
        lost, left_out = self._last
        return Counts(self._files.frames, self._files.bytes, lost, left_out)

    @property
    def closed(self) -> bool:
        """Nothing more is recorded, and the files are complete."""
        return self._over.is_set() or self._pid != os.getpid()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended by itself: it has as many packets as were asked for, or cannot go on. Whether it has."""
        return self._over.wait(timeout)

    def close(self) -> None:
        """
        End it: what was said and heard until now is in the files. Raises CaptureError if it could not go on before, with what is
        in the files then.
        """
        self.finish()
        self.tell()

    def tell(self) -> None:
        """Raise the CaptureError that ended it before it was closed, once."""
        if self.problem is not None and not self._told:
            self._told = True
            raise self.problem

    def finish(self) -> None:
        """The same, and raises nothing."""
        if self._pid != os.getpid():
            self._files.leave()
            return
        _open.discard(self)
        if not self._over.is_set():
            self._source.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_SECONDS)

    # ---- the thread ----

    def _run(self) -> None:
        files = self._files
        try:
            for frames in self._source.frames(files):
                files.lost = self._source.counts()[0]
                files.write(*frames)
                if files.full:
                    break
            files.lost = self._source.counts()[0]
            files.end()
        except Exception as error:  # noqa: BLE001 - whatever it is, it does not end in silence
            self.problem = _as_problem(error)
            files.leave()
            log.error("the recording %s has ended: %s", self._title, self.problem)  # noqa: TRY400 - the words say all
        finally:
            self._last = self._source.counts()
            self._source.finish()
            self._over.set()


def _as_problem(error: Exception) -> CaptureError:
    if isinstance(error, CaptureError):
        return error
    problem = CaptureError(f"{type(error).__name__}: {error}")
    problem.__cause__ = error
    return problem


def of_session(
    session: Session, keeper: object, local: Any, files: Files, begun_ns: int | None
) -> Recorder:
    """
    Record a session.

    local: its endpoint, as the core has it
    begun_ns: when it began, if it is recorded since then; None: the recording begins now
    """
    source = _Inside(session.raw, keeper)
    at_ns = time_ns() if begun_ns is None else begun_ns
    if begun_ns is None and session.call("record", lib.PYDDSI_RECORD_BYTES) != lib.PYDDSI_OK:
        raise MemoryError(f"{session.title}: no memory is left for a recording")
    try:
        known = introduction(session, local, at_ns) if begun_ns is None else b""
        files.link(LINK_RAW)
        files.signature = partial(signature, local)
        files.begin(at_ns, known)
    except BaseException:
        source.finish()
        raise
    return Recorder(source, files, f"of {session.title} in {files.names[0]}")


def record(
    interface: str,
    path: str | os.PathLike[str],
    *,
    max_size: int | None = None,
    max_time: float | None = None,
    keep: int | None = None,
    count: int | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> Recorder:
    """
    Record the protocol's packets that go by on an interface ("any": on all of them), whoever sent them, until it is closed.

    max_size, max_time, keep, count, overwrite: as of `Session.record`
    settings: how packets are known to be of the protocol: ports and the others of `open`

    Raises PermissionError without root or the capability CAP_NET_RAW, CaptureError if there is no such interface, or the file
    cannot be written.
    """
    source = _Interface(interface, settings)
    try:
        files = Files(
            path,
            max_size=max_size,
            max_time=max_time,
            keep=keep,
            count=count,
            overwrite=overwrite,
        )
    except BaseException:
        source.finish()
        raise
    return Recorder(source, files, f"of {interface} in {os.fspath(path)}")


@atexit.register
def _close_all() -> None:
    """At the end of the program files are complete, also of what was not closed."""
    for recording in list(_open):
        recording.finish()
