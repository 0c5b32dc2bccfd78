"""
How well a replay keeps its times, and how fast it can be.

    ./run bench replay [--rounds N] [--quick] [--json FILE]

A made-up recording of ten seconds, packets some 0.4 ms apart at random, is replayed to a socket of this machine that is
read all the time: raw, by the thread that looks at the clock for the last 30 µs before a deadline, and by the same thread
without that; and into a session, whose times Python keeps by sleeping. Drift is how late the last packet left. Then the
same packets as fast as the machine can, each round beside a bare sendmmsg loop (replay_core.c) to the same socket.

The table shows the median of the rounds and, in brackets, the best and worst; the aims are for a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyddsi
from pyddsi import wire
from pyddsi.capture import Endpoint, replay
from pyddsi.capture.replay import Pace, RawReplay, Recording, Route, SessionReplay, _raw
from pyddsi.capture.write import write_datagrams

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(__file__).with_name("replay_core.c")
PROGRAM = ROOT / ".pyddsi-build" / "replay_core"
SECOND = 1_000_000_000
SECONDS, QUICK_SECONDS = 10, 1
APART_NS = 400_000
PAYLOAD = 107
FAST_LOOPS, QUICK_LOOPS = 40, 4
HERE, GROUP = Endpoint("10.0.0.1", 40000), Endpoint("239.255.0.1", 7447)
AIMS = {"drift": 100e-6, "p99": 300e-6, "ratio": 0.8}

Times = dict[str, list[tuple[float, float, float]]]


def build() -> Path:
    """The program, compiled if the source is newer."""
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(exist_ok=True)
        compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
        fresh = PROGRAM.with_name(f"replay_core.{os.getpid()}")
        subprocess.run([compiler, "-std=gnu11", "-O3", str(SOURCE), "-o", str(fresh)], check=True)
        fresh.replace(PROGRAM)
    return PROGRAM


@contextmanager
def drained() -> Iterator[int]:
    """The port of a socket that somebody reads."""
    with subprocess.Popen([str(build()), "drain"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def record(path: Path, seconds: float) -> tuple[int, int]:
    """A recording of best-effort samples at random times; how many, and how large each packet is."""
    rand, packets, at = random.Random(1), [], SECOND
    while at < (1 + seconds) * SECOND:
        sample = wire.SData(len(packets) % 16384, 1, bytes(PAYLOAD), reliable=False)
        packets.append((at, HERE, GROUP, wire.encode([sample])))
        at += int(rand.expovariate(1 / APART_NS))
    write_datagrams(path, packets)
    return len(packets), len(packets[-1][3])


def raw(path: Path, port: int, spin_ns: int) -> replay.Sent:
    """Replayed at its times."""
    _raw.SPIN_NS = spin_ns
    return RawReplay(Recording(path), Pace(), Route(to=("127.0.0.1", port))).run()


def into_session(path: Path) -> replay.Published:
    """The same samples into a session that hears itself."""
    with pyddsi.open(group="239.255.77.77:17777", interface="lo") as session:
        session.subscriber(1, on_full="drop_oldest")
        return SessionReplay(Recording(path), session).run()


def bare(port: int, count: int, size: int) -> float:
    """Datagrams a second of a bare loop."""
    command = [str(build()), "send", str(port), str(count), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return count * SECOND / int(done.stdout)


def flat_out(path: Path, port: int, loops: int) -> float:
    """Datagrams a second of a replay."""
    pace, route = Pace(flat_out=True, loop=loops), Route(to=("127.0.0.1", port))
    report = RawReplay(Recording(path), pace, route).run()
    return report.packets / report.seconds


def spread(values: list[float], show: Callable[[float], str]) -> str:
    """The median, and in brackets the best and worst."""
    low, high = min(values), max(values)
    return f"{show(statistics.median(values))} ({show(low)} to {show(high)})"


def micro(seconds: float) -> str:
    """A time."""
    return f"{seconds * 1e6:.1f} µs"


def table(times: Times, rates: list[tuple[float, float]]) -> None:
    """Print it."""
    print(
        f"| times kept by | drift at the end (aim: {micro(AIMS['drift'])}) | late: p50 | p99 (aim: {micro(AIMS['p99'])}) |"
    )
    print("|---|---|---|---|")
    for name, found in times.items():
        drifts, halves, tails = zip(*found, strict=True)
        print(
            f"| {name} | {spread(list(drifts), micro)} | {spread(list(halves), micro)} | {spread(list(tails), micro)} |"
        )
    print()
    print(f"| packets a second | bare sendmmsg | of it (aim: {AIMS['ratio']:g}) |")
    print("|---|---|---|")
    ours, theirs = [one for one, _ in rates], [two for _, two in rates]
    ratios = [one / two for one, two in rates]
    shown: Callable[[float], str] = lambda rate: f"{rate / 1e3:,.0f} k"  # noqa: E731
    print(
        f"| {spread(ours, shown)} | {spread(theirs, shown)} | {spread(ratios, lambda r: f'{r:.2f}')} |"
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description="How well a replay keeps its times, and how fast it can be."
    )
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each (3)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    chosen = parser.parse_args()
    times: Times = {}
    rates: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder, drained() as port:
        path = Path(folder) / "made-up.pcap"
        count, size = record(path, QUICK_SECONDS if chosen.quick else SECONDS)
        loops = QUICK_LOOPS if chosen.quick else FAST_LOOPS
        for _ in range(1 if chosen.quick else chosen.rounds):
            found: dict[str, replay.Sent | replay.Published] = {
                "thread, sleep and look": raw(path, port, 30_000),
                "thread, sleep alone": raw(path, port, 0),
                "session, Python": into_session(path),
            }
            for name, report in found.items():
                late = report.late
                row = report.drift, late.percentile(50) / 1e9, late.percentile(99) / 1e9
                times.setdefault(name, []).append(row)
            rates.append((flat_out(path, port, loops), bare(port, count * loops, size)))
    table(times, rates)
    if chosen.json is not None:
        chosen.json.write_text(
            json.dumps({"times": times, "rates": rates}, indent=1) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
