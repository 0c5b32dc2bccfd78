"""
What goes by on an interface, as a stream that `pyddsi.capture.open` reads like a file:

    with Live("eth0") as live:
        for packet in capture.open(live).packets(): ...

The kernel hands packets over in blocks, some milliseconds after they went by, and says how many it had no room for.
"""

from __future__ import annotations

import errno
import io
import threading
from typing import Any

from pyddsi._native import ffi, lib
from pyddsi.errors import CaptureError

__all__ = ["Live"]

ROOM = 256 * 1024
HEAD_BYTES = 256
WAIT_MS = 100
REST = 256
"""So often at most is taken what waits in the kernel when it ends: 64 MiB, which is more than that keeps."""
LINK_RAW = 101
PCAP = 1


class Live(io.RawIOBase):
    """
    Packets of IP that go by on an interface ("any": on all of them), as the bytes of a pcap file that ends with `stop`.

    Raises PermissionError without root or the capability CAP_NET_RAW, CaptureError if there is no such interface.
    """

    def __init__(self, interface: str) -> None:
        super().__init__()
        self.name = interface
        made, why = ffi.new("pyddsi_sniff **"), ffi.new("char[]", lib.PYDDSI_TEXT_MAX)
        self._raw: Any = None
        self._lock = threading.Lock()
        self._last = (0, 0)
        status = lib.pyddsi_sniff_open(made, interface.encode(), why)
        if status in {-errno.EPERM, -errno.EACCES}:
            raise PermissionError(-status, ffi.string(why).decode("utf-8", "replace"))
        if status != lib.PYDDSI_OK:
            raise CaptureError(ffi.string(why).decode("utf-8", "replace"))
        self._raw = made[0]
        self._stopped = False
        self._rest = REST
        self._memory = bytearray(ROOM)
        self._out = ffi.from_buffer("uint8_t[]", self._memory, require_writable=True)
        self._size = ffi.new("size_t *")
        lib.pyddsi_write_header(PCAP, LINK_RAW, b"", self._out, HEAD_BYTES, self._size)
        self._at, self._have = 0, int(self._size[0])

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, into: Any) -> int | None:
        """Wait for packets, and give as much of them as fits; None: for now there are none; 0: it was stopped."""
        if self._at == self._have:
            stopped = self._stopped  # by another thread; what went by before that is still to come
            if stopped and not self._rest:
                return 0
            self._rest -= stopped
            wait_ms = 0 if stopped else WAIT_MS
            status = lib.pyddsi_sniff_take(self._raw, self._out, ROOM, self._size, wait_ms)
            if status < 0:
                raise CaptureError(f"{self.name}: the interface is gone")
            self._at, self._have = 0, int(self._size[0])
            if not self._have:
                return 0 if stopped else None
        view = memoryview(into).cast("B")
        some = min(len(view), self._have - self._at)
        view[:some] = memoryview(self._memory)[self._at : self._at + some]
        self._at += some
        return some

    def stop(self) -> None:
        """The stream ends, with what has gone by until now."""
        self._stopped = True

    def close(self) -> None:
        """Look no more."""
        _ = self.counts  # the last
        with self._lock:
            if self._raw is not None:
                lib.pyddsi_sniff_close(self._raw)
                self._raw = None
                self._stopped = True
        super().close()

    @property
    def counts(self) -> tuple[int, int]:
        """Packets that went by, and that the kernel had no room for."""
        seen, lost = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        with self._lock:
            if self._raw is not None:
                lib.pyddsi_sniff_counts(self._raw, seen, lost)
                self._last = int(seen[0]), int(lost[0])
            return self._last
