"""
Many processes in one group, with the settings that everybody has: does each find all others, and what does it cost?

    ./run bench crowd                     20, 40 and 100 processes, one crowd after the other
    ./run bench crowd 20 200 --seconds 30 --json
    ./run bench crowd --sockets           without shared memory, as if each were on a machine of its own

Each process has a publisher of its own and one subscriber to all of them, and puts one sample when all are there. The
columns: how long until each process was matched with all others, and had a sample of each; private memory of a process,
and what of it a process alone does not have; CPU and packets of a process while nothing happens. The last lines are the
exponents: how each figure grows with the number of processes, from the smallest crowd to the largest. Exit status 1 if
some process lacks a peer or a sample.

100 processes take about 3 GB, and on two processors a minute or two.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

SIZES = (20, 40, 100)
PATIENCE = 300.0
SETTLE = 22.0  # two leases: until the round trip to an idle peer is known, and it rests

CHILD = """
import json, os, sys, time
import pyddsi

index, count = int(sys.argv[2]), int(sys.argv[3])
until = time.monotonic() + float(sys.argv[5])
with pyddsi.open(group=sys.argv[1], shared_memory=sys.argv[4] == "shared") as session:
    subscriber = session.subscriber("crowd/*")
    publisher = session.publisher(f"crowd/{index}")
    found, heard = False, set()

    def say(word, **more):
        print(json.dumps({"word": word, **more}), flush=True)

    def memory():
        rows = (line.split() for line in open("/proc/self/smaps_rollup"))
        return next(int(row[1]) for row in rows if row[0] == "Private_Dirty:")

    def peers():
        return sum(peer.state == "established" for peer in session.peers())

    def wait(ready):
        while not (done := ready()) and time.monotonic() < until:
            time.sleep(0.05)
        return done

    say("open")
    for line in sys.stdin:
        word = line.strip()
        if word == "matched":
            wait(lambda: len(publisher.matched) >= count - 1 and peers() >= count - 1)
            say(word, peers=peers(), matched=len(publisher.matched), why=session.why_not("crowd/*"))
        elif word == "heard":
            publisher.put(index.to_bytes(4, "big"))

            def all_heard():
                while (sample := subscriber.poll()) is not None:
                    heard.add(sample.data)
                return len(heard) >= count

            wait(all_heard)
            say(word, heard=len(heard))
        else:
            cpu = time.process_time()
            stats = session.stats()
            say(word, memory=memory(), cpu=cpu, packets_in=stats.packets_in, packets_out=stats.packets_out)
"""


@dataclass(frozen=True)
class Crowd:
    """What was measured of one number of processes; the figures of a process are medians."""

    processes: int
    peers_least: int
    heard_least: int
    matched_seconds: float
    heard_seconds: float
    memory_kib: float
    memory_more_kib: float
    cpu_percent: float
    packets_in: float
    packets_out: float
    why: str

    @property
    def whole(self) -> bool:
        """Whether each had all others, and a sample of each."""
        return self.peers_least == self.processes - 1 and self.heard_least == self.processes


class Child:
    """One process of the crowd."""

    def __init__(self, arguments: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, word: str) -> None:
        """Without waiting for the answer."""
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """To what was asked last."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process of the crowd has ended before its time")
        found: dict[str, Any] = json.loads(line)
        return found


def _all(children: list[Child], word: str) -> list[dict[str, Any]]:
    for child in children:
        child.ask(word)
    return [child.answer() for child in children]


def measure(count: int, seconds: float, *, shared: bool) -> Crowd:
    """One crowd, from its first process to its end."""
    pid = os.getpid()
    group = f"239.255.{pid >> 8 & 255}.{pid & 255}:{20000 + (pid + count) % 12000}"
    how = "shared" if shared else "sockets"
    children: list[Child] = []
    try:
        for index in range(count):
            children.append(Child([group, str(index), str(count), how, str(PATIENCE)]))
        for child in children:
            child.answer()
        begun = time.monotonic()
        matched = _all(children, "matched")
        matched_seconds = time.monotonic() - begun
        begun = time.monotonic()
        heard = _all(children, "heard")
        heard_seconds = time.monotonic() - begun
        time.sleep(SETTLE)
        before = _all(children, "look")
        since = time.monotonic()
        time.sleep(seconds)
        after = _all(children, "look")
        lasted = time.monotonic() - since
    finally:
        for child in children:
            child.process.kill()
        for child in children:
            child.process.communicate()

    def rate(key: str) -> float:
        return median((b[key] - a[key]) / lasted for a, b in zip(before, after, strict=True))

    lacking = [row for row in matched if row["matched"] < count - 1]
    memory = median(row["memory"] for row in after)
    return Crowd(
        processes=count,
        peers_least=min(row["peers"] for row in matched),
        heard_least=min(row["heard"] for row in heard),
        matched_seconds=matched_seconds,
        heard_seconds=heard_seconds,
        memory_kib=memory,
        memory_more_kib=0.0,
        cpu_percent=100 * rate("cpu"),
        packets_in=rate("packets_in"),
        packets_out=rate("packets_out"),
        why=lacking[0]["why"] if lacking else "",
    )


COLUMNS: list[tuple[str, str, str]] = [
    ("processes", "processes", ".0f"),
    ("peers, least", "peers_least", ".0f"),
    ("samples, least", "heard_least", ".0f"),
    ("all matched, s", "matched_seconds", ".1f"),
    ("all heard, s", "heard_seconds", ".1f"),
    ("memory, MiB", "memory_kib", ".1f"),
    ("for peers, KiB", "memory_more_kib", ".0f"),
    ("idle CPU, %", "cpu_percent", ".2f"),
    ("packets in/s", "packets_in", ".1f"),
    ("packets out/s", "packets_out", ".2f"),
]
GROW = ("memory_more_kib", "cpu_percent", "packets_in", "packets_out")


def _row(crowd: Crowd) -> list[str]:
    found = []
    for _, field, form in COLUMNS:
        value = getattr(crowd, field) / (1024 if field == "memory_kib" else 1)
        found.append(format(value, form))
    return found


def _exponents(crowds: list[Crowd]) -> list[str]:
    """How each figure of a process grows with their number: the power of it."""
    first, last = crowds[0], crowds[-1]
    span = math.log((last.processes - 1) / (first.processes - 1))
    lines = []
    for title, field, _ in COLUMNS:
        before, after = getattr(first, field), getattr(last, field)
        if field in GROW and before > 0 and after > 0:
            power = math.log(after / before) / span
            lines.append(f"{title.split(',')[0]}: peers to the power of {power:.2f}")
    return lines


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What many processes in one group cost.")
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="how many processes")
    parser.add_argument("--seconds", type=float, default=20.0, help="of idleness (20)")
    parser.add_argument("--sockets", action="store_true", help="without shared memory")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    options = parser.parse_args()
    alone = measure(1, 1.0, shared=not options.sockets)
    crowds = []
    heads = [title for title, _, _ in COLUMNS]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads), flush=True)
    for size in sorted(options.sizes):
        found = measure(size, options.seconds, shared=not options.sockets)
        more = found.memory_kib - alone.memory_kib
        crowds.append(replace(found, memory_more_kib=more))
        print("| " + " | ".join(_row(crowds[-1])) + " |", flush=True)
        if found.why:
            print(f"\nSome process lacks peers, and says: {found.why}\n", flush=True)
    if len(crowds) > 1:
        print("\n" + "\n".join(_exponents(crowds)))
    if options.json is not None:
        rows = [asdict(crowd) for crowd in crowds]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(not all(crowd.whole for crowd in crowds))


if __name__ == "__main__":
    sys.exit(main())
