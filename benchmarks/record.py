"""
What a recording costs samples in shared memory.

    ./run bench record [--rounds N] [--seconds N] [--folder FOLDER]

A process puts samples as fast as it can, another one on the same machine reads them. In turn, round by round, it records what it says
(`Session.record`) and does not. Files are written to memory (/dev/shm), so that no disk is measured, and removed as they go.

    rate        samples a second that came, without a recording over with one: 1 is free, 2 is half as many
    lost        samples of a hundred that found no room in the recording's ring meanwhile
    processor   time of all threads of both processes for each sample, with a recording over without one, where the publisher waits for
                the recording now and then, so that nothing is lost
    more        the difference of these, in nanoseconds

The table shows the median of the rounds, and in brackets the lowest and highest.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pyddsi
from pyddsi.capture import Recorder

SIZES = (100, 10_000)
AIMS = {100: 1.2, 10_000: 1.5}
CHUNK_BYTES = (
    5_000_000  # fits the ring of a recording, and is more than the part of it that wakes its thread
)
FILE_BYTES = 64 * 1024 * 1024
NAME = "bench/recorded"


def network() -> str:
    """A group that nobody else uses."""
    return f"239.255.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:{20000 + os.getpid() % 12000}"


def read(group: str) -> int:
    """The process that reads: each line of its input is a number of samples, answered by the time it has used when they have come."""
    with pyddsi.open(group=group) as session, session.subscriber(NAME) as subscriber:
        have, wanted = 0, -1
        while True:
            with suppress(TimeoutError):
                have += len(subscriber.recv_many(1024, timeout=0.01))
            if wanted < 0 and select.select([sys.stdin], [], [], 0)[0]:
                line = sys.stdin.readline()
                if not line:
                    return 0
                wanted = int(line)
            if 0 <= wanted <= have:
                print(time.process_time(), flush=True)
                wanted = -1


class Reader:
    """The other process."""

    def __init__(self, group: str) -> None:
        command = [sys.executable, __file__, "--read", group]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def used(self, samples: int) -> float:
        """Seconds of the processor, when it has so many."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(f"{samples}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class Writer:
    """This process, which puts and may record."""

    def __init__(self, size: int, reader: Reader, session: pyddsi.Session, folder: Path) -> None:
        self._payload = bytes(size)
        self._chunk = max(1, CHUNK_BYTES // size)
        self._reader, self._session, self._folder = reader, session, folder
        self._publisher = session.publisher(NAME)
        self._publisher.wait_matched(1, timeout=20.0)
        self._done = 0

    def run(self, seconds: float, *, recorded: bool, paced: bool) -> tuple[float, float, float]:
        """Seconds, and seconds of the processor, for each sample; and how many of a hundred were not recorded."""
        before, reader, put = self._done, self._reader, self._publisher.put
        with ExitStack() as stack:
            recorder = stack.enter_context(self._record()) if recorded else None
            theirs, ours, begun = reader.used(before), time.process_time(), time.perf_counter()
            while time.perf_counter() - begun < seconds:
                for _ in range(self._chunk):
                    put(self._payload)
                self._done += self._chunk
                while paced and recorder is not None:
                    if recorder.counts.packets >= self._done - before:
                        break
                    time.sleep(0.005)
            count = self._done - before
            theirs = reader.used(self._done) - theirs
            took = time.perf_counter() - begun
        used = time.process_time() - ours + theirs
        lost = recorder.counts.lost if recorder is not None else 0
        for old in self._folder.iterdir():
            old.unlink()
        return took / count, used / count, 100 * lost / count

    def _record(self) -> Recorder:
        path = self._folder / f"{self._done}.pcapng"
        return self._session.record(path, max_size=FILE_BYTES, keep=2)


def measure(size: int, rounds: int, seconds: float, folder: Path) -> dict[str, list[float]]:
    """Samples of one size: the figures of each round."""
    group = network()
    found: dict[str, list[float]] = {"rate": [], "lost": [], "processor": [], "ns": []}
    reader = Reader(group)
    with pyddsi.open(group=group) as session:
        writer = Writer(size, reader, session, folder)
        for _ in range(rounds):
            plain = writer.run(seconds, recorded=False, paced=False)
            free = writer.run(seconds, recorded=True, paced=False)
            paced = writer.run(seconds, recorded=True, paced=True)
            found["rate"].append(free[0] / plain[0])
            found["lost"].append(free[2])
            found["processor"].append(paced[1] / plain[1])
            found["ns"].append((paced[1] - plain[1]) * 1e9)
    reader.close()
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").strip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round, each way")
    parser.add_argument("--folder", default="/dev/shm" if Path("/dev/shm").is_dir() else None)  # noqa: S108 - that is wanted
    parser.add_argument("--read", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read:
        return read(chosen.read)
    print("| bytes | rate | lost, % | processor | aim of both | more, ns |\n" + "| --- " * 6 + "|")
    for size in SIZES:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            found = measure(size, chosen.rounds, chosen.seconds, Path(folder))
        shown = [
            f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} - {max(values):.{digits}f})"
            for values, digits in zip(found.values(), (2, 1, 2, 0), strict=True)
        ]
        shown.insert(3, f"{AIMS[size]:g}")
        print(f"| {size:,} | {' | '.join(shown)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
