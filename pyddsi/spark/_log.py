"""
What a stream remembers: its own log, which nobody else writes.

    FOLDER/STREAM/000000017.plan     what batch 17 consists of, and what that changed
                  000000020.known    all that is known after batch 20

A plan is written, and on the disk, before Spark hears of its batch; from then on it is read, and never made again. So a batch that is
run again has the same rows, whatever has happened to the captures. After a restart what is known comes from the last file that has all
of it, and the plans behind it.

What is remembered of a file is by what it is known, how far it was read, and a checksum of the last bytes before that. Files that are gone
are forgotten after a while; what begins no later than the latest of those could have been read, and is refused.

Layout: a line of JSON, which names the sizes and checksums of the states that follow it.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from pyddsi._native import lib
from pyddsi.errors import CaptureError
from pyddsi.spark._memory import Known, Memory, Plan, Planned

__all__ = ["Log"]

FORMAT = 1
KNOWN_EVERY = 10
"""Batches between two files that have all that is known."""
PLANS_KEPT = 100
"""As many as Spark keeps of its own, by default."""


# ---- files ----


def _write(place: Path, head: dict[str, Any], states: Iterable[bytes]) -> None:
    """Whole or not at all; if there is one already, that stays."""
    states = list(states)
    head["states"] = [[len(state), zlib.crc32(state)] for state in states]
    line = json.dumps(head, separators=(",", ":")).encode()
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".", delete=False) as file:
        try:
            file.write(b"%d %08x\n%b\n" % (len(line), zlib.crc32(line), line))
            file.writelines(states)
            file.flush()
            os.fsync(file.fileno())
            _place(file.name, place)
        finally:
            with suppress(OSError):
                os.unlink(file.name)  # noqa: PTH108 - as the rest
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _place(made: str, place: Path) -> None:
    try:
        os.link(made, place)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        os.replace(made, place)  # noqa: PTH105 - as the rest


class _DamagedError(ValueError):
    """A checksum is another one."""


def _taken(data: bytes, size: int, crc: int) -> bytes:
    if len(data) < size or zlib.crc32(data[:size]) != crc:
        raise _DamagedError("it is damaged")
    return data[:size]


def _read(place: Path) -> tuple[dict[str, Any], list[bytes]]:
    """What was written there."""
    try:
        first, _, rest = place.read_bytes().partition(b"\n")
        size, crc = first.split()
        line = _taken(rest, int(size), int(crc, 16))
        head = dict(json.loads(line))
        at = len(line) + 1
        states = []
        for count, sum_ in head["states"]:
            states.append(_taken(rest[at : at + count], count, sum_))
            at += count
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CaptureError(
            f"{place}, which says what a stream has read, cannot be read ({error}); bring it back, or begin with a new checkpoint"
        ) from None
    if head["format"] != FORMAT:
        raise CaptureError(
            f"{place} is of another version of pyddsi; go on with that one, or begin with a new checkpoint"
        )
    return head, states


class Log:
    """
    The files of one stream.

    asked: what the stream depends on; it is refused to go on with something else
    """

    def __init__(self, folder: Path, stream: str, asked: dict[str, Any]) -> None:
        self.folder = folder / stream
        self.asked = json.loads(json.dumps(asked))

    def _path(self, batch: int, kind: str) -> Path:
        return self.folder / f"{batch:09d}.{kind}"

    def has(self, batch: int) -> bool:
        """Whether this batch has been planned."""
        return self._path(batch, "plan").exists()

    def _check(self, head: dict[str, Any]) -> None:
        for name, value in self.asked.items():
            if head["asked"].get(name) != value:
                raise CaptureError(
                    f"the checkpoint is of a stream with {name} {head['asked'].get(name)!r}, and this one has {value!r}; "
                    f"go on with the first, or begin with a new checkpoint"
                )

    # ---- plans ----

    def write(self, plan: Plan, memory: Memory) -> None:
        """From now on this is the batch."""
        head = {
            "format": FORMAT,
            "asked": self.asked,
            "batch": plan.batch,
            "total": plan.total,
            "told": plan.told,
            "horizon": plan.horizon,
            "layout": plan.layout,
            "runs": [[astuple(one) for one in run] for run in plan.runs],
            "files": [astuple(known) for known in plan.files],
            "forgotten": plan.forgotten,
            "ends": list(plan.ends),
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(self._path(plan.batch, "plan"), head, [*plan.states, *plan.ends.values()])
            if plan.batch % KNOWN_EVERY == 0:
                self._write_known(memory)
                self._clean(plan.batch)
        except OSError as error:
            raise CaptureError(
                f"{self.folder}: what the stream reads cannot be noted there ({error}); name another folder with the option logDir"
            ) from error

    def plan(self, batch: int) -> Plan:
        """A batch, as it was planned."""
        head, states = _read(self._path(batch, "plan"))
        self._check(head)
        count = len(states) - len(head["ends"])
        return Plan(
            batch=batch,
            total=head["total"],
            told=head["told"],
            runs=[[Planned(*one) for one in run] for run in head["runs"]],
            files=[Known.of(row) for row in head["files"]],
            forgotten=head["forgotten"],
            horizon=head["horizon"],
            layout=head["layout"],
            states=states[:count],
            ends=dict(zip(head["ends"], states[count:], strict=True)),
        )

    # ---- what is known ----

    def _write_known(self, memory: Memory) -> None:
        head = {
            "format": FORMAT,
            "asked": self.asked,
            "batch": memory.batch,
            "total": memory.total,
            "told": memory.told,
            "horizon": memory.horizon,
            "layout": lib.PYDDSI_SNAPSHOT_LAYOUT,
            "next": memory.next_id,
            "files": [astuple(known) for known in memory.files.values()],
            "ends": list(memory.ends),
        }
        _write(self._path(memory.batch, "known"), head, memory.ends.values())

    def memory(self, batch: int) -> Memory:
        """What was known after a batch."""
        memory = Memory()
        begin = batch - batch % KNOWN_EVERY
        while begin > 0 and not self._path(begin, "known").exists():
            begin -= KNOWN_EVERY
        if begin > 0:
            head, states = _read(self._path(begin, "known"))
            self._check(head)
            for row in head["files"]:
                memory.put(Known.of(row))
            if head["layout"] == lib.PYDDSI_SNAPSHOT_LAYOUT:
                memory.ends = dict(zip(head["ends"], states, strict=True))
            memory.batch, memory.total, memory.told = begin, head["total"], head["told"]
            memory.horizon, memory.next_id = head["horizon"], head["next"]
        for one in range(begin + 1, batch + 1):
            memory.apply(self.plan(one))
        return memory

    def _clean(self, batch: int) -> None:
        oldest = batch - PLANS_KEPT
        for path in self.folder.iterdir():
            name, _, kind = path.name.partition(".")
            old = name.isdecimal() and int(name) < oldest
            if not name or (old and kind in {"plan", "known"}):  # or what a stop left behind
                path.unlink(missing_ok=True)
