"""
What a put costs that many subscribers of its own session match, and what declaring them costs.

    ./run bench subscribers                 1, 10, 100 and 1,000 subscribers
    ./run bench subscribers 1 5000 --rounds 20 --json

Each subscriber has a name of its own or one pattern for all; the publisher puts samples of 64 bytes, which all of them
read between two measurements. A figure is the least of all rounds, since other programs only add to it. The last lines
are the exponents, from the smallest number of subscribers that is at least 10 to the largest.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import asdict, dataclass

import pyddsi

SIZES = (1, 10, 100, 1000)
PUTS = 50
SIZE = 64


@dataclass(slots=True)
class Row:
    """One number of subscribers."""

    subscribers: int
    declare_us: float
    put_us: float


def measure(count: int, rounds: int) -> Row:
    """A session with so many."""
    group = f"239.255.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:{20000 + os.getpid() % 12000}"
    payload = bytes(SIZE)
    with pyddsi.open(group=group, resources_max=2 * count + 64) as session:
        publisher = session.publisher("bench/of/many")
        begun = time.perf_counter()
        subscribers = [session.subscriber("bench/*/many", depth=2 * PUTS) for _ in range(count)]
        declared = time.perf_counter() - begun
        least = math.inf
        for _ in range(rounds):
            begun = time.perf_counter()
            for _ in range(PUTS):
                publisher.put(payload)
            least = min(least, time.perf_counter() - begun)
            for one in subscribers:
                left = PUTS
                while left:
                    left -= len(one.recv_many(left, timeout=10.0))
    return Row(count, declared / count * 1e6, least / PUTS * 1e6)


def exponent(first: Row, last: Row) -> float:
    """How a put grows."""
    return math.log(last.put_us / first.put_us) / math.log(last.subscribers / first.subscribers)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").strip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), metavar="SUBSCRIBERS")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rows = [measure(count, chosen.rounds) for count in sorted(chosen.sizes)]
    if chosen.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return 0
    print("| subscribers | declaring one, us | a put, us | a put for each, ns |")
    print("| --- | --- | --- | --- |")
    for row in rows:
        each = row.put_us / row.subscribers * 1000
        print(f"| {row.subscribers} | {row.declare_us:.1f} | {row.put_us:.2f} | {each:.0f} |")
    many = [row for row in rows if row.subscribers >= SIZES[1]]
    if len(many) > 1:
        print(f"\na put: subscribers to the power of {exponent(many[0], many[-1]):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
