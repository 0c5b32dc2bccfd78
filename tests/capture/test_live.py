"""What goes on while it is read: rows come while more may follow, and are the same as of a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from pyddsi import capture
from pyddsi.capture import _scan
from tests.capture.rows import everything
from tests.capture.traffic import traffic, write


class Trickle(io.RawIOBase):
    """A file that comes in small parts; between two there is nothing for a moment."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__()
        self.left = [data[at : at + size] for at in range(0, len(data), size)]
        self.idle = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, into: Any) -> int | None:
        """Nothing, and a part, in turns."""
        self.idle = not self.idle
        if self.idle:
            return None
        if not self.left:
            return 0
        part = self.left[0][: len(into)]
        self.left[0] = self.left[0][len(part) :]
        self.left = self.left if self.left[0] else self.left[1:]
        into[: len(part)] = part
        return len(part)


@pytest.mark.parametrize("table", ["packets", "messages", "events"])
def test_rows_before_the_end(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of what goes by on an interface would have no row before that ends, or others than a file has."""
    path = tmp_path / "run.pcap"
    write(path, traffic(3).frames)
    monkeypatch.setattr(_scan, "LIVE_SECONDS", 0.0)
    live = Trickle(path.read_bytes(), 1000)
    left, rows = [], list[dict[str, Any]]()
    reader = capture.open(cast("BinaryIO", live)).reader(table, list(everything(table)))
    for batch in reader:
        left.append(len(live.left))
        rows += batch.to_pylist()
    assert rows == capture.open(path).table(table, list(everything(table))).to_pylist()
    assert len(set(left)) > 5
    assert left[0] > 5


def test_packets_and_datagrams_wait(tmp_path: Path) -> None:
    """What has nothing for a moment would be taken for over."""
    path = tmp_path / "run.pcap"
    write(path, traffic(3).frames)
    data = path.read_bytes()
    every = list(capture.open(path).packets())
    assert list(capture.open(cast("BinaryIO", Trickle(data, 777))).packets()) == every
    with capture.read_datagrams(cast("BinaryIO", Trickle(data, 777))) as datagrams:
        assert len(list(datagrams)) == len(traffic(3).frames)
