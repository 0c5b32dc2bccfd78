"""Streams over what recorders write, with rotation, plain and packed, for every table."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyddsi import capture, wire
from pyddsi.capture._files import is_named, order_of
from pyddsi.spark import stream
from pyddsi.spark.schema import ADDED
from tests.capture.rows import everything, key
from tests.capture.traffic import Frame, traffic, write
from tests.spark.frames import Row, one_reader, rows_of
from tests.spark.queries import Query, settled
from tests.spark.recorders import RECORDERS, packed


def _declared(frames: list[Frame]) -> list[Frame]:
    """With a declaration every now and then, from an endpoint of its own."""
    found = list(frames)
    for number in range(10):
        at = found[number * 100]
        data = wire.encode([wire.Declare(number, [wire.Resource(number + 1, f"/r/{number}")])])
        found.insert(number * 100, Frame(at.time_ns, ("10.9.9.9", 7447), at.target, data))
    return found


FRAMES = _declared(traffic(3, packets=2500, repeat=0.2).frames)


def _files(folder: Path) -> list[Path]:
    return sorted(
        (path for path in folder.iterdir() if is_named(path.name)),
        key=lambda path: order_of(path.name),
    )


def _sums(rows: list[Row], names: tuple[str, ...]) -> list[int]:
    return [sum(row[name] or 0 for row in rows) for name in names]


def _same(table: str, found: list[Row], wanted: list[Row]) -> None:
    """But for the number of the file, and how often it was added up."""
    assert wanted
    if table in ADDED:
        names = ("messages", "bytes") if table == "rates" else ("packets",)
        assert _sums(found, names) == _sums(wanted, names)
        return
    for row in (*found, *wanted):
        row |= {
            name: None for name in ("file", "recording", "gap_file", "repeat_file") if name in row
        }
    assert sorted(map(key, found)) == sorted(map(key, wanted))


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("recorder", RECORDERS)
def test_recorders(tmp_path: Path, folder: Path, recorder: str, *, pack: bool) -> None:
    """A stream could not read what our own recorder writes: a file that ends with statistics stopped it for ever."""
    RECORDERS[recorder](folder, FRAMES)
    if pack:
        packed(folder)
    files = [str(settled(path)) for path in _files(folder)]
    assert len(files) > 1 or recorder == "tshark"
    plain = one_reader(write(tmp_path / "whole.pcap", FRAMES), "messages", ["usn", "seq_event"])
    for table in stream.STREAMED:
        found = Query(folder, table=table, columns=",".join(everything(table))).batch()
        _same(table, found, rows_of(capture.open(files).table(table, everything(table))))
        if table == "messages":
            assert [(row["usn"], row["seq_event"]) for row in found] == [
                (row["usn"], row["seq_event"]) for row in plain
            ]


@pytest.mark.parametrize("tail", ["on", "off"])
@pytest.mark.parametrize("recorder", RECORDERS)
def test_while_they_record(tmp_path: Path, folder: Path, recorder: str, tail: str) -> None:
    """What comes behind a block that is no packet would be read twice, or never; a ring's files would be read as they are at the end."""
    (tmp_path / "there").mkdir()
    RECORDERS[recorder](tmp_path / "there", FRAMES)
    query = Query(folder, tail=tail, settle="60")
    found: list[Row] = []
    for path in _files(tmp_path / "there"):
        data = path.read_bytes()
        for at in range(0, len(data), 7001):
            with (folder / path.name).open("ab") as file:
                file.write(data[at : at + 7001])
            found += query.batch()
    for path in _files(folder):
        settled(path)
    found += query.batch()
    plain = one_reader(write(tmp_path / "whole.pcap", FRAMES), "messages", ["usn", "seq_event"])
    assert [(row["usn"], row["seq_event"]) for row in found] == [
        (row["usn"], row["seq_event"]) for row in plain
    ]
