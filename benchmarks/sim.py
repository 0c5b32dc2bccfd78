"""
How fast samples go through two nodes in memory, on one core, side by side in one run.

    ./run bench sim [--rounds N] [--quick]     the rates, each beside a memcpy of the same bytes
    ./run bench sim --count                    only what can be repeated: instructions and bytes
    ./run bench sim --record                   the same, and keep the instructions in sim_instructions.json

The nodes are joined without faults: put, packet, deliver, take, release, acknowledge, all in one thread. Each load is
timed in turn, N times over, and after each timing its payloads are copied once by memcpy; the tables show the median
and, in brackets, the lowest and highest. Rates depend on the machine and on what else it does. Instructions do not:
valgrind counts those below each step of _node_core.c, each load is counted twice and must give the same number, and the
table says how that differs from what was recorded.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path(__file__).with_name("sim_instructions.json")
ROOMS = ("base", "flow", "wire", "proto", "node")
FLAGS = ["-std=gnu11", "-O3", "-fvisibility=hidden", "-fPIC"]  # as in pyddsi/_build.py
TARGET_S = 0.2  # one timing takes about this long
TARGET_RATE = 1_000_000  # samples of 64 bytes a second
PUT, MANY, LOAN = range(3)
MULTICAST, EACH = 0, 2
SAME = 0.005  # below this a count has not changed

# What the core does for a sample, and the functions of _node_core.c that do it.
STEPS = {
    "put": ["step_put"],
    "packet": ["step_packet"],
    "deliver": ["step_deliver"],
    "take": ["step_take", "step_release"],
    "ack": ["step_ack_write", "step_ack_read"],
    "tick": ["step_tick"],
}


@dataclass(frozen=True)
class Load:
    """What is sent, and how: struct load of _node_core.c, in its order."""

    size: int
    kind: int = PUT
    batch: int = 1
    burst: int = 128
    way: int = MULTICAST
    receivers: int = 1
    reliable: int = 1
    seq_bits: int = 0


LOADS = {
    "64 bytes": Load(64),
    "8 bytes": Load(8),
    "1 KiB": Load(1024),
    "64 bytes, 16 at once": Load(64, MANY, batch=16, burst=8),
    "64 bytes, loan": Load(64, LOAN),
    "64 bytes, unicast": Load(64, way=EACH),
    "64 bytes, to 3 nodes": Load(64, receivers=3),
    "64 bytes, one by one": Load(64, burst=1),
    "64 bytes, best effort": Load(64, burst=16, reliable=0),
    "1 MiB, in fragments": Load(1 << 20, burst=1),
}


class CLoad(ctypes.Structure):
    """struct load."""

    _fields_ = [(name, ctypes.c_uint32) for name in Load.__dataclass_fields__]


class Cost(ctypes.Structure):
    """struct cost."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "samples",
            "taken",
            "ns",
            "packets",
            "bytes",
            "ack_packets",
            "ack_bytes",
            "waits",
        )
    ]


def build(folder: Path) -> tuple[ctypes.CDLL, Path]:
    """The loops in C with the core's sources, as a library and as a program."""
    sources = [ROOT / "benchmarks" / "_node_core.c"]
    for room in ROOMS:
        sources += sorted((ROOT / "csrc" / room).glob("*.c"))
    include = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc/include'}"]

    def compiled(source: Path) -> str:
        output = str(folder / f"{source.parent.name}_{source.stem}.o")
        command = ["cc", *FLAGS, *include, "-c", str(source), "-o", output]
        subprocess.run(command, check=True)
        return output

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, sources))
    library, program = folder / "node_core.so", folder / "node_core"
    for command in (
        ["cc", "-shared", *objects, "-o", str(library)],
        ["cc", *objects, "-o", str(program)],
    ):
        subprocess.run(command, check=True)
    loops = ctypes.CDLL(str(library))
    loops.bench_new.restype = ctypes.c_void_p
    loops.bench_copy.restype = ctypes.c_uint64
    return loops, program


# ---- rates --------------------------------------------------------------------------------------


