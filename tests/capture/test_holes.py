"""Connections of which a capture lacks a part: what is behind it is read again, and what is missing is told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pyddsi import capture, wire
from tests.py import make_capture as make
from tests.py.make_traffic import WAYS, framed, written

BEGIN = 1000


def frame(data: bytes, at: int, flags: int = make.ACK) -> bytes:
    """A frame with these bytes of the connection."""
    return make.ethernet(make.ipv4(make.tcp(data, at, flags, WAYS), make.TCP, WAYS))


def packet(number: int, size: int) -> bytes:
    """A packet with one sample of any bytes."""
    return wire.encode(
        [wire.SData(number, 1, random.Random(number).randbytes(size), reliable=True)]
    )


def numbers(path: Path) -> list[int]:
    """Of the samples that are read."""
    rows = capture.open(path).table("messages", ["sn"], where="kind == SDATA").to_pylist()
    return [row["sn"] for row in rows]


@pytest.mark.parametrize("lost", [{1}, {100}, {100, 101, 500}, {998}])
def test_a_segment_for_each_packet(lost: set[int], tmp_path: Path) -> None:
    """One segment that the capturing has lost would end the reading of its direction, and the numbers hide it."""
    frames, at = [frame(b"", BEGIN - 1, make.SYN)], BEGIN
    gone = 0
    for number in range(1000):
        data = framed(packet(number, 8))
        if number not in lost:
            frames.append(frame(data, at))
        gone += len(data) * (number in lost)
        at += len(data)
    path = written(tmp_path / "run.pcap", frames)
    assert numbers(path) == [number for number in range(1000) if number not in lost]
    info = capture.open(path).info()
    assert info.missing == len(lost)
    streams = [finding for finding in info.findings if finding.kind == "streams"]
    assert [finding.severity for finding in streams] == ["warning"]
    assert f"{gone} bytes are not in it, and 0 were passed over" in streams[0].text
    # frames are numbered from 1, the SYN is the first: the one behind the first hole
    assert streams[0].packets == (min(lost) + 2,)


@pytest.mark.parametrize("seed", range(30))
def test_segments_anywhere(seed: int, tmp_path: Path) -> None:
    """Where segments do not begin with packets, bytes within a sample would be read as packets, or none ever again."""
    rand = random.Random(seed)
    size = rand.choice([8, 60, 400])
    sent = [framed(packet(number, rand.randrange(size))) for number in range(1000)]
    ends, stream = [], b""
    for data in sent:
        stream += data
        ends.append(len(stream))
    frames, at = [frame(b"", BEGIN - 1, make.SYN)], 0
    holes = list[tuple[int, int]]()
    while at < len(stream):
        data = stream[at : at + rand.randrange(200, 1448)]
        if at and rand.random() < 0.05:
            holes.append((at, at + len(data)))
        else:
            frames.append(frame(data, BEGIN + at))
        at += len(data)
    path = written(tmp_path / "run.pcap", frames)
    read = numbers(path)
    assert read == sorted(set(read))
    touched = {
        number
        for number, end in enumerate(ends)
        for low, high in holes
        if end > low and end - len(sent[number]) < high
    }
    assert not touched & set(read)
    # behind a hole packets are found again within some segments
    beside = len(sent) - len(read) - len(touched)
    assert 0 <= beside <= 4 * 1448 * len(holes) // (size // 2) + 4 * len(holes)
    told = capture.open(path).info()
    assert told.missing <= len(sent) - len(read)


def test_samples_that_look_like_packets(tmp_path: Path) -> None:
    """Where what is within a sample is taken for packets, the mistake would last for ever."""
    inner = framed(wire.encode([wire.SData(9000, 1, b"x", reliable=True)])) * 20 + b"\xff" * 9
    sent = [framed(wire.encode([wire.SData(n, 1, inner, reliable=True)])) for n in range(100)]
    half = b"".join(sent[:50])
    pieces = [half[at : at + 700] for at in range(0, len(half), 700)] + sent[50:]
    frames, at = [frame(b"", BEGIN - 1, make.SYN)], BEGIN
    for number, data in enumerate(pieces):
        if number != 5:
            frames.append(frame(data, at))
        at += len(data)
    read = numbers(written(tmp_path / "run.pcap", frames))
    assert set(range(10)) | set(range(51, 100)) <= set(read)


def test_from_the_middle(tmp_path: Path) -> None:
    """A capture that begins within a connection would show nothing of it."""
    frames = []
    at = BEGIN
    for number in range(50):
        data = framed(packet(number, 100))
        frames.append(frame(data, at))
        at += len(data)
    path = written(tmp_path / "run.pcap", frames)
    assert numbers(path) == list(range(50))
    assert [finding.kind for finding in capture.open(path).info().findings] == ["streams"]


def test_a_packet_longer_than_segments(tmp_path: Path) -> None:
    """Packets of several segments each would never be read again, though each begins a segment."""
    frames, at = [frame(b"", BEGIN - 1, make.SYN)], BEGIN
    for number in range(20):
        data = framed(packet(number, 5000))
        for begin in range(0, len(data), 1448):
            if (number, begin) != (3, 1448):
                frames.append(frame(data[begin : begin + 1448], at + begin))
        at += len(data)
    path = written(tmp_path / "run.pcap", frames)
    assert numbers(path) == [number for number in range(20) if number != 3]
