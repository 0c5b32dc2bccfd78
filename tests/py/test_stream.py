"""Packets in a stream of bytes: the real ones of zhe over TCP, made ones, split and merged at every place."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from pyddsi import wire
from tests.py.golden import index, load, streams
from tests.py.strategies import Maker

TCP = [name for name in sorted(index()) if "tcp" in name]
PACKETS = [
    wire.encode([message])
    for message in (wire.Scout(5), wire.SData(0, 1, bytes(200)), wire.AckNack(1))
]
UNFRAMED = b"\0"


def fed(stream: wire.Stream, data: bytes, sizes: list[int]) -> list[bytes]:
    """What comes out when the data comes in pieces of these sizes, and then the rest."""
    found, at = [], 0
    for size in [*sizes, len(data)]:
        found += [bytes(packet) for packet in stream.feed(data[at : at + size])]
        at += size
    return found


def framed(packets: list[bytes]) -> bytes:
    """The packets as a stream."""
    return b"".join(wire.frame(packet) for packet in packets)


def test_documented_frames() -> None:
    """The length in front of a packet would not be the one that zhe reads."""
    assert wire.frame(b"\x01\x05") == b"\x02\x01\x05"
    assert wire.frame(b"") == UNFRAMED
    assert wire.frame(bytes(128))[:2] == b"\x80\x01"
    assert wire.frame(bytes(16383))[:2] == b"\xff\x7f"
    assert wire.frame(memoryview(bytes(8)).cast("I")) == b"\x08" + bytes(8)
    with pytest.raises(ValueError, match="at most 16383 bytes, not 16384"):
        wire.frame(bytes(16384))


@pytest.mark.parametrize("name", TCP)
def test_real_streams_in_pieces(name: str) -> None:
    """A packet would depend on how the network cut the stream, or a real stream end within a packet."""
    source = random.Random(name)
    whole: list[bytes] = []
    for data in streams(name):
        stream = wire.Stream(packet_max=100)
        packets = fed(stream, data, [])
        assert stream.pending == 0
        assert framed(packets) == data
        for most in (1, 2, 3, 7, 1500):
            sizes = [source.randint(1, most) for _ in range(len(data))]
            assert fed(wire.Stream(), data, sizes) == packets
        whole += packets
    assert sorted(whole) == sorted(packet.data for packet in load(name))


@pytest.mark.parametrize("name", TCP)
def test_every_split(name: str) -> None:
    """A stream would be misread if a segment ended at one unlucky byte."""
    for data in streams(name):
        start = data[:600]
        wanted = fed(wire.Stream(), start, [])
        for at in range(len(start)):
            assert fed(wire.Stream(), start, [at]) == wanted


@pytest.mark.parametrize("name", TCP)
def test_real_streams_without_frames(name: str) -> None:
    """After a length of 0 a message would end elsewhere, or lose its marker."""
    for data in streams(name):
        packets = fed(wire.Stream(), data, [])[:200]
        messages = [message for packet in packets for message in wire.decode(packet)]
        joined = framed(packets[:3]) + UNFRAMED + b"".join(packets[3:])
        for most in (1, 5, 10_000):
            source = random.Random(most)
            stream = wire.Stream()
            sizes = [source.randint(1, most) for _ in range(len(joined))]
            found = fed(stream, joined, sizes)
            assert stream.unframed == (len(packets) >= 0)
            assert found[:3] == packets[:3]
            assert [m for packet in found for m in wire.decode(packet)] == messages
            assert all(not isinstance(wire.decode(p)[-1], wire.Conduit) for p in found[3:])


@pytest.mark.parametrize("reading", [wire.TOLERANT, wire.STRICT], ids=["tolerant", "strict"])
def test_unframed_messages_of_all_kinds(reading: wire.Reading) -> None:
    """A marker would be parted from its message, or called alone because its message is still on its way."""
    source = random.Random(1)
    for _ in range(60):
        made = Maker(source.randbytes(64), "strict").messages()
        data = wire.encode(made)
        if len(data) > 400:
            continue
        for at in range(len(data) + 1):
            stream = wire.Stream(reading)
            found = fed(stream, UNFRAMED + data, [at])
            assert [m for packet in found for m in wire.decode(packet, reading)] == made
            assert stream.pending == 0


def test_one_byte_at_a_time() -> None:
    """A frame would come out before it is whole, or later than that."""
    stream = wire.Stream()
    for packet in PACKETS:
        data = wire.frame(packet)
        for byte in data[:-1]:
            assert stream.feed(bytes([byte])) == []
        assert stream.pending == len(data) - 1
        assert stream.feed(data[-1:]) == [packet]
        assert stream.feed(b"") == []
        assert stream.pending == 0


def test_long_form_lengths() -> None:
    """A length in two bytes that fits one would be refused; zhe takes it."""
    assert fed(wire.Stream(), b"\x82\x00\x01\x05", []) == [b"\x01\x05"]
    stream = wire.Stream()
    assert fed(stream, b"\x80\x00\x01\x05\x0e\x00", []) == [b"\x01\x05", b"\x0e\x00"]
    assert stream.unframed


@pytest.mark.parametrize("limit", [1, 2, 100, 127, 128, 16383])
def test_limit(limit: int) -> None:
    """A packet at the limit would be refused, or one over it be waited for."""
    packet = bytes(limit)
    stream = wire.Stream(packet_max=limit)
    assert stream.feed(wire.frame(packet)) == [packet]
    if limit < 16383:
        with pytest.raises(wire.WireError) as caught:
            stream.feed(wire.frame(bytes(limit + 1))[:2])
        assert (caught.value.rule, caught.value.at) == ("FRAME_LIMIT", 0)
    for wrong in (0, 16384, -1):
        with pytest.raises(ValueError, match="1 to 16383"):
            wire.Stream(packet_max=wrong)


@pytest.mark.parametrize("piece", [1, 3, 10_000])
def test_limit_without_frames(piece: int) -> None:
    """A message over the limit would be taken if it came at once, or be kept growing if it came in pieces."""
    for size, fits in ((95, True), (96, False), (60_000, False)):
        packet = wire.encode([wire.SData(0, 1, bytes(size))])
        assert (len(packet) <= 99) == fits
        stream = wire.Stream(packet_max=99)
        stream.feed(UNFRAMED)
        sizes = [piece] * (len(packet) // piece)
        if fits:
            assert fed(stream, packet, sizes) == [packet]
        else:
            with pytest.raises(wire.WireError) as caught:
                fed(stream, packet, sizes)
            assert caught.value.rule == "FRAME_LIMIT"
            assert stream.pending <= 99
    markers = wire.Stream(packet_max=99)
    markers.feed(UNFRAMED)
    with pytest.raises(wire.WireError, match="limit"):
        fed(markers, b"\x93" * 200, [piece] * 200)


def test_frame_with_anything_inside() -> None:
    """A frame would be refused for what is in it: that is for the decoder, and framing is not lost."""
    assert fed(wire.Stream(), b"\x02\x00\x00\x02\x01\x05", []) == [b"\x00\x00", b"\x01\x05"]
    assert fed(wire.Stream(), b"\x01\x0e\x02\x01\x05", []) == [b"\x0e", b"\x01\x05"]


@pytest.mark.parametrize(
    ("start", "bad", "rule", "at"),
    [
        (b"", b"\x80\x80\x01", "FRAME_LENGTH", 0),
        (b"", b"\xff\xff", "FRAME_LENGTH", 0),
        (b"\x02\x01\x05", b"\x80\xff", "FRAME_LENGTH", 0),
        (UNFRAMED, b"\x00", "KIND_UNKNOWN", 0),
        (b"", b"\x00\x00", "KIND_UNKNOWN", 1),
        (b"", b"\x80\x00\x00", "KIND_UNKNOWN", 2),
        (b"", b"\x02\x01\x05\x00\x01\x05\x1f", "KIND_UNKNOWN", 6),
        (UNFRAMED, b"\x93\x47\x00\x02\x80\x80\x04", "LENGTH_WIDE", 4),
        (UNFRAMED, b"\x01\x05\x93\x0c\x80\x80\x04", "NUMBER_WIDE", 4),
    ],
)
def test_broken_for_good(start: bytes, bad: bytes, rule: str, at: int) -> None:
    """A broken stream would be read on, hold on to bytes, or tell another fault or place each time it is asked."""
    stream = wire.Stream()
    stream.feed(start)
    with pytest.raises(wire.WireError) as caught:
        stream.feed(bad)
    first = caught.value
    assert (first.rule, first.at, first.zhe_stream) == (rule, at, "drops")
    assert str(first).startswith(f"byte {at} of the data at hand: ")
    for more in (b"", b"\x02\x01\x05", bytes(100_000)):
        with pytest.raises(wire.WireError) as caught:
            stream.feed(more)
        again = caught.value
        assert (again.rule, again.at, str(again)) == (first.rule, first.at, str(first))
        assert again.messages == []
        assert stream.pending == 0


def test_packets_before_the_fault() -> None:
    """Whole packets would be lost because the stream breaks behind them in the same segment."""
    stream = wire.Stream()
    with pytest.raises(wire.WireError) as caught:
        stream.feed(framed(PACKETS) + b"\xff\xff")
    assert caught.value.messages == PACKETS
    assert caught.value.at == len(framed(PACKETS))


def test_wrong_types() -> None:
    """What is no bytes would be fed: a number as that many zeros, a list as its items."""
    for wrong in (5, "text", None, [1, 5]):
        with pytest.raises(TypeError):
            wire.Stream().feed(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            wire.frame(wrong)  # type: ignore[arg-type]
    for data in (bytearray(b"\x02\x01\x05"), memoryview(b"\x02\x01\x05")):
        assert wire.Stream().feed(data) == [b"\x01\x05"]


def test_packets_stay_valid() -> None:
    """A packet would change when the buffer that it came in is used for the next segment."""
    buffer = bytearray(b"\x02\x01\x05")
    packet = wire.Stream().feed(buffer)[0]
    buffer[:] = b"\x02\x0e\x00"
    assert bytes(packet) == b"\x01\x05"


def test_memory_is_bounded() -> None:
    """A stream that never ends would fill the memory, framed or not."""
    segment = framed([bytes(1000)] * 50)
    for start, data in (
        (b"", segment),
        (UNFRAMED, wire.encode([wire.SData(0, 1, bytes(300))]) * 50),
    ):
        stream = wire.Stream()
        stream.feed(start + data[:7])
        tracemalloc.start()
        for _ in range(300):
            stream.feed(data[7:] + data[:7])
            assert stream.pending <= 16385
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 200_000
