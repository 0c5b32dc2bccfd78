"""The index of a capture: made once, read again, never trusted."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pyddsi import capture
from pyddsi.capture import Capture, Index, _bytes, _runs
from pyddsi.capture import _index as module
from pyddsi.capture._bytes import Bytes
from pyddsi.errors import CaptureError
from tests.capture.rows import key, rows
from tests.capture.traffic import records, traffic, write


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Chunks of some kilobytes, so that a small file has many; and a cache folder of the test's own."""
    monkeypatch.setattr(module, "CHUNK_BYTES", 8192)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A capture of some 60 kilobytes."""
    return write(tmp_path / "run.pcap", traffic(1, packets=400).frames)


def index(path: Path, **options: object) -> Index:
    """Its index."""
    return capture.open(path, **options).indexes()[0]  # type: ignore[arg-type]


def sidecar(path: Path) -> Path:
    """Where it is kept."""
    return Path(f"{path}.pyddsi-index")


def test_kept(path: Path) -> None:
    """Every query would walk over the file again."""
    first, second = index(path), index(path)
    assert (first.origin, second.origin) == ("built", "read")
    assert len(first.chunks) > 5
    assert (first.chunks, first.snapshots.packed, first.end) == (
        second.chunks,
        second.snapshots.packed,
        second.end,
    )
    assert first.frames == len(rows(path, "packets"))


@pytest.mark.parametrize("each", [1, 10_000, 20_000, 10**9])
def test_ranges_are_the_whole(path: Path, each: int) -> None:
    """Parts that an index cuts a file into would not be all of it, or overlap."""
    parts = index(path).ranges(each)
    for table in ("packets", "messages"):
        assert rows(path, table, parts) == rows(path, table)
    assert sorted(map(key, rows(path, "events", parts))) == sorted(map(key, rows(path, "events")))


def test_time_range_reads_little(path: Path) -> None:
    """To look at one second of a day, all of the day would be read."""
    made = index(path)
    times = [row["ts_ns"] for row in rows(path, "packets")]
    start, stop = times[200], times[210]
    parts = made.ranges(1, start, stop)
    assert len(parts) <= 3 < len(made.chunks)
    wanted = [row for row in rows(path, "messages") if start <= row["ts_ns"] < stop]
    assert wanted
    assert rows(path, "messages", parts, start_ns=start, stop_ns=stop) == wanted


@pytest.mark.parametrize("table", ["packets", "messages", "events"])
def test_a_time_of_a_large_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """To print one second of a day, all of the day would be read; or rows would be missing at its ends, or come twice."""
    other = write(tmp_path / "other.pcap", traffic(2, packets=400).frames)
    times = [row["ts_ns"] for row in rows(path, "packets")]
    start, stop = times[200], times[210]

    def wanted() -> list[tuple[object, ...]]:
        opened = capture.open([path, other], chain="off").batches(table, start=start, stop=stop)
        return [
            tuple(row.values()) for batch in opened for row in pa.record_batch(batch).to_pylist()
        ]

    whole = wanted()
    assert whole
    assert not sidecar(path).exists()
    monkeypatch.setattr(_runs, "LARGE_BYTES", 1)
    read: list[int] = []
    read_into = Bytes.read_into

    def counted(source: Bytes, into: memoryview) -> int:
        read.append(read_into(source, into) or 0)
        return read[-1]

    assert wanted() == whole, "and its index has been made"
    monkeypatch.setattr(Bytes, "read_into", counted)
    monkeypatch.setattr(_bytes, "BLOCK_BYTES", 4096)
    assert wanted() == whole
    assert sidecar(path).exists() == (table != "events")
    total = path.stat().st_size + other.stat().st_size
    assert (sum(read) < total / 2) == (table != "events")


def test_a_time_without_an_index(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index would be made that nobody keeps; or what is before the damage of a file could not be had."""
    monkeypatch.setattr(_runs, "LARGE_BYTES", 1)
    monkeypatch.setattr(Capture, "indexes", None)
    whole = rows(path, "packets")
    opened = capture.open(path, keep_index=False).batches("packets", stop=whole[9]["ts_ns"])
    assert sum(pa.record_batch(batch).num_rows for batch in opened) == 9
    monkeypatch.undo()
    monkeypatch.setattr(_runs, "LARGE_BYTES", 1)
    data = bytearray(path.read_bytes())
    data[-300_00:] = b"\xff" * 300_00
    path.write_bytes(data)
    opened = capture.open(path).batches("packets", stop=whole[9]["ts_ns"])
    with pytest.raises(CaptureError, match="is damaged at byte"):
        assert sum(pa.record_batch(batch).num_rows for batch in opened) == 9


def test_grown(path: Path, tmp_path: Path) -> None:
    """A file that is still being written would be walked over from its beginning each time."""
    made = traffic(2, packets=900)
    data = path.read_bytes()
    whole = write(tmp_path / "whole.pcap", made.frames)
    full = whole.read_bytes()
    path.write_bytes(full[: len(data)])
    before = index(path)
    with path.open("ab") as file:
        file.write(full[len(data) :])
    after = index(path)
    assert (before.origin, after.origin) == ("built", "extended")
    assert after.chunks[: len(before.chunks) - 1] == before.chunks[:-1]
    assert rows(path, "messages", after.ranges(1)) == rows(whole, "messages")


