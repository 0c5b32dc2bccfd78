"""Captures of senders that do not live quietly: begun again under another id or the same, gone to another address, and all at once."""

from __future__ import annotations

from collections.abc import Callable

from tests.capture.traffic import BEGIN, Frame, traffic

__all__ = ["lives"]

PAUSE_NS = 1_000_000_000


def _after(frames: list[Frame], more: list[Frame], change: Callable[[Frame], Frame]) -> list[Frame]:
    """The second behind the first, each frame of it changed."""
    shift = frames[-1].time_ns + PAUSE_NS - BEGIN
    moved = (Frame(one.time_ns + shift, one.source, one.target, one.data) for one in more)
    return [*frames, *map(change, moved)]


def _other_id(frame: Frame) -> Frame:
    return Frame(frame.time_ns, frame.source, frame.target, frame.data.replace(b"id", b"ix"))


def _elsewhere(frame: Frame) -> Frame:
    """All of it happens two networks further, but for the group."""

    def to(end: tuple[str, int]) -> tuple[str, int]:
        return end if end[0].startswith("239.") else (end[0].replace("10.0.", "10.2."), end[1] + 7)

    return Frame(frame.time_ns, to(frame.source), to(frame.target), frame.data)


def lives(seed: int, bits: int, packets: int = 300) -> list[Frame]:
    """Four lives of the same peers: the first, one under other ids, one at other addresses, one under the first ids again."""
    options = {"bits": bits, "packets": packets, "loss": 0.05, "repeat": 0.1, "answers": 0.3}
    frames = traffic(seed, **options).frames  # type: ignore[arg-type]
    for i, change in enumerate((_other_id, _elsewhere, lambda frame: frame), 1):
        frames = _after(frames, traffic(seed + i, **options).frames, change)  # type: ignore[arg-type]
    return frames
