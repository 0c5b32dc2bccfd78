"""
What this machine can do at all, beside which the other figures stand: limits.c, compiled and run.

    ./run bench limits [--rounds N] [--quick] [--json FILE]

Rates are counted where messages arrive, and have what was lost beside them: nothing holds a sender of bare datagrams
back. The ring's writer copies each message in, its reader looks at the number in front of each; it publishes every
message, or every thirty-second one. A round trip is the median of a word's way between two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from _peers_tables import limit_table

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(__file__).with_name("limits.c")
PROGRAM = ROOT / ".pyddsi-build" / "limits"
FLAGS = ["-std=c11", "-O3", "-Wall", "-Wextra"]
MILLISECONDS = 300
QUICK_MILLISECONDS = 60
TIMEOUT_S = 30

SMALL = (64, 1024, 8192)
# What the table says, with its unit; the name in limits.c; the sizes, or none where there is no size.
LIMITS: list[tuple[str, str, tuple[int, ...]]] = [
    ("memcpy, bytes/s", "memcpy", (64, 1024, 65536, 1048576, 67108864)),
    ("clock reading, ns", "clock", ()),
    ("system call, ns", "system-call", ()),
    ("shared-memory ring, each message published, messages/s", "ring", (8, 64, 1024, 8192, 65536)),
    ("shared-memory ring, 32 at once, messages/s", "ring-32", (8, 64, 1024, 8192, 65536)),
    ("UDP, one datagram a call, messages/s", "udp", SMALL),
    ("UDP, sendmmsg and recvmmsg, messages/s", "udp-mmsg", SMALL),
    ("UDP, GSO to plain receive, messages/s", "udp-gso", SMALL),
    ("UDP, GSO to GRO, messages/s", "udp-gso-gro", SMALL),
    ("Unix datagrams, messages/s", "unix", SMALL),
    ("round trip, shared word, spinning, two processors, µs", "spin", ()),
    ("round trip, futex, two processors, µs", "futex-two", ()),
    ("round trip, futex, one processor, µs", "futex-one", ()),
    ("round trip, eventfd, two processors, µs", "eventfd-two", ()),
    ("round trip, eventfd, one processor, µs", "eventfd-one", ()),
]
NEED_TWO = {"spin", "futex-two", "eventfd-two"}

Limits = dict[str, dict[str, list[dict[str, float]]]]


def build() -> Path:
    """The program, compiled if the source is newer."""
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(exist_ok=True)
        fresh = PROGRAM.with_name(f"limits.{os.getpid()}")
        compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
        subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(fresh)], check=True)
        fresh.replace(PROGRAM)
    return PROGRAM


def add(results: Limits, *, quick: bool) -> None:
    """Measure everything once and add it to what is there."""
    program = build()
    milliseconds = QUICK_MILLISECONDS if quick else MILLISECONDS
    for what, name, sizes in LIMITS:
        if name in NEED_TWO and len(os.sched_getaffinity(0)) < 2:
            continue
        for size in sizes or (8,):
            command = [str(program), name, str(size), str(milliseconds)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
            if done.returncode != 0:
                sys.stderr.write(f"{what}: {done.stderr.strip() or done.returncode}\n")
                continue
            value, lost = map(float, done.stdout.split())
            found = {"value": value}
            if name.startswith("udp"):
                found["lost"] = lost
            at = f"{size}" if sizes else ""
            results.setdefault(what, {}).setdefault(at, []).append(found)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What this machine can do at all.")
    parser.add_argument("--rounds", type=int, default=4, help="measurements of each limit (4)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    chosen = parser.parse_args()
    results: Limits = {}
    for _ in range(1 if chosen.quick else chosen.rounds):
        add(results, quick=chosen.quick)
    print(limit_table(results))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
