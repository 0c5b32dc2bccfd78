"""
A folder of captures that are still being made: which files there are, what they are, how far they can be read.

A name says little, since rings use it again, and neither does a time, since files grow. A file is known by its first frame: its
time, and a checksum of all bytes up to its end. Files stand in the order of their first frames.
"""

from __future__ import annotations

import glob
import re
import time
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from pyddsi.capture import Index
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._files import NAMES, members
from pyddsi.capture._index import SUFFIX, _places, index_of
from pyddsi.capture._runs import recordings
from pyddsi.capture._scan import NONE, Range, Scan, Settings
from pyddsi.errors import CaptureError
from pyddsi.spark._options import Asked

__all__ = ["Folder", "Seen", "order_of"]

HEADER_BYTES = 64  # a file with fewer has no frame that could be read
KEPT = 8  # indexes that are held in memory
SETTLED_S = (
    3600.0  # unchanged for so long, a file counts as done though its recording goes on nowhere
)


@dataclass(frozen=True)
class Seen:
    """
    A file, when somebody looked.

    identity: of its first frame
    size, changed: as the file system says; `changed` in seconds since 1970
    before: the file that it goes on from, if that is still there
    goes_on: another file goes on from it
    """

    path: str
    identity: str
    first_ns: int
    size: int
    changed: float
    before: str | None = None
    goes_on: bool = False

    @property
    def name(self) -> str:
        """Without the folder."""
        return Path(self.path).name


