"""
What is told of losses, against books that are kept while traffic is made: per flow what was sent, lost, swapped, repeated.

The traffic is made here and by nothing that reads captures: a sender is a list of numbers, and faults take them away, swap or
double them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pyddsi import capture, wire
from tests.capture.traffic import BEGIN, GROUP, Frame, opening, peer, write

MS = 1_000_000
SENDERS = 4


@dataclass
class Books:
    """Of one flow."""

    source: str
    reliable: bool
    sent: int = 0
    lost: int = 0
    late: int = 0  # passed over, and there later
    repeated: int = 0
    frames: list[tuple[int, int]] = field(default_factory=list)  # when, and which number


def made(source: str, rand: random.Random, *, reliable: bool) -> Books:
    """A flow: its numbers in order, then what becomes of them."""
    books = Books(source, reliable)
    number = 0
    order: list[int] = []
    while number < 2000:
        what = rand.random()
        if order and what < 0.02:
            gone = rand.randrange(1, 6)
            books.lost += gone
            number += gone
        elif order and what < 0.05:
            order += [number + 1, number]
            books.late += 1
            number += 2
        elif reliable and order and what < 0.08:
            order.append(rand.choice(order[-20:]))
            books.repeated += 1
        else:
            order.append(number)
            number += 1
    order.append(number)  # what is lost at the end cannot be known
    books.sent = len(order)
    books.frames = [(BEGIN + 100 * MS + n * MS, sn) for n, sn in enumerate(order)]
    return books


@pytest.mark.parametrize("seed", range(12))
def test_books(seed: int, tmp_path: Path) -> None:
    """Losses would be told that were none, or none that were, or of another sender."""
    rand = random.Random(seed)
    frames = [
        Frame(BEGIN + n * MS, *step)
        for n, step in enumerate(
            step for number in range(SENDERS) for step in opening(number, 14, SENDERS)
        )
    ]
    kept = []
    for number in range(SENDERS):
        for reliable in (True, False):
            books = made(":".join(map(str, peer(number))), rand, reliable=reliable)
            kept.append(books)
            for time_ns, sn in books.frames:
                data = wire.encode([wire.SData(sn, 1, b"x", reliable=reliable)])
                frames.append(Frame(time_ns, peer(number), GROUP, data))
    frames.sort(key=lambda frame: frame.time_ns)
    path = write(tmp_path / "run.pcap", frames)
    info = capture.open(path).info()
    told = {(one.source, one.reliable): one for one in info.conduits if one.messages}
    assert set(told) == {(books.source, books.reliable) for books in kept}
    for books in kept:
        one = told[books.source, books.reliable]
        assert (one.messages, one.missing, one.fills, one.repeats, one.ambiguous, one.resets) == (
            *(books.sent, books.lost, books.late, books.repeated, 0, 0),
        )
    assert info.missing == sum(books.lost for books in kept)
    assert info.repeats == sum(books.repeated for books in kept)
    rows = capture.open(path).table("messages", ["seq_event", "gap"]).to_pylist()
    assert sum(row["gap"] for row in rows) == sum(books.lost + books.late for books in kept)
    assert sum(row["seq_event"] == 4 for row in rows) == sum(books.late for books in kept)


def test_cut_by_a_snap_length(tmp_path: Path) -> None:
    """What a snap length cut off would be lost on the way."""
    frames = [Frame(BEGIN + n * MS, *step) for n, step in enumerate(opening(0, 14, 1))]
    for n in range(500):
        pair = [wire.SData(2 * n + k, 1, bytes(60), reliable=True) for k in (0, 1)]
        frames.append(Frame(BEGIN + (100 + n) * MS, peer(0), GROUP, wire.encode(pair)))
    whole = write(tmp_path / "whole.pcap", frames).read_bytes()
    cut, at = whole[:24], 24
    while at < len(whole):
        size = int.from_bytes(whole[at + 8 : at + 12], "little")
        kept = min(size, 120)
        record = whole[at : at + 8] + kept.to_bytes(4, "little") + whole[at + 12 : at + 16]
        cut += record + whole[at + 16 : at + 16 + kept]
        at += 16 + size
    path = tmp_path / "cut.pcap"
    path.write_bytes(cut)
    info = capture.open(path).info()
    assert (info.missing, info.repeats, info.gaps) == (0, 0, 0)
    kinds = {finding.kind for finding in info.findings}
    assert "truncated" in kinds
    assert "gaps" not in kinds


@pytest.mark.parametrize("lost", [0, 1, 5])
def test_a_sender_that_is_begun_again(lost: int, tmp_path: Path) -> None:
    """A sender with the same id and port would repeat all that its life before has sent, if its first samples are lost."""
    frames = []
    now = BEGIN
    for first in (0, lost):
        for step in opening(0, 14, 1):
            frames.append(Frame(now, *step))
            now += MS
        for n in range(first, 300):
            data = wire.encode([wire.SData(n, 1, b"x", reliable=True)])
            frames.append(Frame(now, peer(0), GROUP, data))
            now += MS
    info = capture.open(write(tmp_path / "run.pcap", frames)).info()
    assert (info.repeats, info.missing) == (0, 0)
    assert sum(one.resets for one in info.conduits) == 1


@pytest.mark.parametrize("ahead", [1000, 40])
def test_a_clock_that_is_set(ahead: int, tmp_path: Path) -> None:
    """A clock that is set ahead, or a capturing that pauses, would be silences that end sessions."""
    frames = [Frame(BEGIN + n * MS, *step) for n, step in enumerate(opening(0, 14, 1))]
    for n in range(200):
        now = BEGIN + (n + 1) * 100 * MS + (n >= 100) * ahead * 10**9
        for number in (0, 1):
            alive = wire.encode([wire.KeepAlive(b"id%d" % number)])
            frames.append(Frame(now + number, peer(number), GROUP, alive))
    info = capture.open(write(tmp_path / "run.pcap", frames)).info()
    assert (info.expiries, [one.end for one in info.sessions]) == (0, ["capture_end"])
