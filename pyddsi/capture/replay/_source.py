"""
What is replayed: the protocol's packets of one capture, or of several in a row, on one line of time.

    files ──► pyddsi.capture ──► the protocol's packets ──► times from the start ──► those that are wanted
                                 (Packets)                  (Clock)                  (start, until, where)

This is the one place that knows how captures are read. A recording is read anew each time it is asked for, so it takes
no memory however long it is.

Times in files are not to be trusted. Some packets have none; several interfaces make small disorder; a clock that was set
while the capture ran makes one packet an hour, or fifty years, away from the next. Small steps back are taken as now;
what is larger, and what leaps by more than a day, is a clock that was set: the recording goes on there without a pause.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pyddsi import wire
from pyddsi._values import SECOND
from pyddsi.capture import Endpoint
from pyddsi.capture._bytes import open_bytes
from pyddsi.capture._capture import CaptureWarning
from pyddsi.capture._files import expand, without_empty
from pyddsi.capture._packet import Packets
from pyddsi.capture._scan import Early, Settings
from pyddsi.errors import ReplayError

__all__ = ["Moment", "Packet", "Recording", "Where"]

WELL_KNOWN = 7447
BACK_NS = SECOND
"""A larger step back is a clock that was set."""
AHEAD_NS = 86_400 * SECOND
"""And so is a larger leap ahead."""

Moment = int | float | Fraction | datetime
"""Seconds from the start of the recording, or a time of day (without a zone: UTC)."""
Where = str | Callable[["Packet", wire.Message], bool]
"""Whether a message of a packet is wanted: a filter over the table of messages, or a function."""


class Packet(NamedTuple):
    """
    One packet of the protocol.

    file, number: in which file it is, and which of its frames
    at_ns: when, from the start of the recording; never before the one before it
    time_ns: when, as its file says, since 1970
    stream: it came by a TCP connection
    """

    file: str
    number: int
    at_ns: int
    time_ns: int | None
    source: Endpoint
    target: Endpoint
    data: bytes
    stream: bool
    passing: tuple[wire.Message, ...] = ()
    """The messages that a filter lets through, if there is one."""


class _Clock:
    """The times of a recording, as one line from 0 on."""

    def __init__(self) -> None:
        self.now = 0
        self.steps = 0
        self._zero: int | None = None

    def at(self, time_ns: int | None) -> int:
        """Where on the line a packet is."""
        if time_ns is None:
            return self.now
        if self._zero is None:
            self._zero = time_ns
        at = time_ns - self._zero
        if not self.now - BACK_NS <= at <= self.now + AHEAD_NS:
            self.steps += 1
            self._zero = time_ns - self.now
            at = self.now
        self.now = max(self.now, at)
        return self.now

    def follow(self, line: Any) -> None:
        """Go on where the core is, which has the same rules."""
        self.now, self.steps = line.now_ns, line.steps
        self._zero = line.zero_ns if line.begun else None


def _exact(moment: Moment, what: str) -> int:
    """A moment in nanoseconds, from the start or since 1970."""
    if isinstance(moment, datetime):
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds * 1000
    if isinstance(moment, bool) or not isinstance(moment, (int, float, Fraction)):
        raise TypeError(f"{what} is a number of seconds or a datetime, not {moment!r}")
    return round(Fraction(moment) * SECOND)


def _said(moment: Moment | None, otherwise: str) -> str:
    """A moment in a message."""
    if moment is None:
        return otherwise
    return str(moment) if isinstance(moment, datetime) else f"{float(moment):g} s"


MARKERS = (wire.Conduit, wire.Frag, wire.RSpace)


def _passing(messages: Sequence[wire.Message], notes: Sequence[Any]) -> tuple[wire.Message, ...]:
    """The messages that a filter lets through; notes are of those that are no markers."""
    told = (message for message in messages if not isinstance(message, MARKERS))
    return tuple(message for message, note in zip(told, notes, strict=False) if note.passes)


class Recording:
    """
    A capture, or several that are played as one, in this order.

    files: pcap or pcapng, gzipped or not, folders of them, or patterns; "-" is standard input, which can be read once, as any pipe
    start, until: from when on, and up to when, packets are wanted: seconds from the recording's first packet, or a datetime
    where: whether a message is wanted: a filter such as "rid == 7", or a function that is asked as where(packet, message)
    well_known: the port by which the protocol is found; packets between others are followed from there

    What is known of it after a walk through it: `packets` there were, `streams` of them by TCP; `malformed` ones broke a
    rule; `broken` parts of connections could not be read; its clock was set `steps` times; it lasts `seconds`. While it is
    read, `read` says how much of its files is behind, from 0 to 1.
    """

    def __init__(
        self,
        files: str | Path | Sequence[str | Path],
        *,
        start: Moment | None = None,
        until: Moment | None = None,
        where: Where | None = None,
        well_known: int = WELL_KNOWN,
    ) -> None:
        listed = [files] if isinstance(files, (str, Path)) else list(files)
        if not listed:
            raise ValueError("a recording is at least one capture; name a file")
        named: list[str | BinaryIO] = [file for one in listed for file in expand(one)]
        named, empty = without_empty(named)
        self.files = [str(file) for file in named]
        for name in empty:
            warnings.warn(f"{name} is empty, and left out", CaptureWarning, stacklevel=2)
        self.start, self.until, self.where = start, until, where
        self.well_known = well_known
        self._bounds = [
            (isinstance(moment, datetime), _exact(moment, what))
            for moment, what in ((start, "start"), (until, "until"))
            if moment is not None
        ]
        self._from = self._bounds[0] if start is not None else None
        self._to = self._bounds[-1] if until is not None else None
        self._ends = self._to is not None and not self._to[0]  # only a time of day may come again
        self._sizes = {}
        for file in self.files:
            if file != "-" and not Path(file).is_fifo():
                open_bytes(file).close()  # says what is wrong with it before anything is played
                self._sizes[file] = Path(file).stat().st_size
        self._forget()

    def _forget(self) -> None:
        self.packets = self.streams = self.broken = self.malformed = self.steps = 0
        self.read = 0.0
        self.seconds = 0.0
        self._foreign: Counter[str] = Counter()
        self._captured = 0

    @property
    def once(self) -> bool:
        """Whether it can be read only once: standard input, or another pipe."""
        return any(file not in self._sizes for file in self.files)

    # ---- reading ----

    def heard(self) -> Iterator[tuple[Packet, list[wire.Message]]]:
        """All packets up to the last that is wanted, each with its messages, as far as they can be read."""
        for packet, messages in self._walk(decode=True):
            if not self._behind(packet):
                yield packet, messages
            elif self._ends:
                break

    def wanted(self) -> Iterator[Packet]:
        """The packets that are wanted: within the time, and with a message that fits. ReplayError if there is none."""
        found = False
        for packet, messages in self._walk(decode=self.where is not None, skip=True):
            if self._ends and self._behind(packet):
                break
            if self.within(packet) and (
                self.where is None or any(self.fits(packet, message) for message in messages)
            ):
                found = True
                yield packet
        if not found:
            raise self.unwanted()

    def check(self) -> None:
        """ReplayError if no packet is within the time that is wanted; the core finds that out, which is much faster than Python."""
        if self._from is None or self.once:
            return
        for packet, _ in self._walk(decode=False, skip=True):
            if self.within(packet):
                return
            if self._ends and self._behind(packet):
                break
        raise self.unwanted()

    def _walk(
        self, *, decode: bool, skip: bool = False
    ) -> Iterator[tuple[Packet, list[wire.Message]]]:
        """
        All packets, wanted or not. Raises ReplayError at the end if there was none.

        skip: those before `start` need not be seen
        """
        self._forget()
        clock, early = _Clock(), None
        if skip and self._from is not None:
            early = Early(self._from[1], absolute=self._from[0], back_ns=BACK_NS, ahead_ns=AHEAD_NS)
        done, total = 0, sum(self._sizes.get(file, 0) for file in self.files) or 1
        for file in self.files:
            stream = None if file == "-" else Path(file).open("rb", buffering=0)  # noqa: SIM115 - closed below
            try:
                for packet, messages in self._file(file, stream, clock, early, decode=decode):
                    self.packets += 1
                    self.streams += packet.stream
                    self.steps, self.seconds = clock.steps, clock.now / SECOND
                    if stream is not None and file in self._sizes:
                        self.read = (done + stream.tell()) / total
                    yield packet, messages
            finally:
                if stream is not None:
                    stream.close()
            done += self._sizes.get(file, 0)
        self.read = 1.0
        if not self.packets:
            raise ReplayError(self._nothing())

    def _file(
        self,
        file: str,
        stream: BinaryIO | None,
        clock: _Clock,
        early: Early | None,
        *,
        decode: bool,
    ) -> Iterator[tuple[Packet, list[wire.Message]]]:
        source = open_bytes(file if stream is None else stream)
        text = self.where if isinstance(self.where, str) else None
        passed = None if early is None or early.over else early.line
        packets = Packets(source, Settings(ports=(self.well_known,)), text, early=early)
        for found in packets:
            if passed is not None:
                self._passed(clock, passed, 1, found.stream)
                passed = None
            if found.decode == "stream":
                self.broken += 1
                continue
            messages: list[wire.Message] = []
            passing: tuple[wire.Message, ...] = ()
            if decode:
                messages, fault = found.messages()
                self.malformed += fault is not None
                if text is not None:
                    passing = _passing(messages, found.notes)
            at = clock.at(found.time_ns)
            ends = found.source, found.destination
            yield (
                Packet(
                    file, found.number, at, found.time_ns, *ends, found.data, found.stream, passing
                ),
                messages,
            )
        if passed is not None:
            self._passed(clock, passed)
        for problem in packets.scan.problems:
            warnings.warn(problem.text, CaptureWarning, stacklevel=2)
        facts = packets.scan.facts()
        self._captured += facts.frames
        self._foreign += Counter({"UDP": facts.foreign_udp, "TCP": facts.foreign_tcp})

    def _passed(self, clock: _Clock, line: Any, found: int = 0, stream: int = 0) -> None:
        """So much was passed over; if a packet was found, it is among that, and is still to be counted."""
        clock.follow(line)
        self.packets, self.streams = line.packets - found, line.streams - stream
        self.broken = line.broken
        self.steps, self.seconds = clock.steps, clock.now / SECOND

    # ---- what is wanted ----

    def within(self, packet: Packet) -> bool:
        """Whether a packet is within the time that is wanted."""
        if self._from is not None:
            absolute, bound = self._from
            at = packet.time_ns if absolute else packet.at_ns
            if at is not None and at < bound:
                return False
        return not self._behind(packet)

    def _behind(self, packet: Packet) -> bool:
        if self._to is None:
            return False
        absolute, bound = self._to
        at = packet.time_ns if absolute else packet.at_ns
        return at is not None and at >= bound

    @property
    def limited(self) -> bool:
        """Whether not everything is wanted."""
        return bool(self._bounds) or self.where is not None

    def fits(self, packet: Packet, message: wire.Message) -> bool:
        """Whether a message is wanted, as far as the filter goes."""
        if isinstance(self.where, str):
            return any(passing is message for passing in packet.passing)
        return self.where is None or self.where(packet, message)

    # ---- why there is nothing ----

    @property
    def name(self) -> str:
        """What it is called in messages."""
        first = "standard input" if self.files[0] == "-" else self.files[0]
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"

    def _nothing(self) -> str:
        passed = ", ".join(f"{count} {kind} packets" for kind, count in self._foreign.items())
        hint = (
            f" ({passed} have nothing to do with port {self.well_known}; "
            f"give the well-known port if it was another)"
            if passed
            else ""
        )
        return (
            f"{self.name}: no packet of the protocol among {self._captured} captured{hint}, "
            "so there is nothing to replay"
        )

    def unwanted(self) -> ReplayError:
        """The error when none of the packets is wanted."""
        asked = []
        if self._bounds:
            asked.append(
                f"from {_said(self.start, 'the start')} until {_said(self.until, 'the end')}"
            )
        if self.where is not None:
            asked.append("that fits the filter")
        return ReplayError(
            f"{self.name}: of {self.packets} packets in {self.seconds:.6g} s there is none {' '.join(asked)}, "
            "so there is nothing to replay; ask for more"
        )