def order_of(name: str) -> list[tuple[int, int | str]]:
    """To compare names as people count: run_9 before run_10. What kind of file it is does not matter."""
    base = name.lower()
    for ending in sorted(NAMES, key=len, reverse=True):
        base = base.removesuffix(ending)
    return [
        (0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", base) if part
    ]


class Folder:
    """What a stream looks at, in the planning process."""

    def __init__(self, asked: Asked, settings: Settings) -> None:
        self.asked = asked
        self.settings = settings
        self._known: dict[
            str, tuple[tuple[int, float], tuple[str, int] | None]
        ] = {}  # size and time of change, first frame
        self._seen: dict[str, Seen] = {}
        self._indexes: dict[str, tuple[str, int, Index]] = {}

    # ---- which files ----

    def _paths(self) -> list[str]:
        found: set[str] = set()
        for path in self.asked.paths:
            if Path(path).is_dir():
                inside = {str(file) for file in Path(path).iterdir()}
                found.update(name for name in inside if name.lower().endswith(NAMES))
                for name in inside:  # whoever rotates files does not know of their indexes
                    if name.endswith(SUFFIX) and name.removesuffix(SUFFIX) not in inside:
                        Path(name).unlink(missing_ok=True)
            elif glob.has_magic(path):
                names = glob.glob(path)  # noqa: PTH207 - Path has none for absolute patterns
                found.update(name for name in names if not name.endswith(SUFFIX))
            elif Path(path).exists():
                raise CaptureError(
                    f"{path} is one file, and a stream is over a folder of them, or a pattern; "
                    f"read it with spark.read, or name {Path(path).parent}"
                )
            else:
                raise CaptureError(
                    f"{path}: there is no such folder; make it before the stream begins"
                )
        return sorted(found, key=order_of)

    def _first(self, path: str, size: int) -> tuple[str, int] | None:
        """What the first frame tells: the file's identity, and its time. None: there is no frame yet."""
        if size < HEADER_BYTES:
            return None
        scan = Scan(self.settings)
        scan.begin(0)
        source = open_bytes(path)
        try:
            for _ in scan.rows(source, Range(0, 1)):
                pass
        except CaptureError:
            if not scan.facts().container:
                raise
            return None
        finally:
            source.close()
        facts = scan.facts()
        with Path(path).open("rb") as file:
            crc = zlib.crc32(file.read(facts.bytes))
        first_ns = 0 if facts.first_ns == NONE else int(facts.first_ns)
        return f"{first_ns:x}.{crc:08x}", first_ns

    def look(self) -> list[Seen]:
        """The files that have a frame, in the order of these."""
        found: dict[str, Seen] = {}
        known = {}
        for path in self._paths():
            try:
                stat = Path(path).stat()
                state = (stat.st_size, stat.st_mtime)
                held = self._known.get(path)
                first = held[1] if held and held[0] == state else self._first(path, stat.st_size)
            except OSError:
                continue  # deleted while we looked
            known[path] = (state, first)
            if first is not None:
                found[path] = Seen(path, *first, *state)
        for path in self._known.keys() - known.keys():  # the same where they lie elsewhere
            for place in _places(path, self.asked.settings.get("index")):
                place.unlink(missing_ok=True)
        self._known = known
        listed = _in_order(found, str(self.asked.settings.get("chain", "auto")))
        self._seen = {seen.path: seen for seen in listed}
        return listed

    # ---- how far they can be read ----

    def finished(self, seen: Seen) -> bool:
        """Whether nothing more comes, as far as one can tell."""
        return seen.goes_on or time.time() - seen.changed >= self.asked.settle

    def closed(self, seen: Seen) -> bool:
        """Whether it need not be looked at again."""
        return seen.goes_on or time.time() - seen.changed >= max(self.asked.settle, SETTLED_S)

    def whole(self, seen: Seen) -> int:
        """How much of it is there, to the last whole frame."""
        return self.index(seen).size

    def index(self, seen: Seen) -> Index:
        """Its index, which begins with what was known at the end of the file before it; so that is indexed first."""
        held = self._indexes.get(seen.path)
        if held is not None and held[:2] == (seen.identity, seen.size):
            return held[2]
        todo = [seen]
        while (before := todo[-1].before) in self._seen and not self._has(str(before)):
            todo.append(self._seen[str(before)])
        index: Index | None = None
        for one in reversed(todo):
            if index is None and one.before is not None:
                known = self._indexes.get(one.before)
                index = known[2] if known else self._index_of(one.before, None)
            index = self._index_of(one.path, index.end if index else None)
            self._indexes.pop(one.path, None)
            self._indexes[one.path] = (one.identity, one.size, index)
        for path in list(self._indexes)[:-KEPT]:
            del self._indexes[path]
        assert index is not None  # noqa: S101 - there was one to do at least
        return index

    def _has(self, path: str) -> bool:
        places = _places(path, self.asked.settings.get("index"))
        return path in self._indexes or any(place.is_file() for place in places)

    def _index_of(self, path: str, begin: bytes | None) -> Index:
        return index_of(
            path,
            self.settings,
            begin=begin,
            keep=bool(self.asked.settings.get("keep_index", True)),
            folder=self.asked.settings.get("index"),
            as_kept=True,
        )

    def state_at(self, seen: Seen, offset: int) -> bytes:
        """What is known at a boundary between two frames: from the nearest chunk before it, it is not far."""
        index = self.index(seen)
        at = max(i for i, chunk in enumerate(index.chunks) if chunk.offset <= offset)
        start, state = index.chunks[at].offset, index.snapshots[at]
        if start == offset:
            return state
        scan = Scan(self.settings)
        source = open_bytes(seen.path)
        try:
            for _ in scan.rows(source, Range(start, offset, state)):
                pass
        finally:
            source.close()
        return scan.snapshot()

    def ranges(self, seen: Seen, start: int, stop: int, split: int) -> list[Range]:
        """A part of a file, cut where chunks begin, into pieces of about this size."""
        index = self.index(seen)
        found = [Range(start, stop, self.state_at(seen, start))]
        for i, chunk in enumerate(index.chunks):
            if start < chunk.offset < stop and chunk.offset - found[-1].start >= split:
                found[-1].stop = chunk.offset
                found.append(Range(chunk.offset, stop, index.snapshots[i]))
        return found


def _in_order(found: dict[str, Seen], chain: str) -> list[Seen]:
    """Files by their first frames, each knowing which one it goes on from."""

    def by_time(seen: Seen) -> tuple[int, list[tuple[int, int | str]]]:
        return seen.first_ns, order_of(seen.name)

    linked: list[Seen] = []
    for group in recordings(members(list(found), chain)):
        files = sorted((found[str(member.source)] for member in group), key=by_time)
        for i, one in enumerate(files):
            before = files[i - 1].path if i else None
            goes_on = i + 1 < len(files)
            linked.append(replace(one, before=before, goes_on=goes_on))
    return sorted(linked, key=by_time)
