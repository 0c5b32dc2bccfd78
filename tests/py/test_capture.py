"""
Captures from bytes to datagrams: real files against the list of what is in them, and made ones for every format, link
layer and defect that a capture is known to have. TCP has a file of its own. It is long, being a list.
"""

import gzip
import io
import os
import random
import re
import struct
import sys
import tracemalloc
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pytest

from pyddsi.capture import Datagram, Endpoint, Segment, read_datagrams
from pyddsi.capture._bytes import BLOCK_BYTES, WINDOW_BYTES
from pyddsi.errors import CaptureError, PyddsiError
from tests.py import make_capture as make
from tests.py.make_capture import data, read

BLOCK_MAX = make.limit("PDI_BLOCK_BYTES_MAX")
CAPTURES = Path(__file__).resolve().parents[2] / "captures"
HELLO = make.ethernet(make.ipv4(make.udp(b"hello")))


def listed() -> dict[str, int]:
    """The files of captures/ and how many records INDEX.md says they have."""
    text = (CAPTURES / "INDEX.md").read_text(encoding="utf-8")
    entries = re.findall(r"^### (\S+\.pcap)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    found = {}
    for name, entry in entries:
        count = re.search(r"(\d+) records", entry)
        assert count is not None, f"INDEX.md does not say how many records {name} has"
        found[name] = int(count[1])
    return found


def test_listed_files_are_there() -> None:
    """The files and their list would have drifted apart, and the test below would check fewer than there are."""
    files = {str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap")}
    assert files == set(listed())
    assert len(files) >= 44


@pytest.mark.parametrize(("name", "count"), listed().items())
def test_real_capture(name: str, count: int) -> None:
    """A real file would lose packets, or come apart at a wrong place."""
    with read_datagrams(CAPTURES / name) as capture:
        items = list(capture)
        assert capture.records == count
        assert not capture.skipped
    datagrams = [item for item in items if isinstance(item, Datagram)]
    segments = [item for item in items if isinstance(item, Segment)]
    assert datagrams or segments
    if not segments:
        assert [item.number for item in datagrams] == list(range(1, count + 1))
    assert not any(item.cut for item in datagrams)
    assert not any(item.lost for item in segments)
    assert all({item.source.port, item.destination.port} & {7447} or item.data for item in items)


def test_datagram_fields() -> None:
    """A datagram would carry another packet's number, time or ends."""
    ways = make.HERE, ("239.255.0.1", 7447)
    again = make.ethernet(make.ipv4(make.udp(b""), ways=ways))
    items, _, _ = read(make.pcap([HELLO, b"", again], unit=1))
    first = Datagram(1, make.NOW, Endpoint("10.0.0.1", 40000), Endpoint("10.0.0.2", 7447), b"hello")
    third = first._replace(number=3, time_ns=make.NOW + 2 * make.SECOND, data=b"")
    assert items == [first, third._replace(destination=Endpoint("239.255.0.1", 7447))]
    assert [item.destination.multicast for item in items] == [False, True]


def test_endpoint_text() -> None:
    """An endpoint would be printed as nobody writes it, with the colons of address and port run together."""
    assert str(Endpoint("10.0.0.1", 7447)) == "10.0.0.1:7447"
    assert str(Endpoint("fe80::1", 7447)) == "[fe80::1]:7447"
    assert Endpoint("ff02::1", 1).multicast
    assert not Endpoint("fe80::1", 1).multicast


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("unit", [1000, 1])
def test_pcap_magics(order: str, unit: int) -> None:
    """One of the four kinds of pcap would be refused, or its times be a thousand times off."""
    items, _, error = read(make.pcap([HELLO, HELLO], order=order, unit=unit))
    assert error is None
    assert [item.data for item in items] == [b"hello", b"hello"]
    assert items[0].time_ns == make.NOW // unit * unit


def test_pcap_link_flags() -> None:
    """A writer that notes its frame check sequence in the link type would be of unknown link type."""
    frame = HELLO + b"\xfc\xfc\xfc\xfc"
    assert data(make.pcap([frame], link=0x24000001)) == [b"hello"]


@pytest.mark.parametrize(
    "content",
    [make.pcap([HELLO]), make.section() + make.interface() + make.enhanced(HELLO)],
    ids=["pcap", "pcapng"],
)
def test_gzip(content: bytes) -> None:
    """A gzipped file, also one of several members, would be refused; a cut one be taken for whole."""
    packed = gzip.compress(content[:30]) + gzip.compress(content[30:])
    assert data(packed) == [b"hello"]
    items, _, error = read(packed[:-4])
    assert [item.data for item in items] == [b"hello"]
    assert error is not None
    assert "1 packets were read" in str(error)


def test_gzip_of_large_file() -> None:
    """A gzipped file longer than what is read at a time would break off after its beginning."""
    chance = random.Random(1)
    payloads = [chance.randbytes(1400) for _ in range(2 * BLOCK_BYTES // 1400)]
    frames = [make.ethernet(make.ipv4(make.udp(payload))) for payload in payloads]
    assert data(gzip.compress(make.pcap(frames))) == payloads


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("packet_block", [make.enhanced, make.obsolete])
@pytest.mark.parametrize(
    ("clock", "ticks", "time_ns"),
    [
        ((None, None), make.NOW // 1000, make.NOW // 1000 * 1000),
        ((9, None), make.NOW, make.NOW),
        ((3, None), make.NOW // 1000000, make.NOW // 1000000 * 1000000),
        ((0, None), 5, 5 * make.SECOND),
        ((12, None), 1_234_567, 1_234),  # finer than ns: rounded down
        ((0x80 | 10, None), 1024 + 512, 1_500_000_000),
        ((0x80 | 40, None), 1 << 39, 500_000_000),
        ((9, -3600), make.NOW, make.NOW - 3600 * make.SECOND),
        ((6, 1_700_000_000), 5, 1_700_000_000 * make.SECOND + 5000),
    ],
)
def test_pcapng_times(
    order: str, packet_block: object, clock: tuple[int | None, int | None], ticks: int, time_ns: int
) -> None:
    """A time would be read in the wrong unit, which moves a capture by years or makes it a thousand times as long."""
    make_block = make.enhanced if packet_block is make.enhanced else make.obsolete
    content = make.section(order) + make.interface(order, resolution=clock[0], offset=clock[1])
    items, _, error = read(content + make_block(HELLO, ticks, order))
    assert error is None
    assert [(item.data, item.time_ns) for item in items] == [(b"hello", time_ns)]


def test_pcapng_end_of_options() -> None:
    """Bytes behind the last option would change the clock."""
    options = make.option(0, b"") + make.option(9, b"\x00")
    content = make.section() + make.block(1, struct.pack("<HHI", 1, 0, 0) + options)
    items, _, _ = read(content + make.enhanced(HELLO, 5))
    assert [item.time_ns for item in items] == [5000]


def test_pcapng_sections_and_interfaces() -> None:
    """Packets of a second interface or section would be read with the clock, link type or byte order of the first."""
    raw = make.ipv4(make.udp(b"raw"))
    content = make.section("<") + make.interface(link=1) + make.interface(link=101, resolution=9)
    content += make.enhanced(raw, 11, index=1) + make.enhanced(HELLO, 11, index=0)
    content += make.section(">") + make.interface(">", link=228, resolution=3)
    content += make.enhanced(raw, 11, ">") + make.obsolete(raw, 12, ">")
    items, _, error = read(content)
    assert error is None
    assert [(item.number, item.data, item.time_ns) for item in items] == [
        (1, b"raw", 11),
        (2, b"hello", 11_000),
        (3, b"raw", 11_000_000),
        (4, b"raw", 12_000_000),
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_simple(order: str) -> None:
    """A packet without a time would get a made-up one, or the padding behind it be taken for payload."""
    packet = make.ipv4(make.udp(b"hello"))
    start = make.section(order) + make.interface(order, link=101, snap=42)
    long_one = make.ipv4(make.udp(bytes(100)))
    cut = make.simple(long_one[:42], order, original=len(long_one))
    items, _, error = read(start + make.simple(packet, order) + cut)
    assert error is None
    assert [(item.time_ns, item.data) for item in items] == [(None, b"hello"), (None, bytes(14))]
    assert isinstance(items[1], Datagram)
    assert items[1].cut
    # a writer that does not tell its snap length: what the block holds is all there is
    start = make.section(order) + make.interface(order, link=101)
    assert data(start + cut) == [bytes(16)]


def test_pcapng_other_blocks() -> None:
    """A block nobody reads would stop the reading, or shift the packet numbers against Wireshark's."""
    start = make.section() + make.interface()
    names, long_one = make.block(4, bytes(100)), make.block(0x77, bytes(3 * BLOCK_MAX))
    vendor, journal = make.block(0xBAD, bytes(8)), make.block(9, b"__CURSOR=1\n")
    content = start + names + make.enhanced(HELLO) + long_one + vendor + journal
    items, why, error = read(content + make.enhanced(HELLO) + make.block(5, bytes(12)))
    assert error is None
    assert [item.number for item in items] == [1, 4]
    assert why == {"pcapng block 0xbad": 1, "pcapng block 0x9": 1}


NG = make.section() + make.interface()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (make.pcap([HELLO]) + struct.pack("<IIII", 1, 1, 262145, 1), "byte 100, before packet 2"),
        (NG + make.enhanced(HELLO, index=1), "interface 1, and 1 were described"),
        (
            NG + make.enhanced(HELLO, size=200),
            "a frame of 200 bytes in a block that has room for 72",
        ),
        (NG + make.enhanced(bytes(262145)), "a frame of 262145 bytes, above the limit"),
        (NG + make.block(6, bytes(30000), last=40), "30012 at its beginning and 40 at its end"),
        (NG + make.block(6, bytes(8)), "a block of type 0x6 with 20 bytes"),
        (NG + make.block(6, bytes(BLOCK_MAX)), "a block of type 0x6 with 1048588"),
        (NG + struct.pack("<III", 0x77, 8, 8), "a block of type 0x77 with 8 bytes"),
        (NG + struct.pack("<III", 0x77, 15, 8), "a block of type 0x77 with 15 bytes"),
        (NG + struct.pack("<III", 0x0A0D0D0A, 28, 5), "byte order mark is 00000005"),
        (make.section() + make.simple(HELLO), "interface 0, and 0 were described"),
        (
            make.section() + make.block(1, struct.pack("<HHIHH", 1, 0, 0, 9, 400)),
            "option 9 of an interface, which runs out of its block",
        ),
    ],
)
def test_damage(content: bytes, words: str) -> None:
    """Bytes that cannot be right would be read as packets, or end the program with an error of Python's."""
    _, _, error = read(content)
    assert error is not None
    assert words in str(error)
    assert "the stream is damaged at byte" in str(error)


def test_position_in_large_file() -> None:
    """An error would name a wrong byte as soon as a file is longer than what is read at a time."""
    packets = make.pcap([HELLO])[24:] * (2 * BLOCK_BYTES // 76)
    _, _, error = read(make.pcap([]) + packets + b"x")
    assert f"it ends at byte {24 + len(packets) + 1} " in str(error)
    _, _, error = read(make.pcap([]) + packets + b"\xff" * 16)
    assert f"at byte {24 + len(packets)}, before packet {len(packets) // 76 + 1} " in str(error)


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_cut_anywhere(form: str) -> None:
    """A file that breaks off would lose whole packets, invent one, or pass for complete."""
    if form == "pcap":
        parts = [make.pcap([]), *(make.pcap([HELLO])[24:] for _ in range(3))]
    else:
        parts = [make.section(), make.interface(), *(make.enhanced(HELLO) for _ in range(3))]
    content = b"".join(parts)
    ends = [len(b"".join(parts[: n + 1])) for n in range(len(parts))]
    packets = [0] * (len(parts) - 3) + [1, 2, 3]
    for size in range(4, len(content) + 1):
        whole = max((n for end, n in zip(ends, packets, strict=True) if end <= size), default=0)
        try:
            items, _, error = read(content[:size])
        except CaptureError as refused:
            items, error = [], refused
        assert len(items) == whole
        if size in ends:
            assert error is None
        else:
            assert f"{whole} packets were read, then it ends at byte {size} " in str(error)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello, world", "is not a capture, it begins with 68 65 6c 6c 6f 2c 20 77"),
        (b"\x0a\x0d\x0d\x0a\x1c\0\0\0abcd", "is not a capture, it begins with 0a 0d 0d 0a"),
        (b"a", "is not a capture, it begins with 61"),
        (b"\x34\xcd\xb2\xa1" + bytes(20), "modified (Kuznetzov)"),
        (b"\xfd7zXZ\0" + bytes(20), "compressed with xz"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(b"hello, world"), "it begins with 68 65 6c 6c 6f"),
        (b"\x1f\x8b" + bytes(20), "cannot be read on"),
    ],
)
def test_strangers(content: bytes, words: str, tmp_path: Path) -> None:
    """Somebody who hands over the wrong file would not be told which it is and what would be right."""
    path = tmp_path / "night.pcap"
    path.write_bytes(content)
    with pytest.raises(CaptureError) as caught:
        read_datagrams(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "pcap or pcapng file is needed" in str(caught.value) or "copy" in str(caught.value)


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_packed(kind: str, tmp_path: Path) -> None:
    """A capture packed by another program than gzip would need unpacking first, or be read as something else."""
    content = make.pcap([HELLO] * 1000)
    path = tmp_path / "night.pcap"  # the name says nothing
    with pa.CompressedOutputStream(str(path), kind) as packed:
        packed.write(content)
    assert path.stat().st_size < len(content)
    with read_datagrams(path) as capture:
        assert [item.data for item in capture] == [b"hello"] * 1000
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CaptureError, match="cannot be read on"), read_datagrams(path) as capture:
        list(capture)
    path.write_bytes(pa.compress(b"hello, world" * 100, codec=kind, asbytes=True))
    with pytest.raises(CaptureError, match=r"begins with 68 65 6c 6c 6f|cannot be read on"):
        read_datagrams(path)


def test_no_file(tmp_path: Path) -> None:
    """A wrong path would end in a bare OSError, which a caller of ours does not expect."""
    cases: list[tuple[str | Path, str]] = [
        (tmp_path / "none.pcap", "there is no such file"),
        (tmp_path, "is a directory"),
        (tmp_path / ("x" * 300), "cannot be opened"),
        ("a\0b", "cannot be opened"),
    ]
    for path, words in cases:
        with pytest.raises(PyddsiError, match=words) as caught:
            read_datagrams(path)
        assert str(path) in str(caught.value)


def test_closing(tmp_path: Path) -> None:
    """A file would stay open behind a capture, or a stream that belongs to the caller be closed."""
    path = tmp_path / "x.pcap"
    path.write_bytes(make.pcap([HELLO]))
    with read_datagrams(str(path)) as capture:
        assert len(list(capture)) == 1
    assert capture._source._raw.closed
    with path.open("rb") as stream:
        with read_datagrams(stream) as capture:
            assert capture.name == str(path)
        assert not stream.closed


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture could not be piped in, or standard input be closed under the program's feet."""
    stream = io.BytesIO(make.pcap([HELLO]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    with read_datagrams("-") as capture:
        assert [item.data for item in capture] == [b"hello"]
    assert not stream.closed


def test_pipe_gives_at_once() -> None:
    """A packet in a pipe would wait until a whole block has come; here nothing more ever comes, so this would hang."""
    out, into = os.pipe()
    with open(out, "rb") as stream, open(into, "wb", buffering=0) as writer:  # noqa: PTH123 - a pipe has no path
        writer.write(make.pcap([HELLO]))
        with read_datagrams(stream) as capture:
            items = iter(capture)
            assert next(items).data == b"hello"
            writer.write(make.pcap([HELLO])[24:])
            assert next(items).data == b"hello"


class Endless(io.RawIOBase):
    """A capture far larger than the reader may hold, in pieces of odd sizes."""

    def __init__(self, first: bytes, again: bytes, size: int) -> None:
        self.left = first
        self.again = again
        self.size = size

    def read(self, size: int = -1) -> bytes:
        """The next piece, at most 10007 bytes."""
        size = min(size, 10007)
        while len(self.left) < size and self.size > 0:
            self.left += self.again
            self.size -= len(self.again)
        piece, self.left = self.left[:size], self.left[size:]
        return piece


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_memory_is_flat(form: str) -> None:
    """A large capture would pile up in memory; a block nobody reads, of any size, likewise."""
    if form == "pcap":
        first, again = make.pcap([]), make.pcap([HELLO] * 100)[24:]
    else:
        first = make.section() + make.interface()
        again = make.enhanced(HELLO) * 100 + make.block(0x77, bytes(1_000_000))
    stream = cast("BinaryIO", Endless(first, again, 5_000_000))
    with read_datagrams(stream) as capture:
        tracemalloc.start()
        count = sum(1 for _ in capture)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == capture.records == -(-5_000_000 // len(again)) * 100
    assert most <= 2 * WINDOW_BYTES + 2 * len(again)


def test_random_damage() -> None:
    """Some wrong byte would end the program with an error that is none of ours, or never end."""
    chance = random.Random(7447)
    ng = make.section() + make.interface(resolution=9) + make.interface(link=101)
    ng += make.enhanced(HELLO) + make.obsolete(HELLO) + make.simple(HELLO)
    names = ("tcp_pubsub", "p2p_pubsub", "p2p_uri")
    for original in [ng, *((CAPTURES / f"{name}.pcap").read_bytes() for name in names)]:
        for _ in range(300):
            content = bytearray(original)
            for _ in range(chance.randint(1, 40)):
                content[chance.randrange(4, len(content))] = chance.choice(
                    (0, 1, 127, 255, chance.randrange(256))
                )
            try:
                items, why, _ = read(bytes(content))
            except CaptureError:
                continue
            assert len(items) + why.total() <= 3 * len(original) // 16
