"""The bytes of a capture, seen through a window that slides over the file, and the words for what is wrong with it.

The file is read in big blocks. `block` is what is in sight; whoever parses it keeps the position and, when too little
follows it, calls `fill`, which drops what lies before and reads on:

    file    ───────────────────────────────────────────────────────►
            read and dropped │ done      at        │ not read yet
                             └──── block ──────────┘
                             offset

A packet is therefore a range of `block`, and no byte is copied before it is known to be payload. Nothing here seeks,
so a pipe is as good as a file; and no more is held than one block and the record at hand.
"""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, BinaryIO, cast

from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK_BYTES = 256 * 1024
"""How much is read at a time."""

_GZIP = b"\x1f\x8b"
_RIGHT = "a pcap or pcapng file is needed, plain or gzipped"
_STRANGERS = (  # what gets handed over by mistake, by its first bytes
    ((b"\xa1\xb2\xcd\x34", b"\x34\xcd\xb2\xa1"), "a pcap of the modified (Kuznetzov) kind"),
    ((b"\xa1\xb2\x34\xcd", b"\xcd\x34\xb2\xa1"), "a pcap of a modified (Mesquita) kind"),
    ((b"\xa1\x2b\x3c\x4d", b"\x4d\x3c\x2b\xa1"), "a pcap of a modified (Navtel) kind"),
    ((b"snoop\0\0\0",), "a snoop capture"),
    ((b"\x28\xb5\x2f\xfd",), "compressed with zstd"),
    ((b"\x04\x22\x4d\x18",), "compressed with lz4"),
    ((b"\xfd7zXZ",), "compressed with xz"),
    ((b"BZh",), "compressed with bzip2"),
    ((b"PK\x03\x04",), "a zip archive"),
)


class _Rejoined:
    """A stream whose first bytes were looked at and are put back; `read` is all that gzip asks of a file."""

    def __init__(self, first: bytes, read: Callable[[int], bytes]) -> None:
        self._first = first
        self._read = read

    def read(self, size: int) -> bytes:
        taken, self._first = self._first[:size], self._first[size:]
        return taken or self._read(size)


class Window:
    """`block` is in sight, its first byte is byte `offset` of the file; `count` packets were found so far."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.block = b""
        self.offset = 0
        self.count = 0
        self._name = name
        self._unpacked = ""
        # read1 takes what a pipe has to give instead of waiting for a full block; a raw file's read does the same
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        if self.fill(0, 4).startswith(_GZIP):
            packed = cast("BinaryIO", _Rejoined(self.block, self._read))
            self._read = gzip.GzipFile(fileobj=packed).read1
            self._unpacked = " (unpacked)"  # positions in messages are not those of the file itself
            self.block = b""
            self.fill(0, 4)

    def fill(self, at: int, size: int) -> bytes:
        """Drop what lies before `at`, read until `size` bytes are in sight, fewer if the file ends; the new block."""
        self.offset += at
        pieces = [self.block[at:]]
        missing = size - len(pieces[0])
        while missing > 0:
            try:
                piece = self._read(BLOCK_BYTES)
            except (OSError, EOFError, zlib.error) as error:
                raise CaptureError(
                    f"{self._name} cannot be read on: {error}; {self.count} packets were read, "
                    f"up to byte {self.offset + len(pieces[0])}{self._unpacked}; copy the file again"
                ) from error
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        self.block = b"".join(pieces)
        return self.block

    def skip(self, at: int, size: int) -> int:
        """Pass over `size` bytes without ever holding them all; the position in the block where reading goes on."""
        while size > len(self.block) - at:
            size -= len(self.block) - at
            if not self.fill(len(self.block), 1):
                raise self.cut()
            at = 0
        return at + size

    def cut(self) -> CaptureError:
        """The file ends inside a record."""
        return CaptureError(
            f"{self._name} is cut off: {self.count} packets were read, then it ends at byte "
            f"{self.offset + len(self.block)}{self._unpacked} in the middle of a record; "
            "copy it again, or let its writer finish"
        )

    def damaged(self, at: int, what: str) -> CaptureError:
        """What stands at `at` of the block cannot be true, and with it every position behind is unknown."""
        return CaptureError(
            f"{self._name} is damaged at byte {self.offset + at}{self._unpacked}, before packet "
            f"{self.count + 1} is whole: {what}; the {self.count} packets before it are good"
        )

    def stranger(self) -> CaptureError:
        """The first bytes are not those of a capture."""
        if not self.block:
            return CaptureError(f"{self._name} is empty; {_RIGHT}")
        for magics, kind in _STRANGERS:
            if self.block.startswith(magics):
                return CaptureError(f"{self._name} is {kind}, which is not read here; {_RIGHT}")
        return CaptureError(
            f"{self._name} is not a capture, it begins with {self.block[:8].hex(' ')}; {_RIGHT}"
        )
