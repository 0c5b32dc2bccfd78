"""
Captures for the tests of tables: made up from a seed, of packets that pyddsi.wire writes.

    write(path, traffic(seed, ...))      a pcap file, and what was put into it

What is made is remembered beside it (Sent), so that a test can say what must come out without reading the file.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyddsi import wire
from tests.py import make_capture as make

BEGIN = 1_700_000_000 * 10**9
GROUP = ("239.255.0.1", 7447)


@dataclass
class Frame:
    """A datagram, when and between whom."""

    time_ns: int
    source: tuple[str, int]
    target: tuple[str, int]
    data: bytes


@dataclass
class Traffic:
    """What was made."""

    frames: list[Frame] = field(default_factory=list)
    passed_over: int = 0
    filled: int = 0
    repeated: int = 0
    samples: int = 0


def peer(number: int) -> tuple[str, int]:
    """The endpoint of a peer."""
    return f"10.0.{number // 200}.{number % 200 + 1}", 20000 + number


def opening(
    number: int, bits: int, other: int
) -> list[tuple[tuple[str, int], tuple[str, int], bytes]]:
    """OPEN, ACCEPT and the SYNCH that begins conduit 0."""
    properties = [] if bits == 14 else [wire.Property(4, bytes([bits]))]
    opened = wire.Open(1, b"id%d" % number, 50, ["udp/239.255.0.1:7447"], properties=properties)
    accepted = wire.Accept(b"id%d" % number, b"id%d" % other, 50, properties=[])
    return [
        (peer(number), peer(other), wire.encode([opened])),
        (peer(other), peer(number), wire.encode([accepted])),
        (peer(number), GROUP, wire.encode([wire.Synch(0, reliable=True, sync=True)])),
    ]


def traffic(
    seed: int,
    *,
    peers: int = 3,
    packets: int = 200,
    bits: int = 14,
    loss: float = 0.02,
    repeat: float = 0.02,
    skew: float = 0.0,
    answers: float = 0.1,
) -> Traffic:
    """Some peers that publish to a group, with gaps, fills, repeats, and a receiver that acknowledges."""
    rand = random.Random(seed)
    made = Traffic()
    now = BEGIN
    receiver = peers
    next_sn = [0] * peers
    lost: list[list[int]] = [[] for _ in range(peers)]

    def send(source: tuple[str, int], target: tuple[str, int], data: bytes) -> None:
        nonlocal now
        made.frames.append(Frame(now, source, target, data))
        now += rand.randrange(1_000, 2_000_000)

    for number in range(peers):
        for source, target, data in opening(number, bits, receiver):
            send(source, target, data)
    mask = (1 << bits) - 1
    for _ in range(packets):
        who = 0 if rand.random() < skew else rand.randrange(peers)
        if next_sn[who] and rand.random() < loss:
            count = rand.randrange(1, min(5, (1 << bits - 2)))
            lost[who] += range(next_sn[who], next_sn[who] + count)
            next_sn[who] += count
            made.passed_over += count
        numbers = list(range(next_sn[who], next_sn[who] + rand.randrange(1, 6)))
        next_sn[who] = numbers[-1] + 1
        made.samples += len(numbers)
        data = b"".join(
            wire.encode(
                [
                    wire.SData(
                        n & mask,
                        1 + n % 7,
                        b"x" * rand.randrange(20),
                        reliable=True,
                        sync=n % 8 == 0,
                    )
                ]
            )
            for n in numbers
        )
        send(peer(who), GROUP, data)
        if rand.random() < repeat:
            send(peer(who), GROUP, data)
            made.repeated += len(numbers)
            made.samples += len(numbers)
        near = [n for n in lost[who] if next_sn[who] - n < 1 << bits - 2]
        if near and rand.random() < 0.3:
            n = rand.choice(near)
            lost[who].remove(n)
            send(
                peer(who),
                GROUP,
                wire.encode([wire.SData(n & mask, 1 + n % 7, b"late", reliable=True)]),
            )
            made.filled += 1
            made.samples += 1
        if rand.random() < answers:
            send(peer(receiver), peer(who), wire.encode([wire.AckNack(next_sn[who] & mask)]))
    return made


def records(frames: Iterable[Frame]) -> Iterator[bytes]:
    """The frames as records of a pcap file in nanoseconds."""
    for frame in frames:
        packet = make.ethernet(
            make.ipv4(
                make.udp(frame.data, (frame.source, frame.target)),
                ways=(frame.source, frame.target),
            )
        )
        seconds, rest = divmod(frame.time_ns, 10**9)
        yield struct.pack("<IIII", seconds, rest, len(packet), len(packet)) + packet


def write(path: Path, frames: Iterable[Frame]) -> Path:
    """A pcap file of them."""
    header = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
    path.write_bytes(header + b"".join(records(frames)))
    return path
