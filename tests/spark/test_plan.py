"""Without a session: how captures are cut into parts, and what is said where these are read and something is wrong."""

from __future__ import annotations

import gzip
import pickle
import platform
import random
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pytest

import pyddsi
from pyddsi import capture
from pyddsi.capture import CaptureWarning, _index
from pyddsi.errors import CaptureError
from pyddsi.spark import _parts
from pyddsi.spark.source import CaptureReader, CaptureSource
from tests.capture.rows import everything
from tests.capture.traffic import traffic, write
from tests.py.golden import CAPTURES
from tests.spark.frames import Row, indexed, long_capture, one_reader, rows_of, same

T = TypeVar("T")
LOSS = str(CAPTURES / "p2p_loss5.pcap")
TCP = str(CAPTURES / "tcp_pubsub.pcap")


@pytest.fixture(autouse=True)
def own_cache(cache: Path) -> None:
    """No index of a test is kept for the next run."""


def sent(thing: T) -> T:
    """What comes out where something is sent."""
    found: T = pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own
    return found


def reader(path: Any, **options: str) -> CaptureReader:
    """The reader of a query, made and pickled as Spark does it."""
    source = sent(CaptureSource({"path": str(path), **options}))
    made = source.reader(schema=source.schema())
    assert isinstance(made, CaptureReader)
    return made


def rows(path: Any, **options: str) -> list[Row]:
    """All rows, each part read by a reader of its own."""
    made = reader(path, **options)
    parts = [sent(part) for part in made.partitions()]
    return [row for part in parts for batch in made.read(part) for row in rows_of_batch(batch)]


def rows_of_batch(batch: Any) -> list[Row]:
    """Of one batch."""
    return list(batch.to_pylist())


# ---- parts ----


def test_small_files_need_no_index(tmp_path: Path) -> None:
    """A folder of small captures would be littered with indexes, or each of them would be a task."""
    for number, name in enumerate(("a", "b", "c")):
        write(tmp_path / f"{name}.pcap", traffic(number).frames)
    parts = reader(tmp_path).partitions()
    assert [len(part.runs) for part in parts] == [3]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pcap", "b.pcap", "c.pcap"]
    assert len(reader(tmp_path, split="file").partitions()) == 3
    same("messages", rows(tmp_path), one_reader(tmp_path, "messages", usual("messages")))


def usual(table: str) -> list[str]:
    """The columns of a table that everybody gets."""
    return [column.name for column in capture.columns(table) if not column.dear]


def test_nothing_is_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes an empty list for one part that is None, and fails."""
    (tmp_path / "a.pcap").write_bytes(Path(LOSS).read_bytes())
    monkeypatch.setattr(_index, "CHUNK_BYTES", 32_000)
    made = reader(tmp_path, splitSize="64k", **{"from": "2030-01-01T00:00:00"})
    [part] = made.partitions()
    assert not part.runs
    assert list(made.read(part)) == []


@pytest.mark.parametrize("table", capture.TABLES)
@pytest.mark.parametrize("size", ["64k", "150k", "1g"])
def test_parts_are_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, size: str
) -> None:
    """Rows would be missing or there twice at the seams between tasks."""
    path = indexed(long_capture(tmp_path / "run.pcap", 3000), 50_000, monkeypatch)
    found = rows(path, table=table, splitSize=size, columns=",".join(everything(table)))
    if table in {"flows", "rates", "endpoints"}:
        assert {row["recording"] for row in found} == {0}
        key = "ep" if table == "endpoints" else "messages"
        wanted = one_reader(path, table)
        if table != "endpoints":
            assert sum(r[key] for r in found) == sum(r[key] for r in wanted)
        assert len(found) >= len(wanted)
    else:
        same(table, found, one_reader(path, table))


def test_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of one recording would be read as if they had nothing to do with each other, where they are large or where they are small."""
    frames = traffic(3, packets=2000, repeat=0.1).frames
    third = len(frames) // 3
    for i in range(3):
        write(
            tmp_path / f"run_{i:05d}.pcap", frames[i * third : (i + 1) * third if i < 2 else None]
        )
    pattern = tmp_path / "run_*.pcap"
    columns = ["file", "pkt", "usn", "seq_event", "since_first_us", "flow"]
    wanted = one_reader(pattern, "messages", columns)
    assert rows(pattern, columns=",".join(columns)) == wanted
    monkeypatch.setattr(_index, "CHUNK_BYTES", 40_000)
    assert rows(pattern, columns=",".join(columns), splitSize="64k") == wanted
    with pytest.warns(CaptureWarning, match="with other settings; it was made anew"):
        assert rows(pattern, columns=",".join(columns), splitSize="64k", chain="off") != wanted
    with pytest.warns(CaptureWarning, match="with other settings; it was made anew"):
        sessions = rows(pattern, table="sessions", splitSize="64k", columns="session,end,open_pkt")
    same("sessions", sessions, one_reader(pattern, "sessions", ["session", "end", "open_pkt"]))
    files = rows(pattern, table="files", splitSize="64k")
    assert [row["recording"] for row in files] == [0, 0, 0]
    assert sum(row["frames"] for row in files) == len(frames)
    assert {row["index"] for row in files} == {"read"}


