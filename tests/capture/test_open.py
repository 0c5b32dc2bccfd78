"""What a capture is opened with: patterns, times."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyddsi import capture
from pyddsi.errors import CaptureError
from tests.py.golden import CAPTURES


def test_times_in_order() -> None:
    """A time to begin with that is after the one to end with would give nothing, and no reason."""
    run = capture.open(CAPTURES / "p2p_loss5.pcap")
    with pytest.raises(ValueError, match=r"5\.0 to begin with is after 1\.0 to end with"):
        run.table("messages", ["kind"], start=5.0, stop=1.0)
    with pytest.raises(ValueError, match="is after"):
        list(run.packets(start=5.0, stop=1.0))
    assert run.table("messages", ["kind"], start=1.0, stop=1.0).num_rows == 0


def test_braces(tmp_path: Path) -> None:
    """A pattern with {a,b} would match nothing, where shells and Spark's own sources know it."""
    for name in ("a1.pcap", "a2.pcap", "b1.pcap", "c1.pcap", "{c,d}.pcap"):
        (tmp_path / name).write_bytes((CAPTURES / "p2p_loss5.pcap").read_bytes())

    def names(pattern: str) -> list[str]:
        return [Path(name).name for name in capture.open(tmp_path / pattern).files]

    assert names("{a,b}{1,2}.pcap") == ["a1.pcap", "a2.pcap", "b1.pcap"]
    assert names("{a*,{b,c}1}.pcap") == ["a1.pcap", "a2.pcap", "b1.pcap", "c1.pcap"]
    assert names("{c,d}.pcap") == ["{c,d}.pcap"]  # a file of this name is that
    with pytest.raises(CaptureError, match="no file matches"):
        capture.open(tmp_path / "{x,y}.pcap")
    with pytest.raises(CaptureError, match="more than 1000 patterns"):
        capture.open(tmp_path / ("{a,b}" * 12))
