"""
What Spark's tasks read: captures cut into parts that need to know nothing of each other.

    files ─► recordings ─► runs ──────────────────────────────► parts
             files that    what one scan reads in one go:       one task each: a large run,
             go on where   a range of a file with the state     or some small ones
             another ends  at its start, or whole small files

Large recordings are cut where their index says; every range carries the state at its start, packed, so that it gives exactly the
rows that one reader of everything would have given there, whoever reads it, wherever the index lies. What is small enough for
one part needs no index and gets none.

The planner runs for every action and every `explain`, so it does nothing that the index could have kept.
"""

from __future__ import annotations

import os
import platform
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark.sql.datasource import InputPartition

import pyddsi
from pyddsi._native import lib
from pyddsi.capture import Capture, CaptureWarning
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._files import Member
from pyddsi.capture._runs import recordings
from pyddsi.capture._scan import Range, Request
from pyddsi.errors import CaptureError
from pyddsi.spark._options import Asked

__all__ = [
    "Home",
    "Part",
    "Piece",
    "Run",
    "batch_parts",
    "bundled",
    "fingerprint",
    "request_of",
]

HEAD_BYTES = 4096  # what a file is known by
SPLIT_LEAST, SPLIT_MOST = 16 * 1024 * 1024, 128 * 1024 * 1024
EVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Home:
    """Where a query was planned, and with what: whoever reads a part holds it against what is there."""

    host: str
    version: str
    layout: int

    @classmethod
    @cache
    def here(cls) -> Home:
        """This process."""
        return cls(platform.node(), str(pyddsi.__version__), lib.PYDDSI_SNAPSHOT_LAYOUT)


@dataclass(frozen=True, slots=True)
class Piece:
    """
    A file, or a range of it.

    number, recording: what the columns `file` and `recording` say
    head: how many bytes of its beginning have which checksum
    stop: None: to its end
    state: what is known at its start, packed; None: nothing, or what the piece before it in its run ends with
    """

    path: str
    number: int
    recording: int
    head: tuple[int, int]
    start: int = 0
    stop: int | None = None
    state: bytes | None = None

    @classmethod
    def of(cls, path: str, numbers: tuple[int, int], head: tuple[int, int], part: Range) -> Piece:
        """A range with the state at its start."""
        state = None if part.snapshot is None else zlib.compress(part.snapshot, 1)
        return cls(path, *numbers, head, part.start, part.stop, state)

    @property
    def packed(self) -> bool:
        """Places are then those in what is packed."""
        return is_packed(self.path)

    def range(self) -> Range:
        """As a scan takes it."""
        state = None if self.state is None else zlib.decompress(self.state)
        return Range(self.start, self.stop, state)


@dataclass(frozen=True, slots=True)
class Run:
    """
    Pieces that one scan reads, one after the other.

    whole: a recording ends with it, so that what is not over is told
    size: bytes, about
    """

    pieces: tuple[Piece, ...]
    whole: bool
    size: int


class Part(InputPartition):
    """
    What one task reads.

    alone: there is one file in all, so that what cannot be read of it is no small matter
    whole: all of it was read once already, and must be there
    """

    def __init__(
        self,
        home: Home,
        request: Request,
        runs: tuple[Run, ...],
        *,
        alone: bool = False,
        whole: bool = False,
    ) -> None:
        self.home = home
        self.request = request
        self.runs = runs
        self.alone = alone
        self.whole = whole

    def __repr__(self) -> str:
        pieces = [piece for run in self.runs for piece in run.pieces]
        return f"<Part of {len(pieces)} pieces, the first of {pieces[0].path if pieces else 'nothing'}>"


def fingerprint(path: str, size: int = HEAD_BYTES) -> tuple[int, int]:
    """How many bytes of a file's beginning have which checksum."""
    with Path(path).open("rb") as file:
        data = file.read(size)
    return len(data), zlib.crc32(data)


