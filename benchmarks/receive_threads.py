"""
002-80: how receiving scales over the threads of one session (the setting `receive_threads`), in C: udp_core.c.

    ./run bench receive_threads [--rounds N] [--quick] [--json FILE]

Several publishers, each in a process of its own, send reliable samples over UDP to one session of this machine, which receives
by 1, 2 and 4 threads in turn. All samples arrive, in order, or the program fails. The table has the median and, in
brackets, the lowest and highest rate; the rate as part of that with one thread, round by round; the receiving process's time
of processors for a million samples, its program's own thread included; and how the packets were shared among its threads.
Publishers and receiver share the processors, so more threads help only where some of these are idle.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from udp import Load, build, run, spread

MILLISECONDS = 500
QUICK_MILLISECONDS = 100
PUBLISHERS = 3
THREADS = (1, 2, 4)
LOADS = [Load(8, 512), Load(64, 1), Load(1024, 1), Load(1024, 64)]


def measure(rounds: int, milliseconds: int) -> dict[str, dict[int, list[list[float]]]]:
    """Everything in turn, so many times."""
    program = build()
    found: dict[str, dict[int, list[list[float]]]] = {}
    for turn in range(rounds):
        for load in LOADS:
            row = found.setdefault(str(load), {threads: [] for threads in THREADS})
            for threads in THREADS if turn % 2 == 0 else THREADS[::-1]:
                got = run(
                    program, "receive", load.size, load.how, milliseconds, PUBLISHERS, threads
                )
                row[threads].append(got)
    return found


def table(found: dict[str, dict[int, list[list[float]]]]) -> None:
    """Print it."""
    print(
        "| load | threads | samples/s | of one thread | CPU s a million | packets of each thread |"
    )
    print("|---|---|---|---|---|---|")
    for load, row in found.items():
        for threads, rounds in row.items():
            ratio = statistics.median(
                got[0] / one[0] for got, one in zip(rounds, row[1], strict=True)
            )
            seconds = statistics.median(got[1] / 1000 for got in rounds)
            packets = [sum(column) for column in zip(*(got[3:] for got in rounds), strict=True)]
            shares = ", ".join(f"{count / sum(packets):.0%}" for count in packets)
            print(
                f"| {load} | {threads} | {spread([got[0] for got in rounds])} | {ratio:.2f}x"
                f" | {seconds:.3f} | {shares} |"
            )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How receiving scales over threads.")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each load (9)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    chosen = parser.parse_args()
    rounds = 1 if chosen.quick else chosen.rounds
    found = measure(rounds, QUICK_MILLISECONDS if chosen.quick else MILLISECONDS)
    print(f"{PUBLISHERS} publishers, {len(os.sched_getaffinity(0))} processors\n")
    table(found)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
