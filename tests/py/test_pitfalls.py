"""
Every pitfall that captures are known to have, through the reader: make_pitfalls has the files and what must be seen.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyddsi.capture import Datagram, Segment, read_datagrams
from pyddsi.errors import CaptureError
from tests.py.make_pitfalls import Seen, pitfalls, write_pitfalls

FILES = pitfalls()


def look(path: Path) -> tuple[Seen, list[Datagram], str]:
    """What the reader finds, as far as it says so; the datagrams; and its last words."""
    items: list[Datagram | Segment] = []
    words = ""
    try:
        with read_datagrams(path) as capture:
            try:
                items.extend(capture)
            except CaptureError as error:
                words = str(error)
            words += " ".join(capture.problems)
            frames, others = capture.records, capture.skipped.total()
    except CaptureError as refused:
        frames = others = 0
        words = str(refused)
    datagrams = [item for item in items if isinstance(item, Datagram)]
    segments = [item for item in items if isinstance(item, Segment)]
    found = Seen(
        frames,
        len(datagrams),
        sum(len(item.data) for item in datagrams),
        cut=sum(item.cut for item in datagrams),
        tcp=sum(len(item.data) for item in segments),
        holes=sum(item.lost for item in segments),
        others=others,
    )
    return found, datagrams, words


@pytest.mark.parametrize("name", sorted(FILES))
def test_pitfall(name: str, tmp_path: Path) -> None:
    """A capture with a known pitfall would be misread, or refused."""
    content, wanted = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    found, datagrams, words = look(path)
    for field in ("frames", "datagrams", "size", "cut", "tcp", "holes", "others"):
        assert getattr(found, field) == getattr(wanted, field), field
    assert not wanted.times or tuple(item.time_ns for item in datagrams) == wanted.times
    assert wanted.damage in words
    assert ("is cut off" in words) == (wanted.tail > 0)
    assert bool(words) == bool(wanted.damage or wanted.tail)


def test_all_are_written(tmp_path: Path) -> None:
    """A pitfall would be forgotten, or two of them share a name and hide each other."""
    seen = write_pitfalls(tmp_path / "files")
    assert {path.name for path in (tmp_path / "files").iterdir()} == set(seen) == set(FILES)
    assert len(seen) >= 40
