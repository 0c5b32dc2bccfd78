"""
What stands in the folder of a stream: which files there are, by what they are known, and whether they still change.

Whatever is asked of a file that has not changed is remembered: a look over thousands of them lists folders, and opens none.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyddsi.capture._files import is_named, order_of, series_of
from pyddsi.capture._index import SUFFIX
from pyddsi.capture._scan import Settings
from pyddsi.errors import CaptureError
from pyddsi.spark._options import Asked
from pyddsi.spark._walk import First, first_of

__all__ = ["Folder", "Look", "Seen", "Stat", "home_of"]

Stat = tuple[int, int, int]
"""Size, time of change in nanoseconds, inode: what changes when a file does."""
HEADER_BYTES = 24  # a file with no more has no frame


@dataclass(frozen=True, slots=True)
class Seen:
    """
    A file with a frame.

    recording: what its name shares with those of other files of its recording; number: what it does not
    goes_on: another file of the recording begins later
    """

    path: str
    stat: Stat
    first: First
    recording: str
    number: int | None
    goes_on: bool = False

    @property
    def place(self) -> tuple[int, list[tuple[int, int | str]]]:
        """Where it stands among others."""
        return self.first.time_ns, order_of(Path(self.path).name)


@dataclass(slots=True)
class Look:
    """
    What stood there at one time.

    files: in the order of their first frames
    odd: those that cannot be read, and why
    """

    files: list[Seen]
    odd: dict[str, tuple[Stat, str]]


def home_of(paths: tuple[str, ...]) -> Path:
    """The folder that a stream is over; of a pattern, the one above what varies."""
    path = Path(paths[0])
    while glob.has_magic(str(path)):
        path = path.parent
    return path


def _recording(path: str, chain: str) -> tuple[str, int | None]:
    base, ending, number = series_of(path)
    for packing in (".gz", ".zst", ".lz4"):
        ending = ending.removesuffix(packing)
        base = base if number is not None else base.removesuffix(packing)
    name = f"{base}*{ending}" if ending else base
    return ("" if chain == "on" else path if chain == "off" else name), number


class Folder:
    """What a stream looks at, in the planning process."""

    def __init__(self, asked: Asked, settings: Settings) -> None:
        self.asked = asked
        self.settings = settings
        self._chain = str(asked.settings.get("chain", "auto"))
        self._stats: dict[str, Stat] = {}
        self._since: dict[str, float] = {}
        self._known: dict[str, tuple[Stat, Seen | str | None]] = {}
        self._look = Look([], {})

    def _paths(self) -> set[str]:
        found: set[str] = set()
        for path in self.asked.paths:
            if Path(path).is_dir():
                with os.scandir(path) as inside:
                    found.update(entry.path for entry in inside if is_named(entry.name))
            elif glob.has_magic(path):
                names = glob.glob(path, recursive=True)  # noqa: PTH207 - Path has none for absolute patterns
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
        return found

    def _is(self, path: str, now: Stat, mode: int) -> Seen | str | None:
        """A file with a frame; one without; or why it cannot be read."""
        if not stat.S_ISREG(mode):
            return f"{path} is no file"
        if now[0] <= HEADER_BYTES:
            return None
        try:
            first = first_of(path, self.settings)
        except CaptureError as error:
            return str(error)
        return None if first is None else Seen(path, now, first, *_recording(path, self._chain))

    def look(self) -> Look:
        """What stands there now: the same object as before, if nothing has changed."""
        stats: dict[str, Stat] = {}
        modes: dict[str, int] = {}
        for path in self._paths():
            try:
                found = os.stat(path)  # noqa: PTH116 - of thousands
            except OSError:
                continue  # deleted while we looked, or a link to nowhere
            stats[path] = found.st_size, found.st_mtime_ns, found.st_ino
            modes[path] = found.st_mode
        if stats == self._stats:
            return self._look
        now = time.monotonic()
        known: dict[str, tuple[Stat, Seen | str | None]] = {}
        for path, one in stats.items():
            held = self._known.get(path)
            if held is None or held[0] != one:
                self._since[path] = now
                held = one, self._is(path, one, modes[path])
            known[path] = held
        for path in self._since.keys() - stats.keys():
            del self._since[path]
        self._stats, self._known = stats, known
        last: dict[str, Seen] = {}
        files = []
        listed = [is_ for _, is_ in known.values() if isinstance(is_, Seen)]
        for seen in sorted(listed, key=lambda seen: seen.place, reverse=True):
            files.append(replace(seen, goes_on=seen.recording in last))
            last[seen.recording] = seen
        odd = {path: (held, is_) for path, (held, is_) in known.items() if isinstance(is_, str)}
        self._look = Look(files[::-1], odd)
        return self._look

    def forget(self, path: str) -> None:
        """It was not what it seemed: look again."""
        self._stats.pop(path, None)
        self._known.pop(path, None)

    def settled(self, path: str, one: Stat) -> bool:
        """Whether a file has not changed for a while: by its own time, or by what was seen of it."""
        seen = time.monotonic() - self._since.get(path, time.monotonic())
        return seen >= self.asked.settle or abs(time.time() - one[1] / 1e9) >= self.asked.settle
