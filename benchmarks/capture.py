"""
How fast captures are read, beside dpkt, scapy, tshark and a plain read of the file.

    ./run bench capture [--rounds N] [--packets N] [--quick] [--json FILE]

Two made-up captures, both in the page cache: *single* has packets with one reliable sample of 130 bytes each, *packed* has 112
samples of 8 bytes in each. Every round goes through all of them, one after the other, in one process and with one thread:

    read        the bytes of the file, in blocks as large as a scan takes (256 KiB), and nothing else
    walk        the records' headers, in memory (benchmarks/container_core.c), and the copy that a read is
    packets     13 columns of the table packets, as Arrow batches
    messages    13 columns of the table messages: numbers unwrapped, repeats and gaps found
    rates       messages and bytes of each resource in each second, added up by the core
    info        all that `pyddsi info` tells
    index       chunks, times and the state at each chunk
    Python      the same meaning of messages, in plain Python (pyddsi/capture/flows.py)
    dpkt        Ethernet, IP and UDP of each packet, and 13 values of it
    scapy       the same by scapy.utils.PcapReader
    tshark      `tshark -T fields` with six fields

The last four get the first packets of *single* only, as many as take them about a second. The table shows the median of the
rounds; ratios are of figures of the same round, the lowest and highest in brackets.

How long a read takes is the machine's affair: the file of 2 GB was seen to come out of a disk's page cache at 26 GB/s, out of tmpfs at
6. So each figure against `read` stands beside one in nanoseconds for a packet of 196 bytes; the aims of both are the same where
a read takes 16.8 of them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dpkt
import pyarrow as pa
from container import Times, build
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapReader

from pyddsi import capture
from pyddsi.capture import _bytes
from pyddsi.capture.flows import Follower, Where

MAKER = Path(__file__).with_name("_capture_make.c")
PACKETS = [
    "pkt",
    "offset",
    "ts_ns",
    "src_ep",
    "dst_ep",
    "src_port",
    "dst_port",
    "cap_len",
    "wire_len",
    "transport",
    "multicast",
    "payload_len",
    "messages",
]
MESSAGES = [
    "ts_ns",
    "src_ep",
    "dst_ep",
    "kind",
    "reliable",
    "conduit",
    "flow",
    "usn",
    "rid",
    "payload_len",
    "seq_event",
    "gap",
    "since_first_us",
]
RATES = ["window", "flow", "rid", "messages", "bytes"]
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "udp.srcport", "udp.dstport", "udp.length")
SMALL = {"Python": 20_000, "dpkt": 100_000, "scapy": 5_000, "tshark": 50_000}
RECORDS = {"single": (1, 130), "packed": (112, 8)}


Run = Callable[[], int]
"""A contender: goes through what it goes through, and says how many packets or messages that were."""


class Made:
    """A capture, how many packets and messages it has, and its first packets as captures of their own."""

    def __init__(self, folder: Path, maker: Path, name: str, packets: int) -> None:
        self.path = folder / f"{name}.pcap"
        samples, size = RECORDS[name]
        numbers = (packets, 40, samples, size, 28, 5, 5, 300, 1)
        subprocess.run([maker, self.path, *map(str, numbers)], check=True)
        self.size = self.path.stat().st_size
        self.packets = rows(self.path, "packets", ["pkt"])
        self.messages = rows(self.path, "messages", ["msg"])

    def first(self, count: int) -> Path:
        """Its first packets."""
        path = self.path.with_suffix(f".{count}.pcap")
        if not path.exists():
            wanted = capture.open(self.path).batches(
                "packets", ["offset"], where=f"pkt == {count + 1}"
            )
            offset = next(pa.record_batch(batch).column(0)[0].as_py() for batch in wanted)
            with self.path.open("rb") as file:
                path.write_bytes(file.read(offset))
        return path


# ---- contenders ----


def read(path: Path) -> int:
    """Read a file as fast as it goes."""
    block = bytearray(_bytes.BLOCK_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass
    return 0


def walk(library: ctypes.CDLL, path: Path) -> float:
    """Seconds for the headers of all records, and a copy of the file, which is what a read is."""
    data, times = path.read_bytes(), Times()
    library.container_walk(data, ctypes.c_uint64(len(data)), ctypes.byref(times))
    return (times.walk_ns + times.copy_ns) / 1e9


def rows(path: Path, table: str, columns: list[str], **limits: float) -> int:
    """All rows of a table."""
    found = capture.open(path, index=str(path.parent)).batches(table, columns, **limits)
    return sum(pa.record_batch(batch).num_rows for batch in found)


def index(path: Path) -> int:
    """Make an index, and forget it."""
    (made,) = capture.open(path, keep_index=False).indexes()
    return made.frames


def python(path: Path) -> int:
    """Follow messages in plain Python."""
    follower, count = Follower(), 0
    for packet in capture.open(path).packets():
        where = Where(packet.number, packet.time_ns, packet.source, packet.destination)
        for message in packet.messages()[0]:
            follower.follow(where, message)
            count += 1
    return count


def by_dpkt(path: Path) -> int:
    """Decode packets with dpkt."""
    count = 0
    with path.open("rb") as file:
        for at, data in dpkt.pcap.Reader(file):
            ethernet = dpkt.ethernet.Ethernet(data)
            ip = ethernet.data
            udp = ip.data
            (at, ethernet.dst, ethernet.src, ethernet.type, ip.src, ip.dst, ip.ttl, ip.len, ip.p)  # noqa: B018
            (udp.sport, udp.dport, udp.ulen, len(udp.data))
            count += 1
    return count


def by_scapy(path: Path) -> int:
    """Decode packets with scapy."""
    count = 0
    with PcapReader(str(path)) as reader:
        for packet in reader:
            ip, udp = packet[IP], packet[UDP]
            (packet.time, packet[Ether].dst, ip.src, ip.dst, ip.ttl, ip.len, udp.sport, udp.dport)
            (udp.len, len(udp.payload))
            count += 1
    return count


def by_tshark(path: Path) -> int:
    """Decode packets with tshark."""
    fields = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *fields]
    done = subprocess.run(command, check=True, capture_output=True)
    return done.stdout.count(b"\n")


def contenders(single: Made, packed: Made) -> dict[str, tuple[Run, int]]:
    """Each with the bytes that it goes through."""
    small = {name: single.first(count) for name, count in SMALL.items()}
    ours = {
        "read": (lambda: read(single.path) or single.packets, single.size),
        "packets": (lambda: rows(single.path, "packets", PACKETS), single.size),
        "messages": (lambda: rows(single.path, "messages", MESSAGES), single.size),
        "messages, packed": (lambda: rows(packed.path, "messages", MESSAGES), packed.size),
        "rates, packed": (
            lambda: rows(packed.path, "rates", RATES) and packed.messages,
            packed.size,
        ),
        "rates": (lambda: rows(single.path, "rates", RATES) and single.packets, single.size),
        "info": (lambda: capture.open(single.path).info().packets, single.size),
        "index": (lambda: index(single.path), single.size),
    }
    others = {"Python": python, "dpkt": by_dpkt, "scapy": by_scapy, "tshark": by_tshark}
    return ours | {
        name: (lambda run=run, path=small[name]: run(path), small[name].stat().st_size)
        for name, run in others.items()
    }


# ---- tables ----


def span(values: list[float], form: str) -> str:
    """The median, and the lowest and highest."""
    low, middle, high = (format(f(values), form) for f in (min, statistics.median, max))
    return f"{middle} ({low} - {high})"


def speeds(
    single: Made, packed: Made, library: ctypes.CDLL, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Time all contenders in turn, over and over: thousands of packets or messages a second, MB a second."""
    found: dict[str, list[tuple[float, float]]] = {}
    todo = contenders(single, packed)
    for i in range(rounds):
        for name, (run, size) in todo.items():
            start = time.perf_counter()
            count = run()
            took = time.perf_counter() - start
            found.setdefault(name, []).append((count / took / 1e3, size / took / 1e6))
        took = walk(library, single.path)
        found.setdefault("walk", []).append((single.packets / took / 1e3, single.size / took / 1e6))
        print(f"round {i + 1} of {rounds} done", file=sys.stderr)
    return found


