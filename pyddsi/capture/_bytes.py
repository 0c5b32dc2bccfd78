"""
The bytes of a capture file, block by block, unpacked if it is packed: what it is shows in its first bytes and not in its name.

    plain     read where one likes: `blocks(offset)` begins anywhere
    gzip      from the beginning alone, with Python's own zlib
    zstd, lz4 the same, with pyarrow's codecs (`pip install 'pyddsi[capture]'`)

A block is read into one piece of memory that is used again, so a file of any size takes a few megabytes. What the reader has
not used stays, and the next block comes behind it.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pyddsi._native import ffi
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BLOCK_BYTES", "Bytes", "Window", "open_bytes"]

BLOCK_BYTES = 256 * 1024
"""Read at a time: it stays in the processor's cache until it has been looked at."""
WINDOW_BYTES = 2 * 1024 * 1024
"""What can be in sight: more than the longest record."""

_PCAP = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
_NG, _NG_ORDERS = b"\x0a\x0d\x0d\x0a", (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d")
_GZIP = b"\x1f\x8b"
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_RIGHT = "a pcap or pcapng file is needed, plain or packed by gzip, zstd or lz4"
_STRANGERS = (  # what gets handed over by mistake, by its first bytes
    ((b"\xa1\xb2\xcd\x34", b"\x34\xcd\xb2\xa1"), "a pcap of the modified (Kuznetzov) kind"),
    ((b"\xa1\xb2\x34\xcd", b"\xcd\x34\xb2\xa1"), "a pcap of a modified (Mesquita) kind"),
    ((b"\xa1\x2b\x3c\x4d", b"\x4d\x3c\x2b\xa1"), "a pcap of a modified (Navtel) kind"),
    ((b"snoop\0\0\0",), "a snoop capture"),
    ((b"\xfd7zXZ",), "compressed with xz"),
    ((b"BZh",), "compressed with bzip2"),
    ((b"PK\x03\x04",), "a zip archive"),
)


class BrokenBytesError(Exception):
    """The file, or the disk, or what it is packed with, cannot be read on."""


def _is_capture(head: bytes) -> bool:
    """Whether a file may begin so."""
    if head[:4] == _NG:
        return len(head) < 12 or head[8:12] in _NG_ORDERS
    return head[:4] in _PCAP


def stranger(name: str, head: bytes) -> CaptureError:
    """The first bytes are not those of a capture."""
    if not head:
        return CaptureError(f"{name} is empty; {_RIGHT}")
    for magics, kind in _STRANGERS:
        if head.startswith(magics):
            return CaptureError(f"{name} is {kind}, which is not read here; {_RIGHT}")
    return CaptureError(f"{name} is not a capture, it begins with {head[:8].hex(' ')}; {_RIGHT}")


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were looked at and are put back."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first = first
        # read1 takes what a pipe has to give instead of waiting for a full block; a raw file's read does the same
        self._read: Callable[[int], bytes | None] = getattr(stream, "read1", stream.read)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        taken: bytes | None
        taken, self._first = self._first[: len(into)], self._first[len(into) :]
        taken = taken or self._read(len(into))
        if taken is None:
            return None
        into[: len(taken)] = taken
        return len(taken)


def _unpacked(name: str, stream: BinaryIO, kind: str) -> BinaryIO:
    try:
        import pyarrow as pa  # noqa: PLC0415 - for these files alone
    except ModuleNotFoundError:
        raise CaptureError(
            f"{name} is compressed with {kind}, and pyarrow is not there to unpack it; "
            f"`pip install 'pyddsi[capture]'` brings it, or unpack it first: {kind} -d {name}"
        ) from None
    return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(stream, "r"), kind))


