"""Folders of captures, and streaming queries over them, mostly without Spark."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyddsi.spark import stream
from pyddsi.spark.source import CaptureSource
from tests.capture.traffic import Frame, write
from tests.spark.frames import Row, one_reader

__all__ = ["COLUMNS", "Query", "parts_of", "put", "restarted", "settled", "whole", "without_file"]

COLUMNS = ("file", "pkt", "msg", "usn", "seq_event", "since_first_us", "flow", "epoch")
OLD = 100.0  # seconds, which is longer than any `settle` here


def settled(path: Path) -> Path:
    """As if nobody had written to it for a while."""
    then = time.time() - OLD
    os.utime(path, (then, then))
    return path


def parts_of(frames: list[Frame], count: int) -> list[list[Frame]]:
    """Frames in so many pieces."""
    return [frames[i * len(frames) // count : (i + 1) * len(frames) // count] for i in range(count)]


def put(folder: Path, number: int, frames: list[Frame], *, name: str = "run_{:05d}.pcap") -> Path:
    """A file of a recording, that is over."""
    return settled(write(folder / name.format(number), frames))


class Query:
    """A streaming query without Spark. Each question is put to a new reader, as after a restart, unless `kept`."""

    def __init__(
        self, folder: Path, *, kept: bool = False, unlimited: bool = False, **options: str
    ) -> None:
        options = {"path": str(folder), "columns": ",".join(COLUMNS), **options}
        self.source = CaptureSource(options)
        self.unlimited = unlimited or isinstance(self._of_spark(), stream.Unlimited)
        self.kept = self._reader() if kept else None
        self.offsets: list[dict[str, Any]] = [self.reader().initialOffset()]

    def _of_spark(self) -> Any:
        return self.source.streamReader(self.source.schema())

    def _reader(self) -> Any:
        made = (
            stream.Unlimited(self.source.asked, self.source.schema())
            if self.unlimited
            else self._of_spark()
        )
        made.pace = 0.0
        return made

    def reader(self) -> Any:
        """The reader that is asked next."""
        return self.kept or self._reader()

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        """The rows of a batch."""
        reader = self.reader()
        parts = reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

    def latest(self, limit: Any = None) -> dict[str, Any]:
        """How far the next batch goes."""
        reader = self.reader()
        if self.unlimited:
            reader.partitions(self.offsets[-1], self.offsets[-1])  # as Spark does after a restart
            found = reader.latestOffset()
        else:
            from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: PLC0415 - from 4.2 on

            found = reader.latestOffset(self.offsets[-1], limit or ReadAllAvailable())
        return dict(json.loads(json.dumps(found)))

    def batch(self, limit: Any = None) -> list[Row]:
        """The next batch; nothing if there is none."""
        end = self.latest(limit)
        if end == self.offsets[-1]:
            return []
        self.offsets.append(end)
        return self.between(*self.offsets[-2:])


def without_file(rows: list[Row]) -> list[Row]:
    """Rows of several files as those of one: places in files are left out."""
    return [{k: v for k, v in row.items() if k not in {"file", "pkt"}} for row in rows]


def whole(tmp_path: Path, frames: list[Frame]) -> list[Row]:
    """What one reader of one file says."""
    return one_reader(write(tmp_path / "whole.pcap", frames), "messages", COLUMNS)


def restarted(
    spark: SparkSession,
    folder: Path,
    checkpoint: Path,
    frames: list[Frame],
    fails: int,
    **options: str,
) -> tuple[list[int], list[Row]]:
    """
    A stream over a recording of five files: two are there at first, then the other three while the first one goes. One batch
    fails, and the query is begun again. The numbers of the batches, and the rows of those that did not fail.
    """
    batches: list[int] = []
    found: list[Row] = []

    def take(frame: DataFrame, number: int) -> None:
        rows = frame.toArrow().to_pylist()
        batches.append(number)
        if number == fails and batches.count(number) == 1:
            raise RuntimeError("the machine fails here")
        found.extend(rows)

    def run() -> None:
        reader = spark.readStream.format("pyddsi").options(columns=",".join(COLUMNS), **options)
        writer = reader.load(str(folder)).writeStream.foreachBatch(take)
        at = writer.option("checkpointLocation", str(checkpoint))
        at.trigger(availableNow=True).start().awaitTermination()

    parts = parts_of(frames, 5)
    for number in range(2):
        put(folder, number, parts[number])
    run()
    for number in range(2, 5):
        put(folder, number, parts[number])
    (folder / "run_00000.pcap").unlink()
    with pytest.raises(Exception, match="the machine fails here"):
        run()
    run()
    return batches, found