def within(path: Path) -> float:
    """How much of a file is read for a hundredth of its time."""
    opened = capture.open(path, index=str(path.parent))
    (made,) = opened.indexes()
    start = made.chunks[0].first_ns
    span = max(chunk.last_ns for chunk in made.chunks[:-1]) - start
    took = 0
    read_into = _bytes.Bytes.read_into

    def counted(source: _bytes.Bytes, into: memoryview) -> int:
        nonlocal took
        count = read_into(source, into)
        took += count
        return count

    _bytes.Bytes.read_into = counted  # type: ignore[method-assign]
    try:
        middle = start + span // 2
        count = rows(path, "messages", MESSAGES, start=middle, stop=middle + span // 100)
    finally:
        _bytes.Bytes.read_into = read_into  # type: ignore[method-assign]
    if not count:
        raise RuntimeError(f"{path} has no message in the middle")
    return took / path.stat().st_size


MEMORY = """
import sys
from pyddsi import capture
opened = capture.open(sys.argv[1], index=sys.argv[3])
if sys.argv[2] == "index":
    opened.indexes()
elif sys.argv[2] == "info":
    opened.info()
else:
    for batch in opened.batches(sys.argv[2]):
        pass
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""


def memory(path: Path, reader: str) -> float:
    """MiB that a process of its own has had at most."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        command = [sys.executable, "-c", MEMORY, str(path), reader, folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


TIMES = (("packets", 3.5, 60), ("messages", 5, 84), ("rates", 6, 100), ("info", 6, 100))
"""Times of a plain read that these may take at most, and nanoseconds for a packet."""
RATIOS = (  # what, against what, in which figure (0: packets or messages, 1: bytes), the aim
    ("walk", "read", 1, 0.40, "least"),
    ("walk", "index", 1, 2.5, "most"),
    ("messages, packed", "Python", 0, 15.0, "least"),
    ("packets", "dpkt", 0, None, ""),
    ("packets", "tshark", 0, None, ""),
    ("packets", "scapy", 0, None, ""),
)


def report(found: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """Print speeds and ratios; the medians."""
    medians: dict[str, float] = {}
    print(f"{'':18} {'k packets or messages/s':>34} {'MB/s':>30}")
    for name, values in found.items():
        counts, sizes = zip(*values, strict=True)
        print(f"{name:18} {span(counts, ',.0f'):>34} {span(sizes, ',.1f'):>30}")
        medians[name] = statistics.median(counts)
    print(f"\n{'':30} {'ratio':>26} {'aim':>12}")
    for one, other, which, aim, word in RATIOS:
        ratios = [a[which] / b[which] for a, b in zip(found[one], found[other], strict=True)]
        shown = "" if aim is None else f"{'>=' if word == 'least' else '<='} {aim:g}"
        print(f"{one + ' / ' + other:30} {span(ratios, ',.2f'):>26} {shown:>12}")
        medians[f"{one} / {other}"] = statistics.median(ratios)
    for one, times, most in TIMES:
        ratios = [b[1] / a[1] for a, b in zip(found[one], found["read"], strict=True)]
        print(f"{'time of ' + one + ' / read':30} {span(ratios, ',.2f'):>26} {f'<= {times:g}':>12}")
        each = [1e6 / a[0] for a in found[one]]
        print(f"{'ns a packet of ' + one:30} {span(each, ',.0f'):>26} {f'<= {most}':>12}")
        medians[f"time of {one} / read"] = statistics.median(ratios)
    fast = medians["messages, packed"] / 1e3
    print(f"{'messages, packed':30} {fast:>22,.1f} M/s {'>= 40 M/s':>12}")
    return medians


def main() -> int:
    """Make, time, report."""
    parser = argparse.ArgumentParser(description="How fast captures are read.")
    parser.add_argument("--rounds", type=int, default=5, help="of everything (default: 5)")
    parser.add_argument(
        "--packets", type=int, default=10_000_000, help="of `single` (default: 10 million)"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the packets, one round")
    parser.add_argument("--json", type=Path, help="write the medians there as well")
    options = parser.parse_args()
    packets = options.packets // (10 if options.quick else 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        maker = folder / "make"
        compiler = shutil.which("cc") or "gcc"
        subprocess.run([compiler, "-std=gnu11", "-O3", str(MAKER), "-o", str(maker)], check=True)
        single = Made(folder, maker, "single", packets)
        packed = Made(folder, maker, "packed", packets // 20)
        print(
            f"single: {single.packets:,} packets, {single.size / 1e6:,.0f} MB; "
            f"packed: {packed.messages:,} messages, {packed.size / 1e6:,.0f} MB\n"
        )
        medians = report(
            speeds(single, packed, build(folder), 1 if options.quick else options.rounds)
        )
        share = within(single.path)
        print(f"{'a hundredth of the time':30} {share:>20.2%} read {'<= 3 %':>12}")
        medians["share"] = share
        print(f"\n{'MiB at most':18} {'a tenth of single':>18} {'all of it':>12} {'aim':>12}")
        tenth = single.first(packets // 10)
        for reader in ("packets", "messages", "flows", "rates", "info", "index"):
            small, large = memory(tenth, reader), memory(single.path, reader)
            print(f"{reader:18} {small:>18,.0f} {large:>12,.0f} {'<= 300':>12}")
            medians[f"MiB of {reader}"] = large
    if options.json:
        options.json.write_text(json.dumps(medians, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
