"""The protocol's packets of a capture, one by one, and what each message means to those before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyddsi import wire
from pyddsi._native import ffi, lib, scan_lines
from pyddsi.capture._bytes import Bytes
from pyddsi.capture._datagram import Endpoint, endpoint_of
from pyddsi.capture._scan import NONE, Early, Request, Scan, Settings
from pyddsi.errors import WireError

__all__ = ["EVENTS", "Note", "Packet", "Packets"]

EVENTS = ("next", "first", "gap", "repeat", "fill", "old", "reset", "ambiguous", "pre-sync")
DECODES = ("ok", "foreign", "truncated", "malformed", "unknown", "waits", "other", "stream")
UDP = 6  # kinds of endpoints above it are connections
_BASE = wire.Reading(extensions=False)


class Note(NamedTuple):
    """
    What a message is to the counter that it belongs to; None: it has no such number. docs/inside/capture.md says how each is
    found.
    """

    flow: int | None
    epoch: int
    usn: int | None
    """Its number, counted on without wrapping."""
    event: str | None
    """One of EVENTS."""
    gap: int
    """Numbers missing before it."""
    since_first_us: int | None
    """Of a repeat: microseconds since the first transmission."""
    ack_usn: int | None
    """Of an ACKNACK: everything before this number has arrived."""
    nacked: int
    answer_us: int | None
    delivery_us: int | None
    outstanding: int | None
    passes: bool
    """Whether the filter lets the message through; without one it does."""


def _number(value: int) -> int | None:
    return None if value == NONE else value


def _note(raw: Any) -> Note:
    return Note(
        int(ffi.cast("int64_t", raw.flow)) or None,
        raw.epoch,
        _number(raw.usn),
        EVENTS[raw.event] if raw.event < len(EVENTS) else None,
        raw.gap,
        _number(raw.since_first_us),
        _number(raw.ack_usn),
        raw.nacked,
        _number(raw.answer_us),
        _number(raw.delivery_us),
        _number(raw.outstanding),
        bool(raw.passes),
    )


class Packet(NamedTuple):
    """
    A packet of the protocol.

    number, time_ns: of the frame that completed it
    decode: ok; truncated, malformed, unknown: it cannot be read to its end; stream: a TCP connection that cannot be read on
    extensions: whether messages beyond zhe are taken from its sender
    stream: it came by a TCP connection
    notes: one for each message that could be read, markers left out
    """

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes
    decode: str
    extensions: bool
    notes: tuple[Note, ...]
    fault_passes: bool
    """Whether the filter lets the message through that could not be read."""
    stream: bool

    @property
    def reading(self) -> wire.Reading:
        """How it is read."""
        return wire.TOLERANT if self.extensions else _BASE

    def messages(self) -> tuple[list[wire.Message], WireError | None]:
        """Its messages, and the error that ends it early."""
        try:
            return wire.decode(self.data, self.reading), None
        except WireError as error:
            return error.messages, error


class Packets:
    """A pass over one file, packet by packet; `where` is a filter over the table of messages."""

    def __init__(
        self,
        source: Bytes,
        settings: Settings,
        where: str | None = None,
        start_ns: int | None = None,
        stop_ns: int | None = None,
        *,
        early: Early | None = None,
    ) -> None:
        self._source = source
        self._early = early
        self.lean = False
        """Packets that can be read come without bytes and notes: `lines` is all that is wanted of them."""
        self._start_ns = start_ns
        self._stop_ns = stop_ns
        self.scan = Scan(settings, Request("messages", where=where, packets=True))

    def name(self, rid: int, space: int = 0) -> str:
        """What the sender of the packet that was read last calls a number; empty if nobody has named it."""
        raw = lib.pyddsi_scan_name(self.scan.raw, self._raw_source, space, rid)
        return (
            bytes(ffi.buffer(raw.data, raw.size)).decode("ascii", "backslashreplace")
            if raw.size
            else ""
        )

    def lines(self, start: str) -> str:
        """The messages of the packet that was read last, each a line that begins so."""
        return scan_lines(self.scan.address, start)

    def _within(self, time_ns: int) -> bool:
        return time_ns == NONE or (
            (self._start_ns is None or time_ns >= self._start_ns)
            and (self._stop_ns is None or time_ns < self._stop_ns)
        )

    def __iter__(self) -> Iterator[Packet]:
        scan = self.scan
        for raw in scan.items(self._source, "packet", self._early):
            if not self._within(raw.time_ns):
                continue
            notes = lib.pyddsi_scan_notes(scan.raw)
            whole = not self.lean or raw.decode != lib.PYDDSI_DECODE_OK
            self._raw_source = ffi.addressof(raw, "source")
            yield Packet(
                raw.number,
                _number(raw.time_ns),
                endpoint_of(raw.source),
                endpoint_of(raw.target),
                bytes(ffi.buffer(raw.data, raw.size)) if raw.size and whole else b"",
                DECODES[raw.decode],
                not raw.base_only,
                tuple([_note(notes[i]) for i in range(raw.notes)]) if whole else (),
                bool(raw.fault_passes),
                raw.source.kind > UDP,
            )
