"""
Streams over folders of captures. Most is tried without Spark: a reader is asked as Spark asks it (`Query`), and forgets
everything but its offset wherever a query could be restarted.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyddsi.capture._capture import CaptureWarning
from pyddsi.capture._files import order_of
from pyddsi.errors import CaptureError
from pyddsi.spark import _walk
from pyddsi.spark._files import file_key
from tests.capture.traffic import traffic, write
from tests.spark.frames import Row, one_reader
from tests.spark.queries import Query, parts_of, put, restarted, settled, whole, without_file


@pytest.mark.parametrize("unlimited", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_rotation(tmp_path: Path, folder: Path, *, unlimited: bool, kept: bool) -> None:
    """Rows would be missing, or there twice, or repeats not be seen from one file to the next, with restarts between all steps or without."""
    frames = traffic(3, packets=600, repeat=0.2).frames
    query = Query(folder, unlimited=unlimited, kept=kept)
    assert query.batch() == []
    found = []
    for number, part in enumerate(parts_of(frames, 4)):
        path = put(folder, number, part)
        rows = query.batch()
        assert {row["file"] for row in rows} == {file_key(str(path))}
        assert query.batch() == []
        found += rows
    assert without_file(found) == without_file(whole(tmp_path, frames))


def test_unfinished_files_wait(folder: Path) -> None:
    """A file that is being written would be taken for done."""
    first, second = parts_of(traffic(1).frames, 2)
    write(folder / "run_00000.pcap", first)  # just now
    query = Query(folder, settle="60")
    assert query.batch() == []
    write(folder / "run_00001.pcap", second)
    assert {row["file"] for row in query.batch()} == {file_key(str(folder / "run_00000.pcap"))}
    settled(folder / "run_00001.pcap")
    assert {row["file"] for row in query.batch()} == {file_key(str(folder / "run_00001.pcap"))}


def test_nothing_to_read_yet(folder: Path) -> None:
    """A file that has been made and has no frame yet would stop the stream, or be taken for read."""
    frames = traffic(1, packets=30).frames
    path = write(folder / "a.pcap", frames)
    data = path.read_bytes()
    query = Query(folder)
    for size in (0, 10, 24, 40):
        path.write_bytes(data[:size])
        settled(path)
        assert query.batch() == []
    path.write_bytes(data)
    assert query.batch() == []
    settled(path)
    assert len(query.batch()) == len(one_reader(path, "messages", ["pkt"]))


def test_tail(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A growing file would not be read until it is done; or rows at the places where reading stopped would be other ones."""
    monkeypatch.setattr(_walk, "CHUNK_BYTES", 9_000)
    frames = traffic(7, packets=500, repeat=0.2).frames
    data = write(tmp_path / "all.pcap", frames).read_bytes()
    path = folder / "run_00000.pcap"
    query = Query(folder, tail="on", settle="60", splitSize="64k")
    found: list[Row] = []
    rand = random.Random(1)
    at = 0
    while at < len(data):
        at = min(len(data), at + rand.randrange(1, 12_000))
        path.write_bytes(data[:at])
        found += query.batch()
    assert len(query.offsets) > 5
    assert without_file(found) == without_file(whole(tmp_path, frames))


