"""Which files a capture is made of, in which order, and which of them go on where another ends; and what times mean."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from pyddsi.capture._where import parse_time
from pyddsi.errors import CaptureError

__all__ = [
    "Member",
    "Path_",
    "Time",
    "expand",
    "in_order",
    "is_named",
    "members",
    "moment",
    "order_of",
    "series_of",
    "sources_of",
    "without_empty",
]

Path_ = str | os.PathLike[str]
Time = str | int | float | None
NAMES = (
    ".pcap",
    ".pcapng",
    ".cap",
    ".pcap.gz",
    ".pcapng.gz",
    ".pcap.zst",
    ".pcapng.zst",
    ".pcap.lz4",
    ".pcapng.lz4",
)
_NAMED = re.compile(r"\.(pcap|pcapng|cap)\d*(\.(gz|zst|lz4))?$")
"""With the numbers that tcpdump puts behind the names of its files."""
_SERIES = (  # what stands before the number, the number, what stands behind it
    re.compile(r"(.*[-_.])(\d{5,})_\d{14}(\..*)?"),  # dumpcap, with a time
    re.compile(r"(.*?[-_.])(\d+)(\..*)?"),
    re.compile(r"(.*\.(?:pcap|pcapng|cap))(\d+)((?:\..*)?)"),  # tcpdump
)
SECOND = 1_000_000_000
ALTERNATIVES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Member:
    """
    A file of a capture.

    name: of the file; None for a stream
    number: among the files, as the column `file` has it
    recording: the number of the first file of its recording
    """

    source: str | BinaryIO
    number: int
    recording: int

    @property
    def continues(self) -> bool:
        """Whether it goes on where the file before it ends, as the files of one recording do."""
        return self.recording != self.number


def _alternatives(pattern: str) -> list[str]:
    """The patterns that one with `{a,b}` means; the innermost braces first."""
    found = [pattern]
    while match := re.search(r"\{([^{}]*,[^{}]*)\}", found[0]):
        head, tail = found[0][: match.start()], found[0][match.end() :]
        more = [f"{head}{word}{tail}" for word in match[1].split(",")]
        if len(found) + len(more) > ALTERNATIVES_MAX:
            raise CaptureError(f"{pattern}: that are more than {ALTERNATIVES_MAX} patterns")
        found = [*found[1:], *more]
    return found


def expand(path: Path_) -> list[str]:
    """The files that a path means: itself, those of a folder, those that a pattern matches."""
    name = os.fspath(path)
    if name == "-":
        return [name]
    if Path(name).is_dir():
        found = sorted(
            (str(file) for file in Path(name).iterdir() if is_named(file.name)), key=order_of
        )
        if not found:
            raise CaptureError(
                f"{name} has no captures in it; their names end in {', '.join(NAMES[:3])}, or these packed"
            )
        return found
    patterns = _alternatives(name)
    if not Path(name).exists() and (len(patterns) > 1 or glob.has_magic(name)):
        names = {
            file
            for pattern in patterns
            for file in glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob knows no absolute patterns
        }
        found = sorted((one for one in names if not one.endswith(".pyddsi-index")), key=order_of)
        if not found:
            raise CaptureError(f"{name}: no file matches this pattern")
        return found
    return [name]


def sources_of(
    path: Path_ | BinaryIO | Iterable[Path_],
) -> tuple[list[str | BinaryIO], list[str]]:
    """The files that somebody names, in their order, and those that are left out. CaptureError: one is not there."""
    sources: list[str | BinaryIO] = []
    if isinstance(path, (str, os.PathLike)):
        sources.extend(expand(path))
    elif hasattr(path, "read"):
        sources.append(cast("BinaryIO", path))
    else:
        for one in cast("Iterable[Path_]", path):  # type: ignore[redundant-cast]  # pyright sees bytes
            sources.extend(expand(one))
    for source in sources:
        if isinstance(source, str) and source != "-" and not Path(source).exists():
            raise CaptureError(
                f"{source}: there is no such file; name a pcap or pcapng file, or '-'"
            )
    return without_empty(sources)


def without_empty(
    sources: list[str | BinaryIO],
) -> tuple[list[str | BinaryIO], list[str]]:
    """
    The files that have a byte, and the names of those that have none: a writer was stopped there before it wrote anything, and the
    others are none the worse for it. If all have none, the first stays, for the error that says so.
    """
    empty = [
        one
        for one in sources
        if isinstance(one, str) and Path(one).is_file() and Path(one).stat().st_size == 0
    ]
    empty = empty[1:] if len(empty) == len(sources) else empty
    return [one for one in sources if one not in empty], empty


def is_named(name: str) -> bool:
    """Whether a file has the name of a capture."""
    return _NAMED.search(name.lower()) is not None


def order_of(name: str) -> list[tuple[int, int | str]]:
    """To compare names as people count: run_9 before run_10. How a file is packed does not matter."""
    base = name.lower()
    for ending in sorted(NAMES, key=len, reverse=True):
        base = base.removesuffix(ending)
    return [
        (0, int(part)) if part.isdecimal() else (1, part)
        for part in re.split(r"(\d+)", base)
        if part
    ]


def series_of(name: str) -> tuple[str, str, int | None]:
    """What the files of one recording share, and the number of this one: run_00001.pcapng and run_00002.pcapng go together."""
    folder, base = os.path.split(name)
    for pattern in _SERIES:
        match = pattern.fullmatch(base)
        if match is not None:
            return str(Path(folder, match[1])), match[3] or "", int(match[2])
    return name, "", None


def members(sources: Iterable[str | BinaryIO], chain: str) -> tuple[Member, ...]:
    found: list[Member] = []
    before: object = None
    for number, source in enumerate(sources):
        stem = series_of(source)[:2] if isinstance(source, str) else None
        goes_on = number > 0 and (
            chain == "on" or (chain == "auto" and stem is not None and stem == before)
        )
        found.append(Member(source, number, found[-1].recording if goes_on else number))
        before = stem
    return tuple(found)


def in_order(start: Time, start_ns: int | None, stop: Time, stop_ns: int | None) -> None:
    """ValueError: nothing can lie between these."""
    if start_ns is not None and stop_ns is not None and start_ns > stop_ns:
        raise ValueError(f"the time {start!r} to begin with is after {stop!r} to end with")


def moment(what: str, value: Time, begin_ns: int | None) -> int | None:
    """A time as the core has it: ISO 8601, nanoseconds, or seconds from the beginning of the capture (a float)."""
    if value is None:
        return None
    if isinstance(value, str):
        moment = parse_time(value)
        if moment is not None:
            return moment
        try:
            value = float(value)
        except ValueError:
            raise ValueError(
                f"{what} is a time such as 2026-11-18T12:00:00 or seconds from the beginning such as 1.5, not {value!r}"
            ) from None
    if isinstance(value, float):
        if begin_ns is None:
            raise ValueError(f"{what} in seconds needs a capture with times")
        return begin_ns + round(value * SECOND)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{what} is a text, a number of seconds (float) or nanoseconds since 1970 (int), not {value!r}"
        )
    return value
