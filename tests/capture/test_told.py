"""What a capture says beside its samples: declarations that were refused, frames that the capturing itself lost, long silences."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pyddsi import capture, wire
from pyddsi.capture.info import Finding, Info
from tests.capture.bookkeeper import RECEIVER, keep, text
from tests.capture.traffic import BEGIN, GROUP, Frame, opening, peer, write
from tests.py import make_capture as make
from tests.py.golden import CAPTURES
from tests.py.make_pitfalls import FRAME

MS = 1_000_000
TRY_AGAIN = 4


def of_kind(info: Info, kind: str) -> list[Finding]:
    """The findings of one kind."""
    return [finding for finding in info.findings if finding.kind == kind]


@pytest.mark.parametrize("seed", range(4))
def test_what_was_refused(seed: int, tmp_path: Path) -> None:
    """A capture whose declarations are refused would look as if nothing was wrong, or the wrong peer be blamed."""
    book = keep(seed, {1: "/plant/a"})
    [path] = book.write(tmp_path, ["run.pcap"], 0).files
    refused = [one for one in book.refused if one.status != TRY_AGAIN]
    assert refused
    info = capture.open(path).info()
    assert info.events["declare_refused"] == len(refused)
    found = of_kind(info, "declare_refused")
    assert sum(finding.count for finding in found) == len(refused)
    for finding in found:
        [who] = {one.who for one in refused if f"what {text(one.who)} declared" in finding.text}
        assert finding.text.startswith(f"{text(RECEIVER)} refused")
        theirs = [one for one in refused if one.who == who]
        assert finding.count == len(theirs)
        first = min(theirs, key=lambda one: one.refused_frame)
        assert finding.packets == (book.place(first.refused_frame)[1],)
    rows = capture.open(path).table("events", ["pkt", "type", "peer"]).to_pylist()
    told = [row["pkt"] for row in rows if row["type"] == "declare_refused"]
    assert told == sorted(book.place(one.refused_frame)[1] for one in refused)


def test_a_refusal_of_zhe() -> None:
    """A RESULT that zhe repeats would be another refusal, and why it refuses would not be said."""
    [finding] = of_kind(
        capture.open(CAPTURES / "result_invalid_rid.pcap").info(), "declare_refused"
    )
    assert finding.count == 1
    assert "2000000 (invalid)" in finding.text


def test_many_refusals(tmp_path: Path) -> None:
    """More refusals than are told apart would not be told at all."""
    frames = [Frame(BEGIN + n * MS, *step) for n, step in enumerate(opening(0, 14, 1))]
    for n in range(100):
        result = wire.Result(0, 1, id=n + 1)
        data = wire.encode([wire.Declare(n, [result])])
        frames.append(Frame(BEGIN + (10 + n) * MS, peer(0), peer(1), data))
    info = capture.open(write(tmp_path / "run.pcap", frames)).info()
    assert sum(finding.count for finding in of_kind(info, "declare_refused")) == 100


def statistics(interface: int, dropped: int) -> bytes:
    """A block that says how many frames an interface has lost so far."""
    options = make.option(5, struct.pack("<Q", dropped)) + make.option(0, b"")
    return make.block(5, struct.pack("<III", interface, 0, 0) + options)


def behind(lost: int) -> bytes:
    """A frame with the word that so many before it were lost."""
    head = struct.pack("<IIIII", 0, 0, 0, len(FRAME), len(FRAME))
    options = make.option(4, struct.pack("<Q", lost)) + make.option(0, b"")
    return make.block(6, head + FRAME + bytes(-len(FRAME) % 4) + options)


def test_frames_that_were_lost(tmp_path: Path) -> None:
    """What the capturing lost would be no row of events, or stand at another place, or count twice."""
    begin = make.section() + make.interface() + make.interface()
    plain = make.enhanced(FRAME)
    one = begin + plain + statistics(0, 3) + statistics(1, 2) + plain + behind(4) + plain
    one += statistics(0, 7) + statistics(0, 6) + statistics(0, 9)
    other = begin + plain + plain + statistics(0, 5)
    paths = []
    for n, content in enumerate((one, other), 1):
        paths.append(tmp_path / f"run_{n:05d}.pcapng")
        paths[-1].write_bytes(content)
    wanted = [
        (0, 1, "3 frames"),
        (0, 1, "2 frames"),
        (0, 3, "4 frames"),
        (0, 4, "2 frames"),
        (1, 2, "5 frames"),
    ]
    source = capture.open(paths)
    rows = source.table("events", ["file", "pkt", "type", "detail"]).to_pylist()
    told = [
        (row["file"], row["pkt"], row["detail"]) for row in rows if row["type"] == "capture_drop"
    ]
    assert told == wanted
    info = source.info()
    assert info.events["capture_drop"] == len(wanted)
    [finding] = of_kind(info, "capture_drop")
    assert (finding.count, finding.packets, finding.files) == (16, (1,), (0,))


@pytest.mark.parametrize("lost", [9_000, 40_000])
def test_a_long_loss(lost: int, tmp_path: Path) -> None:
    """A loss of more than half of all numbers would be told as one unclear number, as if little was missing."""
    frames = [Frame(BEGIN + n * MS, *step) for n, step in enumerate(opening(0, 14, 1))]
    for n in [*range(10_000), *range(10_000 + lost, 12_000 + lost)]:
        data = wire.encode([wire.SData(n % 2**14, 1, b"x", reliable=True)])
        frames.append(Frame(BEGIN + 100 * MS + n * MS // 10, peer(0), GROUP, data))
    info = capture.open(write(tmp_path / "run.pcap", frames)).info()
    assert (info.missing, info.repeats) == (0, 0)
    [conduit] = [one for one in info.conduits if one.messages]
    assert (conduit.ambiguous, conduit.unclear) == (1, lost)
    [finding] = of_kind(info, "ambiguous")
    assert f"{lost:,} numbers could be missing" in finding.text