def test_silence_and_then_more(tmp_path: Path, folder: Path) -> None:
    """What comes into a file after a long silence would be lost."""
    frames = traffic(8, packets=300, repeat=0.2).frames
    data = write(tmp_path / "all.pcap", frames).read_bytes()
    path = folder / "run.pcap"
    query = Query(folder)
    found: list[Row] = []
    for at in (len(data) // 3, len(data) // 2 + 7, len(data)):
        path.write_bytes(data[:at])
        assert query.batch() == []
        settled(path)
        with pytest.warns(CaptureWarning, match="is cut off") if at < len(data) else nullcontext():
            found += query.batch()
    assert without_file(found) == without_file(whole(tmp_path, frames))


def test_ring(tmp_path: Path, folder: Path) -> None:
    """A ring that uses its names again would be read once."""
    frames = traffic(9, packets=700, repeat=0.2).frames
    query = Query(folder)
    found = []
    for number, part in enumerate(parts_of(frames, 7)):
        put(folder, number % 3, part, name="ring_{}.pcap")
        found += query.batch()
    assert without_file(found) == without_file(whole(tmp_path, frames))
    recording = Query(folder)  # what is left, in the order of time
    places = [row["file"] for row in recording.batch()]
    assert list(dict.fromkeys(places)) == [
        file_key(str(folder / f"ring_{n}.pcap")) for n in (1, 2, 0)
    ]


def test_a_number_far_away(folder: Path) -> None:
    """A file with a large number in its name would have the planner list all numbers before it, and take all memory."""
    parts = parts_of(traffic(4).frames, 5)
    query = Query(folder)
    for number, part in zip((1, 2, 6, 7, 10**6), parts, strict=True):
        put(folder, number, part)
        tracemalloc.start()
        with pytest.warns(CaptureWarning, match="3 files") if number == 6 else nullcontext():
            assert query.batch()
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()


def test_offsets_stay_small(folder: Path) -> None:
    """The checkpoint would grow with every file."""
    frames = traffic(2, packets=400).frames
    query = Query(folder)
    for number, part in enumerate(parts_of(frames, 40)):
        put(folder, number, part)
        query.batch()
        if number > 3:
            (folder / f"run_{number - 3:05d}.pcap").unlink()
    assert len(json.dumps(query.offsets[-1])) < 100
    assert query.offsets[-1]["files"] == 40


def test_same_rows_again(folder: Path) -> None:
    """A batch that is planned again after a restart would have other rows than before."""
    frames = traffic(3, packets=600, repeat=0.2).frames
    query = Query(folder)
    batches = []
    for number, part in enumerate(parts_of(frames, 6)):
        put(folder, number, part)
        batches.append(query.batch())
    (folder / "run_00000.pcap").rename(folder / "old.pcap")  # which does not matter
    (folder / "run_00001.pcap").rename(folder / "run_00007.pcap")
    for number in range(6):
        assert query.between(query.offsets[number], query.offsets[number + 1]) == batches[number]
    assert query.batch() == []


def test_missing(folder: Path) -> None:
    """A file that was rotated away before it was read would be missing in silence."""
    for number, part in enumerate(parts_of(traffic(1).frames, 4)):
        put(folder, number, part)
    query, skipping = Query(folder), Query(folder, onMissing="skip")
    start, end = query.offsets[0], query.latest()
    (folder / "run_00001.pcap").unlink()
    with pytest.raises(CaptureError, match=r"run_00001\.pcap was to be read .*onMissing=skip"):
        query.between(start, end)
    with pytest.warns(CaptureWarning, match=r"run_00001\.pcap was to be read .* passed over"):
        assert len({row["file"] for row in skipping.between(start, end)}) == 3


def test_gone_before_it_was_read(folder: Path) -> None:
    """A file that was seen, and deleted before its turn came, would be missing in silence."""
    for number, part in enumerate(parts_of(traffic(1).frames, 3)):
        put(folder, number, part)
    path = write(folder / "other.pcap", traffic(2).frames)  # just now
    query = Query(folder, kept=True, settle="60")
    assert len({row["file"] for row in query.batch()}) == 3
    path.unlink()
    with pytest.raises(CaptureError, match=r"other\.pcap is gone, and was read to byte 0 only"):
        query.batch()


def test_missing_while_it_is_read(folder: Path) -> None:
    """The same, when the file goes between planning and reading, or while it was still growing."""
    path = put(folder, 0, traffic(1).frames)
    query = Query(folder, onMissing="skip")
    reader = query.reader()
    parts = reader.partitions(query.offsets[0], query.latest())
    path.unlink()
    with pytest.warns(CaptureWarning, match="cannot be read now"):
        assert [batch for part in parts for batch in reader.read(part)] == []
    growing = Query(folder, tail="on", settle="60")
    write(folder / "run_00001.pcap", traffic(1).frames[:100])
    assert growing.batch()
    (folder / "run_00001.pcap").unlink()
    with pytest.raises(CaptureError, match=r"run_00001\.pcap is gone, and was read to byte"):
        growing.batch()


def test_two_recordings(tmp_path: Path, folder: Path) -> None:
    """Files of two hosts in one folder would be taken for one recording, or hold each other up."""
    one, two = (
        traffic(1, packets=300, repeat=0.2).frames,
        traffic(2, packets=300, repeat=0.2).frames,
    )
    query = Query(folder)
    found: list[Row] = []
    for number in range(3):
        put(folder, number, parts_of(one, 3)[number], name="one_{}.pcap")
        put(folder, number, parts_of(two, 3)[number], name="two_{}.pcap")
        found += query.batch()
    keys = {file_key(str(folder / f"one_{n}.pcap")) for n in range(3)}
    mine = [row for row in found if row["file"] in keys]
    assert without_file(mine) == without_file(whole(tmp_path, one))
    theirs = [row for row in found if row["file"] not in keys]
    assert without_file(theirs) == without_file(whole(tmp_path, two))


def test_clock_set_back(folder: Path) -> None:
    """After a reboot without a clock, 1970 comes: what is captured then would count as read."""
    early, late = parts_of(traffic(1).frames, 2)
    for frame in late:
        frame.time_ns -= 1_600_000_000 * 10**9
    query = Query(folder)
    put(folder, 0, early)
    assert query.batch()
    put(folder, 1, late)
    assert {row["file"] for row in query.batch()} == {file_key(str(folder / "run_00001.pcap"))}


def test_names_are_counted() -> None:
    """run_10 would come before run_9, and count as read."""
    names = ["run_10.pcap", "run_9.pcapng", "run_00011.pcap.gz", "a.pcap"]
    assert sorted(names, key=order_of) == [
        "a.pcap",
        "run_9.pcapng",
        "run_10.pcap",
        "run_00011.pcap.gz",
    ]
    assert order_of("run_7.pcap") == order_of("run_07.pcapng.zst")


REFUSED: list[tuple[dict[str, str], str]] = [
    (
        {"table": "sessions", "columns": "session"},
        "a stream does not end; the tables of streams are packets",
    ),
    ({"table": "files", "columns": "path"}, "'files' is told when"),
    ({"from": "1.5"}, "captures that are read once"),
]


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_refused(folder: Path, options: dict[str, str], why: str) -> None:
    """What a stream cannot do would be done wrong, or fail without a word of what can."""
    with pytest.raises(ValueError, match=r".") as caught:
        Query(folder, kept=False, unlimited=False, **options)
    assert why in str(caught.value)


def test_places(tmp_path: Path, folder: Path) -> None:
    """A stream over what is no folder would wait for ever; one over a pattern would read other files as well."""
    with pytest.raises(CaptureError, match="there is no such folder"):
        Query(tmp_path / "none").batch()
    path = put(folder, 0, traffic(1).frames)
    with pytest.raises(CaptureError, match="is one file, and a stream is over a folder"):
        Query(path).batch()
    settled(write(folder / "other.pcap", traffic(2).frames))
    assert {row["file"] for row in Query(folder / "run_*").batch()} == {
        file_key(str(folder / "run_00000.pcap"))
    }
    (folder / "notes.txt").write_text("no capture")
    assert len({row["file"] for row in Query(folder).batch()}) == 2


def test_old_checkpoint(folder: Path) -> None:
    """Offsets of another version would be misread."""
    with pytest.raises(CaptureError, match="has offsets of version 1, and this one reads 2"):
        Query(folder).between({"v": 1}, {"v": 1})


def test_added_tables(tmp_path: Path, folder: Path) -> None:
    """Rates of a stream would not add up to those of the whole."""
    frames = traffic(5, packets=500).frames
    query = Query(folder, table="rates", columns="messages,bytes")
    found: list[Row] = []
    for number, part in enumerate(parts_of(frames, 3)):
        put(folder, number, part)
        found += query.batch()
    wanted = one_reader(write(tmp_path / "whole.pcap", frames), "rates", ["messages", "bytes"])
    for name in ("messages", "bytes"):
        assert sum(row[name] for row in found) == sum(row[name] for row in wanted)


def test_in_spark(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    """All of the above would be right, and Spark ask for something else: rotation, a restart in the middle, a file that is gone."""
    frames = traffic(3, packets=600, repeat=0.2).frames
    batches, found = restarted(spark, folder, tmp_path / "checkpoint", frames, fails=1)
    assert batches == [0, 1, 1]
    assert without_file(found) == without_file(whole(tmp_path, frames))
