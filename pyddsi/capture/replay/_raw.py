"""
Raw replay: the recorded datagrams, byte for byte, from sockets or into a file.

    recording ─► schedule ─► batches ─► ring ─► the pacing thread (host/pace.h) ─► sockets
                             read ahead,   ▲
                             bounded       └── a round that fits in memory is read once, and pushed again

Only datagrams: what came by TCP connections is counted and left out, for a connection has two sides that take turns, and
the other one would not be there. A receiver without a memory can read what is sent so. A peer cannot: its numbers, leases
and ids are its own. SessionReplay is for that.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pyddsi._native import ffi, lib
from pyddsi._values import SECOND
from pyddsi.capture import Endpoint
from pyddsi.capture.replay._late import Lateness
from pyddsi.capture.replay._pace import Pace, Schedule
from pyddsi.capture.replay._route import Route, Sockets
from pyddsi.capture.replay._source import Packet, Recording
from pyddsi.capture.write import write_datagrams
from pyddsi.errors import CaptureError, ReplayError

__all__ = ["Progress", "RawReplay", "Sent"]

BATCH_PACKETS = 256
BATCH_BYTES = 1 << 18
AHEAD_BYTES = 64 << 20
"""So many bytes are read ahead at most; and a round of no more is kept for the next one."""
AHEAD_NS = SECOND
"""So much of the schedule lies ready before the first packet leaves, unless the recording is shorter."""
SPIN_NS = 30_000
"""How long before a deadline the clock is looked at; benchmarks/replay.py shows what it buys."""
WATCH_NS = SECOND // 4


@dataclass
class Progress:
    """How far a replay is: packets or samples, seconds since its beginning, and how many are left, as far as known."""

    count: int
    seconds: float
    left: float | None


Watch = Callable[[Progress], None]


@dataclass
class Sent:
    """
    What a raw replay did.

    packets, bytes: what was sent
    seconds: that it took
    rounds: how many were begun
    begun_ns: the moment from which deadlines count, as time.monotonic_ns() tells it
    late: how late each packet left (empty if nothing was to wait)
    drift: how late the last one left, in seconds
    full, refused: packets that the system had no room for, or refused
    starved: times that reading was behind sending
    streams: packets that came by TCP and were left out
    broken: parts of connections that could not be read
    steps: times that the recording's clock was set
    senders: who sent, by who was recorded
    """

    packets: int = 0
    bytes: int = 0
    seconds: float = 0.0
    rounds: int = 0
    begun_ns: int = 0
    late: Lateness = field(default_factory=Lateness)
    drift: float = 0.0
    full: int = 0
    refused: int = 0
    starved: int = 0
    streams: int = 0
    broken: int = 0
    steps: int = 0
    senders: dict[str, str] = field(default_factory=dict)


@dataclass
class _Batch:
    """Packets as the thread takes them. `packets` and `data` are the memory that it reads."""

    packets: Any
    data: Any
    count: int
    size: int
    last: int


class _Feed:
    """The ring: what is pushed stays here until the thread is through with it."""

    def __init__(self, *, flat_out: bool) -> None:
        made, self._text = ffi.new("pyddsi_replay **"), ffi.new("char[]", lib.PYDDSI_TEXT_MAX)
        self._check(lib.pyddsi_replay_open(made, SPIN_NS, flat_out, self._text))
        self.raw = made[0]
        self.flat_out = flat_out
        self.begun = False
        self.ahead_ns = 0
        self.pushed = 0
        self.bytes = 0
        self._lent: deque[_Batch] = deque()
        self._given_back = 0
        self._counts = ffi.new("pyddsi_replay_counts *")

    def _check(self, status: int) -> None:
        if status != lib.PYDDSI_OK:
            raise ReplayError(ffi.string(self._text).decode())

    def close(self) -> None:
        """The thread ends, if it has not."""
        lib.pyddsi_replay_close(self.raw)
        self._lent.clear()

    def counts(self) -> Any:
        """As they are now."""
        lib.pyddsi_replay_count(self.raw, self._counts)
        while self._given_back < self._counts.done:
            self.bytes -= self._lent.popleft().size
            self._given_back += 1
        return self._counts

    def begin(self) -> None:
        """The first packet may leave."""
        if not self.begun:
            self._check(lib.pyddsi_replay_begin(self.raw, self._text))
            self.begun = True

    def push(self, batch: _Batch, base: int, wait: Callable[[int], None]) -> None:
        """One more; waits while there is no room."""
        self._lent.append(batch)  # before the thread may have it, as Ctrl-C may come in between
        full = self.bytes > AHEAD_BYTES
        while full or not self._pushed(batch, base):
            self.begin()
            wait(self._given_back + 1)
            self.counts()
            full = self.bytes > AHEAD_BYTES
        self.bytes += batch.size
        self.pushed += batch.count
        self.ahead_ns = base + batch.last
        if self.ahead_ns > AHEAD_NS and not self.flat_out:
            self.begin()

    def _pushed(self, batch: _Batch, base: int) -> bool:
        status = lib.pyddsi_replay_push(
            self.raw, batch.packets, batch.count, batch.data, len(batch.data), base
        )
        return bool(status == lib.PYDDSI_OK)

    def late(self) -> Lateness:
        """How late they left, once the thread has ended."""
        counts = ffi.new("uint64_t[]", lib.PYDDSI_LATE_SLOTS)
        lib.pyddsi_replay_late(self.raw, counts)
        return Lateness(list(counts), int(self._counts.late_max_ns))


class RawReplay:
    """Sends the datagrams of a recording, or writes them into a file. Used once."""

    def __init__(
        self, recording: Recording, pace: Pace | None = None, route: Route | None = None
    ) -> None:
        self.recording = recording
        self.pace = pace or Pace()
        self.route = route or Route()
        self.report = Sent()
        if recording.once and self.pace.loop != 1:
            raise ReplayError(
                f"{recording.name} can be played once: save it in a file, or leave out loop"
            )
        self._shown = 0
        self._read_all = False

    # ---- sending ----

    def run(self, watch: Watch | None = None) -> Sent:
        """
        Send everything; what it did, which is in `report` as well if something ended it early.

        watch: is called some times a second, with how far it is
        """
        feed = _Feed(flat_out=self.pace.flat_out)
        with Sockets(self.route, feed.raw) as sockets:  # closed when the thread has ended
            self.report.senders = sockets.senders
            try:
                self._fill(feed, sockets, watch)
            finally:
                lib.pyddsi_replay_stop(feed.raw)
                try:
                    self._conclude(feed)
                finally:
                    feed.close()
        return self.report

    def _fill(self, feed: _Feed, sockets: Sockets, watch: Watch | None) -> None:
        broken = None
        schedule = Schedule(self.pace)
        kept: list[_Batch] | None = None

        def wait(done: int) -> None:
            if lib.pyddsi_replay_wait(feed.raw, done, WATCH_NS) != lib.PYDDSI_OK:
                self._watch(feed, watch)

        for number in self.pace.rounds():
            self.report.rounds = number + 1
            try:
                kept = self._round(feed, schedule, kept or self._batches(schedule, sockets), wait)
            except CaptureError as error:  # after all that was whole
                broken = error
                break
            schedule.next_round()
        self._read_all = True
        feed.begin()
        lib.pyddsi_replay_finish(feed.raw)
        while not feed.counts().ended:
            wait(2**64 - 1)
        if broken is not None:
            raise broken

    @staticmethod
    def _round(
        feed: _Feed,
        schedule: Schedule,
        batches: Iterator[_Batch] | list[_Batch],
        wait: Callable[[int], None],
    ) -> list[_Batch] | None:
        """Push one round; answers it if the next one is to take it from memory."""
        kept: list[_Batch] | None = []
        size = 0
        for batch in batches:
            feed.push(batch, schedule.base, wait)
            size += batch.size
            if kept is not None:
                kept.append(batch)
            if size > AHEAD_BYTES:
                kept = None
        if isinstance(batches, list):
            schedule.repeat()
        return kept

    def _batches(self, schedule: Schedule, sockets: Sockets) -> Iterator[_Batch]:
        rows: list[int] = []
        data: list[bytes] = []
        at = last = 0
        broken = None
        try:
            for packet in self._datagrams():
                last = schedule.due(packet.at_ns, len(packet.data))
                way = sockets.way(packet.source, packet.target)
                rows += (last, at, len(packet.data), way)
                data.append(packet.data)
                at += len(packet.data)
                if len(data) == BATCH_PACKETS or at > BATCH_BYTES:
                    yield _batch(rows, data, last)
                    rows, data, at = [], [], 0
        except CaptureError as error:  # what was whole before is sent
            broken = error
        if data:
            yield _batch(rows, data, last)
        if broken is not None:
            raise broken

    def _datagrams(self) -> Iterator[Packet]:
        """The packets that are sent."""
        found = False
        for packet in self.recording.wanted():
            if not packet.stream:
                found = True
                yield packet
        self.report.streams = self.recording.streams
        if not found:
            raise ReplayError(
                f"{self.recording.name}: all packets came by TCP connections, which are not replayed raw; "
                "replay them into a session, or into a node"
            )

    def _watch(self, feed: _Feed, watch: Watch | None) -> None:
        now = time.monotonic_ns()
        if watch is None or now - self._shown < WATCH_NS:
            return
        self._shown = now
        counts = feed.counts()
        seconds = max(0, now - counts.begun_ns) / SECOND
        watch(Progress(int(counts.sent), seconds, self._left(feed, int(counts.sent), seconds)))

    def _left(self, feed: _Feed, sent: int, seconds: float) -> float | None:
        """How many seconds are left, as far as can be said."""
        if self.pace.loop == 0:
            return None
        behind = (
            1.0
            if self._read_all
            else ((self.report.rounds - 1 + self.recording.read) / self.pace.loop)
        )
        if not behind or not sent:
            return None
        if self.pace.flat_out:
            return max(0.0, seconds * (feed.pushed / behind / sent - 1))
        return max(0.0, feed.ahead_ns / SECOND / behind - seconds)

    def _conclude(self, feed: _Feed) -> None:
        while feed.begun and not feed.counts().ended:
            lib.pyddsi_replay_wait(feed.raw, 2**64 - 1, SECOND)
        counts, report = feed.counts(), self.report
        report.packets, report.bytes = int(counts.sent), int(counts.bytes)
        report.full, report.refused = int(counts.full), int(counts.failed)
        report.starved, report.begun_ns = int(counts.starved), int(counts.begun_ns)
        report.late = feed.late()
        report.drift = counts.drift_ns / SECOND
        report.seconds = max(0, counts.last_ns - counts.begun_ns) / SECOND
        report.broken, report.steps = self.recording.broken, self.recording.steps

    # ---- writing ----

    def write(self, path: str | Path) -> Sent:
        """Write what would be sent as a capture, pcap or pcapng by its name, at the times at which it would leave."""
        if self.pace.loop == 0:
            raise ReplayError(f"{path}: rounds without end fill any disk; say how many")
        for file in self.recording.files:
            if file != "-" and Path(path).exists() and Path(path).samefile(file):
                raise ReplayError(f"{path} is what is replayed; write into another file")
        packets = self._written()
        first = next(packets)  # if there is none, there is no file either
        self.report.packets = write_datagrams(path, chain([first], packets))
        self.report.broken, self.report.steps = self.recording.broken, self.recording.steps
        return self.report

    def _written(self) -> Iterator[tuple[int, Endpoint, Endpoint, bytes]]:
        schedule = Schedule(self.pace)
        zero: int | None = None
        for number in self.pace.rounds():
            self.report.rounds = number + 1
            for packet in self._datagrams():
                zero = (packet.time_ns or 0) if zero is None else zero
                due = schedule.base + schedule.due(packet.at_ns, len(packet.data))
                self.report.bytes += len(packet.data)
                self.report.seconds = due / SECOND
                source = self.route.source(packet.source) or packet.source
                yield zero + due, source, self.route.target(packet.target), packet.data
            schedule.next_round()


def _batch(rows: list[int], data: list[bytes], last: int) -> _Batch:
    """As the core has it: pyddsi_replay_packet."""
    count = len(data)
    packed = struct.pack("=" + "QQII" * count, *rows)
    joined = b"".join(data)
    return _Batch(
        ffi.from_buffer("pyddsi_replay_packet[]", packed),
        ffi.from_buffer("uint8_t[]", joined),
        count,
        len(packed) + len(joined),
        last,
    )
