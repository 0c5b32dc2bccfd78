"""
A stream over a folder of captures that are still being made: rotated files, rings that use names again, files that grow.

    folder ─► which files, how far ─► offset: how far of each ─► parts of what lies between two offsets
    _folder.py

How far a stream has come is an offset, small whatever the years bring:

    {"v": 1, "files": 17, "done": ["run_00016.pcapng", 1795000000000000000], "open": {"run_00017.pcapng": ["18e...", 4096, 0]}}

    files    begun so far: how many a batch has is the difference, so that one that vanished is missed
    done     a name and a time: files with no later name and no later first frame are done. A ring that uses a name again
             has a later time, a clock that was set back has a later name
    open     the others: their identity, how many bytes were read, and whether it was finished then

A file is finished when its recording goes on in another one, or when it has not changed for `settle` seconds. It is read then; with
tail=on it is read before that as far as it is whole. One that is finished by silence alone stays open, and is read on if it grows.

What is known where a range begins lies in the index of its file, and the index of a file begins with what was known at the end
of the one before it when it was first made. So nothing of it is in Spark, and a batch that is planned again after a restart has the
same rows. Others who read the folder use the same indexes: a stream that must not depend on them has its own `indexDir`.

What a stream does not have is an end. So the tables whose rows come at the end of a capture cannot be streamed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyddsi.capture._capture import CaptureWarning
from pyddsi.errors import CaptureError
from pyddsi.spark._files import file_key
from pyddsi.spark._folder import Folder, Seen, order_of
from pyddsi.spark._options import Asked
from pyddsi.spark._parts import (
    Home,
    Part,
    Piece,
    Run,
    bundled,
    fingerprint,
    request_of,
    usual_split,
)
from pyddsi.spark.schema import arrow_schema, checked

__all__ = ["STREAMED", "stream_reader"]

STREAMED = ("packets", "messages", "events", "declarations", "rates", "flows", "endpoints")


# ---- offsets ----


@dataclass(frozen=True)
class Open:
    """How far a file was read that is not done."""

    identity: str
    read: int
    finished: bool


@dataclass(frozen=True)
class Offset:
    """How far a stream has come; see the top."""

    files: int = 0
    done: tuple[str, int] | None = None
    open: dict[str, Open] = field(default_factory=dict)

    @classmethod
    def of(cls, found: dict[str, Any]) -> Offset:
        """From what Spark has kept."""
        if found.get("v") != 1:
            raise CaptureError(
                f"the checkpoint is of another version of pyddsi: it has offsets of version {found.get('v')!r}, and this one "
                f"reads 1; go on with that version, or begin with a new checkpoint"
            )
        done = found["done"]
        return cls(
            int(found["files"]),
            None if done is None else (str(done[0]), int(done[1])),
            {name: Open(str(i), int(r), bool(f)) for name, (i, r, f) in found["open"].items()},
        )

    def kept(self) -> dict[str, Any]:
        """As Spark keeps it."""
        opened = {
            name: [one.identity, one.read, int(one.finished)]
            for name, one in sorted(self.open.items())
        }
        return {"v": 1, "files": self.files, "done": list(self.done or ()) or None, "open": opened}

    def is_done(self, seen: Seen) -> bool:
        """Whether a file has been read to its end."""
        if self.done is None:
            return False
        name, time_ns = self.done
        return order_of(seen.name) <= order_of(name) and seen.first_ns <= time_ns

    def read_of(self, seen: Seen) -> Open | None:
        """How far an open file was read."""
        found = self.open.get(seen.name)
        return found if found is not None and found.identity == seen.identity else None

    def with_done(self, seen: Seen) -> tuple[str, int]:
        """The mark that has this file behind it, too."""
        if self.done is None:
            return seen.name, seen.first_ns
        name, time_ns = self.done
        return max(name, seen.name, key=order_of), max(time_ns, seen.first_ns)


@dataclass(frozen=True)
class Can:
    """How far a file can be read now: to this byte; `closed`: and then it is done."""

    seen: Seen
    stop: int
    finished: bool
    closed: bool


def advanced(at: Offset, files: Iterable[Can], files_max: float, bytes_max: float) -> Offset:
    """The offset after a batch of no more files and bytes than that, but of one file at least."""
    opened: dict[str, Open] = {}
    left = [one for one in files if not at.is_done(one.seen)]
    begun = taken = size = 0
    for one in left:
        before = at.read_of(one.seen)
        more = one.stop - (before.read if before else 0)
        full = taken >= files_max or size >= bytes_max
        if more > 0 and not full:
            opened[one.seen.name] = Open(one.seen.identity, one.stop, one.finished)
            begun += before is None
            taken, size = taken + 1, size + more
        elif before is not None:
            opened[one.seen.name] = Open(before.identity, before.read, one.finished and more <= 0)
    done = at
    for one in left:  # those that are done at the front are no longer named
        found = opened.get(one.seen.name)
        if found is None or found.read < one.stop or not one.closed:
            break
        del opened[one.seen.name]
        done = Offset(done=done.with_done(one.seen))
    return Offset(at.files + begun, done.done, opened)


# ---- the readers ----


class Follower(DataSourceStreamReader):
    """What both readers have in common. Spark makes one to plan with, and pickles another one to read with."""

    def __init__(self, asked: Asked, schema: StructType) -> None:
        if asked.table not in STREAMED:
            raise ValueError(
                f"table {asked.table!r} is told when a capture ends, and a stream does not end; the tables of streams are "
                f"{', '.join(STREAMED)}"
            )
        if asked.start is not None or asked.stop is not None:
            raise ValueError(
                "options from and to are for captures that are read once; filter the stream by ts"
            )
        self.asked = asked
        self.wanted = schema
        self.names = checked(asked.table, schema)
        self.settings = asked.open(()).settings
        self._folder: Folder | None = None
        self._frozen: list[Seen] | None = None
        self._missed: set[str] = set()

    def folder(self) -> Folder:
        """What is looked at, made when somebody looks."""
        self._folder = self._folder or Folder(self.asked, self.settings)
        return self._folder

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing has been read."""
        return Offset().kept()

    # ---- how far ----

    def _can(self, at: Offset) -> list[Can]:
        """How far every file can be read that is not done."""
        folder = self.folder()
        found = []
        for seen in folder.look() if self._frozen is None else self._frozen:
            if at.is_done(seen):
                continue
            finished = folder.finished(seen)
            whole = finished or self.asked.tail
            stop = seen.size if seen.goes_on else folder.whole(seen) if whole else 0
            found.append(Can(seen, stop, finished, finished and folder.closed(seen)))
        return found

    def _missing(self, text: str) -> None:
        if not self.asked.skip_missing:
            raise CaptureError(
                f"{text}; with onMissing=skip the stream goes on without it, or keep files longer than the stream needs"
            )
        if text not in self._missed:
            self._missed.add(text)
            warnings.warn(f"{text}; passed over (onMissing=skip)", CaptureWarning, stacklevel=2)

    def _after(self, at: Offset, can: list[Can], files_max: float, bytes_max: float) -> Offset:
        there = {one.seen.name: one.seen.identity for one in can}
        for name, one in at.open.items():
            if there.get(name) != one.identity and not one.finished:
                self._missing(f"{name} is gone, and was read to byte {one.read} only")
        return advanced(at, can, files_max, bytes_max)

    # ---- parts ----

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        """What lies between two offsets."""
        first, last = Offset.of(start), Offset.of(end)
        if first == last:
            return []
        folder, runs, begun = self.folder(), list[Run](), 0
        named = {name for name, one in last.open.items() if first.open.get(name) != one}
        for seen in folder.look():
            before, after = first.read_of(seen), last.read_of(seen)
            if first.is_done(seen) or (after is None and not last.is_done(seen)):
                continue
            begun += before is None
            named.discard(seen.name)
            if before == after and before is not None:
                continue
            stop = folder.whole(seen)
            runs += self._runs(
                seen, before.read if before else 0, min(after.read, stop) if after else stop
            )
        lost = last.files - first.files - begun
        if lost > 0 or named:
            names = f", {', '.join(sorted(named))} among them" if named else ""
            self._missing(
                f"{max(lost, len(named))} files of a batch are gone before they were read{names}"
            )
        home, request = Home.here(), request_of(self.asked, self.names)
        split = self.asked.split_bytes or usual_split(sum(run.size for run in runs))
        return [Part(home, request, run) for run in bundled(runs, split)]

    def _runs(self, seen: Seen, start: int, stop: int) -> Iterator[Run]:
        split = self.asked.split_bytes or usual_split(stop - start)
        if stop <= start:
            return
        head = fingerprint(seen.path, min(4096, stop))
        number = file_key(seen.path)
        for part in self.folder().ranges(seen, start, stop, split):
            piece = Piece.of(seen.path, number, head, part)
            yield Run((piece,), whole=False, size=(part.stop or stop) - part.start)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The batches of one part."""
        from pyddsi.spark._read import read_part  # noqa: PLC0415 - for those who read

        assert isinstance(partition, Part)  # noqa: S101 - `partitions` made it
        return read_part(
            partition,
            arrow_schema(self.wanted),
            self.settings,
            failfast=self.asked.failfast,
            skip_missing=self.asked.skip_missing,
        )


class Unlimited(Follower):
    """For Spark before 4.2, which asks how far there is without saying how far it is: it takes everything."""

    _at = Offset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as it was called then
        """All that there is. Where to go on from, the last plan has told; after a restart Spark plans what it has done."""
        return self._after(self._at, self._can(self._at), math.inf, math.inf).kept()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        """What lies between two offsets."""
        self._at = Offset.of(end)
        return super().partitions(start, end)


def stream_reader(asked: Asked, schema: StructType) -> DataSourceStreamReader:
    """The reader for this version of Spark."""
    try:
        from pyddsi.spark._limited import Limited  # noqa: PLC0415 - before 4.2 it cannot be loaded
    except ModuleNotFoundError:
        return Unlimited(asked, schema)
    return Limited(asked, schema)