def request_of(asked: Asked, names: tuple[str, ...], run: Capture | None = None) -> Request:
    """What is wanted of the core. Times that count from the beginning need the capture."""
    if asked.failfast and asked.table == "packets":
        names = (
            *dict.fromkeys([*names, "decode"]),
        )  # or nothing would be decoded, and nothing found
    request = Request(
        asked.table,
        names,
        asked.where,
        payload=65535 if asked.payload is None else asked.payload,
        window_ns=round(asked.window * 1_000_000_000),
    )
    if run is None or (asked.start is None and asked.stop is None):
        return request
    return run._within(request, asked.start, asked.stop)  # noqa: SLF001 - of the same package


# ---- planning ----


def is_packed(path: str) -> bool:
    """Whether it has to be read from its beginning."""
    source = open_bytes(path)
    try:
        return not source.seekable
    finally:
        source.close()


def usual_split(size: int) -> int:
    """
    Bytes of a part: two for each processor of this machine, which is all there is in local mode, unless these would be
    very small (a task costs as much as some MiB) or large (where there are more machines, there is more to read).
    """
    return min(SPLIT_MOST, max(SPLIT_LEAST, size // (2 * (os.cpu_count() or 1))))


class _Planner:
    """One look at captures."""

    def __init__(self, asked: Asked, names: tuple[str, ...]) -> None:
        self.asked = asked
        self.home = Home.here()
        run = asked.open()
        self.request = request_of(asked, names, run)
        self.groups = recordings(run.members)
        self.sizes = {_path(member): Path(_path(member)).stat().st_size for member in run.members}
        self.split = asked.split_bytes or usual_split(sum(self.sizes.values()))

    def whole(self, group: list[Member]) -> Run:
        """A recording in one run."""
        pieces = tuple(
            Piece(_path(one), one.number, one.recording, fingerprint(_path(one))) for one in group
        )
        return Run(pieces, whole=True, size=sum(self.sizes[piece.path] for piece in pieces))

    def ranges(self, group: list[Member]) -> Iterator[Run]:
        """A recording, cut where its index says. What happened may be told later than it was, so events end nowhere."""
        start = self.request.start_ns
        stop = EVER if self.asked.table == "events" else self.request.stop_ns
        indexes = self.asked.open(tuple(map(_path, group))).indexes()
        for index, member in zip(indexes, group, strict=True):
            for problem in index.problems:
                rebuilt = problem.kind == "index_rebuilt" and index.origin == "rebuilt"
                if rebuilt or problem.kind == "evicted":
                    warnings.warn(problem.text, CaptureWarning, stacklevel=2)
            head = fingerprint(index.name, min(HEAD_BYTES, index.size))
            for part in index.ranges(self.split, start, stop):
                piece = Piece.of(index.name, (member.number, member.recording), head, part)
                end = index.size if part.stop is None else part.stop
                whole = part.stop is None and member is group[-1]
                yield Run((piece,), whole, end - part.start)

    def runs(self) -> Iterator[Run]:
        """All there is to read, in the order of the files."""
        for group in self.groups:
            size = sum(self.sizes[_path(member)] for member in group)
            if self.asked.split == "file" or size <= self.split:
                yield self.whole(group)
                continue
            try:
                packed = any(is_packed(_path(member)) for member in group)
                yield from [self.whole(group)] if packed else list(self.ranges(group))
            except (
                CaptureError
            ):  # what is good of it is read all the same, and the task says what is not
                yield self.whole(group)


def _path(member: Member) -> str:
    return str(member.source)


def bundled(runs: Iterable[Run], split: int) -> Iterator[tuple[Run, ...]]:
    """Small runs together, as long as they are no larger than one part may be."""
    held: list[Run] = []
    for run in runs:
        if held and sum(one.size for one in held) + run.size > split:
            yield tuple(held)
            held = []
        held.append(run)
    if held:
        yield tuple(held)


def batch_parts(asked: Asked, names: tuple[str, ...]) -> list[Part]:
    """The parts of a query; never an empty list, which Spark takes for one part that is None."""
    planner = _Planner(asked, names)
    if asked.table == "files":
        runs: Iterable[tuple[Run, ...]] = ((planner.whole(group),) for group in planner.groups)
    elif asked.split == "file":
        runs = ((run,) for run in planner.runs())
    else:
        runs = bundled(planner.runs(), planner.split)
    alone = len(planner.sizes) == 1
    parts = [Part(planner.home, planner.request, run, alone=alone) for run in runs]
    return parts or [Part(planner.home, planner.request, ())]