class Bytes:
    """
    An open file or stream.

    name: what it is called in messages
    packed: "", "gzip", "zstd" or "lz4"
    size: bytes of the file as it lies there; None for a stream
    """

    def __init__(self, name: str, stream: BinaryIO, *, owned: bool, size: int | None) -> None:
        self.name = name
        self.size = size
        self.packed = ""
        self._owned = owned
        self._raw = stream
        head = self._first(getattr(stream, "read1", stream.read), 4)
        whole: BinaryIO = cast("BinaryIO", _Rejoined(head, stream))
        if head.startswith(_GZIP):
            self.packed = "gzip"
            self._stream: Any = gzip.GzipFile(fileobj=whole)
        elif head[:4] in _PACKED:
            self.packed = _PACKED[head[:4]]
            self._stream = _unpacked(name, whole, self.packed)
        else:
            self._stream = whole
        first = self._first(self._stream.read, 12)
        if not _is_capture(first):
            raise stranger(name, first)
        if size is not None and not self.packed:
            stream.seek(0)
            self._stream = stream
        else:
            self._stream = _Rejoined(first, self._stream)

    @property
    def seekable(self) -> bool:
        """Whether reading may begin anywhere."""
        return self.size is not None and not self.packed

    def seek(self, offset: int) -> None:
        """Go on reading there; what is packed has to be unpacked up to there, from its beginning."""
        if self.seekable:
            self._stream.seek(offset)
            return
        while offset > 0:
            passed = self._get(self._stream.read, min(offset, BLOCK_BYTES))
            if not passed:
                raise BrokenBytesError(f"it ends {offset} bytes before that")
            offset -= len(passed)

    def read_into(self, view: memoryview) -> int | None:
        """Read what there is, at most as much as fits; 0 at the end, None: nothing now, ask again (of what is live)."""
        count = self._get(self._stream.readinto, view)
        return None if count is None else int(count)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned:
            self._raw.close()

    def _first(self, read: Callable[[int], bytes], size: int) -> bytes:
        """The first bytes, fewer if there are no more; a pipe may give them one by one."""
        head = b""
        while len(head) < size:
            more = self._get(read, size - len(head))
            if more is None:
                continue
            if not more:
                break
            head += more
        return head

    def _get(self, read: Callable[[Any], Any], what: Any) -> Any:
        try:
            return read(what)
        except (OSError, EOFError, zlib.error) as error:
            raise BrokenBytesError(str(error)) from error


def open_bytes(source: str | os.PathLike[str] | BinaryIO) -> Bytes:
    """Open a file; '-' is standard input, a binary stream is read where it stands."""
    if source == "-":
        return Bytes("standard input", sys.stdin.buffer, owned=False, size=None)
    if not isinstance(source, (str, os.PathLike)):
        return Bytes(str(getattr(source, "name", "the stream")), source, owned=False, size=None)
    name = os.fspath(source)
    try:
        stream = Path(name).open("rb", buffering=0)  # noqa: SIM115 - close() closes it
    except FileNotFoundError:
        raise CaptureError(
            f"{name}: there is no such file; name a pcap or pcapng file, or '-'"
        ) from None
    except IsADirectoryError:
        raise CaptureError(
            f"{name} is a directory; name one pcap or pcapng file inside it"
        ) from None
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"{name} cannot be opened ({error}); name a readable pcap or pcapng file"
        ) from error
    try:
        seekable = stream.seekable()
        size = os.fstat(stream.fileno()).st_size if seekable else None
        return Bytes(name, cast("BinaryIO", stream), owned=True, size=size)
    except BrokenBytesError as error:
        stream.close()
        raise CaptureError(f"{name} cannot be read on: {error}; copy the file again") from error
    except BaseException:
        stream.close()
        raise


class Window:
    """
    The bytes in sight, in memory that the core reads.

        at                 have
        │ not used yet     │ room

    most: how many bytes are read at all; None: all there are
    """

    def __init__(self, source: Bytes, most: int | None = None) -> None:
        self.source = source
        self.most = most
        self.at = 0
        self.have = 0
        self.over = False
        self._memory = bytearray(WINDOW_BYTES)
        self._view = memoryview(self._memory)
        self._base = ffi.cast("uint8_t *", ffi.from_buffer(self._memory))

    @property
    def left(self) -> int:
        """Bytes that have not been used."""
        return self.have - self.at

    @property
    def pointer(self) -> Any:
        """Where the first of them is."""
        return self._base + self.at

    def take(self, size: int) -> bytes:
        """A copy of the first bytes that have not been used."""
        return bytes(self._view[self.at : self.at + size])

    def fill(self) -> bool:
        """Read on; whether there was anything. What was not used moves to the front. Waits for what is live."""
        more = self.fill_now()
        while more is None:
            more = self.fill_now()
        return more

    def fill_now(self) -> bool | None:
        """The same; None: there is nothing at the moment."""
        if self.at:
            self._view[: self.left] = self._view[self.at : self.have]
            self.have -= self.at
            self.at = 0
        room = min(BLOCK_BYTES, WINDOW_BYTES - self.have)
        if self.most is not None:
            room = min(room, self.most)
        count = self.source.read_into(self._view[self.have : self.have + room]) if room else 0
        if count is None:
            return None
        self.have += count
        if self.most is not None:
            self.most -= count
        self.over = count == 0
        return count != 0
