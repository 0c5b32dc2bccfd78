"""
The files of a recording: one, or several of a limited size or time, that continue each other.

    run.pcapng                                      without limits
    run_00001.pcapng  run_00002.pcapng  ...         with them; pyddsi.capture.open takes them for one recording

Each begins with its header and its interfaces, and ends with a statistics block, which tells what could not be recorded. Blocks
are written whole: where the disk is full, the file is cut back to the last that is whole.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, BinaryIO

import pyddsi
from pyddsi._native import ffi, lib
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["SIZE_MIN", "Files", "is_unended"]

PCAPNG = 2
HEAD_BYTES = 512
SIZE_MIN = 128 * 1024
"""The least limit of a file: the longest frame and all around it fit."""
NUMBERS = "[0-9]" * 5
SECOND = 1_000_000_000
STDOUT = "-"
WRITER = "pyddsi record"
"""What its files call who wrote them; such a file ends with statistics, or was not ended."""
STATISTICS = (5).to_bytes(4, "little")
log = logging.getLogger("pyddsi")


def is_unended(path: str) -> bool:
    """Whether a recorder of ours wrote this file, and did not come to its end: it still writes, was killed, or had no more room."""
    try:
        with Path(path).open("rb") as file:
            if not stat.S_ISREG(
                os.fstat(file.fileno()).st_mode
            ) or WRITER.encode() not in file.read(HEAD_BYTES):
                return False
            file.seek(-4, os.SEEK_END)
            size = int.from_bytes(file.read(4), "little")
            if size > HEAD_BYTES:
                return True
            file.seek(-size, os.SEEK_END)
            return file.read(4) != STATISTICS
    except OSError:  # shorter than that
        return True


def _nothing(_at_ns: int) -> bytes:
    return b""


class Files:
    """Takes blocks of a pcapng file with their times, and writes them where they belong."""

    format = PCAPNG

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_size: int | None = None,
        max_time: float | None = None,
        keep: int | None = None,
        count: int | None = None,
        overwrite: bool = False,
    ) -> None:
        self._path = Path(path)
        self._max_size = max_size
        self._max_ns = None if max_time is None else round(max_time * SECOND)
        self._keep = keep
        self._left = count
        self._overwrite = overwrite
        self._check(max_size, max_time, keep, count)
        self.links: list[int] = []
        self.signature: Callable[[int], bytes] = _nothing
        """What is said first in each file, given the time at which that is."""
        self.names: list[str] = []
        """Of the files so far, without those that were removed to keep to `keep`."""
        self.frames = self.bytes = self.lost = 0
        self._file: BinaryIO | None = None
        self._number = 0
        self._begun_ns = 0
        self._size = self._frames = self._lost_before = 0
        self._next(0)

    def _check(
        self, max_size: int | None, max_time: float | None, keep: int | None, count: int | None
    ) -> None:
        name = str(self._path)
        if name != STDOUT and self._path.suffix.lower() != ".pcapng":
            raise CaptureError(f"{name}: the name of a recording ends in .pcapng")
        if max_size is not None and max_size < SIZE_MIN:
            raise ValueError(f"max_size is at least {SIZE_MIN} bytes, not {max_size!r}")
        if max_time is not None and not 0 < max_time <= 1e9:
            raise ValueError(f"max_time is above 0 seconds, not {max_time!r}")
        if count is not None and count < 1:
            raise ValueError(f"count is at least 1, not {count!r}")
        if keep is not None and (keep < 1 or not self._rotates):
            raise ValueError("keep is at least 1 file, and goes with max_size or max_time")
        if name == STDOUT and self._rotates:
            raise ValueError("standard output is one file: max_size and max_time need a name")
        old = sorted(self._path.parent.glob(f"{self._path.stem}_{NUMBERS}{self._path.suffix}"))
        if self._rotates and old:
            if not self._overwrite:
                raise self._exists(old[0])
            for one in old:  # or they would be taken for parts of this recording
                one.unlink()

    @property
    def _rotates(self) -> bool:
        return self._max_size is not None or self._max_ns is not None

    @staticmethod
    def _exists(path: Path) -> CaptureError:
        return CaptureError(
            f"{path} exists; name another file, remove it, or allow it with overwrite=True (--overwrite)"
        )

    @property
    def full(self) -> bool:
        """It has as many packets as were asked for."""
        return self._left == 0

    # ---- blocks ----

    def link(self, link: int) -> None:
        """Another interface, of this link type."""
        self.links.append(link)
        self._put(self._interface(link))

    def begin(self, at_ns: int, first: bytes) -> None:
        """The signature of the first file, and blocks that are not counted as packets, as nobody said them just then."""
        self._put(self.signature(at_ns) + first)

    def write(
        self, view: memoryview, times: Sequence[int], ends: Sequence[int], count: int
    ) -> None:
        """So many frames, one behind the other; what is more than was asked for is left out."""
        at = first = 0
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
        while first < count:
            last = self._fitting(times, ends, first, count, at)
            if last == first:
                self._next(times[first])
                last = max(self._fitting(times, ends, first, count, at), first + 1)
            if not self._frames:
                self._begun_ns = times[first]
            self._put(view[at : ends[last - 1]], ends[first:last], at)
            at, first = ends[last - 1], last

    def _fitting(
        self, times: Sequence[int], ends: Sequence[int], first: int, count: int, at: int
    ) -> int:
        """The first frame that does not belong into this file any more."""
        if not self._frames or not self._rotates:
            begun = times[first] if first < count else 0
        else:
            begun = self._begun_ns
        until = None if self._max_ns is None else begun + self._max_ns
        room = None if self._max_size is None else self._max_size - self._size - HEAD_BYTES + at
        last = count
        if until is not None and times[count - 1] >= until:
            last = next((i for i in range(first, count) if times[i] >= until), count)
        if room is not None and ends[last - 1] > room:
            last = next((i for i in range(first, last) if ends[i] > room), last)
        return last

    # ---- files ----

    @staticmethod
    def _interface(link: int) -> bytes:
        out, at = ffi.new("uint8_t[]", HEAD_BYTES), ffi.new("size_t *")
        lib.pyddsi_write_interface(link, out, HEAD_BYTES, at)
        return bytes(ffi.buffer(out, at[0]))

    def _head(self) -> bytes:
        out, at = ffi.new("uint8_t[]", HEAD_BYTES), ffi.new("size_t *")
        name = f"{WRITER} {pyddsi.__version__}".encode()
        lib.pyddsi_write_header(PCAPNG, 0, name, out, HEAD_BYTES, at)
        return bytes(ffi.buffer(out, at[0])) + b"".join(map(self._interface, self.links))

    def _next(self, at_ns: int) -> None:
        """Begin another file at this time, and close the one at hand, which has its end only if there is one to go on in."""
        self._number += 1
        path = self._path
        if self._rotates:
            path = path.with_name(f"{path.stem}_{self._number:05}{path.suffix}")
        head = self._head() + self.signature(at_ns)
        file = self._open(path, head)
        self.end()
        self._file = file
        self.names.append(str(path))
        self._size = self._frames = 0
        self._lost_before = self.lost
        self._count(len(head), 0)
        while self._keep is not None and len(self.names) > self._keep:
            self._remove(Path(self.names.pop(0)))

    def _open(self, path: Path, head: bytes) -> BinaryIO:
        """
        A file that begins so. One that goes on where another ends has its name when it has its head: where the recorder is killed
        in between, no file is left that cannot be read.
        """
        if str(path) == STDOUT:
            sys.stdout.buffer.write(head)
            sys.stdout.buffer.flush()
            return sys.stdout.buffer
        first = self._number == 1
        part = path if first else path.with_name(f".{path.name}.part")
        if not first and not self._overwrite and path.exists():
            raise self._exists(path)
        try:
            file = part.open("xb" if first and not self._overwrite else "wb", buffering=0)
            try:
                left = memoryview(head)
                while left:
                    left = left[file.write(left) :]
                if not first:
                    part.replace(path)
            except BaseException:
                file.close()
                part.unlink(missing_ok=True)
                raise
        except FileExistsError:
            raise self._exists(path) from None
        except OSError as error:
            raise CaptureError(f"{path} cannot be written: {error.strerror}") from error
        return file

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:  # the recording matters more
            log.error("%s stays: it cannot be removed: %s", path, error.strerror)  # noqa: TRY400 - the words say all

    def _put(self, data: bytes | memoryview, ends: Sequence[int] = (), at: int = 0) -> None:
        """
        All of it, or, if the disk has no room for it, so many of its frames as there is room for; they end at these bytes, counted
        from |at| before it.
        """
        file = self._file
        assert file is not None  # noqa: S101 - nothing is written behind the end
        left = memoryview(data)
        try:
            while left:
                left = left[file.write(left) :]
            if self._path.name == STDOUT:
                file.flush()
        except OSError as error:
            written = len(data) - len(left)
            self._cut([end - at for end in ends if end - at <= written])
            raise CaptureError(
                f"{self.names[-1]} cannot be written on: {error.strerror}; its {self._frames:,} packets are whole"
            ) from error
        self._count(len(data), len(ends))

    def _count(self, size: int, frames: int) -> None:
        self._size += size
        self.bytes += size
        self._frames += frames
        self.frames += frames

    def _cut(self, frames: Sequence[int]) -> None:
        """These are whole; a part of the next would spoil the file."""
        self._count(frames[-1] if frames else 0, len(frames))
        file, self._file = self._file, None
        if file is not None and self._path.name != STDOUT:
            with suppress(OSError):  # then it is cut off, which readers can tell
                file.truncate(self._size)
            file.close()

    def end(self) -> None:
        """What the recording says at the end of a file, and the end."""
        if self._file is None:
            return
        if self.links:
            out, at = ffi.new("uint8_t[]", HEAD_BYTES), ffi.new("size_t *")
            lost = self.lost - self._lost_before
            lib.pyddsi_write_statistics(time_ns(), self._frames + lost, lost, out, HEAD_BYTES, at)
            self._put(bytes(ffi.buffer(out, at[0])))
        if self._path.name != STDOUT:
            self._file.close()
        self._file = None

    def leave(self) -> None:
        """Close the file as it is: it is the parent's of a process that was forked, or cannot be ended."""
        file: Any = self._file
        self._file = None
        if file is not None and self._path.name != STDOUT:
            file.close()
