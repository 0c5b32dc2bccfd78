"""
How fast the headers of a capture are walked.

    ./run bench container [--rounds N]

Captures of 64 MiB with records of 200 bytes in the mean, in memory, gone through in blocks of 1 MiB. `copy` is a plain copy
of the blocks, which is about what reading a file from the page cache costs. Each is timed in turn, N times over; the table
shows the median of the nanoseconds for each frame and, in brackets, the lowest and highest.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=gnu11", "-O3", "-fvisibility=hidden", "-fPIC", "-shared"]  # as in pyddsi/_build.py
SIZE = 64 << 20
KINDS = ("pcap", "pcap, other byte order", "pcapng")


class Times(ctypes.Structure):
    """What container_walk counts."""

    _fields_ = (
        ("frames", ctypes.c_uint64),
        ("copy_ns", ctypes.c_uint64),
        ("walk_ns", ctypes.c_uint64),
    )


def build(folder: Path) -> ctypes.CDLL:
    """The loops in C, with the core's sources."""
    rooms = ("base", "capture", "wire")
    sources = [file for room in rooms for file in (ROOT / "csrc" / room).glob("*.c")]
    library = folder / "container_core.so"
    include = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc/include'}"]
    main_file = str(ROOT / "benchmarks/container_core.c")
    command = ["cc", *FLAGS, *include, main_file, *map(str, sources), "-o", str(library)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.container_make.restype = ctypes.c_uint64
    return loaded


def row(name: str, values: list[float]) -> str:
    """A line of the table."""
    spread = f"({min(values):.2f} - {max(values):.2f})"
    return f"{name:26} {statistics.median(values):8.2f} {spread:>20}"


def walk(library: ctypes.CDLL, repeats: int) -> None:
    """Time the walk of each kind of file, in turn."""
    captures = []
    for kind in range(len(KINDS)):
        memory = ctypes.create_string_buffer(SIZE)
        captures.append((memory, library.container_make(kind, memory, ctypes.c_uint64(SIZE))))
    times = Times()
    found: dict[str, list[float]] = {"copy": [], **{name: [] for name in KINDS}}
    for _ in range(repeats):
        for name, (memory, size) in zip(KINDS, captures, strict=True):
            library.container_walk(memory, ctypes.c_uint64(size), ctypes.byref(times))
            found[name].append(times.walk_ns / times.frames)
            if name == KINDS[0]:
                found["copy"].append(times.copy_ns / times.frames)
    print(f"\nwalk over {SIZE >> 20} MiB, {times.frames:,} frames\n")
    print(f"{'':26} {'ns/frame':>8} {'(lowest - highest)':>20}")
    for name, values in found.items():
        print(row(name, values))


def main() -> int:
    """Walk."""
    parser = argparse.ArgumentParser(description="How fast captures are walked.")
    parser.add_argument("--rounds", type=int, default=7, help="timings of each kind (default: 7)")
    repeats = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        walk(build(Path(folder)), repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
