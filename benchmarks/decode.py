"""
How fast packets are decoded and encoded, side by side in one run.

    ./run bench decode [--rounds N]

Three loads: packets full of 8-byte samples, packets of one 8-byte sample, and every packet of the golden captures. Each
way of going through them is timed in turn, N times over; the table shows the median and, in brackets, the lowest and
highest. `x scapy` and `of memcpy` compare with scapy's dissection and with a plain copy of the same bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyddsi import capture, wire
from pyddsi.scapy import PyddsiPacket

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=gnu11", "-O3", "-fvisibility=hidden", "-fPIC", "-shared"]  # as in pyddsi/_build.py
PACKET_MAX = 1472
TARGET_S = 0.15  # one timing takes about this long
SCAPY_PACKETS = 150  # scapy is slow; it gets a part of the load


def packed() -> list[bytes]:
    """Packets as full of 8-byte samples as they get, as zhe sends them under load."""
    samples = b"".join(
        wire.encode([wire.SData(8000 + n, 1, bytes(8), reliable=True)]) for n in range(400)
    )
    size = len(samples) // 400
    fit = PACKET_MAX // size
    return [samples[at * size : (at + fit) * size] for at in range(0, 400 - fit, fit)] * 8


def single() -> list[bytes]:
    """Packets of one 8-byte sample."""
    return [wire.encode([wire.SData(n, 1, bytes(8), reliable=True)]) for n in range(8000, 9000)]


def golden() -> list[bytes]:
    """Every packet of the golden captures that can be read."""
    packets = []
    for path in sorted((ROOT / "captures").glob("*.pcap")):
        packets += [packet.data for packet in capture.open(path).packets()]
    return packets


def build(folder: Path) -> ctypes.CDLL:
    """The loops in C, with the core's sources."""
    sources = [
        *(ROOT / "csrc").glob("base/*.c"),
        *(ROOT / "csrc").glob("wire/*.c"),
        ROOT / "csrc/api/wire.c",
    ]
    library = folder / "decode_core.so"
    include = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc/include'}"]
    command = [
        "cc",
        *FLAGS,
        *include,
        str(ROOT / "benchmarks/decode_core.c"),
        *map(str, sources),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


Way = Callable[[int], float]  # rounds -> seconds for that many times through the load


def in_c(function: ctypes._CFuncPtr, packets: list[bytes]) -> Way:
    """A loop of decode_core.c over these packets."""
    function.restype = ctypes.c_uint64
    data = b"".join(packets)
    sizes = (ctypes.c_uint32 * len(packets))(*map(len, packets))
    return lambda rounds: function(data, sizes, len(packets), rounds) / 1e9


def in_python(call: Callable[[], object]) -> Way:
    """A call, so many times."""

    def run(rounds: int) -> float:
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        return time.perf_counter() - start

    return run


def decode_all(packets: list[bytes]) -> None:
    """Make objects of every message."""
    for packet in packets:
        wire.decode(packet)


def dissect_all(packets: list[bytes]) -> None:
    """The same by scapy."""
    for packet in packets:
        PyddsiPacket(packet)


def rounds_for(way: Way) -> int:
    """How many rounds take about TARGET_S."""
    rounds = 1
    while (taken := way(rounds)) < TARGET_S / 4 and rounds < 1 << 24:
        rounds *= 2
    return max(1, int(rounds * TARGET_S / max(taken, 1e-9)))


def measure(title: str, packets: list[bytes], library: ctypes.CDLL, repeats: int) -> None:
    """Time all ways in turn and print the load's table."""
    messages = sum(len(wire.decode(packet)) for packet in packets)
    few = packets[:: max(1, len(packets) // SCAPY_PACKETS)]
    few_messages = sum(len(wire.decode(packet)) for packet in few)
    ways: dict[str, tuple[Way, int]] = {
        "memcpy": (in_c(library.bench_copy, packets), messages),
        "C decode": (in_c(library.bench_decode, packets), messages),
        "C encode": (in_c(library.bench_encode, packets), messages),
        "Python columns": (in_python(lambda: wire.columns(packets)), messages),
        "Python decode": (in_python(lambda: decode_all(few)), few_messages),
        "scapy dissect": (in_python(lambda: dissect_all(few)), few_messages),
    }
    rounds = {name: rounds_for(way) for name, (way, _) in ways.items()}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, (way, count) in ways.items():
            rates[name].append(count * rounds[name] / way(rounds[name]))
    size = sum(map(len, packets))
    print(
        f"\n{title}: {len(packets)} packets, {messages} messages, {size / messages:.1f} bytes each\n"
    )
    print(
        f"{'':16} {'messages/s':>14} {'(lowest - highest)':>32} {'x scapy':>9} {'of memcpy':>10} {'of C decode':>12}"
    )
    middle = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        spread = f"({min(values):,.0f} - {max(values):,.0f})"
        print(
            f"{name:16} {middle[name]:14,.0f} {spread:>32} {middle[name] / middle['scapy dissect']:9,.0f}"
            f" {middle[name] / middle['memcpy']:10.1%} {middle[name] / middle['C decode']:12.1%}"
        )


def main() -> int:
    """Run all loads."""
    parser = argparse.ArgumentParser(description="Decode and encode speed, side by side.")
    parser.add_argument("--rounds", type=int, default=7, help="timings of each way (default: 7)")
    repeats = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        for title, packets in (
            ("full packets", packed()),
            ("single samples", single()),
            ("golden captures", golden()),
        ):
            measure(title, packets, library, repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
