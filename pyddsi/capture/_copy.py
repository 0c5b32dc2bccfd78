"""
Captures written from captures: cut, merged, put in order, or without their secrets.

    files ─► the core copies frames ─► in order of time, if several or asked ─► file

The core hands over some thousand frames at once, as the bytes that they will have in the new file. Where several files are
merged, or one is put in order, frames go one by one through a heap; what is out of order by more than the heap holds stays so,
and is counted.
"""

from __future__ import annotations

import heapq
import os
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyddsi
from pyddsi._native import ffi, lib
from pyddsi.capture._bytes import Window, open_bytes
from pyddsi.capture._scan import NONE, Request, Scan
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from pyddsi.capture._capture import Capture
    from pyddsi.capture._files import Member

__all__ = ["Copied", "Copier", "Secrets", "copy"]

FORMATS = {".pcap": 1, ".cap": 1, ".pcapng": 2}
ROOM = 2 * 1024 * 1024
FRAMES = 8192
HEAP_FRAMES = 65536
HEAP_BYTES = 64 * 1024 * 1024
HEAD_BYTES = 512
LINK_ETHERNET, LINK_RAW = 1, 101


@dataclass
class Copied:
    """
    What became of it.

    frames: that were written
    left_out: that were not wanted, or that the new file cannot hold
    disordered: that are earlier than the one before, in spite of being put in order
    """

    frames: int = 0
    left_out: int = 0
    disordered: int = 0


class Output(Protocol):
    """Where frames go: what kind of file that is, and its interfaces."""

    links: list[int]

    @property
    def format(self) -> int:
        """1 pcap, 2 pcapng."""
        ...

    def link(self, link: int) -> None:
        """Another interface."""


@dataclass
class _Output:
    """The new file: its format, and its interfaces, which are link types."""

    file: BinaryIO
    format: int
    links: list[int] = field(default_factory=list)
    written: int = 0
    begun: bool = False

    def head(self) -> None:
        """What a file begins with, as soon as it is known; of a pcap that takes the first link type."""
        if self.begun or (self.format == 1 and not self.links):
            return
        out, at = ffi.new("uint8_t[]", HEAD_BYTES), ffi.new("size_t *")
        name = f"pyddsi {pyddsi.__version__}".encode()
        lib.pyddsi_write_header(
            self.format, self.links[0] if self.links else 1, name, out, HEAD_BYTES, at
        )
        self.file.write(ffi.buffer(out, at[0]))
        self.begun = True

    def link(self, link: int) -> None:
        """Another interface."""
        self.links.append(link)
        self.head()
        if self.format == 2:
            out, at = ffi.new("uint8_t[]", HEAD_BYTES), ffi.new("size_t *")
            lib.pyddsi_write_interface(link, out, HEAD_BYTES, at)
            self.file.write(ffi.buffer(out, at[0]))

    def statistics(self, facts: list[Any]) -> None:
        """What the capturing lost itself, if it says so: it explains gaps. The older format has no place for it."""
        lost = sum(int(fact.capture_dropped) for fact in facts)
        if not lost or self.format != FORMATS[".pcapng"]:
            return
        frames = sum(int(fact.frames) for fact in facts)
        last = max((int(fact.last_ns) for fact in facts if fact.last_ns != NONE), default=0)
        out, at = ffi.new("uint8_t[]", HEAD_BYTES), ffi.new("size_t *")
        lib.pyddsi_write_statistics(max(0, last), frames + lost, lost, out, HEAD_BYTES, at)
        self.file.write(ffi.buffer(out, at[0]))


