"""
What a capture holds: `Info`, and the findings that a person can act on. _found.py makes it, of what one process has read or many.

A finding says what looks wrong, where it shows (frame numbers as Wireshark has them), and the filter that shows it in tshark
with the dissector of docs/how-to/wireshark.md. What is concluded of losses follows docs/inside/capture.md: a capture shows what
senders sent, so

    a gap that nobody fills      was lost before the place of capture, or by the capturing itself
    a repeat without a gap       was lost behind it, discarded by a receiver, or not acknowledged in time
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyddsi.capture._scan import Problem

__all__ = ["Conduit", "Finding", "Info", "Peer", "Resource", "Session", "least", "moment"]

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Peer:
    """An endpoint that sent packets of the protocol."""

    endpoint: str
    id: str
    """What it called itself, in hexadecimal digits; empty if it did not."""
    extensions: bool
    packets: int
    bytes: int
    first_ns: int | None
    last_ns: int | None


@dataclass(frozen=True, slots=True)
class Session:
    """What two endpoints agreed on."""

    opener: str
    acceptor: str
    seq_bits: int
    open_ns: int | None
    accept_ns: int | None
    end_ns: int | None
    end: str
    """capture_end, closed, expired, moved, again, refused or evicted"""
    reason: int
    margin_us: int | None
    """The least distance of a silence to the lease."""
    until_ns: int | None
    """Until when it was followed: when it ended, or when its recording did."""
    open_file: int
    """Where the frame open_packet is: a place in Info.files."""
    open_packet: int | None
    file: int
    """Where the frame end_packet is."""
    end_packet: int | None
    opener_lease_ms: int | None
    acceptor_lease_ms: int | None
    opener_silence_us: int
    acceptor_silence_us: int

    @property
    def quiet(self) -> tuple[str, int, int] | None:
        """Who was nearest to its lease, or over it, the longest silence of that one, and the lease, both in microseconds."""
        sides = [
            (ms * 1000 - us, peer, us, ms * 1000)
            for peer, us, ms in (
                (self.opener, self.opener_silence_us, self.opener_lease_ms),
                (self.acceptor, self.acceptor_silence_us, self.acceptor_lease_ms),
            )
            if ms
        ]
        return min(sides)[1:] if sides and self.accept_ns is not None else None


@dataclass(frozen=True, slots=True)
class Conduit:
    """A flow of numbered messages: from a sender, on a conduit, to one receiver or a group."""

    source: str
    destination: str
    conduit: int
    reliable: bool
    multicast: bool
    messages: int
    samples: int
    bytes: int
    repeats: int
    pre_sync: int
    gaps: int
    missing: int
    fills: int
    nacks: int
    resets: int
    ambiguous: int
    unclear: int
    """Numbers that may have gone by in silences, behind which it is unclear: as many as go by in such a time at its own pace."""
    answer_us: tuple[int, int] | None
    """Median and 99th percentile of the time to an answer; None: there was none."""
    delivery_us: tuple[int, int] | None
    """The same of the time from the first transmission to the first acknowledgement."""
    gap_file: int
    """Where the frame gap_packet is: a place in Info.files."""
    gap_packet: int | None
    repeat_file: int
    repeat_packet: int | None


@dataclass(frozen=True, slots=True)
class Resource:
    """What was published under a number or a name."""

    rid: int | None
    """None: under its name alone (WDATA). Of several recordings, which may have given it other numbers, the first one's."""
    uri: str
    messages: int
    bytes: int
    repeats: int
    rate: float
    """Messages a second, over the whole capture; repeats are not counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    Something that looks wrong.

    kind: a word for programs: repeats, gaps, expired, ...
    severity: "error", "warning" or "note"
    text: what it is, and what it means
    count: how often
    packets: numbers of frames that show it, the first of them
    filter: what shows it in tshark or Wireshark
    files: where each of the frames is: places in Info.files
    """

    kind: str
    severity: str
    text: str
    count: int
    packets: tuple[int, ...] = ()
    filter: str = ""
    files: tuple[int, ...] = ()


@dataclass(slots=True)
class Info:
    """What a capture holds. `lines()` says it to people, `to_dict()` to programs."""

    files: tuple[str, ...]
    format: str = ""
    bytes: int = 0
    frames: int = 0
    """Frames captured, also those of other programs."""
    packets: int = 0
    """Packets of the protocol: datagrams, and frames of TCP streams."""
    messages: int = 0
    """Messages in them; markers are not counted."""
    kinds: dict[str, int] = field(default_factory=dict)
    """The same by kind, and the markers."""
    first_ns: int | None = None
    last_ns: int | None = None
    foreign: dict[str, int] = field(default_factory=dict)
    """Frames that hold something else, by what that is."""
    malformed: int = 0
    repeats: int = 0
    """Samples that were seen before."""
    pre_sync: int = 0
    """Of these, those that were repeated because they came before the first SYNCH."""
    gaps: int = 0
    """Samples that were passed over; some of them may have come later (fills)."""
    fills: int = 0
    missing: int = 0
    """Samples that were passed over and never came."""
    expiries: int = 0
    events: dict[str, int] = field(default_factory=dict)
    peers: list[Peer] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    conduits: list[Conduit] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the first frame to the last."""
        return (
            0.0
            if self.first_ns is None or self.last_ns is None
            else (self.last_ns - self.first_ns) / SECOND
        )

    def file_of(self, finding: Finding) -> str:
        """The name of the file that a finding's first frame is in, if there are several; else nothing."""
        return self.files[finding.files[0]] if finding.files and len(self.files) > 1 else ""

    def frames_of(self, finding: Finding) -> str:
        """The frames that show a finding, and where there are several files, which of them each is in: "frame 7 of run_2.pcap"."""
        packets = [f"{number}" for number in finding.packets]
        if len(self.files) == 1 or len(finding.files) != len(packets):
            return f"frame {', '.join(packets)}" if packets else ""
        places: dict[int, list[str]] = {}
        for file, number in zip(finding.files, packets, strict=True):
            places.setdefault(file, []).append(number)
        return "; ".join(
            f"frame {', '.join(numbers)} of {self.files[file]}" for file, numbers in places.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        from dataclasses import asdict  # noqa: PLC0415 - only then

        found = asdict(self)
        found["problems"] = [problem._asdict() for problem in self.problems]
        found["seconds"] = self.seconds
        return found

    def lines(self) -> list[str]:
        """It in ten lines or so, and one for each finding."""
        from pyddsi.capture._words import lines  # noqa: PLC0415 - only for people

        return lines(self)


def least(place: int) -> int:
    """The least value of a histogram's place in microseconds; see csrc/base/histogram.h."""
    if place < 16:
        return place
    return (16 + place % 16) << (place // 16 - 1)


def moment(time_ns: int | None) -> str:
    """A time for people."""
    if time_ns is None:
        return "-"
    seconds, rest = divmod(time_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d} UTC"
