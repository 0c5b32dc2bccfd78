"""
Other ways through a capture, which `spark.py` is compared with: dpkt, tshark, scapy, a loop in Python, and a source for Spark
that gives tuples.

All of them know what the made capture is: Ethernet, IPv4, UDP, and in each packet samples with one-byte kinds.
"""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

__all__ = ["SAMPLE", "TupleSource", "by_dpkt", "by_python", "by_scapy", "by_tshark", "timed"]

SAMPLE = 7  # its kind
HEADERS = 42  # Ethernet, IPv4 and UDP
RECORD = struct.Struct("<IIII")
PORTS = struct.Struct(">HH")
FIELDS = ("frame.number", "frame.time_epoch", "ip.src", "ip.dst", "udp.srcport", "udp.length")
NAMES = (
    *("pkt bigint", "offset bigint", "ts_ns bigint", "src bigint", "dst bigint", "src_port int"),
    *("dst_port int", "kind int", "conduit int", "sn bigint", "rid bigint", "size int", "len int"),
)


def timed(call: Callable[[], Any]) -> float:
    """How many seconds it takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def messages(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Kind, sequence number, resource and size of each sample of a packet."""
    while at < end:
        kind = data[at] & 0x1F
        if kind != SAMPLE:
            return
        sn, at = number(data, at + 1)
        rid, at = number(data, at)
        size, at = number(data, at)
        at += size
        yield kind, sn, rid >> 1, size


def rows(data: bytes, first: int = 0, offset: int = 24) -> Iterator[tuple[int, ...]]:
    """All of it as tuples of 13, taken apart by struct."""
    at, pkt, end = 0, first, len(data)
    while at < end:
        seconds, nanoseconds, size, _ = RECORD.unpack_from(data, at)
        start = at + RECORD.size
        pkt += 1
        src = int.from_bytes(data[start + 26 : start + 30], "big")
        dst = int.from_bytes(data[start + 30 : start + 34], "big")
        ports = PORTS.unpack_from(data, start + 34)
        place = (pkt, offset + at, seconds * 10**9 + nanoseconds, src, dst, *ports)
        for kind, sn, rid, length in messages(data, start + HEADERS, start + size):
            yield (*place, kind, 0, sn, rid, size, length)
        at = start + size


def by_python(path: Path) -> int:
    """How many rows the loop in Python finds."""
    return sum(1 for _ in rows(path.read_bytes()[24:]))


def by_dpkt(path: Path) -> int:
    """The same, with dpkt for all below the messages."""
    import dpkt  # noqa: PLC0415 - for this alone

    found = 0
    with path.open("rb") as file:
        for when, data in dpkt.pcap.Reader(file):
            packet = dpkt.ethernet.Ethernet(data).data
            datagram = packet.data
            payload = bytes(datagram.data)
            for message in messages(payload, 0, len(payload)):
                row = (when, packet.src, packet.dst, datagram.sport, datagram.dport, *message)
                found += bool(row)
    return found


def by_scapy(path: Path) -> int:
    """The same, with scapy."""
    from scapy.layers.inet import IP, UDP  # noqa: PLC0415 - it takes long to load
    from scapy.layers.l2 import Ether  # noqa: F401, PLC0415 - to know what is in a frame
    from scapy.utils import PcapReader  # noqa: PLC0415

    found = 0
    with PcapReader(str(path)) as reader:
        for packet in reader:
            payload = bytes(packet[UDP].payload)
            for message in messages(payload, 0, len(payload)):
                row = (packet.time, packet[IP].src, packet[IP].dst, packet[UDP].sport, *message)
                found += bool(row)
    return found


def by_tshark(path: Path) -> None:
    """Six fields of each packet, and nothing of the messages."""
    fields = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *fields]
    # whether our plug-in is installed here must not matter
    subprocess.run(
        [*command, "-X", "lua_script:/dev/null"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class TupleSource(DataSource):
    """A source as one writes it first: tuples, taken apart in Python. The file is cut where frames begin, by the one who asks."""

    @classmethod
    def name(cls) -> str:
        """What comes after format."""
        return "tuples"

    def schema(self) -> str:
        """Thirteen columns."""
        return ", ".join(NAMES)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark calls it by name
        """One task for each cut."""
        cuts = [int(cut) for cut in self.options["cuts"].split(",")]
        return TupleReader(self.options["path"], cuts)


class TupleReader(DataSourceReader):
    """Pickled to the workers."""

    def __init__(self, path: str, cuts: list[int]) -> None:
        self.path = path
        self.cuts = cuts

    def partitions(self) -> list[InputPartition]:
        """From each cut to the next one."""
        ends = zip(self.cuts, self.cuts[1:], strict=False)
        return [InputPartition(pair) for pair in ends]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, ...]]:
        """Row by row."""
        start, stop = partition.value
        with Path(self.path).open("rb") as file:
            file.seek(start)
            yield from rows(file.read(stop - start), 0, start)
