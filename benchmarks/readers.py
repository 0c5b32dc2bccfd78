"""
What readers of one publisher have of each other, and how old a sample is that a reader of depth 1 takes.

    ./run bench readers                   1, 5 and 20 kHz, over shared memory, UDP, TCP and a Unix socket: about 4 minutes
    ./run bench readers shm udp --rates 1000 --seconds 4

Publisher and readers are processes of their own, the samples have 100 bytes and hold the time of their put.

    age       the newest sample that a reader with `depth=1, on_full="drop_oldest"`, which takes one twice a second, was given:
              milliseconds since its put, the median and the worst. It should be as old as one period and the way.
    killed    the longest time without a sample at a healthy reader, when another reader is killed
    stopped   the same, when another reader is stopped (SIGSTOP) until the end
    put       the longest put of that run

The aims are 50 ms for killed and 1.5 s for stopped. A gap of a few milliseconds is what the machine does by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyddsi

WAYS = ("shm", "udp", "tcp", "unix")
RATES = (1000, 5000, 20000)
AIMS = {"killed": 0.05, "stopped": 1.5}
SIZE = 100

HEALTHY = """
import json, sys, time
import pyddsi
last = worst = 0.0
with pyddsi.open(**json.loads(sys.argv[1])) as session, session.subscriber("bench/readers") as subscriber:
    print("ready", flush=True)
    for sample in subscriber:
        now = time.monotonic()
        worst, last = max(worst, now - last if last else 0.0), now
        if bytes(sample).startswith(b"end"):
            break
print(worst, flush=True)
"""
SLOW = """
import json, sys, time
import pyddsi
ages = []
with pyddsi.open(**json.loads(sys.argv[1])) as session:
    with session.subscriber("bench/readers", depth=1, on_full="drop_oldest") as subscriber:
        print("ready", flush=True)
        while not ages or not said.startswith(b"end"):
            time.sleep(0.5)
            said = bytes(subscriber.recv(timeout=20)).strip()
            if not said.startswith(b"end"):
                ages.append(time.monotonic() - float(said))
print(json.dumps(ages), flush=True)
"""


def settings(way: str, room: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The publisher's and the readers': by streams their groups differ, so that they do not hear each other otherwise."""
    number = os.getpid()
    near, far = (
        f"239.{net}.{number >> 8 & 255}.{number & 255}:{20000 + number % 9000}"
        for net in (255, 254)
    )
    if way in ("shm", "udp"):
        same: dict[str, Any] = {"group": near, "shared_memory": way == "shm"}
        return same, same
    to = f"tcp/127.0.0.1:{30000 + number % 20000}" if way == "tcp" else f"unix/{room}/{number}"
    return {"group": near, "shared_memory": False, "listen": [to]}, {
        "group": far,
        "shared_memory": False,
        "peers": [to],
    }


class Reader:
    """A process that reads."""

    def __init__(self, program: str, how: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(how)], stdout=subprocess.PIPE, text=True
        )
        self.line()

    def line(self) -> str:
        """What it says next."""
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        return self.process.stdout.readline()


def feed(publisher: pyddsi.Publisher, rate: int, seconds: float) -> float:
    """Put so many a second, for so long; the seconds of the longest put."""
    begun, done, worst = time.monotonic(), 0, 0.0
    while (now := time.monotonic()) < begun + seconds:
        if done >= (now - begun) * rate:
            time.sleep(min(0.001, 1 / rate))
            continue
        publisher.put(f"{now:<{SIZE}}".encode(), timeout=30)
        worst, done = max(worst, time.monotonic() - now), done + 1
    return worst


def age(way: str, rate: int, seconds: float, room: Path) -> str:
    """Milliseconds of what a reader of depth 1 takes."""
    ours, theirs = settings(way, room)
    with pyddsi.open(**ours) as session:
        publisher = session.publisher("bench/readers")
        reader = Reader(SLOW, theirs)
        publisher.wait_matched(1, timeout=20)
        feed(publisher, rate, seconds)
        publisher.put(b"end".ljust(SIZE), timeout=30)
        ages = [1000 * age for age in json.loads(reader.line())]
        reader.process.wait()
    return f"{statistics.median(ages):.1f} ({max(ages):.1f})"


def gap(way: str, how: str, rate: int, seconds: float, room: Path) -> tuple[float, float]:
    """Seconds: the longest without a sample at the healthy reader, and the longest put."""
    ours, theirs = settings(way, room)
    with pyddsi.open(**ours) as session, contextlib.ExitStack() as ends:
        publisher = session.publisher("bench/readers")
        healthy, other = (Reader(HEALTHY, theirs) for _ in range(2))
        ends.callback(other.process.wait)
        ends.callback(other.process.kill)
        publisher.wait_matched(2, timeout=20)
        feed(publisher, rate, 1.0)
        other.process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        worst = feed(publisher, rate, seconds)
        publisher.put(b"end".ljust(SIZE), timeout=30)
        return float(healthy.line()), worst


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ways", nargs="*", default=WAYS, help=f"of {', '.join(WAYS)}")
    parser.add_argument(
        "--rates", default=",".join(map(str, RATES)), help="samples a second (%(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each (%(default)s)")
    args = parser.parse_args()
    if wrong := set(args.ways) - set(WAYS):
        parser.error(f"no such way: {', '.join(sorted(wrong))}; there are {', '.join(WAYS)}")
    print(
        f"{'':5} {'rate':>6}  {'age, ms':>16}  {'killed, s (put)':>16}  {'stopped, s (put)':>16}",
        flush=True,
    )
    late = 0
    with tempfile.TemporaryDirectory(prefix="pyddsi-readers-") as room:
        for way in args.ways:
            for rate in map(int, args.rates.split(",")):
                cells = [age(way, rate, args.seconds, Path(room))]
                for how, aim in AIMS.items():
                    longest, put = gap(way, how, rate, args.seconds, Path(room))
                    cells.append(f"{longest:.3f} ({put:.3f})")
                    late += longest > aim
                print(
                    f"{way:5} {rate:6}  {cells[0]:>16}  {cells[1]:>16}  {cells[2]:>16}", flush=True
                )
    print(f"{late} of the gaps are above their aims ({AIMS['killed']} s, {AIMS['stopped']} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