class Copier:
    """The copies of one file, or of several that continue each other."""

    def __init__(
        self,
        capture: Capture,
        members: list[Member],
        request: Request,
        output: Output,
        secrets: Any,
    ) -> None:
        self.members = members
        self.scan = Scan(capture.settings, request)
        self._output = output
        self._memory = bytearray(ROOM)
        self._times = array("q", bytes(8 * FRAMES))
        self._ends = array("I", bytes(4 * FRAMES))
        self.raw = ffi.new("pyddsi_copy *")
        self.raw.out, self.raw.room = (
            ffi.from_buffer("uint8_t[]", self._memory, require_writable=True),
            ROOM,
        )
        self.raw.times = ffi.from_buffer("int64_t[]", self._times, require_writable=True)
        self.raw.ends = ffi.from_buffer("uint32_t[]", self._ends, require_writable=True)
        self.raw.count_max = FRAMES
        self.raw.format = output.format
        self.raw.ours = secrets.ours
        self.raw.hide, self.raw.names = secrets.hide, secrets.names
        self.raw.key = [
            int.from_bytes(secrets.key[:8], "little"),
            int.from_bytes(secrets.key[8:16], "little"),
        ]
        lib.pyddsi_scan_copy(self.scan.raw, self.raw)

    def _links(self) -> None:
        """Interfaces that are new are written before what comes next; those of other files are known here as well."""
        for i in range(self.raw.link_count):
            if self.raw.links[i] not in self._output.links:
                self._output.link(self.raw.links[i])
        for i, link in enumerate(self._output.links):
            self.raw.links[i] = link
        self.raw.link_count = len(self._output.links)

    def batches(self) -> Iterator[tuple[memoryview, array[int], array[int], int]]:
        """Bytes, times and ends of some frames at a time, good until the next."""
        raw, view = self.raw, memoryview(self._memory)
        for number, member in enumerate(self.members):
            source = open_bytes(member.source)
            try:
                self.scan.begin(number)
                window = Window(source)
                while True:
                    self._links()
                    status = lib.pyddsi_scan_input(
                        self.scan.raw, window.pointer, window.left, self.scan.used
                    )
                    window.at += self.scan.used[0]
                    if raw.count:
                        yield view[: raw.used], self._times, self._ends, raw.count
                        raw.used = raw.count = 0
                    if status < 0:
                        raise self.scan.damaged(source)
                    if status == lib.PYDDSI_OK and not self.scan.fill(window):
                        self.scan.tail(source, window)
                        break
            finally:
                source.close()
        while lib.pyddsi_scan_finish(self.scan.raw, True) == lib.PYDDSI_AGAIN or raw.count:  # noqa: FBT003 - C has no names
            self._links()
            if raw.count:
                yield view[: raw.used], self._times, self._ends, raw.count
                raw.used = raw.count = 0

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """One by one: time and bytes."""
        for view, times, ends, count in self.batches():
            at = 0
            for i in range(count):
                yield times[i], bytes(view[at : ends[i]])
                at = ends[i]


def _ordered(frames: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """In order of time, as far as a heap of some thousand frames can put them so. A frame without a time stays where it is."""
    heap: list[tuple[int, int, bytes]] = []
    held, latest = 0, 0
    for number, (time_ns, data) in enumerate(frames):
        latest = max(latest, time_ns) if time_ns != NONE else latest
        heapq.heappush(heap, (latest if time_ns == NONE else time_ns, number, data))
        held += len(data)
        while len(heap) > HEAP_FRAMES or held > HEAP_BYTES:
            first, _, oldest = heapq.heappop(heap)
            held -= len(oldest)
            yield first, oldest
    while heap:
        first, _, oldest = heapq.heappop(heap)
        yield first, oldest


@dataclass(frozen=True)
class Secrets:
    """What of a frame is copied."""

    ours: bool = False
    hide: bool = False
    names: bool = False
    key: bytes = bytes(16)


def _groups(capture: Capture) -> list[list[Member]]:
    """Files that continue each other together."""
    groups: list[list[Member]] = []
    for member in capture.members:
        if member.continues and groups:
            groups[-1].append(member)
        else:
            groups.append([member])
    return groups


def _write(output: _Output, copiers: list[Copier], *, sort: bool) -> int:
    """All frames; answers how many are out of order."""
    if len(copiers) == 1 and not sort:
        for view, *_ in copiers[0].batches():
            output.file.write(view)
        return 0
    streams = [_ordered(copier.frames()) if sort else copier.frames() for copier in copiers]
    last, disordered = NONE, 0
    for time_ns, data in heapq.merge(*streams, key=lambda frame: frame[0]):
        disordered += time_ns < last
        last = max(last, time_ns)
        output.file.write(data)
    return disordered


def copy(
    capture: Capture,
    path: str | os.PathLike[str],
    *,
    request: Request,
    secrets: Secrets = Secrets(),
    sort: bool = False,
) -> Copied:
    """Write the frames that are wanted into a pcap or pcapng file, by its ending; several captures are merged by time."""
    name = os.fspath(path)
    kind = FORMATS.get(Path(name).suffix.lower())
    if kind is None:
        raise CaptureError(f"{name}: a capture's name ends in .pcapng or .pcap")
    kept = [Path(source) for source in capture.files]
    if Path(name).exists() and any(file.exists() and file.samefile(name) for file in kept):
        raise CaptureError(f"{name} is one of the files that are read; name another")
    done = Copied()
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("wb"))
        except OSError as error:
            raise CaptureError(f"{name} cannot be written: {error.strerror}") from error
        output = _Output(file, kind)
        if secrets.hide:
            output.link(LINK_RAW)
        copiers = [
            Copier(capture, members, request, output, secrets) for members in _groups(capture)
        ]
        try:
            done.disordered = _write(output, copiers, sort=sort)
        except OSError as error:
            raise CaptureError(f"{name} cannot be written on: {error.strerror}") from error
        if not output.links:
            output.link(LINK_ETHERNET)  # nothing was wanted: an empty capture
        output.statistics([copier.scan.facts() for copier in copiers])
        for copier in copiers:
            done.frames += copier.raw.frames
            done.left_out += copier.raw.left_out
            capture.note(copier.scan.problems)
    return done
