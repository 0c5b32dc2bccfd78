"""
What a process has done, in a file that survives its kill: pages of a mapped file belong to the system.

    head      streams of ours: how many samples were begun, and how many were accepted
    sources   one row for each stream of another process that was heard

A number is begun before it is put and accepted afterwards, so whoever was killed in between leaves one more begun than
accepted. What comes seldom (gaps, events, states) is a line in a log beside it.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SMALL, LARGE, BEST = range(3)
STREAMS = ("small", "large", "best")
SOURCES_MAX = 4096
RECENT = 4096

_SENT = struct.Struct("<QQ")
_ROW = struct.Struct("<HHIQQQQQQQQ")
_HEAD = _SENT.size * len(STREAMS)
_SIZE = _HEAD + _ROW.size * SOURCES_MAX


@dataclass(slots=True)
class Source:
    """A stream of another process, as it was heard."""

    slot: int
    stream: int
    life: int
    count: int = 0
    first: int = 0
    last: int = 0
    missing: int = 0
    gaps: int = 0
    repeated: int = 0  # or of a reliable stream, out of order
    corrupt: int = 0
    late: int = 0  # of best effort, behind a later one: it may have come by another way

    def pack(self) -> bytes:
        """As it lies in the file."""
        return _ROW.pack(
            self.slot,
            self.stream,
            self.life,
            self.count,
            self.first,
            self.last,
            self.missing,
            self.gaps,
            self.repeated,
            self.corrupt,
            self.late,
        )


class Book:
    """The books of one life of a process, as it writes them."""

    def __init__(self, folder: Path, slot: int, life: int) -> None:
        with (folder / f"{slot}-{life}.book").open("w+b") as file:
            file.truncate(_SIZE)
            self._map = mmap.mmap(file.fileno(), _SIZE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._log = os.open(folder / f"{slot}-{life}.log", flags, 0o600)
        self._rows: dict[tuple[int, int, int], tuple[int, Source]] = {}
        self._recent: dict[tuple[int, int], deque[int]] = {}  # of best effort
        self._new = threading.Lock()  # two streams that begin at one time would have one row

    def sent(self, stream: int, begun: int, accepted: int) -> None:
        """So many samples of ours were begun, and accepted."""
        _SENT.pack_into(self._map, stream * _SENT.size, begun, accepted)

    def heard(self, slot: int, life: int, stream: int, number: int, *, whole: bool) -> None:
        """A sample was delivered."""
        key = slot, life, stream
        found = self._rows.get(key)
        if found is None:
            source = Source(slot, stream, life, first=number, last=number - 1)
            with self._new:
                found = self._rows[key] = _HEAD + len(self._rows) * _ROW.size, source
        at, row = found
        row.count += 1
        row.corrupt += not whole
        if stream == BEST:  # of which one thread is told
            if row.count == 1:
                for old in [one for one in self._recent if one[0] == slot and one[1] < life - 1]:
                    del self._recent[old]  # nothing of it can be on its way any more
            recent = self._recent.setdefault((slot, life), deque(maxlen=RECENT))
            new = number > row.last or number not in recent
            recent.append(number)
        else:
            new = number > row.last
        if number <= row.last and new:
            row.late += 1
        elif not new:
            row.repeated += 1
            self.say("repeated", slot=slot, life=life, stream=stream, number=number, last=row.last)
        else:
            if number > row.last + 1:
                row.gaps += 1
                row.missing += number - row.last - 1
                if stream != BEST:
                    self.say("gap", slot=slot, life=life, stream=stream, at=row.last, to=number)
            row.last = number
        self._map[at : at + _ROW.size] = row.pack()

    def close(self) -> None:
        """Give the files back; what is written stays."""
        self._map.close()
        os.close(self._log)

    def say(self, kind: str, **facts: Any) -> None:
        """A line in the log; whole, or not there."""
        line = json.dumps({"kind": kind, "at_s": round(time.monotonic(), 3)} | facts)
        os.write(self._log, line.encode() + b"\n")


@dataclass(slots=True)
class Record:
    """The same as the judge reads it."""

    slot: int
    life: int
    sent: list[tuple[int, int]]
    heard: dict[tuple[int, int, int], Source]  # by slot, life and stream
    log: list[dict[str, Any]]

    def last(self, kind: str) -> dict[str, Any]:
        """The latest line of a kind; empty: there is none."""
        return next((line for line in reversed(self.log) if line["kind"] == kind), {})


def _read_sent(record: Record, data: bytes) -> None:
    record.sent = [_SENT.unpack_from(data, i * _SENT.size) for i in range(len(STREAMS))]


def refresh(folder: Path, record: Record) -> None:
    """Read again what it has put."""
    try:
        with (folder / f"{record.slot}-{record.life}.book").open("rb") as file:
            data = file.read(_HEAD)
    except FileNotFoundError:
        return
    if len(data) == _HEAD:
        _read_sent(record, data)


def read(folder: Path, slot: int, life: int) -> Record:
    """What a process has written so far."""
    record = Record(slot, life, [(0, 0)] * len(STREAMS), {}, [])
    try:
        data = (folder / f"{slot}-{life}.book").read_bytes()
        text = (folder / f"{slot}-{life}.log").read_text()
    except FileNotFoundError:
        return record  # it was killed before it began
    if len(data) < _SIZE:
        return record
    _read_sent(record, data)
    for at in range(_HEAD, _SIZE, _ROW.size):
        row = Source(*_ROW.unpack_from(data, at))
        if row.count == 0:
            break
        record.heard[row.slot, row.life, row.stream] = row
    record.log = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return record
