"""
Real loss on any Linux, without privileges: the kernel drops a share of the packets that a process's sockets receive.

A socket filter may ask the kernel for a random number. Three instructions before those that the socket has already:

    random number ── below the limit? ── yes ──► drop
                                       └─ no ───► what the filter was before

A network namespace with `tc netem` would do the same and more, but takes privileges, and a module that many kernels do
not have. Packets through shared memory are not packets, and none of them is lost.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import struct
from pathlib import Path

SO_ATTACH_FILTER = 26
SO_GET_FILTER = 26
RANDOM = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM
LOAD, BELOW, ANSWER = 0x20, 0x35, 0x06  # ld [k]; jge #k; ret #k
ALL = 0xFFFFFFFF
FILTER_MAX = 64
INSTRUCTION = struct.Struct("=HBBI")

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _sockets() -> list[int]:
    """Descriptors of this process's UDP sockets."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        fd = int(entry.name)
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            with socket.socket(fileno=os.dup(fd)) as one:
                if one.type == socket.SOCK_DGRAM and one.family != socket.AF_UNIX:
                    found.append(fd)
        except OSError:
            continue  # it was the listing's own
    return found


def _filter_of(fd: int) -> bytes:
    """The instructions that a socket has."""
    size = ctypes.c_uint(FILTER_MAX)
    code = ctypes.create_string_buffer(FILTER_MAX * INSTRUCTION.size)
    if _libc.getsockopt(fd, socket.SOL_SOCKET, SO_GET_FILTER, code, ctypes.byref(size)) != 0:
        return b""
    return code.raw[: size.value * INSTRUCTION.size]


def _attach(fd: int, code: bytes) -> bool:
    """False: it is no socket any more."""
    program = _Program(len(code) // INSTRUCTION.size, code)
    size = ctypes.sizeof(program)
    if _libc.setsockopt(fd, socket.SOL_SOCKET, SO_ATTACH_FILTER, ctypes.byref(program), size) == 0:
        return True
    if ctypes.get_errno() in {errno.EBADF, errno.ENOTSOCK}:
        return False
    raise OSError(ctypes.get_errno(), "a socket takes no filter")


class Loss:
    """Loses a share of what this process receives, until it is healed."""

    def __init__(self, share: float) -> None:
        self._before: list[tuple[int, bytes]] = []
        limit = int(share * 2**32)
        if limit == 0:
            return
        drop = (
            INSTRUCTION.pack(LOAD, 0, 0, RANDOM)
            + INSTRUCTION.pack(BELOW, 1, 0, limit)
            + INSTRUCTION.pack(ANSWER, 0, 0, 0)
        )
        for fd in _sockets():
            had = _filter_of(fd)
            before = had or INSTRUCTION.pack(ANSWER, 0, 0, ALL)
            if _attach(fd, drop + before):
                self._before.append((fd, before))

    def heal(self) -> None:
        """Nothing is lost any more."""
        for fd, before in self._before:
            _attach(fd, before)
        self._before.clear()
