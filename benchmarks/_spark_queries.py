"""What `spark.py` asks of Spark, and how much memory its Pythons take for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from pyddsi.capture._index import index_of
from pyddsi.capture._scan import Settings
from pyddsi.spark.source import CaptureReader, CaptureSource

__all__ = [
    "BITS",
    "added",
    "by_events",
    "by_resource",
    "by_state",
    "by_window",
    "consume",
    "cuts_of",
    "share_read",
    "worker_peak",
]

BITS = 14  # of the numbers in the made captures


def consume(frame: DataFrame) -> None:
    """Every row, and nothing done with it."""
    frame.write.format("noop").mode("overwrite").save()


def by_resource(frame: DataFrame) -> list[Any]:
    """A second by resource, from rows."""
    window = f.date_trunc("second", "ts")
    counts = f.count("*"), f.sum("payload_len")
    return frame.groupBy(window, "rid").agg(*counts).collect()


def added(frame: DataFrame) -> list[Any]:
    """The same from what the core has added up."""
    return frame.groupBy("window", "rid").agg(f.sum("messages"), f.sum("bytes")).collect()


def by_window(frame: DataFrame) -> tuple[int, ...]:
    """Gaps, missing and late numbers as SQL finds them: a window over each flow, in the order of the file."""
    order = Window.partitionBy("flow").orderBy("pkt", "msg")
    half, whole = 1 << (BITS - 1), 1 << BITS
    step = f.pmod(f.col("sn") - f.lag("sn").over(order) + half, f.lit(whole)) - half
    steps = frame.where("kind = 7").withColumn("step", f.coalesce(step, f.lit(0)))
    numbered = steps.withColumn("u", f.sum("step").over(order))
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    known = numbered.withColumn("top", f.max("u").over(before))
    ahead = f.col("u") - f.col("top") - 1
    row = known.agg(
        f.count(f.when(ahead > 0, 1)),
        f.coalesce(f.sum(f.when(ahead > 0, ahead)), f.lit(0)),
        f.count(f.when(ahead < 0, 1)),
    ).first()
    return tuple(row or ())


def by_state(frame: DataFrame) -> tuple[int, ...]:
    """The same from the columns that the core fills, each task from the state at its start."""
    row = frame.where("kind = 7").agg(
        f.count(f.when(f.col("gap") > 0, 1)),
        f.sum("gap"),
        f.count(f.when(f.col("seq_event").isin(3, 4, 5), 1)),
    )
    return tuple(row.first() or ())


def by_events(frame: DataFrame) -> tuple[int, ...]:
    """The same, if only what happened leaves the core."""
    gap, late = f.col("type") == "gap", f.col("type").isin("repeat", "fill")
    missing = f.col("usn_to") - f.col("usn_from") + 1
    row = frame.agg(
        f.count(f.when(gap, 1)),
        f.coalesce(f.sum(f.when(gap, missing)), f.lit(0)),
        f.count(f.when(late, 1)),
    )
    return tuple(row.first() or ())


def cuts_of(path: Path, parts: int) -> str:
    """Where frames begin, for the source that cannot find out itself."""
    index = index_of(str(path), Settings(), keep=False)
    offsets = [chunk.offset for chunk in index.chunks[1:-1]]
    inside = offsets[:: max(1, len(offsets) // parts)]
    return ",".join(map(str, [24, *inside, path.stat().st_size]))


def share_read(path: Path) -> float:
    """Which share of a file a hundredth of its time takes."""
    [first, last] = (index_of(str(path), Settings()).chunks[i] for i in (0, -1))
    span = (max(last.last_ns, last.first_ns) - first.first_ns) / 1e9
    options = {"path": str(path), "from": str(span * 0.5), "to": str(span * 0.51)}
    source = CaptureSource({**options, "splitSize": "8m", "columns": "pkt"})
    reader = cast("CaptureReader", source.reader(schema=source.schema()))
    size = sum(run.size for part in reader.partitions() for run in part.runs)
    return 100 * size / path.stat().st_size


# ---- memory ----


def peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def below(pid: int) -> Iterator[int]:
    """The processes that it began, and theirs."""
    left = [pid]
    while left:
        for tasks in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            found = [int(word) for word in tasks.read_text().split()]
            left += found
            yield from found


def worker_peak() -> float:
    """The most memory that a Python of Spark's has had so far."""
    found = [0.0]
    for pid in below(os.getpid()):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"pyspark.daemon" in words:
            found.append(peak_mb(pid))
    return max(found)
