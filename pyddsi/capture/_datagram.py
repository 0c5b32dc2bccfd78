"""What a capture carries, whosever it is: UDP datagrams, and the bytes of TCP connections in order."""

from __future__ import annotations

import ipaddress
import os
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, Self

from pyddsi._native import ffi
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._scan import NONE, Scan, Settings

__all__ = ["Datagram", "Datagrams", "Endpoint", "Segment", "endpoint_of", "read_datagrams"]


class Endpoint(NamedTuple):
    """An address and a port; as a string `10.0.0.1:7447` or `[fe80::1]:7447`."""

    address: str
    port: int

    def __str__(self) -> str:
        return (
            f"[{self.address}]:{self.port}"
            if ":" in self.address
            else f"{self.address}:{self.port}"
        )

    @property
    def multicast(self) -> bool:
        """Whether the address is a group's."""
        return ipaddress.ip_address(self.address).is_multicast


class Datagram(NamedTuple):
    """One UDP datagram. `number` is the frame's as Wireshark counts, of a fragmented one the frame that completed it."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes
    cut: bool = False
    """The snap length cut it: `data` is its beginning."""


class Segment(NamedTuple):
    """The next bytes of one direction of one TCP connection. Beginning and end come on their own, without bytes."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes
    start: bool = False
    """The connection begins here; if one with these endpoints was open, it ended without a word."""
    end: bool = False
    """Nothing more comes in this direction."""
    lost: bool = False
    """Bytes before these are missing from the capture."""


@lru_cache(maxsize=65536)
def _endpoint(packed: bytes, kind: int, port: int) -> Endpoint:
    return Endpoint(str(ipaddress.ip_address(packed[:4] if kind in {4, 14} else packed)), port)


def endpoint_of(raw: Any) -> Endpoint:
    """An endpoint as the core has it."""
    return _endpoint(bytes(ffi.buffer(raw.ip)), raw.kind, raw.port)


class Datagrams:
    """An open capture, datagram by datagram: iterate once, from the first to the last. Made by `read_datagrams`."""

    def __init__(self, source: str | os.PathLike[str] | BinaryIO) -> None:
        self._source = open_bytes(source)
        self.name = self._source.name
        self._scan = Scan(Settings())
        self._items = self._walk()

    @property
    def records(self) -> int:
        """How many frames have been read so far; the number of the latest one, as Wireshark counts."""
        return int(self._scan.facts().frames)

    @property
    def skipped(self) -> Counter[str]:
        """Frames that held no UDP or TCP that could be reached, by reason."""
        return self._scan.strangers()

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file, as far as it has been read: that it is cut off, for one."""
        return [problem.text for problem in self._scan.problems]

    def __iter__(self) -> Iterator[Datagram | Segment]:
        return self._items

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self._source.close()

    def _walk(self) -> Iterator[Datagram | Segment]:
        for item in self._scan.items(self._source, "item"):
            time_ns = None if item.time_ns == NONE else item.time_ns
            ends = endpoint_of(item.source), endpoint_of(item.target)
            data = bytes(ffi.buffer(item.data, item.size)) if item.size else b""
            if item.source.kind in {4, 6}:
                yield Datagram(item.number, time_ns, *ends, data, bool(item.cut))
            else:
                flags = bool(item.start), bool(item.end), bool(item.lost)
                yield Segment(item.number, time_ns, *ends, data, *flags)


def read_datagrams(source: str | os.PathLike[str] | BinaryIO) -> Datagrams:
    """
    Open a pcap or pcapng file, packed or not; '-' is standard input, a binary stream is read where it stands.

    Raises `CaptureError` if there is no such file or if it is not a capture. One that is damaged raises from the iteration,
    after everything whole has been delivered; one that is cut off has `problems`.
    """
    return Datagrams(source)
