"""Captures with thousands of senders: followed as far as memory goes, and whoever reads is told where it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyddsi import capture, wire
from pyddsi.capture._scan import Request, Scan, Settings
from pyddsi.errors import CaptureError
from tests.capture.rows import cut, key, rows
from tests.capture.traffic import BEGIN, GROUP, Frame, write

SENDERS = 8000
NUMBERS = (0, 1, 4, 5)  # of each, by turns: two never come
LITTLE = 16 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each sends four samples to the group, long after its last one."""
    frames: list[Frame] = []
    for number in NUMBERS:
        data = wire.encode([wire.SData(number, 1, b"x", reliable=True)])
        for who in range(SENDERS):
            at = BEGIN + len(frames) * 50_000
            frames.append(Frame(at, (f"10.{who // 250}.0.{who % 250 + 1}", 40000), GROUP, data))
    return write(tmp_path_factory.mktemp("many") / "many.pcap", frames)


def test_all_are_followed(path: Path) -> None:
    """120 of the 16,000 numbers that are missing would be told, and a number be called the first of its sender again and again."""
    run = capture.open(path)
    info = run.info()
    assert (info.missing, len(info.peers)) == (2 * SENDERS, SENDERS)
    assert not any(finding.kind == "evicted" for finding in info.findings)
    events = run.table("messages", ["seq_event"]).column(0).value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in events} == {
        1: SENDERS,
        0: 2 * SENDERS,
        2: SENDERS,
    }
    flows = run.table("flows", ["messages", "missing"])
    assert flows.num_rows == SENDERS
    assert set(flows.column("missing").to_pylist()) == {2}
    assert run.problems == []


def test_ranges(path: Path) -> None:
    """A part of a capture with a large state would have other rows than the whole."""
    size = path.stat().st_size
    parts = cut(path, [size // 5, size // 2, size * 7 // 8])
    for table in ("messages", "events"):
        assert rows(path, table, parts) == rows(path, table)
    assert max(len(part.snapshot or b"") for part in parts) > 100_000


def test_too_many_are_told(path: Path) -> None:
    """What there is no memory for would be wrong without a word."""
    run = capture.open(path, memory=LITTLE)
    with pytest.warns(capture.CaptureWarning, match="16 MiB hold: .* were given up"):
        assert run.table("messages", ["seq_event"]).num_rows == SENDERS * len(NUMBERS)
    with pytest.warns(capture.CaptureWarning):
        info = capture.open(path, memory=LITTLE).info()
    assert [finding.severity for finding in info.findings if finding.kind == "evicted"] == [
        "warning"
    ]
    with pytest.raises(CaptureError, match="read it again with more memory"):
        capture.open(path, memory=LITTLE, strict=True).info()
    [index] = capture.open(path, memory=LITTLE, keep_index=False).indexes()
    assert [problem.kind for problem in index.problems] == ["evicted"]


@pytest.mark.parametrize("table", ["flows", "sessions", "endpoints", "resources"])
def test_sweeps_have_room(tmp_path: Path, table: str) -> None:
    """The rows of all that is given up at once would be written behind the batch."""
    frames = []
    for who in range(5000):
        at, source = BEGIN + who * 1000, (f"10.{who // 250}.1.{who % 250 + 1}", 41000)
        name = f"/{'n' * 200}/{who}"
        opening = wire.Open(1, b"%016d" % who, 50, ["udp/239.255.0.1:7447"], properties=[])
        declare = wire.Declare(0, [wire.Resource(who + 1, name)], committed=True)
        frames += [Frame(at, source, GROUP, wire.encode([one])) for one in (opening, declare)]
    path = write(tmp_path / "sweep.pcap", frames)
    scan = Scan(Settings(memory=LITTLE), Request(table))
    found = rows(path, table, settings=Settings(memory=LITTLE))
    assert scan.files == 0
    if table in {"flows", "resources"}:
        assert len({key(row) for row in found}) == 5000
    else:
        assert len(found) >= 5000 - 1


def test_memory_is_checked(path: Path) -> None:
    """A slip in the setting would be taken for something else."""
    for wrong in (1, 2**40):
        with pytest.raises(ValueError, match="memory"):
            capture.open(path, memory=wrong)
