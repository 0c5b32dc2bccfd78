"""
What a stream knows: of each file how far it was read, and what is known there; and a batch, which changes that.

Files that are gone are forgotten after a while. What begins no later than the latest of those could be one of them.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Any

from pyddsi._native import lib
from pyddsi.spark._folder import Seen, Stat

__all__ = ["GONE_MAX", "Known", "Memory", "Plan", "Planned"]

STATES_MAX = 256
"""Files of which it is kept what is known at the place up to which they were read; of others it is found anew."""
GONE_MAX = 100_000
"""Files that are gone and remembered."""

Place = tuple[int, list[Any]]


@dataclass(slots=True)
class Known:
    """
    A file that was read, or a part of it.

    number: what the column `file` says
    read, mark: up to which byte, and a checksum of those before it; marks: the same at 512 bytes, 1024, 2048, ...
    stat: what it was like then
    live: it might have grown then
    gone: since when it is no longer there, in seconds since 1970; 0: it is
    """

    id: int
    path: str
    identity: str
    time_ns: int
    order: list[Any]
    recording: str
    series: int | None
    number: int
    read: int = 0
    mark: int = 0
    marks: list[int] = field(default_factory=list)
    stat: Stat = (0, 0, 0)
    live: bool = False
    gone: float = 0.0

    @classmethod
    def of(cls, row: list[Any]) -> Known:
        """From the log."""
        made = cls(*row)
        made.stat = (made.stat[0], made.stat[1], made.stat[2])
        made.order = [tuple(part) for part in made.order]
        return made

    @property
    def place(self) -> Place:
        """Where it stands among others."""
        return self.time_ns, self.order

    def is_as(self, seen: Seen) -> bool:
        """Whether it has not been touched since it was read."""
        return self.path == seen.path and self.stat == seen.stat


@dataclass(slots=True)
class Planned:
    """
    A range of a file.

    id: of the file
    state: what is known at its start; -1: what the range before it ends with; None: nothing
    """

    id: int
    start: int
    stop: int
    state: int | None


@dataclass(slots=True)
class Plan:
    """
    A batch.

    runs: what is read one after the other
    files: those that it is about, and others of which something has changed
    layout: of the states: another version may have another one
    states: what is known where ranges begin, packed
    ends: what is known where files were read up to, packed
    """

    batch: int
    total: int = 0
    told: int = 0
    runs: list[list[Planned]] = field(default_factory=list)
    files: list[Known] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    horizon: int = -(2**63)
    layout: int = lib.PYDDSI_SNAPSHOT_LAYOUT
    states: list[bytes] = field(default_factory=list)
    ends: dict[int, bytes] = field(default_factory=dict)


class Memory:
    """What is known after a batch."""

    def __init__(self) -> None:
        self.batch = self.total = self.told = 0
        self.horizon = -(2**63)
        """The latest first frame of a file that was forgotten."""
        self.files: dict[int, Known] = {}
        self.ends: dict[int, bytes] = {}
        """What is known where files were read up to, packed; the last that was put there stands last."""
        self.next_id = 0
        self.paths: dict[str, int] = {}
        self._identities: dict[str, set[int]] = {}
        self._recordings: dict[str, list[tuple[Place, int]]] = {}
        self._numbers: dict[str, set[int]] = {}
        self.changed: set[int] = set()
        self.forgotten: list[int] = []

    def put(self, known: Known) -> None:
        """Another file."""
        self.files[known.id] = known
        self.next_id = max(self.next_id, known.id + 1)
        if not known.gone:
            self.paths[known.path] = known.id
        self._identities.setdefault(known.identity, set()).add(known.id)
        if known.series is not None:
            self._numbers.setdefault(known.recording, set()).add(known.series)
        bisect.insort(self._recordings.setdefault(known.recording, []), (known.place, known.id))

    def new(self, seen: Seen, order: list[Any], number: int) -> Known:
        """A file of which nothing has been read."""
        first = seen.first
        known = Known(
            self.next_id,
            seen.path,
            first.identity,
            first.time_ns,
            order,
            seen.recording,
            seen.number,
            number,
        )
        self.put(known)
        self.total += 1
        return known

    def move(self, known: Known, path: str) -> None:
        """It is called otherwise now, or is there again."""
        if self.paths.get(known.path) == known.id:
            del self.paths[known.path]
        if known.path != path or known.gone:
            self.changed.add(known.id)
        known.path, known.gone = path, 0.0
        self.paths[path] = known.id

    def drop(self, id_: int) -> None:
        """Forget a file."""
        known = self.files.pop(id_)
        self.ends.pop(id_, None)
        self.changed.discard(id_)
        if self.paths.get(known.path) == id_:
            del self.paths[known.path]
        self._identities[known.identity].discard(id_)
        if not self._identities[known.identity]:
            del self._identities[known.identity]
        if known.series is not None:
            self._numbers[known.recording].discard(known.series)
        places = self._recordings[known.recording]
        places.remove((known.place, id_))
        if not places:
            del self._recordings[known.recording]
            self._numbers.pop(known.recording, None)

    def alike(self, identity: str) -> list[Known]:
        """Files that begin with this frame."""
        return [self.files[id_] for id_ in sorted(self._identities.get(identity, ()))]

    def before(self, seen: Seen) -> Known | None:
        """The last file of a recording that begins before this one."""
        places = self._recordings.get(seen.recording, [])
        at = bisect.bisect_left(places, (seen.place, -1))
        return self.files[places[at - 1][1]] if at else None

    def numbers(self, recording: str) -> set[int]:
        """Of the files of a recording."""
        return self._numbers.get(recording, set())

    def end(self, id_: int, state: bytes) -> None:
        """What is known where a file was read up to."""
        self.ends.pop(id_, None)
        self.ends[id_] = state
        while len(self.ends) > STATES_MAX:
            del self.ends[next(iter(self.ends))]

    def apply(self, plan: Plan) -> None:
        """Go on by a batch."""
        for id_ in plan.forgotten:
            if id_ in self.files:
                self.drop(id_)
        for known in plan.files:
            if known.id in self.files:
                ends = self.ends.pop(known.id, None)
                self.drop(known.id)
                if ends is not None:
                    self.ends[known.id] = ends
            self.put(known)
        if plan.layout == lib.PYDDSI_SNAPSHOT_LAYOUT:
            for id_, state in plan.ends.items():
                self.end(id_, state)
        self.batch, self.total, self.told = plan.batch, plan.total, plan.told
        self.horizon = plan.horizon