def test_time_range_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at a second of a day, all of the day would be read; or what is told late would be missing."""
    path = indexed(long_capture(tmp_path / "run.pcap", 6000), 50_000, monkeypatch)
    span = {"from": "2.0", "to": "2.3"}
    for table in ("packets", "messages", "events", "declarations", "rates"):
        made = reader(path, table=table, splitSize="64k", **span)
        parts = made.partitions()
        read_bytes = sum(run.size for part in parts for run in part.runs)
        if table != "events":
            assert read_bytes < path.stat().st_size / 3
        wanted = one_reader(path, table, usual(table), start=2.0, stop=2.3)
        same(table, rows(path, table=table, splitSize="64k", **span), wanted)


def test_index_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants no files beside the captures would get them; or they would lie elsewhere than was said."""
    path = long_capture(tmp_path / "run.pcap", 2000)
    monkeypatch.setattr(_index, "CHUNK_BYTES", 50_000)
    assert len(reader(path, splitSize="64k", index="off").partitions()) > 1
    assert [file.name for file in tmp_path.iterdir()] == ["run.pcap"]
    reader(path, splitSize="64k", indexDir=str(tmp_path / "there")).partitions()
    assert len(list((tmp_path / "there").iterdir())) == 1


def spoil(path: Path, how: str) -> None:
    """What may have become of an index, or of the file that it is of."""
    beside = Path(f"{path}{_index.SUFFIX}")
    if how == "damaged":
        beside.write_bytes(b"nothing")
    elif how == "by another version":
        first, line, states = beside.read_bytes().split(b"\n", 2)
        line = line.replace(f'"version":"{pyddsi.__version__}"'.encode(), b'"version":"0.0.9"')
        first = b"%d %08x" % (len(line), zlib.crc32(line))
        beside.write_bytes(b"\n".join((first, line, states)))
    else:
        write(path, traffic(6, packets=2500).frames)


SPOILT = ["damaged", "by another version", "of another file"]


@pytest.mark.parametrize("how", SPOILT)
def test_spoilt_index_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """An index that is broken, old, or of what the file was before would be believed, or made anew without a word."""
    path = indexed(long_capture(tmp_path / "run.pcap", 2000), 50_000, monkeypatch)
    spoil(path, how)
    wanted = one_reader(path, "messages", ["usn"])
    with pytest.warns(CaptureWarning, match=rf"index .* {how}.*; it was made anew"):
        assert rows(path, splitSize="64k", columns="usn") == wanted
    spoil(path, how)
    [row] = rows(path, table="files", splitSize="64k")
    assert how in row["problem"]
    assert rows(path, splitSize="64k", columns="usn") == wanted


def test_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There would be a size of parts at which a row is missing, there twice, or another one."""
    path = indexed(long_capture(tmp_path / "run.pcap", 2500, repeat=0.1), 10_000, monkeypatch)
    columns = ["pkt", "msg", "usn", "seq_event", "since_first_us", "answer_us"]
    wanted = one_reader(path, "messages", columns)
    rand = random.Random(1)
    last = path.stat().st_size
    for size in [64 * 1024, last, *(rand.randrange(64 * 1024, last) for _ in range(12))]:
        assert rows(path, splitSize=str(size), columns=",".join(columns)) == wanted, size


def test_usual_split() -> None:
    """A capture would be cut into thousands of tasks, or read by one."""
    assert _parts.usual_split(0) == 16 << 20
    assert _parts.usual_split(10**13) == 128 << 20


# ---- on the executor ----


def part_of(path: Any) -> tuple[CaptureReader, _parts.Part]:
    """A reader and its only part."""
    made = reader(path)
    [part] = made.partitions()
    assert isinstance(part, _parts.Part)
    return made, part


def test_file_that_only_the_driver_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most common mistake on clusters would be told as a missing file, without where and why."""
    path = tmp_path / "run.pcap"
    path.write_bytes(Path(LOSS).read_bytes())
    made, part = part_of(path)
    driver = part.home.host
    path.unlink()
    monkeypatch.setattr(platform, "node", lambda: "worker7")
    with pytest.raises(CaptureError) as caught:
        list(made.read(part))
    said = str(caught.value)
    assert (
        f"{path} is on {driver}, where the query was planned, and cannot be read on worker7" in said
    )
    assert "put captures where every executor sees them" in said


def test_another_file_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host's own file of that name would be read at the offsets of the driver's."""
    path = tmp_path / "run.pcap"
    path.write_bytes(Path(LOSS).read_bytes())
    made, part = part_of(path)
    path.write_bytes(Path(TCP).read_bytes())
    with pytest.raises(
        CaptureError, match=r"is another file since the query was planned .*begins differently"
    ):
        list(made.read(part))
    monkeypatch.setattr(platform, "node", lambda: "worker7")
    with pytest.raises(CaptureError, match="is another file on worker7 than it was on"):
        list(made.read(part))


def test_another_version_there() -> None:
    """States of one version would be read by another one."""
    made, part = part_of(LOSS)
    part.home = _parts.Home("driver", "0.0.9", part.home.layout)
    with pytest.raises(
        CaptureError, match=r"planned on driver with pyddsi 0\.0\.9.*install the same version"
    ):
        list(made.read(part))
    part.home = _parts.Home("driver", _parts.Home.here().version, -1)
    with pytest.raises(CaptureError, match="layout -1"):
        list(made.read(part))


def test_shorter_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was cut since it was planned would give fewer rows in silence."""
    path = indexed(long_capture(tmp_path / "run.pcap", 2000), 50_000, monkeypatch)
    made = reader(path, splitSize="64k")
    parts = made.partitions()
    path.write_bytes(path.read_bytes()[:60_000])
    with pytest.raises(CaptureError, match="ends before byte"):
        list(made.read(parts[0]))