class World:
    """Nodes made for one load, warm and ready."""

    def __init__(self, library: ctypes.CDLL, load: Load) -> None:
        self.library = library
        self.load = load
        self.at = ctypes.c_void_p(library.bench_new(ctypes.byref(CLoad(*astuple(load)))))
        if self.at.value is None:
            raise SystemExit(f"no nodes for {load}")
        self.samples = 1
        taken = 0.0
        while taken < TARGET_S / 4 and self.samples < 1 << 26:
            self.samples *= 2
            taken = self.run().ns / 1e9
        self.samples = max(load.batch, int(self.samples * TARGET_S / taken))

    def run(self, samples: int = 0) -> Cost:
        """So many samples, or as many as make a good timing."""
        cost = Cost()
        wanted = max(samples or self.samples, self.load.batch)
        if self.library.bench_run(self.at, ctypes.c_uint64(wanted), ctypes.byref(cost)) != 0:
            raise SystemExit(f"samples do not arrive: {self.load}")
        return cost

    def copy(self, samples: int) -> float:
        """The seconds that a memcpy of as many payloads takes."""
        return float(self.library.bench_copy(self.at, ctypes.c_uint64(samples))) / 1e9

    def close(self) -> None:
        """Give the memory back."""
        self.library.bench_free(self.at)


def rates(library: ctypes.CDLL, loads: dict[str, Load], repeats: int) -> None:
    """Time all loads in turn and print the table."""
    worlds = {name: World(library, load) for name, load in loads.items()}
    got: dict[str, list[float]] = {name: [] for name in loads}
    copied: dict[str, list[float]] = {name: [] for name in loads}
    costs: dict[str, Cost] = {}
    for _ in range(repeats):
        for name, world in worlds.items():
            cost = costs[name] = world.run()
            got[name].append(cost.samples * 1e9 / cost.ns)
            times = max(1, 1 << 26 >> (loads[name].size + 32).bit_length())
            copied[name].append(times / world.copy(times))
    print("\nthrough the nodes, one thread: samples put, delivered, taken and acknowledged\n")
    print(
        f"{'':22} {'samples/s':>12} {'(lowest - highest)':>25} {'payload MB/s':>12} {'ns':>9}"
        f" {'memcpy/s':>13} {'of memcpy':>9} {'samples a packet':>16} {'acks/sample':>11}"
    )
    for name, values in got.items():
        rate, cost = statistics.median(values), costs[name]
        yardstick = statistics.median(copied[name])
        spread = f"({min(values):,.0f} - {max(values):,.0f})"
        print(
            f"{name:22} {rate:12,.0f} {spread:>25} {rate * loads[name].size / 1e6:12,.0f} {1e9 / rate:9,.0f}"
            f" {yardstick:13,.0f} {rate / yardstick:9.2%} {cost.samples / cost.packets:16.2f}"
            f" {cost.ack_packets / cost.samples:11.5f}"
        )
    best, middle = max(got["64 bytes"]), statistics.median(got["64 bytes"])
    word = (
        "reached"
        if middle >= TARGET_RATE
        else "reached at best"
        if best >= TARGET_RATE
        else "missed"
    )
    print(f"\nthe aim of {TARGET_RATE:,} samples of 64 bytes a second on one core: {word}")
    for world in worlds.values():
        world.close()


# ---- bytes --------------------------------------------------------------------------------------


def overhead(library: ctypes.CDLL, load: Load) -> float:
    """The bytes that a sample takes on the wire beside its payload."""
    world = World(library, load)
    cost = world.run(load.batch * 64 * 16)
    world.close()
    return int(cost.bytes) / int(cost.samples) - load.size


def overheads(library: ctypes.CDLL) -> None:
    """
    002-129: a sample of one byte costs four bytes beside its payload, and one of a batch of n costs (4 + n) / n.

    The four are header, sequence number, resource id and length. A batch has the first three once, then how many
    samples there are, then a length for each. (The row's (3 + n) / n is that without the count, which the encoding
    cannot do without: a batch need not be the last message of its packet.) Numbers from 128 on take a second byte, so
    with the usual 14 bits nearly all take two, and the four are five; the 7-bit column shows the least.
    """
    print("\nbytes on the wire beside the payload, for samples of one byte\n")
    print(
        f"{'':22} {'7-bit numbers':>13} {'14-bit numbers':>14} {'(4 + n) / n':>12} {'(3 + n) / n':>12}"
    )
    for batch in (1, 2, 8, 64, 255):
        kind = MANY if batch > 1 else PUT
        name = f"batches of {batch}" if batch > 1 else "one by one, packed"
        seven, usual = (
            overhead(library, Load(1, kind, batch=batch, burst=4, seq_bits=bits))
            for bits in (7, 14)
        )
        least = (4 + batch) / batch if batch > 1 else 4.0
        print(f"{name:22} {seven:13.3f} {usual:14.3f} {least:12.3f} {(3 + batch) / batch:12.3f}")


# ---- instructions -------------------------------------------------------------------------------


