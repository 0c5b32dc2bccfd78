"""How much of a stream is one batch: Spark asks for that from 4.2 on."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxFiles

from pyddsi.spark._files import file_key
from tests.capture.traffic import traffic
from tests.spark.queries import Query, parts_of, put, restarted, whole, without_file


def test_limits(folder: Path) -> None:
    """A stream that begins over a full folder would read all of it in one batch."""
    sizes = [put(folder, i, p).stat().st_size for i, p in enumerate(parts_of(traffic(1).frames, 6))]
    query = Query(folder)
    assert {row["file"] for row in query.batch(ReadMaxFiles(1))} == {
        file_key(str(folder / "run_00000.pcap"))
    }
    by_two = Query(folder, maxFilesPerTrigger="2")
    assert by_two.reader().getDefaultReadLimit() == ReadMaxFiles(2)
    assert [len({r["file"] for r in by_two.batch(ReadMaxFiles(2))}) for _ in range(4)] == [
        2,
        2,
        2,
        0,
    ]
    assert [one["files"] for one in by_two.offsets] == [0, 2, 4, 6]
    limit = sizes[0] + 1
    by_bytes = Query(folder, maxBytesPerTrigger=str(limit))
    assert by_bytes.reader().getDefaultReadLimit() == ReadMaxBytes(limit)
    assert len({row["file"] for row in by_bytes.batch(ReadMaxBytes(limit))}) == 2


def test_less_than_a_file(folder: Path) -> None:
    """A batch of nothing would be made for ever, where the first file alone is larger than the limit."""
    put(folder, 0, traffic(1).frames)
    query = Query(folder, maxBytesPerTrigger="10")
    assert query.batch(ReadMaxBytes(10))
    assert query.batch(ReadMaxBytes(10)) == []


def test_available_now_ends(folder: Path) -> None:
    """A query over what is there now would go on for as long as files come."""
    first, second, third = parts_of(traffic(1).frames, 3)
    put(folder, 0, first)
    put(folder, 1, second)
    query = Query(folder, kept=True, maxFilesPerTrigger="1")
    query.reader().prepareForTriggerAvailableNow()
    put(folder, 2, third)
    files = [{row["file"] for row in query.batch(ReadMaxFiles(1))} for _ in range(4)]
    assert [len(one) for one in files] == [1, 1, 0, 0]


def test_in_spark(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    """Batches would be right, and Spark ask for other ones: a batch for each file, one that is begun again, a file that is gone."""
    frames = traffic(3, packets=600, repeat=0.2).frames
    batches, found = restarted(
        spark, folder, tmp_path / "checkpoint", frames, fails=2, maxFilesPerTrigger="1"
    )
    assert batches == [0, 1, 2, 2, 3, 4]
    assert without_file(found) == without_file(whole(tmp_path, frames))