# ---- what is bad ----


def bad_capture(path: Path) -> Path:
    """One packet in the middle cannot be read."""
    frames = traffic(4, packets=100).frames
    frames[50].data = b"\x07"
    return write(path, frames)


@pytest.mark.parametrize("table", ["packets", "messages", "flows"])
def test_failfast(tmp_path: Path, table: str) -> None:
    """Who wants to stop at the first bad packet would not, or not be told which it is."""
    path = bad_capture(tmp_path / "bad.pcap")
    name = usual(table)[0]
    assert rows(path, table=table, columns=name)
    [packet] = one_reader(path, "packets", ["pkt", "offset"], where="decode == 3")
    with pytest.raises(CaptureError) as caught:
        rows(path, table=table, columns=name, mode="failfast")
    assert f"packet {packet['pkt']} at byte {packet['offset']} is malformed" in str(caught.value)


def test_failfast_lets_good_ones_pass(tmp_path: Path) -> None:
    """A good capture would be refused; one that is cut off would be taken for whole."""
    assert rows(LOSS, mode="failfast", columns="kind") == one_reader(LOSS, "messages", ["kind"])
    path = tmp_path / "cut.pcap"
    path.write_bytes(Path(LOSS).read_bytes()[:-3])
    assert rows(path, columns="kind")
    with pytest.raises(CaptureError, match=r"cut off.*with mode=permissive it is read up to there"):
        rows(path, columns="kind", mode="failfast")
    [row] = rows(path, table="files")
    assert (
        row["truncated_tail"]
        == path.stat().st_size - one_reader(LOSS, "packets", ["offset"])[-1]["offset"]
    )


def test_files_of_what_cannot_be_read(tmp_path: Path) -> None:
    """One damaged file among a thousand would hide what the others are."""
    (tmp_path / "a.pcap").write_bytes(b"no capture at all, but long enough to look at")
    data = bytearray(Path(LOSS).read_bytes())
    data[100_000:100_400] = b"\xff" * 400
    (tmp_path / "b.pcap").write_bytes(data)
    (tmp_path / "c.pcap").write_bytes(Path(LOSS).read_bytes())
    first, second, third = rows(tmp_path, table="files")
    assert "is not a capture" in first["problem"]
    assert "is damaged at byte" in second["problem"]
    assert 0 < second["frames"] < third["frames"] == 1487
    assert third["problem"] is None
    [cheap] = {tuple(row) for row in rows(tmp_path, table="files", columns="path,file")}
    assert cheap == ("path", "file")


@pytest.mark.parametrize("split", ["64k", "128m"])
def test_one_bad_file_among_others(tmp_path: Path, split: str) -> None:
    """One file that is no capture, damaged or cut off, plain or packed, would stop a query of a thousand."""
    whole = Path(LOSS).read_bytes()
    kinds = {
        "none.pcap": b"no capture at all, but long enough to look at" * 2000,
        "damaged.pcap": whole[:100_000] + b"\xff" * 100_000,
        "cut.pcap": whole[:100_001],
        "cut.pcap.gz": gzip.compress(whole, 1)[:20_000],
    }
    for name, data in kinds.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(data)
        (tmp_path / name / "good.pcap").write_bytes(whole)
        good = one_reader(LOSS, "packets", ["pkt"])
        with (
            pytest.warns(CaptureWarning, match="read up to there")
            if name != "cut.pcap"
            else nullcontext()
        ):
            found = rows(tmp_path / name, table="packets", columns="pkt", splitSize=split)
        assert len(found) >= len(good)
        assert (len(found) > len(good)) == (name != "none.pcap")
        with pytest.raises(CaptureError):
            rows(tmp_path / name, table="packets", columns="pkt", mode="failfast")
    with pytest.raises(CaptureError, match="is not a capture"):
        rows(tmp_path / "none.pcap" / "none.pcap", table="packets", columns="pkt")


def test_batches_are_what_spark_wants() -> None:
    """Spark looks at the first batch only, and a later one of another type ends in an error of the JVM."""
    made = reader(LOSS, table="flows", columns=",".join(everything("flows")))
    [part] = made.partitions()
    batches = list(made.read(part))
    assert batches
    for batch in batches:
        assert [field.nullable for field in batch.schema] == [f.nullable for f in made.wanted]
    assert rows_of(capture.open(LOSS).table("flows", everything("flows"))) == rows_of_batch(
        batches[0]
    )
