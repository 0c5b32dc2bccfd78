"""
A stream over a folder of captures that are still being made: rotated files, rings that use names again, files that grow, copies
that arrive late, in pieces, side by side.

    folder ─► what stands there ─► plan: ranges of files, and what is known ─► log ─► parts
    _folder.py                     where each begins            _walk.py      _log.py

Each byte of each capture that stands in the folder is read once, or named in a warning or an error; and a batch that is run again has
the same rows. To that end

    a batch       is fixed when it is planned, and stands in the stream's own log before Spark hears of it
    an offset     says which log, and how many batches: {"v": 2, "stream": "5e1c...", "batch": 17, "files": 40, "told": 0}
    a file        is known by its first frame and by what was read of it, whatever it is called; it is read to its last whole frame,
                  and read on when more comes. No file is ever done
    what is known where a file goes on is kept with how far it was read; a new one begins with what is known of the one before it in its
                  recording

With tail=off a file waits until it has not changed for a while, or its recording goes on in another one. That is all that `settle` is
for: fewer and larger batches. What comes later is never lost.

What a stream does not have is an end. So the tables whose rows come at the end of a capture cannot be streamed.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyddsi.errors import CaptureError
from pyddsi.spark._files import recording_key
from pyddsi.spark._folder import Folder, Look, home_of
from pyddsi.spark._log import Log
from pyddsi.spark._memory import Plan
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
from pyddsi.spark._planner import Planner
from pyddsi.spark.schema import arrow_schema, checked

__all__ = ["STREAMED", "stream_reader"]

STREAMED = ("packets", "messages", "events", "declarations", "rates", "flows", "endpoints")
LOGS = ".pyddsi-streams"
VERSION = 2


@dataclass(frozen=True)
class Offset:
    """How far a stream has come; see the top."""

    stream: str = ""
    batch: int = 0
    files: int = 0
    told: int = 0

    @classmethod
    def of(cls, found: dict[str, Any]) -> Offset:
        """From what Spark has kept."""
        if found.get("v") != VERSION:
            raise CaptureError(
                f"the checkpoint is of another version of pyddsi: it has offsets of version {found.get('v')!r}, and this one "
                f"reads {VERSION}; go on with that version, or begin with a new checkpoint"
            )
        return cls(
            str(found["stream"]), int(found["batch"]), int(found["files"]), int(found["told"])
        )

    def kept(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return {
            "v": VERSION,
            "stream": self.stream,
            "batch": self.batch,
            "files": self.files,
            "told": self.told,
        }


class Follower(DataSourceStreamReader):
    """What both readers have in common. Spark makes one to plan with, and pickles another one to read with."""

    pace = 20.0
    """How many times longer than a look at the folder the time to the next one is: Spark asks a hundred times a second."""

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
        self.chain = str(asked.settings.get("chain", "auto"))
        self._planner: Planner | None = None
        self._log: Log | None = None
        self._of: Path | None = None  # the log of what the planner knows
        self._frozen: Look | None = None
        self._next_look = 0.0
        self._begun = uuid.uuid4().hex[:16]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing has been read."""
        return Offset().kept()

    # ---- the log ----

    def _log_of(self, stream: str) -> Log:
        if self._log is None or self._log.folder.name != stream:
            folder = self.asked.log or home_of(self.asked.paths) / LOGS
            settings = {
                k: v for k, v in self.asked.settings.items() if k not in {"index", "keep_index"}
            }
            asked = {
                "table": self.asked.table,
                "path": list(self.asked.paths),
                "settings": settings,
            }
            self._log = Log(Path(folder), stream, asked)
        return self._log

    def planner(self) -> Planner:
        """What plans, made when somebody asks."""
        if self._planner is None:
            self._planner = Planner(self.asked, Folder(self.asked, self.settings))
        return self._planner

    # ---- how far ----

    def _planned(self, log: Log, batch: int, files_max: float, bytes_max: float) -> Plan | None:
        """A batch that is new."""
        planner = self.planner()
        if planner.memory.batch != batch or self._of != log.folder:
            planner.memory = log.memory(batch)
        self._of = None  # what is known is not to be used again if this fails
        plan = planner.plan(self._frozen or planner.folder.look(), files_max, bytes_max)
        if plan is not None:
            log.write(plan, planner.memory)
        self._of = log.folder
        return plan

    def _after(self, start: dict[str, Any], files_max: float, bytes_max: float) -> dict[str, Any]:
        """The offset after the next batch, which is planned if it was not; the same one if there is nothing to read."""
        at = Offset.of(start)
        log = self._log_of(at.stream or self._begun)
        if at.batch and not log.has(at.batch):
            raise CaptureError(
                f"{log.folder} does not have what the stream has read; bring it back, name the folder that has it with the "
                f"option logDir, or begin with a new checkpoint"
            )
        if log.has(at.batch + 1):
            plan: Plan | None = log.plan(at.batch + 1)
        else:
            begun = time.monotonic()
            if begun < self._next_look:
                return start
            plan = self._planned(log, at.batch, files_max, bytes_max)
            if plan is None:
                now = time.monotonic()
                self._next_look = now + self.pace * (now - begun)
        if plan is None:
            return start
        return Offset(log.folder.name, plan.batch, plan.total, plan.told).kept()

    # ---- parts ----

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        """What lies between two offsets."""
        first, last = Offset.of(start), Offset.of(end)
        if first.batch and first.stream != last.stream:
            raise CaptureError(
                f"the checkpoint goes from one stream ({first.stream}) to another ({last.stream}); begin with a new checkpoint"
            )
        runs: list[Run] = []
        for batch in range(first.batch + 1, last.batch + 1):
            runs += self._runs(self._log_of(last.stream).plan(batch))
        home, request = Home.here(), request_of(self.asked, self.names)
        split = self.asked.split_bytes or usual_split(sum(run.size for run in runs))
        return [Part(home, request, made, whole=True) for made in bundled(runs, split)]

    def _runs(self, plan: Plan) -> Iterator[Run]:
        if plan.layout != Home.here().layout:
            raise CaptureError(
                f"batch {plan.batch} was planned with another version of pyddsi, and has not been read yet; run the query with "
                f"that version once, then with this one"
            )
        files = {known.id: known for known in plan.files}
        for run in plan.runs:
            pieces = []
            for one in run:
                known = files[one.id]
                path = self.planner().where(known)
                if path is None:
                    self.planner().missing(
                        f"{known.path} was to be read from byte {one.start} to {one.stop}, and is gone or another file"
                    )
                    continue
                state = plan.states[one.state] if one.state is not None and one.state >= 0 else None
                numbers = known.number, recording_key(known.path, self.chain)
                pieces.append(Piece(path, *numbers, fingerprint(path), one.start, one.stop, state))
            if pieces:
                size = sum((piece.stop or 0) - piece.start for piece in pieces)
                yield Run(tuple(pieces), whole=False, size=size)

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

    _at: dict[str, Any] | None = None

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - as it was called then
        """All that there is. Where to go on from, the last plan has told; after a restart Spark plans what it has done."""
        return self._after(self._at or self.initialOffset(), math.inf, math.inf)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:
        """What lies between two offsets."""
        self._at = end
        return super().partitions(start, end)


def stream_reader(asked: Asked, schema: StructType) -> DataSourceStreamReader:
    """The reader for this version of Spark."""
    try:
        from pyddsi.spark._limited import Limited  # noqa: PLC0415 - before 4.2 it cannot be loaded
    except ModuleNotFoundError:
        return Unlimited(asked, schema)
    return Limited(asked, schema)