def test_cut_off(path: Path) -> None:
    """The beginning of a record at the end of a file would be taken for one, or the file be refused."""
    data = path.read_bytes()
    last = len(list(records(traffic(1, packets=400).frames))[-1])
    path.write_bytes(data[:-5])
    with pytest.warns(
        capture._capture.CaptureWarning, match=rf"with {last - 5} bytes of the next one"
    ):
        found = list(capture.open(path).batches("packets", ["pkt"]))
    assert found
    made = index(path)
    assert made.size == len(data) - last
    assert [problem.kind for problem in made.problems] == ["truncated_tail"]
    with pytest.raises(CaptureError, match="is cut off"):
        list(capture.open(path, strict=True).batches("packets"))


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "a bit in a state": lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    "a bit in the line": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    "text": lambda _: b"this is no index\n" * 100,
    "a huge line": lambda data: b"99999999999 00000000\n" + data,
    "another version": lambda data: relined(data, version="0.0.0"),
    "another layout": lambda data: relined(data, layout=-1),
    "other settings": lambda data: relined(data, settings={"ports": [1]}),
    "states left out": lambda data: relined(data, states=[]),
    "no numbers": lambda data: relined(data, chunks=[["a", "b", "c", "d"]]),
    "negative sizes": lambda data: relined(data, states=[[-1, 0]]),
}


def relined(data: bytes, **changes: object) -> bytes:
    """The same index with another line, and a checksum that fits it."""
    head, _, rest = data.partition(b"\n")
    size = int(head.split()[0])
    line = json.dumps(json.loads(rest[:size]) | changes).encode()
    return b"%d %08x\n" % (len(line), zlib.crc32(line)) + line + rest[size:]


@pytest.mark.parametrize("how", SPOILT)
def test_spoilt(path: Path, how: str) -> None:
    """A broken or foreign index file would be believed: rows would be wrong, or reading would fail."""
    good = index(path)
    place = sidecar(path)
    place.write_bytes(SPOILT[how](place.read_bytes()))
    made = index(path)
    assert made.origin == "rebuilt"
    assert [problem.kind for problem in made.problems] == ["index_rebuilt"]
    assert made.chunks == good.chunks
    assert index(path).origin == "read"


def test_hostile_states(path: Path) -> None:
    """A state with good checksums and bad contents would crash the reader, or give rows that are wrong in silence."""
    good = index(path)
    for at in range(0, len(good.snapshots[3]), 7):
        for change in (0x01, 0x80, 0xFF):
            state = bytearray(good.snapshots[3])
            state[at] ^= change
            part = good.ranges(1)[3]
            part.snapshot = bytes(state)
            try:
                rows(path, "messages", [part])
            except CaptureError as error:
                assert "damaged" in str(error)


def test_changed_file(path: Path) -> None:
    """The index of a file that was replaced by another would be used for that."""
    index(path)
    size = path.stat().st_size
    other = traffic(7, packets=500).frames
    write(path, other)
    assert path.stat().st_size != size
    made = index(path)
    assert made.origin == "rebuilt"
    assert rows(path, "packets", made.ranges(1)) == rows(path, "packets")


def test_read_only_folder(path: Path, tmp_path: Path) -> None:
    """A capture in a folder that cannot be written would have no index."""
    folder = tmp_path / "there"
    made = capture.open(path, index=str(folder)).indexes()[0]
    assert made.origin == "built"
    assert not sidecar(path).exists()
    assert len(list(folder.iterdir())) == 1
    assert capture.open(path, index=str(folder)).indexes()[0].origin == "read"


def test_cache_where_the_folder_cannot_be_written(path: Path, tmp_path: Path) -> None:
    """The same without being told where."""
    sidecar(path).mkdir()  # so that no file can take its place
    assert index(path).origin == "built"
    kept = list((tmp_path / "cache" / "pyddsi").iterdir())
    assert len(kept) == 1
    assert index(path).origin == "read"


def test_nothing_kept(path: Path) -> None:
    """Who wants no files would get them."""
    assert index(path, keep_index=False).origin == "built"
    assert not sidecar(path).exists()
    assert index(path, keep_index=False).origin == "built"


def test_shrinks_while_read(path: Path) -> None:
    """Rows that are missing because a file was cut while it was read would be missing in silence."""
    parts = index(path).ranges(1)
    os.truncate(path, parts[2].start + 100)
    with pytest.raises(CaptureError, match="has become shorter"):
        rows(path, "messages", [parts[2]])


def test_files_that_go_on(tmp_path: Path) -> None:
    """In a rotated recording every file would begin with sessions that nobody opened, and repeats would not be seen over its end."""
    frames = traffic(3, packets=600, repeat=0.2).frames
    third = len(frames) // 3
    for i in range(3):
        write(
            tmp_path / f"run_{i:05d}.pcap", frames[i * third : (i + 1) * third if i < 2 else None]
        )
    whole = write(tmp_path / "whole.pcap", frames)
    opened = capture.open(str(tmp_path / "run_*.pcap"))
    assert [member.continues for member in opened.members] == [False, True, True]
    columns = ["kind", "usn", "seq_event", "since_first_us", "flow"]
    together = opened.table("messages", columns).to_pylist()
    assert together == capture.open(whole).table("messages", columns).to_pylist()
    indexes = opened.indexes()
    assert [made.origin for made in indexes] == ["built"] * 3
    assert rows(tmp_path / "run_00001.pcap", "messages", indexes[1].ranges(1))[0]["usn"] is not None
    alone = (
        capture.open(str(tmp_path / "run_*.pcap"), chain="off")
        .table("messages", columns)
        .to_pylist()
    )
    assert alone != together


def test_packed_has_none(tmp_path: Path, path: Path) -> None:
    """A packed file would be cut into parts that cannot be read."""
    import gzip  # noqa: PLC0415

    packed = tmp_path / "run.pcap.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(CaptureError, match="has no index"):
        index(packed)
    assert capture.open(packed).table("messages").equals(capture.open(path).table("messages"))
