"""
How far a capture can be read, and what is known there: one walk of the core over a file, or over what has come since the last.

    first_of     its first frame, by which a file is known whatever it is called, however far it is, and however it is packed
    walk         up to the last whole and good frame; what stands behind that is said, and may be mended later
    mark_of      a checksum of the last bytes before a place: whether a file is still the one that was read up to there

Places are bytes of the capture. Where the file is packed, they are bytes of what is in it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from pyddsi._native import lib
from pyddsi.capture._bytes import BrokenBytesError, Bytes, Window, open_bytes
from pyddsi.capture._index import CHUNK_BYTES
from pyddsi.capture._scan import NONE, Range, Request, Scan, Settings
from pyddsi.errors import CaptureError

__all__ = ["First", "Walk", "first_of", "mark_of", "state_at", "steps", "walk"]

MARK_BYTES = 4096
STEP_LEAST = 9
EVER = 2**64 - 1


@dataclass(frozen=True, slots=True)
class First:
    """
    The first frame of a file.

    identity: its time, and a checksum of all bytes up to its end
    """

    identity: str
    time_ns: int
    packed: bool


@dataclass(slots=True)
class Walk:
    """
    What a walk has found.

    stop: up to here all is whole and good
    begin, end: what is known at the start, and at the stop
    cuts: places in between where reading can begin, and what is known at each
    wrong: why it ends there, unless the file does
    mark: see mark_of; marks: those at the steps between
    """

    start: int
    stop: int
    begin: bytes
    end: bytes = b""
    cuts: list[tuple[int, bytes]] = field(default_factory=list)
    wrong: str = ""
    packed: bool = False
    mark: int = 0
    marks: list[int] = field(default_factory=list)


def first_of(path: str, settings: Settings) -> First | None:
    """The first frame of a file; None: there is no whole one yet."""
    source = open_bytes(path)
    try:
        scan = Scan(settings)
        scan.begin(0)
        window = Window(source)
        crc = at = 0
        while True:
            lib.pyddsi_scan_limit(
                scan.raw, at + 1
            )  # it ends behind a frame, or behind blocks without one
            status = lib.pyddsi_scan_input(scan.raw, window.pointer, window.left, scan.used)
            crc = zlib.crc32(window.take(scan.used[0]), crc)
            window.at += scan.used[0]
            at += scan.used[0]
            if scan.facts().frames:
                break
            if status not in {lib.PYDDSI_OK, lib.PYDDSI_END}:
                raise scan.damaged(source)
            if status == lib.PYDDSI_OK and not scan.fill(window):
                break
        facts = scan.facts()
        if not facts.frames:
            return None
        time_ns = 0 if facts.first_ns == NONE else int(facts.first_ns)
        return First(f"{time_ns:x}.{crc:08x}", time_ns, bool(source.packed))
    finally:
        source.close()


def steps(start: int, stop: int) -> list[int]:
    """Powers of two behind the one place, up to the other: where a file is held against one that is longer."""
    return [1 << i for i in range(STEP_LEAST, stop.bit_length()) if start < 1 << i <= stop]


def mark_of(path: str, stop: int) -> int | None:
    """A checksum of the bytes before a place; None: the file does not go so far."""
    size = min(MARK_BYTES, stop)
    source = open_bytes(path)
    try:
        source.seek(stop - size)
        window = Window(source, size)
        while window.fill():
            pass
        return zlib.crc32(window.take(size)) if window.have == size else None
    except BrokenBytesError:
        return None
    finally:
        source.close()


def walk(path: str, settings: Settings, start: int, state: bytes | None) -> Walk:
    """
    From a place on, as far as all is whole and good.

    state: what is known there; where that is the beginning, what was known at the end of another file, or nothing
    """
    found = _walk(path, settings, start, state, None)
    if found.wrong and not found.end:  # the core has seen the damage, and would see it for ever
        wrong = found.wrong
        found = _walk(path, settings, start, state, found.stop)
        found.wrong = wrong
    return found


def state_at(path: str, settings: Settings, stop: int) -> bytes:
    """What is known at a place, of this file alone."""
    return _walk(path, settings, 0, None, stop).end


def _walk(path: str, settings: Settings, start: int, state: bytes | None, stop: int | None) -> Walk:
    scan = Scan(settings)
    if state is not None and not scan.restore(state):
        raise CaptureError(f"{path}: what was known at byte {start} cannot be read")
    if start == 0:
        scan.begin(0)
    source = open_bytes(path)
    try:
        return _walked(path, scan, source, start, stop)
    except (BrokenBytesError, OSError) as error:
        raise CaptureError(f"{path} cannot be read from byte {start} on: {error}") from error
    finally:
        source.close()


def _walked(path: str, scan: Scan, source: Bytes, start: int, stop: int | None) -> Walk:
    found = Walk(start, start, scan.snapshot(), packed=bool(source.packed))
    source.seek(start)
    window = Window(source, None if stop is None else stop - start)
    while True:
        lib.pyddsi_scan_limit(scan.raw, (found.cuts[-1][0] if found.cuts else start) + CHUNK_BYTES)
        status = lib.pyddsi_scan_input(scan.raw, window.pointer, window.left, scan.used)
        window.at += scan.used[0]
        found.stop += scan.used[0]
        if status == lib.PYDDSI_END:
            found.cuts.append((found.stop, scan.snapshot()))
        elif status != lib.PYDDSI_OK:
            found.wrong = (
                f"{path} is damaged at byte {found.stop}: {scan.damage()}; it is read up to there"
            )
            return found
        else:
            try:
                if scan.fill(window):
                    continue
            except CaptureError as error:
                found.wrong = str(error)
            break
    facts = scan.facts()
    if (window.left or facts.inside) and not found.wrong:
        found.wrong = f"{path} is cut off: it is whole up to byte {found.stop}, and {window.left} bytes of the next packet follow"
    if facts.first_ns == 0 and stop is None:
        zeros = _zeros(path, scan.settings, start, found)
        if zeros is not None:
            wrong = f"{path} holds zeros from byte {zeros} on, as one that is being copied may"
            return Walk(start, zeros, found.begin, packed=found.packed, wrong=wrong)
    found.end = scan.snapshot()
    return found


def _zeros(path: str, settings: Settings, start: int, found: Walk) -> int | None:
    """Where a hole begins, that looks like packets of nothing at no time."""
    request = Request("packets", ("offset",), where="ts_ns == 0 and cap_len == 0 and wire_len == 0")
    scan = Scan(settings, request, plain=[])
    source = open_bytes(path)
    try:
        for _ in scan.rows(source, Range(start, found.stop, found.begin)):
            break
        else:
            for _ in scan.finish(whole=False):
                pass
    finally:
        source.close()
    assert scan.plain is not None  # noqa: S101 - it was given
    return int(scan.plain[0][0]) if scan.plain else None