def below(profile: str) -> dict[str, int]:
    """
    The instructions in and below each step. callgrind's file has a block for each function: lines of its own cost,
    and behind each line `calls=` one with the cost of the call. All numbers of a block together are what we want.
    """
    names: dict[str, str] = {}
    total: dict[str, int] = {}
    function = ""
    for line in profile.splitlines():
        if found := re.match(r"fn=(\(\d+\))(?: (\S+))?", line):
            function = names[found[1]] = found[2] or names[found[1]]
        elif found := re.match(r"c?(?:fn|fl|ob|fi|fe)=(\(\d+\))(?: (\S+))?", line):
            if found[2] and line.startswith("cfn="):
                names[found[1]] = found[2]
        elif found := re.match(r"[+*-]?\d* (\d+)$", line):
            total[function] = total.get(function, 0) + int(found[1])
    return total


def count(program: Path, load: Load, samples: int) -> dict[str, int]:
    """The instructions of each step while so many samples pass, and before them the nodes meet."""
    functions = [function for some in STEPS.values() for function in some]
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"]
        command += [f"--toggle-collect={function}" for function in functions]
        command += [str(program), *map(str, astuple(load)), str(samples)]
        subprocess.run(command, check=True, capture_output=True)
        total = below(profile.read_text(encoding="utf-8"))
    return {step: sum(total.get(function, 0) for function in STEPS[step]) for step in STEPS}


def per_sample(program: Path, load: Load) -> dict[str, float]:
    """Instructions for one sample in each step: the difference of a longer run, made twice, and a shorter one."""
    few = 2 if load.size > 65536 else 1024
    short = count(program, load, few)
    longer, again = (count(program, load, 5 * few) for _ in range(2))
    if longer != again:
        print(f"not repeatable: {load}: {longer} and then {again}")
    counts = {step: round((longer[step] - short[step]) / (4 * few), 1) for step in STEPS}
    counts["all"] = round(sum(counts.values()), 1)
    return counts


def instructions(program: Path, loads: dict[str, Load], *, record: bool) -> None:
    """Count, compare with what was recorded, and record if asked."""
    if shutil.which("valgrind") is None:
        print("\nno valgrind here, so no instructions are counted")
        return
    command = ["cc", "--version"]
    compiler = subprocess.run(command, check=True, capture_output=True, text=True)
    kept = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    before = kept.get("instructions", {})
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda load: per_sample(program, load), loads.values())
    counts = dict(zip(loads, found, strict=True))
    columns = [*STEPS, "all"]
    print(
        "\ninstructions for a sample; below, where it differs, the change since they were recorded\n"
    )
    print(f"{'':22} " + " ".join(f"{step:>10}" for step in columns))
    for name, row in counts.items():
        print(f"{name:22} " + " ".join(f"{row[step]:10,.1f}" for step in columns))
        old = before.get(name)
        if old is not None and any(changed(row[step], old[step]) for step in columns):
            words = [
                f"{row[step] - old[step]:+10,.1f}" if changed(row[step], old[step]) else " " * 10
                for step in columns
            ]
            print(f"{'':22} " + " ".join(words))
    name = compiler.stdout.splitlines()[0]
    if kept and kept["compiler"] != name:
        print(f"\nrecorded with another compiler: {kept['compiler']}; this is {name}")
    if record:
        text = json.dumps({"compiler": name, "flags": FLAGS, "instructions": counts}, indent=1)
        RECORD.write_text(text + "\n", encoding="utf-8")
        print(f"\nrecorded in {RECORD.relative_to(ROOT)}")


def changed(now: float, before: float) -> bool:
    """Whether two counts differ by more than rounding."""
    return abs(now - before) > max(0.2, SAME * before)


def main() -> int:
    """Run all loads."""
    parser = argparse.ArgumentParser(description="Samples through two nodes in memory.")
    parser.add_argument("--rounds", type=int, default=7, help="timings of each load (default: 7)")
    parser.add_argument("--quick", action="store_true", help="the first load alone, no counts")
    parser.add_argument("--count", action="store_true", help="no timings: instructions and bytes")
    parser.add_argument("--record", action="store_true", help="keep the instructions counted")
    chosen = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        library, program = build(Path(folder))
        loads = dict(list(LOADS.items())[:1]) if chosen.quick else LOADS
        if not (chosen.count or chosen.record):
            rates(library, loads, chosen.rounds)
        if not chosen.quick:
            overheads(library)
            instructions(program, loads, record=chosen.record)
    print(f"\n{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
