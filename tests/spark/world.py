"""
A folder that is played from a seed: writers that append, rotate, copy in pieces and side by side, rename, pack, delete, come late and set
clocks; readers that restart, plan again, and are killed wherever they write; and others who index what stands there.

    play(seed, room) ─► what went wrong, or nothing
    python -m tests.spark.world 10000       so many seeds, on all processors

The books are kept apart from all that: each frame has a time that no other has. At the end each frame of each file that ever stood in the
folder was in one batch, and in one only; or its file was named in a warning or an error. And each batch, run again at any time, has the rows
that it had, or an error that names a file.

This file is long because all that can happen has to keep the same books.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import random
import resource
import shutil
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyddsi import capture
from pyddsi.errors import CaptureError
from pyddsi.spark import _log, _memory
from pyddsi.spark.source import CaptureSource
from tests.py import make_capture as make

__all__ = ["World", "play"]

BEGIN = 1_700_000_000 * 10**9
OLD = 100.0
MEMORY_MAX = 4 << 30
PCAP = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
LINK = os.link
USUAL = ("is cut off", "were never seen")
"""What is said of a file that stands half written for long, and of one that comes late."""


class Killed(BaseException):
    """The driver is killed here."""


@dataclass
class Capture:
    """
    A file that comes to be.

    ends: behind which byte each frame is whole, and its time
    here: how many bytes of it stand in the folder
    owed: bytes that the reader at hand has seen there; must: that have to be accounted for
    """

    path: Path
    data: bytes
    ends: list[tuple[int, int]]
    here: int = 0
    there: bool = True
    packed: bool = False
    owed: int = 0
    must: int = 0
    names: set[str] = field(default_factory=set)

    def times(self, size: int) -> list[int]:
        """Of the frames that are whole in so many bytes."""
        return [time_ns for end, time_ns in self.ends if end <= size]


class World:
    """One folder, one stream."""

    def __init__(self, seed: int, room: Path) -> None:
        self.rand = rand = random.Random(seed)
        self.room = room
        self.folder = room / "in"
        self.hosts = ["."] if rand.random() < 0.6 else ["one", "two"]
        for host in self.hosts:
            (self.folder / host).mkdir(parents=True)
        self.calm = rand.random() < 0.4
        """Nothing is lost or spoilt, so nothing has to be said."""
        self.now = BEGIN
        self.captures: list[Capture] = []
        self.numbers: Counter[str] = Counter()
        self.late: list[Path] = []
        pattern = str(self.folder) if self.hosts == ["."] else str(self.folder / "*" / "*.pcap*")
        self.options = {
            "path": pattern,
            "table": "packets",
            "columns": "ts_ns",
            "tail": rand.choice(["on", "off"]),
            "settle": "60",
            "onMissing": rand.choice(["skip", "fail"]),
            "logDir": str(room / "log"),
            "maxFileAge": "1000" if self.calm else rand.choice(["0", "1000"]),
        }
        self.alarm = 0  # steps of a write to the next kill; 0: none
        self.reader: Any = None
        self.offsets: list[dict[str, Any]] = [
            {"v": 2, "stream": "", "batch": 0, "files": 0, "told": 0}
        ]
        self.batches: list[list[int]] = [[]]
        self.lacked = [False]  # what a batch was to have may come back after it was told to be gone
        self.said: list[str] = []
        self.wrong: list[str] = []

    # ---- files ----

    def _made(self, path: Path, count: int) -> Capture:
        """A capture of so many frames, with blocks of other kinds in between."""
        ng = path.suffix == ".pcapng"
        packet = make.ethernet(make.ipv4(make.udp(b"x" * self.rand.randrange(4, 200))))
        other = make.block(5, struct.pack("<III", 0, 0, 0))
        data = make.section() + make.interface(resolution=9) if ng else PCAP
        ends = []
        for _ in range(count):
            self.now += self.rand.randrange(1, 10**9)
            if ng:
                data += make.enhanced(packet, self.now)
            else:
                head = (*divmod(self.now, 10**9), len(packet), len(packet))
                data += struct.pack("<IIII", *head) + packet
            ends.append((len(data), self.now))
            if ng and self.rand.random() < 0.2:
                data += other
        made = Capture(path, data, ends)
        made.names.add(str(path))
        self.captures.append(made)
        return made

    def _grow(self, one: Capture, size: int) -> None:
        one.here = size
        one.path.write_bytes(one.data[:size])
        if self.rand.random() < 0.5:
            self._clock(one)

    def _clock(self, one: Capture) -> None:
        at = time.time() + self.rand.choice([-OLD, 0.0, OLD])
        os.utime(one.path, (at, at))

    def _standing(self, *, whole: bool | None = None) -> list[Capture]:
        return [
            one
            for one in self.captures
            if one.there and (whole is None or whole == (one.here == len(one.data)))
        ]

    def _any(self, *, whole: bool | None = None) -> Capture | None:
        found = self._standing(whole=whole)
        return self.rand.choice(found) if found else None

    # ---- what happens ----

    def rotate(self) -> None:
        """A recorder begins another file; now and then one comes to a place that comes late."""
        rand = self.rand
        host, series = rand.choice(self.hosts), rand.choice(["run", "dump", "lone"])
        ending = "pcap" if series == "dump" else "pcapng"
        key = f"{host}/{series}"
        self.numbers[key] += 1
        name = {
            "run": f"run_{self.numbers[key]:05d}.{ending}",
            "dump": f"dump_{self.numbers[key]:05d}_20261120101500.{ending}",
            "lone": f"{rand.randrange(10**9):x}.{ending}",
        }[series]
        for other in self._standing(whole=False):
            if rand.random() < 0.5:
                self._grow(other, len(other.data))
        one = self._made(self.folder / host / name, rand.randrange(1, 30))
        if rand.random() < 0.2:
            one.there = False
            self.late.append(one.path)
        else:
            self._grow(one, rand.randrange(len(one.data) + 1))

    def come_late(self) -> None:
        """A file that was begun long ago."""
        if self.late:
            path = self.late.pop(self.rand.randrange(len(self.late)))
            [one] = [one for one in self.captures if one.path == path]
            one.there = True
            self._grow(
                one, self.rand.choice([len(one.data), self.rand.randrange(len(one.data) + 1)])
            )

    def append(self) -> None:
        """More comes into one or some files, which may be copies on their way."""
        for one in self._standing(whole=False):
            if self.rand.random() < 0.6:
                self._grow(one, self.rand.randrange(one.here, len(one.data) + 1))

    def finish(self) -> None:
        """A file becomes whole."""
        one = self._any(whole=False)
        if one is not None:
            self._grow(one, len(one.data))

    def clock(self) -> None:
        """A file's time is set."""
        one = self._any()
        if one is not None:
            self._clock(one)

    def rename(self) -> None:
        """A file is called otherwise."""
        one = self._any()
        if one is not None and not one.packed:
            name = f"{self.rand.choice(['a', 'zz', 'run_09'])}{self.rand.randrange(10**9)}{one.path.suffix}"
            self._moved(one, one.path.with_name(name))

    def _moved(self, one: Capture, path: Path) -> None:
        one.path.rename(path)
        one.path = path
        one.names.add(str(path))

    def pack(self) -> None:
        """A whole file is packed in its place."""
        one = self._any(whole=True)
        if one is not None and not one.packed:
            path = one.path.with_name(one.path.name + ".gz")
            path.write_bytes(gzip.compress(one.path.read_bytes(), 1))
            one.path.unlink()
            one.path, one.packed = path, True
            one.names.add(str(path))
            self._clock(one)

    def delete(self) -> None:
        """A file is deleted; a ring may use its name again."""
        one = self._any()
        if one is None:
            return
        one.path.unlink()
        one.there = False
        if not one.packed and self.rand.random() < 0.5:
            again = self._made(one.path, self.rand.randrange(1, 30))
            self._grow(again, self.rand.randrange(len(again.data) + 1))

    def rewrite(self) -> None:
        """A file is copied over once more, from its beginning."""
        one = self._any()
        if one is not None and not one.packed:
            self._grow(one, self.rand.randrange(one.here + 1))

    def copy(self) -> None:
        """There is a second one of it."""
        one = self._any()
        if one is not None and not one.packed:
            other = Capture(
                one.path.with_name(f"copy{self.rand.randrange(10**9)}{one.path.suffix}"),
                one.data,
                one.ends,
            )
            other.names.add(str(other.path))
            self.captures.append(other)
            self._grow(other, one.here)

    def spoil(self) -> None:
        """Something that is no capture, or one that is damaged."""
        path = self.folder / self.hosts[0] / f"bad{self.rand.randrange(10**9)}.pcap"
        if self.rand.random() < 0.5:
            path.write_bytes(b"no capture at all, but long enough for one" * 3)
            return
        one = self._made(path, 20)
        at = one.ends[10][0]
        one.data = one.data[:at] + b"\xff" * (len(one.data) - at)
        self._grow(one, len(one.data))

    def index(self) -> None:
        """Somebody else reads a file, and leaves its index."""
        one = self._any()
        if one is not None:
            with suppress(CaptureError):
                capture.open(str(one.path)).indexes()

    # ---- the reader ----

    def _tick(self, *_args: Any) -> None:
        if self.alarm:
            self.alarm -= 1
            if self.alarm == 0:
                raise Killed

    def _link(self, made: str, place: Path) -> None:
        self._tick()
        LINK(made, place)
        self._tick()

    def restart(self) -> None:
        """The driver is begun again."""
        self.reader = None
        for one in self.captures:
            one.owed = 0

    def _reader(self) -> Any:
        if self.reader is None:
            source = CaptureSource(self.options)
            self.reader = source.streamReader(source.schema())
            self.reader.pace = 0.0
        return self.reader

    def _looked(self) -> None:
        """The reader has looked: what it saw before and is gone has to be accounted for, and what stands there may have to be."""
        for one in self.captures:
            if not one.there:
                one.must = max(one.must, one.owed)
            one.owed = one.here if one.there else 0

    def _rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        reader = self._reader()
        parts = reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
        return [
            time_ns
            for part in parts
            for batch in reader.read(part)
            for time_ns in batch.column(0).to_pylist()
        ]

    def _listened(self, ask: Callable[[], Any]) -> Any:
        """What it answers; None: it has failed, and is begun again."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return ask()
            except CaptureError as error:
                self.said.append(str(error))
                self.restart()
                self.options["onMissing"] = "skip"  # as the error says
            except Killed:
                self.restart()
            finally:
                self.said += [str(one.message) for one in caught]
        return None

    def _latest(self) -> dict[str, Any]:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles  # noqa: PLC0415 - from 4.2 on

        limit = self.rand.choice([ReadAllAvailable(), ReadMaxFiles(self.rand.randrange(1, 4))])
        start = json.loads(json.dumps(self.offsets[-1]))
        return dict(json.loads(json.dumps(self._reader().latestOffset(start, limit))))

    def batch(self) -> bool:
        """The next batch, unless the driver is killed on the way; whether there was one."""
        self.alarm = self.rand.randrange(1, 9) if self.rand.random() < 0.15 else 0
        planned = len(list((self.room / "log").glob("*/*.plan")))
        end = self._listened(self._latest)
        self.alarm = 0
        if end is None:
            return True
        if len(list((self.room / "log").glob("*/*.plan"))) != planned or end == self.offsets[-1]:
            self._looked()
        if end == self.offsets[-1]:
            return False
        if self.rand.random() < 0.1:  # killed before Spark has noted it
            self.restart()
            return True
        before = len(self.said)
        while True:
            if self.rand.random() < 0.1:  # or before it is read
                self.restart()
                self.happen()
            rows = self._listened(lambda: self._rows(self.offsets[-1], end))
            if rows is not None:
                break
        self.offsets.append(end)
        self.batches.append(rows)
        self.lacked.append(len(self.said) > before)
        return True

    def again(self) -> None:
        """A batch that was read is run again: it has the same rows, or says which file it lacks."""
        at = self.rand.randrange(1, len(self.offsets)) if len(self.offsets) > 1 else 0
        before = len(self.said)
        rows = (
            self._listened(lambda: self._rows(self.offsets[at - 1], self.offsets[at])) if at else []
        )
        same = rows == self.batches[at] or self.lacked[at]
        if rows is not None and not same and len(self.said) == before:
            self.wrong.append(f"batch {at} had {len(self.batches[at])} rows, and then {len(rows)}")

    # ---- all of it ----

    def happen(self) -> None:
        """Something happens in the folder."""
        safe = [self.rotate, self.rotate, self.append, self.append, self.finish, self.clock]
        safe += [self.rename, self.pack, self.come_late, self.index]
        rough = [self.delete, self.delete, self.rewrite, self.copy, self.spoil]
        self.rand.choice(safe if self.calm else safe + rough)()

    def play(self, steps: int = 40) -> list[str]:
        """What went wrong."""
        with (
            patch.object(os, "fsync", self._tick),
            patch.object(os, "link", self._link),
            patch.object(_log, "KNOWN_EVERY", self.rand.randrange(1, 5)),
            patch.object(_memory, "STATES_MAX", self.rand.choice([1, 2, 256])),
        ):
            for _ in range(steps):
                self.rand.choice([self.happen, self.happen, self.batch, self.batch, self.again])()
                if self.rand.random() < 0.05:
                    self.restart()
            while self.late:
                self.come_late()
            more = True
            while more:
                for one in self._standing():
                    at = time.time() - OLD
                    os.utime(one.path, (at, at))
                more = self.batch()
        return self.judge()

    def judge(self) -> list[str]:
        """Each frame once, or its file is named."""
        read = Counter(time_ns for batch in self.batches for time_ns in batch)
        known = {time_ns for one in self.captures for _, time_ns in one.ends}
        wrong = list(self.wrong)
        if any(count > 1 for count in read.values()):
            wrong.append(f"{sum(count - 1 for count in read.values())} frames were read twice")
        if read.keys() - known:
            wrong.append(f"{len(read.keys() - known)} frames were read that never were")
        for one in self.captures:
            must = max(one.must, one.here if one.there else 0)
            lost = sum(not read[time_ns] for time_ns in one.times(must))
            names = {
                name for other in self.captures if other.ends is one.ends for name in other.names
            }
            if lost and not any(name in text for name in names for text in self.said):
                wrong.append(
                    f"{lost} of {len(one.times(must))} frames of {one.path} are missing, and nothing was said"
                )
        if self.calm:
            wrong += [text for text in self.said if not any(word in text for word in USUAL)]
        return wrong


def play(seed: int, room: Path) -> list[str]:
    """What goes wrong in a world; the room is empty before and after."""
    try:
        return World(seed, room).play()
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _play(seed: int) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory() as room:
        return seed, play(seed, Path(room) / "world")


def _bounded() -> None:
    """A world that takes all memory is to end alone."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))


def main(count: int) -> int:
    """Play so many worlds."""
    wrong = 0
    with multiprocessing.Pool(initializer=_bounded) as pool:
        for seed, found in pool.imap_unordered(_play, range(count), chunksize=20):
            wrong += bool(found)
            for text in found:
                print(f"seed {seed}: {text}", flush=True)
    print(f"{count} worlds, {wrong} of them wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
