"""What the tests of raw replay share: sockets that get it, and recordings made for them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyddsi import wire
from pyddsi.capture import Datagram, Endpoint, read_datagrams
from pyddsi.capture.replay import Pace, RawReplay, Recording, Route
from pyddsi.capture.write import write_datagrams
from pyddsi.errors import ReplayError

SECOND = 1_000_000_000
TIMEOUT = 20.0
MAX = Pace(flat_out=True)
ONE, TWO = Endpoint("10.0.0.1", 40000), Endpoint("10.0.0.2", 40001)
GROUP = Endpoint("239.255.0.1", 7447)
SO_TIMESTAMPNS = 35
Row = tuple[int, Endpoint, Endpoint, bytes]


class Receiver:
    """A socket, and what came to it: bytes, from where, and when, as the system says."""

    def __init__(self, family: int = socket.AF_INET, host: str = "127.0.0.1") -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.settimeout(TIMEOUT)
        self.socket.bind((host, 0))
        self.address: tuple[str, int] = self.socket.getsockname()[:2]

    def take(self, count: int) -> list[tuple[bytes, tuple[str, int], int]]:
        """So many datagrams, and none more."""
        found = []
        for _ in range(count):
            data, words, _, source = self.socket.recvmsg(65536, 256)
            seconds, rest = struct.unpack("qq", words[0][2])
            found.append((data, source[:2], seconds * SECOND + rest))
        self.socket.setblocking(False)  # noqa: FBT003
        with pytest.raises(BlockingIOError):
            self.socket.recv(1)
        self.socket.settimeout(TIMEOUT)
        return found


@contextmanager
def receiver(*arguments: Any) -> Iterator[Receiver]:
    """A socket for the time of a block."""
    one = Receiver(*arguments)
    with one.socket:
        yield one


def datagrams(path: Path) -> list[Datagram]:
    """What a capture holds."""
    with read_datagrams(path) as capture:
        return [item for item in capture if isinstance(item, Datagram)]


def made(path: Path, rows: Sequence[Row]) -> Recording:
    """A recording of these."""
    write_datagrams(path, rows)
    return Recording(path)


def sample(number: int, *, rid: int = 1) -> bytes:
    """A packet with a sample."""
    return wire.encode([wire.SData(number % 16384, rid, b"%d" % number, reliable=False)])


def rows(
    count: int, *, apart_ns: int = 1000, source: Endpoint = ONE, target: Endpoint = GROUP
) -> list[Row]:
    """Packets so far apart."""
    return [(SECOND + i * apart_ns, source, target, sample(i)) for i in range(count)]


def refused(recording: Recording, route: Route, pace: Pace = MAX) -> str:
    """What is said instead of sending."""
    with pytest.raises(ReplayError) as caught:
        RawReplay(recording, pace, route).run()
    return str(caught.value)
