"""
What a pass over captures reads, and in which scans.

    files ─► recordings ─► runs ─► rows
             files that    what one scan reads, in order: a recording, or a part of a file with the state at its start
             go on where
             another ends

If a time is asked for, and there is much to read, only the chunks of that time are read. The index says which; it is made if there
is none, which takes as long as reading everything, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._files import Member
from pyddsi.capture._scan import EVER, NONE, Range, Request
from pyddsi.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyddsi.capture._index import Index

__all__ = ["Run", "recordings", "runs_of"]

LARGE_BYTES = 64 * 1024 * 1024
"""What is smaller is read faster than its index is found."""
TOLD_AT_ONCE = {"packets", "messages"}
"""Tables whose rows have the time of their frame; what others tell may have happened before."""


class Run(NamedTuple):
    """
    What one scan reads.

    whole: a recording ends with it, so that what is not over is told
    """

    pieces: tuple[tuple[Member, Range], ...]
    whole: bool


def recordings(members: Iterable[Member]) -> list[list[Member]]:
    """Files that go on where another ends stand together."""
    found: list[list[Member]] = []
    for member in members:
        if not member.continues or not found:
            found.append([])
        found[-1].append(member)
    return found


def _is_plain(member: Member) -> bool:
    """Whether one can begin anywhere in it."""
    if not isinstance(member.source, str) or not Path(member.source).is_file():
        return False
    source = open_bytes(member.source)
    try:
        return source.seekable
    finally:
        source.close()


def _is_large(members: Iterable[Member]) -> bool:
    members = list(members)
    sizes = (Path(str(member.source)).stat().st_size for member in members)
    return all(map(_is_plain, members)) and sum(sizes) >= LARGE_BYTES


def _whole(groups: list[list[Member]]) -> Iterator[Run]:
    for group in groups:
        yield Run(tuple((member, Range()) for member in group), whole=True)


def runs_of(
    members: Iterable[Member], request: Request, indexes: Callable[[], list[Index]] | None
) -> Iterator[Run]:
    """
    All that has to be read, in the order of the files.

    indexes: those of all members, if they are wanted; None: they would not be kept
    """
    members = list(members)
    groups = recordings(members)
    bounded = request.start_ns != NONE or request.stop_ns != EVER
    ranged = bounded and request.table in TOLD_AT_ONCE and indexes is not None
    if not ranged or not _is_large(members):
        yield from _whole(groups)
        return
    try:
        found = iter(cast("Callable[[], list[Index]]", indexes)())
    except CaptureError:  # something in them is damaged; what comes before that is still told
        yield from _whole(groups)
        return
    for group in groups:
        for member in group:
            for part in next(found).ranges(LARGE_BYTES, request.start_ns, request.stop_ns):
                yield Run(((member, part),), whole=part.stop is None and member is group[-1])
