"""Captures with packets of the protocol, made by hand for the tests: who speaks, what they say, and the file around it."""

from __future__ import annotations

from pathlib import Path

from pyddsi import wire
from tests.py.make_capture import SYN, TCP, Address, Ways, ethernet, ipv4, pcap, tcp, udp

A, B = ("10.0.0.1", 40001), ("10.0.0.2", 40002)
C, D = ("10.0.0.3", 40003), ("10.0.0.4", 40004)
GROUP, PORT = ("239.255.0.1", 7447), 7447
OTHER_GROUP = ("239.255.9.9", 17456)
LOCATOR = "udp/239.255.9.9:17456"


def sample(sn: int, data: bytes = b"x", *, reliable: bool = True) -> bytes:
    """A packet with one sample."""
    return wire.encode([wire.SData(sn, 1, data, reliable=reliable)])


def opening(
    bits: int | None = None, *, peer_id: bytes = b"\xaa", locators: tuple[str, ...] = (LOCATOR,)
) -> bytes:
    """A packet with an OPEN."""
    properties = [] if bits is None else [wire.Property(4, bytes([bits]))]
    return wire.encode([wire.Open(1, peer_id, 50, locators, properties=properties)])


def datagram(source: Address, to: Address, data: bytes) -> bytes:
    """A frame with a datagram in it."""
    return ethernet(ipv4(udp(data, (source, to)), ways=(source, to)))


def written(path: Path, frames: list[bytes], *, snap: int | None = None) -> Path:
    """A capture of these frames."""
    path.write_bytes(pcap(frames, snap=snap))
    return path


WAYS: Ways = (("10.0.0.1", 40000), ("10.0.0.2", PORT))


def connection(pieces: list[bytes], ways: Ways = WAYS) -> list[bytes]:
    """The frames of a connection in which these pieces are sent one way."""
    frames = [ethernet(ipv4(tcp(b"", 999, SYN, ways), TCP, ways))]
    at = 1000
    for piece in pieces:
        frames.append(ethernet(ipv4(tcp(piece, at, ways=ways), TCP, ways)))
        at += len(piece)
    return frames


def framed(*packets: bytes) -> bytes:
    """Packets, each behind its length."""
    return b"".join(wire.frame(packet) for packet in packets)


def cut(data: bytes, size: int) -> list[bytes]:
    """The same in pieces."""
    return [data[at : at + size] for at in range(0, len(data), size)]


LONG = sample(3, bytes(300))
FRAMED = framed(sample(0), sample(1) + sample(2), LONG, b"\x93" + sample(4))
